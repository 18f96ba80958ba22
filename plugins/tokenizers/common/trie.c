/* trie.c: see trie.h. The table is kept at most half full. */
#include "common/trie.h"

#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/memory.h"

static int trie_resize(struct trie *trie, unsigned bits)
{
    size_t mask = ((size_t)1 << bits) - 1;
    uint64_t *edges = allocate_zeroed(mask + 1, sizeof *edges);
    if (!edges) return fail_memory("vocabulary");
    for (size_t i = 0; trie->edges && i <= trie->mask; i++) {
        uint64_t edge = trie->edges[i];
        if (!edge) continue;
        size_t at = ((edge >> 28) * 0x9E3779B97F4A7C15u) >> (64 - bits);
        while (edges[at]) at = (at + 1) & mask;
        edges[at] = edge;
    }
    free(trie->edges);
    trie->edges = edges;
    trie->mask = mask;
    trie->shift = 64 - bits;
    return ENGINE_OK;
}

int trie_create(struct trie *trie, size_t bytes)
{
    memset(trie, 0, sizeof *trie);
    memset(trie->first, 0xFF, sizeof trie->first);
    unsigned bits = 6;
    while (bits < 28 && ((size_t)1 << bits) < bytes) bits++;
    if (!ARRAY_RESERVE(trie->values, trie->capacity, bytes / 2 < TRIE_MAX ? bytes / 2 + 1 : TRIE_MAX))
        return fail_memory("vocabulary");
    trie->values[TRIE_ROOT] = TRIE_NONE;
    trie->n_nodes = 1;
    return trie_resize(trie, bits);
}

void trie_destroy(struct trie *trie)
{
    free(trie->edges);
    free(trie->values);
    memset(trie, 0, sizeof *trie);
}

static int add_child(struct trie *trie, uint32_t node, unsigned char byte, uint32_t *child)
{
    if (trie->n_nodes >= TRIE_MAX)
        return host->fail(ENGINE_ERROR_DATA, "the vocabulary is too large: more than %u bytes of text",
                          TRIE_MAX);
    if (trie->n_nodes * 2 > trie->mask) {
        int status = trie_resize(trie, 64 - trie->shift + 1);
        if (status) return status;
    }
    if (!ARRAY_RESERVE(trie->values, trie->capacity, trie->n_nodes + 1)) return fail_memory("vocabulary");
    *child = (uint32_t)trie->n_nodes++;
    ENGINE_ASSERT(trie->n_nodes * 2 <= trie->mask + 1); /* searches end at a free place */
    trie->values[*child] = TRIE_NONE;
    uint64_t key = (uint64_t)node << 8 | byte;
    size_t at = (key * 0x9E3779B97F4A7C15u) >> trie->shift;
    while (trie->edges[at]) at = (at + 1) & trie->mask;
    trie->edges[at] = key << 28 | *child;
    if (node == TRIE_ROOT) trie->first[byte] = *child;
    return ENGINE_OK;
}

int trie_insert(struct trie *trie, const char *text, size_t length, bool reversed, uint32_t new_value,
                uint32_t *value)
{
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[reversed ? length - 1 - i : i];
        uint32_t child = trie_step(trie, node, byte);
        if (child == TRIE_NONE) {
            int status = add_child(trie, node, byte, &child);
            if (status) return status;
        }
        node = child;
    }
    if (trie->values[node] == TRIE_NONE) trie->values[node] = new_value;
    if (value) *value = trie->values[node];
    return ENGINE_OK;
}

uint32_t trie_find(const struct trie *trie, const char *text, size_t length)
{
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < length && node != TRIE_NONE; i++)
        node = trie_step(trie, node, (unsigned char)text[i]);
    return node == TRIE_NONE ? TRIE_NONE : trie->values[node];
}

int trie_edges(const struct trie *trie, struct trie_edge **edges)
{
    size_t count = trie->n_nodes - 1, deepest = 0;
    struct trie_edge *found = allocate(count, sizeof *found); /* found[i] leads to node i + 1 */
    struct trie_edge *sorted = allocate(count, sizeof *sorted);
    size_t *ends = NULL; /* [deepest + 1] where in `sorted` the next edge of a depth goes */
    int status = ENGINE_OK;
    if (!found || !sorted) {
        status = fail_memory("vocabulary");
        goto cleanup;
    }
    for (size_t i = 0; i <= trie->mask; i++) {
        uint64_t edge = trie->edges[i];
        if (!edge) continue;
        uint32_t child = (uint32_t)(edge & (((uint64_t)1 << 28) - 1));
        found[child - 1] =
            (struct trie_edge){(uint32_t)(edge >> 36), child, 0, (unsigned char)(edge >> 28 & 0xFF)};
    }
    for (size_t i = 0; i < count; i++) {
        ENGINE_ASSERT(found[i].child == i + 1 && found[i].parent <= i); /* a parent is older */
        found[i].depth = found[i].parent == TRIE_ROOT ? 1 : found[found[i].parent - 1].depth + 1;
        if (found[i].depth > deepest) deepest = found[i].depth;
    }
    ends = allocate_zeroed(deepest + 2, sizeof *ends);
    if (!ends) {
        status = fail_memory("vocabulary");
        goto cleanup;
    }
    for (size_t i = 0; i < count; i++) ends[found[i].depth + 1]++;
    for (size_t depth = 1; depth <= deepest + 1; depth++) ends[depth] += ends[depth - 1];
    for (size_t i = 0; i < count; i++) sorted[ends[found[i].depth]++] = found[i];
    *edges = sorted;
    sorted = NULL;
cleanup:
    free(found);
    free(sorted);
    free(ends);
    return status;
}
