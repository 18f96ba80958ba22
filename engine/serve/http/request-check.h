/* request-check.h: requests whose end two programs could see in different places. */
#ifndef ENGINE_SERVE_HTTP_REQUEST_CHECK_H
#define ENGINE_SERVE_HTTP_REQUEST_CHECK_H

#include <microhttpd.h>
#include <stdbool.h>

#include "serve/http/exchange.h"

/* Refuses a request that is ambiguous: several lengths, a length and chunks, another transfer coding, several hosts, a
 * header whose name is not a token, a header that goes on in the next line, headers that end without an empty line. It has
 * then been answered, and its connection is closed, so that nothing after it is taken for a request. `method` and
 * `version` are libmicrohttpd's own texts. */
bool request_check(struct exchange *exchange, struct MHD_Connection *connection, const char *method,
                   const char *version);

/* Answers a request that is not in order, and has its connection closed. True. */
bool request_refuse(struct exchange *exchange, unsigned status, const char *message);

#endif
