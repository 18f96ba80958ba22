/* request-copy.h: a copy of a request that has to wait before the queue can have it. */
#ifndef ENGINE_SERVE_MODELS_REQUEST_COPY_H
#define ENGINE_SERVE_MODELS_REQUEST_COPY_H

#include "engine.h"

/* A copy with all that the request points to, except its grammar and its user, in one piece for free(); NULL: out of
 * memory. */
struct engine_request *request_copy(const struct engine_request *request);

#endif
