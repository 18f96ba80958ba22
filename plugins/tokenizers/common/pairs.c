/* pairs.c: see pairs.h. */
#include "common/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/memory.h"

static size_t free_slot(const struct pair *slots, size_t mask, unsigned shift, uint32_t left, uint32_t right)
{
    size_t i = (((uint64_t)left << 32 | right) * 0x9E3779B97F4A7C15u) >> shift;
    while (slots[i].left != PAIR_NONE) i = (i + 1) & mask;
    return i;
}

static int resize(struct pairs *pairs, unsigned bits)
{
    size_t size = (size_t)1 << bits;
    struct pair *slots = bits < 32 ? allocate(size, sizeof *slots) : NULL;
    if (!slots) return fail_memory("merges");
    memset(slots, 0xFF, size * sizeof *slots);
    for (size_t i = 0; pairs->slots && i <= pairs->mask; i++) {
        struct pair pair = pairs->slots[i];
        if (pair.left != PAIR_NONE)
            slots[free_slot(slots, size - 1, 64 - bits, pair.left, pair.right)] = pair;
    }
    free(pairs->slots);
    pairs->slots = slots;
    pairs->mask = size - 1;
    pairs->shift = 64 - bits;
    return ENGINE_OK;
}

int pairs_create(struct pairs *pairs)
{
    memset(pairs, 0, sizeof *pairs);
    return resize(pairs, 10);
}

void pairs_destroy(struct pairs *pairs)
{
    free(pairs->slots);
    memset(pairs, 0, sizeof *pairs);
}

int pairs_add(struct pairs *pairs, struct pair pair)
{
    if (pairs_find(pairs, pair.left, pair.right) != PAIR_NONE) return ENGINE_OK;
    if (pairs->count * 2 > pairs->mask) {
        int status = resize(pairs, 64 - pairs->shift + 1);
        if (status) return status;
    }
    pairs->slots[free_slot(pairs->slots, pairs->mask, pairs->shift, pair.left, pair.right)] = pair;
    pairs->count++;
    return ENGINE_OK;
}
