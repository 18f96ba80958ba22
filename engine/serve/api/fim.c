/* fim.c: see fim.h. */
#include "serve/api/fim.h"

#include <string.h>

/* A mark: GGUF's keys for its token, the newer first, and how vocabularies spell it whose file has no such key. */
struct mark {
    const char *keys[2];
    const char *spellings[6];
};

static const struct mark prefix_mark = {
    {"tokenizer.ggml.fim_pre_token_id", "tokenizer.ggml.prefix_token_id"},
    {"<|fim_prefix|>", "<fim-prefix>", "<fim_prefix>", "<｜fim▁begin｜>", "<PRE>", "▁<PRE>"}};
static const struct mark suffix_mark = {
    {"tokenizer.ggml.fim_suf_token_id", "tokenizer.ggml.suffix_token_id"},
    {"<|fim_suffix|>", "<fim-suffix>", "<fim_suffix>", "<｜fim▁hole｜>", "<SUF>", "▁<SUF>"}};
static const struct mark middle_mark = {
    {"tokenizer.ggml.fim_mid_token_id", "tokenizer.ggml.middle_token_id"},
    {"<|fim_middle|>", "<fim-middle>", "<fim_middle>", "<｜fim▁end｜>", "<MID>", "▁<MID>"}};
static const struct mark file_mark = {{"tokenizer.ggml.fim_sep_token_id", NULL}, {"<|file_sep|>"}};

/* A control token of that spelling; -1: there is none. Ordinary tokens are no marks. */
static int32_t token_spelled(const struct vocabulary *v, const char *spelling)
{
    for (int32_t id = 0; id < (int32_t)v->info.n_tokens; id++) {
        struct engine_string piece;
        if (!(v->api->attributes(v->tokenizer, id) & (ENGINE_TOKEN_CONTROL | ENGINE_TOKEN_USER_DEFINED)))
            continue;
        if (v->api->piece(v->tokenizer, id, &piece) == ENGINE_OK && piece.length == strlen(spelling) &&
            memcmp(piece.data, spelling, piece.length) == 0)
            return id;
    }
    return -1;
}

static int32_t token_of(const struct served *served, const struct mark *mark)
{
    const struct engine_metadata *metadata = engine_model_metadata(served->model);
    const struct vocabulary *v = &served->vocabulary;
    int64_t id;
    for (size_t i = 0; i < 2 && mark->keys[i]; i++)
        if (metadata->get_integer(metadata->context, mark->keys[i], &id) == ENGINE_OK && id >= 0 &&
            id < (int64_t)v->info.n_tokens)
            return (int32_t)id;
    for (size_t i = 0; i < 6 && mark->spellings[i]; i++) {
        int32_t found = token_spelled(v, mark->spellings[i]);
        if (found >= 0) return found;
    }
    return -1;
}

/* A mark, if it is not negative, and a text, in which special tokens don't count. */
static int add(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const json_t *text)
{
    int status = mark >= 0 ? token_list_add(tokens, &mark, 1) : ENGINE_OK;
    if (status || !text) return status;
    return v->api->encode(v->tokenizer, json_string_value(text), json_string_length(text), 0, token_list_sink,
                          tokens);
}

static int add_files(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const json_t *extra)
{
    json_t *newline = json_string("\n");
    int status = newline ? ENGINE_OK : ENGINE_ERROR_MEMORY;
    for (size_t i = 0; i < json_array_size(extra) && !status; i++) {
        const json_t *file = json_array_get(extra, i);
        status = add(v, tokens, mark, json_object_get(file, "filename"));
        if (!status) status = add(v, tokens, -1, newline);
        if (!status) status = add(v, tokens, -1, json_object_get(file, "text"));
    }
    json_decref(newline);
    return status;
}

bool fim_prompt(const struct served *served, const json_t *prefix, const json_t *suffix, const json_t *begun,
                const json_t *extra, const char *param, struct token_list *tokens, struct mistake *mistake)
{
    const struct vocabulary *v = &served->vocabulary;
    int32_t before = token_of(served, &prefix_mark), after = token_of(served, &suffix_mark),
            middle = token_of(served, &middle_mark), file = token_of(served, &file_mark);
    if (before < 0 || after < 0 || middle < 0)
        return mistake_in(mistake, param,
                          "the model \"%.80s\" has no tokens for filling in the middle of a text (FIM)",
                          served->name);
    if (json_array_size(extra) > 0 && file < 0)
        return mistake_in(mistake, "input_extra", "the model \"%.80s\" has no token that separates files",
                          served->name);
    int status = v->info.add_bos && v->info.bos >= 0 ? token_list_add(tokens, &v->info.bos, 1) : ENGINE_OK;
    if (!status) status = add_files(v, tokens, file, extra);
    if (!status) status = add(v, tokens, before, prefix);
    if (!status) status = add(v, tokens, after, suffix);
    if (!status) status = add(v, tokens, middle, begun);
    return !status || mistake_of_engine(mistake, status, NULL);
}
