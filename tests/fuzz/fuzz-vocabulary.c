/* fuzz-vocabulary.c: fuzzing target: vocabularies. Input: a recipe (recipe.h). Where a tokenizer comes of it,
 * its texts go there and back, and a text of its own with the tokens' bytes in it. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "tokenizers.h"

#define MAX_TEXT 2048

static void use(const struct fuzz_tokenizer *tokenizer, const struct recipe *recipe)
{
    for (size_t i = 0; i < recipe->n_texts; i++)
        for (uint32_t flags = 0; flags < 4; flags++)
            fuzz_there_and_back(tokenizer, recipe->texts[i].data, recipe->texts[i].length, flags);
    char text[MAX_TEXT];
    size_t length = 0;
    for (size_t i = 0; i < recipe->n_tokens && length < MAX_TEXT; i++) {
        size_t left = MAX_TEXT - length, size = recipe->tokens[i].length;
        memcpy(text + length, recipe->tokens[i].data, size < left ? size : left);
        length += size < left ? size : left;
    }
    fuzz_there_and_back(tokenizer, text, length, ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL);
    fuzz_there_and_back(tokenizer, text, length, 0);
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    if (tokenizer->api->info(tokenizer->tokenizer, &info) || info.n_tokens != recipe->n_tokens)
        fuzz_fail("the vocabulary has another size");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size > 1 << 16) return 0;
    struct recipe *recipe = recipe_read(data, size);
    struct fuzz_tokenizer tokenizer = {.api = fuzz_plugin(recipe->plugin),
                                       .n_tokens = (uint32_t)recipe->n_tokens};
    if (tokenizer.api) {
        struct engine_metadata metadata = recipe_metadata(recipe);
        error_clear();
        if (tokenizer.api->create(&metadata, &tokenizer.tokenizer) == ENGINE_OK)
            use(&tokenizer, recipe);
        else if (!*error_message() || tokenizer.tokenizer)
            fuzz_fail("a refusal without a reason");
        tokenizer.api->destroy(tokenizer.tokenizer);
    }
    recipe_free(recipe);
    return 0;
}
