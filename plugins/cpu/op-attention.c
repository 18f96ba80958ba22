/* op-attention.c: attention over the paged cache.
 *
 * Positions are taken in spans of SPAN. For some queries that share a key/value head and a span, `attend`
 * gives each query's sum of exp(score - max) * value, the sum of the exponentials, and the max; `merge` adds
 * such partial results up, in the order of the spans (the online softmax of arXiv 1805.02867). Spans begin at
 * multiples of SPAN, so that a query's result doesn't depend on how the work was divided.
 *
 * Few tokens: a task for each token, key/value head and span; a second step merges their results. Many
 * tokens: a task for QUERIES queries of a key/value head, which walks along the spans. */
#include <math.h>
#include <string.h>

#include "cache.h"
#include "ops.h"
#include "types.h"

enum {
    SPAN = 256,   /* positions */
    PIECE = 32,   /* positions whose keys or values are converted to float32 at a time; divides SPAN */
    QUERIES = 64, /* queries that a task of many tokens takes together, where heads allow it */
    FEW_TOKENS = 8
};

struct attention {
    struct view q, k, v, block_table, sequences, positions, output;
    float scale, softcap;
    uint32_t window, chunk;      /* not both */
    const float *slopes, *sinks; /* [n_heads], or NULL */
    uint32_t split;              /* few tokens */
    uint32_t group_tokens;       /* of a task, where there are many */
    uint32_t n_repeat;           /* query heads that share a key/value head */
};

/* Partial results of n queries. */
struct partial {
    float *out; /* [n][value_size] */
    float *max; /* [n]; -infinity: nothing yet */
    float *sum; /* [n] */
};

/* Queries of consecutive tokens of one sequence, for one key/value head. */
struct queries {
    size_t first_token, n_tokens, kv_head, n; /* n = n_tokens * n_repeat, in the order [token][head] */
    int32_t sequence;
    const float *q; /* [n][key_size] */
};

/* Rows in scratch memory are padded to whole vectors. */
static size_t key_size(const struct attention *op)
{
    return round_up(op->k.ne[0], PANEL);
}

static size_t value_size(const struct attention *op)
{
    return round_up(op->v.ne[0], PANEL);
}

static int32_t number(const struct view *view, size_t i)
{
    return ((const int32_t *)(const void *)view->data)[i];
}

/* The positions that a token sees: begin … end - 1. */
static size_t range_begin(const struct attention *op, int32_t position)
{
    size_t end = (size_t)position + 1;
    if (op->chunk) return (size_t)position / op->chunk * op->chunk;
    return op->window && end > op->window ? end - op->window : 0;
}

/* A token's position, -1 if it is left out, also because its numbers are out of range. */
static int32_t token_position(const struct attention *op, const struct work *work, size_t token)
{
    int32_t position = number(&op->positions, token), sequence = number(&op->sequences, token);
    if (position < 0) return -1;
    if (sequence >= 0 && (size_t)sequence < op->block_table.ne[1] &&
        (size_t)position / op->k.ne[1] < op->block_table.ne[0])
        return position;
    if (work) work_fail(work, "attention: a sequence or position is out of range of the block table");
    return -1;
}

/* ---- One span -------------------------------------------------------------------------------------- */

/* Positions first … first + n - 1 of a cache become rows of `size` float32. */
static void fetch(const struct attention *op, const struct work *work, const struct view *cache,
                  const struct queries *queries, size_t first, size_t n, size_t size, float *rows)
{
    const int32_t *blocks = view_row(&op->block_table, (size_t)queries->sequence, 0, 0);
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
        const uint8_t *from = cache_row(cache, (size_t)block, slot, queries->kv_head);
        to_float(from, cache->nb[1], run, cache->ne[0], rows, size);
    }
}

/* Prefetches what `fetch` will read next of a block: positions first … first + n - 1, or those of them in the
 * same block as the first. */
static void fetch_ahead(const struct view *cache, const struct view *block_table,
                        const struct queries *queries, size_t first, size_t n)
{
    const int32_t *blocks = view_row(block_table, (size_t)queries->sequence, 0, 0);
    size_t block_size = cache->ne[1], slot = first % block_size;
    int32_t block = blocks[first / block_size];
    if (block < 0 || (size_t)block >= cache->ne[3]) return; /* which `fetch` reports */
    const uint8_t *from = cache_row(cache, (size_t)block, slot, queries->kv_head);
    size_t size = smaller(n, block_size - slot) * cache->nb[1];
    for (size_t at = 0; at < size; at += 64) __builtin_prefetch(from + at);
}

/* Scratch memory of attend. */
struct attend_scratch {
    float *rows;   /* [PIECE][key_size or value_size] */
    float *scores; /* [n][SPAN] */
};

static size_t head_of(const struct attention *op, const struct queries *queries, size_t i)
{
    return queries->kv_head * op->n_repeat + i % op->n_repeat;
}

/* Soft cap and slope of n scores of query i, n a multiple of PANEL. `ahead` positions after the first one is
 * the query's. */
static void change_scores(const struct attention *op, const struct work *work, const struct queries *queries,
                          size_t i, float ahead, float *scores, size_t n)
{
    if (op->softcap > 0)
        work->kernels->activate(ENGINE_ACTIVATION_SOFTCAP, op->softcap, 0, scores, NULL, scores, n);
    if (op->slopes) work->kernels->subtract_slope(scores, n, op->slopes[head_of(op, queries, i)], ahead);
}

/* Turns scores of positions that a query sees into exponentials, the others into zeros. begin and end are
 * relative to the span, which starts at position `first`, and multiples of PANEL. */
static void span_softmax(const struct attention *op, const struct work *work, const struct queries *queries,
                         size_t first, size_t begin, size_t end, float *scores, const struct partial *partial)
{
    for (size_t i = 0; i < queries->n; i++, scores += SPAN) {
        int32_t position = number(&op->positions, queries->first_token + i / op->n_repeat);
        size_t low = range_begin(op, position), high = (size_t)position + 1;
        low = low > first ? low - first : 0;
        high = high > first ? high - first : 0;
        partial->max[i] = -INFINITY;
        partial->sum[i] = 0;
        if (low >= high || low >= end) {
            memset(scores + begin, 0, (end - begin) * sizeof *scores);
            continue;
        }
        if (op->softcap > 0 || op->slopes)
            change_scores(op, work, queries, i, (float)position - (float)(first + begin), scores + begin,
                          end - begin);
        for (size_t j = begin; j < low; j++) scores[j] = -INFINITY;
        for (size_t j = high; j < end; j++) scores[j] = -INFINITY;
        partial->sum[i] = work->kernels->softmax(scores + begin, end - begin, &partial->max[i]);
    }
}

/* What the queries get from span number `span`. */
static void attend(const struct attention *op, const struct work *work, const struct queries *queries,
                   size_t span, const struct attend_scratch *scratch, const struct partial *partial)
{
    const struct kernels *kernels = work->kernels;
    size_t first = span * SPAN, low = SIZE_MAX, high = 0;
    for (size_t t = 0; t < queries->n_tokens; t++) {
        int32_t position = number(&op->positions, queries->first_token + t);
        size_t begin = range_begin(op, position), end = (size_t)position + 1;
        low = smaller(begin, low);
        high = end > high ? end : high;
    }
    low = low > first ? low - first : 0;
    high = smaller(SPAN, high - first);
    size_t begin = low / PIECE * PIECE, ks = key_size(op), vs = value_size(op);
    for (size_t j = begin; j < high; j += PIECE) {
        size_t n = smaller(PIECE, high - j);
        fetch(op, work, &op->k, queries, first + j, n, ks, scratch->rows);
        if (j + n < high) fetch_ahead(&op->k, &op->block_table, queries, first + j + n, PIECE);
        fetch_ahead(&op->v, &op->block_table, queries, first + j, n);
        kernels->attention_scores(queries->q, queries->n, scratch->rows, n, ks, op->scale,
                                  scratch->scores + j, SPAN);
    }
    span_softmax(op, work, queries, first, begin, round_up(high, PANEL), scratch->scores, partial);
    memset(partial->out, 0, queries->n * vs * sizeof *partial->out);
    for (size_t j = begin; j < high; j += PIECE) {
        size_t n = smaller(PIECE, high - j);
        fetch(op, work, &op->v, queries, first + j, n, vs, scratch->rows);
        kernels->attention_values(scratch->scores + j, SPAN, queries->n, scratch->rows, n, vs, partial->out);
    }
}

/* total += part, for query i. */
static void merge(const struct kernels *kernels, const struct partial *total, const struct partial *part,
                  size_t i, size_t vs)
{
    if (part->max[i] == -INFINITY) return;
    if (total->max[i] == -INFINITY) {
        memcpy(total->out + i * vs, part->out + i * vs, vs * sizeof *total->out);
        total->max[i] = part->max[i];
        total->sum[i] = part->sum[i];
        return;
    }
    float max = fmaxf(total->max[i], part->max[i]);
    float a = expf(total->max[i] - max), b = expf(part->max[i] - max);
    kernels->scale_add(total->out + i * vs, a, part->out + i * vs, b, vs);
    total->sum[i] = total->sum[i] * a + part->sum[i] * b;
    total->max[i] = max;
}

/* exp(max) / (exp(max) * sum + exp(sink)) */
static float factor_with_sink(float max, float sum, float sink)
{
    float larger = fmaxf(max, sink), share = expf(max - larger);
    return share / (share * sum + expf(sink - larger));
}

static void write_output(const struct attention *op, const struct queries *queries,
                         const struct partial *total)
{
    for (size_t i = 0; i < queries->n; i++) {
        size_t head = head_of(op, queries, i);
        float *out = view_row(&op->output, head, queries->first_token + i / op->n_repeat, 0);
        const float *sums = total->out + i * value_size(op);
        float factor =
            op->sinks ? factor_with_sink(total->max[i], total->sum[i], op->sinks[head]) : 1 / total->sum[i];
        for (size_t d = 0; d < op->v.ne[0]; d++) out[d] = sums[d] * factor;
    }
}

static void write_zeros(const struct attention *op, size_t token, size_t kv_head)
{
    for (size_t r = 0; r < op->n_repeat; r++)
        memset(view_row(&op->output, kv_head * op->n_repeat + r, token, 0), 0, op->v.ne[0] * sizeof(float));
}

/* Copies the queries of consecutive tokens to where rows are padded. */
static struct queries gather(const struct attention *op, size_t first_token, size_t n_tokens, size_t kv_head,
                             float *q)
{
    size_t n_repeat = op->n_repeat, length = op->q.ne[0], ks = key_size(op);
    for (size_t i = 0; i < n_tokens * n_repeat; i++) {
        const float *from =
            view_row(&op->q, kv_head * n_repeat + i % n_repeat, first_token + i / n_repeat, 0);
        memcpy(q + i * ks, from, length * sizeof *q);
        memset(q + i * ks + length, 0, (ks - length) * sizeof *q);
    }
    return (struct queries){
        first_token, n_tokens, kv_head, n_tokens * n_repeat, number(&op->sequences, first_token), q};
}

/* ---- Scratch memory -------------------------------------------------------------------------------- */

static size_t most_queries(const struct attention *op)
{
    return (size_t)op->n_repeat * (op->split ? 1 : op->group_tokens);
}

static size_t partial_floats(const struct attention *op, size_t n)
{
    return n * value_size(op) + 2 * round_up(n, PANEL);
}

static struct partial partial_at(const struct attention *op, float *floats, size_t n)
{
    float *max = floats + n * value_size(op);
    return (struct partial){floats, max, max + round_up(n, PANEL)};
}

/* A thread's own. */
struct attention_scratch {
    float *q;
    struct attend_scratch attend;
    struct partial part, total;
};

static size_t attention_rows_floats(const struct attention *op)
{
    size_t ks = key_size(op), vs = value_size(op);
    return PIECE * (ks > vs ? ks : vs);
}

static size_t attention_scratch_size(const struct attention *op)
{
    size_t n = most_queries(op);
    return (n * key_size(op) + attention_rows_floats(op) + n * SPAN + 2 * partial_floats(op, n)) *
           sizeof(float);
}

static struct attention_scratch attention_scratch(const struct attention *op, const struct work *work)
{
    size_t n = most_queries(op);
    struct attention_scratch scratch;
    float *own = (float *)(void *)work->own;
    scratch.q = own, own += n * key_size(op);
    scratch.attend.rows = own, own += attention_rows_floats(op);
    scratch.attend.scores = own, own += n * SPAN;
    scratch.part = partial_at(op, own, n), own += partial_floats(op, n);
    scratch.total = partial_at(op, own, n);
    return scratch;
}

/* ---- Few tokens ------------------------------------------------------------------------------------ */

static size_t table_spans(const struct attention *op)
{
    return (op->block_table.ne[0] * op->k.ne[1] + SPAN - 1) / SPAN;
}

/* How many spans the batch's positions reach into. */
static size_t spans_now(const struct attention *op)
{
    size_t n = 1;
    for (size_t t = 0; t < op->positions.ne[0]; t++) {
        int32_t position = token_position(op, NULL, t);
        if (position >= 0 && (size_t)position / SPAN + 1 > n) n = (size_t)position / SPAN + 1;
    }
    return n;
}

/* The place in the slot of a token's part for a key/value head and a span. */
static struct partial stored_partial(const struct attention *op, const struct work *work, size_t token,
                                     size_t kv_head, size_t span)
{
    size_t index = (token * op->k.ne[2] + kv_head) * table_spans(op) + span;
    float *slot = (float *)(void *)work->slots[SLOT_ATTENTION];
    return partial_at(op, slot + index * partial_floats(op, op->n_repeat), op->n_repeat);
}

static size_t count_split(const void *args)
{
    const struct attention *op = args;
    return op->positions.ne[0] * op->k.ne[2] * spans_now(op);
}

static void run_split(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t n_spans = spans_now(op), n_kv_heads = op->k.ne[2];
    size_t span = task % n_spans, kv_head = task / n_spans % n_kv_heads, token = task / n_spans / n_kv_heads;
    int32_t position = token_position(op, work, token);
    if (position < 0) {
        if (span == 0) write_zeros(op, token, kv_head);
        return;
    }
    size_t first = range_begin(op, position) / SPAN, last = (size_t)position / SPAN;
    if (span < first || span > last) return;
    struct attention_scratch scratch = attention_scratch(op, work);
    struct queries queries = gather(op, token, 1, kv_head, scratch.q);
    struct partial part = first == last ? scratch.part : stored_partial(op, work, token, kv_head, span);
    attend(op, work, &queries, span, &scratch.attend, &part);
    if (first == last) write_output(op, &queries, &part);
}

static size_t count_merge(const void *args)
{
    const struct attention *op = args;
    return spans_now(op) == 1 ? 0 : op->positions.ne[0] * op->k.ne[2];
}

static void run_merge(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t kv_head = task % op->k.ne[2], token = task / op->k.ne[2];
    int32_t position = token_position(op, work, token);
    if (position < 0) return;
    size_t first = range_begin(op, position) / SPAN, last = (size_t)position / SPAN;
    if (first == last) return;
    struct attention_scratch scratch = attention_scratch(op, work);
    for (size_t i = 0; i < op->n_repeat; i++) scratch.total.max[i] = -INFINITY;
    for (size_t span = first; span <= last; span++) {
        struct partial part = stored_partial(op, work, token, kv_head, span);
        for (size_t i = 0; i < op->n_repeat; i++)
            merge(work->kernels, &scratch.total, &part, i, value_size(op));
    }
    struct queries queries = {token, 1, kv_head, op->n_repeat, 0, NULL};
    write_output(op, &queries, &scratch.total);
}

/* ---- Many tokens ----------------------------------------------------------------------------------- */

/* Tokens first … end - 1, all of one sequence. */
static void run_sequence(const struct attention *op, const struct work *work, size_t first, size_t end,
                         size_t kv_head)
{
    struct attention_scratch scratch = attention_scratch(op, work);
    struct queries queries = gather(op, first, end - first, kv_head, scratch.q);
    size_t first_span = SIZE_MAX, last_span = 0;
    for (size_t t = first; t < end; t++) {
        int32_t position = number(&op->positions, t);
        size_t begin = range_begin(op, position) / SPAN, last = (size_t)position / SPAN;
        first_span = smaller(begin, first_span);
        last_span = last > last_span ? last : last_span;
    }
    for (size_t i = 0; i < queries.n; i++) scratch.total.max[i] = -INFINITY;
    for (size_t span = first_span; span <= last_span; span++) {
        attend(op, work, &queries, span, &scratch.attend, &scratch.part);
        for (size_t i = 0; i < queries.n; i++)
            merge(work->kernels, &scratch.total, &scratch.part, i, value_size(op));
    }
    write_output(op, &queries, &scratch.total);
}

/* A task: a group of tokens, cut where the sequence changes, and a key/value head. The last tokens, which see
 * most, come first. */
static void run_groups(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t n_tokens = op->positions.ne[0], n_groups = (n_tokens + op->group_tokens - 1) / op->group_tokens;
    size_t kv_head = task % op->k.ne[2], group = n_groups - 1 - task / op->k.ne[2];
    size_t end = smaller((group + 1) * op->group_tokens, n_tokens);
    for (size_t token = group * op->group_tokens; token < end;) {
        if (token_position(op, work, token) < 0) {
            write_zeros(op, token++, kv_head);
            continue;
        }
        size_t first = token++;
        while (token < end && token_position(op, work, token) >= 0 &&
               number(&op->sequences, token) == number(&op->sequences, first))
            token++;
        run_sequence(op, work, first, token, kv_head);
    }
}

/* ---- The operation --------------------------------------------------------------------------------- */

static int check(const struct request *request, const struct engine_op_attention *args, struct attention *op)
{
    int status = view_check(request, args->q, "q", VIEW_F32, &op->q);
    if (!status) status = view_check(request, args->k, "k", CACHE_TYPES, &op->k);
    if (!status) status = view_check(request, args->v, "v", CACHE_TYPES, &op->v);
    if (!status) status = view_check(request, args->block_table, "block_table", VIEW_I32, &op->block_table);
    if (!status) status = view_check(request, args->sequences, "sequences", VIEW_I32, &op->sequences);
    if (!status) status = view_check(request, args->positions, "positions", VIEW_I32, &op->positions);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &op->output);
    if (status) return status;
    const size_t *q = op->q.ne, *k = op->k.ne, *v = op->v.ne;
    status = shape_check(request, &op->q, "q", k[0], q[1], q[2], 1);
    if (!status) status = shape_check(request, &op->v, "v", v[0], k[1], k[2], k[3]);
    if (!status) status = shape_check(request, &op->output, "output", v[0], q[1], q[2], 1);
    if (!status) status = shape_check(request, &op->sequences, "sequences", q[2], 1, 1, 1);
    if (!status) status = shape_check(request, &op->positions, "positions", q[2], 1, 1, 1);
    if (!status) {
        const size_t *table = op->block_table.ne;
        status = shape_check(request, &op->block_table, "block_table", table[0], table[1], 1, 1);
    }
    if (status) return status;
    if (q[1] % k[2] != 0)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "attention: %zu heads cannot share %zu key/value heads",
                      q[1], k[2]);
    if (k[0] > 65536 || v[0] > 65536 || q[1] > 65536 || op->block_table.ne[0] > INT32_MAX / k[1])
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "attention: the heads or the cache are too large");
    if (args->window && args->chunk)
        return refuse(request, ENGINE_ERROR_ARGUMENT, "attention: window and chunk cannot be combined");
    if (!(args->softcap >= 0) || !isfinite(args->softcap))
        return refuse(request, ENGINE_ERROR_ARGUMENT,
                      "attention: softcap is %g; it must be finite and at least 0", (double)args->softcap);
    op->n_repeat = (uint32_t)(q[1] / k[2]);
    op->scale = args->scale;
    op->softcap = args->softcap;
    op->window = args->window;
    op->chunk = args->chunk;
    status = values_check(request, args->slopes, "slopes", q[1], &op->slopes);
    return status ? status : values_check(request, args->sinks, "sinks", q[1], &op->sinks);
}

/* A step of the operation, which reads and writes all that it does; the other step is ordered by the slot. */
static struct attention *add_step(struct list *list, const struct attention *op, step_function *run,
                                  size_t n_tasks)
{
    struct attention *step = list_add(list, run, n_tasks, sizeof *step);
    if (!step) return NULL;
    *step = *op;
    const struct view *inputs[] = {&op->q, &op->k, &op->v, &op->block_table, &op->sequences, &op->positions};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) list_reads(list, inputs[i]);
    list_writes(list, &op->output);
    return step;
}

int op_attention(const struct request *request, const void *args, struct list *list)
{
    struct attention op = {0};
    int status = check(request, args, &op);
    if (status || request->planning) return status;
    size_t n_tokens = op.positions.ne[0], n_kv_heads = op.k.ne[2];
    op.split = n_tokens <= FEW_TOKENS;
    op.group_tokens = op.n_repeat < QUERIES ? QUERIES / op.n_repeat : 1;
    list_reserve_own(list, attention_scratch_size(&op));
    if (!op.split) {
        size_t n_groups = (n_tokens + op.group_tokens - 1) / op.group_tokens;
        return add_step(list, &op, run_groups, n_groups * n_kv_heads) ? ENGINE_OK : ENGINE_ERROR_MEMORY;
    }
    if (!add_step(list, &op, run_split, 0)) return ENGINE_ERROR_MEMORY;
    list_count_later(list, count_split);
    list_writes_slot(list, SLOT_ATTENTION);
    list_reserve_slot(list, SLOT_ATTENTION,
                      n_tokens * n_kv_heads * table_spans(&op) * partial_floats(&op, op.n_repeat) *
                          sizeof(float));
    if (!add_step(list, &op, run_merge, 0)) return ENGINE_ERROR_MEMORY;
    list_count_later(list, count_merge);
    list_reads_slot(list, SLOT_ATTENTION);
    return ENGINE_OK;
}
