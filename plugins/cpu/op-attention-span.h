/* op-attention-span.h: one span of positions, for op-attention.c. */
#ifndef CPU_OP_ATTENTION_SPAN_H
#define CPU_OP_ATTENTION_SPAN_H

#include "op-attention.h"
#include "types.h"

enum {
    SPAN = 256,             /* positions */
    PIECE = ATTENTION_PIECE /* divides SPAN */
};

/* Partial results of n queries. */
struct partial {
    float *out; /* [n][value_size] */
    float *max; /* [n]; -infinity: nothing yet */
    float *sum; /* [n] */
};

/* Queries of consecutive tokens of one sequence for one key/value head, or of one token for several:
 * n = n_kv_heads * n_tokens * n_repeat of them, in the order [key/value head][token][head]. */
struct queries {
    size_t first_token, n_tokens, kv_head, n_kv_heads, n;
    int32_t sequence;
    const float *q; /* [n][key_size] */
};

/* Rows of results are padded, as those of keys are. */
static inline size_t value_size(const struct attention *op)
{
    return round_up(op->v.ne[0], PANEL);
}

/* Query head and token of query i. */
static inline size_t head_of(const struct attention *op, const struct queries *queries, size_t i)
{
    return queries->kv_head * op->n_repeat + (queries->n_tokens == 1 ? i : i % op->n_repeat);
}

static inline size_t token_of(const struct attention *op, const struct queries *queries, size_t i)
{
    return queries->first_token + (queries->n_tokens == 1 ? 0 : i / op->n_repeat);
}

/* The spans that any of some consecutive tokens sees, whose positions must be at least 0. */
void span_limits(const struct attention *op, size_t first_token, size_t n_tokens, size_t *first_span,
                 size_t *last_span);

/* Some positions of a cache that will be read soon, as far as they lie in one block; rows NULL: none. */
struct piece {
    const uint8_t *rows;
    size_t stride, n;
};

/* What a task is going to read, piece by piece in its order: of each group of tokens, of each span, the keys
 * of a piece's positions for all heads, then of the next piece's; then the values. */
struct course {
    size_t token, group, end; /* tokens up to `end` in groups of as many as `group` */
    size_t kv_head, n_kv_heads;
    size_t span, last_span;
    /* Within the span. */
    bool values;
    size_t position, span_end, head;
    struct piece first; /* of the first head, at this position */
};

/* The first piece of course->span. */
void course_begin_span(const struct attention *op, struct course *course);
/* The group that begins with the first token that isn't left out, from course->token on. */
void course_begin_group(const struct attention *op, struct course *course);
/* Prefetches the first pieces of a course. */
void course_start(const struct attention *op, struct course *course);

/* Scratch memory of attend. */
struct attend_scratch {
    float *rows;   /* [PIECE][key_size or value_size] */
    float *scores; /* [n][SPAN] */
};

/* What the queries get from span number `span`. Caches are read in the order in which they lie in memory: a
 * piece of all heads, then the next. Meanwhile the course's next one is prefetched, little by little. */
void attend(const struct attention *op, const struct work *work, const struct queries *queries, size_t span,
            const struct attend_scratch *scratch, const struct partial *partial, struct course *course);

#endif
