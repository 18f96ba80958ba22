/* tokenizer.h: the common part of all tokenizers: the functions of plugin-api.h, over a table of the
 * differences.
 *
 *   text ── special.c: cut at special tokens ── kind->encode: each stretch between them ── output.c ──▶ ids
 *   ids  ── decoder.c, kind->spell ──▶ text */
#ifndef TOKENIZERS_COMMON_TOKENIZER_H
#define TOKENIZERS_COMMON_TOKENIZER_H

#include "common/output.h"
#include "common/special.h"
#include "common/vocab.h"
#include "plugin-api.h"

struct tokenizer_kind {
    /* The defaults where the metadata say nothing; *defaults is all none and no at first. */
    int (*defaults)(const struct engine_metadata *metadata, struct vocab_defaults *defaults);
    /* Makes tokenizer->model from tokenizer->vocab and the metadata. */
    int (*create)(struct engine_tokenizer *tokenizer, const struct engine_metadata *metadata);
    /* Frees tokenizer->model, including one that `create` failed to finish, or NULL. */
    void (*destroy)(struct engine_tokenizer *tokenizer);
    /* Memory to work in, for one call at a time; kept from call to call. */
    int (*scratch_create)(const struct engine_tokenizer *tokenizer, void **scratch);
    void (*scratch_destroy)(void *scratch); /* NULL is fine */
    /* A stretch of text without special tokens, never empty. `first`: nothing, or a special token, precedes
     * it. May stop early once output->stopped is set. Reports to output->explanation unless that is NULL. */
    int (*encode)(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text,
                  bool first, struct output *output);
    /* Writes the text of an ordinary token, at most as long as its piece; returns its length. */
    size_t (*spell)(const struct engine_tokenizer *tokenizer, int32_t id, char *text);
    bool marks_spaces; /* spaces are written as U+2581 */
};

struct engine_tokenizer {
    const struct tokenizer_kind *kind;
    struct vocab vocab;
    struct special_set always; /* tokens found in every text: user-defined ones */
    struct special_set all;    /* and those found with ENGINE_ENCODE_SPECIAL */
    void *model;               /* owned by the kind */
    void *_Atomic idle;        /* a struct workspace that is not in use, or NULL */
};

/* For struct engine_tokenizer_api, except `create`, which names the kind. */
int tokenizer_create(const struct tokenizer_kind *kind, const struct engine_metadata *metadata,
                     struct engine_tokenizer **tokenizer);
void tokenizer_destroy(struct engine_tokenizer *tokenizer);
int tokenizer_info(const struct engine_tokenizer *tokenizer, struct engine_tokenizer_info *info);
int tokenizer_encode(const struct engine_tokenizer *tokenizer, const char *text, size_t length,
                     uint32_t flags, engine_token_sink sink, void *user);
int tokenizer_explain(const struct engine_tokenizer *tokenizer, const char *text, size_t length,
                      uint32_t flags, engine_explain_sink sink, void *user);
int tokenizer_piece(const struct engine_tokenizer *tokenizer, int32_t id, struct engine_string *piece);
uint32_t tokenizer_attributes(const struct engine_tokenizer *tokenizer, int32_t id);

#endif
