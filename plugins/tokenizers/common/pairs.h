/* pairs.h: which two neighbouring symbols merge into which, and how eagerly. A symbol is a piece of text at
 * some stage of merging: a character, a byte, a token. */
#ifndef TOKENIZERS_COMMON_PAIRS_H
#define TOKENIZERS_COMMON_PAIRS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define PAIR_NONE ((uint32_t)-1)

struct pair {
    uint32_t left, right; /* symbols; left is PAIR_NONE in an empty slot */
    uint32_t rank;        /* the lowest merges first; less than PAIR_NONE */
    uint32_t result;      /* the symbol that they become */
};

struct pairs {
    struct pair *slots; /* [direct + mask + 1]; at most half of the last mask + 1 are in use */
    size_t direct;      /* 0, or PAIR_DIRECT * PAIR_DIRECT slots at the beginning: [left][right] */
    size_t mask, count;
    unsigned shift; /* 64 - log2(mask + 1) */
    /* Most neighbours form no pair, and this small table shows it without a look at the slots. It has eight
     * bits for each slot; one bit is set for each pair, so that few other neighbours find theirs set. */
    uint64_t *filter; /* [(mask + 1) / 8] */
};

#define PAIR_DIRECT ((uint32_t)256)

/* With `direct`, symbols below PAIR_DIRECT, the most frequent in lookups, are found without hashing.
 * ENGINE_ERROR_MEMORY. A zeroed table may be destroyed. */
int pairs_create(struct pairs *pairs, bool direct);
void pairs_destroy(struct pairs *pairs);

/* Adds a pair; an existing one stays as it is. ENGINE_ERROR_MEMORY. */
int pairs_add(struct pairs *pairs, struct pair pair);

/* The slot of a pair, or PAIR_NONE. */
static inline uint32_t pairs_find(const struct pairs *pairs, uint32_t left, uint32_t right)
{
    if (pairs->direct && (left | right) < PAIR_DIRECT) {
        size_t slot = (size_t)left * PAIR_DIRECT + right;
        return pairs->slots[slot].left == left ? (uint32_t)slot : PAIR_NONE;
    }
    uint64_t hash = ((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u;
    uint64_t bit = hash >> (pairs->shift - 3);
    if (!(pairs->filter[bit / 64] >> bit % 64 & 1)) return PAIR_NONE;
    for (size_t i = hash >> pairs->shift;; i = (i + 1) & pairs->mask) {
        const struct pair *slot = &pairs->slots[pairs->direct + i];
        if (slot->left == left && slot->right == right) return (uint32_t)(pairs->direct + i);
        if (slot->left == PAIR_NONE) return PAIR_NONE;
    }
}

#endif
