/* tokenizer-parts.h: a tokenizer on its way from a directory's files to metadata, for the tokenizer-*.c
 * files:
 *
 *   tokenizer-files.c    which files; those without tokenizer.json become a value like its own
 *   tokenizer-scan.c     takes the merges and the vocabulary out of tokenizer.json's text
 *   tokenizer-json.c     tokenizer.json's vocabulary, merges and added tokens
 *   sentencepiece.c      tokenizer.model
 *   tokenizer-config.c   special tokens, chat templates, sampling
 *   tokenizer-names.c    GGUF's names for it
 *   tokenizer.c          all of it, and the metadata */
#ifndef ENGINE_MODEL_HF_TOKENIZER_PARTS_H
#define ENGINE_MODEL_HF_TOKENIZER_PARTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/metadata.h"
#include "plugin-api.h"

#define HF_TOKENS_MAX   (1u << 22) /* ids */
#define HF_JSON_MAX     (256u << 20)
#define HF_JSON_DEPTH   128
#define HF_TEMPLATE_MAX (4u << 20)

/* tokenizer.ggml.token_type */
enum hf_token_type {
    HF_TOKEN_NONE, /* not yet known */
    HF_TOKEN_NORMAL,
    HF_TOKEN_UNKNOWN,
    HF_TOKEN_CONTROL,
    HF_TOKEN_USER_DEFINED,
    HF_TOKEN_UNUSED,
    HF_TOKEN_BYTE
};

/* Merges that were taken out of the text. */
struct hf_merges {
    bool taken;                       /* false: those of the JSON count */
    struct engine_string (*pairs)[2]; /* [n]: left, right */
    size_t n;
    char *text; /* theirs */
};

/* A word of the vocabulary; of a list's, the id is its place. */
struct hf_word {
    struct engine_string text;
    int64_t id; /* -1: it has none that is a whole number */
};

/* The vocabulary's words in its order, found by a table of their hashes. */
struct hf_words {
    bool taken; /* out of the text: the JSON has none */
    struct hf_word *items;
    size_t n;
    uint32_t *slots; /* [mask + 1]: 1 + number of a word; 0: none */
    size_t mask;
    uint64_t seed;
    char *text; /* of the words, if they were taken */
};

/* What was taken out of the text of a tokenizer.json. */
struct hf_taken {
    struct hf_merges merges;
    struct hf_words words;
};

struct hf_tokenizer {
    const char *directory;
    const char *file; /* of the vocabulary, for messages */
    struct metadata *metadata;

    json_t *config;     /* tokenizer_config.json, or NULL */
    json_t *map;        /* special_tokens_map.json */
    json_t *generation; /* generation_config.json */
    json_t *model;      /* config.json */

    /* The vocabulary: memory of the metadata */
    uint32_t n_tokens;
    struct engine_string *tokens; /* [n_tokens] */
    int32_t *types;               /* [n_tokens] enum hf_token_type */
    double *scores;               /* [n_tokens], or NULL */
    uint32_t *merges;             /* [3 * n_merges] left, right, result */
    size_t n_merges;
    struct hf_taken taken;   /* until the merges are read */
    const uint8_t *charsmap; /* [charsmap_size], or NULL */
    size_t charsmap_size;
    int64_t bos, eos, unknown, padding; /* ids that tokenizer.model names; -1: none */
    const char *kind; /* tokenizer.ggml.model, if another program than the engine can use it, or NULL */
    const char *pre;  /* tokenizer.ggml.pre, or NULL */
    bool marks_words; /* GGUF marks tokens at the beginning of a word, tokenizer.json all others: BERT's */
    bool lowers_case; /* its normalizer does */
    int add_bos, add_eos;         /* 0 and 1; -1: nothing is known */
    int add_sep;                  /* two special tokens part a pair of texts; the same */
    int add_space_prefix;         /* the same */
    int remove_extra_whitespaces; /* the same */
    json_t *description;          /* tokenizer.hf.json, or NULL: the plugin for `kind` is to be used */
};

/* ENGINE_ERROR_DATA or ENGINE_ERROR_UNSUPPORTED: "DIRECTORY/FILE: …". */
int hf_tokenizer_fail(const struct hf_tokenizer *tokenizer, int status, const char *format, ...)
    ENGINE_PRINTF(3, 4);

/* DIRECTORY/NAME in new memory, NULL if there is none left. */
char *hf_tokenizer_path(const char *directory, const char *name);

/* Reads a file of JSON if it is there; *json is NULL if not. Refuses files of more than HF_JSON_MAX bytes, or
 * deeper than HF_JSON_DEPTH, or with the same key twice. */
int hf_tokenizer_json(const char *directory, const char *name, json_t **json);

/* Reads a file if it is there, as memory of the metadata; *text is NULL if not. */
int hf_tokenizer_text(const struct hf_tokenizer *tokenizer, const char *name, uint64_t limit,
                      const char **text, size_t *length);

/* The same of a tokenizer.json, whose merges and vocabulary may be taken out: they are then empty in
 * *json. The caller frees them. */
int hf_tokenizer_json_taking(const char *directory, const char *name, struct hf_taken *taken, json_t **json);

void hf_tokenizer_taken_free(struct hf_taken *taken);

/* tokenizer-scan.c: the text without its merges, of *rest bytes, which the caller frees, or NULL: they
 * stay there. */
char *hf_merges_take(const char *text, size_t size, size_t *rest, struct hf_merges *merges);
void hf_merges_free(struct hf_merges *merges);

/* The same of the vocabulary, if it is an object of texts and whole numbers. */
char *hf_words_take(const char *text, size_t size, size_t *rest, struct hf_words *words);
/* Lists those of an object, or of an array of pairs, while that lives; false if memory is out. */
bool hf_words_list(json_t *vocabulary, struct hf_words *words);
/* The id of a word, of equal ones the last; -1: it isn't there. */
int64_t hf_words_find(const struct hf_words *words, const char *text, size_t length);
void hf_words_free(struct hf_words *words);

/* tokenizer-files.c: opens tokenizer.json, or makes its like of the other files; *root is NULL if the
 * vocabulary is tokenizer.model's, or there is none. */
int hf_tokenizer_open(struct hf_tokenizer *tokenizer, json_t **root);

/* tokenizer-json.c: fills the vocabulary and the description; `root` is changed. */
int hf_tokenizer_take_json(struct hf_tokenizer *tokenizer, json_t *root);

/* sentencepiece.c: fills the vocabulary. *found: whether there is a tokenizer.model. */
int hf_sentencepiece_read(struct hf_tokenizer *tokenizer, bool *found);

/* tokenizer-names.c: sets kind, pre, and scores for BPE with byte fallback. */
void hf_tokenizer_name(struct hf_tokenizer *tokenizer, const json_t *root);

/* tokenizer-config.c: adds special ids, templates and sampling to the metadata. */
int hf_tokenizer_configure(struct hf_tokenizer *tokenizer);
/* Of a directory without a tokenizer, whose embedding has so many rows: the tokens that end texts. */
int hf_tokenizer_add_ends(struct hf_tokenizer *tokenizer, uint64_t n_tokens);
int hf_tokenizer_add_templates(struct hf_tokenizer *tokenizer);
int hf_tokenizer_add_sampling(struct hf_tokenizer *tokenizer);

/* The text of a special token's value in tokenizer_config.json or special_tokens_map.json, or NULL. */
const char *hf_tokenizer_special(const struct hf_tokenizer *tokenizer, const char *name);
/* The id of a spelling; -1: there is none. */
int64_t hf_tokenizer_find(const struct hf_tokenizer *tokenizer, const char *text, size_t length);

/* ---- Plain values in a JSON text, for those that Jansson would take long for: tokenizer-scan.c --------- */

struct scan {
    const char *at, *end;
};

void scan_space(struct scan *c);

/* Skips white space, and takes a character if it is the next. */
bool scan_take(struct scan *c, char wanted);

/* From the beginning of an object to the value of a key that is spelled so. */
bool scan_enter(struct scan *c, const char *key);

/* A string, written to *to, which has room for as many bytes as the text. False if it is none, or has an
 * escape of U+0000 or of half a pair. Nothing shows that it is UTF-8. */
bool scan_string(struct scan *c, char **to, struct engine_string *string);

/* The text with the part between `first` and c->at replaced, of *rest bytes, which the caller frees; or
 * NULL. */
char *scan_without(const char *text, size_t first, const struct scan *c, const char *instead, size_t *rest);

#endif
