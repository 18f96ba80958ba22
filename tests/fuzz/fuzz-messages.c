/* fuzz-messages.c: fuzzing target: a byte for a named template, one for a tokenizer, and a conversation's
 * JSON. It renders and has tokens, or is refused in one line. What the user wrote never becomes a special
 * token. */
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "internal.h"
#include "template/template.h"
#include "tokenizers.h"

struct seen {
    const struct fuzz_tokenizer *tokenizer;
    size_t count, special;
};

static int see(void *user, const int32_t *ids, size_t count)
{
    struct seen *seen = user;
    seen->count += count;
    for (size_t i = 0; i < count; i++)
        seen->special += (seen->tokenizer->api->attributes(seen->tokenizer->tokenizer, ids[i]) &
                          ENGINE_TOKEN_CONTROL) != 0;
    return 0;
}

static struct seen tokens_of(const struct fuzz_tokenizer *tokenizer, struct engine_string text,
                             const unsigned char *marks)
{
    struct seen seen = {.tokenizer = tokenizer};
    if (template_tokens(tokenizer->api, tokenizer->tokenizer, text, marks, see, &seen))
        fuzz_fail("no tokens");
    return seen;
}

static void check_tokens(const struct fuzz_tokenizer *tokenizer, const struct template_output *output)
{
    struct engine_string text = template_output_text(output);
    const unsigned char *marks = template_output_marks(output);
    tokens_of(tokenizer, text, marks);
    /* All of it the user's: no special token, and the tokens of plain text. */
    unsigned char *users = malloc(text.length + 1);
    if (!users) return;
    memset(users, 1, text.length + 1);
    struct seen seen = tokens_of(tokenizer, text, users), plain = {.tokenizer = tokenizer};
    if (seen.special) fuzz_fail("a special token in the user's text");
    if (tokenizer->api->encode(tokenizer->tokenizer, text.data, text.length, 0, see, &plain))
        fuzz_fail("encode failed");
    if (seen.count != plain.count) fuzz_fail("other tokens than those of plain text");
    free(users);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    if (size < 2) return 0;
    size_t n_named = 0;
    while (named_template_at(n_named)) n_named++;
    const struct named_template *named = named_template_at(data[0] % n_named);
    const struct engine_string json = {(const char *)data + 2, size - 2};
    const struct template_variable variables[] = {
        {.name = "bos_token", .json = {"<s>", 3}, .what = "vocabulary", .trusted = true},
        {.name = "eos_token", .json = {"</s>", 4}, .what = "vocabulary", .trusted = true},
        {.name = "messages", .json = json, .what = "messages", .is = TEMPLATE_OBJECTS, .word_key = "role"},
        {.name = "tools", .json = json, .what = "tools", .is = TEMPLATE_OBJECTS},
        {.name = "add_generation_prompt", .json = {"true", 4}, .what = "prompt"},
    };
    struct template *template = NULL;
    struct template_output *output = NULL;
    if (template_create(named->name, named->source, strlen(named->source), &template))
        fuzz_fail("a named template has a mistake");
    if (template_render(template, variables, sizeof variables / sizeof *variables, 1753500000, &output) ==
        ENGINE_OK)
        check_tokens(fuzz_tokenizer(data[1]), output);
    else if (!error_message()[0] || strchr(error_message(), '\n'))
        fuzz_fail("no line that says why");
    template_output_free(output);
    template_destroy(template);
    return 0;
}
