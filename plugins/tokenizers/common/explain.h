/* explain.h: reports what encoding does, step by step, to the caller of `explain` (plugin-api.h, struct
 * engine_explain_step). Tokenizers encode as always, except that they look nothing up among the words seen
 * before; where output->explanation is not NULL, they report here what they are doing.
 *
 *   explain_special | explain_normalized, explain_text, explain_word, what happens in the word, its tokens;
 *   explain_word, …
 *
 * Once the caller's sink has stopped, nothing more is reported. */
#ifndef TOKENIZERS_COMMON_EXPLAIN_H
#define TOKENIZERS_COMMON_EXPLAIN_H

#include "common/pairs.h"
#include "common/tokenizer.h"

/* The token of a symbol, or -1. */
typedef int32_t explain_id(const struct engine_tokenizer *tokenizer, uint32_t symbol);

/* Bytes start … end - 1. */
struct explain_range {
    size_t start, end;
};

struct explanation {
    const struct engine_tokenizer *tokenizer;
    engine_explain_sink sink;
    void *user;
    struct output *output;     /* its `stopped` receives what the sink returned to stop */
    const char *text;          /* the whole text, to find places in it */
    size_t n_words;            /* bytes of the stretch's words so far */
    struct engine_string word; /* the current one; all places that are reported are in it */
    /* While symbols merge: their text, and in what they are expressed. */
    const char *run;
    struct explain_range *places; /* [n_places] where the initial symbols are in `run`; 0: each is a byte */
    size_t n_places, places_capacity;
    explain_id *id_of;
    bool by_score; /* not by rank */
};
void explain_free(struct explanation *explanation);

/* `text` is part of the whole text, empty for a token that is added. */
void explain_special(struct explanation *explanation, struct engine_string text, int32_t id);
/* The normalizer made `normalized` of the stretch `text` of the whole text; explain_text follows. */
void explain_normalized(struct explanation *explanation, struct engine_string text,
                        struct engine_string normalized);
/* The stretch `text` of the whole text became `normalized`. */
void explain_text(struct explanation *explanation, struct engine_string text,
                  struct engine_string normalized);
/* The next word of the stretch; its bytes stay where they are until the next one. */
void explain_word(struct explanation *explanation, const char *word, size_t length);

/* The bytes of `run`, a part of the word, are going to merge, by rank; or the symbols that explain_add_symbol
 * adds to it. */
void explain_run(struct explanation *explanation, const char *run, explain_id *id_of);
/* The characters of `run`, of the sizes that `size_at` says, are. ENGINE_ERROR_MEMORY. */
int explain_characters(struct explanation *explanation, const char *run, size_t length,
                       size_t (*size_at)(const char *text, size_t left), explain_id *id_of, bool by_score);
/* The next symbol of a run is at this place, which may be empty. ENGINE_ERROR_MEMORY. */
int explain_add_symbol(struct explanation *explanation, struct explain_range place);
/* Where initial symbols first … end - 1, at least one, are in `run`. */
struct explain_range explain_places(const struct explanation *explanation, size_t first, size_t end);
/* Initial symbols start … middle - 1 and middle … end - 1, which are the pair's, become one. Not reported if
 * either has no bytes. */
void explain_merge(struct explanation *explanation, const struct pair *pair, size_t start, size_t middle,
                   size_t end);

/* `at` is in the word. `score` and `sum`: NAN for none. */
void explain_candidate(struct explanation *explanation, const char *at, size_t length, int32_t id,
                       double score, double sum);
void explain_best(struct explanation *explanation, const char *at, size_t length, int32_t id, double sum);
void explain_token(struct explanation *explanation, const char *at, size_t length, int32_t id, double sum);

#endif
