/* pooled.c: see pooled.h. */
#include "commands/pooled.h"

#include <stdlib.h>

#include "io/messages.h"
#include "options/open.h"

#define WAITING_EACH 8 /* requests that wait, for each of --parallel */

/* What a request's events belong to. */
struct pooled_text {
    struct pooled *pooled;
    size_t number;
};

int pooled_open(struct pooled *p, uint32_t n_context)
{
    struct engine_context_options options;
    const struct engine_queue_options queue = {.struct_size = sizeof queue,
                                               .n_waiting = p->arguments->n_parallel * WAITING_EACH};
    int32_t offload;
    context_options(p->arguments, &options, &offload);
    if (!options.cache_type)
        options.cache_type = "f32"; /* a decoder, too, needs it only while it reads a text */
    int status = embed_texts_check(p->texts, options.n_context ? options.n_context : n_context,
                                   p->arguments->truncate);
    if (status) return status;
    uint32_t longest = p->texts->n_longest < INT32_MAX ? (uint32_t)p->texts->n_longest : INT32_MAX;
    if (options.n_context == 0) options.n_context = longest;
    options.n_sequences = p->arguments->n_parallel;
    if (options.n_sequences > p->texts->count) options.n_sequences = (uint32_t)p->texts->count;
    p->running = calloc(p->texts->count, sizeof *p->running);
    if (!p->running) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
    status = create_context(p->arguments, p->model, &options, &p->context);
    return status ? status : engine_queue_create(p->context, &queue, &p->queue);
}

static void take_event(void *user, const struct engine_event *event)
{
    const struct pooled_text *text = user;
    struct pooled *p = text->pooled;
    if (event->kind != ENGINE_EVENT_DONE) return;
    p->n_done++;
    if (p->status) return;
    if (event->embedding)
        p->status = p->take(p->user, text->number, event->embedding, event->n_rows, event->n_embd);
    else if (event->reason == ENGINE_DONE_FAILED)
        p->status = command_error(event->status, "%s", event->message);
    else
        p->status =
            command_error(ENGINE_ERROR, "text %zu does not fit into the cache; enlarge it with --cache-size",
                          text->number + 1);
}

/* Fills the queue, as far as it lets requests wait. */
static int submit_some(struct pooled *p)
{
    size_t most = (size_t)p->arguments->n_parallel * WAITING_EACH;
    int status = ENGINE_OK;
    while (!status && p->n_submitted - p->n_done < most && p->n_submitted < p->texts->count) {
        const struct embed_text *text = &p->texts->items[p->n_submitted];
        p->running[p->n_submitted] = (struct pooled_text){p, p->n_submitted};
        const struct engine_request request = {
            .struct_size = sizeof request,
            .tokens = text->ids.ids,
            .n_tokens = text->ids.count,
            .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
            .event = take_event,
            .user = &p->running[p->n_submitted],
            .pooling = p->pooling,
            .token_types = text->types,
        };
        status = engine_queue_submit(p->queue, &request, NULL);
        p->n_submitted += !status;
    }
    return status;
}

int pooled_run(struct pooled *p)
{
    size_t total = p->texts->count;
    while (!p->status && !interrupted && p->n_done < total) {
        int status = submit_some(p);
        if (!status) status = engine_queue_run(p->queue, ENGINE_QUEUE_STEP);
        if (!p->status) p->status = status;
        count_progress(p->verb, p->n_done, total, "texts");
    }
    count_progress(p->verb, total, total, "texts");
    return p->status;
}

void pooled_close(struct pooled *p)
{
    engine_queue_destroy(p->queue);
    engine_context_destroy(p->context);
    free(p->running);
}
