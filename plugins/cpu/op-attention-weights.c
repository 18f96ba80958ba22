/* op-attention-weights.c: the weights of attention, for those who want to see them. A task takes the query
 * heads of a token that share a key/value head: scores go to their rows of the output piece by piece, and
 * become weights there. */
#include <math.h>
#include <string.h>

#include "op-attention.h"

/* Turns the scores of the positions begin … end - 1 into weights. `sink`: NULL without. */
static void scores_to_weights(float *row, size_t begin, size_t end, const float *sink)
{
    float max = sink ? *sink : -INFINITY;
    for (size_t j = begin; j < end; j++) max = fmaxf(max, row[j]);
    double sum = sink ? (double)expf(*sink - max) : 0;
    for (size_t j = begin; j < end; j++) {
        row[j] = expf(row[j] - max);
        sum += (double)row[j];
    }
    for (size_t j = begin; j < end; j++) row[j] = (float)((double)row[j] / sum);
}

/* Moves the weights of picked positions from the numbers begin … end - 1 of these to their places. Those are
 * never lower than the numbers, so that the last are moved first. */
static void spread(float *row, const int32_t *picked, size_t begin, size_t end)
{
    for (size_t i = end; i-- > begin;) {
        float weight = row[i];
        row[i] = 0;
        row[picked[i]] = weight;
    }
}

/* Scratch memory of a task: queries [n_repeat][key_size], keys [ATTENTION_PIECE][key_size], scores
 * [n_repeat][ATTENTION_PIECE]. */
static size_t own_floats(const struct attention *op)
{
    return (op->n_repeat + ATTENTION_PIECE) * attention_key_size(op) + (size_t)op->n_repeat * ATTENTION_PIECE;
}

static void run_weights(const void *args, const struct work *work, size_t task)
{
    const struct attention *op = args;
    size_t kv_head = task % op->k.ne[2], token = task / op->k.ne[2], n_q = op->n_repeat;
    size_t ks = attention_key_size(op), first_head = kv_head * n_q;
    float *q = (float *)(void *)work->own, *keys = q + n_q * ks, *scores = keys + ATTENTION_PIECE * ks;
    for (size_t r = 0; r < n_q; r++)
        memset(view_row(&op->weights, first_head + r, token, 0), 0, op->weights.ne[0] * sizeof(float));
    int32_t position = attention_position(op, work, token);
    if (position < 0) return;
    size_t begin = attention_range(op, token).begin, end = attention_range(op, token).end;
    if ((size_t)attention_last(op, token) >= op->weights.ne[0]) {
        work_fail(work, "attention: a position is beyond the weights' keys");
        return;
    }
    for (size_t r = 0; r < n_q; r++) {
        memcpy(q + r * ks, view_row(&op->q, first_head + r, token, 0), op->q.ne[0] * sizeof *q);
        memset(q + r * ks + op->q.ne[0], 0, (ks - op->q.ne[0]) * sizeof *q);
    }
    for (size_t j = begin, n; j < end; j += n) {
        n = end - j < ATTENTION_PIECE ? end - j : ATTENTION_PIECE;
        attention_fetch(op, work, &op->k, token, kv_head, j, n, ks, keys);
        memset(scores, 0, n_q * ATTENTION_PIECE * sizeof *scores);
        work->kernels->attention_scores(q, n_q, keys, n, ks, op->scale, scores, ATTENTION_PIECE);
        for (size_t r = 0; r < n_q; r++) {
            float *row = view_row(&op->weights, first_head + r, token, 0),
                  *from = scores + r * ATTENTION_PIECE;
            attention_change_scores(op, work, token, first_head + r, j, from, round_up(n, PANEL));
            memcpy(row + j, from, n * sizeof *row);
        }
    }
    for (size_t r = 0; r < n_q; r++) {
        float *row = view_row(&op->weights, first_head + r, token, 0);
        scores_to_weights(row, begin, end, op->sinks ? &op->sinks[first_head + r] : NULL);
        if (op->picked.ne[0] > 0) spread(row, view_row(&op->picked, token, 0, 0), begin, end);
    }
}

int attention_add_weights(struct list *list, const struct attention *op)
{
    size_t n_tokens = op->positions.ne[0];
    struct attention *step = list_add(list, run_weights, n_tokens * op->k.ne[2], sizeof *step);
    if (!step) return ENGINE_ERROR_MEMORY;
    *step = *op;
    const struct view *inputs[] = {&op->q,         &op->k,         &op->block_table,
                                   &op->sequences, &op->positions, &op->picked};
    for (size_t i = 0; i < sizeof inputs / sizeof *inputs; i++) list_reads(list, inputs[i]);
    list_writes(list, &op->weights);
    list_reserve_own(list, own_floats(op) * sizeof(float));
    return ENGINE_OK;
}
