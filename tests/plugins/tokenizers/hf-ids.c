/* hf-ids.c: the ids that a directory's tokenizer gives, for tools/hf/compare-tokenizers.
 *
 *   hf-ids DIRECTORY [bos] [special] [decode] < TEXTS
 *
 * Each text ends with a NUL and becomes a line of ids; with `decode`, it becomes the text of its ids, ended
 * by a NUL. Prints to standard error how long reading the directory took. */
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/log.h"
#include "model/hf/tokenizer.h"
#include "model/metadata.h"

static const struct engine_tokenizer_api *api;
static struct engine_tokenizer *tokenizer;
static struct engine_decoder *decoder;

static const struct engine_host services = {
    .struct_size = sizeof services,
    .abi_major = ENGINE_ABI_MAJOR,
    .abi_minor = ENGINE_ABI_MINOR,
    .fail = error_raise,
    .log = log_line,
};

static int fail(const char *what)
{
    fprintf(stderr, "hf-ids: %s\n", what);
    return 1;
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static int open_tokenizer(const char *directory, struct metadata **metadata)
{
    static struct engine_metadata getters;
    bool found = false;
    double begin = now();
    if (metadata_create(metadata) || hf_tokenizer_read(directory, 0, *metadata, &found) ||
        metadata_finish(*metadata))
        return fail(error_message());
    struct engine_string kind = {"", 0};
    if (!found) return fail("there is no tokenizer");
    if (!metadata_string(*metadata, "tokenizer.engine.model", &kind))
        metadata_string(*metadata, "tokenizer.ggml.model", &kind);
    const char *plugin = kind.length == 2 && !memcmp(kind.data, "hf", 2) ? "hf"
                         : kind.length == 5                              ? "spm"
                                                                         : "ugm";
    double read = now();
    char path[512];
    snprintf(path, sizeof path, "%s/%s.so", TEST_PLUGIN_DIR, plugin);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!library) return fail(dlerror());
    const struct engine_plugin *(*entry)(const struct engine_host *);
    *(void **)&entry = dlsym(library, ENGINE_ENTRY_SYMBOL);
    if (!entry) return fail(dlerror());
    api = entry(&services)->tokenizers;
    metadata_getters(*metadata, &getters);
    if (api->create(&getters, &tokenizer)) return fail(error_message());
    if (api->decoder_create(tokenizer, 0, &decoder)) return fail(error_message());
    fprintf(stderr, "read in %.3f s, created in %.3f s\n", read - begin, now() - read);
    return 0;
}

static int print_ids(void *user, const int32_t *ids, size_t count)
{
    (void)user;
    for (size_t i = 0; i < count; i++) printf("%d ", ids[i]);
    return 0;
}

static int print_text(void *user, const int32_t *ids, size_t count)
{
    (void)user;
    struct engine_string text;
    for (size_t i = 0; i < count; i++) {
        if (api->decode(decoder, ids[i], &text)) return 1;
        fwrite(text.data, 1, text.length, stdout);
    }
    return 0;
}

int main(int argc, char **argv)
{
    struct metadata *metadata = NULL;
    uint32_t flags = 0;
    bool decode = false;
    if (argc < 2) return fail("usage: hf-ids DIRECTORY [bos] [special] [decode] < TEXTS");
    for (int i = 2; i < argc; i++) {
        if (strcmp(argv[i], "bos") == 0) flags |= ENGINE_ENCODE_BOS_EOS;
        if (strcmp(argv[i], "special") == 0) flags |= ENGINE_ENCODE_SPECIAL;
        if (strcmp(argv[i], "decode") == 0) decode = true;
    }
    int status = open_tokenizer(argv[1], &metadata);
    char *text = NULL;
    size_t capacity = 0;
    double begin = now();
    size_t bytes = 0;
    for (ssize_t length; !status && (length = getdelim(&text, &capacity, 0, stdin)) > 0;) {
        struct engine_string rest;
        if (text[length - 1] == 0) length--;
        bytes += (size_t)length;
        if (api->encode(tokenizer, text, (size_t)length, flags, decode ? print_text : print_ids, NULL))
            status = fail(error_message());
        if (decode && !api->decode_end(decoder, &rest)) fwrite(rest.data, 1, rest.length, stdout);
        putchar(decode ? 0 : '\n');
    }
    if (!status) fprintf(stderr, "%.1f MB/s\n", (double)bytes / 1e6 / (now() - begin));
    free(text);
    if (decoder) api->decoder_destroy(decoder);
    if (tokenizer) api->destroy(tokenizer);
    metadata_destroy(metadata);
    return status;
}
