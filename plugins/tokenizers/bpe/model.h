/* model.h: a byte-level BPE vocabulary made ready for merging (model.c), and the text's way through it
 * (encode.c). Vocabularies write each byte as a character (bytes.c); in here tokens are their bytes. */
#ifndef TOKENIZERS_BPE_MODEL_H
#define TOKENIZERS_BPE_MODEL_H

#include "bpe/expressions.h"
#include "common/pairs.h"
#include "common/tokenizer.h"

/* Symbols 0 to 255 are the single bytes; then whatever merges name, and all tokens. */
struct bpe_model {
    struct expressions expressions;
    struct pairs pairs;  /* rank: place among the merges */
    struct trie symbols; /* bytes -> symbol */
    int32_t *tokens;     /* [n_symbols] ids, -1 for symbols that are no tokens */
    uint32_t n_symbols;
    size_t tokens_capacity;
    bool whole_words; /* a word that is a token is not merged */
};

/* bytes.c: GPT-2's way to write bytes as printable characters. Those that are printable in Latin-1 stand for
 * themselves, the others are U+0100 and on, in order. */

/* The character of a byte. */
uint32_t byte_to_character(unsigned char byte);
/* The bytes that a piece's characters stand for; `bytes` has room for piece.length. Returns their number, or
 * SIZE_MAX if one of the characters stands for no byte. */
size_t piece_to_bytes(struct engine_string piece, char *bytes);
/* The same, but characters that stand for no byte stay as they are. */
size_t spell_piece(struct engine_string piece, char *bytes);

/* tokenizer_kind's functions. */
int bpe_defaults(const struct engine_metadata *metadata, struct vocab_defaults *defaults);
int bpe_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata);
void bpe_destroy(struct engine_tokenizer *tokenizer);
int bpe_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch);
void bpe_scratch_destroy(void *scratch);
int bpe_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output);

#endif
