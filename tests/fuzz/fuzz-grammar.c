/* fuzz-grammar.c: fuzzing target: a grammar in GBNF; see grammar-walk.h. */
#include "grammar-walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return grammar_walk(GRAMMAR_GBNF, data, size);
}
