/* pooled.h: texts to vectors, many at once by the queue: what `engine embed`, `rerank` and `classify`
 * share. */
#ifndef ENGINE_COMMANDS_POOLED_H
#define ENGINE_COMMANDS_POOLED_H

#include <jansson.h>

#include "prompts/prompt.h"

/* ---- The texts, as tokens ---- */

struct embed_text {
    json_t *id;    /* as given; NULL: none */
    uint64_t line; /* of the file, from 1; 0: from the command line */
    struct token_list ids;
    int32_t *types;            /* [ids.count] of a pair of texts; NULL: all 0 */
    struct engine_string text; /* as given, with --query; else empty */
};

struct embed_texts {
    /* Set by the caller. */
    bool pairs;               /* the tokens of --tokens-file are those of two texts together */
    size_t n_most;            /* tokens that the model reads, for --truncate */
    struct embed_text *items; /* [count] */
    size_t count, capacity;
    size_t n_longest;         /* tokens of the longest */
    struct token_list around; /* what the tokenizer puts around a text */
};

/* Reads the texts of the command line, of -f or of --tokens-file, and finds their tokens, with the special
 * ones that the model wants around them; with --query, those of the query and the text. A mistake in a file
 * is reported with its line. */
int embed_texts_read(const struct arguments *arguments, struct engine_model *model,
                     struct embed_texts *texts);
/* Checks that each text fits into n_context tokens; if `cuts`, cuts off the end of the text's own tokens
 * instead. */
int embed_texts_check(struct embed_texts *texts, uint32_t n_context, bool cuts);
void embed_texts_free(struct embed_texts *texts);

/* ---- Their vectors ---- */

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

/* Makes the context and the queue, with room for the longest text, or for --ctx-size positions; refuses
 * longer texts. n_context: the model's longest. */
int pooled_open(struct pooled *pooled, uint32_t n_context);
/* Runs all texts, until an error or an interruption. */
int pooled_run(struct pooled *pooled);
/* Frees what pooled_open has made; `pooled` may be zeros. */
void pooled_close(struct pooled *pooled);

#endif
