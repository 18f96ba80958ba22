/* longest.c: see longest.h. */
#include "common/longest.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "common/assert.h"
#include "common/explain.h"
#include "common/memory.h"

int longest_create(struct longest *longest, size_t bytes)
{
    memset(longest, 0, sizeof *longest);
    return trie_create(&longest->trie, bytes);
}

void longest_destroy(struct longest *longest)
{
    trie_destroy(&longest->trie);
    free(longest->nodes);
    free(longest->joins);
    memset(longest, 0, sizeof *longest);
}

/* Puts the tokens of `second` after those of `first`. */
static int longest_join_two(struct longest *longest, struct longest_node *first,
                            const struct longest_node *second)
{
    if (longest->n_joins >= LONGEST_JOINED)
        return host->fail(ENGINE_ERROR_DATA, "the vocabulary is too large for greedy matching");
    if (!ARRAY_RESERVE(longest->joins, longest->joins_capacity, longest->n_joins + 1))
        return fail_memory("vocabulary");
    longest->joins[longest->n_joins] =
        (struct longest_join){first->tokens, second->tokens, first->n_tokens, second->n_tokens};
    first->tokens = LONGEST_JOINED | (uint32_t)longest->n_joins++;
    first->n_tokens += second->n_tokens;
    return ENGINE_OK;
}

/* A token yields itself. Any other node yields what its parent does; the bytes left over, followed by this
 * node's byte, may yield more, until they begin a token again. Every byte begins one, so this ends. */
static int link_node(struct longest *longest, const struct trie_edge *edge)
{
    uint32_t id = longest->trie.values[edge->child];
    if (id != TRIE_NONE) {
        longest->nodes[edge->child] = (struct longest_node){id, 1, TRIE_ROOT};
        return ENGINE_OK;
    }
    struct longest_node node = longest->nodes[edge->parent];
    uint32_t rest;
    while ((rest = trie_step(&longest->trie, node.rest, edge->byte)) == TRIE_NONE) {
        const struct longest_node *left = &longest->nodes[node.rest];
        int status = longest_join_two(longest, &node, left);
        if (status) return status;
        node.rest = left->rest;
    }
    node.rest = rest;
    longest->nodes[edge->child] = node;
    return ENGINE_OK;
}

int longest_link(struct longest *longest, uint32_t unknown)
{
    struct trie_edge *edges = NULL; /* [trie.n_nodes - 1] */
    int status = ENGINE_OK;
    longest->unknown = unknown;
    for (int byte = 0; !status && byte < 256; byte++) {
        char text = (char)byte;
        status = trie_insert(&longest->trie, &text, 1, false, unknown, NULL);
    }
    if (!status) {
        longest->nodes = allocate_zeroed(longest->trie.n_nodes, sizeof *longest->nodes);
        status = longest->nodes ? trie_edges(&longest->trie, &edges) : fail_memory("vocabulary");
    }
    for (size_t i = 0; !status && i < longest->trie.n_nodes - 1; i++) {
        status = link_node(longest, &edges[i]);
        longest->deepest = edges[i].depth;
    }
    free(edges);
    return status;
}

/* Writes a sequence. The shorter part of a join is written by a call, the longer one in the loop, so that
 * calls are nested no deeper than log2 of the ids. */
static void write(const struct longest *longest, uint32_t tokens, int32_t *ids)
{
    while (tokens & LONGEST_JOINED) {
        const struct longest_join *join = &longest->joins[tokens & ~LONGEST_JOINED];
        if (join->n_first < join->n_second) {
            write(longest, join->first, ids);
            ids += join->n_first;
            tokens = join->second;
        } else {
            write(longest, join->second, ids + join->n_first);
            tokens = join->first;
        }
    }
    *ids = (int32_t)tokens;
}

size_t longest_match(const struct longest *longest, uint32_t *node, const char *text, size_t length,
                     int32_t *ids)
{
    const struct trie *trie = &longest->trie;
    uint32_t at = *node;
    size_t count = 0;
    for (size_t i = 0; i < length; i++) {
        unsigned char byte = (unsigned char)text[i];
        uint32_t child;
        while ((child = at == TRIE_ROOT ? trie->first[byte] : trie_step(trie, at, byte)) == TRIE_NONE) {
            const struct longest_node *left = &longest->nodes[at];
            if (left->tokens & LONGEST_JOINED) {
                write(longest, left->tokens, ids + count);
                count += left->n_tokens;
            } else {
                ids[count++] = (int32_t)left->tokens;
            }
            at = left->rest;
        }
        at = child;
    }
    *node = at;
    return count;
}

size_t longest_finish(const struct longest *longest, uint32_t node, int32_t *ids)
{
    size_t count = 0;
    for (; node != TRIE_ROOT; node = longest->nodes[node].rest) {
        write(longest, longest->nodes[node].tokens, ids + count);
        count += longest->nodes[node].n_tokens;
    }
    ENGINE_ASSERT(count <= longest->deepest);
    return count;
}

/* Reports the tokens that the text begins with up to token `id`, the longest, whose length it returns. Only
 * the id of unknown bytes may also be that of a longer token. */
static size_t explain_match(const struct longest *longest, struct explanation *explanation, const char *text,
                            size_t length, uint32_t id)
{
    size_t found = 0;
    uint32_t node = TRIE_ROOT;
    for (size_t i = 0; i < length && (id == longest->unknown || !found); i++) {
        node = trie_step(&longest->trie, node, (unsigned char)text[i]);
        if (node == TRIE_NONE) break;
        uint32_t value = longest->trie.values[node];
        if (value == TRIE_NONE || (i == 0 && value == longest->unknown && value != id)) continue;
        bool known = value < explanation->tokenizer->vocab.n_tokens;
        explain_candidate(explanation, text, i + 1, known ? (int32_t)value : -1, NAN, NAN);
        if (value == id) found = i + 1;
    }
    return found;
}

size_t longest_explain(const struct longest *longest, struct explanation *explanation, const char *text,
                       size_t length, const int32_t *ids, size_t count, bool tokens)
{
    size_t at = 0;
    for (size_t i = 0; i < count && !explanation->output->stopped; i++) {
        size_t size = explain_match(longest, explanation, text + at, length - at, (uint32_t)ids[i]);
        if (tokens) explain_token(explanation, text + at, size, ids[i], NAN);
        at += size;
    }
    return at;
}
