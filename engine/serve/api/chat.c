/* chat.c: POST /v1/chat/completions, and the parts of answers that OpenAI's other APIs share. The fields and
 * their meaning are those of OpenAI's API reference; further sampling options have llama.cpp's names. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"
#include "io/files.h"
#include "io/json.h"
#include "serve/api/api.h"
#include "serve/api/internal.h"
#include "serve/http/http.h"

/* ---- Parts of answers ---- */

void openai_fingerprint(const struct served *served, char text[24])
{
    struct engine_model_info info = {.struct_size = sizeof info};
    uint64_t hash = HASH_BASIS;
    engine_model_get_info(served->model, &info);
    hash = hash_bytes(hash, engine_version(), strlen(engine_version()));
    hash = hash_bytes(hash, served->path, strlen(served->path));
    hash = hash_bytes(hash, &info.file_size, sizeof info.file_size);
    hash = hash_bytes(hash, &served->created, sizeof served->created);
    snprintf(text, 24, "fp_%016" PRIx64, hash);
}

const char *openai_finish_reason(const struct choice *choice)
{
    if (choice->cut) return "length";
    if (choice->stopped_in_call) return "stop";
    return json_array_size(choice->calls) > 0 ? "tool_calls" : "stop";
}

json_t *openai_usage(const struct generation *generation)
{
    struct generation_usage usage = generation_usage(generation);
    return json_pack("{s:o, s:o, s:o, s:{s:o}, s:{s:o}}", "prompt_tokens", json_count(usage.n_prompt),
                     "completion_tokens", json_count(usage.n_generated), "total_tokens",
                     json_count(usage.n_prompt + usage.n_generated), "prompt_tokens_details", "cached_tokens",
                     json_count(usage.n_reused), "completion_tokens_details", "reasoning_tokens",
                     json_count(usage.n_reasoning));
}

static json_t *json_quotient(double a, double b)
{
    return json_real(b > 0 ? a / b : 0);
}

json_t *openai_timings(const struct choice *choice)
{
    uint32_t n_read = choice->n_prompt - choice->n_reused;
    double read_ms = choice->prompt_seconds * 1000, written_ms = choice->text_seconds * 1000;
    return json_pack("{s:o, s:o, s:f, s:o, s:o, s:o, s:f, s:o, s:o}", "cache_n", json_count(choice->n_reused),
                     "prompt_n", json_count(n_read), "prompt_ms", read_ms, "prompt_per_token_ms",
                     json_quotient(read_ms, n_read), "prompt_per_second",
                     json_quotient(n_read, choice->prompt_seconds), "predicted_n",
                     json_count(choice->n_generated), "predicted_ms", written_ms, "predicted_per_token_ms",
                     json_quotient(written_ms, choice->n_generated), "predicted_per_second",
                     json_quotient(choice->n_generated, choice->text_seconds));
}

json_t *openai_logarithm(float logprob)
{
    return json_rounded(isfinite(logprob) && logprob > -9999 ? (double)logprob : -9999.0, 9);
}

json_t *openai_number(float value)
{
    char text[32];
    snprintf(text, sizeof text, "%.7g", (double)value);
    json_t *json = json_read_text(text, JSON_DECODE_ANY, NULL); /* an integer, if it is one */
    return json ? json : json_real((double)value);
}

static json_t *openai_token_json(struct engine_model *model, int32_t token, float logprob)
{
    struct engine_string text = {"", 0};
    engine_model_token_text(model, token, &text);
    json_t *bytes = json_array();
    for (size_t i = 0; i < text.length; i++)
        json_array_append_new(bytes, json_integer((unsigned char)text.data[i]));
    return json_pack("{s:o, s:i, s:o, s:o}", "token", json_text(text.data, text.length), "id", (int)token,
                     "logprob", openai_logarithm(logprob), "bytes", bytes);
}

json_t *openai_logprob(struct engine_model *model, const struct engine_event *event, uint32_t n_top)
{
    json_t *json = openai_token_json(model, event->token, event->logprob), *top = json_array();
    for (uint32_t i = 0; i < event->n_top && i < n_top; i++)
        json_array_append_new(top, openai_token_json(model, event->top[i].token, event->top[i].logprob));
    if (json && json_object_set_new(json, "top_logprobs", top) == 0) return json;
    json_decref(json);
    return NULL;
}

void openai_take_token(struct choice *choice, const struct engine_event *event)
{
    const struct generation *g = choice->generation;
    if (!g->params.logprobs) return;
    if (!choice->state) choice->state = json_array();
    json_array_append_new(choice->state, openai_logprob(g->served->model, event, g->params.n_top));
}

void openai_free_tokens(struct choice *choice)
{
    json_decref(choice->state);
}

void openai_stream_failed(struct generation *generation, const struct api_error *error)
{
    json_t *body = json_pack("{s:{s:o, s:s, s:s?, s:s?}}", "error", "message", json_line(error->message),
                             "type", error->status < 500 ? "invalid_request_error" : "server_error", "param",
                             error->param[0] ? error->param : NULL, "code", error->code);
    sse_send(generation->group.exchange, NULL, body);
}

/* ---- Reading ---- */

static bool read_max_tokens(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_set_option(params, "max_tokens", value) ||
           api_error_in(error, name, "\"%s\" should be a whole number, at least 1, or -1 for no limit", name);
}

static bool chat_read_logprobs(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    return params_flag(name, value, &params->logprobs, error);
}

static bool read_modalities(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    const char *only = json_string_value(json_array_get(value, 0));
    (void)params;
    return (json_array_size(value) == 1 && only && strcmp(only, "text") == 0) ||
           api_error_in(error, name, "\"%s\" can only be [\"text\"] here", name);
}

static bool read_verbosity(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    const char *word = json_string_value(value);
    (void)params;
    if (error->lenient) return params_read_any_text(params, name, value, error);
    return (word && strcmp(word, "medium") == 0) ||
           api_error_in(error, name, "\"%s\" can only be medium here", name);
}

static bool read_reasoning_format(struct params *params, const char *name, json_t *value,
                                  struct api_error *error)
{
    const char *format = json_string_value(value);
    bool none = format && strcmp(format, "none") == 0;
    if (!format || (!none && strcmp(format, "auto") != 0 && strcmp(format, "deepseek") != 0))
        return api_error_in(error, name, "\"%s\" should be auto, deepseek or none", name);
    params->free_tags = none;
    return true;
}

static bool read_continue(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_flag(name, value, &params->continues, error);
}

static const struct params_field fields[] = {
    OPENAI_COMMON_FIELDS,
    {"messages", params_read_messages},
    {"continue_final_message", read_continue},
    {"tools", params_read_tools},
    {"tool_choice", params_read_tool_choice},
    {"parallel_tool_calls", params_read_parallel},
    {"max_completion_tokens", read_max_tokens},
    {"n_predict", read_max_tokens},
    {"logprobs", chat_read_logprobs},
    {"top_logprobs", params_read_top},
    {"modalities", read_modalities},
    {"verbosity", read_verbosity},
    {"reasoning_effort", params_read_reasoning_effort},
    {"reasoning_budget", params_read_reasoning_budget},
    {"reasoning_format", read_reasoning_format},
    {"chat_template_kwargs", params_read_template_variables},
    {NULL, NULL},
};

bool chat_read(struct params *params, json_t *body, struct api_error *error)
{
    const json_t *old = json_object_get(body, "max_tokens"),
                 *new = json_object_get(body, "max_completion_tokens");
    if (!params_read(params, body, fields, error)) return false;
    if (old && new && !json_is_null(old) && !json_is_null(new) && !json_equal(old, new))
        return api_error_in(error, "max_tokens",
                            "\"max_tokens\" and \"max_completion_tokens\" differ: give one");
    if (!params->messages) return api_error_in(error, "messages", "\"messages\" is missing");
    if (!params_check_pairs(params, body, error)) return false;
    if (!params_check_rivals(params, "\"logprobs\": true", error)) return false;
    if (params->free_tags && params->tools)
        return api_error_in(error, "reasoning_format", "\"reasoning_format\" none goes without \"tools\"");
    return !params->continues || params_continue_last(params, error);
}

/* ---- Answering ---- */

/* {"content": [the tokens], "refusal": null}, which takes them; null without logprobs. */
static json_t *chat_take_logprobs(struct choice *choice)
{
    json_t *tokens = choice->state;
    if (!choice->generation->params.logprobs) return json_null();
    choice->state = NULL;
    return json_pack("{s:o, s:n}", "content", tokens ? tokens : json_array(), "refusal");
}

/* A chunk with what comes after its head. */
static json_t *chat_chunk_json(const struct generation *g, json_t *choices)
{
    char fingerprint[24];
    openai_fingerprint(g->served, fingerprint);
    json_t *json = json_pack("{s:s, s:s, s:I, s:s, s:s, s:o}", "id", g->id, "object", "chat.completion.chunk",
                             "created", (json_int_t)g->created, "model", g->model, "system_fingerprint",
                             fingerprint, "choices", choices);
    /* Those who asked for usage get it in the last chunk. */
    if (g->params.include_usage) json_object_set_new(json, "usage", json_null());
    return json;
}

static void send_delta(struct choice *choice, json_t *delta, const char *finish_reason)
{
    const struct generation *g = choice->generation;
    json_t *choices = json_pack("[{s:i, s:o, s:o, s:s?}]", "index", (int)choice->index, "delta", delta,
                                "logprobs", chat_take_logprobs(choice), "finish_reason", finish_reason);
    json_t *json = chat_chunk_json(g, choices);
    if (g->params.timings) json_object_set_new(json, "timings", openai_timings(choice));
    sse_send(g->group.exchange, NULL, json);
}

static void chat_begin_choice(struct choice *choice)
{
    send_delta(choice, json_pack("{s:s, s:s}", "role", "assistant", "content", ""), NULL);
}

static void chat_send_text(struct choice *choice, uint32_t part, const struct engine_string *text)
{
    const char *key = part == ENGINE_REPLY_REASONING ? "reasoning_content" : "content";
    send_delta(choice, json_pack("{s:o}", key, json_text(text->data, text->length)), NULL);
}

static json_t *custom_json(const json_t *call)
{
    return json_pack("{s:O, s:s, s:{s:O, s:o}}", "id", json_object_get(call, "id"), "type", "custom",
                     "custom", "name", json_object_get(call, "name"), "input",
                     params_custom_input(json_object_get(call, "arguments")));
}

static bool is_custom(const struct choice *choice, const json_t *call)
{
    return params_is_custom(&choice->generation->params, json_string_value(json_object_get(call, "name")));
}

static json_t *call_json(const json_t *call)
{
    return json_pack("{s:O, s:s, s:{s:O, s:O}}", "id", json_object_get(call, "id"), "type", "function",
                     "function", "name", json_object_get(call, "name"), "arguments",
                     json_object_get(call, "arguments"));
}

/* In one piece, since its input is known only when its arguments are. */
static void send_custom(struct choice *choice, size_t number, const struct engine_reply_piece *piece)
{
    if (!(piece->flags & ENGINE_REPLY_CALL_ENDS)) return;
    json_t *delta = custom_json(json_array_get(choice->calls, number));
    json_object_set_new(delta, "index", json_integer((json_int_t)number));
    send_delta(choice, json_pack("{s:[o]}", "tool_calls", delta), NULL);
}

static void send_call(struct choice *choice, size_t number, const struct engine_reply_piece *piece)
{
    const json_t *call = json_array_get(choice->calls, number);
    if (is_custom(choice, call)) {
        send_custom(choice, number, piece);
        return;
    }
    json_t *function = json_pack("{s:o}", "arguments", json_text(piece->text.data, piece->text.length));
    json_t *delta = json_pack("{s:I, s:O}", "index", (json_int_t)number, "function", function);
    if (piece->flags & ENGINE_REPLY_CALL_BEGINS) {
        json_object_set(delta, "id", json_object_get(call, "id"));
        json_object_set_new(delta, "type", json_string("function"));
        json_object_set(function, "name", json_object_get(call, "name"));
    }
    json_decref(function);
    if (piece->text.length > 0 || piece->flags & ENGINE_REPLY_CALL_BEGINS)
        send_delta(choice, json_pack("{s:[o]}", "tool_calls", delta), NULL);
    else
        json_decref(delta);
}

static void chat_end_choice(struct choice *choice)
{
    send_delta(choice, json_object(), openai_finish_reason(choice));
}

static json_t *chat_message_json(const struct choice *choice)
{
    const struct text_buffer *content = &choice->content, *reasoning = &choice->reasoning;
    json_t *calls = json_array();
    size_t i;
    json_t *call;
    json_array_foreach(choice->calls, i, call)
        json_array_append_new(calls, is_custom(choice, call) ? custom_json(call) : call_json(call));
    bool any = json_array_size(calls) > 0;
    json_t *message = json_pack("{s:s, s:o, s:n}", "role", "assistant", "content",
                                any && content->size == 0 ? json_null() : json_buffer(content), "refusal");
    if (reasoning->size > 0) json_object_set_new(message, "reasoning_content", json_buffer(reasoning));
    if (any)
        json_object_set_new(message, "tool_calls", calls);
    else
        json_decref(calls);
    return message;
}

static json_t *chat_completion_json(struct generation *g)
{
    char fingerprint[24];
    json_t *choices = json_array();
    openai_fingerprint(g->served, fingerprint);
    for (size_t i = 0; i < g->n_choices; i++) {
        struct choice *choice = &g->choices[i];
        json_array_append_new(choices,
                              json_pack("{s:i, s:o, s:o, s:s}", "index", (int)i, "message",
                                        chat_message_json(choice), "logprobs", chat_take_logprobs(choice),
                                        "finish_reason", openai_finish_reason(choice)));
    }
    return json_pack("{s:s, s:s, s:I, s:s, s:o, s:o, s:s, s:o*}", "id", g->id, "object", "chat.completion",
                     "created", (json_int_t)g->created, "model", g->model, "choices", choices, "usage",
                     openai_usage(g), "system_fingerprint", fingerprint, "timings",
                     g->params.timings ? openai_timings(&g->choices[0]) : NULL);
}

static json_t *chat_end(struct generation *g)
{
    if (!g->params.stream) return chat_completion_json(g);
    if (g->params.include_usage) {
        json_t *last = chat_chunk_json(g, json_array());
        json_object_set_new(last, "usage", openai_usage(g));
        sse_send(g->group.exchange, NULL, last);
    }
    sse_done(g->group.exchange);
    return NULL;
}

static const struct format format = {
    .token = openai_take_token,
    .begin_choice = chat_begin_choice,
    .text = chat_send_text,
    .call = send_call,
    .end_choice = chat_end_choice,
    .end = chat_end,
    .failed = openai_stream_failed,
    .last_words = OPENAI_LAST_WORDS,
    .free_choice = openai_free_tokens,
};

void api_chat(struct exchange *exchange)
{
    struct api_error error = api_error_none(exchange);
    struct generation *g = generation_create(exchange, &format, "chatcmpl-");
    if (!g) return;
    chat_read(&g->params, exchange_json(exchange), &error);
    generation_start(g, &error);
}
