/* ask.c: see ask.h. */
#include "serve/generate/ask.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "serve/generate/foreign.h"
#include "serve/generate/lenient.h"
#include "serve/generate/strict.h"

void ask_create(struct ask *ask, const struct engine_sampler_options *defaults)
{
    *ask = (struct ask){.n = 1, .options = {.sampler = *defaults}};
}

void ask_free(struct ask *ask)
{
    text_options_free(&ask->options);
    json_decref(ask->messages);
    json_decref(ask->call_names);
    json_decref(ask->tools);
    json_decref(ask->origins);
    json_decref(ask->allowed);
    json_decref(ask->variables);
    for (size_t i = 0; i < ask->n_prompts; i++) {
        free(ask->prompts[i].tokens.ids);
        free(ask->prompts[i].text);
    }
    free(ask->prompts);
    *ask = (struct ask){0};
}

/* ---- Fields ---- */

static bool is_among(const char *name, const char *const *known)
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

const char *ask_field_of(const char *message)
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

/* A copy of an object with only those of its keys that are known, unless --strict refuses others. A new reference; NULL: a
 * mistake. */
static json_t *known_part(const json_t *object, const char *where, const char *const *known,
                          struct mistake *mistake)
{
    json_t *part = json_object(), *value;
    const char *key;
    if (!part) mistake_memory(mistake);
    json_object_foreach((json_t *)(size_t)object, key, value)
    {
        char path[160];
        if (json_is_null(value)) continue;
        snprintf(path, sizeof path, "%.80s.%.70s", where, key);
        if (!is_among(key, known))
            mistake_unknown(mistake, path);
        else if (json_object_set(part, key, value) != 0)
            mistake_memory(mistake);
    }
    if (!mistake->status) return part;
    json_decref(part);
    return NULL;
}

bool ask_read_format(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const outer[] = {"type",   "json_schema", "schema", "name",
                                        "strict", "description", NULL},
                             *const inner[] = {"name", "description", "schema", "strict", NULL};
    char error[256], where[160];
    json_t *format = json_incref(value), *within = json_object_get(value, "json_schema");
    bool constrained = ask->options.constrained;
    /* Who isn't lenient says it below in his own words. */
    if (mistake->lenient && json_is_object(value)) {
        json_decref(format);
        snprintf(where, sizeof where, "%.80s.json_schema", name);
        format = known_part(value, name, outer, mistake);
        within = format && json_is_object(within) ? known_part(within, where, inner, mistake) : NULL;
        if (within && json_object_set_new(format, "json_schema", within) != 0) mistake_memory(mistake);
    }
    if (!mistake->status &&
        text_option_read(&ask->options, "response_format", format, error) != TEXT_OPTION_READ)
        mistake_in(mistake, name, "%s", error);
    json_decref(format);
    if (!constrained && ask->options.constrained) ask->constrained_by = name;
    return !mistake->status && strict_check_format(value, name, mistake);
}

/* Steps that only llama.cpp's server has are left out, as it leaves out what it doesn't know. */
static bool read_samplers(struct ask *ask, json_t *value, struct mistake *mistake)
{
    static const char *const foreign[] = {"infill", "adaptive_p", "tfs_z", NULL};
    char error[256];
    size_t i;
    json_t *name, *rest = mistake->lenient && json_is_array(value) ? json_array() : json_incref(value);
    json_array_foreach(value, i, name)
    {
        const char *word = json_string_value(name);
        if (rest == value) break;
        if (!word || !is_among(word, foreign))
            json_array_append(rest, name);
        else
            lenient_say(mistake->lenient, word, "the sampler \"%s\" of a request is not here, and left out",
                        word);
    }
    if (text_option_read(&ask->options, "samplers", rest, error) != TEXT_OPTION_READ)
        mistake_in(mistake, "samplers", "%s", error);
    json_decref(rest);
    return !mistake->status;
}

static bool read_text_field(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    char error[256];
    bool constrained = ask->options.constrained;
    if (strcmp(name, "response_format") == 0) return ask_read_format(ask, name, value, mistake);
    if (strcmp(name, "samplers") == 0) return read_samplers(ask, value, mistake);
    /* As llama.cpp's server and its clients have it. */
    if (mistake->lenient && strcmp(name, "grammar") == 0 && json_is_string(value) &&
        json_string_length(value) == 0)
        return true;
    if (text_option_read(&ask->options, name, value, error) != TEXT_OPTION_READ)
        return mistake_in(mistake, name, "%s", error);
    if (!constrained && ask->options.constrained) ask->constrained_by = name;
    return true;
}

static bool read_field(struct ask *ask, const char *name, json_t *value, const struct ask_field *fields,
                       struct mistake *mistake)
{
    if (json_is_null(value)) return true;
    for (; fields->name; fields++)
        if (strcmp(fields->name, name) == 0) return fields->read(ask, name, value, mistake);
    if (is_among(name, text_fields)) return read_text_field(ask, name, value, mistake);
    if (mistake->lenient && foreign_knows(name, value, mistake)) return !mistake->status;
    return mistake_unknown(mistake, name);
}

bool ask_read(struct ask *ask, json_t *body, const struct ask_field *fields, struct mistake *mistake)
{
    const char *name;
    json_t *value;
    if (mistake->lenient) foreign_make_whole(body);
    bool good = !mistake->lenient || foreign_read(ask, body, fields, mistake);
    json_object_foreach(body, name, value) good = good && read_field(ask, name, value, fields, mistake);
    return good;
}

static bool is_given(const json_t *body, const char *name)
{
    const json_t *value = json_object_get(body, name);
    return value && !json_is_null(value);
}

bool ask_check_pairs(const struct ask *ask, const json_t *body, struct mistake *mistake)
{
    static const char *const of_tools[] = {"tool_choice", "parallel_tool_calls"};
    if (mistake->lenient) return true;
    if (is_given(body, "stream_options") && !ask->stream)
        return mistake_in(mistake, "stream_options", "\"stream_options\" goes with \"stream\": true");
    for (size_t i = 0; i < sizeof of_tools / sizeof *of_tools; i++)
        if (is_given(body, of_tools[i]) && !is_given(body, "tools"))
            return mistake_in(mistake, of_tools[i], "\"%s\" goes with \"tools\", and there are none",
                              of_tools[i]);
    return true;
}

bool ask_check_fields(json_t *body, const char *const *known, struct mistake *mistake)
{
    const char *name;
    json_t *value;
    if (mistake->lenient) foreign_make_whole(body);
    json_object_foreach(body, name, value)
    {
        if (json_is_null(value) || is_among(name, known)) continue;
        bool other = mistake->lenient && foreign_decides_nothing(name, value, mistake);
        if (mistake->status || (!other && !mistake_unknown(mistake, name))) return false;
    }
    return true;
}

bool ask_check_keys(const json_t *object, const char *where, const char *const *known,
                    struct mistake *mistake)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(size_t)object, name, value)
    {
        bool empty = json_is_null(value) || (json_is_array(value) && json_array_size(value) == 0);
        if (empty || is_among(name, known)) continue;
        if (mistake->lenient && strcmp(name, "cache_control") == 0) continue;
        char param[160];
        snprintf(param, sizeof param, "%.80s.%.70s", where, name);
        if (!mistake_unknown(mistake, param)) return false;
    }
    return true;
}

/* ---- Readers ---- */

bool ask_flag(const char *name, const json_t *value, bool *flag, struct mistake *mistake)
{
    if (!json_is_boolean(value)) return mistake_in(mistake, name, "\"%s\" should be true or false", name);
    *flag = json_is_true(value);
    return true;
}

bool ask_check_budget(const char *name, const json_t *object, struct mistake *mistake)
{
    const json_t *budget = json_object_get(object, "budget_tokens");
    return !budget || json_is_null(budget) || json_is_number(budget) ||
           mistake_in(mistake, name, "\"%s.budget_tokens\" should be a number", name);
}

bool ask_read_stream(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    return ask_flag(name, value, &ask->stream, mistake);
}

bool ask_read_stream_options(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const known[] = {"include_usage", "include_obfuscation", NULL};
    const json_t *usage = json_object_get(value, "include_usage");
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    if (!ask_check_keys(value, name, known, mistake)) return false;
    if (!mistake->lenient && json_is_true(json_object_get(value, "include_obfuscation")))
        return mistake_in(mistake, "stream_options.include_obfuscation", "obfuscation is not supported");
    return !usage || json_is_null(usage) ||
           ask_flag("stream_options.include_usage", usage, &ask->include_usage, mistake);
}

bool ask_read_n(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 1 || n > ASK_MOST_CHOICES)
        return mistake_in(mistake, name, "\"%s\" should be a whole number from 1 to %d", name,
                          ASK_MOST_CHOICES);
    ask->n = (uint32_t)n;
    return true;
}

bool ask_read_top(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    json_int_t n = json_integer_value(value);
    if (!json_is_integer(value) || n < 0 || n > ASK_MOST_TOP)
        return mistake_in(mistake, name, "\"%s\" should be a whole number up to %d", name, ASK_MOST_TOP);
    ask->n_top = (uint32_t)n;
    return true;
}

bool ask_ids(const char *name, const json_t *value, struct token_list *tokens, struct mistake *mistake)
{
    size_t i;
    json_t *item;
    json_array_foreach((json_t *)(size_t)value, i, item)
    {
        int32_t id = (int32_t)json_integer_value(item);
        if (!json_is_integer(item) || json_integer_value(item) != id || id < 0)
            return mistake_in(mistake, name, "\"%s\" should be texts or arrays of token ids", name);
        int status = token_list_add(tokens, &id, 1);
        if (status) return mistake_of_engine(mistake, status, NULL);
    }
    return true;
}

bool ask_read_nothing(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask, (void)name, (void)value, (void)mistake;
    return true;
}

bool ask_read_any_text(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    (void)ask;
    return json_is_string(value) || mistake_in(mistake, name, "\"%s\" should be a text", name);
}

bool ask_read_metadata(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    const char *key;
    json_t *text;
    bool good = json_is_object(value);
    (void)ask;
    if (good && mistake->lenient) return true;
    good = good && json_object_size(value) <= 16;
    json_object_foreach(value, key, text) good = good && json_is_string(text);
    return good || mistake_in(mistake, name, "\"%s\" should be an object of up to 16 texts", name);
}

bool ask_read_only_true(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    bool flag;
    (void)ask;
    if (mistake->lenient) return ask_flag(name, value, &flag, mistake);
    return json_is_true(value) || mistake_in(mistake, name, "\"%s\" can only be true here", name);
}

bool ask_read_only_false(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    bool flag;
    (void)ask;
    if (mistake->lenient) return ask_flag(name, value, &flag, mistake);
    return json_is_false(value) || mistake_in(mistake, name, "\"%s\" can only be false here", name);
}

bool ask_read_service_tier(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    const char *tier = json_string_value(value);
    (void)ask;
    if (mistake->lenient) return ask_read_any_text(ask, name, value, mistake);
    return (tier && (!strcmp(tier, "auto") || !strcmp(tier, "default") || !strcmp(tier, "standard_only"))) ||
           mistake_in(mistake, name, "\"%s\" can only be \"auto\" or \"default\" here", name);
}

bool ask_set_variable(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    if (!ask->variables) ask->variables = json_object();
    if (json_object_set_new(ask->variables, name, value) == 0) return true;
    return mistake_memory(mistake);
}

/* Which variable of the template that is, is decided once the template is known: generation.c. */
bool ask_read_reasoning_effort(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    static const char *const efforts[] = {"none", "minimal", "low", "medium", "high", "xhigh", "max"};
    const char *effort = json_string_value(value);
    for (size_t i = 0; effort && i < sizeof efforts / sizeof *efforts; i++)
        if (strcmp(efforts[i], effort) == 0)
            return ask_set_variable(ask, "reasoning_effort", json_incref(value), mistake);
    return mistake_in(mistake, name, "\"%s\" should be none, minimal, low, medium, high, xhigh or max", name);
}

bool ask_read_template_variables(struct ask *ask, const char *name, json_t *value, struct mistake *mistake)
{
    const char *key;
    json_t *variable;
    if (!json_is_object(value)) return mistake_in(mistake, name, "\"%s\" should be an object", name);
    json_object_foreach(value, key, variable)
    {
        if (!ask_set_variable(ask, key, json_incref(variable), mistake)) return false;
    }
    return true;
}
