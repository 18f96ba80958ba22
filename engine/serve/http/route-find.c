/* route-find.c: looks a request up in the table of routes. See routes.h. */
#include <stdio.h>
#include <string.h>

#include "serve/routes.h"

static bool has_path(const struct route *route, const char *path)
{
    size_t length = strlen(route->path);
    if (length > 1 && route->path[length - 1] == '*') return strncmp(route->path, path, length - 1) == 0;
    return strcmp(route->path, path) == 0;
}

const struct route *route_find(const char *method, const char *path, char methods[64])
{
    size_t used = 0;
    methods[0] = '\0';
    if (strcmp(method, "HEAD") == 0) method = "GET";
    for (const struct route *route = all_routes; route->method; route++) {
        if (!has_path(route, path)) continue;
        if (strcmp(route->method, method) == 0) return route;
        if (!strstr(methods, route->method) && used < 48)
            used += (size_t)snprintf(methods + used, 64 - used, "%s%s", used ? ", " : "", route->method);
    }
    return NULL;
}
