/* fuzz-hf-tokenizer.c: fuzzing target: tokenizers of Hugging Face's directories. Input: a text, then files of
 * the directory, each after a line "----NAME". The directory is refused with a reason, or has a tokenizer
 * that the plugin of its name refuses with a reason, or that the text goes through there and back. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "model/hf/tokenizer.h"
#include "tokenizers.h"

#define SEPARATOR "\n----"

static char folder[] = "/tmp/fuzz-hf-tokenizer-XXXXXX";
static const char *const names[] = {
    "tokenizer.json",
    "tokenizer_config.json",
    "special_tokens_map.json",
    "generation_config.json",
    "tokenizer.model",
    "added_tokens.json",
    "vocab.json",
    "merges.txt",
    "vocab.txt",
    "chat_template.jinja",
    "chat_template.json",
    "config.json",
};
enum { N_NAMES = sizeof names / sizeof *names };

static const char *path_of(const char *name)
{
    static char path[128];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    return path;
}

static void remove_files(void)
{
    for (size_t i = 0; i < N_NAMES; i++) unlink(path_of(names[i]));
}

static void remove_folder(void)
{
    remove_files();
    rmdir(folder);
}

/* The bytes from `text` to the next separator; *next is after it, or NULL. */
static size_t part_length(const char *text, const char *end, const char **next)
{
    const char *at = memmem(text, (size_t)(end - text), SEPARATOR, strlen(SEPARATOR));
    *next = at ? at + strlen(SEPARATOR) : NULL;
    return (size_t)((at ? at : end) - text);
}

/* "NAME\n" and the file's bytes. */
static void write_part(const char *part, size_t length)
{
    const char *line = memchr(part, '\n', length);
    size_t n = line ? (size_t)(line - part) : length;
    for (size_t i = 0; i < N_NAMES; i++) {
        if (strlen(names[i]) != n || memcmp(names[i], part, n) != 0) continue;
        FILE *file = fopen(path_of(names[i]), "wb");
        if (!file) fuzz_fail("no file");
        if (line) fwrite(line + 1, 1, length - n - 1, file);
        fclose(file);
    }
}

/* The plugin that a model with these metadata would use, of those that its directory can ask for. */
static const struct engine_tokenizer_api *find_plugin(const struct metadata *metadata)
{
    struct engine_string name;
    if (!metadata_string(metadata, "tokenizer.engine.model", &name) &&
        !metadata_string(metadata, "tokenizer.ggml.model", &name))
        fuzz_fail("a tokenizer without a name");
    bool is_spm = name.length == 5 && memcmp(name.data, "llama", 5) == 0;
    bool is_ugm = name.length == 2 && memcmp(name.data, "t5", 2) == 0;
    return fuzz_plugin(is_spm ? "spm" : is_ugm ? "ugm" : "hf");
}

static void use(const struct metadata *metadata, const char *text, size_t length)
{
    struct engine_metadata getters;
    struct fuzz_tokenizer tokenizer = {.api = find_plugin(metadata), .refuses = true};
    metadata_getters(metadata, &getters);
    error_clear();
    if (tokenizer.api->create(&getters, &tokenizer.tokenizer)) {
        if (!error_message()[0] || tokenizer.tokenizer) fuzz_fail("a refusal without a reason");
        return;
    }
    struct engine_tokenizer_info info = {.struct_size = sizeof info};
    if (tokenizer.api->info(tokenizer.tokenizer, &info)) fuzz_fail("no information");
    tokenizer.n_tokens = info.n_tokens;
    for (uint32_t flags = 0; flags < 4; flags++) fuzz_there_and_back(&tokenizer, text, length, flags);
    tokenizer.api->destroy(tokenizer.tokenizer);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static bool made;
    if (!made && (!mkdtemp(folder) || atexit(remove_folder))) fuzz_fail("no folder");
    made = true;
    remove_files();
    const char *text = size ? (const char *)data : "", *end = text + size, *next;
    size_t length = part_length(text, end, &next);
    for (const char *part = next; part; part = next) {
        size_t n = part_length(part, end, &next);
        write_part(part, n);
    }
    struct metadata *metadata;
    bool found = false;
    if (metadata_create(&metadata)) fuzz_fail("no memory");
    error_clear();
    int status = hf_tokenizer_read(folder, 0, metadata, &found);
    if (!status) status = metadata_finish(metadata);
    if (status && (!error_message()[0] || strchr(error_message(), '\n')))
        fuzz_fail("refused without one line that says why");
    if (!status && found) use(metadata, text, length);
    metadata_destroy(metadata);
    return 0;
}
