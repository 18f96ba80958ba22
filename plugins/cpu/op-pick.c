/* op-pick.c: the positions that an indexer scores highest, for sparse attention.
 *
 * Scores are products of all heads' queries with a piece of keys at a time, summed over the heads. The choice
 * is by the scores' bits, which order as the numbers do: three counts of 11, 11 and 10 bits find the lowest
 * score that is picked, and how many positions with just this score are.
 *
 * Few tokens: a task for each token and RUN of positions; a second step chooses. Many: a task for some tokens
 * of a sequence, which does both. */
#include <string.h>

#include "cache.h"
#include "list.h"
#include "ops.h"
#include "types.h"

enum {
    FEW_TOKENS = 8,
    RUN = 512,     /* positions of a task of few tokens; a multiple of PIECE */
    PIECE = 32,    /* positions whose keys are converted at a time; a multiple of PANEL */
    QUERIES = 128, /* queries that a task of many tokens takes together, where heads allow it, */
    MAX_TOKENS = 8 /* of no more tokens than this */
};

struct pick {
    struct view q, k, weights, block_table, sequences, positions, picked;
    size_t group_tokens; /* of a task of many tokens */
};

/* A thread's own. */
struct pick_scratch {
    float *q;        /* [queries][key_size] */
    float *keys;     /* [PIECE][key_size] */
    float *products; /* [queries][PIECE] */
    float *scores;   /* [group_tokens][score_stride] */
};

static size_t key_size(const struct pick *op)
{
    return round_up(op->k.ne[0], PANEL);
}

/* The places for a token's scores. */
static size_t score_stride(const struct pick *op)
{
    return round_up(op->block_table.ne[0] * op->k.ne[1], PIECE);
}

static size_t pick_scratch_size(const struct pick *op, bool has_scores)
{
    size_t n = op->group_tokens * op->q.ne[1];
    return ((n + PIECE) * key_size(op) + n * PIECE + (has_scores ? op->group_tokens * score_stride(op) : 0)) *
           sizeof(float);
}

static struct pick_scratch pick_scratch(const struct pick *op, const struct work *work)
{
    size_t n = op->group_tokens * op->q.ne[1];
    struct pick_scratch scratch;
    float *own = (float *)(void *)work->own;
    scratch.q = own, own += n * key_size(op);
    scratch.keys = own, own += PIECE * key_size(op);
    scratch.products = own, own += n * PIECE;
    scratch.scores = own;
    return scratch;
}

static int32_t number(const struct view *view, size_t i)
{
    return ((const int32_t *)(const void *)view->data)[i];
}

/* How many positions a token sees: 0 if it is left out, or its numbers are out of range, which fails `work`
 * unless it is NULL. */
static size_t seen_by(const struct pick *op, const struct work *work, size_t token)
{
    int32_t position = number(&op->positions, token), sequence = number(&op->sequences, token);
    if (position < 0) return 0;
    if (sequence >= 0 && (size_t)sequence < op->block_table.ne[1] &&
        (size_t)position / op->k.ne[1] < op->block_table.ne[0])
        return (size_t)position + 1;
    if (work) work_fail(work, "pick: a sequence or position is out of range of the block table");
    return 0;
}

/* How many of them have to be scored: none if all are picked. */
static size_t scored_of(const struct pick *op, size_t token)
{
    size_t n = seen_by(op, NULL, token);
    return n > op->picked.ne[0] ? n : 0;
}

/* ---- Scores -------------------------------------------------------------------------------------------- */

/* Scores of positions begin … end - 1, begin a multiple of PIECE, for consecutive tokens of one sequence:
 * scores[t * stride + position]. Behind the last one, the rest of a piece is overwritten. */
static void score(const struct pick *op, const struct work *work, const struct pick_scratch *scratch,
                  size_t first_token, size_t n_tokens, size_t begin, size_t end, float *scores, size_t stride)
{
    size_t n_heads = op->q.ne[1], size = key_size(op), length = op->q.ne[0];
    int32_t sequence = number(&op->sequences, first_token);
    const int32_t *blocks = view_row(&op->block_table, (size_t)sequence, 0, 0);
    for (size_t i = 0; i < n_tokens * n_heads; i++) {
        float *to = scratch->q + i * size;
        memcpy(to, view_row(&op->q, i % n_heads, first_token + i / n_heads, 0), length * sizeof *to);
        memset(to + length, 0, (size - length) * sizeof *to);
    }
    for (size_t j = begin, n; j < end; j += n) {
        n = smaller(PIECE, end - j);
        cache_fetch(work, &op->k, blocks, 0, j, n, size, scratch->keys);
        if (n < PIECE) memset(scratch->products, 0, n_tokens * n_heads * PIECE * sizeof(float));
        work->kernels->attention_scores(scratch->q, n_tokens * n_heads, scratch->keys, n, size, 1,
                                        scratch->products, PIECE);
        for (size_t t = 0; t < n_tokens; t++)
            work->kernels->sum_positive(scratch->products + t * n_heads * PIECE, PIECE,
                                        view_row(&op->weights, first_token + t, 0, 0), n_heads, PIECE,
                                        scores + t * stride + j);
    }
}

/* ---- The choice ---------------------------------------------------------------------------------------- */

/* A number's bits in an order that is that of the numbers, without a difference between zeros. */
static uint32_t order_of(float score)
{
    uint32_t bits;
    score += 0.0f; /* -0 becomes 0 */
    memcpy(&bits, &score, sizeof bits);
    return bits & 0x80000000u ? ~bits : bits | 0x80000000u;
}

/* The order of the n_picked-th largest of n > n_picked scores, and how many scores that equal it are among
 * these. */
static uint32_t lowest_picked(const float *scores, size_t n, size_t n_picked, size_t *n_equal)
{
    static const struct {
        unsigned shift, bits;
    } digits[] = {{21, 11}, {10, 11}, {0, 10}};
    uint32_t found = 0;
    size_t left = n_picked;
    for (int i = 0; i < 3; i++) {
        unsigned shift = digits[i].shift, bits = digits[i].bits;
        uint32_t counts[1 << 11] = {0}, digit = (1u << bits) - 1;
        for (size_t j = 0; j < n; j++) {
            uint32_t order = order_of(scores[j]);
            if (i == 0 || order >> (shift + bits) == found >> (shift + bits))
                counts[order >> shift & ((1u << bits) - 1)]++;
        }
        for (; counts[digit] < left; digit--) left -= counts[digit];
        found |= digit << shift;
    }
    *n_equal = left;
    return found;
}

/* The n_picked largest of n scores, as ascending numbers, then -1; of equal ones the lowest. NULL: there are
 * no more than n_picked. */
static void choose(const float *scores, size_t n, size_t n_picked, int32_t *picked)
{
    size_t n_equal, k = 0;
    if (n <= n_picked || !scores) {
        for (; k < n && k < n_picked; k++) picked[k] = (int32_t)k;
    } else {
        uint32_t lowest = lowest_picked(scores, n, n_picked, &n_equal);
        for (size_t j = 0; j < n && k < n_picked; j++) {
            uint32_t order = order_of(scores[j]);
            if (order < lowest || (order == lowest && n_equal == 0)) continue;
            if (order == lowest) n_equal--;
            picked[k++] = (int32_t)j;
        }
    }
    for (; k < n_picked; k++) picked[k] = -1;
}

static void choose_for(const struct pick *op, const struct work *work, size_t token, const float *scores)
{
    choose(scores, seen_by(op, work, token), op->picked.ne[0], view_row(&op->picked, token, 0, 0));
}

/* ---- Few tokens ---------------------------------------------------------------------------------------- */

/* The runs that the batch's tokens have to score. */
static size_t runs_now(const struct pick *op)
{
    size_t most = 0;
    for (size_t t = 0; t < op->positions.ne[0]; t++) {
        size_t n = scored_of(op, t);
        most = n > most ? n : most;
    }
    return (most + RUN - 1) / RUN;
}

static size_t count_runs(const void *args)
{
    const struct pick *op = args;
    return op->positions.ne[0] * runs_now(op);
}

static float *stored_scores(const struct pick *op, const struct work *work, size_t token)
{
    return (float *)(void *)work->slots[SLOT_ATTENTION] + token * score_stride(op);
}

static void run_score(const void *args, const struct work *work, size_t task)
{
    const struct pick *op = args;
    size_t n_runs = runs_now(op), token = task / n_runs, begin = task % n_runs * RUN;
    size_t end = smaller(begin + RUN, scored_of(op, token));
    struct pick_scratch scratch = pick_scratch(op, work);
    if (begin < end)
        score(op, work, &scratch, token, 1, begin, end, stored_scores(op, work, token), score_stride(op));
}

static void run_choose(const void *args, const struct work *work, size_t token)
{
    const struct pick *op = args;
    choose_for(op, work, token, stored_scores(op, work, token));
}

/* ---- Many tokens --------------------------------------------------------------------------------------- */

/* A task: a group of tokens, cut where the sequence changes. The last tokens, which see most, come first. */
static void run_group(const void *args, const struct work *work, size_t task)
{
    const struct pick *op = args;
    size_t n_tokens = op->positions.ne[0], n_groups = (n_tokens + op->group_tokens - 1) / op->group_tokens;
    size_t token = (n_groups - 1 - task) * op->group_tokens;
    size_t end = smaller(token + op->group_tokens, n_tokens), stride = score_stride(op);
    struct pick_scratch scratch = pick_scratch(op, work);
    while (token < end) {
        size_t first = token, most = scored_of(op, token);
        if (most == 0) {
            choose_for(op, work, token++, NULL);
            continue;
        }
        for (size_t n; ++token<end; most = n> most ? n : most) {
            n = scored_of(op, token);
            if (n == 0 || number(&op->sequences, token) != number(&op->sequences, first)) break;
        }
        score(op, work, &scratch, first, token - first, 0, most, scratch.scores, stride);
        for (size_t t = first; t < token; t++) choose_for(op, work, t, scratch.scores + (t - first) * stride);
    }
}

/* ---- The operation ------------------------------------------------------------------------------------- */

static int check(const struct request *request, const struct engine_op_pick *args, struct pick *op)
{
    int status = view_check(request, args->q, "q", VIEW_F32, &op->q);
    if (!status) status = view_check(request, args->k, "k", CACHE_TYPES, &op->k);
    if (!status) status = view_check(request, args->weights, "weights", VIEW_F32, &op->weights);
    if (!status) status = view_check(request, args->block_table, "block_table", VIEW_I32, &op->block_table);
    if (!status) status = view_check(request, args->sequences, "sequences", VIEW_I32, &op->sequences);
    if (!status) status = view_check(request, args->positions, "positions", VIEW_I32, &op->positions);
    if (!status) status = view_check(request, args->picked, "picked", VIEW_I32, &op->picked);
    if (status) return status;
    if (op->k.ne[0] > 65536 || op->q.ne[1] > 65536 || op->block_table.ne[0] > INT32_MAX / op->k.ne[1])
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "pick: the heads or the cache are too large");
    return ENGINE_OK;
}

static bool add_step(struct list *list, const struct pick *op, step_function *run, size_t n_tasks)
{
    struct pick *step = list_add(list, run, n_tasks, sizeof *step);
    if (!step) return false;
    *step = *op;
    const struct view *inputs[] = {&op->q,           &op->k,         &op->weights,
                                   &op->block_table, &op->sequences, &op->positions};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) list_reads(list, inputs[i]);
    return true;
}

int op_pick(const struct request *request, const void *args, struct list *list)
{
    struct pick op = {0};
    int status = check(request, args, &op);
    if (status || request->planning) return status;
    size_t n_tokens = op.positions.ne[0];
    bool is_split = n_tokens <= FEW_TOKENS;
    op.group_tokens = is_split || op.q.ne[1] > QUERIES ? 1 : smaller(QUERIES / op.q.ne[1], MAX_TOKENS);
    list_reserve_own(list, pick_scratch_size(&op, !is_split));
    if (!is_split) {
        if (!add_step(list, &op, run_group, (n_tokens + op.group_tokens - 1) / op.group_tokens))
            return ENGINE_ERROR_MEMORY;
        list_writes(list, &op.picked);
        return ENGINE_OK;
    }
    if (!add_step(list, &op, run_score, 0)) return ENGINE_ERROR_MEMORY;
    list_count_later(list, count_runs);
    list_writes_slot(list, SLOT_ATTENTION);
    list_reserve_slot(list, SLOT_ATTENTION, n_tokens * score_stride(&op) * sizeof(float));
    if (!add_step(list, &op, run_choose, n_tokens)) return ENGINE_ERROR_MEMORY;
    list_reads_slot(list, SLOT_ATTENTION);
    list_writes(list, &op.picked);
    return ENGINE_OK;
}
