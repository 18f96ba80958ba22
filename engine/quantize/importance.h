/* importance.h: what an importance matrix says of a selection: the weights of errors while it is encoded. */
#ifndef ENGINE_QUANTIZE_IMPORTANCE_H
#define ENGINE_QUANTIZE_IMPORTANCE_H

#include "quantize/selection.h"

/* For each tensor of a selection: weights as values_convert takes them, or NULL. */
struct importance {
    float **weights; /* [n] */
    size_t n;
    /* What the file says of itself, for quantize.imatrix.* in the metadata. */
    size_t n_entries;
    uint32_t n_chunks; /* 0: unknown */
    char *dataset;     /* NULL: unknown */
};

/* Reads a file (see imatrix.h) for the matrices whose new types use weights. The log names it if some of them are
 * missing. ENGINE_ERROR_DATA: the file is none, or of another model. importance_free is to be called in any case. */
int importance_read(const struct selection *selection, const char *path, struct importance *importance);
void importance_free(struct importance *importance);

#endif
