/* pairs.h: which two neighbouring symbols merge into which, and how eagerly. A symbol is what a piece of text
 * is at some moment of the merging: a character, a byte, a token. */
#ifndef TOKENIZERS_COMMON_PAIRS_H
#define TOKENIZERS_COMMON_PAIRS_H

#include <stddef.h>
#include <stdint.h>

#define PAIR_NONE ((uint32_t)-1)

struct pair {
    uint32_t left, right; /* symbols; left is PAIR_NONE in an empty slot */
    uint32_t rank;        /* the lowest merges first; less than PAIR_NONE */
    uint32_t result;      /* the symbol that they become */
};

struct pairs {
    struct pair *slots; /* [mask + 1], at most half of them in use */
    size_t mask, count;
    unsigned shift; /* 64 - log2(mask + 1) */
};

/* ENGINE_ERROR_MEMORY. A zeroed table may be destroyed. */
int pairs_create(struct pairs *pairs);
void pairs_destroy(struct pairs *pairs);

/* Adds a pair; one that is there already stays as it is. ENGINE_ERROR_MEMORY. */
int pairs_add(struct pairs *pairs, struct pair pair);

/* The slot of a pair, or PAIR_NONE. */
static inline uint32_t pairs_find(const struct pairs *pairs, uint32_t left, uint32_t right)
{
    uint64_t key = (uint64_t)left << 32 | right;
    for (size_t i = (key * 0x9E3779B97F4A7C15u) >> pairs->shift;; i = (i + 1) & pairs->mask) {
        const struct pair *slot = &pairs->slots[i];
        if (slot->left == left && slot->right == right) return (uint32_t)i;
        if (slot->left == PAIR_NONE) return PAIR_NONE;
    }
}

#endif
