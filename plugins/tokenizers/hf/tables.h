/* tables.h: facts about characters, as Hugging Face's tokenizers see them; their parts follow different
 * versions of Unicode. Written by tools/hf/unicode-tables into tables.c. */
#ifndef TOKENIZERS_HF_TABLES_H
#define TOKENIZERS_HF_TABLES_H

#include <stddef.h>
#include <stdint.h>

/* General categories of Unicode 16, in the tool's order: the first code point of each run << 5 | category. */
enum category {
    CATEGORY_CN,
    CATEGORY_CC,
    CATEGORY_CF,
    CATEGORY_CO,
    CATEGORY_CS,
    CATEGORY_LL,
    CATEGORY_LM,
    CATEGORY_LO,
    CATEGORY_LT,
    CATEGORY_LU,
    CATEGORY_MC,
    CATEGORY_ME,
    CATEGORY_MN,
    CATEGORY_ND,
    CATEGORY_NL,
    CATEGORY_NO,
    CATEGORY_PC,
    CATEGORY_PD,
    CATEGORY_PE,
    CATEGORY_PF,
    CATEGORY_PI,
    CATEGORY_PO,
    CATEGORY_PS,
    CATEGORY_SC,
    CATEGORY_SK,
    CATEGORY_SM,
    CATEGORY_SO,
    CATEGORY_ZL,
    CATEGORY_ZP,
    CATEGORY_ZS,
    N_CATEGORIES
};
extern const uint32_t category_runs[];
extern const size_t n_category_runs;

/* Runs of scripts: first, last, index of the script in the order of sets.c. */
extern const uint32_t script_runs[];
extern const size_t n_script_runs;

/* Sets of characters: first and last of each run, ascending. */
extern const uint32_t word_characters[];        /* \w of Oniguruma */
extern const uint32_t word_differences[];       /* characters in which \w of Rust's expressions differs */
extern const uint32_t numeric_characters[];     /* N */
extern const uint32_t punctuation_characters[]; /* ASCII's, and P of an old Unicode */
extern const uint32_t unclean_characters[];     /* what BertNormalizer's clean_text takes out */
extern const uint32_t nonspacing_characters[];  /* what its strip_accents takes out */
extern const uint32_t combining_characters[];   /* what StripAccents takes out */
extern const uint32_t other_alphabetic[];       /* Alphabetic, but neither letters nor Nl */
extern const uint32_t other_lowercase[];        /* Lowercase without Ll */
extern const uint32_t other_uppercase[];        /* Uppercase without Lu */
extern const uint32_t plain_characters[]; /* neither decomposed nor reordered, although Unicode 16 says so */
extern const size_t n_word_characters, n_word_differences, n_numeric_characters, n_punctuation_characters,
    n_unclean_characters, n_nonspacing_characters, n_combining_characters, n_other_alphabetic,
    n_other_lowercase, n_other_uppercase, n_plain_characters;

/* Small letters: first, last, step, distance to the small letter (uint32_t modulo 2^32). U+0130, which
 * becomes two characters, is not there. */
extern const uint32_t lowercase_runs[];
extern const size_t n_lowercase_runs;

#endif
