/* added.h: tokenizer.json's added tokens, which are found in a text before or after it is normalized. */
#ifndef TOKENIZERS_HF_ADDED_H
#define TOKENIZERS_HF_ADDED_H

#include "common/trie.h"
#include "hf/json.h"
#include "hf/normalize.h"

struct added_token {
    int32_t id;
    bool special, single_word, strip_left, strip_right;
};

/* Those found before, or those found after. */
struct added_set {
    struct trie trie; /* content -> index in `tokens` */
    struct added_token *tokens;
    size_t count, capacity;
    bool begins[256]; /* bytes that any of them begins with */
};

/* A token whose content is normalized, and so other than in the vocabulary. */
struct added_spelling {
    int32_t id;
    char *text; /* [length] */
    size_t length;
};

struct added {
    struct added_set sets[2];         /* 0: found in the text as it is; 1: in the normalized text */
    struct added_spelling *spellings; /* [n_spellings] */
    size_t n_spellings, spellings_capacity;
};

/* `json` is the array added_tokens, or null. A zeroed or failed one may be destroyed. */
int added_create(struct added *added, const struct json_at *json, uint32_t n_tokens,
                 const struct normalizer *normalizer, struct normalizer_workspace *workspace);
void added_destroy(struct added *added);

/* The text of an added token, which is `content` in the vocabulary. */
struct engine_string added_spelling(const struct added *added, int32_t id, struct engine_string content);

/* Receives the parts of a text in order, never empty, which are all of it: plain text (id -1), or a token. */
typedef int (*added_visit)(void *user, struct engine_string text, int32_t id);

/* `special`: also tokens that are special; their text is plain otherwise. */
int added_split(const struct added_set *set, struct engine_string text, bool special, added_visit visit,
                void *user);

#endif
