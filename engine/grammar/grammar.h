/* grammar.h: text that a grammar allows, token by token. Knows neither models nor the queue: it takes a
 * vocabulary's tokens as bytes.
 *
 *   token-masks.c         the tokens as a trie, once for a vocabulary; which may follow in a state
 *   gbnf.c, schema.c, …   a text to expressions (expr.c), once for a grammar
 *   compile.c, analyse.c  expressions to an automaton
 *   automaton.c           the automaton's states, as they come up, shared by all texts under a grammar
 *   grammar.c             all of it together, and a text's place in it
 *
 * Grammars may be shared by threads; a match belongs to one thread at a time. */
#ifndef ENGINE_GRAMMAR_GRAMMAR_H
#define ENGINE_GRAMMAR_GRAMMAR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

/* ---- Vocabularies (token-masks.c) ---- */

/* A vocabulary as a trie of its tokens' bytes.
 *
 * The trie lies in one array, each node before its children, so that a walk is a loop over the array which
 * may leave out whole subtrees. Tokens are numbered by their place in the trie (rank), so that those of a
 * subtree are consecutive. */

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

/* `texts` [n_tokens]: the bytes that a token adds to a text; for tokens other than GRAMMAR_TOKEN_TEXT, how
 * they are spelled. Copied. Tokens of text without bytes, or of more than 65,535, are never allowed. */
int grammar_vocab_create(const struct engine_string *texts, const uint8_t *kinds, uint32_t n_tokens,
                         struct grammar_vocab **vocab);
void grammar_vocab_destroy(struct grammar_vocab *vocab);

uint32_t grammar_vocab_size(const struct grammar_vocab *vocab);
/* The token that is spelled like this, marks first; -1: none. */
int32_t grammar_vocab_find(const struct grammar_vocab *vocab, const char *text, size_t length);
struct engine_string grammar_vocab_text(const struct grammar_vocab *vocab, uint32_t token);

/* ---- Effort ---- */

/* How much work the text of a grammar may cause before a token is written. Texts are untrusted, and a few
 * bytes may mean a large grammar, so everything that reads one counts its steps: about one for each
 * expression, node, or character looked at, 20 to 100 ns. */

#define EFFORT_MAX   20000000 /* steps, about a second */
#define EFFORT_LOOKS 100000   /* steps between two calls of `gives_up` */

struct effort {
    uint64_t steps; /* so far */
    uint64_t look;  /* the steps at which to look again */
    /* Whether the caller no longer wants the grammar; NULL: it always does. */
    int (*gives_up)(void *user);
    void *user;
};

/* ---- Grammars (grammar.c) ---- */

struct grammar;
struct grammar_match; /* where a text stands in a grammar */

enum grammar_syntax {
    GRAMMAR_GBNF = 1,
    GRAMMAR_SCHEMA = 2,     /* a JSON schema */
    GRAMMAR_JSON_OBJECT = 3 /* any JSON object; without a text */
};

/* `vocab` outlives the grammar. */
int grammar_create(const struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                   size_t length, struct grammar **grammar);
/* The same, with the steps in `effort`, which ends with the call, and whose gives_up is asked now and then.
 * Too many steps are ENGINE_ERROR_UNSUPPORTED. */
int grammar_create_with(const struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                        size_t length, struct effort *effort, struct grammar **grammar);
/* After all its matches. */
void grammar_destroy(struct grammar *grammar);

/* `strip`: the text starts at its very beginning, where the decoder drops the first token's leading space.
 * The grammar outlives the match. */
int grammar_match_create(struct grammar *grammar, bool strip, struct grammar_match **match);
/* A match that stands where another one stands. */
int grammar_match_copy(const struct grammar_match *match, struct grammar_match **copy);
void grammar_match_destroy(struct grammar_match *match);

/* Sets the logits [n_logits] of all tokens that cannot follow to -infinity. ENGINE_ERROR_DATA if that leaves
 * none that were finite. */
int grammar_match_apply(struct grammar_match *match, float *logits, uint32_t n_logits);
/* The same as bits [(n_tokens + 63) / 64]. */
int grammar_match_mask(struct grammar_match *match, uint64_t *mask);
/* Adds a token to the text. ENGINE_ERROR_DATA: it cannot follow. */
int grammar_match_accept(struct grammar_match *match, uint32_t token);
/* Whether the text may end here. */
bool grammar_match_complete(struct grammar_match *match);
/* Whether it must, because nothing can follow. */
bool grammar_match_final(struct grammar_match *match);

#endif
