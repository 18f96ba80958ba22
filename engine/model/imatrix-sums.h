/* imatrix-sums.h: importance matrices being made: for each column of a matrix's input, the sum of its
 * squares. Written in llama-imatrix's GGUF format, see imatrix.c. */
#ifndef ENGINE_MODEL_IMATRIX_SUMS_H
#define ENGINE_MODEL_IMATRIX_SUMS_H

#include "model/imatrix.h"

struct imatrix_sums;

/* The input of a product, as enum engine_watch ENGINE_WATCH_INPUTS describes it. */
struct imatrix_input {
    const char *name;  /* of the matrix */
    const float *rows; /* [n_columns, n_rows, n_tokens] */
    uint64_t n_columns, n_rows, n_tokens;
    uint64_t n_matrices;
    const int32_t *experts; /* [n_used, n_tokens], 0 … n_matrices - 1, or NULL */
    uint64_t n_used;
};

int imatrix_sums_create(struct imatrix_sums **sums);
void imatrix_sums_destroy(struct imatrix_sums *sums);

/* Adds the squares. ENGINE_ERROR_DATA: a value is not finite, or the matrix had another shape before. */
int imatrix_sums_add(struct imatrix_sums *sums, const struct imatrix_input *input);

/* Adds what a file has, with its windows and text. ENGINE_ERROR_DATA: it is none, or of another model. */
int imatrix_sums_merge(struct imatrix_sums *sums, const char *path);

/* The text and how many windows of it there were since imatrix_sums_create. */
struct imatrix_origin {
    const char *dataset; /* NULL: none is named */
    uint64_t n_chunks;
    uint32_t chunk_size; /* tokens of a window */
};
/* Makes the file's bytes, which the caller frees. Matrices without any tokens are left out.
 * ENGINE_ERROR_ARGUMENT: there are none. */
int imatrix_sums_write(const struct imatrix_sums *sums, const struct imatrix_origin *origin, uint8_t **bytes,
                       size_t *size);

size_t imatrix_sums_count(const struct imatrix_sums *sums);
/* Experts, of all matrices, that no token used. */
uint64_t imatrix_sums_unused(const struct imatrix_sums *sums);

#endif
