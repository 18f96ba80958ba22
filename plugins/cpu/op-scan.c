/* op-scan.c: a linear recurrence over the tokens of a sequence. A task takes PANEL columns (values) of one
 * head's state, for all tokens: in pieces of a run, whose operands it copies together, and whose state stays
 * in registers or in the nearest cache (kernels/scan.h). Each column is computed by itself and in the order
 * of its tokens, so results don't depend on how a text is cut into batches. */
#include <string.h>

#include "kernels.h"
#include "ops.h"
#include "states.h"

enum { PIECE = 32 }; /* tokens of a piece */

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
    float *state;           /* [PANEL, key_dim] */
    float *rates;           /* [PANEL, key_dim] */
    float *v, *out, *steps; /* [PANEL, PIECE] */
    float *decay;           /* [key_dim, PIECE] */
    float *erase;           /* [PIECE] */
};

static size_t scratch_size(size_t key_dim)
{
    return (2 * PANEL * key_dim + 3 * PANEL * PIECE + key_dim * PIECE + PIECE) * sizeof(float);
}

static struct scan_scratch scratch_of(const struct work *work, size_t key_dim)
{
    struct scan_scratch scratch;
    scratch.state = (float *)(void *)work->own;
    scratch.rates = scratch.state + PANEL * key_dim;
    scratch.v = scratch.rates + PANEL * key_dim;
    scratch.out = scratch.v + PANEL * PIECE;
    scratch.steps = scratch.out + PANEL * PIECE;
    scratch.decay = scratch.steps + PANEL * PIECE;
    scratch.erase = scratch.decay + key_dim * PIECE;
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

/* exp of the piece's decays, or the decays themselves if rates come before exp. */
static void copy_decay(const struct scan_step *step, const struct work *work, const struct block *block,
                       size_t first, size_t n, const struct scan_scratch *scratch)
{
    size_t n_decay = step->rates ? block->n : step->decay.ne[0];
    size_t stride = step->rates ? PANEL : n_decay;
    float *to = step->rates ? scratch->steps : scratch->decay;
    for (size_t t = 0; t < n; t++)
        memcpy(to + t * stride,
               row_of(&step->decay, block->head, first + t) + (step->rates ? block->first : 0),
               n_decay * sizeof *to);
    if (!step->rates) work->kernels->exponentials(to, to, n * n_decay);
}

static void run_piece(const struct scan_step *step, const struct work *work, const struct block *block,
                      size_t first, size_t n, const struct scan_scratch *scratch)
{
    size_t group = block->head / step->heads_per_group;
    for (size_t t = 0; t < n; t++)
        memcpy(scratch->v + t * PANEL, row_of(&step->v, block->head, first + t) + block->first,
               block->n * sizeof(float));
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
        .state = scratch->state,
        .out = scratch->out,
    };
    work->kernels->scan(&piece);
    for (size_t t = 0; t < n; t++)
        memcpy((float *)view_row(&step->output, block->head, first + t, 0) + block->first,
               scratch->out + t * PANEL, block->n * sizeof(float));
}

/* A head's columns, rows of value_dim, to rows of PANEL or back. */
static void copy_columns(const struct scan_step *step, const struct block *block, float *rows, float *panel,
                         bool back)
{
    for (size_t i = 0; i < step->key_dim; i++) {
        float *row = rows + (block->head * step->key_dim + i) * step->value_dim + block->first;
        if (back)
            memcpy(row, panel + i * PANEL, block->n * sizeof *row);
        else
            memcpy(panel + i * PANEL, row, block->n * sizeof *row);
    }
}

static void run_scan(const void *args, const struct work *work, size_t task)
{
    const struct scan_step *step = args;
    struct scan_scratch scratch = scratch_of(work, step->key_dim);
    struct block block = {task / step->blocks_per_head, task % step->blocks_per_head * PANEL, PANEL};
    if (block.n > step->value_dim - block.first) block.n = step->value_dim - block.first;
    if (block.n < PANEL) memset(work->own, 0, scratch_size(step->key_dim)); /* what fills vectors up */
    for (size_t j = 0; j < block.n && step->rates; j++)
        for (size_t i = 0; i < step->key_dim; i++)
            scratch.rates[i * PANEL + j] =
                step->rates[(block.head * step->value_dim + block.first + j) * step->key_dim + i];
    for (struct states_run run = {0}; states_next(work, &step->states, &run);) {
        if (!run.has_state) {
            for (size_t t = 0; t < run.n; t++)
                memset((float *)view_row(&step->output, block.head, run.first + t, 0) + block.first, 0,
                       block.n * sizeof(float));
            continue;
        }
        float *state = (float *)(void *)run.state;
        if (run.begins)
            memset(scratch.state, 0, PANEL * step->key_dim * sizeof(float));
        else
            copy_columns(step, &block, state, scratch.state, false);
        for (size_t t = 0; t < run.n; t += PIECE)
            run_piece(step, work, &block, run.first + t, run.n - t < PIECE ? run.n - t : PIECE, &scratch);
        copy_columns(step, &block, state, scratch.state, true);
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
    step->blocks_per_head = (step->value_dim + PANEL - 1) / PANEL;
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
