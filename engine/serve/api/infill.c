/* infill.c: POST /infill and POST /completion of llama.cpp's server, and prompts that have a model fill in
 * the middle of a text (arXiv 2207.14255). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"

/* ---- Prompts with a gap ---- */

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
static int32_t fim_token(const struct served *served, const struct mark *mark)
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

/* A mark, if it is not negative, and a text, in which special tokens don't count. */
static int fim_add_text(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const char *text,
                        size_t length)
{
    int status = mark >= 0 ? token_list_add(tokens, &mark, 1) : ENGINE_OK;
    if (status || length == 0) return status;
    return v->api->encode(v->tokenizer, text, length, 0, token_list_sink, tokens);
}

static int fim_add(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const json_t *text)
{
    return fim_add_text(v, tokens, mark, json_string_value(text), json_string_length(text));
}

static int fim_add_line(const struct vocabulary *v, struct token_list *tokens, int32_t mark, const char *text)
{
    int status = fim_add_text(v, tokens, mark, text, strlen(text));
    return status ? status : fim_add_text(v, tokens, -1, "\n", 1);
}

/* The project, the other files, and the name of the one with a gap, as far as the model knows marks for them.
 * Names that nobody gave are llama.cpp's. */
static int fim_add_files(const struct served *served, struct token_list *tokens, const json_t *extra)
{
    static const char snippet[] = "\n\n--- snippet ---\n\n"; /* before a file, where there is no mark */
    const struct vocabulary *v = &served->vocabulary;
    int32_t project = fim_token(served, &project_mark), mark = fim_token(served, &file_mark);
    int status = project >= 0 ? fim_add_line(v, tokens, project, "myproject") : ENGINE_OK;
    for (size_t i = 0; i < json_array_size(extra) && !status; i++) {
        const json_t *file = json_array_get(extra, i);
        const char *name = json_string_value(json_object_get(file, "filename"));
        status = mark >= 0 ? fim_add_line(v, tokens, mark, name ? name : "tmp")
                           : fim_add_text(v, tokens, -1, snippet, sizeof snippet - 1);
        if (!status) status = fim_add(v, tokens, -1, json_object_get(file, "text"));
    }
    return status || mark < 0 ? status : fim_add_line(v, tokens, mark, "filename");
}

bool fim_prompt(const struct served *served, const struct fim_texts *texts, struct token_list *tokens,
                struct api_error *error)
{
    const struct vocabulary *v = &served->vocabulary;
    int32_t before = fim_token(served, &prefix_mark), after = fim_token(served, &suffix_mark),
            middle = fim_token(served, &middle_mark);
    if (before < 0 || after < 0 || middle < 0)
        return api_error_in(error, texts->param,
                            "the model \"%.80s\" has no tokens for filling in the middle of a text (FIM)",
                            served->name);
    int status = texts->files ? fim_add_files(served, tokens, texts->extra) : ENGINE_OK;
    if (!status && v->info.add_bos && v->info.bos >= 0) status = token_list_add(tokens, &v->info.bos, 1);
    if (!status) status = fim_add(v, tokens, before, texts->prefix);
    if (!status) status = fim_add(v, tokens, -1, texts->begun);
    if (!status) status = fim_add(v, tokens, after, texts->suffix);
    if (!status) status = token_list_add(tokens, &middle, 1);
    return !status || api_error_of_engine(error, status, NULL);
}

/* ---- Reading ---- */

static const struct params_field completion_fields[] = {
    OPENAI_COMMON_FIELDS,
    {"prompt", params_read_nothing}, /* see completions_read_prompts */
    {"max_tokens", completions_read_limit},
    {"n_predict", completions_read_limit},
    {NULL, NULL},
};

static const struct params_field infill_fields[] = {
    OPENAI_COMMON_FIELDS,
    {"input_prefix", params_read_nothing}, /* see infill_read */
    {"input_suffix", params_read_nothing},
    {"input_extra", params_read_nothing},
    {"prompt", params_read_nothing},
    {"max_tokens", completions_read_limit},
    {"n_predict", completions_read_limit},
    {NULL, NULL},
};

static bool infill_check_text(const json_t *body, const char *name, bool needed, struct api_error *error)
{
    const json_t *value = json_object_get(body, name);
    if (json_is_string(value) || (!needed && (!value || json_is_null(value)))) return true;
    return api_error_in(error, name, "\"%s\" should be a text", name);
}

bool infill_read(struct params *params, const struct served *served, json_t *body, struct api_error *error)
{
    const json_t *extra = json_object_get(body, "input_extra"), *begun = json_object_get(body, "prompt");
    size_t i;
    json_t *file;
    if (!params_read(params, body, infill_fields, error) ||
        !infill_check_text(body, "input_prefix", true, error) ||
        !infill_check_text(body, "input_suffix", true, error) ||
        !infill_check_text(body, "prompt", false, error))
        return false;
    if (extra && !json_is_null(extra) && !json_is_array(extra))
        return api_error_in(error, "input_extra", "\"input_extra\" should be an array");
    json_array_foreach(extra, i, file)
    {
        const json_t *name = json_object_get(file, "filename");
        if ((!name || json_is_string(name)) && json_is_string(json_object_get(file, "text"))) continue;
        return api_error_in(
            error, "input_extra",
            "\"input_extra\" should have objects with \"text\" and, if you like, \"filename\"");
    }
    const struct fim_texts texts = {.prefix = json_object_get(body, "input_prefix"),
                                    .suffix = json_object_get(body, "input_suffix"),
                                    .begun = begun,
                                    .files = true,
                                    .extra = extra,
                                    .param = "input_prefix"};
    return completions_make_prompts(params, 1, error) &&
           fim_prompt(served, &texts, &params->prompts[0].tokens, error);
}

bool completion_read(struct params *params, const struct served *served, json_t *body,
                     struct api_error *error)
{
    return params_read(params, body, completion_fields, error) && params_check_pairs(params, body, error) &&
           completions_read_prompts(params, served, body, error) &&
           (params->n_prompts == 1 ||
            api_error_in(error, "prompt", "\"prompt\" can only be one prompt here"));
}

/* ---- Answering ---- */

static json_t *stopping_text(const struct choice *choice)
{
    const struct text_options *options = &choice->generation->params.options;
    if (choice->stop < 0 || (size_t)choice->stop >= options->n_stop) return json_string("");
    return json_text(options->stop[choice->stop].data, options->stop[choice->stop].length);
}

static const char *stop_type(const struct choice *choice)
{
    if (choice->cut) return "limit";
    return choice->stop >= 0 ? "word" : "eos";
}

/* How it ended. */
static void add_end(json_t *json, const struct choice *choice)
{
    bool lines = choice->content.size > 0 && memchr(choice->content.data, '\n', choice->content.size);
    json_t *more =
        json_pack("{s:s, s:o, s:b, s:b, s:o, s:o}", "stop_type", stop_type(choice), "stopping_word",
                  stopping_text(choice), "truncated", 0, "has_new_line", lines, "tokens_cached",
                  json_count(choice->n_prompt + choice->n_generated), "timings", openai_timings(choice));
    json_object_update(json, more);
    json_decref(more);
}

/* Only the fields that are asked for, each by its path: "timings/predicted_ms". `json` is taken. */
static json_t *infill_chosen(json_t *json, const json_t *fields)
{
    json_t *picked = json_object(), *field;
    size_t i;
    json_array_foreach((json_t *)(size_t)fields, i, field)
    {
        const char *path = json_string_value(field);
        json_t *value = json;
        for (const char *at = path; value;) {
            char key[64];
            size_t n = strcspn(at, "/");
            snprintf(key, sizeof key, "%.*s", n < sizeof key ? (int)n : 0, at);
            value = json_object_get(value, key);
            if (!at[n]) break;
            at += n + 1;
        }
        if (value) json_object_set(picked, path, value);
    }
    json_decref(json);
    return picked;
}

/* As llama.cpp's server answers it, whose clients look for "content" and "stop". */
static json_t *infill_part_json(struct choice *choice, json_t *content, bool stop)
{
    const struct generation *g = choice->generation;
    json_t *json =
        json_pack("{s:i, s:o, s:b, s:s, s:o, s:o}", "index", (int)choice->index, "content", content, "stop",
                  stop, "model", g->model, "tokens_predicted", json_count(choice->n_generated),
                  "tokens_evaluated", json_count(choice->n_prompt));
    if (choice->state) json_object_set_new(json, "completion_probabilities", choice->state);
    choice->state = NULL;
    if (stop)
        add_end(json, choice);
    else if (g->params.timings)
        json_object_set_new(json, "timings", openai_timings(choice));
    return stop && g->params.answer_fields ? infill_chosen(json, g->params.answer_fields) : json;
}

static void send_part(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    (void)part;
    sse_send(choice->generation->group.exchange, NULL,
             infill_part_json(choice, json_text(text->data, text->length), false));
}

static void infill_end_choice(struct choice *choice)
{
    sse_send(choice->generation->group.exchange, NULL, infill_part_json(choice, json_string(""), true));
}

static json_t *infill_end(struct generation *g)
{
    struct choice *choice = &g->choices[0];
    if (g->params.stream) return NULL;
    return infill_part_json(choice, json_buffer(&choice->content), true);
}

static const struct format format = {
    .token = openai_take_token,
    .text = send_part,
    .end_choice = infill_end_choice,
    .end = infill_end,
    .failed = openai_stream_failed,
    .last_words = OPENAI_LAST_WORDS,
    .free_choice = openai_free_tokens,
};

static void infill_answer(struct exchange *exchange, const char *prefix,
                          bool (*read)(struct params *params, const struct served *served, json_t *body,
                                       struct api_error *error))
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, &format, prefix);
    if (!g) return;
    read(&g->params, g->served, exchange_json(exchange), &error);
    if (g->params.n > 1) api_error_in(&error, "n", "\"n\" can only be 1 here");
    generation_start(g, &error);
}

void api_infill(struct exchange *exchange)
{
    infill_answer(exchange, "infill-", infill_read);
}

void api_completion(struct exchange *exchange)
{
    infill_answer(exchange, "completion-", completion_read);
}
