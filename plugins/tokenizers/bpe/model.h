/* model.h: a BPE vocabulary prepared for merging (model.c), and the text's way through it (encode.c).
 *
 * Most vocabularies are byte-level: they write each byte as a character (bytes.c), and merging starts from
 * bytes; in the model tokens are their bytes. Others (Gemma 4) are spelled as they are, except for U+2581 as
 * a space, and merging starts from characters. */
#ifndef TOKENIZERS_BPE_MODEL_H
#define TOKENIZERS_BPE_MODEL_H

#include "bpe/expressions.h"
#include "common/cache.h"
#include "common/classes.h"
#include "common/merge.h"
#include "common/pairs.h"
#include "common/tokenizer.h"

/* Symbols 0 to 255 are the single bytes; then all symbols that merges name, and all tokens. */
struct bpe_model {
    struct expressions expressions;
    struct pairs pairs;  /* rank: place among the merges */
    struct trie symbols; /* bytes -> symbol */
    int32_t *tokens;     /* [n_symbols] ids, -1 for symbols that are no tokens */
    uint32_t n_symbols;
    size_t tokens_capacity;
    unsigned flags;           /* enum pretokenizer_flags */
    int32_t byte_tokens[256]; /* with PRE_CHARACTERS: for the bytes of characters that are no tokens, or -1 */
};

/* bytes.c: see common/byte-level.h. */

/* The bytes that a piece's characters represent; `bytes` has room for piece.length. Returns their number, or
 * SIZE_MAX if one of the characters represents no byte. */
size_t piece_to_bytes(struct engine_string piece, char *bytes);
/* The same, but characters that represent no byte stay as they are. */
size_t spell_piece(struct engine_string piece, char *bytes);

/* tokenizer_kind's functions. */
int bpe_defaults(const struct engine_metadata *metadata, struct vocab_defaults *defaults);
int bpe_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata);
void bpe_destroy(struct engine_tokenizer *tokenizer);
int bpe_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch);
void bpe_scratch_destroy(void *scratch);
int bpe_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output);

/* The token of a symbol, or -1. */
int32_t bpe_id_of(const struct engine_tokenizer *tokenizer, uint32_t symbol);

/* The memory of encoding. */
struct bpe_scratch {
    struct cache cache;
    struct merge_workspace merge;
    struct expressions_workspace expressions;
    struct class_text words;
    char *text; /* with PRE_CHARACTERS: as the vocabulary spells it */
    size_t text_capacity;
};

/* characters.c: bpe_encode for PRE_CHARACTERS. */
int bpe_encode_characters(const struct engine_tokenizer *tokenizer, struct bpe_scratch *scratch,
                          struct engine_string text, struct output *output);

#endif
