/* token-texts.h: the bytes that each token of a vocabulary adds in the middle of a text. */
#ifndef ENGINE_VOCABULARY_TOKEN_TEXTS_H
#define ENGINE_VOCABULARY_TOKEN_TEXTS_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

struct token_texts {
    const struct engine_tokenizer_api *api;
    struct engine_tokenizer *tokenizer;
    uint32_t n_tokens;
    size_t *ends; /* [n_tokens] where each text ends in `bytes`, and the next one begins */
    char *bytes;
};

/* Asks the tokenizer for all of them. It must outlive them. Returns an enum engine_status. */
int token_texts_create(const struct engine_tokenizer_api *api, struct engine_tokenizer *tokenizer,
                       struct token_texts **texts);
void token_texts_destroy(struct token_texts *texts);

/* Control tokens and the unknown token as they are spelled. Empty for ids that do not exist. */
struct engine_string token_text(const struct token_texts *texts, int32_t id);
/* Whether the token leaves no text in an answer, because it is a control token or the unknown one. */
int token_is_hidden(const struct token_texts *texts, int32_t id);

/* A model's metadata as its tokenizer sees them: with what the family says of white space (arch/arch.h). */
struct metadata;
void tokenizer_metadata(const struct metadata *metadata, struct engine_metadata *getters);

/* The texts of a model's tokens, made when they are first wanted. Any thread, once the tokenizer is open. */
struct engine_model;
int model_token_texts(struct engine_model *model, const struct token_texts **texts);

#endif
