/* logprobs.h: the model's own probabilities, before any sampler: log softmax of the logits. */
#ifndef ENGINE_SAMPLE_LOGPROBS_H
#define ENGINE_SAMPLE_LOGPROBS_H

#include "engine.h"

#define LOGPROBS_MOST 1000 /* likely tokens that can be reported */

/* All zero: none are wanted. */
struct logprobs {
    uint32_t n_vocab, n_top;
    float *logits; /* [n_vocab] a copy, because samplers overwrite them */
    double log_total;
    struct engine_token_logprob *top; /* [n_found], room for [n_top]: the most likely tokens, in order */
    uint32_t n_found;
};

/* Returns an enum engine_status. */
int logprobs_create(struct logprobs *logprobs, uint32_t n_vocab, uint32_t n_top);
void logprobs_destroy(struct logprobs *logprobs);

/* ENGINE_ERROR_DATA: a logit is NaN or infinity, or none is finite. -infinity is a logit: the token is impossible. */
int logprobs_check(const float *logits, uint32_t n_vocab);

/* Reads the logits [n_vocab] of a position. */
void logprobs_read(struct logprobs *logprobs, const float *logits);
/* The logarithm of a token's probability there; -INFINITY: it is impossible. */
float logprobs_of(const struct logprobs *logprobs, int32_t token);

/* The logarithm of the sum of e^logit over the finite logits [n_vocab]; 0 if none is. A token's log-probability is its
 * logit less this. */
double logprobs_log_total(const float *logits, uint32_t n_vocab);

#endif
