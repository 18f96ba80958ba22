/* pretokenizers.h: how texts are cut into words before merging, by tokenizer.ggml.pre. */
#ifndef TOKENIZERS_BPE_PRETOKENIZERS_H
#define TOKENIZERS_BPE_PRETOKENIZERS_H

#include "bpe/expressions.h"
#include "plugin-api.h"

enum pretokenizer_flags {
    PRE_WHOLE_WORDS = 1, /* a word that is a token is taken as it is, without merging */
    PRE_ADD_BOS = 2,     /* texts begin with BOS unless the metadata say otherwise */
    PRE_NO_BOS = 4       /* there is no BOS unless the metadata name one */
};

struct pretokenizer {
    const char *names; /* blanks between them */
    unsigned flags;    /* enum pretokenizer_flags */
    const char *expressions[MAX_EXPRESSIONS + 1];
};

/* The one of a name; NULL if no model has it. */
const struct pretokenizer *pretokenizer_find(struct engine_string name);

/* All of them, ended by NULL: for tests. */
const struct pretokenizer *pretokenizer_at(size_t index);

#endif
