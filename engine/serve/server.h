/* server.h: what all requests share. */
#ifndef ENGINE_SERVE_SERVER_H
#define ENGINE_SERVE_SERVER_H

#include <stdatomic.h>

#include "commands/arguments.h"
#include "commands/sampling.h"
#include "engine.h"

struct http;
struct lenient;
struct metrics;
struct models;

struct server {
    const struct arguments *arguments;
    struct engine *engine;
    struct sampling sampling; /* the command line's, with which requests begin */
    struct models *models;
    struct http *http;
    struct metrics *metrics;
    struct lenient *lenient; /* what requests have that is ignored; NULL: --strict */
    double began;            /* seconds_now */
    atomic_bool is_lost;     /* see life_end */
    atomic_bool is_ending;   /* no new requests: /health says so */
    atomic_bool is_looking;  /* a request for attention weights is being computed, one at a time */
};

#endif
