/* embedding.h: the small matrices behind a text's pooled state. The host computes them, with float32 weights
 * and double sums. */
#ifndef ENGINE_EMBEDDING_EMBEDDING_H
#define ENGINE_EMBEDDING_EMBEDDING_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"

typedef double activation_function(double x);

/* ---- Dense steps: what sentence-transformers calls Dense: matrices behind the pooling, in models such as
 * EmbeddingGemma, LaBSE and GTR ---- */

#define DENSE_FIRST 2 /* tensors are called dense_2 and so on, as llama.cpp's converter does it */
#define MAX_DENSE   8

/* x = activation(weight x + bias) */
struct dense_step {
    uint32_t n_in, n_out;
    activation_function *activation;
    float *weight, *bias; /* [n_out, n_in]; [n_out] or NULL */
};

struct dense {
    uint32_t n_steps; /* 0: the model has none */
    uint32_t n_out;   /* numbers of an embedding; without steps those of a state */
    struct dense_step steps[MAX_DENSE];
    double *between[2]; /* [the most that a step gives], scratch of dense_apply */
};

/* Fills in *dense except the weights, which are NULL. Errors of tensors that do not fit each other. */
int dense_describe(const struct engine_model *model, struct dense *dense);

/* The steps with their weights; *dense is NULL if the model has none. Free it with dense_free. */
int dense_create(const struct engine_model *model, struct dense **dense);
void dense_free(struct dense *dense);

/* state [n_in of the first step], values [n_out]. One thread at a time. */
void dense_apply(const struct dense *dense, const double *state, float *values);

/* ---- Classification heads: what a model makes of a text's pooled state to score labels. BERT's has two
 * matrices, a decoder's one. ---- */

/* Of a model with tensors of the names cls and cls.output:
 *
 *   x = activation(cls x + cls.bias); x = norm(x), if there is a cls.norm; scores = cls.output x +
 *   cls.output.bias
 *
 * Either matrix may be missing, but not both. */
struct head {
    uint32_t n_embd;       /* of the state that it takes */
    uint32_t n_dense;      /* rows of cls; 0: there is none */
    uint32_t n_labels;     /* scores that it gives */
    uint32_t pooling;      /* enum engine_pooling, MEAN to LAST: the state that it takes */
    uint32_t label_scores; /* enum engine_label_scores */
    activation_function *activation;
    float *dense, *dense_bias; /* [n_dense, n_embd], [n_dense] or NULL */
    float *norm, *norm_bias;   /* [n_dense] or NULL */
    double epsilon;
    float *output,
        *output_bias; /* [n_labels, n_dense or n_embd], [n_labels] or NULL; output NULL: there is none */
    double *between;  /* [n_dense], scratch of head_apply */
};

/* Fills in *head except the weights, which are NULL. False: the model has no head, or *status says what is
 * wrong with it. */
bool head_describe(const struct engine_model *model, struct head *head, int *status);

/* The head with its weights; *head is NULL if the model has none. Free it with head_free. */
int head_create(const struct engine_model *model, struct head **head);
void head_free(struct head *head);

/* state [n_embd], scores [n_labels] before any softmax. One thread at a time. */
void head_apply(const struct head *head, const double *state, float *scores);

#endif
