/* recipe.h: vocabularies written down as lines, for fuzzing and for its corpora, which so can be read and
 * edited:
 *
 *   p NAME               the plugin: spm (which it is without this line), bpe, ugm, wpm, rwkv
 *   t TYPE SCORE TEXT    a token; TYPE as in tokenizer.ggml.token_type
 *   < TYPE, # TYPE       256 tokens: <0x00> to <0xFF>; bytes as GPT-2 spells them
 *   m LEFT RIGHT         a merge
 *   c BYTES              the character map
 *   s KEY VALUE          metadata: a string, i: an integer, b: a boolean (0 or 1); a key without a dot begins
 *                        with "tokenizer.ggml."
 *   n SCORES TYPES       what the metadata say how many scores and types there are; -1: none
 *   x TEXT               a text to encode
 *
 * \n, \\ and \xHH stand for bytes. What is no such line is left aside. */
#ifndef TESTS_FUZZ_RECIPE_H
#define TESTS_FUZZ_RECIPE_H

#include <stddef.h>
#include <stdint.h>

#include "plugin-api.h"

struct recipe_value {
    char kind; /* s, i or b */
    char key[64];
    struct engine_string string;
    int64_t number;
};

struct recipe {
    char plugin[8];
    struct engine_string *tokens; /* [n_tokens] */
    float *scores;                /* [n_tokens] */
    int64_t *types;               /* [n_tokens] */
    size_t n_tokens;
    int64_t n_scores, n_types;    /* as the metadata say */
    struct engine_string *merges; /* [n_merges] */
    size_t n_merges;
    struct engine_string charsmap;
    struct recipe_value values[32]; /* a later one of a key counts */
    size_t n_values;
    struct engine_string *texts; /* [n_texts] */
    size_t n_texts;
    char *bytes; /* what all strings point into */
};

/* Never fails: any bytes are a recipe. Aborts without memory. */
struct recipe *recipe_read(const uint8_t *data, size_t size);
void recipe_free(struct recipe *recipe);

/* Adds a value, which must outlive the recipe. */
void recipe_set(struct recipe *recipe, const char *key, const char *value);

/* Getters over it. */
struct engine_metadata recipe_metadata(struct recipe *recipe);

#endif
