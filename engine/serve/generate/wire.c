/* wire.c: see wire.h. */
#include "serve/generate/wire.h"

#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "serve/server.h"

#define DUMP (JSON_COMPACT | JSON_REAL_PRECISION(9))

void exchange_answer_json(struct exchange *exchange, json_t *answer)
{
    char *text = answer ? json_dumps(answer, DUMP) : NULL;
    json_decref(answer);
    if (text && !exchange_lacks_memory(exchange))
        exchange_answer_bytes(exchange, 200, "application/json", text, strlen(text));
    else
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (an answer)");
    free(text);
}

struct api_error api_error_none(const struct exchange *exchange)
{
    const struct server *server = exchange_server(exchange);
    return (struct api_error){.lenient = server->lenient};
}

void api_error_answer(struct exchange *exchange, const struct api_error *error)
{
    if (error->status == 429)
        exchange_busy(exchange);
    else if (error->status < 500 &&
             exchange_lacks_memory(exchange)) /* what seems wrong may be what is lost */
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (a request)");
    else if (error->code && strcmp(error->code, API_ERROR_NO_THREADS) == 0)
        exchange_answer(exchange, error->status,
                        json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:[s]}}}", "type", "error", "error", "type",
                                  "invalid_request_error", "message", error->message, "details", "error_code",
                                  error->code, "unsupported", error->param));
    else
        exchange_fail(exchange, error->status, error->status < 500 ? "invalid_request_error" : "server_error",
                      error->code, error->param[0] ? error->param : NULL, "%s", error->message);
}

static int add(struct text_buffer *buffer, const char *text)
{
    return text_add(buffer, &(struct engine_string){text, strlen(text)});
}

void sse_begin(struct exchange *exchange)
{
    static const char comment[] = ": ping\n\n", event[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    exchange_stream(exchange, "text/event-stream", exchange_is_anthropic(exchange) ? event : comment);
}

/* In one piece, so that no other event can come between. Where memory has run out for one, the stream is
 * cut. */
void sse_send(struct exchange *exchange, const char *name, json_t *data)
{
    struct text_buffer event = {0};
    char *text = data ? json_dumps(data, DUMP) : NULL;
    json_decref(data);
    int failed = text && !exchange_lacks_memory(exchange) ? 0 : 1;
    if (!failed && name) failed = add(&event, "event: ") || add(&event, name) || add(&event, "\n");
    if (!failed) failed = add(&event, "data: ") || add(&event, text) || add(&event, "\n\n");
    if (failed)
        exchange_cut(exchange);
    else
        exchange_send(exchange, event.data, event.size);
    free(event.data);
    free(text);
}

void sse_done(struct exchange *exchange)
{
    static const char done[] = "data: [DONE]\n\n";
    exchange_send(exchange, done, strlen(done));
}
