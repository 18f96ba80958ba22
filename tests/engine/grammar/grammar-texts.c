/* grammar-texts.c: writes random texts under grammars: `grammar-texts VOCABULARY.gguf PLUGINS COUNT LIMIT
 * <LINES`. Each line of the input is a JSON object with "grammar" or "schema"; each line of the output has
 * that, a text of at most LIMIT tokens in "text" (or the bytes in "bytes", if they aren't UTF-8), and whether
 * it is "complete". Tokens are drawn at temperature 1.5 from random logits. For tests/tools/grammar-texts. */
#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine.h"

struct writer {
    struct engine_model *model;
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    uint32_t n_vocab;
    float *logits; /* [n_vocab] */
    uint64_t random;
    uint32_t limit;
};

static int fail(const char *what)
{
    fprintf(stderr, "grammar-texts: %s: %s\n", what, engine_error_message());
    return 1;
}

/* About normal, with a deviation of 3. */
static float next_logit(struct writer *writer)
{
    float sum = 0;
    for (int i = 0; i < 4; i++) {
        writer->random = writer->random * 6364136223846793005u + 1442695040888963407u;
        sum += (float)(writer->random >> 40) / (float)(1 << 24) - 0.5f;
    }
    return sum * 5.2f;
}

static int open_vocabulary(struct writer *writer, const char *path, const char *plugins,
                           struct engine **engine)
{
    const char *dirs[] = {plugins, NULL};
    struct engine_options options = {
        .struct_size = sizeof options, .plugin_dirs = dirs, .config_file = "/dev/null"};
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    if (engine_open(&options, engine) || engine_model_open(*engine, path, NULL, &writer->model) ||
        engine_model_tokenizer(writer->model, &writer->api, &writer->tokenizer) ||
        writer->api->info(writer->tokenizer, &info))
        return fail(path);
    writer->n_vocab = info.n_tokens;
    writer->logits = calloc(info.n_tokens, sizeof *writer->logits);
    return writer->logits ? 0 : fail("memory");
}

/* Draws one text into `text`, which has room for it; *complete: it has ended. */
static int write_text(struct writer *writer, struct engine_grammar *grammar, char *text, size_t *length,
                      bool *complete)
{
    struct engine_sampler_options options = {
        .struct_size = sizeof options, .temperature = 1.5f, .seed = writer->random};
    struct engine_sampler *sampler = NULL;
    struct engine_match *match = NULL;
    struct engine_string added;
    int32_t token;
    int status = engine_sampler_create(&options, writer->n_vocab, &sampler);
    if (!status) status = engine_match_create(grammar, 0, &match);
    *length = 0;
    *complete = false;
    for (uint32_t n = 0; n < writer->limit && !status; n++) {
        *complete = engine_match_get_state(match) == ENGINE_MATCH_FINAL;
        if (*complete) break;
        for (uint32_t i = 0; i < writer->n_vocab; i++) writer->logits[i] = next_logit(writer);
        status = engine_match_apply(match, writer->logits, writer->n_vocab);
        if (!status) status = engine_sample(sampler, writer->logits, &token);
        if (!status) *complete = writer->api->attributes(writer->tokenizer, token) & ENGINE_TOKEN_END;
        if (status || *complete) break;
        status = engine_match_accept(match, token);
        if (!status) status = engine_model_token_text(writer->model, token, &added);
        if (!status) memcpy(text + *length, added.data, added.length);
        if (!status) *length += added.length;
    }
    if (!status) *complete = *complete || engine_match_get_state(match) == ENGINE_MATCH_FINAL;
    engine_match_destroy(match);
    engine_sampler_destroy(sampler);
    return status;
}

static int write_texts(struct writer *writer, json_t *line, int count)
{
    static char text[1 << 20];
    const json_t *schema = json_object_get(line, "schema");
    char *source = schema ? json_dumps(schema, JSON_ENCODE_ANY | JSON_REAL_PRECISION(17))
                          : strdup(json_string_value(json_object_get(line, "grammar")));
    struct engine_grammar *grammar;
    if (engine_grammar_create(writer->model, schema ? ENGINE_GRAMMAR_JSON_SCHEMA : ENGINE_GRAMMAR_GBNF,
                              source, strlen(source), &grammar))
        return fail(source);
    for (int i = 0; i < count; i++) {
        size_t length;
        bool complete;
        if (write_text(writer, grammar, text, &length, &complete)) return fail(source);
        json_t *result = json_copy(line), *string = json_stringn(text, length);
        if (string) json_object_set_new(result, "text", string);
        json_object_set_new(result, "complete", json_boolean(complete));
        json_dumpf(result, stdout, 0);
        putchar('\n');
        json_decref(result);
    }
    engine_grammar_destroy(grammar);
    free(source);
    return 0;
}

int main(int argc, char **argv)
{
    struct writer writer = {.random = 1};
    struct engine *engine = NULL;
    static char line[1 << 20];
    int status = argc == 5 ? open_vocabulary(&writer, argv[1], argv[2], &engine) : 2;
    if (status == 0) writer.limit = (uint32_t)strtoul(argv[4], NULL, 10);
    while (status == 0 && fgets(line, sizeof line, stdin)) {
        json_t *json = json_loads(line, 0, NULL);
        status = json ? write_texts(&writer, json, atoi(argv[3])) : 2;
        json_decref(json);
    }
    free(writer.logits);
    engine_model_close(writer.model);
    engine_close(engine);
    return status;
}
