/* cache.h: rows of the paged cache, [head_dim, block_size, n_kv_heads, n_blocks]. */
#ifndef CPU_CACHE_H
#define CPU_CACHE_H

#include <string.h>

#include "kernels.h"
#include "operand.h"

#define CACHE_TYPES (VIEW_F32 | VIEW_F16 | VIEW_Q8_0)

static inline uint8_t *cache_row(const struct view *cache, size_t block, size_t slot, size_t head)
{
    return cache->data + slot * cache->nb[1] + head * cache->nb[2] + block * cache->nb[3];
}

struct work;

/* Positions first … first + n - 1 of the sequence with these blocks become rows of `size` float32, a multiple
 * of PANEL. Block numbers out of range fail `work`. */
void cache_fetch(const struct work *work, const struct view *cache, const int32_t *blocks, size_t head,
                 size_t first, size_t n, size_t size, float *rows);

/* How rows of a type become float32. */
static inline rows_function *cache_rows_to_float(const struct kernels *kernels, uint32_t type)
{
    switch (type) {
    case ENGINE_TYPE_F16: return kernels->f16_rows;
    case ENGINE_TYPE_Q8_0: return kernels->q8_0_rows;
    default: return kernels->f32_rows;
    }
}

static inline void cache_row_from_float(const struct kernels *kernels, uint32_t type, const float *values,
                                        uint8_t *row, size_t n)
{
    switch (type) {
    case ENGINE_TYPE_F16: kernels->f32_to_f16(values, row, n); break;
    case ENGINE_TYPE_Q8_0: kernels->f32_to_q8_0(values, row, n); break;
    default: memcpy(row, values, n * sizeof *values); break;
    }
}

#endif
