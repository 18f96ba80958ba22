/* sampler.h: what other modules use of sampling beside engine.h: a request's options, checked and copied;
 * samplers; the model's own probabilities; and arithmetic that gives the same bits on every machine. */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "vocabulary/token-texts.h"

/* ---- Options (sampler-settings.c) ---- */

#define SAMPLER_MAX_STEPS 64

enum sampler_step {
    SAMPLER_PENALTIES,
    SAMPLER_DRY,
    SAMPLER_TOP_N_SIGMA,
    SAMPLER_TOP_K,
    SAMPLER_TYPICAL,
    SAMPLER_TOP_P,
    SAMPLER_MIN_P,
    SAMPLER_XTC,
    SAMPLER_TEMPERATURE,
    SAMPLER_N_STEPS
};

/* A caller's options, checked and copied, so that a request can keep them until it runs. */
struct sampler_settings {
    struct engine_sampler_options options; /* its arrays and texts are copies, owned */
    uint8_t steps[SAMPLER_MAX_STEPS];      /* [n_steps] enum sampler_step: options.samplers */
    size_t n_steps;
};

int sampler_settings_read(const struct engine_sampler_options *given, struct sampler_settings *settings);
/* Whether DRY is on. */
bool sampler_settings_want_dry(const struct sampler_settings *settings);
/* All zero is allowed. */
void sampler_settings_free(struct sampler_settings *settings);

/* ---- Samplers (sampler.c) ---- */

/* Whether the tokens that the settings name are below n_vocab. */
int sampler_check_tokens(const struct sampler_settings *settings, uint32_t n_vocab);

/* Whether a sampler has to know the texts of tokens. */
bool sampler_needs_texts(const struct sampler_settings *settings);

/* `texts` may be NULL unless they are needed, and outlive the sampler. */
int sampler_create(const struct sampler_settings *settings, uint32_t n_vocab, const struct token_texts *texts,
                   struct engine_sampler **sampler);

/* Adds the bias to logits, for choices without a sampler. */
void sampler_add_bias(const struct sampler_settings *settings, float *logits);

/* ---- Probabilities (probabilities.c) ---- */

/* The model's own probabilities, before any sampler: log softmax of the logits. */

#define MAX_LOGPROBS 1000 /* likely tokens that can be reported */

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

/* ENGINE_ERROR_DATA: a logit is NaN or infinity, or none is finite. -infinity is a logit: the token is
 * impossible. */
int logprobs_check(const float *logits, uint32_t n_vocab);

/* Reads the logits [n_vocab] of a position. */
void logprobs_read(struct logprobs *logprobs, const float *logits);
/* The logarithm of a token's probability there; -INFINITY: it is impossible. */
float logprobs_of(const struct logprobs *logprobs, int32_t token);

/* The logarithm of the sum of e^logit over the finite logits [n_vocab]; 0 if none is. A token's
 * log-probability is its logit less this. */
double logprobs_log_total(const float *logits, uint32_t n_vocab);

/* ---- Portable arithmetic (probabilities.c) ---- */

/* Arithmetic that gives the same bits on every machine, because a sampler's choices depend on the last bit of
 * a sum. libm's exp differs between systems, so this is our own. It relies on IEEE 754 float64 with each +,
 * -, * and / rounded separately, to nearest: no x87 registers, no contraction to fused multiply-adds
 * (engine/CMakeLists.txt forbids it for this folder), no -ffast-math. */

/* e^x for x <= 0, within two units in the last place; 0 below -708, where results would lose bits. */
double portable_exp(double x);

/* The natural logarithm of a normal number x > 0, within two units in the last place (or of 2^-53 near 1). */
double portable_log(double x);

/* The next 64 random bits, by splitmix64 (Steele, Lea, Flood: Fast Splittable Pseudorandom Number Generators,
 * 2014). *state starts as the seed, which may have any value. */
uint64_t portable_random(uint64_t *state);

/* The same as a number in [0, 1), a multiple of 2^-53. */
double portable_random_unit(uint64_t *state);

#endif
