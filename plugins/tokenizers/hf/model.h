/* model.h: tokenizer.json's model, which turns a piece of text into ids: bpe.c, unigram.c, words.c. */
#ifndef TOKENIZERS_HF_MODEL_H
#define TOKENIZERS_HF_MODEL_H

#include "common/merge.h"
#include "common/output.h"
#include "common/pairs.h"
#include "common/vocab.h"
#include "hf/json.h"

#define UNKNOWN_MISSING (-2) /* one is named, but not there */

#define FIRST_CHARACTERS 0x400 /* those that are looked up in a table */

enum model_kind { MODEL_BPE, MODEL_UNIGRAM, MODEL_WORD_LEVEL, MODEL_WORD_PIECE };

struct model {
    enum model_kind kind;
    const struct vocab *vocab;
    uint8_t *outside; /* [vocab->n_tokens] 1: the model itself doesn't have the token */
    int32_t unknown;  /* -1: none is named; UNKNOWN_MISSING */
    int32_t bytes[256];
    bool byte_fallback;

    /* BPE */
    struct pairs pairs;                   /* of ids */
    int32_t characters[FIRST_CHARACTERS]; /* the token of a character, or -1 */
    bool fuse_unknown, whole_words;
    char *prefix, *suffix; /* of all but the first character, and of the last one; also WordPiece's prefix */
    size_t prefix_length, suffix_length;

    /* Unigram */
    double *scores; /* [vocab->n_tokens] */
    double unknown_score;

    /* WordPiece */
    uint32_t continued; /* the trie's node after the prefix, or TRIE_NONE */
    size_t most_characters;
};

/* `json` is the model of tokenizer.json without vocabulary and merges; these are in the metadata. `outside`
 * is taken over. A zeroed or failed one may be destroyed. */
int model_create(struct model *model, const struct json_at *json, const struct vocab *vocab, uint8_t *outside,
                 const struct engine_metadata *metadata);
void model_destroy(struct model *model);

/* The id of a token of the model, or -1. */
int32_t model_find(const struct model *model, const char *text, size_t length);

/* How a text is reached from its end. */
struct unigram_node {
    double score;
    size_t start; /* SIZE_MAX: not reached */
    int32_t id;
};

struct model_workspace {
    struct merge_workspace merge;
    char *spelled; /* a character with its prefix and suffix */
    size_t spelled_capacity;
    struct unigram_node *nodes; /* [bytes + 1] */
    size_t nodes_capacity;
    size_t *ends; /* of the best way's tokens, the last first */
    size_t n_ends, ends_capacity;
};
void model_workspace_free(struct model_workspace *workspace);

/* Appends the ids of a piece, which is not empty. If output->explanation is not NULL, the piece is its word,
 * and what is done is reported there. */
int model_encode(const struct model *model, struct model_workspace *workspace, struct engine_string piece,
                 struct output *output);

/* Each kind's part of these. */
int bpe_create(struct model *model, const struct json_at *json, const struct engine_metadata *metadata);
int bpe_encode(const struct model *model, struct model_workspace *workspace, struct engine_string piece,
               struct output *output);
int unigram_create(struct model *model, const struct json_at *json, const struct engine_metadata *metadata);
int unigram_encode(const struct model *model, struct model_workspace *workspace, struct engine_string piece,
                   struct output *output);
int word_piece_create(struct model *model, const struct json_at *json);
int word_piece_encode(const struct model *model, struct engine_string piece, struct output *output);

/* For a text that needs an unknown token, if there is none. */
int model_fail_unknown(void);

/* Appends an id and reports it: `text` is its part of the piece, `sum` that of a lattice or NAN. */
void model_put(struct output *output, struct engine_string text, int32_t id, double sum);

/* The same for the ids of the bytes, if byte_fallback is on and all exist. */
bool model_put_bytes(const struct model *model, struct engine_string text, double sum, struct output *output);

#endif
