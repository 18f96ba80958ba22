/* vocabulary.h: made-up tokenizer metadata, for each way in which vocabularies spell their tokens. */
#ifndef ENGINE_CHECK_VOCABULARY_H
#define ENGINE_CHECK_VOCABULARY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

enum spelling {
    SPELLS_MARKED,    /* "▁the", bytes as "<0x0A>": SentencePiece, and kinds we don't know */
    SPELLS_BYTES,     /* GPT-2's letters for bytes: "Ġthe" */
    SPELLS_ESCAPED,   /* RWKV's: " the", "\xE2" */
    SPELLS_WORDPIECES /* "▁the", "ing" within words, no bytes */
};

enum { MAX_TOKENS = 1024, MAX_VALUES = 24 };
enum token_type { TOKEN_NORMAL = 1, TOKEN_UNKNOWN = 2, TOKEN_CONTROL = 3, TOKEN_USER = 4, TOKEN_BYTE = 6 };

struct vocabulary {
    enum spelling spelling;
    const char *model; /* tokenizer.ggml.model */
    struct engine_string tokens[MAX_TOKENS];
    float scores[MAX_TOKENS];
    int64_t types[MAX_TOKENS];
    size_t n_tokens, n_scores, n_types;
    struct engine_string merges[MAX_TOKENS];
    size_t n_merges;
    struct {
        const char *key;
        int64_t value;
        bool is_boolean;
    } values[MAX_VALUES];
    size_t n_values;
    char bytes[1 << 16]; /* of tokens and merges */
    size_t n_bytes;
};

/* Whether decoding restores any bytes that were encoded. */
bool vocabulary_is_lossless(const struct vocabulary *vocabulary);

/* Fills it for a kind of model: some words, all bytes if the kind has them, special tokens. */
void vocabulary_make(struct vocabulary *vocabulary, const char *model);
/* Sets a number, replacing an existing one. */
void vocabulary_set(struct vocabulary *vocabulary, const char *key, int64_t value);
/* Getters for it, valid as long as it is. */
struct engine_metadata vocabulary_metadata(struct vocabulary *vocabulary);

/* The words that it has, terminated by NULL. */
extern const char *const vocabulary_words[];

#endif
