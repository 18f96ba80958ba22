/* divergence.h: how far a model's predictions are from those of a reference, over many positions. */
#ifndef ENGINE_COMMANDS_DIVERGENCE_H
#define ENGINE_COMMANDS_DIVERGENCE_H

#include <jansson.h>
#include <stdint.h>

/* A mean over positions, and its standard error. */
struct mean {
    double sum, squares;
    uint64_t count;
};
void mean_add(struct mean *mean, double value);
double mean_value(const struct mean *mean);
/* The sample's standard deviation divided by the root of the count; 0 for fewer than two values. */
double mean_error(const struct mean *mean);

struct divergence {
    double *kl; /* [n], room for [capacity]: Kullback-Leibler divergence at each position, in nats */
    uint64_t n, capacity;
    struct mean kl_mean;
    struct mean same_top; /* 1 where both find the same token most likely, else 0 */
    struct mean
        difference; /* of the negative log-probability of the actual token: the model's minus the reference's */
    struct mean reference; /* the reference's own */
};

/* Room for n positions. Returns an enum engine_status, with command_error's message. */
int divergence_create(struct divergence *d, uint64_t n);
void divergence_destroy(struct divergence *d);

/* Adds a position: the sum over all tokens of p (log p - log q), p the reference's probabilities and q the model's.
 * Log-probabilities [n_vocab]; the actual token's; the most likely tokens. */
void divergence_add(struct divergence *d, const float *reference, const float *model, uint32_t n_vocab,
                    double reference_actual, double model_actual, int same_top);

/* Sorts, then: the value that this share of the positions does not exceed, interpolated linearly. */
void divergence_sort(struct divergence *d);
double divergence_percentile(const struct divergence *d, double share);

#endif
