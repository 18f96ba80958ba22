/* pairs.c: see pairs.h. */
#include "common/pairs.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"

/* Puts a new pair into its place among the direct ones, or into a free slot. */
static void pairs_put(struct pairs *pairs, struct pair pair)
{
    size_t i = (size_t)pair.left * PAIR_DIRECT + pair.right;
    if (!pairs->direct || (pair.left | pair.right) >= PAIR_DIRECT) {
        uint64_t hash = ((uint64_t)pair.left << 32 | pair.right) * 0x9E3779B97F4A7C15u;
        uint64_t bit = hash >> (pairs->shift - 3);
        pairs->filter[bit / 64] |= (uint64_t)1 << bit % 64;
        i = hash >> pairs->shift;
        while (pairs->slots[pairs->direct + i].left != PAIR_NONE) i = (i + 1) & pairs->mask;
        i += pairs->direct;
    }
    pairs->slots[i] = pair;
}

/* Makes room for 2^bits slots after the direct ones. */
static int pairs_resize(struct pairs *pairs, unsigned bits)
{
    struct pairs resized = *pairs;
    size_t old_size = pairs->slots ? pairs->direct + pairs->mask + 1 : 0;
    resized.mask = ((size_t)1 << bits) - 1;
    resized.shift = 64 - bits;
    size_t size = resized.direct + resized.mask + 1;
    resized.slots = bits < 31 ? allocate(size, sizeof *resized.slots) : NULL;
    resized.filter = allocate_zeroed((resized.mask + 1) / 8, sizeof *resized.filter);
    if (!resized.slots || !resized.filter) {
        free(resized.slots);
        free(resized.filter);
        return fail_memory("merges");
    }
    memset(resized.slots, 0xFF, size * sizeof *resized.slots);
    for (size_t i = 0; i < old_size; i++)
        if (pairs->slots[i].left != PAIR_NONE) pairs_put(&resized, pairs->slots[i]);
    pairs_destroy(pairs);
    *pairs = resized;
    return ENGINE_OK;
}

int pairs_create(struct pairs *pairs, bool direct)
{
    memset(pairs, 0, sizeof *pairs);
    pairs->direct = direct ? (size_t)PAIR_DIRECT * PAIR_DIRECT : 0;
    return pairs_resize(pairs, 10);
}

void pairs_destroy(struct pairs *pairs)
{
    free(pairs->slots);
    free(pairs->filter);
    memset(pairs, 0, sizeof *pairs);
}

int pairs_add(struct pairs *pairs, struct pair pair)
{
    if (pairs_find(pairs, pair.left, pair.right) != PAIR_NONE) return ENGINE_OK;
    if (pairs->count * 2 > pairs->mask) {
        int status = pairs_resize(pairs, 64 - pairs->shift + 1);
        if (status) return status;
    }
    pairs_put(pairs, pair);
    pairs->count++;
    ENGINE_ASSERT(pairs->count * 2 <= pairs->mask + 1); /* searches end at a free slot */
    return ENGINE_OK;
}
