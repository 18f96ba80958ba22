/* cache.c: see cache.h. */
#include "cache.h"

#include "list.h"
#include "types.h"

void cache_fetch(const struct work *work, const struct view *cache, const int32_t *blocks, size_t head,
                 size_t first, size_t n, size_t size, float *rows)
{
    size_t block_size = cache->ne[1], run;
    rows_function *to_float = cache_rows_to_float(work->kernels, cache->type);
    for (size_t j = 0; j < n; j += run, rows += run * size) {
        int32_t block = blocks[(first + j) / block_size];
        size_t slot = (first + j) % block_size;
        run = smaller(n - j, block_size - slot);
        if (block < 0 || (size_t)block >= cache->ne[3]) {
            work_fail(work, "attention: a block number is out of range");
            memset(rows, 0, run * size * sizeof *rows);
            continue;
        }
        to_float(cache_row(cache, (size_t)block, slot, head), cache->nb[1], run, cache->ne[0], rows, size);
    }
}
