/* pretokenize.h: tokenizer.json's pre_tokenizer, which cuts a text into the pieces that the model sees. */
#ifndef TOKENIZERS_HF_PRETOKENIZE_H
#define TOKENIZERS_HF_PRETOKENIZE_H

#include "hf/json.h"
#include "hf/pattern.h"
#include "hf/pieces.h"

enum pretokenizer_kind {
    PRETOKENIZE_BYTES,
    PRETOKENIZE_DELIMITER,
    PRETOKENIZE_DIGITS,
    PRETOKENIZE_LENGTH,
    PRETOKENIZE_METASPACE,
    PRETOKENIZE_PUNCTUATION,
    PRETOKENIZE_SPLIT,
    PRETOKENIZE_WHITESPACE,
    PRETOKENIZE_WHITESPACE_SPLIT
};

enum prepend { PREPEND_NEVER, PREPEND_FIRST, PREPEND_ALWAYS };

struct pretokenizer_step {
    enum pretokenizer_kind kind;
    enum behavior behavior;
    bool invert;
    bool use_regex;         /* PRETOKENIZE_BYTES, with `pattern` */
    enum prepend prepend;   /* PRETOKENIZE_BYTES: a space; PRETOKENIZE_METASPACE: its character */
    bool split;             /* PRETOKENIZE_METASPACE */
    uint32_t character;     /* PRETOKENIZE_DELIMITER, _METASPACE */
    size_t length;          /* PRETOKENIZE_LENGTH: characters */
    struct pattern pattern; /* PRETOKENIZE_SPLIT, PRETOKENIZE_BYTES */
};

struct pretokenizer {
    struct pretokenizer_step *steps; /* [count] */
    size_t count, capacity;
};

/* A zeroed or failed one may be destroyed. */
int pretokenizer_create(struct pretokenizer *pretokenizer, const struct json_at *json);
/* Whether a step asks which pieces come from the first character of the text. */
bool pretokenizer_marks_first(const struct pretokenizer *pretokenizer);
void pretokenizer_destroy(struct pretokenizer *pretokenizer);

int pretokenizer_apply(const struct pretokenizer *pretokenizer, struct pieces *pieces,
                       struct regex_workspace *regex);

#endif
