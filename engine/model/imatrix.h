/* imatrix.h: reads importance matrices: for matrices of a model, how much each column of their input
 * matters. Files of llama-imatrix, in either of its formats. imatrix-sums.h makes and writes them. */
#ifndef ENGINE_MODEL_IMATRIX_H
#define ENGINE_MODEL_IMATRIX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct imatrix_entry {
    const char *name; /* of the model's tensor */
    /* [n] means of the squares of the input's columns over all tokens; for experts, those of one after the
     * other. All zero for an expert that no token used. */
    float *means;
    uint64_t n;
    /* [n_counts] tokens that the means are of, for experts separately, else one number. n_counts 0: the
     * older format doesn't say. */
    float *counts;
    uint64_t n_counts;
};

struct imatrix;

/* Reads a file. ENGINE_ERROR_DATA: it is none, or damaged; the message names the file. */
int imatrix_open(const char *path, struct imatrix **imatrix);
void imatrix_close(struct imatrix *imatrix);

size_t imatrix_count(const struct imatrix *imatrix);
const struct imatrix_entry *imatrix_at(const struct imatrix *imatrix, size_t index);
/* The text that it was made of, and how many windows of it: of the first text, and of all. false: the file
 * doesn't say; the string is empty, the number 0. Valid until imatrix_close. */
bool imatrix_text(const struct imatrix *imatrix, const char **dataset);
bool imatrix_chunks(const struct imatrix *imatrix, uint32_t *n_chunks);
/* NULL: there is none. */
const struct imatrix_entry *imatrix_find(const struct imatrix *imatrix, const char *name);

#endif
