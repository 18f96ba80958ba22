/* candidates.h: the tokens that a chain of samplers chooses from, and their logits. A call begins with all
 * tokens, as an array of logits. Steps that only change a few logits work on this array. The first step that
 * must look at each token with its id lists the candidates; top-k lists only those that it keeps, so that the
 * list is short from then on. All orders follow from logits and ids, so they are the same on every machine. */
#ifndef ENGINE_SAMPLE_CANDIDATES_H
#define ENGINE_SAMPLE_CANDIDATES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

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

#endif
