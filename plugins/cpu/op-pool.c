/* op-pool.c: blocks of positions become one row each, by a softmax for each value over the block. A task
 * takes some values of a token; only tokens that end a block have anything to do. */
#include <math.h>

#include "cache.h"
#include "list.h"
#include "ops.h"

enum {
    POOL_VALUES = 64,          /* of a task: a multiple of PANEL and of the cache types' blocks */
    POOL_MOST_POSITIONS = 4096 /* that one row is made from */
};

struct pool_step {
    struct view cache, block_table, sequences, positions, output;
    const float *bias; /* [n or 2 n, period] */
    size_t period;
};

/* Rows of scratch memory, of POOL_VALUES each, and pointers to them. */
struct pool_scratch {
    const float **rows;
    float *values, *scores;
};

static size_t pool_most(const struct pool_step *step)
{
    return step->period * step->cache.ne[2] / 2;
}

static size_t pool_scratch_size(const struct pool_step *step)
{
    return pool_most(step) * (sizeof(float *) + 2 * sizeof(float) * POOL_VALUES) + 64;
}

static struct pool_scratch pool_scratch(const struct pool_step *step, uint8_t *own)
{
    const size_t most = pool_most(step);
    struct pool_scratch scratch = {.values = (float *)(void *)own};
    scratch.scores = scratch.values + most * POOL_VALUES;
    scratch.rows = (const float **)(void *)(scratch.scores + most * POOL_VALUES);
    for (size_t j = 0; j < most; j++) scratch.rows[j] = scratch.values + j * POOL_VALUES;
    return scratch;
}

static int32_t pool_number(const struct view *view, size_t i)
{
    return ((const int32_t *)(const void *)view->data)[i];
}

/* Values first … first + n - 1 of row r of a block's positions, from `begin` on, as rows of POOL_VALUES. */
static void pool_fetch(const struct pool_step *step, const struct work *work, int32_t sequence, size_t begin,
                       size_t r, size_t first, size_t n, float *to)
{
    const struct view *cache = &step->cache;
    const int32_t *blocks = view_row(&step->block_table, (size_t)sequence, 0, 0);
    const size_t unit = cache->type == ENGINE_TYPE_Q8_0 ? 32 : 1, block_size = cache->ne[1];
    for (size_t j = 0, run; j < step->period; j += run, to += run * POOL_VALUES) {
        const size_t place = (begin + j) % block_size;
        const int32_t block = blocks[(begin + j) / block_size];
        run = step->period - j < block_size - place ? step->period - j : block_size - place;
        if (block < 0 || (size_t)block >= cache->ne[3]) {
            work_fail(work, "pool: a block number is out of range");
            memset(to, 0, run * POOL_VALUES * sizeof *to);
            continue;
        }
        cache_rows_to_float(work->kernels, cache->type)(cache_row(cache, (size_t)block, place, r) +
                                                            first / unit * cache->nb[0],
                                                        cache->nb[1], run, n, to, POOL_VALUES);
    }
}

/* Adds the biases of one series, of which there are 1 or 2 of n values each. */
static void pool_add_bias(const struct pool_step *step, size_t series, size_t first, size_t n, float *scores)
{
    const size_t width = step->cache.ne[0], stride = width * step->cache.ne[2] / 2;
    for (size_t j = 0; j < step->period; j++) {
        const float *bias = step->bias + j * stride + series * width + first;
        for (size_t i = 0; i < n; i++) scores[j * POOL_VALUES + i] += bias[i];
    }
}

/* The weighted sum of m rows, by the softmax of their scores. */
static void pool_sum(const struct work *work, const struct pool_scratch *scratch, size_t m, size_t n,
                     float *out)
{
    float max[POOL_VALUES], sum[POOL_VALUES];
    memcpy(max, scratch->scores, sizeof max);
    for (size_t j = 1; j < m; j++)
        for (size_t i = 0; i < POOL_VALUES; i++) {
            const float score = scratch->scores[j * POOL_VALUES + i];
            max[i] = score > max[i] ? score : max[i];
        }
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < POOL_VALUES; i++) scratch->scores[j * POOL_VALUES + i] -= max[i];
    work->kernels->exponentials(scratch->scores, scratch->scores, m * POOL_VALUES);
    memset(sum, 0, sizeof sum);
    for (size_t j = 0; j < m; j++)
        for (size_t i = 0; i < POOL_VALUES; i++) sum[i] += scratch->scores[j * POOL_VALUES + i];
    work->kernels->weighted_rows(scratch->rows, scratch->scores, POOL_VALUES, m, n, out);
    for (size_t i = 0; i < n; i++) out[i] /= sum[i];
}

/* The position of a token that ends a block, else -1. */
static int32_t pool_position(const struct pool_step *step, const struct work *work, size_t token)
{
    const int32_t position = pool_number(&step->positions, token),
                  sequence = pool_number(&step->sequences, token);
    if (position < 0 || ((size_t)position + 1) % step->period != 0) return -1;
    if (sequence >= 0 && (size_t)sequence < step->block_table.ne[1] &&
        (size_t)position / step->cache.ne[1] < step->block_table.ne[0])
        return position;
    work_fail(work, "pool: a sequence or position is out of range of the block table");
    return -1;
}

static size_t pool_parts(const struct pool_step *step)
{
    return (step->cache.ne[0] + POOL_VALUES - 1) / POOL_VALUES;
}

static void run_pool(const void *args, const struct work *work, size_t task)
{
    const struct pool_step *step = args;
    const size_t token = task / pool_parts(step), first = task % pool_parts(step) * POOL_VALUES;
    const size_t n = step->cache.ne[0] - first < POOL_VALUES ? step->cache.ne[0] - first : POOL_VALUES;
    float *out = (float *)view_row(&step->output, token, 0, 0) + first;
    const int32_t position = pool_position(step, work, token);
    if (position < 0) {
        memset(out, 0, n * sizeof *out);
        return;
    }
    const struct pool_scratch scratch = pool_scratch(step, work->own);
    const int32_t sequence = pool_number(&step->sequences, token);
    const size_t begin = (size_t)position + 1 - step->period, n_series = step->cache.ne[2] / 2;
    size_t m = 0;
    for (size_t series = 0; series < n_series; series++) {
        const bool is_before = n_series == 2 && series == 0;
        if (is_before && begin == 0) continue;
        const size_t from = is_before ? begin - step->period : begin;
        float *scores = scratch.scores + m * POOL_VALUES;
        pool_fetch(step, work, sequence, from, series, first, n, scratch.values + m * POOL_VALUES);
        pool_fetch(step, work, sequence, from, n_series + series, first, n, scores);
        pool_add_bias(step, series, first, n, scores);
        m += step->period;
    }
    pool_sum(work, &scratch, m, n, out);
}

int op_pool(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_pool *args = arguments;
    struct pool_step step = {0};
    int status = view_check(request, args->cache, "cache", CACHE_TYPES, &step.cache);
    if (!status) status = values_check(request, args->bias, "bias", &step.bias);
    if (!status) status = view_check(request, args->block_table, "block_table", VIEW_I32, &step.block_table);
    if (!status) status = view_check(request, args->sequences, "sequences", VIEW_I32, &step.sequences);
    if (!status) status = view_check(request, args->positions, "positions", VIEW_I32, &step.positions);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step.output);
    if (status) return status;
    const size_t n_tokens = step.positions.ne[0];
    step.period = args->bias->ne[1];
    if (pool_most(&step) > POOL_MOST_POSITIONS)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "pool: a row of %zu positions", pool_most(&step));
    if (request->planning) return ENGINE_OK;
    struct pool_step *added = list_add(list, run_pool, n_tokens * pool_parts(&step), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, pool_scratch_size(&step));
    list_reads(list, &step.cache);
    list_reads(list, &step.block_table);
    list_reads(list, &step.sequences);
    list_reads(list, &step.positions);
    list_writes(list, &step.output);
    return ENGINE_OK;
}
