/* harness.h: what tests of tokenizer plugins share: loading a plugin, vocabularies made in the test
 * or read from a file, ids gathered, texts decoded. Failures end the test (Criterion).
 *
 * Use: tokenizer_test(NAME), see CMakeLists.txt. */
#ifndef TESTS_TOKENIZERS_HARNESS_H
#define TESTS_TOKENIZERS_HARNESS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/model.h"
#include "plugin-api.h"

/* The table of a tokenizer plugin of the build tree. */
const struct engine_tokenizer_api *load_tokenizers(const char *plugin);

/* ---- Vocabularies ---- */

enum token_type { NORMAL = 1, UNKNOWN = 2, CONTROL = 3, USER_DEFINED = 4, UNUSED = 5, BYTE = 6 };

/* Metadata of a tokenizer, as few or as wrong as a test likes. Zeroed at first. */
struct fake_vocab {
    size_t n_tokens, capacity;
    struct engine_string *pieces; /* [n_tokens] */
    float *scores;                /* [n_tokens] */
    int64_t *types;               /* [n_tokens] */
    size_t n_scores, n_types;     /* as the metadata claim; set by fake_add */
    bool no_scores, no_types;     /* leave the arrays away */
    size_t n_merges;
    struct engine_string *merges;  /* [n_merges] tokenizer.ggml.merges, the test's own; NULL: none */
    struct engine_string charsmap; /* tokenizer.ggml.precompiled_charsmap; data NULL: none */
    struct {
        const char *key;
        enum { FAKE_STRING = 1, FAKE_INTEGER, FAKE_BOOLEAN } kind;
        const char *string;
        int64_t number;
    } values[32];
    size_t n_values;
};

/* Adds a token, copying its text; returns its id. */
int32_t fake_add(struct fake_vocab *vocab, const char *piece, size_t length, float score,
                 enum token_type type);
/* The same for a text ended by NUL. */
int32_t fake_piece(struct fake_vocab *vocab, const char *piece, float score, enum token_type type);
/* <unk>, <s>, </s> and the 256 byte tokens: ids 0 to 258. */
void fake_add_basics(struct fake_vocab *vocab);
void fake_string(struct fake_vocab *vocab, const char *key, const char *value);
void fake_integer(struct fake_vocab *vocab, const char *key, int64_t value);
void fake_boolean(struct fake_vocab *vocab, const char *key, bool value);
void fake_free(struct fake_vocab *vocab);
/* Getters over it, valid as long as `vocab`. */
struct engine_metadata fake_metadata(struct fake_vocab *vocab);

/* Creates a tokenizer that must succeed. */
struct engine_tokenizer *fake_open(const struct engine_tokenizer_api *api, struct fake_vocab *vocab);
/* Creation must fail with `status`, and the message contain `words`. */
void fake_refused(const struct engine_tokenizer_api *api, struct fake_vocab *vocab, int status,
                  const char *words);

/* A vocabulary as wrong as it likes: creation succeeds or says ENGINE_ERROR_DATA; after success 20 texts of
 * `length` bytes, drawn from the first n_letters of `letters`, give ids that exist and are decoded. Returns
 * whether it succeeded. */
bool fake_survives(const struct engine_tokenizer_api *api, struct fake_vocab *vocab, const char *letters,
                   size_t n_letters, size_t length, uint64_t *seed);

/* A vocabulary of ../shared/tokenizers, "gpt-2" or "pre/qwen2"; skips the test where the folder is absent.
 * The model must stay open as long as the tokenizer is there. */
struct engine_tokenizer *open_shared(const struct engine_tokenizer_api *api, const char *name,
                                     struct model **model);

/* ---- Ids and texts ---- */

struct id_list {
    int32_t *ids;
    size_t count, capacity;
};

void id_list_free(struct id_list *list);
/* Encodes; the list is emptied first. */
void encode(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
            const char *text, size_t length, uint32_t flags, struct id_list *list);
/* The ids must be these; `expected` as "1 2 3". */
void expect_ids(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                const char *text, uint32_t flags, const char *expected);

struct text {
    char *data;
    size_t length, capacity;
};
void text_free(struct text *text);
void text_add(struct text *text, const char *data, size_t length);

/* Adds a file of ../shared/tokenizers. */
void read_shared(const char *name, struct text *out);

/* Decodes; `out` is emptied first. Checks on the way that only whole UTF-8 characters come out as far as they
 * are characters. */
void decode(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
            const struct id_list *list, bool special, struct text *out);

/* decode(encode(text)) must be the text. */
void expect_lossless(const struct engine_tokenizer_api *api, const struct engine_tokenizer *tokenizer,
                     const char *text, size_t length);

/* All of ../shared/tokenizers/cases.nul must give NAME.ids; if `lossless`, also decode to themselves. */
void expect_shared_ids(const char *plugin, const char *name, bool lossless);
/* FNV-1a over the lines of ids that the texts of cases.nul give, each ended by a newline. */
uint64_t hash_of_shared_cases(const struct engine_tokenizer_api *api,
                              const struct engine_tokenizer *tokenizer, bool lossless);

#endif
