/* pipeline.h: a tokenizer.json ready for use:
 *
 *   text ── added.c ── normalize.c ── added.c ── pretokenize.c ── model.h ──▶ ids, with the post-processor's
 *   ids  ── decode.c ──▶ text
 *
 * The metadata have tokenizer.json in parts: the vocabulary under GGUF's names (tokenizer.ggml.tokens,
 * .token_type, .scores, .precompiled_charsmap), merges as numbers (tokenizer.hf.merges), scores that float32
 * does not hold (tokenizer.hf.scores), and the rest as JSON (tokenizer.hf.json). */
#ifndef TOKENIZERS_HF_PIPELINE_H
#define TOKENIZERS_HF_PIPELINE_H

#include <stdatomic.h>

#include "common/tokenizer.h"
#include "hf/added.h"
#include "hf/model.h"
#include "hf/normalize.h"
#include "hf/pretokenize.h"

enum token_flags {
    TOKEN_ADDED = 1,   /* one of added_tokens */
    TOKEN_SPECIAL = 2, /* whose "special" is true; bytes don't count */
    TOKEN_NOTHING = 4  /* in neither vocabulary: it has no text */
};

enum decoding_kind {
    DECODE_BPE,
    DECODE_BYTE_FALLBACK,
    DECODE_BYTES,
    DECODE_JOIN, /* no decoder: tokens with spaces between them */
    DECODE_METASPACE,
    DECODE_REPLACE,
    DECODE_STRIP,
    DECODE_WORD_PIECE
};

struct decoding_step {
    enum decoding_kind kind;
    bool fused;         /* it works on the whole text */
    bool drop_first;    /* DECODE_METASPACE: no spaces in the first token */
    bool cleanup;       /* DECODE_WORD_PIECE */
    uint32_t character; /* DECODE_METASPACE, DECODE_STRIP */
    size_t start, stop; /* DECODE_STRIP: most characters */
    char *content;      /* [content_length] DECODE_REPLACE; suffix or prefix of BPE and WordPiece */
    size_t content_length;
    struct pattern pattern; /* DECODE_REPLACE */
};

struct decoding {
    struct decoding_step *steps; /* [count] */
    size_t count, capacity;
};

struct id_list {
    int32_t *ids; /* [count] */
    size_t count, capacity;
};

struct pipeline {
    struct added added;
    struct normalizer normalizer;
    struct pretokenizer pretokenizer;
    struct model model;
    struct decoding decoding;
    struct id_list before, after; /* what the post-processor adds around a text */
    uint8_t *flags;               /* [n_tokens] enum token_flags */
};

/* Makes tokenizer->model, a struct pipeline, from the vocabulary and the metadata. */
int pipeline_create(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata);
void pipeline_destroy(struct pipeline *pipeline);

static inline const struct pipeline *pipeline_of(const struct engine_tokenizer *tokenizer)
{
    return tokenizer->model;
}

/* encode.c: what one call of encode works in; the last one to finish leaves it for the next. */
struct workspace;
void workspace_destroy(struct workspace *workspace);

/* decode.c */
int decoding_create(struct decoding *decoding, const struct json_at *json);
void decoding_destroy(struct decoding *decoding);

/* For struct engine_tokenizer_api. */
int hf_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
              engine_token_sink sink, void *user);
int hf_explain(const struct engine_tokenizer *tokenizer, const char *text, size_t length, uint32_t flags,
               engine_explain_sink sink, void *user);
int hf_decoder_create(const struct engine_tokenizer *tokenizer, int special, struct engine_decoder **decoder);
void hf_decoder_destroy(struct engine_decoder *decoder);
int hf_decode(struct engine_decoder *decoder, int32_t id, struct engine_string *text);
int hf_decode_end(struct engine_decoder *decoder, struct engine_string *text);

#endif
