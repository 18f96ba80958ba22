/* params.c: the fields that several APIs share, and the options of a text that all take. See params.h. */
#include "serve/params/params.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void params_create(struct params *params, const struct engine_sampler_options *defaults)
{
    *params = (struct params){.n = 1, .max_reasoning = UINT32_MAX, .options = {.sampler = *defaults}};
}

void params_free(struct params *params)
{
    text_options_free(&params->options);
    json_decref(params->messages);
    json_decref(params->call_names);
    json_decref(params->tools);
    json_decref(params->origins);
    json_decref(params->allowed);
    json_decref(params->variables);
    for (size_t i = 0; i < params->n_prompts; i++) {
        free(params->prompts[i].tokens.ids);
        free(params->prompts[i].text);
    }
    free(params->prompts);
    *params = (struct params){0};
}

/* ---- Fields ---- */

static bool params_is_among(const char *name, const char *const *known)
{
    while (*known && strcmp(*known, name) != 0) known++;
    return *known != NULL;
}

/* Options of a text that every API takes: OpenAI's, and those of llama.cpp's server. */
static const char *const text_fields[] = {
    "temperature",
    "top_p",
    "top_k",
    "min_p",
    "typical_p",
    "frequency_penalty",
    "presence_penalty",
    "repeat_penalty",
    "repeat_last_n",
    "dynatemp_range",
    "dynatemp_exponent",
    "top_n_sigma",
    "xtc_probability",
    "xtc_threshold",
    "mirostat",
    "mirostat_tau",
    "mirostat_eta",
    "dry_multiplier",
    "dry_base",
    "dry_allowed_length",
    "dry_penalty_last_n",
    "dry_sequence_breakers",
    "samplers",
    "logit_bias",
    "ban",
    "seed",
    "stop",
    "ignore_eos",
    "grammar",
    "json_schema",
    "response_format",
    "max_tokens",
    NULL,
};

const char *params_field_of(const char *message)
{
    /* Where engine.h has another name. */
    static const char *const others[][2] = {{"penalty_repeat", "repeat_penalty"},
                                            {"penalty_frequency", "frequency_penalty"},
                                            {"penalty_presence", "presence_penalty"},
                                            {"penalty_last_n", "repeat_last_n"},
                                            {"dry_breakers", "dry_sequence_breakers"}};
    size_t length = strspn(message, "abcdefghijklmnopqrstuvwxyz_");
    if (message[length] != ' ' && message[length] != ':') return NULL;
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i][0]) == length && memcmp(others[i][0], message, length) == 0) return others[i][1];
    for (const char *const *field = text_fields; *field; field++)
        if (strlen(*field) == length && memcmp(*field, message, length) == 0) return *field;
    return NULL;
}

/* A copy of an object with only those of its keys that are known, unless --strict refuses others. A new
 * reference; NULL: an error. */
static json_t *known_part(const json_t *object, const char *where, const char *const *known,
                          struct api_error *error)
{
    json_t *part = json_object(), *value;
    const char *key;
    if (!part) api_error_memory(error);
    json_object_foreach((json_t *)(size_t)object, key, value)
    {
        char path[160];
        if (json_is_null(value)) continue;
        snprintf(path, sizeof path, "%.80s.%.70s", where, key);
        if (!params_is_among(key, known))
            api_error_unknown(error, path);
        else if (json_object_set(part, key, value) != 0)
            api_error_memory(error);
    }
    if (!error->status) return part;
    json_decref(part);
    return NULL;
}

bool params_set_option(struct params *params, const char *option, json_t *value)
{
    char ignored[256];
    return text_option_read(&params->options, option, value, ignored) == TEXT_OPTION_READ;
}

/* Reads it, and blames the field that it came in. */
static bool read_option(struct params *params, const char *option, const char *field, json_t *value,
                        struct api_error *error)
{
    char message[256];
    bool constrained = params->options.constrained;
    bool read = text_option_read(&params->options, option, value, message) == TEXT_OPTION_READ;
    if (!read && strcmp(message, TEXT_OPTION_NO_MEMORY) == 0) return api_error_memory(error);
    if (!read) api_error_in(error, field, "%s", message);
    if (!constrained && params->options.constrained) params->constrained_by = field;
    return !error->status;
}

bool params_read_format(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    static const char *const outer[] = {"type",   "json_schema", "schema", "name",
                                        "strict", "description", NULL},
                             *const inner[] = {"name", "description", "schema", "strict", NULL};
    char where[160];
    json_t *format = json_incref(value), *within = json_object_get(value, "json_schema");
    /* Who isn't lenient says it below in his own words. */
    if (error->lenient && json_is_object(value)) {
        json_decref(format);
        snprintf(where, sizeof where, "%.80s.json_schema", name);
        format = known_part(value, name, outer, error);
        within = format && json_is_object(within) ? known_part(within, where, inner, error) : NULL;
        if (within && json_object_set_new(format, "json_schema", within) != 0) api_error_memory(error);
    }
    if (!error->status) read_option(params, "response_format", name, format, error);
    json_decref(format);
    return !error->status && strict_check_format(value, name, error);
}

/* Samplers that only llama.cpp's server has are left out, as it leaves out what it doesn't know. */
static bool params_read_samplers(struct params *params, json_t *value, struct api_error *error)
{
    static const char *const foreign[] = {"infill", "adaptive_p", "tfs_z", NULL};
    size_t i;
    json_t *name, *rest = error->lenient && json_is_array(value) ? json_array() : json_incref(value);
    json_array_foreach(value, i, name)
    {
        const char *word = json_string_value(name);
        if (rest == value) break;
        if (!word || !params_is_among(word, foreign))
            json_array_append(rest, name);
        else
            lenient_say(error->lenient, word, "the sampler \"%s\" of a request is not here, and left out",
                        word);
    }
    bool good = read_option(params, "samplers", "samplers", rest, error);
    json_decref(rest);
    return good;
}

static bool read_text_field(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    if (strcmp(name, "response_format") == 0) return params_read_format(params, name, value, error);
    if (strcmp(name, "samplers") == 0) return params_read_samplers(params, value, error);
    /* As llama.cpp's server and its clients have it. */
    if (error->lenient && strcmp(name, "grammar") == 0 && json_is_string(value) &&
        json_string_length(value) == 0)
        return true;
    return read_option(params, name, name, value, error);
}

static bool params_read_field(struct params *params, const char *name, json_t *value,
                              const struct params_field *fields, struct api_error *error)
{
    if (json_is_null(value)) return true;
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0) return fields->read(params, name, value, error);
    if (params_is_among(name, text_fields)) return read_text_field(params, name, value, error);
    if (error->lenient && foreign_knows(name, value, error)) return !error->status;
    return api_error_unknown(error, name);
}

bool params_read(struct params *params, json_t *body, const struct params_field *fields,
                 struct api_error *error)
{
    const char *name;
    json_t *value;
    if (error->lenient) foreign_tidy(body, error->lenient);
    bool good = !error->lenient || foreign_read(params, body, fields, error);
    json_object_foreach(body, name, value) good =
        good && params_read_field(params, name, value, fields, error);
    return good;
}

static bool is_given(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return value && !json_is_null(value);
}

bool params_check_pairs(const struct params *params, const json_t *body, struct api_error *error)
{
    static const char *const of_tools[] = {"tool_choice", "parallel_tool_calls"};
    if (error->lenient) return true;
    if (is_given(body, "stream_options") && !params->stream)
        return api_error_in(error, "stream_options", "\"stream_options\" goes with \"stream\": true");
    for (size_t i = 0; i < sizeof of_tools / sizeof *of_tools; i++)
        if (is_given(body, of_tools[i]) && !is_given(body, "tools"))
            return api_error_in(error, of_tools[i], "\"%s\" goes with \"tools\", and there are none",
                                of_tools[i]);
    return true;
}

bool params_check_rivals(struct params *params, const char *needs, struct api_error *error)
{
    if (params->n_top == 0 || params->logprobs) return true;
    if (!error->lenient) return api_error_in(error, "top_logprobs", "\"top_logprobs\" goes with %s", needs);
    lenient_say(error->lenient, "top_logprobs alone", "\"top_logprobs\" of a request is ignored without %s",
                needs);
    params->n_top = 0;
    return true;
}

bool params_check_fields(json_t *body, const char *const *known, struct api_error *error)
{
    const char *name;
    json_t *value;
    if (error->lenient) foreign_tidy(body, error->lenient);
    json_object_foreach(body, name, value)
    {
        if (json_is_null(value) || params_is_among(name, known)) continue;
        bool other = error->lenient && foreign_decides_nothing(name, value, error);
        if (error->status || (!other && !api_error_unknown(error, name))) return false;
    }
    return true;
}

bool params_check_keys(const json_t *object, const char *where, const char *const *known,
                       struct api_error *error)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)object, name, value)
    {
        bool empty = json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        if (empty || params_is_among(name, known)) continue;
        if (error->lenient && strcmp(name, "cache_control") == 0) continue;
        char param[160];
        snprintf(param, sizeof param, "%.80s.%.70s", where, name);
        if (!api_error_unknown(error, param)) return false;
    }
    return true;
}

/* ---- Readers ---- */

bool params_flag(const char *name, const json_t *value, bool *flag, struct api_error *error)
{
    if (!json_is_boolean(value)) return api_error_in(error, name, "\"%s\" should be true or false", name);
    *flag = json_is_true(value);
    return true;
}

bool params_read_reasoning_budget(struct params *params, const char *name, json_t *value,
                                  struct api_error *error)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < -1 || n >= UINT32_MAX)
        return api_error_in(
            error, name, "\"%s\" should be a whole number: tokens for reasoning, or -1 for no limit", name);
    params->max_reasoning = n < 0 ? UINT32_MAX : (uint32_t)n;
    params->limits_reasoning = true;
    return true;
}

bool params_read_budget_of(struct params *params, const char *name, const json_t *object,
                           struct api_error *error)
{
    const json_t *budget = json_object_get(object, "budget_tokens");
    double n = json_number_value(budget);
    if (!budget || json_is_null(budget)) return true;
    if (!json_is_number(budget))
        return api_error_in(error, name, "\"%s.budget_tokens\" should be a number", name);
    params->max_reasoning = n < 0 || n >= UINT32_MAX ? UINT32_MAX : (uint32_t)n;
    params->limits_reasoning = true;
    return true;
}

bool params_read_stream(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    return params_flag(name, value, &params->stream, error);
}

bool params_read_stream_options(struct params *params, const char *name, json_t *value,
                                struct api_error *error)
{
    static const char *const known[] = {"include_usage", "include_obfuscation", NULL};
    const json_t *usage = json_object_get(value, "include_usage");
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    if (!params_check_keys(value, name, known, error)) return false;
    if (!error->lenient && json_is_true(json_object_get(value, "include_obfuscation")))
        return api_error_in(error, "stream_options.include_obfuscation", "obfuscation is not supported");
    return !usage || json_is_null(usage) ||
           params_flag("stream_options.include_usage", usage, &params->include_usage, error);
}

bool params_read_n(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > PARAMS_MAX_CHOICES)
        return api_error_in(error, name, "\"%s\" should be a whole number from 1 to %d", name,
                            PARAMS_MAX_CHOICES);
    params->n = (uint32_t)n;
    return true;
}

bool params_read_top(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > PARAMS_MAX_TOP)
        return api_error_in(error, name, "\"%s\" should be a whole number up to %d", name, PARAMS_MAX_TOP);
    params->n_top = (uint32_t)n;
    return true;
}

bool params_ids(const char *name, const json_t *value, struct token_list *tokens, struct api_error *error)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(size_t)value, i, item)
    {
        int32_t id = (int32_t)json_integer_value(item);
        if (!json_is_integer(item) || json_integer_value(item) != id || id < 0)
            return api_error_in(error, name, "\"%s\" should be texts or arrays of token ids", name);
        int status = token_list_add(tokens, &id, 1);
        if (status) return api_error_of_engine(error, status, NULL);
    }
    return true;
}

bool params_read_nothing(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params, (void)name, (void)value, (void)error;
    return true;
}

bool params_read_any_text(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    (void)params;
    return json_is_string(value) || api_error_in(error, name, "\"%s\" should be a text", name);
}

bool params_read_metadata(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    const char *key;
    json_t *text;
    bool good = json_is_object(value);
    (void)params;
    if (good && error->lenient) return true;
    good = good && json_object_size(value) <= 16;
    json_object_foreach(value, key, text) good = good && json_is_string(text);
    return good || api_error_in(error, name, "\"%s\" should be an object of up to 16 texts", name);
}

bool params_read_only_true(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    bool flag;
    (void)params;
    if (error->lenient) return params_flag(name, value, &flag, error);
    return json_is_true(value) || api_error_in(error, name, "\"%s\" can only be true here", name);
}

bool params_read_only_false(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    bool flag;
    (void)params;
    if (error->lenient) return params_flag(name, value, &flag, error);
    return json_is_false(value) || api_error_in(error, name, "\"%s\" can only be false here", name);
}

bool params_read_service_tier(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    const char *tier = json_string_value(value);
    (void)params;
    if (error->lenient) return params_read_any_text(params, name, value, error);
    return (tier && (!strcmp(tier, "auto") || !strcmp(tier, "default") || !strcmp(tier, "standard_only"))) ||
           api_error_in(error, name, "\"%s\" can only be \"auto\" or \"default\" here", name);
}

bool params_set_variable(struct params *params, const char *name, json_t *value, struct api_error *error)
{
    if (!params->variables) params->variables = json_object();
    if (json_object_set_new(params->variables, name, value) == 0) return true;
    return api_error_memory(error);
}

/* Which variable of the template that is, is decided once the template is known: generation.c. */
bool params_read_reasoning_effort(struct params *params, const char *name, json_t *value,
                                  struct api_error *error)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort = json_string_value(value);
    for (size_t i = 0; effort && i < sizeof efforts / sizeof *efforts; i++)
        if (strcmp(efforts[i], effort) == 0)
            return params_set_variable(params, "reasoning_effort", json_incref(value), error);
    return api_error_in(error, name, "\"%s\" should be none, minimal, low, medium, high, xhigh or max", name);
}

bool params_read_template_variables(struct params *params, const char *name, json_t *value,
                                    struct api_error *error)
{
    const char *key;
    json_t *variable;
    if (!json_is_object(value)) return api_error_in(error, name, "\"%s\" should be an object", name);
    json_object_foreach(value, key, variable)
    {
        if (!params_set_variable(params, key, json_incref(variable), error)) return false;
    }
    return true;
}
