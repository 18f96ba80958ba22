/* op-attention-span.c: what queries that share a key/value head get from one span of positions: each one's
 * sum of exp(score - max) * value, the sum of the exponentials, and the max. Spans begin at multiples of
 * SPAN, so that a query's result doesn't depend on how the work was divided. */
#include "op-attention-span.h"

#include <math.h>
#include <string.h>

enum {
    FEW_QUERIES = 16,   /* so few take prefetched rows faster than memory gives them: prefetch */
    FEW_POSITIONS = 16, /* of so many positions at a time, */
    PIECES_AHEAD = 2    /* as one takes less time than memory needs to answer */
};

/* Prefetches picked positions number `first` and on; those that are left out come last. */
static void fetch_picked(const struct view *cache, const int32_t *blocks, size_t kv_head,
                         const int32_t *picked, size_t n)
{
    size_t block_size = cache->ne[1];
    for (size_t j = 0; j < n && picked[j] >= 0; j++) {
        int32_t block = blocks[(size_t)picked[j] / block_size];
        if (block < 0 || (size_t)block >= cache->ne[3]) continue;
        const uint8_t *row = cache_row(cache, (size_t)block, (size_t)picked[j] % block_size, kv_head);
        for (size_t i = 0; i < cache->nb[1]; i += 64) __builtin_prefetch(row + i, 0, 2);
    }
}

void attention_fetch(const struct attention *op, const struct work *work, const struct view *cache,
                     size_t token, size_t kv_head, size_t first, size_t n, size_t size, float *rows)
{
    int32_t sequence = attention_number(&op->sequences, token);
    const int32_t *blocks = view_row(&op->block_table, (size_t)sequence, 0, 0);
    if (op->picked.ne[0] == 0) {
        cache_fetch(work, cache, blocks, kv_head, first, n, size, rows);
        return;
    }
    const int32_t *picked = view_row(&op->picked, token, 0, 0);
    size_t next = first + n;
    fetch_picked(cache, blocks, kv_head, picked + next, smaller(n, op->picked.ne[0] - next));
    for (size_t j = 0; j < n; j++)
        cache_fetch(work, cache, blocks, kv_head, (size_t)picked[first + j], 1, size, rows + j * size);
}

/* Where positions from `first` on lie; no more than *n of them, which becomes how many lie there one after
 * the other. NULL: the block's number is out of range, which attention_fetch reports. */
static const uint8_t *rows_at(const struct attention *op, const struct view *cache, int32_t sequence,
                              size_t kv_head, size_t first, size_t *n)
{
    size_t block_size = cache->ne[1], slot = first % block_size;
    const int32_t *blocks = view_row(&op->block_table, (size_t)sequence, 0, 0);
    int32_t block = blocks[first / block_size];
    *n = smaller(*n, block_size - slot);
    return block < 0 || (size_t)block >= cache->ne[3] ? NULL : cache_row(cache, (size_t)block, slot, kv_head);
}

/* Whether some kernels take rows of a cache where they lie. */
static bool taken_in_place(const struct attention *op, const struct view *cache)
{
    return cache->type == ENGINE_TYPE_F16 && cache->ne[0] % PANEL == 0 && op->picked.ne[0] == 0;
}

/* Prefetches positions begin … end - 1 of a piece into the second cache, which waits for more lines at once
 * than the first, so that the products need not wait as well. */
static void fetch_ahead(const struct piece *piece, size_t begin, size_t end)
{
    if (!piece->rows || begin >= piece->n) return;
    const uint8_t *from = piece->rows + begin * piece->stride;
    size_t size = (smaller(end, piece->n) - begin) * piece->stride;
    for (size_t i = 0; i < size; i += 64) __builtin_prefetch(from + i, 0, 2);
}

/* What any of some consecutive tokens sees of a span, relative to the span, from the beginning of a piece on.
 * The tokens' positions must be at least 0. */
static void span_range(const struct attention *op, size_t first_token, size_t n_tokens, size_t span,
                       size_t *begin, size_t *end)
{
    size_t first = span * SPAN, low = SIZE_MAX, high = 0;
    for (size_t t = first_token; t < first_token + n_tokens; t++) {
        struct attention_range range = attention_range(op, t);
        low = smaller(range.begin, low);
        high = range.end > high ? range.end : high;
    }
    *begin = low > first ? (low - first) / PIECE * PIECE : 0;
    *end = smaller(SPAN, high - first);
}

void span_limits(const struct attention *op, size_t first_token, size_t n_tokens, size_t *first_span,
                 size_t *last_span)
{
    *first_span = SIZE_MAX, *last_span = 0;
    for (size_t t = first_token; t < first_token + n_tokens; t++) {
        struct attention_range range = attention_range(op, t);
        size_t begin = range.begin / SPAN, last = (range.end - 1) / SPAN;
        *first_span = smaller(begin, *first_span);
        *last_span = last > *last_span ? last : *last_span;
    }
}

void course_begin_span(const struct attention *op, struct course *course)
{
    course->values = false;
    course->head = 0;
    span_range(op, course->token, course->group, course->span, &course->position, &course->span_end);
}

void course_begin_group(const struct attention *op, struct course *course)
{
    while (course->token < course->end && attention_position(op, NULL, course->token) < 0) course->token++;
    if (course->token >= course->end) return;
    span_limits(op, course->token, course->group, &course->span, &course->last_span);
    course_begin_span(op, course);
}

/* The next piece. */
static struct piece course_next(const struct attention *op, struct course *course)
{
    if (course->token >= course->end) return (struct piece){0};
    const struct view *cache = course->values ? &op->v : &op->k;
    struct piece *first = &course->first;
    if (course->head == 0) {
        *first =
            (struct piece){.stride = cache->nb[1], .n = smaller(PIECE, course->span_end - course->position)};
        first->rows = rows_at(op, cache, attention_number(&op->sequences, course->token), course->kv_head,
                              course->span * SPAN + course->position, &first->n);
    }
    struct piece piece = *first;
    if (piece.rows) piece.rows += course->head * cache->nb[2];
    if (++course->head < course->n_kv_heads) return piece;
    course->head = 0;
    course->position += PIECE;
    if (course->position < course->span_end) return piece;
    if (!course->values) {
        course_begin_span(op, course);
        course->values = true;
    } else if (course->span < course->last_span) {
        course->span++;
        course_begin_span(op, course);
    } else {
        course->token += course->group;
        course_begin_group(op, course);
    }
    return piece;
}

void course_start(const struct attention *op, struct course *course)
{
    if (op->picked.ne[0] > 0) course->token = course->end; /* attention_fetch looks ahead itself */
    for (int i = 0; i < PIECES_AHEAD; i++) {
        struct piece piece = course_next(op, course);
        fetch_ahead(&piece, 0, piece.n);
    }
}

/* Adds the biases of a head's n positions, of which the first is `ahead` before the query. */
static void add_biases(const struct attention *op, size_t head, int64_t ahead, float *scores, size_t n)
{
    int64_t r = (int64_t)op->n_biases, count = (int64_t)n, j = 0;
    const float *biases = op->biases + head * (2 * op->n_biases + 1);
    int64_t near = ahead - r < 0       ? 0
                   : ahead - r < count ? ahead - r
                                       : count,
            far = ahead + r + 1 < 0       ? 0
                  : ahead + r + 1 < count ? ahead + r + 1
                                          : count;
    for (; j < near; j++) scores[j] += biases[0];
    for (; j < far; j++) scores[j] += biases[j - ahead + r];
    for (; j < count; j++) scores[j] += biases[2 * r];
}

/* The same as below for slopes and biases of picked positions. */
static void change_picked(const struct attention *op, size_t head, int64_t position, const int32_t *picked,
                          float *scores, size_t n)
{
    for (size_t j = 0; j < n; j++) {
        if (op->slopes) scores[j] -= op->slopes[head] * fabsf((float)(position - picked[j]));
        if (op->biases) add_biases(op, head, position - picked[j], scores + j, 1);
    }
}

void attention_change_scores(const struct attention *op, const struct work *work, size_t token, size_t head,
                             size_t first, float *scores, size_t n)
{
    int64_t position = attention_number(&op->positions, token), ahead = position - (int64_t)first;
    if (op->softcap > 0)
        work->kernels->activate(ENGINE_ACTIVATION_SOFTCAP, &(struct curve){.limit = op->softcap}, scores,
                                NULL, scores, n);
    if (op->picked.ne[0] > 0) {
        const int32_t *picked = view_row(&op->picked, token, 0, 0);
        change_picked(op, head, position, picked + first, scores, smaller(n, op->picked.ne[0] - first));
        return;
    }
    if (op->slopes) work->kernels->subtract_slope(scores, n, op->slopes[head], (float)ahead);
    if (op->biases) add_biases(op, head, ahead, scores, n);
}

/* Turns scores of positions that a query sees into exponentials, the others into zeros. begin and end are
 * relative to the span, which starts at position `first`, and multiples of PANEL. */
static void span_softmax(const struct attention *op, const struct work *work, const struct queries *queries,
                         size_t first, size_t begin, size_t end, float *scores, const struct partial *partial)
{
    for (size_t i = 0; i < queries->n; i++, scores += SPAN) {
        size_t token = token_of(op, queries, i);
        struct attention_range range = attention_range(op, token);
        size_t low = range.begin, high = range.end;
        low = low > first ? low - first : 0;
        high = high > first ? high - first : 0;
        partial->max[i] = -INFINITY;
        partial->sum[i] = 0;
        if (low >= high || low >= end) {
            memset(scores + begin, 0, (end - begin) * sizeof *scores);
            continue;
        }
        if (attention_changes_scores(op))
            attention_change_scores(op, work, token, head_of(op, queries, i), first + begin, scores + begin,
                                    end - begin);
        for (size_t j = begin; j < low; j++) scores[j] = -INFINITY;
        for (size_t j = high; j < end; j++) scores[j] = -INFINITY;
        partial->sum[i] = work->kernels->softmax(scores + begin, end - begin, &partial->max[i]);
    }
}

void attend(const struct attention *op, const struct work *work, const struct queries *queries, size_t span,
            const struct attend_scratch *scratch, const struct partial *partial, struct course *course)
{
    const struct kernels *kernels = work->kernels;
    size_t first = span * SPAN, begin, end, n_q = queries->n / queries->n_kv_heads;
    size_t at_once = n_q <= FEW_QUERIES ? FEW_POSITIONS : PIECE;
    span_range(op, queries->first_token, queries->n_tokens, span, &begin, &end);
    for (int pass = 0; pass < 2; pass++) {
        const struct view *cache = pass == 0 ? &op->k : &op->v;
        size_t size = pass == 0 ? attention_key_size(op) : value_size(op), kv_head = queries->kv_head;
        size_t stride = cache->nb[1], n_there = 0;
        const uint8_t *piece = NULL; /* of the first head */
        for (size_t j = begin, h = 0; j < end;) {
            size_t n = smaller(PIECE, end - j);
            if (h == 0 && n_q <= FEW_QUERIES && taken_in_place(op, cache)) {
                n_there = n;
                piece = rows_at(op, cache, queries->sequence, kv_head, first + j, &n_there);
            }
            const uint8_t *in_place = piece && n_there == n ? piece + h * cache->nb[2] : NULL;
            if (!in_place)
                attention_fetch(op, work, cache, queries->first_token, kv_head + h, first + j, n, size,
                                scratch->rows);
            float *scores = scratch->scores + h * n_q * SPAN + j;
            size_t q = h * n_q * size;
            if (++h == queries->n_kv_heads) h = 0, j += PIECE;
            struct piece ahead = course_next(op, course);
            for (size_t i = 0, n_here; i < n; i += n_here) {
                n_here = smaller(at_once, n - i);
                fetch_ahead(&ahead, i, i + n_here);
                const float *rows = scratch->rows + i * size;
                const uint8_t *f16 = in_place ? in_place + i * stride : NULL;
                if (pass == 0 && f16)
                    kernels->attention_scores_f16(queries->q + q, n_q, f16, stride, n_here, size, op->scale,
                                                  scores + i, SPAN);
                else if (pass == 0)
                    kernels->attention_scores(queries->q + q, n_q, rows, n_here, size, op->scale, scores + i,
                                              SPAN);
                else if (f16)
                    kernels->attention_values_f16(scores + i, SPAN, n_q, f16, stride, n_here, size,
                                                  partial->out + q);
                else
                    kernels->attention_values(scores + i, SPAN, n_q, rows, n_here, size, partial->out + q);
            }
        }
        if (pass == 1) break;
        span_softmax(op, work, queries, first, begin, round_up(end, PANEL), scratch->scores, partial);
        memset(partial->out, 0, queries->n * value_size(op) * sizeof *partial->out);
    }
}
