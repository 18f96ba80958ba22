/* hf-directory.c: see hf-directory.h. */
#include "hf-directory.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "model/hf/tokenizer.h"

int hf_test_try(const struct engine_tokenizer_api *api, const char *directory, uint64_t n_tokens,
                struct opened *opened)
{
    bool found = false;
    *opened = (struct opened){0};
    cr_assert_eq(metadata_create(&opened->metadata), ENGINE_OK);
    int status = hf_tokenizer_read(directory, n_tokens, opened->metadata, &found);
    if (!status) status = metadata_finish(opened->metadata);
    if (!status) cr_assert(found, "%s", directory);
    metadata_getters(opened->metadata, &opened->getters);
    return status ? status : api->create(&opened->getters, &opened->tokenizer);
}

void hf_test_close(const struct engine_tokenizer_api *api, struct opened *opened)
{
    if (opened->tokenizer) api->destroy(opened->tokenizer);
    metadata_destroy(opened->metadata);
}

struct opened hf_test_open(const struct engine_tokenizer_api *api, const char *directory)
{
    struct opened opened;
    cr_assert_eq(hf_test_try(api, directory, 0, &opened), ENGINE_OK, "%s: %s", directory, error_message());
    return opened;
}

const char *hf_test_folder(void)
{
    static char path[64];
    snprintf(path, sizeof path, "/tmp/engine-hf-XXXXXX");
    cr_assert(mkdtemp(path));
    return path;
}

void hf_test_write(const char *directory, const char *name, const char *text)
{
    char path[256];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    cr_assert(file && fputs(text, file) >= 0 && fclose(file) == 0);
}

void hf_test_remove(const char *directory)
{
    static const char *const names[] = {"tokenizer.json",
                                        "tokenizer_config.json",
                                        "vocab.json",
                                        "merges.txt",
                                        "vocab.txt",
                                        "generation_config.json",
                                        "chat_template.jinja",
                                        "special_tokens_map.json",
                                        "tokenizer.model",
                                        "config.json",
                                        "additional_chat_templates/default.jinja"};
    char path[256];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", directory, names[i]);
        unlink(path);
    }
    snprintf(path, sizeof path, "%s/additional_chat_templates", directory);
    rmdir(path);
    rmdir(directory);
}
