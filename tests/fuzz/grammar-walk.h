/* grammar-walk.h: what the fuzzing targets of grammars share. */
#ifndef TESTS_FUZZ_GRAMMAR_WALK_H
#define TESTS_FUZZ_GRAMMAR_WALK_H

#include "grammar/grammar.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A grammar is refused with one line, or followed for some tokens that its bytes choose: exactly the tokens
 * of the mask can be added, and what a grammar of JSON lets end is JSON. */
int grammar_walk(enum grammar_syntax syntax, const uint8_t *data, size_t size);

#endif
