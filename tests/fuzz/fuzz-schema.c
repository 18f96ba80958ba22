/* fuzz-schema.c: fuzzing target: a JSON schema; see grammar-walk.h. */
#include "grammar-walk.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    return grammar_walk(GRAMMAR_SCHEMA, data, size);
}
