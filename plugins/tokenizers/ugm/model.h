/* model.h: a prepared SentencePiece unigram vocabulary: the character map, and an automaton that knows at
 * each place of a text all tokens that end there.
 *
 *   text ── normalize.c: character map, white space ──▶ normalized text ── viterbi.c: best tokens ──▶
 *   ids */
#ifndef TOKENIZERS_UGM_MODEL_H
#define TOKENIZERS_UGM_MODEL_H

#include "common/cache.h"
#include "common/charsmap.h"
#include "common/tokenizer.h"

/* A node of the automaton (Aho, Corasick, 1975): the text read so far ends with the bytes that lead from the
 * root to it, and with no longer beginning of a token. Same numbers as in the trie. */
struct ugm_node {
    double score;     /* of the token that the node is */
    int32_t id;       /* that token, or -1 */
    uint32_t length;  /* bytes from the root */
    uint32_t suffix;  /* node of the longest proper suffix in the trie */
    uint32_t shorter; /* node of the longest proper suffix that is a token, or TRIE_ROOT */
};

struct ugm_model {
    struct charsmap charsmap;
    struct trie trie;       /* the tokens that can be found in a text -> id */
    struct ugm_node *nodes; /* [trie.n_nodes] */
    double unknown_score;   /* of a character that is no token */
    /* Texts of at most this many bytes are processed word by word: no token crosses the beginning of a word,
     * U+2581, and no sum of scores is ever rounded, so that a word's tokens don't depend on the text before
     * it. 0: none are. */
    size_t longest_by_words;
    bool plain[128];    /* ASCII that stays as it is, if no character beyond ASCII follows */
    int32_t bytes[256]; /* byte tokens */
    bool has_bytes;     /* all of them exist */
    bool add_space;     /* before the text */
    bool merge_spaces;  /* several spaces become one, at the end none */
};

/* The memory of one call of encode, kept from call to call. */
struct ugm_best;
struct ugm_scratch {
    char *text; /* [capacity] normalized */
    size_t capacity;
    struct ugm_best *best; /* [best_capacity] see viterbi.c */
    size_t best_capacity;
    struct cache cache; /* of words */
};

/* automaton.c: fills in trie, nodes, unknown_score and longest_by_words. ENGINE_ERROR_DATA,
 * ENGINE_ERROR_MEMORY. */
int ugm_build(const struct vocab *vocab, struct ugm_model *model);

/* normalize.c: text -> scratch->text; *length receives its length. ENGINE_ERROR_MEMORY. */
int ugm_normalize(const struct engine_tokenizer *tokenizer, struct engine_string text,
                  struct ugm_scratch *scratch, size_t *length);

/* viterbi.c: tokenizer_kind.encode. */
int ugm_encode(const struct engine_tokenizer *tokenizer, void *scratch, struct engine_string text, bool first,
               struct output *output);

#endif
