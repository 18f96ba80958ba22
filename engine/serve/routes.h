/* routes.h: which function answers which request. routes.c has the table. */
#ifndef ENGINE_SERVE_ROUTES_H
#define ENGINE_SERVE_ROUTES_H

#include "serve/http/exchange.h"

enum route_flags {
    /* The body has to be a JSON object; 400 otherwise. */
    ROUTE_JSON = 1,
    /* With ROUTE_JSON: its field "model" names a model, the first one if it is absent; the handler runs once that is
     * loaded. */
    ROUTE_MODEL = 2,
    /* Needs no key. */
    ROUTE_OPEN = 4,
    /* Never waits: has a worker thread of its own, so that it is answered however busy others are. */
    ROUTE_QUICK = 8,
    /* Errors have the form of Anthropic's API. */
    ROUTE_ANTHROPIC = 16
};

struct route {
    const char *method; /* "GET" also answers HEAD */
    const char *path;   /* "/v1/models"; with a * at its end: whatever begins so */
    void (*run)(struct exchange *exchange);
    unsigned flags; /* enum route_flags */
};
extern const struct route all_routes[]; /* terminated by one without a method */

/* The route of a request (http/route-find.c). NULL: there is none; *methods then has the methods that the path knows ("GET, POST"), "" if it
 * is unknown. */
const struct route *route_find(const char *method, const char *path, char methods[64]);

#endif
