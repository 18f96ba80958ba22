/* vocab.h: a vocabulary as a trie of its tokens' bytes.
 *
 * The trie lies in one array, each node before its children, so that a walk is a loop over the array which
 * may leave out whole subtrees. Tokens are numbered by their place in the trie (rank), so that those of a
 * subtree are consecutive. */
#ifndef ENGINE_GRAMMAR_VOCAB_H
#define ENGINE_GRAMMAR_VOCAB_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

enum grammar_token {
    GRAMMAR_TOKEN_TEXT, /* adds its bytes to the text */
    GRAMMAR_TOKEN_END,  /* ends the text */
    GRAMMAR_TOKEN_MARK  /* control tokens and the like: only where a grammar names them */
};

struct trie_node {
    uint32_t skip;  /* the next node that isn't below this one */
    uint32_t rank;  /* of the first token that ends here or below */
    uint16_t depth; /* bytes from the root; the nodes of the first level have 1 */
    uint8_t byte;
    bool ends; /* tokens end here */
};

struct grammar_vocab {
    uint32_t n_tokens;
    uint8_t *kinds;         /* [n_tokens] enum grammar_token */
    char *bytes;            /* the texts of all tokens; marks and ends: as spelled */
    uint32_t *offsets;      /* [n_tokens + 1] into bytes */
    struct trie_node *trie; /* [n_nodes + 1]; the last has the number of tokens as its rank */
    uint32_t n_nodes, n_ranked, deepest;
    uint32_t *order; /* [n_ranked] rank to token; then [n_marks] tokens that are no text, by their spelling */
    uint32_t n_marks;
    uint32_t *ends; /* [n_ends] tokens that end the text */
    uint32_t n_ends;
};

/* `texts` [n_tokens]: the bytes that a token adds to a text; for tokens other than GRAMMAR_TOKEN_TEXT, how they
 * are spelled. Copied. Tokens of text without bytes, or of more than 65,535, are never allowed. */
int grammar_vocab_create(const struct engine_string *texts, const uint8_t *kinds, uint32_t n_tokens,
                         struct grammar_vocab **vocab);
void grammar_vocab_destroy(struct grammar_vocab *vocab);

uint32_t grammar_vocab_size(const struct grammar_vocab *vocab);
/* The token that is spelled like this, marks first; -1: none. */
int32_t grammar_vocab_find(const struct grammar_vocab *vocab, const char *text, size_t length);
struct engine_string grammar_vocab_text(const struct grammar_vocab *vocab, uint32_t token);

#endif
