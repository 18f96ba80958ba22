/* completions.c: POST /v1/completions. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/json.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"

#define MAX_PROMPTS 256
#define DEFAULT_MAX 16 /* tokens, as OpenAI's API reference says */

/* ---- Reading ---- */

static bool read_echo(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_flag(name, value, &params->echo, error);
}

static bool completions_read_logprobs(struct params *params, const char *name, json_t *value,
                                      struct api_error *error)
{
    params->logprobs = true;
    return params_read_top(params, name, value, error);
}

bool completions_read_limit(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    params->no_tokens = json_is_integer(value) && json_integer_value(value) == 0;
    if (params->no_tokens) return true;
    return params_set_option(params, "max_tokens", value) ||
           api_error_in(error, name, "\"%s\" should be a whole number, or -1 for no limit", name);
}

static bool read_best_of(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params;
    return (json_is_integer(value) && json_integer_value(value) == 1) ||
           api_error_in(error, name, "\"best_of\" is not supported; \"n\" gives several choices");
}

static const struct params_field fields[] = {
    OPENAI_COMMON_FIELDS,
    {"prompt", params_read_nothing}, /* see completions_read_prompts */
    {"suffix", params_read_nothing},
    {"echo", read_echo},
    {"logprobs", completions_read_logprobs},
    {"max_tokens", completions_read_limit},
    {"n_predict", completions_read_limit},
    {"best_of", read_best_of},
    {NULL, NULL},
};

static bool is_ids(const json_t *value)
{
    return json_is_integer(json_array_get(value, 0));
}

/* A text between others, if there is a suffix. */
static bool completions_read_prompt(const struct served *served, const json_t *value, const json_t *suffix,
                                    struct params_prompt *prompt, struct api_error *error)
{
    if (json_is_array(value) && is_ids(value) && !suffix)
        return params_ids("prompt", value, &prompt->tokens, error);
    if (!json_is_string(value))
        return api_error_in(error, "prompt",
                            "\"prompt\" should be a text, an array of token ids, or an array of "
                            "texts or of arrays of token ids");
    prompt->size = json_string_length(value);
    prompt->text = malloc(prompt->size + 1);
    if (!prompt->text) return api_error_memory(error);
    memcpy(prompt->text, json_string_value(value), prompt->size + 1);
    const struct fim_texts texts = {.prefix = value, .suffix = suffix, .param = "suffix"};
    if (suffix) return fim_prompt(served, &texts, &prompt->tokens, error);
    return generation_encode(served, prompt->text, prompt->size, true, &prompt->tokens, error);
}

bool completions_make_prompts(struct params *params, size_t count, struct api_error *error)
{
    if (count > MAX_PROMPTS)
        return api_error_in(error, "prompt", "\"prompt\" has more than %d prompts", MAX_PROMPTS);
    params->prompts = calloc(count, sizeof *params->prompts);
    if (!params->prompts) return api_error_memory(error);
    params->n_prompts = count;
    return true;
}

bool completions_read_prompts(struct params *params, const struct served *served, const json_t *body,
                              struct api_error *error)
{
    const json_t *prompt = json_object_get(body, "prompt"), *suffix = json_object_get(body, "suffix");
    bool several = json_array_size(prompt) > 0 && !is_ids(prompt);
    if (json_is_null(suffix) || json_string_length(suffix) == 0) suffix = NULL;
    if (suffix && !json_is_string(suffix))
        return api_error_in(error, "suffix", "\"suffix\" should be a text");
    if (suffix && params->echo) return api_error_in(error, "echo", "\"echo\" goes without \"suffix\"");
    if (!prompt || json_is_null(prompt)) return api_error_in(error, "prompt", "\"prompt\" is missing");
    if (!completions_make_prompts(params, several ? json_array_size(prompt) : 1, error)) return false;
    for (size_t i = 0; i < params->n_prompts; i++)
        if (!completions_read_prompt(served, several ? json_array_get(prompt, i) : prompt, suffix,
                                     &params->prompts[i], error))
            return false;
    return true;
}

bool completions_read(struct params *params, const struct served *served, json_t *body,
                      struct api_error *error)
{
    params->options.max_tokens = DEFAULT_MAX;
    return params_read(params, body, fields, error) && params_check_pairs(params, body, error) &&
           completions_read_prompts(params, served, body, error);
}

/* ---- Answering ---- */

/* Of a choice: OpenAI's four arrays, of which a stream sends what is new. */
struct legacy {
    json_t *tokens, *logprobs, *top, *offsets;
    size_t offset; /* characters of the text before the next token */
    bool echoed;
};

static struct legacy *legacy_of(struct choice *choice)
{
    if (!choice->state) choice->state = calloc(1, sizeof(struct legacy));
    struct legacy *legacy = choice->state;
    if (legacy && !legacy->tokens) {
        legacy->tokens = json_array();
        legacy->logprobs = json_array();
        legacy->top = json_array();
        legacy->offsets = json_array();
    }
    return legacy;
}

static void free_legacy(struct choice *choice)
{
    struct legacy *legacy = choice->state;
    if (!legacy) return;
    json_decref(legacy->tokens);
    json_decref(legacy->logprobs);
    json_decref(legacy->top);
    json_decref(legacy->offsets);
    free(legacy);
}

/* Part of a character is "bytes:\xc3", as OpenAI's API has it. */
static json_t *completions_piece_json(const struct engine_string *text)
{
    json_t *json = json_stringn(text->data, text->length);
    char bytes[256];
    size_t n = (size_t)snprintf(bytes, sizeof bytes, "bytes:");
    if (json) return json;
    for (size_t i = 0; i < text->length && n + 4 < sizeof bytes; i++)
        n += (size_t)snprintf(bytes + n, sizeof bytes - n, "\\x%02x", (unsigned char)text->data[i]);
    return json_stringn(bytes, n);
}

/* `length`: the characters that begin in it and are in the answer. */
static json_t *token_as_json(const struct generation *g, int32_t token, size_t *length)
{
    struct engine_string text = {"", 0};
    const struct vocabulary *v = &g->served->vocabulary;
    engine_model_token_text(g->served->model, token, &text);
    *length = 0;
    if (!(v->api->attributes(v->tokenizer, token) & ENGINE_TOKEN_CONTROL))
        for (size_t i = 0; i < text.length; i++) *length += ((unsigned char)text.data[i] & 0xc0) != 0x80;
    return completions_piece_json(&text);
}

/* `logprob` and `top`, which is taken, are null for a token that nothing predicts. */
static void completions_add_token(struct choice *choice, int32_t token, json_t *logprob, json_t *top)
{
    struct legacy *legacy = legacy_of(choice);
    size_t length = 0;
    json_t *text = token_as_json(choice->generation, token, &length);
    if (!legacy) {
        json_decref(text);
        json_decref(logprob);
        json_decref(top);
        return;
    }
    json_array_append_new(legacy->tokens, text);
    json_array_append_new(legacy->logprobs, logprob);
    json_array_append_new(legacy->top, top);
    json_array_append_new(legacy->offsets, json_integer((json_int_t)legacy->offset));
    legacy->offset += length;
}

/* {"TOKEN": logprob}. Tokens with the same text share a key; the likelier one keeps it. */
static json_t *completions_rivals_json(const struct generation *g, const struct engine_event *event)
{
    json_t *top = json_object();
    for (uint32_t i = 0; i < event->n_top && i < g->params.n_top; i++) {
        size_t length;
        json_t *text = token_as_json(g, event->top[i].token, &length);
        const char *key = json_string_value(text);
        if (key && !json_object_get(top, key))
            json_object_set_new(top, key, openai_logarithm(event->top[i].logprob));
        json_decref(text);
    }
    return top;
}

/* The prompt's first token, which has no probability. */
static void add_first(struct choice *choice)
{
    const struct token_list *tokens = &choice->prompt->tokens;
    struct legacy *legacy = legacy_of(choice);
    if (!choice->generation->params.echo || !legacy || legacy->echoed) return;
    legacy->echoed = true;
    completions_add_token(choice, tokens->ids[0], json_null(), json_null());
}

static void completions_take_token(struct choice *choice, const struct engine_event *event)
{
    const struct generation *g = choice->generation;
    if (!g->params.logprobs) return;
    add_first(choice);
    completions_add_token(choice, event->token, openai_logarithm(event->logprob),
                          completions_rivals_json(g, event));
}

static json_t *completions_take_logprobs(struct choice *choice)
{
    const struct generation *g = choice->generation;
    if (!g->params.logprobs) return json_null();
    add_first(choice);
    struct legacy *legacy = legacy_of(choice);
    if (!legacy) return json_null();
    json_t *json = json_pack("{s:o, s:o, s:o, s:o}", "tokens", legacy->tokens, "token_logprobs",
                             legacy->logprobs, "top_logprobs", legacy->top, "text_offset", legacy->offsets);
    legacy->tokens = legacy->logprobs = legacy->top = legacy->offsets = NULL;
    return json;
}

static json_t *completions_answer_json(const struct generation *g, json_t *choices)
{
    char fingerprint[24];
    openai_fingerprint(g->served, fingerprint);
    return json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", g->id, "object", "text_completion", "created",
                     (json_int_t)g->created, "model", g->model, "system_fingerprint", fingerprint, "choices",
                     choices);
}

static json_t *choice_json(struct choice *choice, json_t *text, const char *finish_reason)
{
    return json_pack("{s:i, s:o, s:o, s:s?}", "index", (int)choice->index, "text", text, "logprobs",
                     completions_take_logprobs(choice), "finish_reason", finish_reason);
}

static void completions_send_text(struct choice *choice, json_t *text, const char *finish_reason)
{
    json_t *chunk = completions_answer_json(choice->generation,
                                            json_pack("[o]", choice_json(choice, text, finish_reason)));
    if (choice->generation->params.include_usage) json_object_set_new(chunk, "usage", json_null());
    if (choice->generation->params.timings) json_object_set_new(chunk, "timings", openai_timings(choice));
    sse_send(choice->generation->group.exchange, NULL, chunk);
}

/* What the prompt's tokens spell, if it came as tokens. */
static void add_prompt_text(const struct choice *choice, struct text_buffer *text)
{
    const struct params_prompt *prompt = choice->prompt;
    struct engine_string piece = {prompt->text, prompt->size};
    if (prompt->text && text_add(text, &piece)) json_memory_lose();
    for (size_t i = 0; i < prompt->tokens.count && !prompt->text; i++)
        if (engine_model_token_text(choice->generation->served->model, prompt->tokens.ids[i], &piece) ==
            ENGINE_OK)
            if (text_add(text, &piece)) json_memory_lose();
}

static void send_piece(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    (void)part;
    completions_send_text(choice, json_text(text->data, text->length), NULL);
}

static json_t *prompt_json(const struct choice *choice)
{
    struct text_buffer text = {0};
    add_prompt_text(choice, &text);
    json_t *json = json_buffer(&text);
    free(text.data);
    return json;
}

static void completions_begin_choice(struct choice *choice)
{
    if (choice->generation->params.echo) completions_send_text(choice, prompt_json(choice), NULL);
}

static void completions_end_choice(struct choice *choice)
{
    completions_send_text(choice, json_string(""), openai_finish_reason(choice));
}

static json_t *whole_text(const struct choice *choice)
{
    struct text_buffer text = {0};
    if (choice->generation->params.echo) add_prompt_text(choice, &text);
    if (text_add(&text, &(struct engine_string){choice->content.data, choice->content.size}))
        json_memory_lose();
    json_t *json = json_buffer(&text);
    free(text.data);
    return json;
}

static json_t *completions_end(struct generation *g)
{
    json_t *choices = json_array();
    if (g->params.stream) {
        json_t *last = g->params.include_usage ? completions_answer_json(g, choices) : NULL;
        if (last) json_object_set_new(last, "usage", openai_usage(g));
        if (last)
            sse_send(g->group.exchange, NULL, last);
        else
            json_decref(choices);
        sse_done(g->group.exchange);
        return NULL;
    }
    for (size_t i = 0; i < g->n_choices; i++)
        json_array_append_new(choices, choice_json(&g->choices[i], whole_text(&g->choices[i]),
                                                   openai_finish_reason(&g->choices[i])));
    json_t *json = completions_answer_json(g, choices);
    json_object_set_new(json, "usage", openai_usage(g));
    if (g->params.timings) json_object_set_new(json, "timings", openai_timings(&g->choices[0]));
    return json;
}

static const struct format format = {
    .token = completions_take_token,
    .score = completions_take_token,
    .begin_choice = completions_begin_choice,
    .text = send_piece,
    .end_choice = completions_end_choice,
    .end = completions_end,
    .failed = openai_stream_failed,
    .last_words = OPENAI_LAST_WORDS,
    .free_choice = free_legacy,
};

void api_completions(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, &format, "cmpl-");
    if (!g) return;
    completions_read(&g->params, g->served, exchange_json(exchange), &error);
    generation_start(g, &error);
}
