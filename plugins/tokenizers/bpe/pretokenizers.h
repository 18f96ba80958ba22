/* pretokenizers.h: how tokenizer.ggml.pre cuts texts into words before merging. */
#ifndef TOKENIZERS_BPE_PRETOKENIZERS_H
#define TOKENIZERS_BPE_PRETOKENIZERS_H

#include "bpe/expressions.h"
#include "plugin-api.h"

enum pretokenizer_flags {
    PRE_WHOLE_WORDS = 1, /* a word that is a token is taken as it is, without merging */
    PRE_ADD_BOS = 2,     /* texts begin with BOS unless the metadata say otherwise */
    PRE_NO_BOS = 4,      /* there is no BOS unless the metadata name one */
    PRE_ALWAYS_BOS = 8,  /* texts begin with BOS even if the metadata say otherwise */
    PRE_CHARACTERS =
        16, /* not byte-level: tokens are spelled as they are, U+2581 for a space; words are lines */
    PRE_WHOLE_BREAKS = 32, /* a run of line breaks that is a token is taken as it is */
    PRE_MARKED_WORDS =
        64 /* with PRE_CHARACTERS: each space begins a word, and so does a line, with a space */
};

struct pretokenizer {
    const char *names; /* blanks between them */
    unsigned flags;    /* enum pretokenizer_flags */
    const char *expressions[MAX_EXPRESSIONS + 1];
};

/* The pre-tokenizer of a name; NULL if no model uses that name. */
const struct pretokenizer *pretokenizer_find(struct engine_string name);

/* All of them, ended by NULL: for tests. */
const struct pretokenizer *pretokenizer_at(size_t index);

#endif
