/* op-attention.h: shared by the files of attention: op-attention.c and op-attention-span.c compute its
 * output, op-attention-weights.c the weights, where they are wanted too. */
#ifndef CPU_OP_ATTENTION_H
#define CPU_OP_ATTENTION_H

#include "cache.h"
#include "list.h"

#define ATTENTION_PIECE 32 /* positions whose keys or values are converted to float32 at a time */

struct attention {
    struct view q, k, v, block_table, sequences, positions, output;
    struct view weights;                           /* ne[0] is 0 where they are not wanted */
    struct view picked;                            /* ne[0] is 0 where tokens see all positions */
    struct view earlier, earlier_logsums, logsums; /* or empty */
    float scale, softcap;
    uint32_t window, chunk;      /* not both */
    const float *slopes, *sinks; /* [n_heads], or NULL */
    const float *biases;         /* [2 * n_biases + 1, n_heads] by distance, or NULL */
    size_t n_biases;
    uint32_t split;        /* few tokens */
    uint32_t split_heads;  /* key/value heads of a task, where they are few */
    uint32_t group_tokens; /* of a task, where there are many */
    uint32_t n_repeat;     /* query heads that share a key/value head */
};

/* Rows in scratch memory are padded to whole vectors. */
static inline size_t attention_key_size(const struct attention *op)
{
    return round_up(op->k.ne[0], PANEL);
}

static inline int32_t attention_number(const struct view *view, size_t i)
{
    return ((const int32_t *)(const void *)view->data)[i];
}

/* The last position that a token sees, whose position is at least 0. */
static inline int32_t attention_last(const struct attention *op, size_t token)
{
    size_t rows = op->positions.ne[1] - 1;
    return attention_number(&op->positions, token + rows * op->positions.nb[1] / sizeof(int32_t));
}

/* What a token sees, whose position is at least 0: positions begin … end - 1, or those numbers of the picked
 * ones. */
struct attention_range {
    size_t begin, end;
};
struct attention_range attention_range(const struct attention *op, size_t token);

/* A token's position, -1 if it is left out, sees nothing, or its numbers are out of range: that fails `work`,
 * unless it is NULL. */
int32_t attention_position(const struct attention *op, const struct work *work, size_t token);

/* What numbers first … first + n - 1 of a token's range have in a cache become rows of `size` float32. */
void attention_fetch(const struct attention *op, const struct work *work, const struct view *cache,
                     size_t token, size_t kv_head, size_t first, size_t n, size_t size, float *rows);

/* Whether scores change between products and softmax. */
static inline bool attention_changes_scores(const struct attention *op)
{
    return op->softcap > 0 || op->slopes || op->biases;
}

/* Soft cap, slope and bias of n scores of a token's head, n a multiple of PANEL, from number `first` of its
 * range on. */
void attention_change_scores(const struct attention *op, const struct work *work, size_t token, size_t head,
                             size_t first, float *scores, size_t n);

/* op-attention-weights.c: adds the step that computes op->weights. */
int attention_add_weights(struct list *list, const struct attention *op);

#endif
