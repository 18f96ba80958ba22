/* gguf-write.h: the part of a GGUF file before the tensor data. */
#ifndef ENGINE_MODEL_GGUF_WRITE_H
#define ENGINE_MODEL_GGUF_WRITE_H

#include <stddef.h>
#include <stdint.h>

#include "model/metadata.h"

struct gguf_tensor {
    const char *name;
    uint32_t type;
    uint32_t n_dims;
    uint64_t ne[4];
    uint64_t size;   /* bytes */
    uint64_t offset; /* from the start of the tensor data, set by gguf_header */
};

/* Makes the header, metadata and tensor list of a version 3 GGUF file with these tensors in this order. The
 * caller frees *bytes. Zeros follow it and each tensor, up to the next multiple of *alignment.
 * ENGINE_ERROR_MEMORY; ENGINE_ERROR_DATA: sizes exceed 64 bits. */
int gguf_header(const struct metadata *metadata, struct gguf_tensor *tensors, size_t n_tensors,
                uint8_t **bytes, size_t *size, uint64_t *alignment);

#endif
