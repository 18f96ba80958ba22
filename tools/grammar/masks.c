/* masks.c: what masks cost: `grammar-masks PLUGINS TOKENS VOCABULARY.gguf… <LINES`. The tokens of the
 * vocabularies, each once, are one vocabulary of at most TOKENS. Each line of the input is a JSON object with
 * "name" and "schema" or "grammar"; each line of the output has the milliseconds to read it, and in the
 * median and at the worst to make a mask, over texts of random tokens. For tools/grammar/masks. */
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "engine.h"
#include "grammar/grammar.h"

enum { TEXTS = 10, STEPS = 60 };

struct vocabulary {
    struct engine_string *texts; /* [count] */
    uint32_t count, most;
    json_t *seen;
};

static double milliseconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec * 1e3 + (double)now.tv_nsec * 1e-6;
}

static int by_size(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static void add_token(struct vocabulary *vocabulary, struct engine_string text)
{
    char key[512];
    if (vocabulary->count == vocabulary->most || text.length == 0 || text.length > 200) return;
    for (size_t i = 0; i < text.length; i++) snprintf(key + 2 * i, 3, "%02x", (unsigned char)text.data[i]);
    if (json_object_get(vocabulary->seen, key)) return;
    json_object_set_new(vocabulary->seen, key, json_true());
    char *copy = malloc(text.length);
    if (!copy) return;
    memcpy(copy, text.data, text.length);
    vocabulary->texts[vocabulary->count++] = (struct engine_string){copy, text.length};
}

static int add_tokens(struct vocabulary *vocabulary, struct engine *engine, const char *path)
{
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    struct engine_model *model;
    struct engine_string text;
    int status = engine_model_open(engine, path, NULL, &model);
    if (status) return status;
    status = engine_model_tokenizer(model, &api, &tokenizer);
    if (!status) status = api->info(tokenizer, &info);
    for (uint32_t i = 0; i < info.n_tokens && !status; i++)
        if (engine_model_token_text(model, (int32_t)i, &text) == ENGINE_OK) add_token(vocabulary, text);
    engine_model_close(model);
    return status;
}

/* One text of random tokens; appends the times of its masks. */
static int follow(const struct grammar_vocab *vocab, struct grammar *grammar, uint64_t *random, double *times,
                  size_t *n_times)
{
    uint32_t n_tokens = grammar_vocab_size(vocab);
    uint64_t *mask = calloc(n_tokens / 64 + 1, sizeof *mask);
    struct grammar_match *match;
    int status = mask ? grammar_match_create(grammar, false, &match) : ENGINE_ERROR_MEMORY;
    for (int step = 0; step < STEPS && !status && !grammar_match_final(match); step++) {
        double start = milliseconds();
        status = grammar_match_mask(match, mask);
        times[(*n_times)++] = milliseconds() - start;
        uint32_t n_allowed = 0, token = 0;
        for (uint32_t i = 0; i < n_tokens; i++) n_allowed += (uint32_t)(mask[i / 64] >> (i % 64) & 1);
        if (status || n_allowed == 0) break;
        *random = *random * 6364136223846793005u + 1442695040888963407u;
        for (uint32_t left = (uint32_t)(*random >> 33) % n_allowed + 1; left > 0; token++)
            left -= (uint32_t)(mask[token / 64] >> (token % 64) & 1);
        if (token == n_tokens) break; /* the last one ends the text */
        status = grammar_match_accept(match, token - 1);
    }
    if (mask && status != ENGINE_ERROR_MEMORY) grammar_match_destroy(match);
    free(mask);
    return status;
}

static void measure(const struct grammar_vocab *vocab, const json_t *line)
{
    static double times[TEXTS * STEPS];
    const json_t *schema = json_object_get(line, "schema");
    char *source = schema ? json_dumps(schema, JSON_ENCODE_ANY)
                          : strdup(json_string_value(json_object_get(line, "grammar")));
    struct grammar *grammar;
    uint64_t random = 1;
    size_t n_times = 0;
    double start = milliseconds();
    int status =
        grammar_create(vocab, schema ? GRAMMAR_SCHEMA : GRAMMAR_GBNF, source, strlen(source), &grammar);
    double create = milliseconds() - start;
    for (int i = 0; i < TEXTS && !status; i++) {
        status = follow(vocab, grammar, &random, times, &n_times);
        if (status) break;
    }
    if (n_times > 0) qsort(times, n_times, sizeof *times, by_size);
    printf("%-28s %9zu bytes, read in %7.1f ms, %4zu masks: median %6.3f ms, worst %7.3f ms%s%s\n",
           json_string_value(json_object_get(line, "name")), strlen(source), create, n_times,
           n_times > 0 ? times[n_times / 2] : 0.0, n_times > 0 ? times[n_times - 1] : 0.0, status ? "; " : "",
           status ? engine_error_message() : "");
    if (n_times > 0 || !status) grammar_destroy(grammar);
    free(source);
}

int main(int argc, char **argv)
{
    static char line[1 << 24];
    const char *dirs[] = {argc > 1 ? argv[1] : "", NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = "/dev/null"};
    struct vocabulary vocabulary = {.seen = json_object(), .most = argc > 2 ? (uint32_t)atoi(argv[2]) : 0};
    struct grammar_vocab *vocab = NULL;
    struct engine *engine = NULL;
    int status = argc > 3 ? engine_open(&options, &engine) : ENGINE_ERROR_ARGUMENT;
    vocabulary.texts = calloc(vocabulary.most + 1, sizeof *vocabulary.texts);
    uint8_t *kinds = calloc(vocabulary.most + 1, 1);
    for (int i = 3; i < argc && !status; i++) status = add_tokens(&vocabulary, engine, argv[i]);
    if (!status && kinds && vocabulary.texts) {
        kinds[vocabulary.count] = GRAMMAR_TOKEN_END;
        vocabulary.texts[vocabulary.count] = (struct engine_string){"</s>", 4};
        status = grammar_vocab_create(vocabulary.texts, kinds, vocabulary.count + 1, &vocab);
    }
    if (status) fprintf(stderr, "grammar-masks: %s\n", engine_error_message());
    while (!status && fgets(line, sizeof line, stdin)) {
        json_t *json = json_loads(line, 0, NULL);
        if (json) measure(vocab, json);
        json_decref(json);
    }
    if (!status) printf("%u tokens\n", grammar_vocab_size(vocab));
    grammar_vocab_destroy(vocab);
    for (uint32_t i = 0; i < vocabulary.count; i++) free((void *)(uintptr_t)vocabulary.texts[i].data);
    free(vocabulary.texts);
    free(kinds);
    json_decref(vocabulary.seen);
    engine_close(engine);
    return status ? 1 : 0;
}
