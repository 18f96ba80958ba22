/* pace.h: how many tokens to guess for a request in the next step, from how often guesses came true and
 * what steps with more tokens cost. Pure arithmetic, tested on paper.
 *
 * Guessing never costs much where it fails, even with wrong estimates, because a request stakes only what
 * it has: half a token's time at first, a hundredth of the time of each token that it gets, and what
 * guesses have won, up to a few tokens' time. */
#ifndef ENGINE_QUEUE_PACE_H
#define ENGINE_QUEUE_PACE_H

#include <stddef.h>

#define PACE_MAX     15 /* tokens guessed in a step at most */
#define COST_COLUMNS 64

/* Where a guess comes from: how many tokens agree in a lookup, or the draft model. Each source has its own
 * rates. */
enum pace_source { PACE_LOOKUP_2, PACE_LOOKUP_3, PACE_LOOKUP_4, PACE_LOOKUP_8, PACE_DRAFT, PACE_SOURCES };

/* What a step of some number of tokens costs, as measured. */
struct step_costs {
    double seconds[COST_COLUMNS + 1]; /* 0: not measured */
};

void costs_measured(struct step_costs *costs, size_t n_tokens, double seconds);
/* Where it was not measured, it is estimated from its neighbours; 0: unknown. */
double costs_of(const struct step_costs *costs, size_t n_tokens);

struct pace {
    double first[PACE_SOURCES];   /* how often the first guess of a step comes true */
    double further[PACE_SOURCES]; /* a further one, where those before it have */
    double balance;               /* tokens' times that may be staked */
};

void pace_create(struct pace *pace);

/* What is known when a number of guesses is chosen. */
struct pace_question {
    enum pace_source source;
    size_t n_most;     /* guesses made, or possible */
    size_t n_requests; /* that get a token in the step in any case */
    size_t n_tokens;   /* in the step so far, with the guesses for others */
    const struct step_costs *costs;
    double seconds_once, seconds_each; /* to make the guesses */
};

struct pace_answer {
    size_t n_guess; /* 0: guessing doesn't pay, or there is nothing to stake */
    double cost;    /* in tokens' times */
    double gain;    /* expected, less the cost */
};

/* The number is 1, 3, 7, 15 or n_most, so that steps have few different shapes. Where no number pays, one
 * token is guessed now and then to see whether that has changed. */
struct pace_answer pace_choose(const struct pace *pace, const struct pace_question *question);

/* What became of the guesses of a step. */
void pace_record(struct pace *pace, enum pace_source source, size_t n_guess, size_t n_accepted, double cost);
/* The step gave the request this many tokens. */
void pace_earn(struct pace *pace, size_t n_tokens);

#endif
