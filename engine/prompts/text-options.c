/* text-options.c: see text-options.h. The names are those of OpenAI's API and of llama.cpp's server. */
#include "prompts/text-options.h"

#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "common/json-read.h"

#define MAX_STOPS 256
#define MAX_BANS  4096

enum kind {
    LIMIT,
    COUNT,
    NUMBER,
    SEED,
    PRIORITY,
    STOP,
    FLAG,
    BREAKERS,
    BAN,
    BIAS,
    SAMPLERS,
    GRAMMAR,
    SCHEMA,
    FORMAT,
    TEMPERATURE,
    TOP,
    LAST
};

/* Where a number goes: an offset in struct text_options. */
#define LAST_N_ALL    1000000 /* as long as any text */
#define OPTION(field) offsetof(struct text_options, field)
#define SAMPLER(field)                                                                                       \
    (offsetof(struct text_options, sampler) + offsetof(struct engine_sampler_options, field))

static const struct key {
    const char *name;
    enum kind kind;
    size_t target;
} keys[] = {
    {"max_tokens", LIMIT, OPTION(max_tokens)},
    {"n_predict", LIMIT, OPTION(max_tokens)},
    {"temperature", TEMPERATURE, 0},
    {"temp", TEMPERATURE, 0},
    {"top_k", TOP, SAMPLER(top_k)},
    {"top_p", NUMBER, SAMPLER(top_p)},
    {"min_p", NUMBER, SAMPLER(min_p)},
    {"typical_p", NUMBER, SAMPLER(typical_p)},
    {"repeat_penalty", NUMBER, SAMPLER(penalty_repeat)},
    {"frequency_penalty", NUMBER, SAMPLER(penalty_frequency)},
    {"presence_penalty", NUMBER, SAMPLER(penalty_presence)},
    {"repeat_last_n", LAST, SAMPLER(penalty_last_n)},
    {"dynatemp_range", NUMBER, SAMPLER(dynatemp_range)},
    {"dynatemp_exponent", NUMBER, SAMPLER(dynatemp_exponent)},
    {"top_n_sigma", NUMBER, SAMPLER(top_n_sigma)},
    {"xtc_probability", NUMBER, SAMPLER(xtc_probability)},
    {"xtc_threshold", NUMBER, SAMPLER(xtc_threshold)},
    {"mirostat", COUNT, SAMPLER(mirostat)},
    {"mirostat_tau", NUMBER, SAMPLER(mirostat_tau)},
    {"mirostat_eta", NUMBER, SAMPLER(mirostat_eta)},
    {"dry_multiplier", NUMBER, SAMPLER(dry_multiplier)},
    {"dry_base", NUMBER, SAMPLER(dry_base)},
    {"dry_allowed_length", COUNT, SAMPLER(dry_allowed_length)},
    {"dry_penalty_last_n", LAST, SAMPLER(dry_penalty_last_n)},
    {"dry_sequence_breakers", BREAKERS, 0},
    {"ban", BAN, 0},
    {"logit_bias", BIAS, 0},
    {"samplers", SAMPLERS, 0},
    {"logprobs", COUNT, OPTION(n_logprobs)},
    {"n_probs", COUNT, OPTION(n_logprobs)},
    {"seed", SEED, 0},
    {"priority", PRIORITY, 0},
    {"stop", STOP, 0},
    {"ignore_eos", FLAG, OPTION(ignore_end)},
    {"grammar", GRAMMAR, 0},
    {"json_schema", SCHEMA, 0},
    {"response_format", FORMAT, 0},
};

static bool text_options_wrong(char error[256], const char *key, const char *should)
{
    snprintf(error, 256, "\"%.40s\" should be %s", key, should);
    return false;
}

bool text_options_texts(const char *name, const json_t *value, size_t most, struct engine_string **texts,
                        size_t *n_texts, char error[256])
{
    size_t count = json_is_string(value) ? 1 : json_array_size(value);
    if (json_is_null(value)) return true;
    if (!json_is_string(value) && !json_is_array(value))
        return text_options_wrong(error, name, "a text or an array of texts");
    if (count > most) return text_options_wrong(error, name, "an array of fewer texts");
    free(*texts);
    *n_texts = 0;
    *texts = calloc(count > 0 ? count : 1, sizeof **texts);
    if (!*texts) return snprintf(error, 256, TEXT_OPTION_NO_MEMORY), false;
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_string(value) ? value : json_array_get(value, i);
        if (!json_is_string(text) || json_string_length(text) == 0)
            return text_options_wrong(error, name, "a text or an array of texts, none of them empty");
        (*texts)[(*n_texts)++] = (struct engine_string){json_string_value(text), json_string_length(text)};
    }
    return true;
}

static bool read_bias(const json_t *id, const json_t *bias, struct text_options *options, char error[256])
{
    json_int_t token = json_integer_value(id);
    double number = json_is_false(bias) ? -INFINITY : json_number_value(bias);
    if (!json_is_integer(id) || token < 0 || token > INT32_MAX ||
        (!json_is_false(bias) && (!json_is_number(bias) || fabs(number) > 1e6)))
        return text_options_wrong(error, "logit_bias",
                                  "pairs of a token's id and a number, or false to ban the token");
    options->bias[options->sampler.n_logit_bias++] =
        (struct engine_logit_bias){(int32_t)token, (float)number};
    return true;
}

/* [[15043, 1.5], [2, false]] or {"15043": 1.5} */
static bool read_biases(json_t *value, struct text_options *options, char error[256])
{
    size_t count = json_is_object(value) ? json_object_size(value) : json_array_size(value);
    if (json_is_null(value)) return true;
    if (!json_is_object(value) && !json_is_array(value))
        return text_options_wrong(error, "logit_bias", "an object, or an array of pairs");
    free(options->bias);
    options->bias = calloc(count > 0 ? count : 1, sizeof *options->bias);
    if (!options->bias) return snprintf(error, 256, TEXT_OPTION_NO_MEMORY), false;
    options->sampler.logit_bias = options->bias;
    options->sampler.n_logit_bias = 0;
    bool good = true;
    for (size_t i = 0; i < json_array_size(value) && good; i++) {
        const json_t *pair = json_array_get(value, i);
        good = read_bias(json_array_get(pair, 0), json_array_get(pair, 1), options, error);
    }
    const char *name;
    json_t *bias;
    json_object_foreach(value, name, bias)
    {
        json_t *id = json_read_text(name, JSON_DECODE_ANY, NULL); /* NULL is no integer */
        good = good && read_bias(id, bias, options, error);
        json_decref(id);
    }
    return good;
}

/* Names in an array, or a text of letters. Whether names exist is checked when the line is run. */
static bool read_samplers(const json_t *value, struct text_options *options, char error[256])
{
    const char *should = "an array of names, or a text of the letters edskypmxt";
    size_t n = 0;
    if (json_is_string(value)) {
        if (!sampling_names(json_string_value(value), options->samplers))
            return text_options_wrong(error, "samplers", should);
    } else if (json_is_array(value)) {
        options->samplers[0] = '\0';
        for (size_t i = 0; i < json_array_size(value); i++) {
            const char *name = json_string_value(json_array_get(value, i));
            if (!name || n + strlen(name) + 2 > sizeof options->samplers)
                return text_options_wrong(error, "samplers", should);
            n += (size_t)snprintf(options->samplers + n, sizeof options->samplers - n, "%s;", name);
        }
    } else {
        return text_options_wrong(error, "samplers", should);
    }
    options->sampler.samplers = options->samplers;
    return true;
}

/* `text` is freed with the line; NULL: out of memory. */
static bool constrain(struct text_options *options, enum engine_grammar_kind kind, char *text,
                      char error[256])
{
    if (options->constrained) {
        free(text);
        return snprintf(error, 256, "two of \"grammar\", \"json_schema\" and \"response_format\""), false;
    }
    options->constrained = true;
    if (!text) return snprintf(error, 256, TEXT_OPTION_NO_MEMORY), false;
    options->constraint = (struct constraint){.kind = kind, .text = text, .size = strlen(text)};
    return true;
}

static bool constrain_to_schema(struct text_options *options, const json_t *schema, char error[256])
{
    if (!json_is_object(schema) && !json_is_boolean(schema))
        return text_options_wrong(error, "json_schema", "a schema");
    return constrain(options, ENGINE_GRAMMAR_JSON_SCHEMA,
                     json_dumps(schema, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17)), error);
}

/* Whether an object within response_format has no other keys than these; `where`: its name, with a point. */
static bool has_only(const json_t *object, const char *where, const char *const *known, char error[256])
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(size_t)object, key, value)
    {
        size_t i = 0;
        while (known[i] && strcmp(known[i], key) != 0) i++;
        if (known[i] || json_is_null(value)) continue;
        return snprintf(error, 256, "\"response_format.%s%.60s\" is not supported", where, key), false;
    }
    return true;
}

/* As in OpenAI's API: {"type": "json_schema", "json_schema": {"schema": …}}; llama.cpp and OpenAI's Responses
 * have the schema beside the type. */
static bool read_format(const json_t *value, struct text_options *options, char error[256])
{
    static const char *const outer[] = {"type",   "json_schema", "schema", "name",
                                        "strict", "description", NULL};
    static const char *const inner[] = {"name", "description", "schema", "strict", NULL};
    const char *type = json_string_value(json_object_get(value, "type"));
    const json_t *schema = json_object_get(json_object_get(value, "json_schema"), "schema");
    if (!has_only(value, "", outer, error) ||
        !has_only(json_object_get(value, "json_schema"), "json_schema.", inner, error))
        return false;
    if (!schema) schema = json_object_get(value, "schema");
    if (type && !strcmp(type, "text")) return constrain(options, 0, strdup(""), error);
    if (type && !strcmp(type, "json_object") && !schema)
        return constrain(options, ENGINE_GRAMMAR_JSON_OBJECT, strdup(""), error);
    if (type && (!strcmp(type, "json_schema") || !strcmp(type, "json_object")) && schema)
        return constrain_to_schema(options, schema, error);
    return text_options_wrong(error, "response_format",
                              "an object with the type text, json_object or json_schema");
}

static bool read_count(const char *name, const json_t *value, uint32_t *target, char error[256])
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > 1000000000)
        return text_options_wrong(error, name, "a whole number up to 1000000000");
    *target = (uint32_t)number;
    return true;
}

static bool read_number(const char *name, const json_t *value, float *target, char error[256])
{
    double number = json_number_value(value);
    if (!json_is_number(value) || fabs(number) > 1e6) return text_options_wrong(error, name, "a number");
    *target = (float)number;
    return true;
}

/* Jansson's integers have 63 bits, so larger ones come as texts, or as doubles, which only have their first
 * digits. */
static bool read_seed(const char *name, const json_t *value, uint64_t *seed, char error[256])
{
    const char *digits = json_string_value(value);
    *seed = (uint64_t)json_integer_value(value);
    if (json_is_integer(value) && json_integer_value(value) >= 0) return true;
    double number = json_real_value(value);
    if (json_is_real(value) && number >= 0x1p63 && number <= 0x1p64) {
        *seed = number < 0x1p64 ? (uint64_t)number : UINT64_MAX;
        return true;
    }
    errno = 0;
    if (digits && digits[0] && !digits[strspn(digits, "0123456789")]) {
        *seed = strtoull(digits, NULL, 10);
        if (errno == 0) return true;
    }
    return text_options_wrong(
        error, name,
        "a whole number from 0 to 18446744073709551615, or -1; from 2^63 on, only a text has all digits");
}

static bool read_value(const struct key *key, json_t *value, struct text_options *options, char error[256])
{
    void *target = (char *)options + key->target;
    json_int_t number = json_integer_value(value);
    bool good;
    switch (key->kind) {
    case LIMIT:
        if (json_is_integer(value) && number == 0)
            return text_options_wrong(error, key->name, "at least 1, or -1 for no limit");
        *(uint32_t *)target = 0; /* the meaning of -1 in a request */
        return (json_is_integer(value) && number == -1) || read_count(key->name, value, target, error);
    case COUNT: return read_count(key->name, value, target, error);
    case TOP:
    case LAST:
        *(uint32_t *)target = key->kind == TOP ? 0 : LAST_N_ALL; /* what -1 means */
        return (json_is_integer(value) && number == -1) || read_count(key->name, value, target, error);
    case NUMBER: return read_number(key->name, value, target, error);
    case TEMPERATURE:
        options->temperature_given = true;
        return read_number(key->name, value, &options->sampler.temperature, error);
    case SEED:
        options->seed_given = !(json_is_integer(value) && number == -1);
        return !options->seed_given || read_seed(key->name, value, &options->sampler.seed, error);
    case PRIORITY:
        if (!json_is_integer(value) || number < -1000000 || number > 1000000)
            return text_options_wrong(error, key->name, "a whole number");
        options->priority = (int32_t)number;
        return true;
    case STOP:
        return text_options_texts(key->name, value, MAX_STOPS, &options->stop, &options->n_stop, error);
    case BREAKERS:
        good = text_options_texts(key->name, value, MAX_STOPS, &options->breakers,
                                  &options->sampler.n_dry_breakers, error);
        if (options->breakers) options->sampler.dry_breakers = options->breakers;
        return good;
    case BAN:
        good = text_options_texts(key->name, value, MAX_BANS, &options->ban, &options->sampler.n_ban, error);
        if (options->ban) options->sampler.ban = options->ban;
        return good;
    case BIAS: return read_biases(value, options, error);
    case SAMPLERS: return read_samplers(value, options, error);
    case GRAMMAR:
        if (!json_is_string(value) || strlen(json_string_value(value)) != json_string_length(value))
            return text_options_wrong(error, key->name, "a text");
        return constrain(options, ENGINE_GRAMMAR_GBNF, strdup(json_string_value(value)), error);
    case SCHEMA: return constrain_to_schema(options, value, error);
    case FORMAT: return read_format(value, options, error);
    case FLAG:
        if (!json_is_boolean(value)) return text_options_wrong(error, key->name, "true or false");
        *(bool *)target = json_is_true(value);
        return true;
    }
    return false;
}

enum text_option_result text_option_read(struct text_options *options, const char *name, json_t *value,
                                         char error[256])
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0)
            return read_value(&keys[i], value, options, error) ? TEXT_OPTION_READ : TEXT_OPTION_WRONG;
    return TEXT_OPTION_UNKNOWN;
}

void text_options_free(struct text_options *options)
{
    free(options->stop);
    free(options->breakers);
    free(options->ban);
    free(options->bias);
    constraint_free(&options->constraint);
    *options = (struct text_options){0};
}
