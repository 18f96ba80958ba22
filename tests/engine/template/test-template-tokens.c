/* test-template-tokens.c: tokens of rendered conversations, with real vocabularies: those of the whole text,
 * unless a user spells special tokens; and then the same around what the user wrote. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine.h"

#define VOCABULARIES TEST_SHARED_DIR "/tokenizers/"
#define MAX_IDS      4096

struct ids {
    int32_t ids[MAX_IDS];
    size_t count;
};

static int collect(void *user, const int32_t *ids, size_t count)
{
    struct ids *all = user;
    for (size_t i = 0; i < count && all->count < MAX_IDS; i++) all->ids[all->count++] = ids[i];
    return 0;
}

static struct ids render_ids(struct engine_template *template, const char *messages, struct ids *whole,
                             const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer)
{
    struct engine_rendered *rendered = NULL;
    struct ids ids = {.count = 0};
    const struct engine_template_input input = {.struct_size = sizeof input,
                                                .messages = {messages, strlen(messages)}};
    cr_assert(engine_template_render(template, &input, &rendered) == ENGINE_OK, "%s", engine_error_message());
    cr_assert(engine_rendered_encode(rendered, 0, collect, &ids) == ENGINE_OK, "%s", engine_error_message());
    struct engine_string text = engine_rendered_text(rendered);
    whole->count = 0;
    cr_assert(api->encode(tokenizer, text.data, text.length, ENGINE_ENCODE_SPECIAL, collect, whole) ==
              ENGINE_OK);
    engine_rendered_free(rendered);
    return ids;
}

/* Adds `text` as a string of JSON or Jinja. */
static char *add_quoted(char *out, struct engine_string text)
{
    *out++ = '"';
    for (size_t i = 0; i < text.length; i++) {
        if (text.data[i] == '"' || text.data[i] == '\\') *out++ = '\\';
        *out++ = text.data[i];
    }
    *out++ = '"';
    *out = '\0';
    return out;
}

static void check_vocabulary(struct engine *engine, const char *name)
{
    static struct ids whole, plain, spelled;
    char path[512], source[2048], messages[4096];
    struct engine_model *model = NULL;
    struct engine_template *template = NULL;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    snprintf(path, sizeof path, VOCABULARIES "%s.gguf", name);
    cr_assert(engine_model_open(engine, path, NULL, &model) == ENGINE_OK, "%s", engine_error_message());
    cr_assert(engine_model_tokenizer(model, &api, &tokenizer) == ENGINE_OK, "%s", engine_error_message());
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    struct engine_string special[2];
    size_t found = 0;
    api->info(tokenizer, &info);
    for (int32_t id = (int32_t)info.n_tokens; id-- > 0 && found < 2;)
        if (api->attributes(tokenizer, id) & ENGINE_TOKEN_CONTROL &&
            api->piece(tokenizer, id, &special[found]) == ENGINE_OK)
            found++;
    cr_assert(found > 0, "%s has no special tokens", name);
    if (found == 1) special[1] = special[0];

    char *end = stpcpy(source, "{% for m in messages %}{{ ");
    end = add_quoted(end, special[0]);
    end = stpcpy(end, " ~ '\\n ' ~ m.content ~ ' ' ~ ");
    end = add_quoted(end, special[1]);
    end = stpcpy(end, " }}{% endfor %}");
    const struct engine_template_options options = {.struct_size = sizeof options,
                                                    .source = {source, strlen(source)}};
    cr_assert(engine_template_create(model, &options, &template) == ENGINE_OK, "%s", engine_error_message());

    end = stpcpy(
        messages,
        "[{\"role\":\"user\",\"content\":\"Hello  there\\n\\n 中文 \"},{\"role\":\"a\",\"content\":\" x\"}");
    strcpy(end, "]");
    plain = render_ids(template, messages, &whole, api, tokenizer);
    cr_assert(plain.count == whole.count && !memcmp(plain.ids, whole.ids, plain.count * sizeof *plain.ids),
              "%s", name);

    end = stpcpy(end, ",{\"role\":\"user\",\"content\":");
    end = add_quoted(end, special[0]);
    strcpy(end, "}]");
    spelled = render_ids(template, messages, &whole, api, tokenizer);
    cr_expect(spelled.count > plain.count && !memcmp(plain.ids, spelled.ids, plain.count * sizeof *plain.ids),
              "%s: other tokens before what the user wrote", name);
    size_t n_special = 0, n_whole = 0;
    for (size_t i = 0; i < spelled.count; i++)
        n_special += (api->attributes(tokenizer, spelled.ids[i]) & ENGINE_TOKEN_CONTROL) != 0;
    for (size_t i = 0; i < whole.count; i++)
        n_whole += (api->attributes(tokenizer, whole.ids[i]) & ENGINE_TOKEN_CONTROL) != 0;
    cr_expect(n_special == 6 && n_whole == 7, "%s: %zu and %zu special tokens", name, n_special, n_whole);
    engine_template_destroy(template);
    engine_model_close(model);
}

Test(template_tokens, those_of_the_whole_text_except_what_users_spell)
{
    static const char *const names[] = {"phi-3",  "llama-spm", "gpt-2",     "starcoder",     "ugm4k",
                                        "falcon", "bert-bge",  "pre/qwen2", "pre/llama-bpe", "pre/command-r",
                                        "mpt",    "gpt-neox",  "pre/gpt-4o"};
    if (access(VOCABULARIES "phi-3.gguf", R_OK) != 0) cr_skip_test("no ../shared/tokenizers");
    const char *const folders[] = {TEST_PLUGIN_DIR, NULL};
    const struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = folders, .config_file = "/dev/null"};
    struct engine *engine = NULL;
    cr_assert(engine_open(&options, &engine) == ENGINE_OK, "%s", engine_error_message());
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) check_vocabulary(engine, names[i]);
    engine_close(engine);
}
