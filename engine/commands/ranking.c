/* ranking.c: see ranking.h. */
#include "commands/ranking.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"

#define WAITING_EACH 8 /* requests that wait, for each of --parallel */

struct scored {
    struct scorer *scorer;
    float *scores; /* [n_labels] */
};

struct scorer {
    const struct arguments *arguments;
    struct ranking *ranking;
    struct engine_queue *queue;
    struct scored *scored; /* [texts.count] */
    size_t n_submitted, n_done;
    int status;
};

static void take_event(void *user, const struct engine_event *event)
{
    struct scored *scored = user;
    struct scorer *s = scored->scorer;
    if (event->kind != ENGINE_EVENT_DONE) return;
    s->n_done++;
    if (event->embedding)
        memcpy(scored->scores, event->embedding, event->n_embd * sizeof *scored->scores);
    else if (!s->status)
        s->status = event->reason == ENGINE_DONE_FAILED
                        ? command_error(event->status, "%s", event->message)
                        : command_error(ENGINE_ERROR, "text %zu was not scored: the cache has no room for it",
                                        (size_t)(scored - s->scored) + 1);
}

/* Fills the queue, as far as it lets requests wait. */
static int submit_some(struct scorer *s)
{
    const struct embed_texts *texts = &s->ranking->texts;
    size_t most = (size_t)s->arguments->n_parallel * WAITING_EACH;
    int status = ENGINE_OK;
    while (!status && s->n_submitted - s->n_done < most && s->n_submitted < texts->count) {
        const struct embed_text *text = &texts->items[s->n_submitted];
        struct scored *scored = &s->scored[s->n_submitted];
        *scored = (struct scored){s, s->ranking->scores + s->n_submitted * s->ranking->info.n_labels};
        const struct engine_request request = {
            .struct_size = sizeof request,
            .tokens = text->ids.ids,
            .n_tokens = text->ids.count,
            .flags = ENGINE_REQUEST_NO_TOKENS | ENGINE_REQUEST_NO_TEXT,
            .event = take_event,
            .user = scored,
            .pooling = ENGINE_POOLING_RANK,
            .token_types = text->types,
        };
        status = engine_queue_submit(s->queue, &request, NULL);
        s->n_submitted += !status;
    }
    return status;
}

static int run_queue(struct scorer *s)
{
    size_t total = s->ranking->texts.count;
    while (!s->status && !interrupted && s->n_done < total) {
        int status = submit_some(s);
        if (!status) status = engine_queue_run(s->queue, ENGINE_QUEUE_STEP);
        if (!s->status) s->status = status;
        count_progress("score", s->n_done, total, "texts");
    }
    count_progress("score", total, total, "texts");
    return s->status;
}

static int score_texts(const struct arguments *arguments, struct ranking *r)
{
    struct scorer s = {.arguments = arguments, .ranking = r};
    struct engine_context_options options;
    const struct engine_queue_options queue = {.struct_size = sizeof queue,
                                               .n_waiting = arguments->n_parallel * WAITING_EACH};
    struct engine_context *context = NULL;
    int32_t offload;
    context_options(arguments, &options, &offload);
    int status = embed_texts_check(&r->texts, options.n_context ? options.n_context : r->info.n_context);
    if (options.n_context == 0) options.n_context = (uint32_t)r->texts.n_longest;
    options.n_sequences = arguments->n_parallel;
    if (options.n_sequences > r->texts.count) options.n_sequences = (uint32_t)r->texts.count;
    r->scores = calloc(r->texts.count * r->info.n_labels, sizeof *r->scores);
    s.scored = calloc(r->texts.count, sizeof *s.scored);
    if (!status && (!r->scores || !s.scored))
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (scores)");
    if (!status) status = create_context(arguments, r->model, &options, &context);
    if (!status) status = engine_queue_create(context, &queue, &s.queue);
    if (!status) status = run_queue(&s);
    engine_queue_destroy(s.queue);
    engine_context_destroy(context);
    free(s.scored);
    return status;
}

int ranking_open(const struct arguments *arguments, struct ranking *r)
{
    *r = (struct ranking){.info = {.struct_size = sizeof r->info}};
    int status = open_engine(arguments, &r->engine);
    if (!status) status = open_model(arguments, r->engine, &r->model);
    if (!status) status = engine_model_embedding_info(r->model, &r->info);
    if (!status && r->info.n_labels == 0)
        status = command_error(ENGINE_ERROR_UNSUPPORTED,
                               "%s: the model has no classification head (cls.output.weight), so it gives no "
                               "scores",
                               path_of_model(arguments, r->engine));
    return status;
}

int ranking_run(const struct arguments *arguments, struct ranking *r)
{
    int status = embed_texts_read(arguments, r->model, &r->texts);
    return status ? status : score_texts(arguments, r);
}

void ranking_close(struct ranking *r)
{
    free(r->scores);
    embed_texts_free(&r->texts);
    engine_model_close(r->model);
    engine_close(r->engine);
}
