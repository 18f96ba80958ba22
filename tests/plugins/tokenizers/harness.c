/* harness.c: see harness.h. */
#include "harness.h"

#include <criterion/criterion.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "gguf-writer.h"
#include "model/model.h"
#include "vocabulary/token-texts.h"

static const struct engine_host services = {
    .struct_size = sizeof services,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .fail = error_raise,
    .log = log_line,
};

const struct engine_tokenizer_api *load_tokenizers(const char *plugin)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s.so", TEST_PLUGIN_DIR, plugin);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    cr_assert(library, "%s", dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    cr_assert(entry, "%s", dlerror());
    const struct engine_plugin *info = entry(&services);
    cr_assert(info && info->kind == ENGINE_PLUGIN_TOKENIZER && info->tokenizers);
    cr_assert_str_eq(info->name, plugin);
    return info->tokenizers;
}

/* ---- Vocabularies ---- */

static void *resized(void *old, size_t count, size_t size)
{
    void *memory = reallocarray(old, count ? count : 1, size);
    cr_assert(memory);
    return memory;
}

int32_t fake_add(struct fake_vocab *vocab, const char *piece, size_t length, float score,
                 enum token_type type)
{
    if (vocab->n_tokens == vocab->capacity) {
        vocab->capacity = vocab->capacity ? vocab->capacity * 2 : 512;
        vocab->pieces = resized(vocab->pieces, vocab->capacity, sizeof *vocab->pieces);
        vocab->scores = resized(vocab->scores, vocab->capacity, sizeof *vocab->scores);
        vocab->types = resized(vocab->types, vocab->capacity, sizeof *vocab->types);
    }
    char *copy = resized(NULL, length, 1);
    memcpy(copy, piece, length);
    size_t id = vocab->n_tokens++;
    vocab->pieces[id] = (struct engine_string){copy, length};
    vocab->scores[id] = score;
    vocab->types[id] = type;
    vocab->n_scores = vocab->n_types = vocab->n_tokens;
    return (int32_t)id;
}

int32_t fake_piece(struct fake_vocab *vocab, const char *piece, float score, enum token_type type)
{
    return fake_add(vocab, piece, strlen(piece), score, type);
}

void fake_add_basics(struct fake_vocab *vocab)
{
    fake_piece(vocab, "<unk>", 0, UNKNOWN);
    fake_piece(vocab, "<s>", 0, CONTROL);
    fake_piece(vocab, "</s>", 0, CONTROL);
    for (unsigned byte = 0; byte < 256; byte++) {
        char piece[8];
        snprintf(piece, sizeof piece, "<0x%02X>", byte);
        fake_piece(vocab, piece, 0, BYTE);
    }
}

void fake_string(struct fake_vocab *vocab, const char *key, const char *value)
{
    size_t i = vocab->n_values++;
    vocab->values[i].key = key;
    vocab->values[i].kind = FAKE_STRING;
    vocab->values[i].string = value;
}

void fake_integer(struct fake_vocab *vocab, const char *key, int64_t value)
{
    size_t i = vocab->n_values++;
    vocab->values[i].key = key;
    vocab->values[i].kind = FAKE_INTEGER;
    vocab->values[i].number = value;
}

void fake_boolean(struct fake_vocab *vocab, const char *key, bool value)
{
    fake_integer(vocab, key, value);
    vocab->values[vocab->n_values - 1].kind = FAKE_BOOLEAN;
}

void fake_free(struct fake_vocab *vocab)
{
    for (size_t i = 0; i < vocab->n_tokens; i++) free((void *)(uintptr_t)vocab->pieces[i].data);
    free(vocab->pieces);
    free(vocab->scores);
    free(vocab->types);
    memset(vocab, 0, sizeof *vocab);
}

/* The value of a key and kind; SIZE_MAX if there is none. */
static size_t find_value(const struct fake_vocab *vocab, const char *key, int kind)
{
    for (size_t i = 0; i < vocab->n_values; i++)
        if ((int)vocab->values[i].kind == kind && strcmp(vocab->values[i].key, key) == 0) return i;
    return SIZE_MAX;
}

static int get_string(void *context, const char *key, struct engine_string *value)
{
    const struct fake_vocab *vocab = context;
    size_t i = find_value(vocab, key, FAKE_STRING);
    if (i == SIZE_MAX) return ENGINE_ERROR_NOT_FOUND;
    *value = (struct engine_string){vocab->values[i].string, strlen(vocab->values[i].string)};
    return ENGINE_OK;
}

static int get_integer(void *context, const char *key, int64_t *value)
{
    const struct fake_vocab *vocab = context;
    size_t i = find_value(vocab, key, FAKE_INTEGER);
    if (i == SIZE_MAX) return ENGINE_ERROR_NOT_FOUND;
    *value = vocab->values[i].number;
    return ENGINE_OK;
}

static int get_float(void *context, const char *key, double *value)
{
    (void)context, (void)key, (void)value;
    return ENGINE_ERROR_NOT_FOUND;
}

static int get_boolean(void *context, const char *key, int *value)
{
    const struct fake_vocab *vocab = context;
    size_t i = find_value(vocab, key, FAKE_BOOLEAN);
    if (i == SIZE_MAX) return ENGINE_ERROR_NOT_FOUND;
    *value = vocab->values[i].number != 0;
    return ENGINE_OK;
}

static int get_count(void *context, const char *key, size_t *count)
{
    const struct fake_vocab *vocab = context;
    if (strcmp(key, "tokenizer.ggml.tokens") == 0 && vocab->pieces)
        *count = vocab->n_tokens;
    else if (strcmp(key, "tokenizer.ggml.scores") == 0 && !vocab->no_scores)
        *count = vocab->n_scores;
    else if (strcmp(key, "tokenizer.ggml.token_type") == 0 && !vocab->no_types)
        *count = vocab->n_types;
    else if (strcmp(key, "tokenizer.ggml.merges") == 0 && vocab->merges)
        *count = vocab->n_merges;
    else if (strcmp(key, "tokenizer.ggml.precompiled_charsmap") == 0 && vocab->charsmap.data)
        *count = vocab->charsmap.length;
    else
        return ENGINE_ERROR_NOT_FOUND;
    return ENGINE_OK;
}

static int get_strings(void *context, const char *key, size_t first, size_t count,
                       struct engine_string *values)
{
    const struct fake_vocab *vocab = context;
    bool merges = strcmp(key, "tokenizer.ggml.merges") == 0 && vocab->merges;
    if (!merges && strcmp(key, "tokenizer.ggml.tokens") != 0) return ENGINE_ERROR_NOT_FOUND;
    size_t size = merges ? vocab->n_merges : vocab->n_tokens;
    if (first > size || count > size - first) return ENGINE_ERROR_ARGUMENT;
    memcpy(values, (merges ? vocab->merges : vocab->pieces) + first, count * sizeof *values);
    return ENGINE_OK;
}

static int get_integers(void *context, const char *key, size_t first, size_t count, int64_t *values)
{
    const struct fake_vocab *vocab = context;
    if (strcmp(key, "tokenizer.ggml.token_type") != 0 || vocab->no_types) return ENGINE_ERROR_NOT_FOUND;
    if (first > vocab->n_types || count > vocab->n_types - first) return ENGINE_ERROR_ARGUMENT;
    memcpy(values, vocab->types + first, count * sizeof *values);
    return ENGINE_OK;
}

static int get_floats(void *context, const char *key, size_t first, size_t count, float *values)
{
    const struct fake_vocab *vocab = context;
    if (strcmp(key, "tokenizer.ggml.scores") != 0 || vocab->no_scores) return ENGINE_ERROR_NOT_FOUND;
    if (first > vocab->n_scores || count > vocab->n_scores - first) return ENGINE_ERROR_ARGUMENT;
    memcpy(values, vocab->scores + first, count * sizeof *values);
    return ENGINE_OK;
}

static int get_bytes(void *context, const char *key, struct engine_string *value)
{
    const struct fake_vocab *vocab = context;
    if (strcmp(key, "tokenizer.ggml.precompiled_charsmap") != 0 || !vocab->charsmap.data)
        return ENGINE_ERROR_NOT_FOUND;
    *value = vocab->charsmap;
    return ENGINE_OK;
}

struct engine_metadata fake_metadata(struct fake_vocab *vocab)
{
    return (struct engine_metadata){sizeof(struct engine_metadata),
                                    vocab,
                                    get_string,
                                    get_integer,
                                    get_float,
                                    get_boolean,
                                    get_count,
                                    get_strings,
                                    get_integers,
                                    get_floats,
                                    get_bytes};
}

struct engine_tokenizer *fake_open(const struct engine_tokenizer_api *api, struct fake_vocab *vocab)
{
    struct engine_metadata metadata = fake_metadata(vocab);
    struct engine_tokenizer *tokenizer = NULL;
    cr_assert(api->create(&metadata, &tokenizer) == ENGINE_OK, "%s", error_message());
    return tokenizer;
}

void fake_refused(const struct engine_tokenizer_api *api, struct fake_vocab *vocab, int status,
                  const char *words)
{
    struct engine_metadata metadata = fake_metadata(vocab);
    struct engine_tokenizer *tokenizer = NULL;
    int got = api->create(&metadata, &tokenizer);
    cr_expect(got == status, "status %d instead of %d (%s)", got, status, words);
    cr_expect(tokenizer == NULL);
    cr_expect(strstr(error_message(), words), "\"%s\" says nothing of \"%s\"", error_message(), words);
    api->destroy(tokenizer);
}

struct engine_tokenizer *open_shared(const struct engine_tokenizer_api *api, const char *name,
                                     struct model **model)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tokenizers/%s.gguf", TEST_SHARED_DIR, name);
    if (access(path, R_OK) != 0) cr_skip_test("%s is not here", path);
    *model = NULL;
    cr_assert(model_open(path, NULL, model) == ENGINE_OK, "%s", error_message());
    struct engine_metadata metadata = {0};
    tokenizer_metadata(model_metadata(*model), &metadata);
    struct engine_tokenizer *tokenizer = NULL;
    cr_assert(api->create(&metadata, &tokenizer) == ENGINE_OK, "%s", error_message());
    return tokenizer;
}

/* ---- Ids and texts ---- */

static int append(void *user, const int32_t *ids, size_t count)
{
    struct id_list *list = user;
    if (list->count + count > list->capacity) {
        list->capacity = 2 * (list->count + count);
        list->ids = resized(list->ids, list->capacity, sizeof *list->ids);
    }
    memcpy(list->ids + list->count, ids, count * sizeof *ids);
    list->count += count;
    return 0;
}

void id_list_free(struct id_list *list)
{
    free(list->ids);
    memset(list, 0, sizeof *list);
}

void encode(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
            const char *text, size_t length, uint32_t flags, struct id_list *list)
{
    list->count = 0;
    /* A copy of just that size, so that reading past its end shows. */
    char *copy = resized(NULL, length, 1);
    if (length) memcpy(copy, text, length);
    cr_assert(api->encode(tokenizer, copy, length, flags, append, list) == ENGINE_OK, "%s", error_message());
    free(copy);
}

static void print_ids(const struct id_list *list, struct text *line)
{
    line->length = 0;
    for (size_t i = 0; i < list->count; i++) {
        char number[16];
        int length = snprintf(number, sizeof number, i ? " %d" : "%d", list->ids[i]);
        text_add(line, number, (size_t)length);
    }
    text_add(line, "", 1);
}

void expect_ids(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                const char *text, uint32_t flags, const char *expected)
{
    struct id_list list = {0};
    struct text line = {0};
    encode(api, tokenizer, text, strlen(text), flags, &list);
    print_ids(&list, &line);
    cr_expect_str_eq(line.data, expected, "\"%s\" gives %s instead of %s", text, line.data, expected);
    id_list_free(&list);
    text_free(&line);
}

void text_free(struct text *text)
{
    free(text->data);
    memset(text, 0, sizeof *text);
}

void text_add(struct text *text, const char *data, size_t length)
{
    if (!length) return;
    if (text->length + length > text->capacity) {
        text->capacity = 2 * (text->length + length) + 16;
        text->data = resized(text->data, text->capacity, 1);
    }
    memcpy(text->data + text->length, data, length);
    text->length += length;
}

/* The length of the UTF-8 character at `text`, 1 if there is none. */
static size_t character_length(const unsigned char *text, size_t left)
{
    size_t length = *text < 0xC2 ? 1 : *text < 0xE0 ? 2 : *text < 0xF0 ? 3 : *text < 0xF5 ? 4 : 1;
    if (length > left) return 1;
    for (size_t i = 1; i < length; i++)
        if (text[i] < 0x80 || text[i] > 0xBF) return 1;
    bool wrong = length > 2 && ((*text == 0xE0 && text[1] < 0xA0) || (*text == 0xED && text[1] > 0x9F) ||
                                (*text == 0xF0 && text[1] < 0x90) || (*text == 0xF4 && text[1] > 0x8F));
    return wrong ? 1 : length;
}

/* No part may end inside a character: `ends` has the lengths that the text had after each part. */
static void expect_whole_characters(const struct text *text, const size_t *ends, size_t n_ends)
{
    size_t end = 0;
    for (size_t at = 0; at < text->length;) {
        size_t next = at + character_length((const unsigned char *)text->data + at, text->length - at);
        while (end < n_ends && ends[end] <= at) end++;
        cr_expect(end == n_ends || ends[end] >= next, "half a character came out at byte %zu", at);
        at = next;
    }
}

void decode(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
            const struct id_list *list, bool special, struct text *out)
{
    struct engine_decoder *decoder = NULL;
    cr_assert(api->decoder_create(tokenizer, special, &decoder) == ENGINE_OK, "%s", error_message());
    size_t *ends = resized(NULL, list->count, sizeof *ends);
    out->length = 0;
    struct engine_string part;
    for (size_t i = 0; i < list->count; i++) {
        cr_assert(api->decode(decoder, list->ids[i], &part) == ENGINE_OK, "%s", error_message());
        text_add(out, part.data, part.length);
        ends[i] = out->length;
    }
    cr_assert(api->decode_end(decoder, &part) == ENGINE_OK, "%s", error_message());
    text_add(out, part.data, part.length);
    expect_whole_characters(out, ends, list->count);
    free(ends);
    api->decoder_destroy(decoder);
}

void expect_lossless(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                     const char *text, size_t length)
{
    struct id_list list = {0};
    struct text back = {0};
    encode(api, tokenizer, text, length, 0, &list);
    decode(api, tokenizer, &list, false, &back);
    cr_expect(back.length == length && (!length || memcmp(back.data, text, length) == 0),
              "a text of %zu bytes (\"%.*s\" …) came back as %zu bytes (\"%.*s\" …)", length,
              (int)(length < 60 ? length : 60), text, back.length, (int)(back.length < 60 ? back.length : 60),
              back.data);
    id_list_free(&list);
    text_free(&back);
}

void read_shared(const char *name, struct text *out)
{
    char path[512], buffer[4096];
    snprintf(path, sizeof path, "%s/tokenizers/%s", TEST_SHARED_DIR, name);
    FILE *file = fopen(path, "rb");
    cr_assert(file, "%s can't be read", path);
    for (size_t n; (n = fread(buffer, 1, sizeof buffer, file)) > 0;) text_add(out, buffer, n);
    fclose(file);
}

void expect_shared_ids(const char *plugin, const char *name, bool lossless)
{
    const struct engine_tokenizer_api *api = load_tokenizers(plugin);
    struct model *model;
    struct engine_tokenizer *tokenizer = open_shared(api, name, &model);
    struct text cases = {0}, expected = {0}, line = {0};
    char ids_name[128];
    snprintf(ids_name, sizeof ids_name, "%s.ids", name);
    read_shared("cases.nul", &cases);
    read_shared(ids_name, &expected);

    struct id_list list = {0};
    size_t n_cases = 0, wanted = 0;
    for (size_t at = 0; at < cases.length;) {
        size_t length = strlen(cases.data + at);
        encode(api, tokenizer, cases.data + at, length, 0, &list);
        print_ids(&list, &line);
        const char *end = memchr(expected.data + wanted, '\n', expected.length - wanted);
        cr_assert(end, "%s has fewer lines than there are texts", ids_name);
        size_t expected_length = (size_t)(end - (expected.data + wanted));
        cr_expect(line.length - 1 == expected_length &&
                      memcmp(line.data, expected.data + wanted, expected_length) == 0,
                  "%s, text %zu: %s instead of %.*s", name, n_cases, line.data, (int)expected_length,
                  expected.data + wanted);
        if (lossless) expect_lossless(api, tokenizer, cases.data + at, length);
        wanted += expected_length + 1;
        at += length + 1;
        n_cases++;
    }
    cr_expect(wanted == expected.length && n_cases > 0);
    id_list_free(&list);
    text_free(&cases);
    text_free(&expected);
    text_free(&line);
    api->destroy(tokenizer);
    model_close(model);
}

uint64_t hash_of_shared_cases(const struct engine_tokenizer_api *api,
                              const struct engine_tokenizer *tokenizer, bool lossless)
{
    struct text cases = {0}, line = {0};
    struct id_list list = {0};
    uint64_t hash = 0xcbf29ce484222325u;
    read_shared("cases.nul", &cases);
    for (size_t at = 0; at < cases.length;) {
        size_t length = strlen(cases.data + at);
        encode(api, tokenizer, cases.data + at, length, 0, &list);
        print_ids(&list, &line);
        line.data[line.length - 1] = '\n';
        for (size_t i = 0; i < line.length; i++) hash = (hash ^ (unsigned char)line.data[i]) * 0x100000001b3u;
        if (lossless) expect_lossless(api, tokenizer, cases.data + at, length);
        at += length + 1;
    }
    id_list_free(&list);
    text_free(&cases);
    text_free(&line);
    return hash;
}

bool fake_survives(const struct engine_tokenizer_api *api, struct fake_vocab *vocab, const char *letters,
                   size_t n_letters, size_t length, uint64_t *seed)
{
    struct engine_metadata metadata = fake_metadata(vocab);
    struct engine_tokenizer *tokenizer = NULL;
    int status = api->create(&metadata, &tokenizer);
    cr_assert(status == ENGINE_OK || status == ENGINE_ERROR_DATA);
    if (status != ENGINE_OK) return false;
    struct id_list list = {0};
    struct text text = {0};
    char *bytes = malloc(length);
    cr_assert(bytes);
    for (int i = 0; i < 20; i++) {
        for (size_t j = 0; j < length; j++) bytes[j] = letters[random_next(seed) % n_letters];
        encode(api, tokenizer, bytes, length, (uint32_t)(random_next(seed) % 4), &list);
        for (size_t j = 0; j < list.count; j++)
            cr_assert(list.ids[j] >= 0 && (size_t)list.ids[j] < vocab->n_tokens);
        decode(api, tokenizer, &list, true, &text);
    }
    free(bytes);
    id_list_free(&list);
    text_free(&text);
    api->destroy(tokenizer);
    return true;
}
