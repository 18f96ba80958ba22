/* dense.h: what sentence-transformers calls Dense: matrices behind the pooling of a text's states, in models such as
 * EmbeddingGemma, LaBSE and GTR. */
#ifndef ENGINE_EMBEDDING_DENSE_H
#define ENGINE_EMBEDDING_DENSE_H

#include <stdint.h>

#include "embedding/matrices.h"

#define DENSE_FIRST 2 /* tensors are called dense_2 and so on, as llama.cpp's converter does it */
#define DENSE_MOST  8

/* x = activation(weight x + bias) */
struct dense_step {
    uint32_t n_in, n_out;
    activation_function *activation;
    float *weight, *bias; /* [n_out, n_in]; [n_out] or NULL */
};

struct dense {
    uint32_t n_steps; /* 0: the model has none */
    uint32_t n_out;   /* numbers of an embedding; without steps those of a state */
    struct dense_step steps[DENSE_MOST];
    double *between[2]; /* [the most that a step gives], scratch of dense_apply */
};

/* Fills in *dense but for the weights, which are NULL. Errors of tensors that do not fit each other. */
int dense_describe(const struct engine_model *model, struct dense *dense);

/* The steps with their weights; *dense is NULL if the model has none. Free it with dense_free. */
int dense_create(const struct engine_model *model, struct dense **dense);
void dense_free(struct dense *dense);

/* state [n_in of the first step], values [n_out]. One thread at a time. */
void dense_apply(const struct dense *dense, const double *state, float *values);

#endif
