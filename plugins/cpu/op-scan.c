/* op-scan.c: a linear recurrence over the tokens of a sequence. A task takes SCAN_COLUMNS columns (values) of
 * one head's state, for all tokens, in pieces of a run. The kernels (kernels/scan.h) work on the state where
 * it is; what is copied is a state that tokens would read from the same few sets of the nearest cache, and
 * columns at the end of a head, filled up with zeros. Each column is computed by itself and in the order of
 * its tokens, so results don't depend on how a text is cut into batches.
 *
 * Without a, the kernel takes a piece's tokens through SCAN_KEYS rows of the state, or half as many where
 * vectors are short of registers, then through the next ones. Of more than a few tokens, a step before brings
 * keys and queries into that order (SLOT_SCAN), for all heads that share them: [2][SCAN_KEYS] floats for each
 * token, those of a piece's tokens side by side, then the next SCAN_KEYS; then the next piece, and then the
 * next group. */
#include <string.h>

#include "kernels.h"
#include "ops.h"
#include "states.h"

enum {
    PIECE = 32,        /* tokens of a piece, which begins at a multiple of it in the batch, or with a run */
    SORTED_TOKENS = 8, /* of a batch, from which on keys are sorted */
    DENSE_TOKENS = 4,  /* of a run under the delta rule, from which on its state is copied */
};

/* Floats of a token's SCAN_KEYS keys and as many queries, sorted; and of a piece's. */
#define TOKEN_KEYS ((size_t)2 * SCAN_KEYS)
#define PIECE_KEYS (PIECE * TOKEN_KEYS)

struct scan_step {
    struct view q, k, v, decay, a, b, erase, output; /* data NULL: absent */
    struct states_view states;
    const float *rates, *bonus; /* or NULL */
    float scale;
    size_t key_dim, value_dim, n_heads, heads_per_group, blocks_per_head, n_tokens;
    bool has_decay, has_erase, is_sorted;
};

/* ---- Keys and queries in the kernel's order ------------------------------------------------------------ */

static size_t key_parts(const struct scan_step *step)
{
    return (step->key_dim + SCAN_KEYS - 1) / SCAN_KEYS;
}

static size_t n_pieces(const struct scan_step *step)
{
    return (step->n_tokens + PIECE - 1) / PIECE;
}

/* The first keys of a token; its queries follow them. */
static float *sorted_at(const struct scan_step *step, const struct work *work, size_t group, size_t token)
{
    float *piece = (float *)(void *)work->slots[SLOT_SCAN] +
                   (group * n_pieces(step) + token / PIECE) * key_parts(step) * PIECE_KEYS;
    return piece + token % PIECE * TOKEN_KEYS;
}

/* A task: a piece of a group. */
static void run_sort(const void *args, const struct work *work, size_t task)
{
    const struct scan_step *step = args;
    size_t group = task / n_pieces(step), first = task % n_pieces(step) * PIECE, end = first + PIECE;
    if (end > step->n_tokens) end = step->n_tokens;
    for (size_t t = first; t < end; t++) {
        const float *k = view_row(&step->k, group, t, 0), *q = view_row(&step->q, group, t, 0);
        float *to = sorted_at(step, work, group, t);
        size_t i = 0;
        for (; i + SCAN_KEYS <= step->key_dim; i += SCAN_KEYS, to += PIECE_KEYS) {
            memcpy(to, k + i, SCAN_KEYS * sizeof *to);
            memcpy(to + SCAN_KEYS, q + i, SCAN_KEYS * sizeof *to);
        }
        if (i == step->key_dim) continue;
        memcpy(to, k + i, (step->key_dim - i) * sizeof *to);
        memcpy(to + SCAN_KEYS, q + i, (step->key_dim - i) * sizeof *to);
    }
}

static int append_sort(const struct scan_step *step, struct list *list)
{
    size_t n_groups = step->n_heads / step->heads_per_group;
    struct scan_step *added = list_add(list, run_sort, n_groups * n_pieces(step), sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = *step;
    list_reserve_slot(list, SLOT_SCAN,
                      n_groups * n_pieces(step) * key_parts(step) * PIECE_KEYS * sizeof(float));
    list_reads(list, &step->k);
    list_reads(list, &step->q);
    list_writes_slot(list, SLOT_SCAN);
    return ENGINE_OK;
}

/* ---- The scan ------------------------------------------------------------------------------------------ */

/* A thread's memory, in floats. */
struct scan_scratch {
    float *state;           /* [SCAN_COLUMNS, key_dim] */
    float *rates;           /* [SCAN_COLUMNS, key_dim] */
    float *v, *out, *steps; /* [SCAN_COLUMNS, PIECE] */
    float *decay;           /* [key_dim, PIECE] */
    float *erase;           /* [PIECE] */
};

static size_t scratch_size(size_t key_dim)
{
    const size_t columns = SCAN_COLUMNS, piece = PIECE;
    return (2 * columns * key_dim + 3 * columns * piece + key_dim * piece + piece) * sizeof(float);
}

static struct scan_scratch scratch_of(const struct work *work, size_t key_dim)
{
    const size_t columns = SCAN_COLUMNS, piece = PIECE;
    struct scan_scratch scratch;
    scratch.state = (float *)(void *)work->own;
    scratch.rates = scratch.state + columns * key_dim;
    scratch.v = scratch.rates + columns * key_dim;
    scratch.out = scratch.v + columns * piece;
    scratch.steps = scratch.out + columns * piece;
    scratch.decay = scratch.steps + columns * piece;
    scratch.erase = scratch.decay + key_dim * piece;
    return scratch;
}

/* Columns of a head. */
struct block {
    size_t head, first, n;
};

static const float *row_of(const struct view *view, size_t i1, size_t i2)
{
    return view->data ? view_row(view, i1, i2, 0) : NULL;
}

/* The columns of a row; of a whole block their number is known here, so that vectors are moved. */
static void copy_columns(const struct block *block, const float *from, float *to)
{
    if (block->n == SCAN_COLUMNS)
        memcpy(to, from, SCAN_COLUMNS * sizeof *to);
    else
        memcpy(to, from, block->n * sizeof *to);
}

/* exp of the piece's decays, or the decays themselves if rates come before exp. */
static void copy_decay(const struct scan_step *step, const struct work *work, const struct block *block,
                       size_t first, size_t n, const struct scan_scratch *scratch)
{
    if (step->rates) {
        for (size_t t = 0; t < n; t++)
            copy_columns(block, row_of(&step->decay, block->head, first + t) + block->first,
                         scratch->steps + t * SCAN_COLUMNS);
        return;
    }
    size_t n_decay = step->decay.ne[0];
    float *to = scratch->decay;
    for (size_t t = 0; t < n; t++)
        if (n_decay == 1)
            to[t] = *row_of(&step->decay, block->head, first + t);
        else
            memcpy(to + t * n_decay, row_of(&step->decay, block->head, first + t), n_decay * sizeof *to);
    work->kernels->exponentials(to, to, n * n_decay);
}

/* The rows that tokens read and write of a block are far from each other. Fetches values first … end - 1 and
 * the places of n outputs before them. */
static void fetch_rows(const struct scan_step *step, const struct block *block, size_t first, size_t end,
                       size_t n)
{
    for (size_t t = first; t < end; t++)
        for (size_t i = 0; i < block->n; i += 64 / sizeof(float))
            __builtin_prefetch(row_of(&step->v, block->head, t) + block->first + i);
    for (size_t t = first - n; t < first; t++)
        for (size_t i = 0; i < block->n; i += 64 / sizeof(float))
            __builtin_prefetch(row_of(&step->output, block->head, t) + block->first + i, 1);
}

/* Tokens whose state's rows are at `state`. */
static void run_piece(const struct scan_step *step, const struct work *work, const struct block *block,
                      size_t first, size_t n, float *state, size_t state_stride,
                      const struct scan_scratch *scratch)
{
    size_t group = block->head / step->heads_per_group;
    for (size_t t = 0; t < n; t++)
        copy_columns(block, row_of(&step->v, block->head, first + t) + block->first,
                     scratch->v + t * SCAN_COLUMNS);
    if (step->has_decay) copy_decay(step, work, block, first, n, scratch);
    for (size_t t = 0; t < n; t++)
        scratch->erase[t] = step->has_erase ? *row_of(&step->erase, block->head, first + t) : 1;
    struct scan_piece piece = {
        .n_tokens = n,
        .key_dim = step->key_dim,
        .q = row_of(&step->q, group, first),
        .k = row_of(&step->k, group, first),
        .a = row_of(&step->a, group, first),
        .b = row_of(&step->b, group, first),
        .q_stride = step->q.nb[2] / sizeof(float),
        .k_stride = step->k.nb[2] / sizeof(float),
        .a_stride = step->a.nb[2] / sizeof(float),
        .b_stride = step->b.nb[2] / sizeof(float),
        .keys_stride = SCAN_KEYS,
        .v = scratch->v,
        .erase = scratch->erase,
        .n_decay = step->has_decay && !step->rates ? step->decay.ne[0] : 0,
        .decay = scratch->decay,
        .rates = step->rates ? scratch->rates : NULL,
        .steps = scratch->steps,
        .bonus = step->bonus ? step->bonus + block->head * step->key_dim : NULL,
        .scale = step->scale,
        .state = state,
        .state_stride = state_stride,
        .out = scratch->out,
    };
    if (step->is_sorted) {
        piece.k = sorted_at(step, work, group, first), piece.q = piece.k + SCAN_KEYS;
        piece.k_stride = piece.q_stride = TOKEN_KEYS;
        piece.keys_stride = PIECE_KEYS;
    }
    work->kernels->scan(&piece);
    for (size_t t = 0; t < n; t++)
        copy_columns(block, scratch->out + t * SCAN_COLUMNS,
                     (float *)view_row(&step->output, block->head, first + t, 0) + block->first);
}

/* Tokens of one state. */
static void run_tokens(const struct scan_step *step, const struct work *work, const struct block *block,
                       const struct states_run *run, const struct scan_scratch *scratch)
{
    float *state = (float *)(void *)run->state + block->head * step->key_dim * step->value_dim + block->first;
    const bool is_copied = block->n < SCAN_COLUMNS || (step->a.data && run->n >= DENSE_TOKENS);
    float *used = is_copied ? scratch->state : state;
    const size_t stride = is_copied ? SCAN_COLUMNS : step->value_dim;
    for (size_t i = 0; i < step->key_dim && run->begins; i++)
        memset(used + i * stride, 0, block->n * sizeof *used);
    for (size_t i = 0; i < step->key_dim && is_copied && !run->begins; i++)
        copy_columns(block, state + i * step->value_dim, used + i * stride);
    const size_t end = run->first + run->n;
    for (size_t t = run->first, n; t < end; t += n) {
        n = PIECE - t % PIECE < end - t ? PIECE - t % PIECE : end - t;
        if (n > 1) fetch_rows(step, block, t + n, end - t - n < PIECE ? end : t + n + PIECE, n);
        run_piece(step, work, block, t, n, used, stride, scratch);
    }
    for (size_t i = 0; i < step->key_dim && is_copied; i++)
        copy_columns(block, used + i * stride, state + i * step->value_dim);
}

static void run_scan(const void *args, const struct work *work, size_t task)
{
    const struct scan_step *step = args;
    struct scan_scratch scratch = scratch_of(work, step->key_dim);
    struct block block = {task / step->blocks_per_head, task % step->blocks_per_head * SCAN_COLUMNS,
                          SCAN_COLUMNS};
    if (block.n > step->value_dim - block.first) block.n = step->value_dim - block.first;
    if (block.n < SCAN_COLUMNS) memset(work->own, 0, scratch_size(step->key_dim)); /* what fills vectors up */
    for (size_t j = 0; j < block.n && step->rates; j++)
        for (size_t i = 0; i < step->key_dim; i++)
            scratch.rates[i * SCAN_COLUMNS + j] =
                step->rates[(block.head * step->value_dim + block.first + j) * step->key_dim + i];
    for (struct states_run run = {0}; states_next(work, &step->states, &run);) {
        if (run.has_state) {
            run_tokens(step, work, &block, &run, &scratch);
            continue;
        }
        for (size_t t = 0; t < run.n; t++)
            memset((float *)view_row(&step->output, block.head, run.first + t, 0) + block.first, 0,
                   block.n * sizeof(float));
    }
}

/* The operands that may be absent. */
static int check_optional(const struct request *request, const struct engine_op_scan *args,
                          struct scan_step *step)
{
    int status = ENGINE_OK;
    if (args->a) status = view_check(request, args->a, "a", VIEW_F32, &step->a);
    if (args->b && !status) status = view_check(request, args->b, "b", VIEW_F32, &step->b);
    if (args->erase && !status) status = view_check(request, args->erase, "erase", VIEW_F32, &step->erase);
    if (args->decay && !status) status = view_check(request, args->decay, "decay", VIEW_F32, &step->decay);
    if (!status) status = values_check(request, args->rates, "rates", &step->rates);
    if (!status) status = values_check(request, args->bonus, "bonus", &step->bonus);
    step->has_decay = args->decay, step->has_erase = args->erase;
    return status;
}

static int check(const struct request *request, const struct engine_op_scan *args, struct scan_step *step)
{
    int status = view_check(request, args->q, "q", VIEW_F32, &step->q);
    if (!status) status = view_check(request, args->k, "k", VIEW_F32, &step->k);
    if (!status) status = view_check(request, args->v, "v", VIEW_F32, &step->v);
    if (!status) status = view_check(request, args->output, "output", VIEW_F32, &step->output);
    if (!status) status = check_optional(request, args, step);
    if (!status) status = states_check(request, args->positions, args->states, args->state, 3, &step->states);
    if (status) return status;
    step->key_dim = step->q.ne[0], step->value_dim = step->v.ne[0], step->n_heads = step->v.ne[1];
    if (args->reserved)
        return refuse(request, ENGINE_ERROR_UNSUPPORTED, "scan: the arguments are from a later version");
    step->heads_per_group = step->n_heads / step->q.ne[1];
    step->blocks_per_head = (step->value_dim + SCAN_COLUMNS - 1) / SCAN_COLUMNS;
    step->scale = args->scale != 0 ? args->scale : 1;
    step->n_tokens = step->v.ne[2];
    step->is_sorted = !args->a && step->n_tokens >= SORTED_TOKENS;
    return ENGINE_OK;
}

int op_scan(const struct request *request, const void *arguments, struct list *list)
{
    struct scan_step step = {0};
    int status = check(request, arguments, &step);
    if (status || request->planning) return status;
    if (step.is_sorted) status = append_sort(&step, list);
    if (status) return status;
    struct scan_step *added = list_add(list, run_scan, step.n_heads * step.blocks_per_head, sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, scratch_size(step.key_dim));
    const struct view *const reads[] = {&step.q, &step.k, &step.v,    &step.decay,
                                        &step.a, &step.b, &step.erase};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (reads[i]->data) list_reads(list, reads[i]);
    if (step.is_sorted) list_reads_slot(list, SLOT_SCAN);
    list_writes(list, &step.output);
    states_declare(list, &step.states);
    return ENGINE_OK;
}
