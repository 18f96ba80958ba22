/* demo-questions.c: see demo-questions.h. */
#include "demo-questions.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void die(const char *what, const char *why)
{
    fprintf(stderr, "%s: %s\n", what, why);
    exit(1);
}

static void check(int status, const char *what)
{
    if (status != ENGINE_OK) die(what, engine_error_message());
}

static void *allocated(void *memory)
{
    if (!memory) die("demo-questions", "out of memory");
    return memory;
}

/* ---- Questions ----------------------------------------------------------------------------------------- */

static char *read_whole(const char *path)
{
    FILE *file = fopen(path, "r");
    if (!file) die(path, "can't be read");
    char *text = NULL, block[4096];
    size_t size = 0, got;
    while ((got = fread(block, 1, sizeof block, file)) > 0) {
        text = allocated(realloc(text, size + got + 1));
        memcpy(text + size, block, got);
        size += got;
    }
    fclose(file);
    if (!text) die(path, "is empty");
    text[size] = '\0';
    return text;
}

/* "\n" as two characters becomes a newline, in place. */
static void unescape(char *text)
{
    char *to = text;
    for (const char *from = text; *from; from++) {
        bool newline = from[0] == '\\' && from[1] == 'n';
        *to++ = newline ? '\n' : *from;
        from += newline;
    }
    *to = '\0';
}

void demo_questions_read(const char *path, struct demo_questions *questions)
{
    char *save = NULL;
    *questions = (struct demo_questions){.text = read_whole(path)};
    for (char *line = strtok_r(questions->text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        char *prompt = strchr(line, '\t'), *answer = prompt ? strchr(prompt + 1, '\t') : NULL;
        if (!answer) die(path, line);
        *prompt++ = *answer++ = '\0';
        unescape(prompt);
        questions->items =
            allocated(realloc(questions->items, (questions->count + 1) * sizeof *questions->items));
        questions->items[questions->count++] =
            (struct demo_question){.skill = line, .prompt = prompt, .answer = answer};
    }
}

void demo_questions_free(struct demo_questions *questions)
{
    free(questions->items);
    free(questions->text);
}

/* ---- The model ----------------------------------------------------------------------------------------- */

static bool has_device(struct engine *engine, const char *backend)
{
    size_t count;
    check(engine_device_count(engine, &count), "devices");
    for (size_t i = 0; i < count; i++) {
        struct engine_device_entry entry;
        check(engine_device_at(engine, i, &entry), "devices");
        if (strcmp(entry.plugin, backend) == 0) return true;
    }
    return false;
}

static int32_t half_of_layers(const struct engine_model *model)
{
    const struct engine_metadata *metadata = engine_model_metadata(model);
    int64_t layers;
    check(metadata->get_integer(metadata->context, "llama.block_count", &layers), "llama.block_count");
    return (int32_t)(layers / 2);
}

bool demo_model_open(struct demo_model *demo, const char *path, const char *plugin_dir, const char *backend)
{
    *demo = (struct demo_model){0};
    const struct engine_options options = {
        .struct_size = sizeof options,
        .plugin_dirs = (const char *const[]){plugin_dir, NULL},
        .config_file = "/dev/null",
    };
    check(engine_open(&options, &demo->engine), "engine_open");
    if (!has_device(demo->engine, backend)) {
        demo_model_close(demo);
        return false;
    }
    check(
        engine_model_open(demo->engine, path ? path : engine_default_model(demo->engine), NULL, &demo->model),
        "the model");
    check(engine_model_tokenizer(demo->model, &demo->api, &demo->tokenizer), "the tokenizer");
    int32_t offload = strcmp(backend, "cpu") == 0 ? 0 : half_of_layers(demo->model);
    const struct engine_context_options context = {
        .struct_size = sizeof context, .backends = backend, .offload = &offload};
    check(engine_context_create(demo->model, &context, &demo->context), backend);
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(demo->context, &info);
    demo->n_vocab = info.n_vocab;
    demo->logits = allocated(malloc(info.n_vocab * sizeof *demo->logits));
    return true;
}

void demo_model_close(struct demo_model *demo)
{
    engine_context_destroy(demo->context);
    engine_model_close(demo->model);
    engine_close(demo->engine);
    free(demo->logits);
    *demo = (struct demo_model){0};
}

/* ---- Writing ------------------------------------------------------------------------------------------- */

static int run_tokens(void *user, const int32_t *ids, size_t count)
{
    struct demo_model *demo = user;
    const struct engine_batch batch = {.struct_size = sizeof batch, .n_tokens = count, .tokens = ids};
    return engine_decode(demo->context, &batch, demo->logits);
}

/* Appends the token's text to *text, [*size] and a NUL. */
static void append(struct demo_model *demo, struct engine_decoder *decoder, int32_t token, char **text,
                   size_t *size)
{
    struct engine_string piece;
    check(demo->api->decode(decoder, token, &piece), "decoding");
    *text = allocated(realloc(*text, *size + piece.length + 1));
    memcpy(*text + *size, piece.data, piece.length);
    *size += piece.length;
    (*text)[*size] = '\0';
}

char *demo_model_write(struct demo_model *demo, const char *prompt, size_t limit,
                       const struct engine_sampler_options *sampling, bool *ended)
{
    struct engine_sampler *sampler;
    struct engine_decoder *decoder;
    char *text = allocated(calloc(1, 1));
    size_t size = 0;
    bool end = false;
    check(engine_sampler_create(sampling, demo->n_vocab, &sampler), "the sampler");
    check(demo->api->decoder_create(demo->tokenizer, 0, &decoder), "the decoder");
    check(engine_sequence_truncate(demo->context, 0, 0), "truncating");
    check(demo->api->encode(demo->tokenizer, prompt, strlen(prompt),
                            ENGINE_ENCODE_BOS_EOS | ENGINE_ENCODE_SPECIAL, run_tokens, demo),
          prompt);
    for (size_t n = 0; n < limit && !end; n++) {
        int32_t token;
        check(engine_sample(sampler, demo->logits, &token), "sampling");
        end = demo->api->attributes(demo->tokenizer, token) & ENGINE_TOKEN_END;
        if (end) break;
        append(demo, decoder, token, &text, &size);
        end = prompt[0] && strchr(text, '\n');
        if (!end) check(run_tokens(demo, &token, 1), "decoding");
    }
    text[strcspn(text, prompt[0] ? "\n" : "")] = '\0';
    demo->api->decoder_destroy(decoder);
    engine_sampler_destroy(sampler);
    if (ended) *ended = end;
    return text;
}

bool demo_model_answers(struct demo_model *demo, const struct demo_question *question, char **said)
{
    const struct engine_sampler_options greedy = {.struct_size = sizeof greedy};
    bool ended;
    char *text = demo_model_write(demo, question->prompt, 64, &greedy, &ended);
    bool right = ended && strcmp(text + strspn(text, " "), question->answer) == 0;
    if (said) *said = right ? NULL : text;
    if (!said || right) free(text);
    return right;
}
