/* threads.c: one tokenizer used by several threads at once, all of which must get the same ids. A program of
 * its own, since Criterion does not run under ThreadSanitizer: threads PLUGIN.so FILE, where FILE is written. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "gguf-writer.h"
#include "model/model.h"

static const struct engine_tokenizer_api *api;
static struct engine_tokenizer *tokenizer;

static int add(void *sum, const int32_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++) *(uint64_t *)sum = *(uint64_t *)sum * 1000003 + (uint64_t)ids[i];
    return 0;
}

/* A sum over the ids of many texts, and over what they decode to. */
static void *work(void *result)
{
    uint64_t *sum = result, seed = 3;
    struct engine_decoder *decoder = NULL;
    if (api->decoder_create(tokenizer, 0, &decoder)) return NULL;
    for (int i = 0; i < 400; i++) {
        char text[300];
        size_t length = 1 + random_next(&seed) % sizeof text;
        for (size_t j = 0; j < length; j++) text[j] = "abcd the \xC3\xA9<s>"[random_next(&seed) % 14];
        if (api->encode(tokenizer, text, length, ENGINE_ENCODE_SPECIAL, add, sum)) *sum = 0;
        struct engine_string part = {"", 0};
        if (api->decode(decoder, (int32_t)(random_next(&seed) % TINY_LLAMA_MIN_VOCAB), &part)) *sum = 0;
        *sum += part.length;
    }
    api->decoder_destroy(decoder);
    return NULL;
}

int main(int argc, char **argv)
{
    const struct engine_host services = {
        sizeof services, ENGINE_ABI_MAJOR, ENGINE_ABI_MINOR, fail, log_line, NULL, NULL};
    void *library = argc == 3 ? dlopen(argv[1], RTLD_NOW) : NULL;
    if (!library) return puts(argc == 3 ? dlerror() : "usage: threads PLUGIN.so FILE"), 1;
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    api = entry(&services)->tokenizers;

    struct model *model = NULL;
    struct engine_metadata metadata = {0};
    if (!write_tiny_llama(argv[2], &(struct tiny_llama){.seed = 1}) || model_open(argv[2], NULL, &model))
        return puts(error_message()), 1;
    metadata_getters(model_metadata(model), &metadata);
    if (api->create(&metadata, &tokenizer)) return puts(error_message()), 1;

    uint64_t expected = 0, sums[4] = {0};
    work(&expected);
    pthread_t threads[4];
    for (int i = 0; i < 4; i++)
        if (pthread_create(&threads[i], NULL, work, &sums[i])) return puts("no thread"), 1;
    for (int i = 0; i < 4; i++) pthread_join(threads[i], NULL);
    int failed = 0;
    for (int i = 0; i < 4; i++) failed += sums[i] != expected || !expected;

    api->destroy(tokenizer);
    model_close(model);
    remove(argv[2]);
    printf("%d of 4 threads failed\n", failed);
    return failed != 0;
}
