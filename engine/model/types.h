/* types.h: the element types of tensors: names, block lengths, sizes. The engine's only table of them. */
#ifndef ENGINE_MODEL_TYPES_H
#define ENGINE_MODEL_TYPES_H

#include <stdbool.h>
#include <stdint.h>

#include "plugin-api.h"

struct type_info {
    const char *name;      /* as GGUF tools write it: "F32", "Q4_K" */
    uint32_t block_length; /* elements of a block, 1 for plain types */
    uint32_t block_size;   /* bytes of a block */
};

/* NULL for a type that the engine does not know. */
const struct type_info *type_info(uint32_t type);

/* Finds a type by name, in upper or lower case; false if there is none. */
bool type_by_name(const char *name, uint32_t *type);

/* For messages about types that the engine does not know: the name that GGUF uses, or used, for the number;
 * "unknown" if there was none. */
const char *type_foreign_name(uint32_t type);

/* Bytes of a row of `n` elements; false if n is not a multiple of the block length, or on overflow. */
bool type_row_size(uint32_t type, uint64_t n, uint64_t *size);

#endif
