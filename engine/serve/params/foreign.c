/* foreign.c: request fields that other servers have beside those of an API: names for what the engine knows
 * by another one, and fields on which no text depends. They count unless the server is --strict. */
#include "serve/params/params.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#include "serve/params/api-error.h"

/* OpenAI's functions before there were tools. */
static void drop_functions(json_t *body, struct lenient *lenient)
{
    const char *choice = json_string_value(json_object_get(body, "function_call"));
    if (!choice || strcmp(choice, "none") != 0 || !json_is_array(json_object_get(body, "functions"))) return;
    json_object_del(body, "functions");
    lenient_say(lenient, "functions without calls",
                "\"functions\" of a request are ignored where \"function_call\" is none");
}

void foreign_tidy(json_t *body, struct lenient *lenient)
{
    drop_functions(body, lenient);
    for (void *at = json_object_iter(body); at; at = json_object_iter_next(body, at)) {
        double number = json_real_value(json_object_iter_value(at));
        if (!json_is_real(json_object_iter_value(at)) || number != floor(number) || fabs(number) >= 0x1p63)
            continue;
        json_object_iter_set_new(body, at, json_integer((json_int_t)number));
    }
}

/* ---- Other names ---- */

/* vLLM, SGLang, and the servers of many others. */
static bool read_repetition(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_set_option(params, "repeat_penalty", value) ||
           api_error_in(error, name, "\"%s\" should be a number", name);
}

/* llama.cpp's server: how many rivals of each token. */
static bool read_probabilities(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    params->logprobs = json_integer_value(value) > 0;
    return params_read_top(params, name, value, error);
}

/* Ollama: true, false, or how much. */
static bool read_think(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    if (json_is_boolean(value))
        return params_set_variable(params, "enable_thinking", json_incref(value), error);
    if (json_is_string(value)) return params_read_reasoning_effort(params, name, value, error);
    return api_error_in(error, name, "\"%s\" should be true, false, or how much: low, medium or high", name);
}

static bool read_enable_thinking(struct params *params, const char *name, json_t *value,
                                 struct api_error *error)
{
    bool on;
    return params_flag(name, value, &on, error) &&
           params_set_variable(params, "enable_thinking", json_incref(value), error);
}

/* {"type": "enabled"}, as Anthropic's API has it, in chat. */
static bool foreign_read_thinking(struct params *params, const char *name, json_t *value,
                                  struct api_error *error)
{
    static const char *const keys[] = {"type", "budget_tokens", NULL}, *const types[] = {"enabled",
                                                                                         "adaptive", "auto",
                                                                                         "disabled"};
    const char *type = json_string_value(json_object_get(value, "type"));
    size_t i = 0;
    while (type && i < 4 && strcmp(types[i], type) != 0) i++;
    if (!type || i == 4)
        return api_error_in(error, name, "\"%s\" should be an object with the type enabled or disabled",
                            name);
    if (!params_check_keys(value, name, keys, error) || !params_read_budget_of(params, name, value, error))
        return false;
    return i == 1 || i == 2 ||
           params_set_variable(params, "enable_thinking", json_boolean(strcmp(type, "disabled") != 0), error);
}

/* {"effort": "high"}, as the Responses API has it, in chat. */
static bool foreign_read_reasoning(struct params *params, const char *name, json_t *value,
                                   struct api_error *error)
{
    static const char *const keys[] = {"effort", "enabled", "summary", NULL};
    json_t *effort = json_object_get(value, "effort"), *enabled = json_object_get(value, "enabled");
    bool on;
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!params_check_keys(value, name, keys, error)) return false;
    if (enabled && !json_is_null(enabled) &&
        (!params_flag("reasoning.enabled", enabled, &on, error) ||
         !params_set_variable(params, "enable_thinking", json_incref(enabled), error)))
        return false;
    return !effort || json_is_null(effort) ||
           params_read_reasoning_effort(params, "reasoning.effort", effort, error);
}

/* llama.cpp's server: how far the lines of a text are indented, and how long it may take. */
static bool read_indent(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > 1000000)
        return api_error_in(error, name, "\"%s\" should be a whole number up to 1000000", name);
    params->n_indent = (uint32_t)n;
    return true;
}

static bool read_max_time(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    double milliseconds = json_number_value(value);
    if (!json_is_number(value)) return api_error_in(error, name, "\"%s\" should be a number", name);
    params->max_seconds = milliseconds > 0 ? milliseconds / 1000 : 0;
    return true;
}

static bool read_timings(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_flag(name, value, &params->timings, error);
}

static bool read_answer_fields(struct params *params, const char *name, json_t *value,
                               struct api_error *error)
{
    size_t i;
    json_t *field;
    bool good = json_is_array(value);
    json_array_foreach(value, i, field) good = good && json_is_string(field);
    if (json_array_size(value) > 0) params->answer_fields = value;
    return good || api_error_in(error, name, "\"%s\" should be an array of texts", name);
}

static const struct params_field others[] = {
    {"repetition_penalty", read_repetition},
    {"n_probs", read_probabilities},
    {"think", read_think},
    {"enable_thinking", read_enable_thinking},
    {"thinking", foreign_read_thinking},
    {"reasoning", foreign_read_reasoning},
    {"n_indent", read_indent},
    {"t_max_predict_ms", read_max_time},
    {"timings_per_token", read_timings},
    {"response_fields", read_answer_fields},
    {NULL, NULL},
};

static const struct params_field *field_of(const struct params_field *fields, const char *name)
{
    while (fields->name && strcmp(fields->name, name) != 0) fields++;
    return fields->name ? fields : NULL;
}

bool foreign_read(struct params *params, const json_t *body, const struct params_field *own,
                  struct api_error *error)
{
    const json_t *penalty = json_object_get(body, "repeat_penalty"),
                 *other = json_object_get(body, "repetition_penalty");
    for (const struct params_field *field = others; field->name; field++) {
        json_t *value = json_object_get(body, field->name);
        if (!value || json_is_null(value) || field_of(own, field->name)) continue;
        if (!field->read(params, field->name, value, error)) return false;
    }
    if (!json_is_number(penalty) || !other || json_is_null(other) || json_equal(penalty, other)) return true;
    return api_error_in(error, "repetition_penalty",
                        "\"repetition_penalty\" and \"repeat_penalty\" differ: give one");
}

/* ---- What cannot be done ---- */

static bool foreign_is_empty(const json_t *value)
{
    const char *word = json_string_value(value);
    if (word && (strcmp(word, "auto") == 0 || strcmp(word, "none") == 0)) return true;
    return json_is_false(value) || (json_is_array(value) && json_array_size(value) == 0) ||
           (json_is_object(value) && json_object_size(value) == 0);
}

/* Whether a field would change the answer in a way that the server can't. Empty, it changes nothing. */
static bool changes_answer(const char *name)
{
    static const char *const fields[] = {
        "functions",      "image_data",         "lora",  "chat_template", "guided_choice", "guided_regex",
        "guided_grammar", "structured_outputs", "regex", "ebnf",          "guided_json",   "function_call"};
    for (size_t i = 0; i < sizeof fields / sizeof *fields; i++)
        if (strcmp(name, fields[i]) == 0) return true;
    return false;
}

/* ---- Without effect on any text ---- */

enum { TEXT = 1, NUMBER = 2, FLAG = 4, OBJECT = 8, ARRAY = 16 };

static const struct {
    const char *name;
    unsigned types;
} without_effect[] = {
    /* OpenAI's */
    {"user", TEXT},
    {"metadata", OBJECT},
    {"client_metadata", OBJECT},
    {"safety_identifier", TEXT},
    {"prompt_cache_key", TEXT},
    {"prompt_cache_retention", TEXT},
    {"prompt_cache_options", OBJECT},
    {"store", FLAG},
    {"service_tier", TEXT},
    {"prediction", OBJECT},
    {"max_tool_calls", NUMBER},
    {"parallel_tool_calls", FLAG},
    {"stream_options", OBJECT},
    /* Anthropic's */
    {"betas", ARRAY},
    {"billing_policy", TEXT | OBJECT},
    {"cache_control", OBJECT},
    {"context_management", OBJECT | ARRAY},
    {"compaction", OBJECT},
    {"diagnostics", OBJECT},
    {"fallbacks", ARRAY | OBJECT | TEXT},
    {"fallback_credit_token", TEXT | OBJECT},
    {"inference_geo", TEXT},
    {"speed", TEXT},
    {"user_profile_id", TEXT},
    {"workspace_id", TEXT},
    /* llama.cpp's server, which has slots, and a context that it shifts */
    {"cache_prompt", FLAG},
    {"id_slot", NUMBER},
    {"slot_id", NUMBER},
    {"n_keep", NUMBER},
    {"n_discard", NUMBER},
    {"n_cache_reuse", NUMBER},
    {"post_sampling_probs", FLAG},
    {"return_progress", FLAG},
    {"return_tokens", FLAG},
    {"t_max_prompt_ms", NUMBER},
    /* Ollama's, vLLM's */
    {"keep_alive", TEXT | NUMBER},
    {"priority", NUMBER},
    {"request_id", TEXT},
};

static bool has_type(const json_t *value, unsigned types)
{
    return (types & TEXT && json_is_string(value)) || (types & NUMBER && json_is_number(value)) ||
           (types & FLAG && json_is_boolean(value)) || (types & OBJECT && json_is_object(value)) ||
           (types & ARRAY && json_is_array(value));
}

static bool foreign_check_type(const char *name, const json_t *value, unsigned types, struct api_error *error)
{
    static const char *const words[] = {"a text", "a number", "true or false", "an object", "an array"};
    char should[80] = "";
    size_t n = 0;
    if (has_type(value, types)) return true;
    for (unsigned i = 0; i < 5; i++)
        if (types & 1u << i)
            n += (size_t)snprintf(should + n, sizeof should - n, "%s%s", n > 0 ? " or " : "", words[i]);
    return api_error_in(error, name, "\"%s\" should be %s", name, should);
}

bool foreign_decides_nothing(const char *name, const json_t *value, struct api_error *error)
{
    for (size_t i = 0; i < sizeof without_effect / sizeof *without_effect; i++)
        if (strcmp(without_effect[i].name, name) == 0)
            return foreign_check_type(name, value, without_effect[i].types, error), true;
    if (changes_answer(name)) {
        if (!foreign_is_empty(value))
            api_error_with_code(error, "unknown_parameter", name, "\"%s\" is not supported here", name);
        return true;
    }
    return false;
}

bool foreign_knows(const char *name, const json_t *value, struct api_error *error)
{
    return foreign_decides_nothing(name, value, error) || field_of(others, name);
}
