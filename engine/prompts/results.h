/* results.h: what a model answers, for programs and people: the probabilities of tokens, and the texts of a
 * beam search. */
#ifndef ENGINE_PROMPTS_RESULTS_H
#define ENGINE_PROMPTS_RESULTS_H

#include <jansson.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include "engine.h"

/* ---- Logits to probabilities ---- */

struct likely_token {
    int32_t id;
    float logit;
};

struct likely {
    uint32_t n_most; /* tokens to keep, 1 or more */
    uint32_t n;      /* kept: n_most, or all if there are fewer */
    /* [n], room for [n_most]: the highest logits in order; of equals, the lower id first. */
    struct likely_token *top;
    /* Of the sum of exp(logit), in float64: a token's log-probability is its logit less this. */
    double log_total;
};

/* Reads the logits [n_vocab] of a position. -infinity is a logit: the token is impossible. Returns an enum
 * engine_status: if others are not finite, or none is, the message names `what` and `number`, such as
 * "token", 3. */
int likely_read(struct likely *likely, const float *logits, uint32_t n_vocab, const char *what,
                size_t number);

/* ---- The probabilities of written or scored tokens ---- */

/* What an ENGINE_EVENT_TOKEN says of its token: {"token", "id", "bytes", "logprob", "top": [the same without
 * "top"]}. NULL: out of memory. */
json_t *logprobs_json(struct engine_model *model, const struct engine_event *event);
/* The array "top" alone, of an ENGINE_EVENT_TOKEN or ENGINE_EVENT_SCORE. */
json_t *logprobs_top_json(struct engine_model *model, const struct engine_event *event);

/* ---- Beam search ---- */

/* The texts found, as an array: {"text", "score", "logprob", and, with `tokens`, "tokens"}, and why each
 * ended under the name `end`, in the words of `name_of`. */
json_t *beam_results_json(const struct engine_event *event, bool tokens, const char *end,
                          const char *(*name_of)(uint32_t reason));

/* A table of these: score, log-probability, number of tokens, and text in quotes, or ids with `shows_ids`. */
void beam_results_print(const json_t *beams, bool shows_ids, FILE *out);

#endif
