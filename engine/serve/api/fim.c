/* fim.c: see fim.h. */
#include "serve/api/fim.h"

#include <string.h>

/* A mark: GGUF's keys for its token, the newer first, and how vocabularies spell it whose file has no such
 * key. */
struct mark {
    const char *keys[2];
    const char *spellings[10]; /* ends with a NULL */
};

static const struct mark prefix_mark = {{"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
                                        {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>",
                                         "<PRE>", "▁<PRE>", "<|code_prefix|>", "<|prefix|>",
                                         "<|plamo:fim_prefix|>"}};
static const struct mark suffix_mark = {{"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
                                        {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>",
                                         "<SUF>", "▁<SUF>", "<|code_suffix|>", "<|suffix|>",
                                         "<|plamo:fim_suffix|>"}};
static const struct mark middle_mark = {{"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
                                        {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>",
                                         "<MID>", "▁<MID>", "<|code_middle|>", "<|middle|>",
                                         "<|plamo:fim_middle|>"}};
static const struct mark project_mark = {
    {"tokenizer.ggml.fim_rep_token_id", NULL},
    {"<|fim_repo|>", "<|repo_name|>", "<fim-repo>", "<REPO>", "<reponame>"}};
static const struct mark file_mark = {{"tokenizer.ggml.fim_sep_token_id", NULL},
                                      {"<|file_sep|>", "<|plamo:file_separator|>"}};

/* The token; -1: there is none. Ordinary tokens are no marks. */
static int32_t token_of(const struct served *served, const struct mark *mark)
{
    const struct engine_metadata *metadata = engine_model_metadata(served->model);
    const struct vocabulary *v = &served->vocabulary;
    int64_t id;
    for (size_t i = 0; i < 2 && mark->keys[i]; i++)
        if (metadata->get_integer(metadata->context, mark->keys[i], &id) == ENGINE_OK && id >= 0 &&
            id < (int64_t)v->info.n_tokens)
            return (int32_t)id;
    for (const char *const *spelling = mark->spellings; *spelling; spelling++) {
        int32_t found = vocabulary_token(v, *spelling);
        if (found >= 0 &&
            v->api->attributes(v->tokenizer, found) & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED))
            return found;
    }
    return -1;
}

/* ---- Prompts ---- */

/* A mark, if it is not negative, and a text, in which special tokens don't count. */
static int add_text(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const char *text,
                    size_t length)
{
    int status = mark >= 0 ? token_list_add(tokens, &mark, 1) : ENGINE_OK;
    if (status || length == 0) return status;
    return v->api->encode(v->tokenizer, text, length, 0, token_list_sink, tokens);
}

static int add(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const json_t *text)
{
    return add_text(v, tokens, mark, json_string_value(text), json_string_length(text));
}

static int add_line(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const char *text)
{
    int status = add_text(v, tokens, mark, text, strlen(text));
    return status ? status : add_text(v, tokens, -1, "\n", 1);
}

/* The project, the other files, and the name of the one with a gap, as far as the model knows marks for them.
 * Names that nobody gave are llama.cpp's. */
static int add_files(const struct served *served, struct token_list *tokens, const json_t *extra)
{
    static const char snippet[] = "\n\n--- snippet ---\n\n"; /* before a file, where there is no mark */
    const struct vocabulary *v = &served->vocabulary;
    int32_t project = token_of(served, &project_mark), mark = token_of(served, &file_mark);
    int status = project >= 0 ? add_line(v, tokens, project, "myproject") : ENGINE_OK;
    for (size_t i = 0; i < json_array_size(extra) && !status; i++) {
        const json_t *file = json_array_get(extra, i);
        const char *name = json_string_value(json_object_get(file, "filename"));
        status = mark >= 0 ? add_line(v, tokens, mark, name ? name : "tmp")
                           : add_text(v, tokens, -1, snippet, sizeof snippet - 1);
        if (!status) status = add(v, tokens, -1, json_object_get(file, "text"));
    }
    return status || mark < 0 ? status : add_line(v, tokens, mark, "filename");
}

bool fim_prompt(const struct served *served, const struct fim_texts *texts, struct token_list *tokens,
                struct api_error *error)
{
    const struct vocabulary *v = &served->vocabulary;
    int32_t before = token_of(served, &prefix_mark), after = token_of(served, &suffix_mark),
            middle = token_of(served, &middle_mark);
    if (before < 0 || after < 0 || middle < 0)
        return api_error_in(error, texts->param,
                            "the model \"%.80s\" has no tokens for filling in the middle of a text (FIM)",
                            served->name);
    int status = texts->files ? add_files(served, tokens, texts->extra) : ENGINE_OK;
    if (!status && v->info.add_bos && v->info.bos >= 0) status = token_list_add(tokens, &v->info.bos, 1);
    if (!status) status = add(v, tokens, before, texts->prefix);
    if (!status) status = add(v, tokens, -1, texts->begun);
    if (!status) status = add(v, tokens, after, texts->suffix);
    if (!status) status = token_list_add(tokens, &middle, 1);
    return !status || api_error_of_engine(error, status, NULL);
}
