/* case-cache.h: what the cases of attention and of picking share: sequences of different lengths in a paged
 * cache whose blocks are in random order, and the tokens that see them, as struct attention_case says. */
#ifndef ENGINE_CHECK_CASE_CACHE_H
#define ENGINE_CHECK_CASE_CACHE_H

#include "check/cases.h"

struct case_cache {
    uint32_t type, dim;
    float *values;                /* [dim, n_kv_heads, position of all sequences] as written */
    double *kept;                 /* the same as stored in the cache's type */
    double largest;               /* the largest magnitude in kept */
    struct engine_tensor *tensor; /* [dim, block_size, n_kv_heads, n_blocks] */
};

struct case_batch {
    uint32_t n_positions, n_blocks, max_blocks, n_tokens;
    uint32_t *starts;     /* [n_sequences] the index of each sequence's first position */
    int32_t *block_table; /* [max_blocks, n_sequences] */
    int32_t *slots;       /* [n_positions] */
    int32_t *sequences;   /* [n_tokens] */
    int32_t *positions;   /* [n_tokens, 2]: the second is the last position that a token sees */
};

/* The positions of a sequence. */
uint32_t case_length(const struct attention_case *c, uint32_t sequence);
/* Lays the sequences out in blocks, in random order, with one block left free. */
void case_lay_out(struct fixture *fixture, const struct attention_case *c, uint64_t *seed,
                  struct case_batch *batch);
/* The last positions of each sequence, in interleaved pieces. */
void case_choose_tokens(struct fixture *fixture, const struct attention_case *c, struct case_batch *batch);
/* Index of a row among the cache's bytes, all rows dense: slot of a block, head. */
size_t case_row_of(const struct attention_case *c, int32_t slot, uint32_t head);
/* The bytes of a cache that holds the values. Everything outside the sequences is NaN. */
uint8_t *case_cache_bytes(struct fixture *fixture, const struct attention_case *c,
                          const struct case_batch *batch, struct case_cache *cache);
/* A cache in a buffer. Strides of float32 are multiples of 4, those of other types multiples of 2. */
struct engine_tensor *case_cache_tensor(struct fixture *fixture, const struct attention_case *c,
                                        const struct case_batch *batch, const struct case_cache *cache,
                                        const uint8_t *bytes);
/* `common`: the first value of all rows, unless 0. */
struct case_cache case_make_cache(struct fixture *fixture, const struct attention_case *c,
                                  const struct case_batch *batch, uint32_t type, uint32_t dim, uint64_t *seed,
                                  float common);

#endif
