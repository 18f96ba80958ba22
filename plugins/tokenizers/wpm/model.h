/* model.h: a prepared WordPiece vocabulary.
 *
 *   text ── characters.c: each lower-cased, without accents ── words.c: words, punctuation ── longest.c ──▶
 *   ids */
#ifndef TOKENIZERS_WPM_MODEL_H
#define TOKENIZERS_WPM_MODEL_H

#include "common/longest.h"
#include "common/tokenizer.h"

/* The role of a character in a text. */
enum wpm_role {
    WPM_PART,  /* of a word */
    WPM_ALONE, /* a word by itself: punctuation, ASCII symbols, Chinese characters */
    WPM_SPACE, /* ends a word */
    WPM_GONE   /* dropped: control characters, accents */
};

struct wpm_model {
    struct longest longest; /* unknown bytes are tokens of value vocab.n_tokens */
    uint8_t *roles;         /* [UNICODE_SIZE] enum wpm_role */
    bool lowercase, strip_accents;
};

/* characters.c: fills in `roles`. ENGINE_ERROR_MEMORY. */
int wpm_assign_roles(struct wpm_model *model);
/* Reads the character at `text`; returns its length and writes its normalized form, in UTF-8: *out_length
 * bytes. */
size_t wpm_read(const struct wpm_model *model, const char *text, size_t left, enum wpm_role *role,
                char out[4], size_t *out_length);

/* words.c: tokenizer_kind's functions. */
int wpm_scratch_create(const struct engine_tokenizer *tokenizer, void **scratch);
void wpm_scratch_destroy(void *scratch);
int wpm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output);

#endif
