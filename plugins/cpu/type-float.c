/* type-float.c: weights of plain float types.
 *
 * F32, F16: a chunk is [n][PANEL] values. BF16: [n / 2][PANEL][2], pairs of columns in one dword, an odd last
 * column paired with zero; shifting and masking a vector of dwords then gives two columns as float32. */
#include <string.h>

#include "type-functions.h"
#include "types.h"

size_t f32_chunk_size(const struct weight_type *type, size_t n)
{
    (void)type;
    return n * PANEL * sizeof(float);
}

void f32_pack(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows, size_t n,
              uint8_t *chunk)
{
    (void)type;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < n_rows; r++)
            memcpy(chunk + (i * PANEL + r) * 4, rows + r * row_size + i * 4, 4);
}

size_t f16_chunk_size(const struct weight_type *type, size_t n)
{
    (void)type;
    return round_up(n * PANEL * sizeof(uint16_t), 64);
}

void f16_pack(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows, size_t n,
              uint8_t *chunk)
{
    (void)type;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < n_rows; r++)
            memcpy(chunk + (i * PANEL + r) * 2, rows + r * row_size + i * 2, 2);
}

size_t bf16_chunk_size(const struct weight_type *type, size_t n)
{
    (void)type;
    return (n + 1) / 2 * PANEL * sizeof(uint32_t);
}

void bf16_pack(const struct weight_type *type, const uint8_t *rows, size_t row_size, size_t n_rows, size_t n,
               uint8_t *chunk)
{
    (void)type;
    for (size_t i = 0; i < n; i++)
        for (size_t r = 0; r < n_rows; r++)
            memcpy(chunk + (i / 2 * PANEL + r) * 4 + i % 2 * 2, rows + r * row_size + i * 2, 2);
}
