/* tokenizers.h: what the targets have in common: the plugins, a set of tokenizers made of the recipes in
 * vocabularies/, and going there and back. What must never happen ends in abort(), which the fuzzer and the
 * replay both see.
 *
 * A target is a function LLVMFuzzerTestOneInput, see libFuzzer; replay.c calls it with the files of a
 * corpus. */
#ifndef TESTS_FUZZ_TOKENIZERS_H
#define TESTS_FUZZ_TOKENIZERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"
#include "recipe.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The table of a plugin of the build tree; NULL if there is none of that name. */
const struct engine_tokenizer_api *fuzz_plugin(const char *name);

struct fuzz_tokenizer {
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    bool lossless; /* any text comes back from its ids, also with special tokens */
    bool refuses;  /* may refuse a text with a reason: expressions of its own may take too many steps */
    uint32_t n_tokens;
};

/* The tokenizer of a number, which is taken modulo how many there are: one for each recipe, and the recipe
 * bpe.txt under each row of pre-tokenizers. */
const struct fuzz_tokenizer *fuzz_tokenizer(size_t number);

/* Encodes a text twice, which must give the same ids, explains it if the plugin can, which must fit them, and
 * decodes these, which must give the text if `lossless`. The text is copied, so that reading past its end
 * shows. */
void fuzz_there_and_back(const struct fuzz_tokenizer *tokenizer, const char *text, size_t length,
                         uint32_t flags);

/* Ends the program: what must not happen did. */
_Noreturn void fuzz_fail(const char *what);

#endif
