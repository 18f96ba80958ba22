/* matrices.h: the small matrices behind a text's pooled state: classification heads and dense steps. The host computes
 * them, with float32 weights and double sums. */
#ifndef ENGINE_EMBEDDING_MATRICES_H
#define ENGINE_EMBEDDING_MATRICES_H

#include <stdint.h>

#include "arch/arch.h"
#include "arch/hparams.h"
#include "internal.h"

/* A matrix or vector, NULL if the model has none; anything but `columns` columns is an error of the reader's. */
const struct model_tensor *matrices_find(struct hparams *h, const char *name, uint64_t columns);
/* New memory with the values of a tensor, NULL if the model has none. ENGINE_ERROR_DATA, ENGINE_ERROR_MEMORY. */
int matrices_load(const struct engine_model *model, const char *name, float **values);
/* A row's sum: matrix [rows, n], bias [rows] or NULL, x [n]. */
double matrices_row(const float *matrix, const float *bias, uint32_t n, uint32_t row, const double *x);

typedef double activation_function(double x);
/* identity, tanh, gelu (with erf), relu, silu, sigmoid; NULL: no such name. */
activation_function *matrices_activation(const char *name);
#define MATRICES_ACTIVATIONS "identity, tanh, gelu, relu, silu, sigmoid"

#endif
