/* request-check.h: requests whose end two programs could see in different places. */
#ifndef ENGINE_SERVE_HTTP_REQUEST_CHECK_H
#define ENGINE_SERVE_HTTP_REQUEST_CHECK_H

#include <stdbool.h>

#include "serve/http/exchange.h"

/* Refuses a request that is ambiguous: several lengths, a length and chunks, another transfer coding, several hosts, a
 * header whose name is not a token. It has then been answered, and its connection is closed, so that nothing after it is
 * taken for a request. */
bool request_check(struct exchange *exchange, const char *version);

#endif
