/* peft-config.c: reads reads adapter_config.json of a PEFT folder. Settings that only say how an adapter was
 * trained are not read. */
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <regex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "adapter/internal.h"
#include "base/error.h"
#include "model/hf/json.h"

#define MAX_BYTES (16 << 20) /* of the file */

/* Settings that are not supported unless they are absent, null, false, 0 or empty. */
static const struct unsupported {
    const char *key, *what;
} unsupported[] = {
    {"use_dora", "DoRA"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "BD-LoRA"},
    {"lora_bias", "trained biases"},
    {"modules_to_save", "whole trained modules"},
    {"trainable_token_indices", "trained tokens"},
    {"layer_replication", "replicated layers"},
    {"alora_invocation_tokens", "activated LoRA"},
    {"arrow_config", "Arrow routing"},
    {"kasa_config", "KaSA"},
    {"monteclora_config", "MonteCLoRA"},
    {"ensure_weight_tying", "factors shared by embedding and output"},
};

static bool is_empty(const json_t *json)
{
    return !json || json_is_null(json) || json_is_false(json) ||
           (json_is_array(json) && json_array_size(json) == 0) ||
           (json_is_object(json) && json_object_size(json) == 0) ||
           (json_is_integer(json) && json_integer_value(json) == 0) ||
           (json_is_string(json) && json_string_length(json) == 0);
}

/* These change the model's weights before training, so an adapter alone is not what was trained. */
static bool changes_model(const char *init)
{
    static const char *const names[] = {"pissa", "olora", "corda", "loftq", "lora_ga"};
    for (size_t i = 0; init && i < sizeof names / sizeof *names; i++)
        if (strncasecmp(init, names[i], strlen(names[i])) == 0) return true;
    return false;
}

static int check_supported(const struct peft_config *config)
{
    const char *type = json_string_value(json_object_get(config->json, "peft_type"));
    const char *bias = json_string_value(json_object_get(config->json, "bias"));
    const char *init = json_string_value(json_object_get(config->json, "init_lora_weights"));
    if (!type || strcasecmp(type, "LORA") != 0)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: peft_type %.32s is not supported, only LORA",
                           config->path, type ? type : "(none)");
    for (size_t i = 0; i < sizeof unsupported / sizeof *unsupported; i++)
        if (!is_empty(json_object_get(config->json, unsupported[i].key)))
            return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: %s is set: %s cannot be applied", config->path,
                               unsupported[i].key, unsupported[i].what);
    if (bias && strcmp(bias, "none") != 0)
        return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: bias \"%.32s\": trained biases are not supported",
                           config->path, bias);
    if (changes_model(init))
        return error_raise(
            ENGINE_ERROR_UNSUPPORTED,
            "%s: init_lora_weights \"%.32s\" goes with a changed model; convert the adapter to "
            "plain LoRA with PEFT",
            config->path, init);
    return ENGINE_OK;
}

static int read_numbers(struct peft_config *config)
{
    const json_t *rank = json_object_get(config->json, "r"),
                 *alpha = json_object_get(config->json, "lora_alpha");
    if (!json_is_integer(rank) || json_integer_value(rank) < 1)
        return error_raise(ENGINE_ERROR_DATA, "%s: r must be a whole number of at least 1", config->path);
    if (!json_is_number(alpha) || !isfinite(json_number_value(alpha)))
        return error_raise(ENGINE_ERROR_DATA, "%s: lora_alpha must be a number", config->path);
    config->rank = json_integer_value(rank);
    config->alpha = json_number_value(alpha);
    config->rank_stabilised = json_is_true(json_object_get(config->json, "use_rslora"));
    return ENGINE_OK;
}

/* The parameters that have factors of their own: only such as are matrices. */
static int check_parameters(const struct peft_config *config)
{
    static const char *const words[] = {"gate_up_proj", "down_proj", "weight"};
    const json_t *names = json_object_get(config->json, "target_parameters");
    if (!is_empty(names) && !json_is_array(names))
        return error_raise(ENGINE_ERROR_DATA, "%s: target_parameters should be a list of names",
                           config->path);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const char *dot = name ? strrchr(name, '.') : NULL, *last = dot ? dot + 1 : name;
        bool known = false;
        for (size_t k = 0; last && k < sizeof words / sizeof *words; k++)
            known = known || strcmp(last, words[k]) == 0;
        if (!known)
            return error_raise(ENGINE_ERROR_UNSUPPORTED,
                               "%s: target_parameters: factors of %.100s cannot be applied, only those of "
                               "matrices: gate_up_proj, down_proj, weight",
                               config->path, name ? name : "something that is not a name");
    }
    return ENGINE_OK;
}

/* Writes a pattern of rank_pattern or alpha_pattern, a regular expression in Python's syntax that a module's
 * name ends with, as one in POSIX's. False: it uses what POSIX lacks. */
static bool translate(const char *pattern, char *out, size_t size)
{
    static const char begin[] = "^(.*\\.)?(", end[] = ")$", digit[] = "[0-9]";
    size_t n = strlen(begin);
    memcpy(out, begin, n);
    for (const char *at = pattern; *at; at++) {
        if (n + sizeof digit + sizeof end > size) return false;
        bool escape = at[0] == '\\' && at[1];
        if ((at[0] == '(' && at[1] == '?') || (strchr("*+?}", at[0]) && at[1] && strchr("?+", at[1])))
            return false;
        if (escape && at[1] == 'd') {
            memcpy(out + n, digit, sizeof digit - 1);
            n += sizeof digit - 1;
            at++;
        } else if (escape && isalnum((unsigned char)at[1])) {
            return false;
        } else {
            out[n++] = *at;
            if (escape) out[n++] = *++at;
        }
    }
    memcpy(out + n, end, sizeof end);
    return true;
}

static int peft_compile(const struct peft_config *config, const char *key, const char *pattern,
                        regex_t *regex)
{
    char expression[512];
    if (translate(pattern, expression, sizeof expression) &&
        regcomp(regex, expression, REG_EXTENDED | REG_NOSUB) == 0)
        return ENGINE_OK;
    return error_raise(ENGINE_ERROR_UNSUPPORTED, "%s: %s: the pattern %.100s is not supported", config->path,
                       key, pattern);
}

/* Whether modules have such patterns or not. */
static int check_patterns(const struct peft_config *config, const char *key, bool whole)
{
    const char *pattern;
    json_t *item, *patterns = json_object_get(config->json, key);
    if (!is_empty(patterns) && !json_is_object(patterns))
        return error_raise(ENGINE_ERROR_DATA, "%s: %s should be an object: patterns with a number each",
                           config->path, key);
    json_object_foreach(patterns, pattern, item)
    {
        regex_t regex;
        int status = peft_compile(config, key, pattern, &regex);
        if (status) return status;
        regfree(&regex);
        if (whole && (!json_is_integer(item) || json_integer_value(item) < 1))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s: %.100s has no whole number of at least 1",
                               config->path, key, pattern);
        if (!json_is_number(item) || !isfinite(json_number_value(item)))
            return error_raise(ENGINE_ERROR_DATA, "%s: %s: %.100s has no number", config->path, key, pattern);
    }
    return ENGINE_OK;
}

/* The value of the first pattern that a module's name ends with; *value is NULL if there is none. */
static int find_pattern(const struct peft_config *config, const char *key, const char *module,
                        const json_t **value)
{
    const char *pattern;
    json_t *item, *patterns = json_object_get(config->json, key);
    *value = NULL;
    json_object_foreach(patterns, pattern, item)
    {
        regex_t regex;
        int status = peft_compile(config, key, pattern, &regex);
        if (status) return status;
        bool matches = regexec(&regex, module, 0, NULL, 0) == 0;
        regfree(&regex);
        if (!matches) continue;
        *value = item;
        return ENGINE_OK;
    }
    return ENGINE_OK;
}

int peft_config_read(const char *path, struct peft_config *config)
{
    *config = (struct peft_config){.path = strdup(path)};
    if (!config->path) return error_memory("adapter");
    int status = hf_json_read(path, MAX_BYTES, &config->json);
    if (!status) status = check_supported(config);
    if (!status) status = read_numbers(config);
    if (!status) status = check_parameters(config);
    if (!status) status = check_patterns(config, "rank_pattern", true);
    return status ? status : check_patterns(config, "alpha_pattern", false);
}

void peft_config_free(struct peft_config *config)
{
    json_decref(config->json);
    free(config->path);
}

bool peft_config_targets(const struct peft_config *config, const char *parameter)
{
    const json_t *names = json_object_get(config->json, "target_parameters");
    size_t length = strlen(parameter);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        size_t n = strlen(name);
        bool ends = n <= length && strcmp(parameter + length - n, name) == 0;
        if (ends && (n == length || parameter[length - n - 1] == '.')) return true;
    }
    return false;
}

int peft_config_scale(const struct peft_config *config, const char *module, uint64_t rank, float *scale)
{
    const json_t *own_rank, *own_alpha;
    int status = find_pattern(config, "rank_pattern", module, &own_rank);
    if (!status) status = find_pattern(config, "alpha_pattern", module, &own_alpha);
    if (status) return status;
    double expected = own_rank ? json_number_value(own_rank) : (double)config->rank;
    double alpha = own_alpha ? json_number_value(own_alpha) : config->alpha;
    if ((double)rank != expected)
        return error_raise(ENGINE_ERROR_DATA, "%s gives %s the rank %.0f, but its factors have rank %" PRIu64,
                           config->path, module, expected, rank);
    *scale = (float)(alpha / (config->rank_stabilised ? sqrt((double)rank) : (double)rank));
    return ENGINE_OK;
}
