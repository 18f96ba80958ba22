/* sampling.c: see sampling.h. */
#include "options/sampling.h"

#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "io/files.h"
#include "io/messages.h"
#include "options/open.h"

#define MAX_LAST 1000000 /* tokens that count as repeated: all */

/* ---- Texts ---- */

static int digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return isxdigit((unsigned char)c) ? tolower((unsigned char)c) - 'a' + 10 : -1;
}

/* Copies a text without its escapes; returns its length. An unknown escape stays as it is. */
static size_t sampling_unescape(const char *typed, char *text)
{
    static const char names[] = "ntr\\\"'", meanings[] = "\n\t\r\\\"'";
    size_t n = 0;
    for (; *typed; typed++) {
        const char *name = typed[0] == '\\' && typed[1] ? strchr(names, typed[1]) : NULL;
        if (name) {
            text[n++] = meanings[name - names];
            typed++;
        } else if (strncmp(typed, "\\x", 2) == 0 && digit_of(typed[2]) >= 0 && digit_of(typed[3]) >= 0) {
            text[n++] = (char)(digit_of(typed[2]) * 16 + digit_of(typed[3]));
            typed += 3;
        } else {
            text[n++] = *typed;
        }
    }
    return n;
}

int texts_read(const struct argument_list *typed, const char *option, struct text_list *texts)
{
    *texts = (struct text_list){0};
    if (typed->count == 0) return ENGINE_OK;
    texts->items = calloc(typed->count, sizeof *texts->items);
    for (size_t i = 0; i < typed->count && texts->items; i++) {
        char *text = malloc(strlen(typed->items[i]) + 1);
        if (!text) return command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
        texts->items[i] = (struct engine_string){text, sampling_unescape(typed->items[i], text)};
        texts->count++;
        if (texts->items[i].length == 0)
            return command_error(ENGINE_ERROR_ARGUMENT, "--%s: the text is empty", option);
    }
    return texts->items ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (texts)");
}

void texts_free(struct text_list *texts)
{
    for (size_t i = 0; i < texts->count; i++) free((char *)(size_t)texts->items[i].data);
    free(texts->items);
    *texts = (struct text_list){0};
}

/* ---- Names ---- */

static const struct {
    char letter;
    const char *name;
} steps[] = {{'e', "penalties"}, {'d', "dry"},   {'s', "top_n_sigma"}, {'k', "top_k"},      {'y', "typ_p"},
             {'p', "top_p"},     {'m', "min_p"}, {'x', "xtc"},         {'t', "temperature"}};

#define N_STEPS (sizeof steps / sizeof *steps)

bool sampling_names(const char *letters, char names[SAMPLING_NAMES])
{
    size_t n = 0;
    names[0] = '\0';
    for (; *letters; letters++) {
        size_t i = 0;
        while (i < N_STEPS && steps[i].letter != *letters) i++;
        if (i == N_STEPS || n + strlen(steps[i].name) + 2 > SAMPLING_NAMES) return false;
        n += (size_t)snprintf(names + n, SAMPLING_NAMES - n, "%s;", steps[i].name);
    }
    return true;
}

static int read_names(const struct arguments *a, struct sampling *sampling)
{
    if (a->samplers && a->sampler_seq)
        return command_error(ENGINE_ERROR_ARGUMENT, "--samplers and --sampler-seq cannot be combined");
    sampling->options.samplers = a->samplers;
    if (!a->sampler_seq) return ENGINE_OK;
    if (!sampling_names(a->sampler_seq, sampling->samplers))
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--sampler-seq: '%.80s' has other letters than edskypmxt, or too many",
                             a->sampler_seq);
    sampling->options.samplers = sampling->samplers;
    return ENGINE_OK;
}

/* ---- Biases ---- */

static bool read_id(const char *text, char **end, int32_t *id)
{
    unsigned long long number = isdigit((unsigned char)text[0]) ? strtoull(text, end, 10) : UINT64_MAX;
    *id = (int32_t)(number <= INT32_MAX ? number : 0);
    return number <= INT32_MAX;
}

/* "15043+1", "15043-0.5", "15043-inf" */
static int read_bias(const char *text, struct engine_logit_bias *bias)
{
    char *end = NULL, *rest = NULL;
    if (read_id(text, &end, &bias->token) && (*end == '+' || *end == '-')) {
        bool negative = *end == '-';
        double number =
            isspace((unsigned char)end[1]) || strchr("+-", end[1]) ? (double)NAN : strtod(end + 1, &rest);
        bias->bias = (float)(negative ? -number : number);
        if (rest && *rest == '\0' && rest != end + 1 && !isnan(bias->bias) && bias->bias != INFINITY)
            return ENGINE_OK;
    }
    return command_error(
        ENGINE_ERROR_ARGUMENT,
        "--logit-bias: '%.80s' should be a token's id, + or -, and a number, such as 15043-1.5", text);
}

static int read_biases(const struct arguments *a, struct sampling *sampling)
{
    size_t n = a->logit_bias.count + a->ban_tokens.count;
    int status = ENGINE_OK;
    if (n == 0) return ENGINE_OK;
    sampling->bias = calloc(n, sizeof *sampling->bias);
    if (!sampling->bias) return command_error(ENGINE_ERROR_MEMORY, "out of memory (logit bias)");
    for (size_t i = 0; i < a->logit_bias.count && !status; i++)
        status = read_bias(a->logit_bias.items[i], &sampling->bias[i]);
    for (size_t i = 0; i < a->ban_tokens.count && !status; i++) {
        struct engine_logit_bias *bias = &sampling->bias[a->logit_bias.count + i];
        char *end = NULL;
        bias->bias = -INFINITY;
        if (!read_id(a->ban_tokens.items[i], &end, &bias->token) || *end)
            status = command_error(ENGINE_ERROR_ARGUMENT, "--ban-token: '%.80s' is not a token's id",
                                   a->ban_tokens.items[i]);
    }
    sampling->options.logit_bias = sampling->bias;
    sampling->options.n_logit_bias = n;
    return status;
}

/* ---- All ---- */

static const struct engine_string no_text = {"", 0};

static int read_texts(const struct arguments *a, struct sampling *sampling)
{
    struct engine_sampler_options *options = &sampling->options;
    bool none = a->dry_breakers.count == 1 && strcmp(a->dry_breakers.items[0], "none") == 0;
    int status = ENGINE_OK;
    if (!none) status = texts_read(&a->dry_breakers, "dry-sequence-breaker", &sampling->breakers);
    options->dry_breakers = none ? &no_text : sampling->breakers.items;
    options->n_dry_breakers = sampling->breakers.count;
    if (!status) status = texts_read(&a->ban, "ban", &sampling->ban);
    options->ban = sampling->ban.items;
    options->n_ban = sampling->ban.count;
    return status;
}

/* The library knows what is allowed. Tokens and texts need the model. */
static int check_sampling(const struct sampling *sampling)
{
    struct engine_sampler *sampler = NULL;
    struct engine_sampler_options options = sampling->options;
    options.n_logit_bias = options.n_ban = options.n_dry_breakers = 0;
    options.dry_breakers = &no_text;
    int status = engine_sampler_create(&options, 1, &sampler);
    engine_sampler_destroy(sampler);
    const char *message = engine_error_message();
    bool names = strncmp(message, "samplers:", 9) == 0; /* the library's field, the program's option */
    return status ? command_error(status, "%s%s", names ? "--" : "", message) : ENGINE_OK;
}

int sampling_read(const struct arguments *a, struct sampling *sampling)
{
    *sampling = (struct sampling){.options = {
                                      .struct_size = sizeof sampling->options,
                                      .penalty_last_n = a->penalty_last_n,
                                      .penalty_repeat = a->repeat_penalty,
                                      .penalty_frequency = a->frequency_penalty,
                                      .penalty_presence = a->presence_penalty,
                                      .top_k = a->top_k,
                                      .typical_p = a->typical_p,
                                      .top_p = a->top_p,
                                      .min_p = a->min_p,
                                      .temperature = a->temperature,
                                      .dynatemp_range = a->dynatemp_range,
                                      .dynatemp_exponent = a->dynatemp_exponent,
                                      .top_n_sigma = a->top_n_sigma,
                                      .xtc_probability = a->xtc_probability,
                                      .xtc_threshold = a->xtc_threshold,
                                      .mirostat = a->mirostat,
                                      .mirostat_tau = a->mirostat_tau,
                                      .mirostat_eta = a->mirostat_eta,
                                      .dry_multiplier = a->dry_multiplier,
                                      .dry_base = a->dry_base,
                                      .dry_allowed_length = a->dry_allowed_length,
                                      .dry_penalty_last_n = a->dry_penalty_last_n,
                                  }};
    if (a->n_beams > 1 && !a->temperature_given) sampling->options.temperature = 0;
    int status = read_names(a, sampling);
    if (!status) status = read_biases(a, sampling);
    if (!status) status = read_texts(a, sampling);
    sampling->typed = sampling->options;
    return status ? status : check_sampling(sampling);
}

/* ---- The model's recommendations ---- */

#define KEY(name) "general.sampling." name

/* Numbers that are not in the metadata, or of another kind, leave *number as it is. */
static void adopt_float(const struct engine_metadata *metadata, const char *key, bool given, float *number)
{
    double value;
    if (!given && metadata->get_float(metadata->context, key, &value) == ENGINE_OK) *number = (float)value;
}

/* `all`: what -1 stands for. */
static void adopt_count(const struct engine_metadata *metadata, const char *key, bool given, uint32_t all,
                        uint32_t *number)
{
    int64_t value;
    if (given || metadata->get_integer(metadata->context, key, &value) != ENGINE_OK) return;
    *number = value < 0 ? all : value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

static int adopt_names(const struct engine_metadata *metadata, const struct arguments *a,
                       struct sampling *sampling)
{
    struct engine_string names;
    if (a->samplers || a->sampler_seq ||
        metadata->get_string(metadata->context, KEY("sequence"), &names) != ENGINE_OK)
        return ENGINE_OK;
    if (names.length >= sizeof sampling->samplers)
        return command_error(ENGINE_ERROR_DATA, "the model's " KEY("sequence") " has %zu bytes",
                             names.length);
    memcpy(sampling->samplers, names.data, names.length);
    sampling->samplers[names.length] = '\0';
    sampling->options.samplers = sampling->samplers;
    return ENGINE_OK;
}

int sampling_adopt(const struct arguments *a, struct engine_model *model, struct sampling *sampling)
{
    const struct engine_metadata *metadata = engine_model_metadata(model);
    struct engine_sampler_options *options = &sampling->options;
    if (a->n_beams > 1) return ENGINE_OK;
    adopt_float(metadata, KEY("temp"), a->temperature_given, &options->temperature);
    adopt_count(metadata, KEY("top_k"), a->sampling_given.top_k, 0, &options->top_k);
    adopt_float(metadata, KEY("top_p"), a->sampling_given.top_p, &options->top_p);
    adopt_float(metadata, KEY("min_p"), a->sampling_given.min_p, &options->min_p);
    adopt_float(metadata, KEY("xtc_probability"), a->sampling_given.xtc_probability,
                &options->xtc_probability);
    adopt_float(metadata, KEY("xtc_threshold"), a->sampling_given.xtc_threshold, &options->xtc_threshold);
    adopt_count(metadata, KEY("penalty_last_n"), a->sampling_given.penalty_last_n, MAX_LAST,
                &options->penalty_last_n);
    adopt_float(metadata, KEY("penalty_repeat"), a->sampling_given.repeat_penalty, &options->penalty_repeat);
    adopt_count(metadata, KEY("mirostat"), a->sampling_given.mirostat, 0, &options->mirostat);
    adopt_float(metadata, KEY("mirostat_tau"), a->sampling_given.mirostat_tau, &options->mirostat_tau);
    adopt_float(metadata, KEY("mirostat_eta"), a->sampling_given.mirostat_eta, &options->mirostat_eta);
    int status = adopt_names(metadata, a, sampling);
    if (!status) status = check_sampling(sampling);
    if (!status) return ENGINE_OK;
    char reason[256];
    snprintf(reason, sizeof reason, "%s", engine_error_message());
    return command_error(ENGINE_ERROR_DATA, "the model recommends settings that are not possible: %s",
                         reason);
}

int sampling_check_tokens(const struct sampling *sampling, uint32_t n_tokens)
{
    for (size_t i = 0; i < sampling->options.n_logit_bias; i++) {
        int32_t token = sampling->bias[i].token;
        if ((uint32_t)token >= n_tokens)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "--logit-bias, --ban-token: there is no token %" PRIi32
                                 "; the model has 0 to %" PRIu32,
                                 token, n_tokens - 1);
    }
    return ENGINE_OK;
}

void sampling_free(struct sampling *sampling)
{
    free(sampling->bias);
    texts_free(&sampling->breakers);
    texts_free(&sampling->ban);
}

struct engine_sampler_options sampling_options(const struct sampling *sampling, uint64_t seed)
{
    struct engine_sampler_options options = sampling->options;
    options.seed = seed;
    return options;
}

/* ---- What results depend on ---- */

struct hasher {
    void (*add)(void *user, const void *bytes, size_t size);
    void *user;
};

static void hash_number(const struct hasher *hasher, const char *name, double number, double usual)
{
    char text[64];
    if (number == usual) return;
    hasher->add(hasher->user, text, (size_t)snprintf(text, sizeof text, "|%s=%.9g", name, number));
}

static void hash_texts(const struct hasher *hasher, const char *name, const struct engine_string *texts,
                       size_t n)
{
    for (size_t i = 0; i < n; i++) {
        hash_number(hasher, name, (double)texts[i].length, -1);
        hasher->add(hasher->user, texts[i].data, texts[i].length);
    }
}

void sampling_hash(const struct sampling *sampling, void (*add)(void *user, const void *bytes, size_t size),
                   void *user)
{
    const struct engine_sampler_options *o = &sampling->options;
    const struct hasher hasher = {add, user};
    if (o->samplers) add(user, o->samplers, strlen(o->samplers));
    hash_number(&hasher, "dynatemp_range", (double)o->dynatemp_range, 0);
    hash_number(&hasher, "dynatemp_exponent", (double)o->dynatemp_exponent, 1);
    hash_number(&hasher, "top_n_sigma", (double)o->top_n_sigma, -1);
    hash_number(&hasher, "xtc_probability", (double)o->xtc_probability, 0);
    hash_number(&hasher, "xtc_threshold", (double)o->xtc_threshold, (double)0.1f);
    hash_number(&hasher, "mirostat", o->mirostat, 0);
    hash_number(&hasher, "mirostat_tau", (double)o->mirostat_tau, 5);
    hash_number(&hasher, "mirostat_eta", (double)o->mirostat_eta, (double)0.1f);
    hash_number(&hasher, "dry_multiplier", (double)o->dry_multiplier, 0);
    hash_number(&hasher, "dry_base", (double)o->dry_base, 1.75);
    hash_number(&hasher, "dry_allowed_length", o->dry_allowed_length, 2);
    hash_number(&hasher, "dry_penalty_last_n", o->dry_penalty_last_n, 64);
    for (size_t i = 0; i < o->n_logit_bias; i++) {
        hash_number(&hasher, "token", o->logit_bias[i].token, -1);
        hash_number(&hasher, "bias", (double)o->logit_bias[i].bias, 0);
    }
    if (o->dry_breakers == &no_text) hash_number(&hasher, "dry_breakers", 0, 1);
    hash_texts(&hasher, "dry_breaker", o->dry_breakers, o->n_dry_breakers);
    hash_texts(&hasher, "ban", o->ban, o->n_ban);
}

/* ---- Beam search ---- */

#define BLOCK ((uint64_t)32) /* positions that the cache gives at once (docs/beams.md) */

uint32_t early_stopping_of(const char *word)
{
    if (strcmp(word, "true") == 0) return ENGINE_EARLY_STOPPING_TRUE;
    return strcmp(word, "never") == 0 ? ENGINE_EARLY_STOPPING_NEVER : ENGINE_EARLY_STOPPING_FALSE;
}

static int refuse_with_beams(const char *option)
{
    return command_error(ENGINE_ERROR_ARGUMENT, "--beams and %s cannot be combined", option);
}

/* What draws tokens, or depends on a text that is not there yet. The queue refuses it too, but not as a
 * mistake of the command line. */
static int check_beam_sampling(const struct sampling *sampling)
{
    const struct engine_sampler_options *o = &sampling->options;
    bool repeats = o->penalty_repeat != 0 && o->penalty_repeat != 1;
    bool penalties = repeats || o->penalty_frequency != 0 || o->penalty_presence != 0;
    if (o->mirostat > 0) return refuse_with_beams("Mirostat");
    if (o->dynatemp_range > 0) return refuse_with_beams("a temperature above 0");
    if (penalties && o->penalty_last_n > 0) return refuse_with_beams("penalties");
    if (o->dry_multiplier > 0 && o->dry_penalty_last_n > 0) return refuse_with_beams("DRY");
    if (o->xtc_probability > 0) return refuse_with_beams("XTC");
    if (o->n_ban > 0) return refuse_with_beams("banned texts");
    return ENGINE_OK;
}

int beam_options_read(const struct arguments *a, const struct sampling *sampling,
                      struct beam_options *options)
{
    *options = (struct beam_options){.n_beams = a->n_beams, .length_penalty = a->length_penalty};
    if (a->early_stopping) options->early_stopping = early_stopping_of(a->early_stopping);
    if (!wants_beams(a) && (a->length_penalty_given || a->early_stopping))
        return command_error(ENGINE_ERROR_ARGUMENT, "%s goes with --beams N, of 2 or more",
                             a->early_stopping ? "--early-stopping" : "--length-penalty");
    if (!wants_beams(a)) return ENGINE_OK;
    if (a->temperature_given && a->temperature > 0) return refuse_with_beams("a temperature above 0");
    if (a->stop.count > 0) return refuse_with_beams("--stop");
    if (a->n_logprobs > 0) return refuse_with_beams("--logprobs");
    if (a->prompt_cache_all) return refuse_with_beams("--prompt-cache-all");
    return check_beam_sampling(sampling);
}

uint32_t beams_cache_size(const struct arguments *a, uint32_t n_context, uint32_t limit)
{
    uint64_t context = ((uint64_t)n_context + BLOCK - 1) / BLOCK * BLOCK;
    /* up to where the prompt's last block ends, and in one of its own */
    uint64_t each = limit + 2 * BLOCK < context ? limit + 2 * BLOCK : context;
    uint64_t positions = context + (a->n_beams - 1) * each;
    return positions < UINT32_MAX ? (uint32_t)positions : UINT32_MAX;
}

/* ---- Grammars ---- */

int constraint_read(const struct arguments *a, struct constraint *constraint)
{
    const struct {
        const char *option, *text, *file;
        enum engine_grammar_kind kind;
    } options[] = {
        {"--grammar", a->grammar, NULL, ENGINE_GRAMMAR_GBNF},
        {"--grammar-file", NULL, a->grammar_file, ENGINE_GRAMMAR_GBNF},
        {"--json-schema", a->json_schema, NULL, ENGINE_GRAMMAR_JSON_SCHEMA},
        {"--json-schema-file", NULL, a->json_schema_file, ENGINE_GRAMMAR_JSON_SCHEMA},
        {"--json-object", a->json_object ? "" : NULL, NULL, ENGINE_GRAMMAR_JSON_OBJECT},
    };
    int status = ENGINE_OK;
    *constraint = (struct constraint){0};
    for (size_t i = 0; i < sizeof options / sizeof *options && !status; i++) {
        if (!options[i].text && !options[i].file) continue;
        if (constraint->option)
            return command_error(ENGINE_ERROR_ARGUMENT, "%s and %s: a text can have one of them",
                                 constraint->option, options[i].option);
        constraint->option = options[i].option;
        constraint->kind = options[i].kind;
        constraint->is_typed = options[i].text != NULL;
        if (options[i].file) {
            status = read_text_file(options[i].file, &constraint->text, &constraint->size);
        } else {
            constraint->text = strdup(options[i].text);
            constraint->size = strlen(options[i].text);
            if (!constraint->text) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (grammar)");
        }
    }
    return status;
}

void constraint_free(struct constraint *constraint)
{
    free(constraint->text);
    *constraint = (struct constraint){0};
}

int constraint_open(struct engine_model *model, const struct constraint *constraint,
                    struct engine_grammar **grammar)
{
    *grammar = NULL;
    if (!constraint->kind) return ENGINE_OK;
    int status = engine_grammar_create(model, constraint->kind, constraint->text, constraint->size, grammar);
    if (!constraint->is_typed || (status != ENGINE_ERROR_DATA && status != ENGINE_ERROR_ARGUMENT))
        return status;
    return command_error(ENGINE_ERROR_ARGUMENT, "%s", engine_error_message());
}
