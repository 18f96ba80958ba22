/* probabilities.c: exponentials, logarithms and random numbers that are the same on every machine, and the
 * model's own probabilities by them (sampler.h). */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "sample/sampler.h"

/* ---- Portable arithmetic ---- */

/* ln 2 in two parts; the first has so few bits that its products with exponents are exact. */
#define LN2_HIGH 0x1.62e42fee00000p-1
#define LN2_LOW  0x1.a39ef35793c76p-33
#define LOG2_E   0x1.71547652b82fep+0

double portable_exp(double x)
{
    ENGINE_ASSERT(!(x > 0));
    /* 1/13!, 1/12!, … 1/2!: Taylor series, whose remainder is below 2^-57 for |r| <= ln 2 / 2. */
    static const double coefficients[] = {
        1.0 / 6227020800.0, 1.0 / 479001600.0, 1.0 / 39916800.0, 1.0 / 3628800.0,
        1.0 / 362880.0,     1.0 / 40320.0,     1.0 / 5040.0,     1.0 / 720.0,
        1.0 / 120.0,        1.0 / 24.0,        1.0 / 6.0,        1.0 / 2.0,
    };
    if (!(x >= -708)) return 0;
    int64_t exponent = (int64_t)(x * LOG2_E - 0.5); /* to nearest, because x <= 0 */
    double k = (double)exponent;
    double r = (x - k * LN2_HIGH) - k * LN2_LOW; /* x = k ln 2 + r */
    double sum = 0;
    for (size_t i = 0; i < sizeof coefficients / sizeof coefficients[0]; i++) sum = sum * r + coefficients[i];
    sum = 1 + (r + r * r * sum);

    uint64_t bits = (uint64_t)(exponent + 1023) << 52; /* 2^k, a normal number */
    double power;
    memcpy(&power, &bits, sizeof power);
    return sum * power;
}

double portable_log(double x)
{
    ENGINE_ASSERT(x > 0);
    uint64_t bits;
    memcpy(&bits, &x, sizeof bits);
    int64_t exponent = (int64_t)(bits >> 52) - 1023;
    bits = (bits & 0xfffffffffffffu) | (uint64_t)1023 << 52;
    double m; /* x = m * 2^exponent */
    memcpy(&m, &bits, sizeof m);
    if (m > 1.4142135623730951) {
        m /= 2;
        exponent++;
    }
    /* log m = 2 artanh s = 2 (s + s^3 / 3 + s^5 / 5 + …), |s| < 0.172: the remainder is below 2^-60 */
    double s = (m - 1) / (m + 1), square = s * s, sum = 0;
    for (int i = 23; i >= 3; i -= 2) sum = (sum + 1.0 / (double)i) * square;
    double k = (double)exponent;
    return k * LN2_HIGH + (2 * (s + s * sum) + k * LN2_LOW);
}

uint64_t portable_random(uint64_t *state)
{
    *state += 0x9e3779b97f4a7c15u;
    uint64_t z = *state;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

double portable_random_unit(uint64_t *state)
{
    return (double)(portable_random(state) >> 11) * 0x1p-53;
}

/* ---- The model's probabilities ---- */

int logprobs_create(struct logprobs *logprobs, uint32_t n_vocab, uint32_t n_top)
{
    *logprobs = (struct logprobs){.n_vocab = n_vocab, .n_top = n_top < n_vocab ? n_top : n_vocab};
    logprobs->logits = calloc(n_vocab, sizeof *logprobs->logits);
    logprobs->top = calloc((size_t)n_top + 1, sizeof *logprobs->top);
    return logprobs->logits && logprobs->top ? ENGINE_OK : error_memory("logprobs");
}

void logprobs_destroy(struct logprobs *logprobs)
{
    free(logprobs->logits);
    free(logprobs->top);
    *logprobs = (struct logprobs){0};
}

/* Puts a token into its place among the most likely ones; of equals, the lower id comes first. */
static void logprobs_insert(struct logprobs *logprobs, int32_t token, float logit)
{
    ENGINE_ASSERT(logprobs->n_top > 0);
    uint32_t at = logprobs->n_found < logprobs->n_top ? logprobs->n_found++ : logprobs->n_top - 1;
    for (; at > 0 && logprobs->top[at - 1].logprob < logit; at--) logprobs->top[at] = logprobs->top[at - 1];
    logprobs->top[at] = (struct engine_token_logprob){token, logit};
}

int logprobs_check(const float *logits, uint32_t n_vocab)
{
    bool good = true, any = false;
    for (uint32_t id = 0; id < n_vocab; id++) {
        good = good && logits[id] < INFINITY; /* false for NaN */
        any = any || isfinite(logits[id]);
    }
    if (good && any) return ENGINE_OK;
    return error_raise(ENGINE_ERROR_DATA, "the logits are not all numbers: the model's weights are damaged");
}

double logprobs_log_total(const float *logits, uint32_t n_vocab)
{
    double total = 0;
    float highest = -INFINITY;
    for (uint32_t id = 0; id < n_vocab; id++)
        if (isfinite(logits[id]) && logits[id] > highest) highest = logits[id];
    for (uint32_t id = 0; id < n_vocab; id++)
        if (isfinite(logits[id])) total += portable_exp((double)logits[id] - (double)highest);
    return total > 0 ? (double)highest + portable_log(total) : 0;
}

void logprobs_read(struct logprobs *logprobs, const float *logits)
{
    memcpy(logprobs->logits, logits, logprobs->n_vocab * sizeof *logits);
    logprobs->n_found = 0;
    for (uint32_t id = 0; id < logprobs->n_vocab && logprobs->n_top > 0; id++) {
        bool full = logprobs->n_found == logprobs->n_top;
        if (full && !(logits[id] > logprobs->top[logprobs->n_top - 1].logprob)) continue;
        if (isfinite(logits[id])) logprobs_insert(logprobs, (int32_t)id, logits[id]);
    }
    logprobs->log_total = logprobs_log_total(logprobs->logits, logprobs->n_vocab);
    for (uint32_t i = 0; i < logprobs->n_found; i++)
        logprobs->top[i].logprob = logprobs_of(logprobs, logprobs->top[i].token);
}

float logprobs_of(const struct logprobs *logprobs, int32_t token)
{
    ENGINE_ASSERT(token >= 0 && (uint32_t)token < logprobs->n_vocab);
    float logit = logprobs->logits[token];
    return isfinite(logit) ? (float)((double)logit - logprobs->log_total) : -INFINITY;
}
