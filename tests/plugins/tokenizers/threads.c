/* threads.c: tokenizers used by several threads at once, all of which must get the same ids and texts. A
 * program of its own, since Criterion does not run under ThreadSanitizer: threads PLUGIN.so RECIPE [PLUGIN.so
 * RECIPE …], where a recipe (tests/fuzz/recipe.h) is what the plugin's tokenizer is made of. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "base/log.h"
#include "fuzz/recipe.h"
#include "gguf-writer.h"
#include "texts.h"

#define N_THREADS 4
#define N_TEXTS   120

static const struct engine_tokenizer_api *api;
static struct engine_tokenizer *tokenizer;
static uint32_t n_tokens;

static void mix(uint64_t *sum, uint64_t value)
{
    *sum = (*sum ^ value) * 0x100000001b3u;
}

static int add(void *sum, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) mix(sum, (uint64_t)ids[i]);
    return 0;
}

/* A sum over the ids of many texts, and over what random ids decode to; 0 if something failed. */
static void *work(void *result)
{
    uint64_t *sum = result, seed = 3;
    struct engine_decoder *decoder = NULL;
    bool failed = api->decoder_create(tokenizer, 0, &decoder) != ENGINE_OK;
    char *text = malloc(TEXT_MAX);
    *sum = 1;
    for (int i = 0; !failed && text && i < N_TEXTS; i++) {
        size_t length = make_text(&seed, true, text);
        failed = api->encode(tokenizer, text, length, ENGINE_ENCODE_SPECIAL, add, sum) != ENGINE_OK;
        for (int j = 0; !failed && j < 20; j++) {
            struct engine_string part = {"", 0};
            failed = api->decode(decoder, (int32_t)(random_next(&seed) % n_tokens), &part) != ENGINE_OK;
            for (size_t k = 0; k < part.length; k++) mix(sum, (unsigned char)part.data[k]);
        }
    }
    if (failed || !text) *sum = 0;
    free(text);
    api->decoder_destroy(decoder);
    return NULL;
}

/* How many threads got something else than one thread alone. */
static int count_failures(void)
{
    uint64_t expected = 0, sums[N_THREADS] = {0};
    pthread_t threads[N_THREADS];
    int failed = 0;
    for (int i = 0; i < N_THREADS;
         i++) /* first, so that threads make what a tokenizer makes when it is first used */
        if (pthread_create(&threads[i], NULL, work, &sums[i])) return N_THREADS;
    for (int i = 0; i < N_THREADS; i++) pthread_join(threads[i], NULL);
    work(&expected);
    for (int i = 0; i < N_THREADS; i++) failed += sums[i] != expected || !expected;
    return failed;
}

static const struct engine_tokenizer_api *load(const char *path)
{
    static const struct engine_host services = {
        sizeof services, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, error_raise, log_line, NULL, NULL};
    void *library = dlopen(path, RTLD_NOW);
    if (!library) return puts(dlerror()), NULL;
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    return entry(&services)->tokenizers;
}

static struct recipe *read_recipe(const char *path)
{
    static uint8_t data[1 << 16];
    FILE *file = fopen(path, "rb");
    if (!file) return perror(path), NULL;
    size_t size = fread(data, 1, sizeof data, file);
    fclose(file);
    return recipe_read(data, size);
}

int main(int argc, char **argv)
{
    int failed = 0;
    if (argc < 3) return puts("usage: threads PLUGIN.so RECIPE …"), 2;
    for (int i = 1; i + 1 < argc; i += 2) {
        struct recipe *recipe = read_recipe(argv[i + 1]);
        api = load(argv[i]);
        if (!api || !recipe) return 1;
        struct engine_metadata metadata = recipe_metadata(recipe);
        if (api->create(&metadata, &tokenizer)) return puts(error_message()), 1;
        n_tokens = (uint32_t)recipe->n_tokens;
        int failures = count_failures();
        printf("%s: %d of %d threads failed\n", argv[i + 1], failures, N_THREADS);
        failed += failures;
        api->destroy(tokenizer);
        recipe_free(recipe);
    }
    return failed != 0;
}
