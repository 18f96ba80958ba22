/* internal.h: the state of a sampler, and the steps of its chain. Each step works on the candidates that the
 * step before it left, and leaves at least one. Formulas and their sources: docs/sampling.md.
 *
 *   sampler.c       the chain, logit bias, the draw
 *   candidates.c    what the chain chooses from
 *   ban.c           banned texts
 *   penalties.c     repetition, frequency and presence penalties; DRY: a penalty for continuing a repetition
 *   truncate.c      top-n-sigma, top-k, typical, top-p, min-p, XTC
 *   temperature.c   temperature, fixed and dynamic; Mirostat 1 and 2, in place of all truncations */
#ifndef ENGINE_SAMPLE_INTERNAL_H
#define ENGINE_SAMPLE_INTERNAL_H

#include "sample/sampler.h"

/* ---- Candidates (candidates.c) ---- */

/* The tokens that a chain chooses from, and their logits. A call begins with all tokens, as an array of
 * logits. Steps that only change a few logits work on this array. The first step that must look at each token
 * with its id lists the candidates; top-k lists only those that it keeps, so that the list is short from then
 * on. All orders follow from logits and ids, so they are the same on every machine. */

struct candidate {
    double key; /* higher is better; its meaning depends on the step */
    float logit;
    int32_t id;
};

struct candidates {
    float *logits; /* [n_vocab] the caller's; until listed */
    uint32_t n_vocab;
    bool listed;
    struct candidate *items; /* [count], room for [n_vocab]; all logits are finite */
    size_t count;
    /* Candidates whose logit is -infinity. They are never drawn and not in the list, but some formulas count
     * them. */
    size_t n_masked;
};

/* Begins a call with all tokens. */
void candidates_begin(struct candidates *candidates, float *logits);
/* Lists the tokens with a finite logit, in order of id, if no step has done so yet. */
void candidates_list(struct candidates *candidates);

/* The rest needs a list, with one candidate at least, except for candidates_keep_top. */

/* Keeps the `count` candidates with the highest logits, the lower id first among equals, in no particular
 * order. Also without a list, which it then makes. */
void candidates_keep_top(struct candidates *candidates, size_t count);
/* Keeps the candidates with the best keys, best first, until their probabilities add up to `mass`, or, with
 * `exceed`, to more than it; at least one. */
void candidates_keep_mass(struct candidates *candidates, float mass, bool exceed);
void candidates_key_by_logit(struct candidates *candidates);
/* Sorts by logit, the highest first. */
void candidates_sort(struct candidates *candidates);
/* Moves the `count` candidates with the best keys to the end of the list, the best last. */
void candidates_best_last(struct candidates *candidates, size_t count);

float candidates_highest(const struct candidates *candidates);
/* The sum of exp(logit - highest): its inverse is the probability of a candidate with the highest logit. */
double candidates_total(const struct candidates *candidates, float highest);
/* The probability of a candidate, given those two; float32, like the options that it is compared with, so
 * that 0.1 is not below 0.1f. */
float candidate_probability(const struct candidate *candidate, float highest, double total);
/* The sum of exp(logit - highest) in float32, in the order of the list. Where a small difference decides what
 * is kept, probabilities are computed in float32 as llama.cpp computes them, so that both keep the same. */
float candidates_float_total(const struct candidates *candidates, float highest);
/* A candidate's share of that sum. */
float candidate_float_probability(const struct candidate *candidate, float highest, float total);

/* The entropy of sorted candidates, in float32 like those. Makes -log p each one's key. */
float candidates_entropy(struct candidates *candidates);

/* A sum or product that is too large for float32 counts as the largest number. */
float finite_logit(double logit);

/* ---- Banned texts (ban.c) ---- */

/* An automaton (Aho and Corasick, 1975) reads the text byte by byte; its state is the longest beginning of a
 * banned text that the text so far ends with. In each state, the tokens that would complete a banned text are
 * banned. */

struct ban_list {
    int32_t *tokens; /* [count] */
    size_t count;
    int known;
};

/* All zero: nothing is banned. */
struct ban {
    const struct token_texts *vocabulary;
    uint32_t n_vocab;
    uint16_t class_of[256]; /* of a byte; 0: it is in no banned text */
    size_t n_classes, n_states;
    uint32_t *next;    /* [n_states, n_classes] */
    uint8_t *complete; /* [n_states] whether a banned text has just been completed */
    /* [n_states], each found when it is first needed. The first state's are banned in all, and only there. */
    struct ban_list *lists;
    uint32_t state;
};

/* Texts that are banned in the tokens below n_vocab. Returns an enum engine_status. */
int ban_create(struct ban *ban, const struct engine_string *texts, size_t n_texts,
               const struct token_texts *vocabulary, uint32_t n_vocab);
void ban_destroy(struct ban *ban);

/* A token has become part of the text. */
void ban_accept(struct ban *ban, int32_t token);
/* Sets the logits of banned tokens to -infinity. */
int ban_apply(struct ban *ban, float *logits);

/* ---- The last tokens (penalties.c) ---- */

/* The last tokens of a text, for the steps that look back. */
struct history {
    int32_t *tokens; /* [capacity], a ring; NULL: nobody looks back */
    size_t capacity, count, next;
};

/* Room for this many tokens; 0: none. Returns an enum engine_status. */
int history_create(struct history *history, size_t capacity);
void history_destroy(struct history *history);

void history_add(struct history *history, int32_t token);
/* The token before `back` others: 0 is the last one. `back` is below count. */
int32_t history_at(const struct history *history, size_t back);

/* ---- DRY's sequence breakers (penalties.c) ---- */

/* A token that contains a breaker, or ends with its beginning and has to be followed by a tail. */
struct dry_breaker {
    int32_t head;
    uint32_t tail, n_tail; /* in dry_breakers.tails */
};

struct dry_breakers {
    struct dry_breaker *items; /* [count], by head */
    size_t count, capacity;
    int32_t *tails; /* [n_tails] */
    size_t n_tails, tails_capacity;
};

struct dry {
    /* [n_vocab] 1 + how many tokens a token would repeat before itself; 0: none. All 0 between calls. NULL:
     * DRY is off. */
    uint32_t *lengths;
    int32_t *found; /* [dry_penalty_last_n] tokens that have a length */
    uint32_t *z;    /* [dry_penalty_last_n] */
    struct dry_breakers breakers;
};

/* ---- Samplers ---- */

struct engine_sampler {
    struct engine_sampler_options options; /* texts and tables are in the fields below */
    uint8_t steps[SAMPLER_MAX_STEPS];      /* [n_steps] enum sampler_step */
    size_t n_steps;
    uint32_t n_vocab;
    struct engine_logit_bias *bias; /* [options.n_logit_bias] */

    uint64_t random; /* state */
    float mu;        /* of Mirostat */
    struct history history;
    /* [n_vocab], how often the penalties' last tokens have each token; NULL: no penalties. */
    uint32_t *counts;
    struct dry dry;
    struct ban ban;

    struct candidates candidates;
};

/* ---- Steps ---- */

void sampler_penalties(struct engine_sampler *sampler);
void sampler_dry(struct engine_sampler *sampler);
void sampler_top_n_sigma(struct engine_sampler *sampler);
void sampler_top_k(struct engine_sampler *sampler);
void sampler_typical(struct engine_sampler *sampler);
void sampler_top_p(struct engine_sampler *sampler);
void sampler_min_p(struct engine_sampler *sampler);
void sampler_xtc(struct engine_sampler *sampler);
void sampler_temperature(struct engine_sampler *sampler);
void sampler_mirostat(struct engine_sampler *sampler);

/* Records a token for the penalties. Before history_add. */
void penalties_accept(struct engine_sampler *sampler, int32_t token);

int dry_create(struct engine_sampler *sampler, const struct sampler_settings *settings,
               const struct token_texts *texts);
void dry_destroy(struct engine_sampler *sampler);

/* Tells Mirostat the probability of the token that was drawn. */
void mirostat_learn(struct engine_sampler *sampler, double probability);

#endif
