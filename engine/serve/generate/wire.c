/* wire.c: see wire.h. */
#include "serve/generate/wire.h"

#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "serve/server.h"

#define DUMP (JSON_COMPACT | JSON_REAL_PRECISION(9))

void wire_answer(struct exchange *exchange, json_t *answer)
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

struct mistake wire_mistake(const struct exchange *exchange)
{
    const struct server *server = exchange_server(exchange);
    return (struct mistake){.lenient = server->lenient};
}

void wire_fail(struct exchange *exchange, const struct mistake *mistake)
{
    if (mistake->status == 429)
        exchange_busy(exchange);
    else if (mistake->status < 500 &&
             exchange_lacks_memory(exchange)) /* what seems wrong may be what is lost */
        exchange_fail(exchange, OUT_OF_MEMORY_STATUS, "server_error", NULL, NULL,
                      "out of memory (a request)");
    else if (mistake->code && strcmp(mistake->code, MISTAKE_NO_THREADS) == 0)
        exchange_answer(exchange, mistake->status,
                        json_pack("{s:s, s:{s:s, s:s, s:{s:s, s:[s]}}}", "type", "error", "error", "type",
                                  "invalid_request_error", "message", mistake->message, "details",
                                  "error_code", mistake->code, "unsupported", mistake->param));
    else
        exchange_fail(exchange, mistake->status,
                      mistake->status < 500 ? "invalid_request_error" : "server_error", mistake->code,
                      mistake->param[0] ? mistake->param : NULL, "%s", mistake->message);
}

static int add(struct text_buffer *buffer, const char *text)
{
    return text_add(buffer, &(struct engine_string){text, strlen(text)});
}

void wire_stream(struct exchange *exchange)
{
    static const char comment[] = ": ping\n\n", event[] = "event: ping\ndata: {\"type\":\"ping\"}\n\n";
    exchange_stream(exchange, "text/event-stream", exchange_is_anthropic(exchange) ? event : comment);
}

/* In one piece, so that no other event can come between. Where memory has run out for one, the stream is
 * cut. */
void wire_event(struct exchange *exchange, const char *name, json_t *data)
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

void wire_done(struct exchange *exchange)
{
    static const char done[] = "data: [DONE]\n\n";
    exchange_send(exchange, done, strlen(done));
}
