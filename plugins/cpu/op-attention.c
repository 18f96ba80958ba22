/* op-attention.c: attention over the paged cache.
 *
 * Positions are taken in spans, each by itself (op-attention-span.c); `merge` adds their results up, in the
 * order of the spans (the online softmax of arXiv 1805.02867).
 *
 * Few tokens: a task for each token, span, and one or several key/value heads; a second step merges their
 * results. Many tokens: a task for QUERIES queries of a key/value head, which walks along the spans; or,
 * where each token has a sequence of its own, for some tokens and all heads. */
#include <math.h>
#include <string.h>

#include "op-attention-span.h"
#include "ops.h"
#include "pool.h"
#include "types.h"

enum {
    QUERIES = 64, /* queries that a task of many tokens takes together, where heads allow it */
    FEW_TOKENS = 8,
    SPLIT_TASKS = 8 /* for each thread: if few tokens make more, they take several heads at once */
};

#define NOTHING (-1e30F) /* a logsum of no positions */

/* How many of n picked positions, in ascending order, lie before `position`. -1 comes last. */
static size_t picked_before(const int32_t *picked, size_t n, size_t position)
{
    size_t low = 0;
    while (low < n) {
        size_t middle = low + (n - low) / 2;
        if ((uint32_t)picked[middle] < position)
            low = middle + 1;
        else
            n = middle;
    }
    return low;
}

struct attention_range attention_range(const struct attention *op, size_t token)
{
    size_t position = (size_t)attention_number(&op->positions, token), end = position + 1;
    struct attention_range range = {0, (size_t)attention_last(op, token) + 1};
    if (op->chunk) range.begin = position / op->chunk * op->chunk;
    if (op->window && end > op->window) range.begin = end - op->window;
    if (op->picked.ne[0] == 0) return range;
    const int32_t *picked = view_row(&op->picked, token, 0, 0);
    size_t n = op->picked.ne[0];
    return (struct attention_range){picked_before(picked, n, range.begin),
                                    picked_before(picked, n, range.end)};
}

int32_t attention_position(const struct attention *op, const struct work *work, size_t token)
{
    int32_t position = attention_number(&op->positions, token),
            sequence = attention_number(&op->sequences, token);
    if (position < 0) return -1;
    int32_t last = attention_last(op, token);
    if (sequence >= 0 && (size_t)sequence < op->block_table.ne[1] && last >= position &&
        (size_t)last / op->k.ne[1] < op->block_table.ne[0]) {
        struct attention_range range = attention_range(op, token);
        return range.begin < range.end ? position : -1;
    }
    if (work) work_fail(work, "attention: a sequence or position is out of range of the block table");
    return -1;
}

/* ---- Results of queries ---------------------------------------------------------------------------- */

/* total += part, for query i. A sum is 0 where nothing is seen; of scores that are not numbers it is none. */
static void merge(const struct kernels *kernels, const struct partial *total, const struct partial *part,
                  size_t i, size_t vs)
{
    if (part->sum[i] == 0) return;
    if (total->sum[i] == 0) {
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

/* Of a head of a token: `sums` times exp(max), and what earlier attentions gave. `sums`: NULL if the token
 * sees nothing here; sum is then 0 and max the least. */
static void write_head(const struct attention *op, const struct work *work, size_t head, size_t token,
                       const float *sums, float max, float sum)
{
    float *out = view_row(&op->output, head, token, 0), shares[2] = {1, 0};
    const float *rows[2] = {sums, NULL};
    size_t n_rows = sums != NULL;
    if (op->earlier.data) {
        float before = ((const float *)view_row(&op->earlier_logsums, token, 0, 0))[head];
        float larger = fmaxf(max, before);
        shares[0] = expf(max - larger);
        shares[n_rows] = before <= NOTHING ? 0 : expf(before - larger);
        rows[n_rows] = view_row(&op->earlier, head, token, 0);
        sum = sum * shares[0] * (float)(sums != NULL) + shares[n_rows++];
        max = larger;
    }
    if (op->logsums.data)
        ((float *)view_row(&op->logsums, token, 0, 0))[head] = sum == 0 ? NOTHING : max + logf(sum);
    if (sum == 0) {
        memset(out, 0, op->v.ne[0] * sizeof *out);
        return;
    }
    float factor = op->sinks ? factor_with_sink(max, sum, op->sinks[head]) : 1 / sum;
    for (size_t i = 0; i < n_rows; i++) shares[i] *= factor;
    work->kernels->sum_rows(rows, shares, n_rows, op->v.ne[0], out);
}

static void write_output(const struct attention *op, const struct work *work, const struct queries *queries,
                         const struct partial *total)
{
    for (size_t i = 0; i < queries->n; i++)
        write_head(op, work, head_of(op, queries, i), token_of(op, queries, i),
                   total->out + i * value_size(op), total->max[i], total->sum[i]);
}

/* Of a token that sees nothing here. */
static void write_nothing(const struct attention *op, const struct work *work, size_t token, size_t kv_head)
{
    for (size_t r = 0; r < op->n_repeat; r++)
        write_head(op, work, kv_head * op->n_repeat + r, token, NULL, NOTHING, 0);
}

/* Queries of several tokens or several key/value heads. They are copied to `q`, where rows are padded, unless
 * those of one token lie as they have to. */
static struct queries gather(const struct attention *op, size_t first_token, size_t n_tokens, size_t kv_head,
                             size_t n_kv_heads, float *q)
{
    size_t length = op->q.ne[0], ks = attention_key_size(op);
    struct queries queries = {first_token,
                              n_tokens,
                              kv_head,
                              n_kv_heads,
                              n_kv_heads * n_tokens * op->n_repeat,
                              attention_number(&op->sequences, first_token),
                              q};
    if (n_tokens == 1 && length == ks && op->q.nb[1] == ks * sizeof *q) {
        queries.q = view_row(&op->q, kv_head * op->n_repeat, first_token, 0);
        return queries;
    }
    for (size_t i = 0; i < queries.n; i++) {
        const float *from = view_row(&op->q, head_of(op, &queries, i), token_of(op, &queries, i), 0);
        memcpy(q + i * ks, from, length * sizeof *q);
        memset(q + i * ks + length, 0, (ks - length) * sizeof *q);
    }
    return queries;
}

/* ---- Scratch memory -------------------------------------------------------------------------------- */

static size_t most_queries(const struct attention *op)
{
    size_t heads = (size_t)op->n_repeat * op->k.ne[2], group = (size_t)op->n_repeat * op->group_tokens;
    return op->split ? (size_t)op->n_repeat * op->split_heads : group > heads ? group : heads;
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
    size_t ks = attention_key_size(op), vs = value_size(op);
    return PIECE * (ks > vs ? ks : vs);
}

static size_t attention_scratch_size(const struct attention *op)
{
    size_t n = most_queries(op);
    return (n * attention_key_size(op) + attention_rows_floats(op) + n * SPAN + 2 * partial_floats(op, n)) *
           sizeof(float);
}

static struct attention_scratch attention_scratch(const struct attention *op, const struct work *work)
{
    size_t n = most_queries(op);
    struct attention_scratch scratch;
    float *own = (float *)(void *)work->own;
    scratch.q = own, own += n * attention_key_size(op);
    scratch.attend.rows = own, own += attention_rows_floats(op);
    scratch.attend.scores = own, own += n * SPAN;
    scratch.part = partial_at(op, own, n), own += partial_floats(op, n);
    scratch.total = partial_at(op, own, n);
    return scratch;
}

/* ---- Few tokens ------------------------------------------------------------------------------------ */

static size_t table_spans(const struct attention *op)
{
    size_t most = op->picked.ne[0] > 0 ? op->picked.ne[0] : op->block_table.ne[0] * op->k.ne[1];
    return (most + SPAN - 1) / SPAN;
}

static size_t n_head_groups(const struct attention *op)
{
    return (op->k.ne[2] + op->split_heads - 1) / op->split_heads;
}

/* How many spans the batch's positions reach into. */
static size_t spans_now(const struct attention *op)
{
    size_t n = 1;
    for (size_t t = 0; t < op->positions.ne[0]; t++) {
        size_t last = attention_position(op, NULL, t) < 0 ? 0 : attention_range(op, t).end - 1;
        if (last / SPAN + 1 > n) n = last / SPAN + 1;
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
    return op->positions.ne[0] * n_head_groups(op) * spans_now(op);
}

static void run_split(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t n_spans = spans_now(op), n_groups = n_head_groups(op);
    size_t span = task % n_spans, token = task / n_spans / n_groups;
    size_t kv_head = task / n_spans % n_groups * op->split_heads;
    size_t n_heads = smaller(op->split_heads, op->k.ne[2] - kv_head);
    int32_t position = attention_position(op, work, token);
    if (position < 0) {
        for (size_t h = 0; span == 0 && h < n_heads; h++) write_nothing(op, work, token, kv_head + h);
        return;
    }
    struct attention_range range = attention_range(op, token);
    size_t first = range.begin / SPAN, last = (range.end - 1) / SPAN;
    if (span < first || span > last) return;
    struct course course = {.token = token,
                            .group = 1,
                            .end = token + 1,
                            .kv_head = kv_head,
                            .n_kv_heads = n_heads,
                            .span = span,
                            .last_span = span};
    course_begin_span(op, &course);
    course_start(op, &course);
    struct attention_scratch scratch = attention_scratch(op, work);
    struct queries queries = gather(op, token, 1, kv_head, n_heads, scratch.q);
    attend(op, work, &queries, span, &scratch.attend, &scratch.part, &course);
    if (first == last) {
        write_output(op, work, &queries, &scratch.part);
        return;
    }
    for (size_t h = 0; h < n_heads; h++) {
        struct partial to = stored_partial(op, work, token, kv_head + h, span);
        size_t from = h * op->n_repeat, n = op->n_repeat;
        memcpy(to.out, scratch.part.out + from * value_size(op), n * value_size(op) * sizeof *to.out);
        memcpy(to.max, scratch.part.max + from, n * sizeof *to.max);
        memcpy(to.sum, scratch.part.sum + from, n * sizeof *to.sum);
    }
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
    int32_t position = attention_position(op, work, token);
    if (position < 0) return;
    struct attention_range range = attention_range(op, token);
    size_t first = range.begin / SPAN, last = (range.end - 1) / SPAN;
    if (first == last) return;
    struct attention_scratch scratch = attention_scratch(op, work);
    memset(scratch.total.sum, 0, op->n_repeat * sizeof *scratch.total.sum);
    for (size_t span = first; span <= last; span++) {
        struct partial part = stored_partial(op, work, token, kv_head, span);
        for (size_t i = 0; i < op->n_repeat; i++)
            merge(work->kernels, &scratch.total, &part, i, value_size(op));
    }
    struct queries queries = {token, 1, kv_head, 1, op->n_repeat, 0, NULL};
    write_output(op, work, &queries, &scratch.total);
}

/* ---- Many tokens ----------------------------------------------------------------------------------- */

/* Tokens first … end - 1, all of one sequence, and one key/value head; or one token and several. */
static void run_sequence(const struct attention *op, const struct work *work, size_t first, size_t end,
                         size_t kv_head, size_t n_kv_heads, struct course *course)
{
    struct attention_scratch scratch = attention_scratch(op, work);
    struct queries queries = gather(op, first, end - first, kv_head, n_kv_heads, scratch.q);
    size_t first_span, last_span;
    span_limits(op, first, end - first, &first_span, &last_span);
    attend(op, work, &queries, first_span, &scratch.attend, &scratch.total, course);
    for (size_t span = first_span + 1; span <= last_span; span++) {
        attend(op, work, &queries, span, &scratch.attend, &scratch.part, course);
        for (size_t i = 0; i < queries.n; i++)
            merge(work->kernels, &scratch.total, &scratch.part, i, value_size(op));
    }
    write_output(op, work, &queries, &scratch.total);
}

/* Whether no two neighbours among some tokens belong to one sequence, as when sequences decode, and the
 * tokens suffice for tasks of their own. */
static bool all_alone(const struct attention *op, size_t first, size_t end)
{
    if (2 * (end - first) < op->k.ne[2]) return false;
    for (size_t t = first + 1; t < end; t++)
        if (attention_number(&op->sequences, t) == attention_number(&op->sequences, t - 1)) return false;
    return true;
}

/* Prefetches a token's rows. */
static void fetch_token(const struct view *view, size_t token)
{
    const uint8_t *from = view_row(view, 0, token, 0);
    for (size_t i = 0; i < view->ne[1] * view->nb[1]; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* Tokens first … end - 1 of different sequences, all key/value heads. */
static void run_alone(const struct attention *op, const struct work *work, size_t first, size_t end)
{
    size_t n_kv_heads = op->k.ne[2];
    struct course course = {.token = first, .group = 1, .end = end, .n_kv_heads = n_kv_heads};
    course_begin_group(op, &course);
    course_start(op, &course);
    for (size_t token = first; token < end; token++) {
        if (token + 1 < end) fetch_token(&op->q, token + 1);
        if (attention_position(op, work, token) >= 0)
            run_sequence(op, work, token, token + 1, 0, n_kv_heads, &course);
        else
            for (size_t h = 0; h < n_kv_heads; h++) write_nothing(op, work, token, h);
    }
}

/* A task: a group of tokens, cut where the sequence changes, and a key/value head. The last tokens, which see
 * most, come first. If each token of a group has a sequence of its own, a task is some of them with all
 * key/value heads, which lie side by side in memory. */
static void run_groups(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t n_tokens = op->positions.ne[0], n_groups = (n_tokens + op->group_tokens - 1) / op->group_tokens;
    size_t n_kv_heads = op->k.ne[2], kv_head = task % n_kv_heads, group = n_groups - 1 - task / n_kv_heads;
    size_t begin = group * op->group_tokens, end = smaller(begin + op->group_tokens, n_tokens);
    if (all_alone(op, begin, end)) {
        size_t n = end - begin;
        run_alone(op, work, begin + kv_head * n / n_kv_heads, begin + (kv_head + 1) * n / n_kv_heads);
        return;
    }
    for (size_t token = begin; token < end;) {
        if (attention_position(op, work, token) < 0) {
            write_nothing(op, work, token++, kv_head);
            continue;
        }
        size_t first = token++;
        while (token < end && attention_position(op, work, token) >= 0 &&
               attention_number(&op->sequences, token) == attention_number(&op->sequences, first))
            token++;
        struct course course = {
            .token = first, .group = token - first, .end = token, .kv_head = kv_head, .n_kv_heads = 1};
        course_begin_group(op, &course);
        course_start(op, &course);
        run_sequence(op, work, first, token, kv_head, 1, &course);
    }
}

/* ---- The operation --------------------------------------------------------------------------------- */

/* What other attentions have given, and what others will take from this one. */
static int check_parts(const struct request *request, const struct engine_op_attention *args,
                       struct attention *op)
{
    int status = ENGINE_OK;
    if (args->earlier) status = view_check(request, args->earlier, "earlier", VIEW_F32, &op->earlier);
    if (args->earlier && !status)
        status =
            view_check(request, args->earlier_logsums, "earlier_logsums", VIEW_F32, &op->earlier_logsums);
    if (args->logsums && !status)
        status = view_check(request, args->logsums, "logsums", VIEW_F32, &op->logsums);
    return status;
}

static int check(const struct request *request, const struct engine_op_attention *args, struct attention *op)
{
    int status = view_check(request, args->q, "q", VIEW_F32, &op->q);
    if (!status) status = view_check(request, args->k, "k", CACHE_TYPES, &op->k);
    if (!status) status = view_check(request, args->v, "v", CACHE_TYPES, &op->v);
    if (!status) status = view_check(request, args->block_table, "block_table", VIEW_I32, &op->block_table);
    if (!status) status = view_check(request, args->sequences, "sequences", VIEW_I32, &op->sequences);
    if (!status) status = view_check(request, args->positions, "positions", VIEW_I32, &op->positions);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &op->output);
    if (!status && args->weights)
        status = view_check(request, args->weights, "weights", VIEW_F32, &op->weights);
    if (!status && args->picked) status = view_check(request, args->picked, "picked", VIEW_I32, &op->picked);
    if (!status) status = values_check(request, args->slopes, "slopes", &op->slopes);
    if (!status) status = values_check(request, args->sinks, "sinks", &op->sinks);
    if (!status) status = values_check(request, args->distance_bias, "distance_bias", &op->biases);
    if (!status) status = check_parts(request, args, op);
    if (status) return status;
    const size_t *q = op->q.ne, *k = op->k.ne, *v = op->v.ne;
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
    if (args->distance_bias) op->n_biases = args->distance_bias->ne[0] / 2;
    return ENGINE_OK;
}

/* A step of the operation, which reads and writes all that it does; the other step is ordered by the slot. */
static struct attention *add_step(struct list *list, const struct attention *op, step_function *run,
                                  size_t n_tasks)
{
    struct attention *step = list_add(list, run, n_tasks, sizeof *step);
    if (!step) return NULL;
    *step = *op;
    const struct view *inputs[] = {&op->q,         &op->k,         &op->v,     &op->block_table,
                                   &op->sequences, &op->positions, &op->picked};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) list_reads(list, inputs[i]);
    if (op->earlier.data) list_reads(list, &op->earlier);
    if (op->earlier.data) list_reads(list, &op->earlier_logsums);
    list_writes(list, &op->output);
    if (op->logsums.data) list_writes(list, &op->logsums);
    return step;
}

int op_attention(const struct request *request, const void *arguments, struct list *list)
{
    const struct engine_op_attention *args = arguments;
    struct attention op = {0};
    int status = check(request, args, &op);
    if (status || request->planning) return status;
    size_t n_tokens = op.positions.ne[0], n_kv_heads = op.k.ne[2];
    op.split = n_tokens <= FEW_TOKENS;
    size_t tasks = (size_t)SPLIT_TASKS * pool_threads(request->device->pool),
           heads = n_tokens * n_kv_heads / tasks;
    op.split_heads = (uint32_t)(heads < 1 ? 1 : smaller(heads, n_kv_heads));
    op.group_tokens = op.n_repeat < QUERIES && !args->picked ? QUERIES / op.n_repeat : 1;
    if (args->weights) status = attention_add_weights(list, &op);
    if (status) return status;
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
