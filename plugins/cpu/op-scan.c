/* op-scan.c: a linear recurrence over the tokens of a sequence. A task takes SCAN_COLUMNS columns (values) of
 * one head's state, for all tokens, in pieces of a run. The kernels (kernels/scan.h) work on the state where
 * it is; what is copied is a state that tokens would read from the same few sets of the nearest cache, and
 * columns at the end of a head, filled up with zeros. Each column is computed by itself and in the order of
 * its tokens, so results don't depend on how a text is cut into batches. */
#include <string.h>

#include "kernels.h"
#include "ops.h"
#include "states.h"

enum {
    PIECE = 32,       /* tokens of a piece */
    DENSE_TOKENS = 4, /* of a run under the delta rule, from which on its state is copied */
};

struct scan_step {
    struct view q, k, v, decay, a, b, erase, output; /* data NULL: absent */
    struct states_view states;
    const float *rates, *bonus; /* or NULL */
    float scale;
    size_t key_dim, value_dim, n_heads, heads_per_group, blocks_per_head;
    bool has_decay, has_erase;
};

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
    const struct scan_piece piece = {
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
    for (size_t t = 0; t < run->n; t += PIECE)
        run_piece(step, work, block, run->first + t, run->n - t < PIECE ? run->n - t : PIECE, used, stride,
                  scratch);
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
    return ENGINE_OK;
}

int op_scan(const struct request *request, const void *arguments, struct list *list)
{
    struct scan_step step = {0};
    int status = check(request, arguments, &step);
    if (status || request->planning) return status;
    struct scan_step *added = list_add(list, run_scan, step.n_heads * step.blocks_per_head, sizeof *added);
    if (!added) return ENGINE_ERROR_MEMORY;
    *added = step;
    list_reserve_own(list, scratch_size(step.key_dim));
    const struct view *const reads[] = {&step.q, &step.k, &step.v,    &step.decay,
                                        &step.a, &step.b, &step.erase};
    for (size_t i = 0; i < sizeof reads / sizeof *reads; i++)
        if (reads[i]->data) list_reads(list, reads[i]);
    list_writes(list, &step.output);
    states_declare(list, &step.states);
    return ENGINE_OK;
}
