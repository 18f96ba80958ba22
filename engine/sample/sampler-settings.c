/* sampler-settings.c: reads a caller's sampler options: the names of the chain's steps, the ranges of
 * numbers, copies of texts and tables. Called when a request or a sampler is created. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "sample/sampler.h"

#define MAX_LAST_N     (1u << 24)
#define MAX_BIASES     (1u << 20)
#define MAX_TEXTS      4096
#define MAX_TEXT_BYTES 65536 /* of all texts of a kind */
#define DEFAULT_STEPS  "penalties;dry;top_n_sigma;top_k;typ_p;top_p;min_p;xtc;temperature"

/* ---- The chain ---- */

static const char *const step_names[SAMPLER_N_STEPS] = {
    [SAMPLER_PENALTIES] = "penalties", [SAMPLER_DRY] = "dry",       [SAMPLER_TOP_N_SIGMA] = "top_n_sigma",
    [SAMPLER_TOP_K] = "top_k",         [SAMPLER_TYPICAL] = "typ_p", [SAMPLER_TOP_P] = "top_p",
    [SAMPLER_MIN_P] = "min_p",         [SAMPLER_XTC] = "xtc",       [SAMPLER_TEMPERATURE] = "temperature",
};

/* Other names that llama.cpp takes. */
static const struct {
    const char *name;
    uint8_t step;
} other_names[] = {{"nucleus", SAMPLER_TOP_P},
                   {"typical", SAMPLER_TYPICAL},
                   {"typical_p", SAMPLER_TYPICAL},
                   {"typ", SAMPLER_TYPICAL},
                   {"temp", SAMPLER_TEMPERATURE}};

/* "top-k" is the same as "top_k". */
static bool is_step_name(const char *name, const char *given, size_t length)
{
    for (size_t i = 0; i < length; i++)
        if (name[i] == '\0' || (given[i] == '-' ? '_' : given[i]) != name[i]) return false;
    return name[length] == '\0';
}

static int add_step(struct sampler_settings *settings, const char *name, size_t length)
{
    uint8_t found = SAMPLER_N_STEPS;
    if (settings->n_steps == SAMPLER_MAX_STEPS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "samplers: more than %d steps", SAMPLER_MAX_STEPS);
    for (unsigned step = 0; step < SAMPLER_N_STEPS; step++)
        if (is_step_name(step_names[step], name, length)) found = (uint8_t)step;
    for (size_t i = 0; i < sizeof other_names / sizeof *other_names; i++)
        if (is_step_name(other_names[i].name, name, length)) found = other_names[i].step;
    if (found < SAMPLER_N_STEPS) {
        settings->steps[settings->n_steps++] = found;
        return ENGINE_OK;
    }
    return error_raise(ENGINE_ERROR_ARGUMENT, "samplers: '%.*s' is not one of " DEFAULT_STEPS,
                       (int)(length < 40 ? length : 40), name);
}

static int read_steps(const char *names, struct sampler_settings *settings)
{
    int status = ENGINE_OK;
    if (!names) names = DEFAULT_STEPS;
    while (*names && !status) {
        size_t length = strcspn(names, ";");
        if (length > 0) status = add_step(settings, names, length);
        names += length + (names[length] == ';');
    }
    return status;
}

/* ---- Numbers ---- */

static int check_option_range(const char *name, float value, float lowest, float highest)
{
    if (value >= lowest && value <= highest) return ENGINE_OK; /* false for NaN */
    return error_raise(ENGINE_ERROR_ARGUMENT, "%s is %g; it must be %g to %g", name, (double)value,
                       (double)lowest, (double)highest);
}

static int check_option_count(const char *name, uint32_t value, uint32_t highest)
{
    if (value <= highest) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_ARGUMENT, "%s is %" PRIu32 "; it must be at most %" PRIu32, name, value,
                       highest);
}

static int check_options(const struct engine_sampler_options *options)
{
    const float most = 3.4e38f; /* nearly any finite number */
    int status = check_option_range("temperature", options->temperature, 0, most);
    if (!status) status = check_option_range("top_p", options->top_p, 0, 1);
    if (!status) status = check_option_range("min_p", options->min_p, 0, 1);
    if (!status) status = check_option_range("typical_p", options->typical_p, 0, 1);
    if (!status) status = check_option_range("penalty_repeat", options->penalty_repeat, 0, most);
    if (!status) status = check_option_range("penalty_frequency", options->penalty_frequency, -most, most);
    if (!status) status = check_option_range("penalty_presence", options->penalty_presence, -most, most);
    if (!status) status = check_option_count("penalty_last_n", options->penalty_last_n, MAX_LAST_N);
    if (!status) status = check_option_range("dynatemp_range", options->dynatemp_range, 0, most);
    if (!status) status = check_option_range("dynatemp_exponent", options->dynatemp_exponent, 0, most);
    if (!status) status = check_option_range("top_n_sigma", options->top_n_sigma, -most, most);
    if (!status) status = check_option_range("xtc_probability", options->xtc_probability, 0, 1);
    if (!status) status = check_option_range("xtc_threshold", options->xtc_threshold, 0, 1);
    if (!status) status = check_option_count("mirostat", options->mirostat, 2);
    if (!status) status = check_option_range("mirostat_tau", options->mirostat_tau, 0, most);
    if (!status) status = check_option_range("mirostat_eta", options->mirostat_eta, 0, most);
    if (!status) status = check_option_range("dry_multiplier", options->dry_multiplier, 0, most);
    if (!status) status = check_option_range("dry_base", options->dry_base, 0, most);
    if (!status) status = check_option_count("dry_allowed_length", options->dry_allowed_length, MAX_LAST_N);
    if (!status) status = check_option_count("dry_penalty_last_n", options->dry_penalty_last_n, MAX_LAST_N);
    return status;
}

/* ---- Copies ---- */

static int copy_bias(const struct engine_sampler_options *from, struct engine_sampler_options *options)
{
    const struct engine_logit_bias *given = from->logit_bias;
    size_t n = from->n_logit_bias;
    if (n == 0) return ENGINE_OK;
    if (!given) return error_raise(ENGINE_ERROR_ARGUMENT, "n_logit_bias is %zu, but logit_bias is NULL", n);
    if (n > MAX_BIASES)
        return error_raise(ENGINE_ERROR_ARGUMENT, "logit_bias: %zu tokens; at most %u", n, MAX_BIASES);
    for (size_t i = 0; i < n; i++)
        if (isnan(given[i].bias) || given[i].bias == INFINITY)
            return error_raise(ENGINE_ERROR_ARGUMENT, "logit_bias: that of token %" PRIi32 " is %g",
                               given[i].token, (double)given[i].bias);
    struct engine_logit_bias *copy = calloc(n, sizeof *copy);
    if (!copy) return error_memory("logit bias");
    memcpy(copy, given, n * sizeof *copy);
    options->logit_bias = copy;
    return ENGINE_OK;
}

/* One block: the strings, then their bytes. */
static int copy_texts(const char *name, const struct engine_string *given, size_t n,
                      const struct engine_string **copy)
{
    size_t n_bytes = 0;
    if (n > 0 && !given)
        return error_raise(ENGINE_ERROR_ARGUMENT, "n_%s is %zu, but %s is NULL", name, n, name);
    if (n > MAX_TEXTS)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%s: %zu texts; at most %d", name, n, MAX_TEXTS);
    for (size_t i = 0; i < n; i++) {
        if (!given[i].data || given[i].length == 0 || given[i].length > MAX_TEXT_BYTES)
            return error_raise(ENGINE_ERROR_ARGUMENT, "%s: text %zu has %zu bytes; it should have 1 to %d",
                               name, i, given[i].data ? given[i].length : 0, MAX_TEXT_BYTES);
        n_bytes += given[i].length;
    }
    if (n_bytes > MAX_TEXT_BYTES)
        return error_raise(ENGINE_ERROR_ARGUMENT, "%s: %zu bytes in all; at most %d", name, n_bytes,
                           MAX_TEXT_BYTES);
    struct engine_string *texts = malloc(n * sizeof *texts + n_bytes + 1);
    if (!texts) return error_memory("sampler");
    char *bytes = (char *)(texts + n);
    for (size_t i = 0; i < n; i++) {
        memcpy(bytes, given[i].data, given[i].length);
        texts[i] = (struct engine_string){bytes, given[i].length};
        bytes += given[i].length;
    }
    *copy = texts;
    return ENGINE_OK;
}

static void free_texts(const struct engine_string *texts)
{
    free((struct engine_string *)(size_t)texts);
}

static int copy_options(const struct engine_sampler_options *given, struct sampler_settings *settings)
{
    static const struct engine_string usual[] = {{"\n", 1}, {":", 1}, {"\"", 1}, {"*", 1}};
    struct engine_sampler_options *options = &settings->options;
    *options = *given;
    options->samplers = NULL;
    options->logit_bias = NULL;
    options->dry_breakers = options->ban = NULL;
    const struct engine_string *breakers = given->dry_breakers;
    if (!breakers && given->n_dry_breakers == 0) {
        breakers = usual;
        options->n_dry_breakers = sizeof usual / sizeof *usual;
    }
    int status = copy_bias(given, options);
    if (!status)
        status = copy_texts("dry_breakers", breakers, options->n_dry_breakers, &options->dry_breakers);
    if (!status) status = copy_texts("ban", given->ban, options->n_ban, &options->ban);
    return status;
}

int sampler_settings_read(const struct engine_sampler_options *given, struct sampler_settings *settings)
{
    *settings = (struct sampler_settings){0};
    int status = SIZED_CHECK(given, engine_sampler_options, seed);
    if (status) return status;
    struct engine_sampler_options known;
    sized_read(&known, sizeof known, given);
    status = check_options(&known);
    if (!status) status = read_steps(known.samplers, settings);
    if (status) return status;
    status = copy_options(&known, settings);
    if (status) sampler_settings_free(settings);
    return status;
}

bool sampler_settings_want_dry(const struct sampler_settings *settings)
{
    const struct engine_sampler_options *options = &settings->options;
    if (options->mirostat > 0 || options->dry_multiplier <= 0 || options->dry_base < 1 ||
        options->dry_penalty_last_n == 0)
        return false;
    for (size_t i = 0; i < settings->n_steps; i++)
        if (settings->steps[i] == SAMPLER_DRY) return true;
    return false;
}

void sampler_settings_free(struct sampler_settings *settings)
{
    struct engine_sampler_options *options = &settings->options;
    free((struct engine_logit_bias *)(size_t)options->logit_bias);
    free_texts(options->dry_breakers);
    free_texts(options->ban);
    *settings = (struct sampler_settings){0};
}
