/* pieces.h: tensors whose rows lie elsewhere, or in another order, than GGUF has them: split, permuted,
 * transposed, put together from several. They are made from the mapped files when they are loaded. */
#ifndef ENGINE_MODEL_HF_PIECES_H
#define ENGINE_MODEL_HF_PIECES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"

/* A stored tensor, and how to read it. */
struct hf_source {
    const uint8_t *data;
    uint64_t size;
    uint32_t type; /* of the values that are read, enum engine_type */
    /* Writes values at … at + n - 1 of a row in that type, whole blocks; NULL: they are stored as they are. */
    void (*decode)(const struct hf_source *source, uint64_t at, uint64_t n, uint8_t *values);
};

/* Values of a source: value (i, j, k, l) is number start + the sum of index times stride. With types
 * of blocks, stride[0] is 1. */
struct hf_piece {
    const struct hf_source *source;
    uint64_t start, ne[4], stride[4];
    float factor; /* multiplied into the values, which are floats; 0: none */
};

/* Sets the tensor's type, shape and size, and its data if the one piece has them as they are, otherwise its
 * maker. The pieces follow each other, have the same ne[0], and live as long as `metadata`, which allocates
 * memory. ENGINE_ERROR_MEMORY. */
int hf_assemble(struct metadata *metadata, const struct hf_piece *pieces, size_t n_pieces,
                const uint64_t ne[4], struct model_tensor *tensor);

#endif
