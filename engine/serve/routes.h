/* routes.h: which function answers which request. routes.c has the table. */
#ifndef ENGINE_SERVE_ROUTES_H
#define ENGINE_SERVE_ROUTES_H

#include "serve/http/exchange.h"

enum route_flags {
    ROUTE_JSON = 1, /* the body has to be an object of JSON; 400 otherwise */
    ROUTE_MODEL =
        2, /* with ROUTE_JSON: its field "model" names a model, the first one if it is absent; the handler
                            runs once that is loaded */
    ROUTE_OPEN = 4, /* needs no key */
    ROUTE_QUICK =
        8, /* never waits: has a worker thread of its own, so that it is answered however busy others are */
    ROUTE_ANTHROPIC = 16 /* errors have the form of Anthropic's API */
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
