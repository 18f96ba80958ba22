/* hf-directory.h: tokenizers of Hugging Face's directories for tests: opened as the engine opens them, and
 * folders that a test fills. */
#ifndef TEST_TOKENIZERS_HF_DIRECTORY_H
#define TEST_TOKENIZERS_HF_DIRECTORY_H

#include <stdint.h>

#include "model/metadata.h"
#include "plugin-api.h"

struct opened {
    struct metadata *metadata;
    struct engine_metadata getters;
    struct engine_tokenizer *tokenizer;
};

/* `n_tokens`: rows of the embedding, 0 for those of the vocabulary. Returns a status; *opened has to be
 * closed in any case. */
int hf_test_try(const struct engine_tokenizer_api *api, const char *directory, uint64_t n_tokens,
                struct opened *opened);
/* The test fails if that does. */
struct opened hf_test_open(const struct engine_tokenizer_api *api, const char *directory);
void hf_test_close(const struct engine_tokenizer_api *api, struct opened *opened);

/* An empty folder; its name is valid until the next call. */
const char *hf_test_folder(void);
void hf_test_write(const char *directory, const char *name, const char *text);
/* With the files that tokenizers consist of. */
void hf_test_remove(const char *directory);

#endif
