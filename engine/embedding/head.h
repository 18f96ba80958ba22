/* head.h: a classification head: what a model makes of a text's pooled state to score labels. BERT's has two matrices,
 * a decoder's one. */
#ifndef ENGINE_EMBEDDING_HEAD_H
#define ENGINE_EMBEDDING_HEAD_H

#include <stdbool.h>
#include <stdint.h>

#include "embedding/matrices.h"

/* Of a model with tensors of the names cls and cls.output:
 *
 *   x = activation(cls x + cls.bias); x = norm(x), if there is a cls.norm; scores = cls.output x + cls.output.bias
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

/* Fills in *head but for the weights, which are NULL. False: the model has no head, or *status says what is wrong with
 * it. */
bool head_describe(const struct engine_model *model, struct head *head, int *status);

/* The head with its weights; *head is NULL if the model has none. Free it with head_free. */
int head_create(const struct engine_model *model, struct head **head);
void head_free(struct head *head);

/* state [n_embd], scores [n_labels] before any softmax. One thread at a time. */
void head_apply(const struct head *head, const double *state, float *scores);

#endif
