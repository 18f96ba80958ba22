/* tokenizers.c: see tokenizers.h. */
#include "tokenizers.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bpe/pretokenizers.h"
#include "check/explanation.h"

#define MAX_TOKENIZERS 128

static void log_nothing(enum engine_log_level level, const char *format, ...)
{
    (void)level, (void)format;
}

static const struct engine_host services = {
    .struct_size = sizeof services,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .fail = error_raise,
    .log = log_nothing,
};

_Noreturn void fuzz_fail(const char *what)
{
    fprintf(stderr, "fuzz: %s; last error: %s\n", what, error_message());
    abort();
}

const struct engine_tokenizer_api *fuzz_plugin(const char *name)
{
    static struct {
        const char *name;
        const struct engine_tokenizer_api *api;
    } plugins[] = {{"spm", NULL}, {"bpe", NULL}, {"ugm", NULL}, {"wpm", NULL}, {"rwkv", NULL}, {"hf", NULL}};
    for (size_t i = 0; i < sizeof plugins / sizeof *plugins; i++) {
        if (strcmp(plugins[i].name, name) != 0) continue;
        if (plugins[i].api) return plugins[i].api;
        char path[512];
        snprintf(path, sizeof path, "%s/%s.so", TEST_PLUGIN_DIR, name);
        void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
        if (!library) fuzz_fail(dlerror());
        const struct engine_plugin *(*entry)(const struct engine_host *);
        *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
        plugins[i].api = entry(&services)->tokenizers;
        return plugins[i].api;
    }
    return NULL;
}

/* ---- The set of tokenizers ---- */

static struct recipe *read_recipe(const char *name)
{
    char path[512];
    snprintf(path, sizeof path, "%s/fuzz/vocabularies/%s.txt", TEST_SOURCE_DIR, name);
    FILE *file = fopen(path, "rb");
    uint8_t *data = malloc(1 << 16);
    if (!file || !data) fuzz_fail(path);
    size_t size = fread(data, 1, 1 << 16, file);
    fclose(file);
    struct recipe *recipe = recipe_read(data, size);
    free(data);
    return recipe;
}

/* The recipes stay, as tokenizers read in them for as long as they are there. */
static struct recipe *recipes[MAX_TOKENIZERS];
static struct fuzz_tokenizer set[MAX_TOKENIZERS];
static size_t n_tokenizers;

static void add(const char *name, bool lossless, const char *pretokenizer)
{
    if (n_tokenizers == MAX_TOKENIZERS) fuzz_fail("too many tokenizers");
    struct recipe *recipe = recipes[n_tokenizers] = read_recipe(name);
    struct fuzz_tokenizer *made = &set[n_tokenizers++];
    if (pretokenizer) recipe_set(recipe, "pre", pretokenizer);
    struct engine_metadata metadata = recipe_metadata(recipe);
    made->api = fuzz_plugin(recipe->plugin);
    made->lossless = lossless;
    made->n_tokens = (uint32_t)recipe->n_tokens;
    if (!made->api || made->api->create(&metadata, &made->tokenizer)) fuzz_fail(name);
}

static void make_set(void)
{
    static char names[MAX_TOKENIZERS][64];
    add("spm", false, NULL);
    add("spm-plain", false, NULL);
    add("ugm", false, NULL);
    add("ugm-bytes", false, NULL);
    add("wpm", false, NULL);
    add("rwkv", true, NULL);
    const struct pretokenizer *row;
    for (size_t i = 0; (row = pretokenizer_at(i)); i++) {
        size_t length = strcspn(row->names, " ");
        snprintf(names[i], sizeof names[i], "%.*s", (int)length, row->names);
        add("bpe", !(row->flags & PRE_CHARACTERS), names[i]);
    }
}

const struct fuzz_tokenizer *fuzz_tokenizer(size_t number)
{
    if (!n_tokenizers) make_set();
    return &set[number % n_tokenizers];
}

/* ---- There and back ---- */

struct ids {
    int32_t *list;
    size_t count, capacity;
};

static int append(void *user, const int32_t *list, size_t count)
{
    struct ids *ids = user;
    if (ids->count + count > ids->capacity) {
        ids->capacity = 2 * (ids->count + count);
        ids->list = realloc(ids->list, ids->capacity * sizeof *ids->list);
        if (!ids->list) abort();
    }
    memcpy(ids->list + ids->count, list, count * sizeof *list);
    ids->count += count;
    return 0;
}

/* Compares the text that ids decode to with `text`, or with nothing if it is NULL. */
static void decode(const struct fuzz_tokenizer *tokenizer, const struct ids *ids, bool special,
                   const char *text, size_t length)
{
    struct engine_decoder *decoder = NULL;
    if (tokenizer->api->decoder_create(tokenizer->tokenizer, special, &decoder)) fuzz_fail("no decoder");
    size_t at = 0;
    for (size_t i = 0; i <= ids->count; i++) {
        struct engine_string part = {"", 0};
        int status = i < ids->count ? tokenizer->api->decode(decoder, ids->list[i], &part)
                                    : tokenizer->api->decode_end(decoder, &part);
        if (status) fuzz_fail("decoding failed");
        if (text &&
            (part.length > length - at || (part.length && memcmp(text + at, part.data, part.length) != 0)))
            fuzz_fail("the text did not come back");
        at += part.length;
    }
    if (text && at != length) fuzz_fail("not all of the text came back");
    tokenizer->api->decoder_destroy(decoder);
}

void fuzz_there_and_back(const struct fuzz_tokenizer *tokenizer, const char *text, size_t length,
                         uint32_t flags)
{
    struct ids first = {NULL, 0, 0}, second = {NULL, 0, 0};
    char *copy = malloc(length ? length : 1);
    if (!copy) abort();
    if (length) memcpy(copy, text, length);
    error_clear();
    int status = tokenizer->api->encode(tokenizer->tokenizer, copy, length, flags, append, &first);
    if (status && (!tokenizer->refuses || !error_message()[0])) fuzz_fail("encoding failed");
    if (status) goto cleanup;
    if (tokenizer->api->encode(tokenizer->tokenizer, copy, length, flags, append, &second))
        fuzz_fail("encoding failed the second time");
    if (first.count != second.count ||
        (first.count && memcmp(first.list, second.list, first.count * sizeof *first.list) != 0))
        fuzz_fail("the same text gave other ids");
    for (size_t i = 0; i < first.count; i++)
        if (first.list[i] < 0 || (uint32_t)first.list[i] >= tokenizer->n_tokens)
            fuzz_fail("an id is not a token's");
    char why[EXPLANATION_WHY];
    if (tokenizer->api->explain &&
        !explanation_check(tokenizer->api, tokenizer->tokenizer, (struct engine_string){copy, length}, flags,
                           first.list, first.count, tokenizer->n_tokens, why))
        fuzz_fail(why);
    bool compare = tokenizer->lossless && !(flags & ENGINE_ENCODE_BOS_EOS);
    decode(tokenizer, &first, (flags & ENGINE_ENCODE_SPECIAL) != 0, compare ? copy : NULL, length);
cleanup:
    free(copy);
    free(first.list);
    free(second.list);
}
