/* grammar.h: text that a grammar allows, token by token. Knows neither models nor the queue: it takes a
 * vocabulary's tokens as bytes.
 *
 *   effort.h     how much work a text may cause
 *   vocab.c      the tokens as a trie                     made once for a vocabulary
 *   gbnf.c, schema.c, …   a text to expressions (expr.h)  once for a grammar
 *   compile.c, analyse.c  expressions to an automaton
 *   machine.c    the automaton's states, as they come up  shared by all texts under a grammar
 *   mask.c       the tokens that may follow in a state
 *   grammar.c    all of it together, and a text's place in it
 *
 * Grammars may be shared by threads; a match belongs to one thread at a time. */
#ifndef ENGINE_GRAMMAR_GRAMMAR_H
#define ENGINE_GRAMMAR_GRAMMAR_H

#include "grammar/effort.h"
#include "grammar/vocab.h"

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
/* The same, with the steps in `effort`, which ends with the call, and whose gives_up is asked now and then. Too many steps
 * are ENGINE_ERROR_UNSUPPORTED. */
int grammar_create_with(const struct grammar_vocab *vocab, enum grammar_syntax syntax, const char *text,
                        size_t length, struct effort *effort, struct grammar **grammar);
/* After all its matches. */
void grammar_destroy(struct grammar *grammar);

/* `strip`: the text starts at its very beginning, where the decoder drops the first token's leading space. The
 * grammar outlives the match. */
int grammar_match_create(struct grammar *grammar, bool strip, struct grammar_match **match);
/* A match that stands where another one stands. */
int grammar_match_copy(const struct grammar_match *match, struct grammar_match **copy);
void grammar_match_destroy(struct grammar_match *match);

/* Sets the logits [n_logits] of all tokens that cannot follow to -infinity. ENGINE_ERROR_DATA if that leaves none
 * that were finite. */
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
