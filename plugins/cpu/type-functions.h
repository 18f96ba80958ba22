/* type-functions.h: the functions of the weight types, see struct weight_type; for the table in types.c. */
#ifndef CPU_TYPE_FUNCTIONS_H
#define CPU_TYPE_FUNCTIONS_H

#include <stddef.h>
#include <stdint.h>

#define DECLARE_TYPE(name)                                                                                   \
    size_t name##_panel_size(size_t k);                                                                      \
    void name##_pack(const uint8_t *rows, size_t row_size, size_t n_rows, size_t k, uint8_t *panel);         \
    void name##_to_float(const uint8_t *row, size_t n, float *values)

/* type-float.c */
DECLARE_TYPE(f32);
DECLARE_TYPE(f16);
DECLARE_TYPE(bf16);
/* type-legacy.c */
DECLARE_TYPE(q8_0);
DECLARE_TYPE(q4_0);

#endif
