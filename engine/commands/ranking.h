/* ranking.h: texts, or pairs of them, to scores of a model's classification head: what `engine rerank` and `engine
 * classify` share. */
#ifndef ENGINE_COMMANDS_RANKING_H
#define ENGINE_COMMANDS_RANKING_H

#include "commands/embed-input.h"

struct ranking {
    struct engine *engine;
    struct engine_model *model;
    struct embed_texts texts;
    struct engine_embedding_info info;
    float *scores; /* [texts.count, info.n_labels], before any softmax */
};

/* Opens the model. ENGINE_ERROR_UNSUPPORTED: it has no classification head. */
int ranking_open(const struct arguments *arguments, struct ranking *ranking);
/* Reads the texts of the arguments, as pairs with --query, and scores them. */
int ranking_run(const struct arguments *arguments, struct ranking *ranking);
void ranking_close(struct ranking *ranking);

#endif
