/* vocab.h: a vocabulary from the model's metadata, checked: the facts about tokens that all tokenizers
 * need. */
#ifndef TOKENIZERS_COMMON_VOCAB_H
#define TOKENIZERS_COMMON_VOCAB_H

#include "common/trie.h"
#include "plugin-api.h"

/* Attributes in addition to those of enum engine_token_attributes, for the plugins alone. */
enum vocab_attributes {
    VOCAB_NORMAL = 1 << 16,      /* plain text */
    VOCAB_STRIP_LEFT = 1 << 17,  /* white space before it in a text belongs to it */
    VOCAB_STRIP_RIGHT = 1 << 18, /* so does white space after it */
    VOCAB_PUBLIC = 0xFFFF        /* mask of those that the engine defines */
};

/* The defaults where the metadata say nothing. Ids are -1 for none; ids beyond the vocabulary count as
 * none. */
struct vocab_defaults {
    int32_t bos, eos, unknown, separator, padding;
    bool add_bos, add_eos, add_separator, add_space_prefix;
    const char *tokens; /* an array to be read instead of tokenizer.ggml.tokens if it is there, or NULL */
};

struct vocab {
    uint32_t n_tokens;
    struct engine_string *pieces; /* [n_tokens]; never empty */
    uint32_t *attributes;         /* [n_tokens] */
    float *scores;                /* [n_tokens], no NaN among them */
    struct trie ids;              /* piece -> id */
    char *names;                  /* text of the pieces that are empty in the file */

    int32_t bos, eos, unknown, separator, padding; /* -1 for none, as are those that follow */
    int32_t end_of_turn, end_of_message;
    int32_t fill_prefix, fill_suffix, fill_middle, fill_padding, fill_repository, fill_separator;
    bool add_bos, add_eos, add_separator, add_space_prefix;
};

/* Reads and checks. ENGINE_ERROR_DATA, ENGINE_ERROR_MEMORY; *vocab may be passed to vocab_close either
 * way. */
int vocab_open(struct vocab *vocab, const struct engine_metadata *metadata,
               const struct vocab_defaults *defaults);
void vocab_close(struct vocab *vocab);

/* The id of a piece, or -1. */
int32_t vocab_find(const struct vocab *vocab, const char *piece, size_t length);

/* The byte that a piece like "<0x0A>" represents, or -1. */
int vocab_byte(struct engine_string piece);

/* For each byte the token that represents it: the one spelled "<0x0A>", otherwise the one that is that single
 * byte, otherwise -1. */
void vocab_byte_tokens(const struct vocab *vocab, int32_t tokens[256]);

/* marks.c: finds special tokens by their spelling, sets ENGINE_TOKEN_END, and per-model strip flags. Called
 * by vocab_open once pieces, types and ids are read. */
void vocab_mark_special(struct vocab *vocab, const struct engine_metadata *metadata);

#endif
