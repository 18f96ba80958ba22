/* beam-search.h: beam search as arithmetic on rows of logits: it knows neither the context nor texts, so it
 * can be tested without a model.
 *
 * The n_beams most likely unfinished texts are continued together, one token in each round. A text that ends
 * becomes a hypothesis, whose score is the sum of its tokens' log-probabilities, divided by its length, the
 * token that ended it included, to the power of the length penalty. The n_beams hypotheses with the highest
 * scores are the result. Which texts count, and when to stop, is as in transformers' generate (_beam_search
 * of version 5), so that both give the same. */
#ifndef ENGINE_QUEUE_BEAM_SEARCH_H
#define ENGINE_QUEUE_BEAM_SEARCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BEAM_ROOT UINT32_MAX /* the node of a text without tokens */

struct beam_search_options {
    uint32_t n_beams;
    double length_penalty;
    uint32_t early_stopping; /* enum engine_early_stopping */
    uint32_t max_tokens;     /* of a text; at least 1 */
    uint32_t last_reason;    /* enum engine_done_reason of texts that reach max_tokens */
};

/* A token and the node before it. Texts with the same beginning share its nodes. */
struct beam_node {
    int32_t token;
    uint32_t before;
};

/* A way to continue. */
struct beam_candidate {
    double sum;
    uint32_t beam;
    int32_t token;
    uint32_t reason; /* enum engine_done_reason if the token ends the text; else 0 */
};

struct live_beam {
    uint32_t node;   /* its last token's */
    uint32_t parent; /* the live beam of the previous round that it continues */
    double sum;      /* of its tokens' log-probabilities */
};

struct hypothesis {
    uint32_t node, n_tokens; /* without the token that ended it */
    double sum, score;
    uint32_t reason; /* enum engine_done_reason */
};

struct beam_search {
    struct beam_search_options options;
    struct beam_node *nodes; /* [n_nodes], room for [node_capacity] */
    uint32_t n_nodes;
    size_t node_capacity;
    struct live_beam *live, *next; /* live: [n_live] by sum, the highest first; room for [n_beams] each */
    uint32_t n_live;
    uint32_t n_tokens;        /* of each live beam */
    struct hypothesis *found; /* [n_found] by score, the highest first; room for [n_beams] */
    uint32_t n_found;
    /* This round's best candidates so far, the best first: all of them, and those that don't end their text.
     * Room for [n_beams] each. */
    struct beam_candidate *best, *going;
    uint32_t n_best, n_going;
};

/* Begins with one live beam without tokens. */
int beam_search_create(const struct beam_search_options *options, struct beam_search *search);
/* All zero is allowed. */
void beam_search_destroy(struct beam_search *search);

/* Why a token would end a text, an enum engine_done_reason; 0: it doesn't. */
typedef uint32_t (*beam_ends)(void *user, int32_t token);

/* The logits [n_vocab] that follow live beam number `beam`; a round takes those of each beam in order. Logits
 * that are not finite count as -infinity. */
void beam_search_read(struct beam_search *search, uint32_t beam, const float *logits, uint32_t n_vocab,
                      beam_ends ends, void *user);
/* Ends the round: the best continuations become the live beams. ENGINE_ERROR_DATA: no beam had a finite
 * logit. */
int beam_search_advance(struct beam_search *search);
/* Ends the text of a live beam, which nothing can follow; those after it move up. */
void beam_search_end(struct beam_search *search, uint32_t beam, uint32_t reason);
/* Whether another round follows; otherwise the search is over, there are no live beams, and `found` is its
 * result. */
bool beam_search_goes_on(struct beam_search *search);
/* Ends the search before its time: live beams become hypotheses as they are. */
void beam_search_close(struct beam_search *search, uint32_t reason);

/* Writes the `n_tokens` tokens up to a node. */
void beam_search_tokens(const struct beam_search *search, uint32_t node, uint32_t n_tokens, int32_t *tokens);
/* How many tokens two live beams begin with in common. */
uint32_t beam_search_common(const struct beam_search *search, uint32_t a, uint32_t b);

#endif
