/* pooled.h: texts to vectors, many at once by the queue: what `engine embed`, `rerank` and `classify` share. */
#ifndef ENGINE_COMMANDS_POOLED_H
#define ENGINE_COMMANDS_POOLED_H

#include "commands/embed-input.h"

struct pooled {
    /* Set by the caller. */
    const struct arguments *arguments;
    struct engine_model *model;
    struct embed_texts *texts;
    uint32_t pooling; /* enum engine_pooling; may be set after pooled_open */
    const char *verb; /* of the progress: "embed" */
    /* Takes a text's vectors, [n_rows, n]; texts come in any order. */
    int (*take)(void *user, size_t number, const float *values, size_t n_rows, size_t n);
    void *user;
    /* Set by pooled_open. */
    struct engine_context *context;
    struct engine_queue *queue;
    /* Of the run. */
    struct pooled_text *running; /* [texts->count] */
    size_t n_submitted, n_done;
    int status;
};

/* Makes the context and the queue, with room for the longest text, or for --ctx-size positions; refuses longer
 * texts. n_context: the model's longest. */
int pooled_open(struct pooled *pooled, uint32_t n_context);
/* Runs all texts, until an error or an interruption. */
int pooled_run(struct pooled *pooled);
/* Frees what pooled_open has made; `pooled` may be zeros. */
void pooled_close(struct pooled *pooled);

#endif
