/* longest.h: greedy longest match: the longest token that the text begins with, then the longest that the
 * rest begins with, and so on, in time linear in the text for any tokens (Song, Salcianu, Song, Dopson,
 * Zhou, "Fast WordPiece Tokenization", arXiv 2012.15524).
 *
 * Plainly done, a match that runs on past the longest token and then fails has to be read again. Here each
 * node of the trie knows which tokens such a failure yields and at which node reading goes on. */
#ifndef TOKENIZERS_COMMON_LONGEST_H
#define TOKENIZERS_COMMON_LONGEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "common/trie.h"

/* Two sequences of tokens one after the other. A sequence is an id, or LONGEST_JOINED | index of a join. */
struct longest_join {
    uint32_t first, second;
    uint32_t n_first, n_second; /* ids in each */
};

#define LONGEST_JOINED ((uint32_t)1 << 31)

struct longest_node {
    uint32_t tokens;   /* sequence that is certain if the text continues with no child of this node */
    uint32_t n_tokens; /* ids in it */
    uint32_t rest;     /* node of the bytes that the tokens leave over */
};

/* Filled in three steps: longest_create, trie_insert of the tokens into `trie` (values less than
 * LONGEST_JOINED), longest_link. */
struct longest {
    struct trie trie;
    struct longest_node *nodes; /* [trie.n_nodes]; the root's is not used */
    struct longest_join *joins;
    size_t n_joins, joins_capacity;
    uint32_t deepest; /* bytes of the longest token */
    uint32_t unknown; /* value of a byte that begins no token */
};

/* Room for about `bytes` bytes of tokens. ENGINE_ERROR_MEMORY. */
int longest_create(struct longest *longest, size_t bytes);
/* Completes it. A byte that begins no token becomes a token by itself, of value `unknown`.
 * ENGINE_ERROR_MEMORY, ENGINE_ERROR_DATA. */
int longest_link(struct longest *longest, uint32_t unknown);
/* A zeroed one is fine. */
void longest_destroy(struct longest *longest);

/* Continues in a text: *node is TRIE_ROOT at first. Writes the ids that are certain, at most `length` and
 * `deepest` together, and returns their number. */
size_t longest_match(const struct longest *longest, uint32_t *node, const char *text, size_t length,
                     int32_t *ids);
/* Ends the text: writes the remaining ids, at most `deepest`. */
size_t longest_finish(const struct longest *longest, uint32_t node, int32_t *ids);

struct explanation;
/* Reports how the text begins with these ids, which longest_match found: at each place the tokens that match,
 * the longest last; and with `tokens` that it is the result. Returns the bytes that the ids take. */
size_t longest_explain(const struct longest *longest, struct explanation *explanation, const char *text,
                       size_t length, const int32_t *ids, size_t count, bool tokens);

#endif
