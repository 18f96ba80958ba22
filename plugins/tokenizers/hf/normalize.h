/* normalize.h: what tokenizer.json's normalizer does with a text before it is cut. */
#ifndef TOKENIZERS_HF_NORMALIZE_H
#define TOKENIZERS_HF_NORMALIZE_H

#include "common/charsmap.h"
#include "hf/characters.h"
#include "hf/forms.h"
#include "hf/json.h"
#include "hf/pattern.h"

enum normalizer_kind {
    NORMALIZE_BERT,
    NORMALIZE_BYTES,
    NORMALIZE_FORM,
    NORMALIZE_LOWERCASE,
    NORMALIZE_NMT,
    NORMALIZE_PRECOMPILED,
    NORMALIZE_PREPEND,
    NORMALIZE_REPLACE,
    NORMALIZE_STRIP,
    NORMALIZE_STRIP_ACCENTS
};

struct normalizer_step {
    enum normalizer_kind kind;
    enum form form;
    bool clean, space_chinese, strip_accents, lowercase; /* NORMALIZE_BERT */
    bool left, right;                                    /* NORMALIZE_STRIP */
    char *content;                                       /* [content_length] NORMALIZE_PREPEND, _REPLACE */
    size_t content_length;
    struct pattern pattern; /* NORMALIZE_REPLACE */
};

struct normalizer {
    struct normalizer_step *steps; /* [count] */
    size_t count, capacity;
    struct charsmap charsmap; /* of all NORMALIZE_PRECOMPILED */
};

/* The normalizer of tokenizer.json, or null; the bytes of a character map are in `charsmap` and must outlive
 * it. A zeroed or failed one may be destroyed. */
int normalizer_create(struct normalizer *normalizer, const struct json_at *json,
                      struct engine_string charsmap);
void normalizer_destroy(struct normalizer *normalizer);

/* Zeroed at first, except `regex`. `cut` is about the last text. */
struct normalizer_workspace {
    struct text_buffer texts[2];
    struct forms_workspace forms;
    struct regex_workspace *regex; /* the encoder's */
    bool cut;                      /* the beginning of the text was taken away */
    size_t most;                   /* bytes that replacements may make of the text */
};
void normalizer_workspace_free(struct normalizer_workspace *workspace);

/* *result lies in the workspace, or is the text itself. */
int normalizer_apply(const struct normalizer *normalizer, struct normalizer_workspace *workspace,
                     struct engine_string text, struct engine_string *result);

#endif
