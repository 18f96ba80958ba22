/* answer-json.c: JSON as answers and as server-sent events (as the HTML standard defines them). It also notes
 * when memory runs out for JSON: Jansson's NULL then stands in for a value or leaves a field out, so what was
 * made meanwhile, by any thread, is not sent. */
#include "serve/http/http.h"

#include <stdlib.h>
#include <string.h>

#include "commands/common.h"

/* ---- Memory ---- */

static _Atomic uint64_t n_lost;

uint64_t json_memory_lost(void)
{
    return n_lost;
}

void json_memory_lose(void)
{
    n_lost++;
}

static void *json_allocate(size_t size)
{
    void *memory = malloc(size);
    if (!memory) n_lost++;
    return memory;
}

void json_memory_begin(void)
{
    json_set_alloc_funcs(json_allocate, free);
}

/* ---- Answers ---- */

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

/* ---- Server-sent events ---- */

static int sse_add(struct text_buffer *buffer, const char *text)
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
    if (!failed && name)
        failed = sse_add(&event, "event: ") || sse_add(&event, name) || sse_add(&event, "\n");
    if (!failed) failed = sse_add(&event, "data: ") || sse_add(&event, text) || sse_add(&event, "\n\n");
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
