/* type-functions.h: the functions of the weight types, see struct weight_type; for the table in types.c. */
#ifndef CPU_TYPE_FUNCTIONS_H
#define CPU_TYPE_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

struct weight_type;

#define DECLARE_TYPE(name)                                                                                   \
    size_t name##_chunk_size(const struct weight_type *type, size_t n);                                      \
    void name##_pack(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows,    \
                     size_t n, uint8_t *chunk)

/* type-float.c */
DECLARE_TYPE(f32);
DECLARE_TYPE(f16);
DECLARE_TYPE(bf16);
/* pack.c: all integer types */
DECLARE_TYPE(int8);

#endif
