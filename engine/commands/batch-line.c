/* batch-line.c: see batch-line.h. The names are those of OpenAI's API and of llama.cpp's server. */
#include "commands/batch-line.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_STOPS 256

enum kind { PROMPT, TOKENS, ID, LIMIT, COUNT, NUMBER, SEED, PRIORITY, STOP, FLAG };

/* Where a number goes: an offset in struct batch_line. */
#define LINE(field)    offsetof(struct batch_line, field)
#define SAMPLER(field) (offsetof(struct batch_line, sampler) + offsetof(struct engine_sampler_options, field))

static const struct key {
    const char *name;
    enum kind kind;
    size_t target;
} keys[] = {
    {"prompt", PROMPT, 0},
    {"tokens", TOKENS, 0},
    {"id", ID, 0},
    {"custom_id", ID, 0},
    {"max_tokens", LIMIT, LINE(max_tokens)},
    {"n_predict", LIMIT, LINE(max_tokens)},
    {"temperature", NUMBER, SAMPLER(temperature)},
    {"temp", NUMBER, SAMPLER(temperature)},
    {"top_k", COUNT, SAMPLER(top_k)},
    {"top_p", NUMBER, SAMPLER(top_p)},
    {"min_p", NUMBER, SAMPLER(min_p)},
    {"typical_p", NUMBER, SAMPLER(typical_p)},
    {"repeat_penalty", NUMBER, SAMPLER(penalty_repeat)},
    {"frequency_penalty", NUMBER, SAMPLER(penalty_frequency)},
    {"presence_penalty", NUMBER, SAMPLER(penalty_presence)},
    {"repeat_last_n", COUNT, SAMPLER(penalty_last_n)},
    {"seed", SEED, 0},
    {"priority", PRIORITY, 0},
    {"stop", STOP, 0},
    {"ignore_eos", FLAG, LINE(ignore_end)},
};

static bool wrong(char error[256], const char *key, const char *should)
{
    snprintf(error, 256, "\"%.40s\" should be %s", key, should);
    return false;
}

static bool read_tokens(const json_t *value, struct batch_line *line, char error[256])
{
    size_t count = json_array_size(value);
    if (count == 0) return wrong(error, "tokens", "an array of token ids, one at least");
    free(line->tokens);
    line->tokens = calloc(count, sizeof *line->tokens);
    line->n_tokens = count;
    if (!line->tokens) return snprintf(error, 256, "out of memory"), false;
    for (size_t i = 0; i < count; i++) {
        const json_t *id = json_array_get(value, i);
        if (!json_is_integer(id) || json_integer_value(id) < 0 || json_integer_value(id) > INT32_MAX)
            return wrong(error, "tokens", "an array of token ids");
        line->tokens[i] = (int32_t)json_integer_value(id);
    }
    return true;
}

static bool read_stop(const json_t *value, struct batch_line *line, char error[256])
{
    size_t count = json_is_string(value) ? 1 : json_array_size(value);
    if (json_is_null(value)) return true;
    if (!json_is_string(value) && !json_is_array(value))
        return wrong(error, "stop", "a text or an array of texts");
    if (count > MAX_STOPS) return wrong(error, "stop", "an array of at most 256 texts");
    free(line->stop);
    line->n_stop = 0;
    line->stop = calloc(count > 0 ? count : 1, sizeof *line->stop);
    if (!line->stop) return snprintf(error, 256, "out of memory"), false;
    for (size_t i = 0; i < count; i++) {
        const json_t *text = json_is_string(value) ? value : json_array_get(value, i);
        if (!json_is_string(text) || json_string_length(text) == 0)
            return wrong(error, "stop", "a text or an array of texts, none of them empty");
        line->stop[line->n_stop++] =
            (struct engine_string){json_string_value(text), json_string_length(text)};
    }
    return true;
}

static bool read_count(const char *name, const json_t *value, uint32_t *target, char error[256])
{
    json_int_t number = json_integer_value(value);
    if (!json_is_integer(value) || number < 0 || number > 1000000000)
        return wrong(error, name, "a whole number up to 1000000000");
    *target = (uint32_t)number;
    return true;
}

static bool read_number(const char *name, const json_t *value, float *target, char error[256])
{
    double number = json_number_value(value);
    if (!json_is_number(value) || fabs(number) > 1e6) return wrong(error, name, "a number");
    *target = (float)number;
    return true;
}

static bool read_value(const struct key *key, json_t *value, struct batch_line *line, char error[256])
{
    void *target = (char *)line + key->target;
    json_int_t number = json_integer_value(value);
    switch (key->kind) {
    case PROMPT:
        if (!json_is_string(value)) return wrong(error, key->name, "a text");
        line->prompt = (char *)(size_t)json_string_value(value);
        line->prompt_size = json_string_length(value);
        return true;
    case TOKENS: return read_tokens(value, line, error);
    case ID:
        if (json_is_object(value) || json_is_array(value))
            return wrong(error, key->name, "a text or a number");
        line->id = value;
        return true;
    case LIMIT:
        if (json_is_integer(value) && number == 0)
            return wrong(error, key->name, "at least 1, or -1 for no limit");
        *(uint32_t *)target = 0; /* the meaning of -1 in a request */
        return (json_is_integer(value) && number == -1) || read_count(key->name, value, target, error);
    case COUNT: return read_count(key->name, value, target, error);
    case NUMBER: return read_number(key->name, value, target, error);
    case SEED:
        if (!json_is_integer(value) || number < 0) return wrong(error, key->name, "a whole number from 0 on");
        line->sampler.seed = (uint64_t)number;
        line->seed_given = true;
        return true;
    case PRIORITY:
        if (!json_is_integer(value) || number < -1000000 || number > 1000000)
            return wrong(error, key->name, "a whole number");
        line->priority = (int32_t)number;
        return true;
    case STOP: return read_stop(value, line, error);
    case FLAG:
        if (!json_is_boolean(value)) return wrong(error, key->name, "true or false");
        *(bool *)target = json_is_true(value);
        return true;
    }
    return false;
}

static const struct key *find_key(const char *name)
{
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        if (strcmp(keys[i].name, name) == 0) return &keys[i];
    return NULL;
}

bool batch_line_read(const char *text, size_t length, struct batch_line *line, char error[256])
{
    json_error_t reason;
    line->root = json_loadb(text, length, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (!line->root) return snprintf(error, 256, "not JSON: %.200s", reason.text), false;
    if (!json_is_object(line->root)) return snprintf(error, 256, "not an object of JSON"), false;
    const char *name;
    json_t *value;
    bool good = true;
    json_object_foreach(line->root, name, value)
    {
        const struct key *key = find_key(name);
        char later[256] = ""; /* of any mistake after the first */
        if (key && (good || key->kind == ID) && !read_value(key, value, line, good ? error : later))
            good = false;
        if (!key && good) {
            snprintf(error, 256, "\"%.100s\" is not known", name);
            good = false;
        }
    }
    if (good && !line->prompt == !line->tokens) {
        snprintf(error, 256,
                 line->prompt ? "both \"prompt\" and \"tokens\"" : "neither \"prompt\" nor \"tokens\"");
        return false;
    }
    return good;
}

void batch_line_free(struct batch_line *line)
{
    json_decref(line->root);
    free(line->tokens);
    free(line->stop);
    *line = (struct batch_line){0};
}
