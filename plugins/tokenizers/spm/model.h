/* model.h: a SentencePiece BPE vocabulary prepared for merging (symbols.c), and the text's way through it
 * (segments.c).
 *
 * Symbols are tokens under their ids, and, from n_tokens on, characters that occur in tokens without being
 * one. Two neighbours form a pair if their joined texts are a token; the higher the token's score, the lower
 * the pair's rank. A character ends where its lead byte says, whatever bytes follow. */
#ifndef TOKENIZERS_SPM_MODEL_H
#define TOKENIZERS_SPM_MODEL_H

#include "common/cache.h"
#include "common/merge.h"
#include "common/pairs.h"
#include "common/tokenizer.h"

#define SPM_NO_SYMBOL ((uint32_t)-1)

/* A character's bytes, the first lowest; those beyond its length are 0. */
static inline uint32_t spm_character(const char *text, size_t length)
{
    uint32_t character = 0;
    for (size_t i = 0; i < length; i++) character |= (uint32_t)(unsigned char)text[i] << 8 * i;
    return character;
}

struct spm_symbol {
    uint64_t key; /* length << 32 | character; 0: empty slot */
    uint32_t symbol;
};

struct spm_model {
    struct pairs pairs;
    uint32_t ascii[128];        /* symbols of one-byte characters, SPM_NO_SYMBOL for those in no token */
    struct spm_symbol *symbols; /* [symbols_mask + 1] those of the others, a hash table at most half full */
    size_t symbols_mask;
    uint32_t n_symbols;   /* including the characters that are no tokens */
    uint64_t *characters; /* [n_symbols - n_tokens] length << 32 | character */
    size_t characters_capacity;
    int32_t byte_tokens[256]; /* unknown token if the vocabulary has none for the byte */
    bool has_byte[256];
    /* The characters that are adjacent in any token. Bit hash(a, b) is set if a, b are; another couple may
     * set the same bit. If it isn't set, nothing can ever merge across, so words end there. */
    uint64_t *joined; /* [1 << (joined_bits - 6)] */
    unsigned joined_bits;
};

static inline bool spm_joined(const struct spm_model *model, uint32_t a, uint32_t b)
{
    uint64_t hash = (((uint64_t)a << 32 | b) * 0x9E3779B97F4A7C15u) >> (64 - model->joined_bits);
    return model->joined[hash / 64] >> hash % 64 & 1;
}

/* The symbol of a character, or SPM_NO_SYMBOL. */
static inline uint32_t spm_symbol_of(const struct spm_model *model, uint32_t character, size_t length)
{
    if (length == 1 && character < 128) return model->ascii[character];
    uint64_t key = (uint64_t)length << 32 | character;
    size_t i = (key * 0x9E3779B97F4A7C15u) >> 32 & model->symbols_mask;
    while (model->symbols[i].key && model->symbols[i].key != key) i = (i + 1) & model->symbols_mask;
    return model->symbols[i].key ? model->symbols[i].symbol : SPM_NO_SYMBOL;
}

/* tokenizer_kind's functions. */
int spm_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata);
void spm_destroy(struct engine_tokenizer *tokenizer);
int spm_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch);
void spm_scratch_destroy(void *scratch);
int spm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output);

#endif
