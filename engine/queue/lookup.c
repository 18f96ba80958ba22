/* lookup.c: see lookup.h. Positions whose last two tokens have the same hash are linked, the latest first. */
#include "queue/lookup.h"

#include <stdlib.h>

#define NONE        (-1)
#define FIRST_HEADS 256
#define MOST_TRIES  32 /* positions looked at for a guess */

struct lookup {
    int32_t *heads;    /* [n_heads] by hash: the last position, or NONE */
    size_t n_heads;    /* a power of two */
    int32_t *previous; /* [n_indexed] the previous position with the same hash; room for [capacity] */
    size_t n_indexed, capacity;
};

static size_t hash_at(const struct lookup *lookup, const int32_t *tokens, size_t at)
{
    uint64_t pair = (uint64_t)(uint32_t)tokens[at - 1] << 32 | (uint32_t)tokens[at];
    return (size_t)((pair * 0x9e3779b97f4a7c15u) >> 32) & (lookup->n_heads - 1);
}

static void index_from(struct lookup *lookup, const int32_t *tokens, size_t first, size_t n_tokens)
{
    for (size_t at = first; at < n_tokens; at++) {
        lookup->previous[at] = NONE;
        if (at == 0) continue;
        int32_t *head = &lookup->heads[hash_at(lookup, tokens, at)];
        lookup->previous[at] = *head;
        *head = (int32_t)at;
    }
    lookup->n_indexed = n_tokens;
}

/* Doubles the number of heads and links all positions again. */
static bool grow_heads(struct lookup *lookup, const int32_t *tokens, size_t n_heads)
{
    int32_t *heads = malloc(n_heads * sizeof *heads);
    if (!heads) return false;
    for (size_t i = 0; i < n_heads; i++) heads[i] = NONE;
    free(lookup->heads);
    lookup->heads = heads;
    lookup->n_heads = n_heads;
    index_from(lookup, tokens, 0, lookup->n_indexed);
    return true;
}

struct lookup *lookup_create(void)
{
    struct lookup *lookup = calloc(1, sizeof *lookup);
    if (lookup && !grow_heads(lookup, NULL, FIRST_HEADS)) {
        free(lookup);
        return NULL;
    }
    return lookup;
}

void lookup_destroy(struct lookup *lookup)
{
    if (!lookup) return;
    free(lookup->heads);
    free(lookup->previous);
    free(lookup);
}

bool lookup_extend(struct lookup *lookup, const int32_t *tokens, size_t n_tokens)
{
    if (n_tokens <= lookup->n_indexed) return true;
    if (n_tokens > INT32_MAX) return false;
    if (n_tokens > lookup->capacity) {
        size_t capacity = n_tokens + n_tokens / 2;
        int32_t *grown = realloc(lookup->previous, capacity * sizeof *grown);
        if (!grown) return false;
        lookup->previous = grown;
        lookup->capacity = capacity;
    }
    size_t n_heads = lookup->n_heads;
    while (n_heads < n_tokens) n_heads *= 2;
    if (n_heads > lookup->n_heads && !grow_heads(lookup, tokens, n_heads)) return false;
    index_from(lookup, tokens, lookup->n_indexed, n_tokens);
    return true;
}

/* How many tokens up to `at` match those up to the last one. */
static size_t count_alike(const int32_t *tokens, size_t at, size_t last)
{
    size_t n = 0;
    while (n <= at && n < LOOKUP_MOST && tokens[at - n] == tokens[last - n]) n++;
    return n;
}

size_t lookup_guess(const struct lookup *lookup, const int32_t *tokens, size_t n_tokens, size_t n,
                    int32_t *guess)
{
    if (n_tokens < LOOKUP_LEAST + 1 || lookup->n_indexed < n_tokens) return 0;
    size_t last = n_tokens - 1, longest = 0, best = 0;
    int32_t at = lookup->previous[last];
    for (int tries = 0; at != NONE && tries < MOST_TRIES && longest < LOOKUP_MOST;
         tries++, at = lookup->previous[at]) {
        size_t alike = count_alike(tokens, (size_t)at, last);
        if (alike <= longest) continue;
        longest = alike;
        best = (size_t)at;
    }
    if (longest < LOOKUP_LEAST) return 0;
    for (size_t i = 0; i < n; i++) {
        size_t from = best + 1 + i;
        guess[i] = from < n_tokens ? tokens[from] : guess[from - n_tokens];
    }
    return longest;
}
