/* trie.h: a set of byte strings, each with a value, for looking up whole strings and all prefixes of a text.
 * The edges of all nodes are in one hash table, so that a step costs one probe for any fan-out, and
 * building is linear in the bytes put in. */
#ifndef TOKENIZERS_COMMON_TRIE_H
#define TOKENIZERS_COMMON_TRIE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TRIE_NONE ((uint32_t)-1) /* no node, no value */
#define TRIE_ROOT ((uint32_t)0)
#define TRIE_MAX  (((uint32_t)1 << 28) - 2) /* nodes */

struct trie {
    uint64_t *edges;     /* [mask + 1]: parent << 36 | byte << 28 | child; 0: empty */
    uint32_t *values;    /* [n_nodes], TRIE_NONE where no string ends */
    uint32_t first[256]; /* the root's children, TRIE_NONE for none */
    size_t mask, n_nodes, capacity;
    unsigned shift; /* 64 - log2(mask + 1) */
};

/* An empty trie with room for about `bytes` bytes of strings. ENGINE_ERROR_MEMORY. */
int trie_create(struct trie *trie, size_t bytes);
/* A zeroed trie is fine. */
void trie_destroy(struct trie *trie);

/* Inserts a string. If it is there already, its value stays; *value (may be NULL) receives the value in the
 * trie. `reversed`: last byte first. ENGINE_ERROR_MEMORY; ENGINE_ERROR_DATA: more than TRIE_MAX nodes. */
int trie_insert(struct trie *trie, const char *text, size_t length, bool reversed, uint32_t new_value,
                uint32_t *value);

/* The child of `node` for `byte`, or TRIE_NONE. */
static inline uint32_t trie_step(const struct trie *trie, uint32_t node, unsigned char byte)
{
    uint64_t key = (uint64_t)node << 8 | byte;
    for (size_t i = (key * 0x9E3779B97F4A7C15u) >> trie->shift;; i = (i + 1) & trie->mask) {
        uint64_t edge = trie->edges[i];
        if (edge >> 28 == key && edge) return (uint32_t)(edge & (((uint64_t)1 << 28) - 1));
        if (!edge) return TRIE_NONE;
    }
}

/* The value of a whole string, or TRIE_NONE. */
uint32_t trie_find(const struct trie *trie, const char *text, size_t length);

/* A node other than the root, and the edge to it. */
struct trie_edge {
    uint32_t parent, child;
    uint32_t depth; /* bytes from the root to the child */
    unsigned char byte;
};

/* All edges, [n_nodes - 1], those closer to the root first; the caller frees *edges. ENGINE_ERROR_MEMORY. */
int trie_edges(const struct trie *trie, struct trie_edge **edges);

#endif
