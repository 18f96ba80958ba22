/* gguf-write.h: what stands in front of the tensor data of a GGUF file. */
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

/* Makes the header, metadata and tensor list of a GGUF file of version 3 with these tensors in this order. *bytes is
 * the caller's to free. Zeros belong behind it and behind each tensor, up to the next multiple of *alignment. ENGINE_ERROR_MEMORY, ENGINE_ERROR_DATA (sizes that don't fit into 64 bits). */
int gguf_header(const struct metadata *metadata, struct gguf_tensor *tensors, size_t n_tensors,
                uint8_t **bytes, size_t *size, uint64_t *alignment);

#endif
