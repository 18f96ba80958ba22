/* gbnf.h: a grammar in GBNF, llama.cpp's syntax, as expressions. */
#ifndef ENGINE_GRAMMAR_GBNF_H
#define ENGINE_GRAMMAR_GBNF_H

#include "grammar/expr.h"
#include "grammar/vocab.h"

/* Fills `exprs`, which exprs_create(…, "root", …) has made. ENGINE_ERROR_DATA with the line and the reason where the
 * text is wrong. `vocab` is for tokens by their text. */
int gbnf_read(struct exprs *exprs, const struct grammar_vocab *vocab, const char *text, size_t length);

#endif
