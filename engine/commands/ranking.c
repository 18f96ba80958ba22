/* ranking.c: see ranking.h. */
#include "commands/ranking.h"

#include <stdlib.h>
#include <string.h>

#include "commands/pooled.h"
#include "io/messages.h"
#include "options/open.h"

/* Keeps a text's scores. */
static int take_scores(void *user, size_t number, const float *scores, size_t n_rows, size_t n)
{
    struct ranking *r = user;
    memcpy(r->scores + number * r->info.n_labels, scores, n_rows * n * sizeof *scores);
    return ENGINE_OK;
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
    struct pooled pooled = {.arguments = arguments,
                            .model = r->model,
                            .texts = &r->texts,
                            .pooling = ENGINE_POOLING_RANK,
                            .verb = "score",
                            .take = take_scores,
                            .user = r};
    r->texts.n_most = arguments->n_context ? arguments->n_context : r->info.n_context;
    int status = embed_texts_read(arguments, r->model, &r->texts);
    if (status) return status;
    r->scores = calloc(r->texts.count * r->info.n_labels, sizeof *r->scores);
    if (!r->scores) return command_error(ENGINE_ERROR_MEMORY, "out of memory (scores)");
    status = pooled_open(&pooled, r->info.n_context);
    if (!status) status = pooled_run(&pooled);
    pooled_close(&pooled);
    return status;
}

void ranking_close(struct ranking *r)
{
    free(r->scores);
    embed_texts_free(&r->texts);
    engine_model_close(r->model);
    engine_close(r->engine);
}
