/* temperature.c: the steps that control how surprising the text is.
 *
 * Temperature divides logits; it is fixed or follows from the entropy (dynamic temperature, arXiv
 * 2309.02772). Mirostat 1 and 2 (Basu et al., arXiv 2007.14966, by tokens) keep the surprise of the text near
 * tau: the bound mu on a token's surprise begins at 2 tau and moves with each token by eta times the
 * error. */
#include <float.h>
#include <math.h>

#include "sample/internal.h"

#define N_ESTIMATED 100 /* most probable tokens that the estimate of Mirostat 1 looks at */
#define LN_2        0x1.62e42fefa39efp-1

/* ---- Temperature ---- */

/* Temperature 0: only the best candidate is left. */
static void keep_best(struct candidates *candidates)
{
    const struct candidate *best = &candidates->items[0];
    for (size_t i = 1; i < candidates->count; i++) {
        const struct candidate *other = &candidates->items[i];
        if (other->logit > best->logit || (other->logit == best->logit && other->id < best->id)) best = other;
    }
    candidates->items[0] = *best;
    candidates->n_masked += candidates->count - 1;
    candidates->count = 1;
}

/* From temperature - range to temperature + range, with the entropy as a share of the largest that so many
 * candidates can have, to the power of the exponent. */
static float dynamic_temperature(struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    struct candidates *candidates = &sampler->candidates;
    float lowest = options->temperature - options->dynatemp_range;
    float highest = options->temperature + options->dynatemp_range;
    float largest = -(float)portable_log((double)(1 / (float)(candidates->count + candidates->n_masked)));
    if (lowest < 0) lowest = 0;
    candidates_sort(candidates);
    float share = candidates_entropy(candidates) / largest, power = options->dynatemp_exponent == 0 ? 1 : 0;
    if (share >= 1)
        power = 1;
    else if (share > 0)
        power = (float)portable_exp((double)options->dynatemp_exponent * portable_log((double)share));
    return lowest + (highest - lowest) * power;
}

void sampler_temperature(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    float temperature = sampler->options.temperature;
    candidates_list(candidates);
    if (candidates->count == 0) return;
    if (sampler->options.dynatemp_range > 0) {
        if (candidates->count + candidates->n_masked < 2) return;
        temperature = dynamic_temperature(sampler);
    }
    if (temperature <= 0) {
        keep_best(candidates);
        return;
    }
    for (size_t i = 0; i < candidates->count; i++)
        candidates->items[i].logit = finite_logit((double)candidates->items[i].logit / (double)temperature);
}

/* ---- Mirostat ---- */

static double log2_of(double x)
{
    return portable_log(x) / LN_2;
}

/* a^x for a > 0, in float32, as all of version 1's estimate is in llama.cpp. */
static float float_power(float a, float x)
{
    double exponent = portable_log((double)a) * (double)x;
    if (exponent <= 0) return (float)portable_exp(exponent);
    double inverse = portable_exp(-exponent);
    return inverse > 1 / (double)FLT_MAX ? (float)(1 / inverse) : INFINITY;
}

/* The exponent of Zipf's law, estimated from the slope of log p over log rank. 0: it can't be estimated,
 * because a token is impossible. The best candidates are at the end of the list. */
static float estimate_exponent(const struct candidates *candidates, double total)
{
    size_t n = candidates->count + candidates->n_masked;
    if (n > N_ESTIMATED) n = N_ESTIMATED;
    if (n > candidates->count) return 0;
    const struct candidate *best = &candidates->items[candidates->count - 1];
    if (candidate_probability(best - (n - 1), best->logit, total) == 0) return 0;
    float sum_products = 0, sum_squares = 0;
    for (size_t i = 0; i + 1 < n; i++) {
        float rank = (float)portable_log((double)((float)(i + 2) / (float)(i + 1)));
        float ratio = candidate_probability(best - i, best->logit, total) /
                      candidate_probability(best - i - 1, best->logit, total);
        sum_products += rank * (float)portable_log((double)ratio);
        sum_squares += rank * rank;
    }
    return sum_squares > 0 ? sum_products / sum_squares : 0;
}

/* How many tokens version 1 keeps. A number that doesn't fit into 32 bits counts as 1, as it comes out of
 * llama.cpp on x86. */
static size_t estimate_count(const struct engine_sampler *sampler, float exponent)
{
    float excess = exponent - 1;
    if (exponent <= 0 || excess == 0 || sampler->mu >= 128) return 1;
    float rest = 1 - float_power((float)sampler->n_vocab, -excess);
    float bound = excess * float_power(2, sampler->mu) / rest;
    if (!(bound > 0) || bound > FLT_MAX) return 1;
    float count = float_power(bound, 1 / exponent);
    return count >= 1 && count < 0x1p31f ? (size_t)count : 1;
}

static void keep_by_count(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    double total = candidates_total(candidates, candidates_highest(candidates));
    candidates_key_by_logit(candidates);
    candidates_best_last(candidates, N_ESTIMATED);
    size_t count = estimate_count(sampler, estimate_exponent(candidates, total));
    candidates_keep_top(candidates, count);
}

static void keep_by_surprise(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    float highest = candidates_highest(candidates);
    double total = candidates_total(candidates, highest);
    size_t kept = 0, best = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        const struct candidate *candidate = &candidates->items[i];
        float probability = candidate_probability(candidate, highest, total);
        if (candidate->logit > candidates->items[best].logit) best = i;
        candidates->items[i].key = probability > 0 ? log2_of((double)probability) : -(double)FLT_MAX;
    }
    struct candidate most_probable = candidates->items[best];
    for (size_t i = 0; i < candidates->count; i++)
        if ((float)-candidates->items[i].key <= sampler->mu) candidates->items[kept++] = candidates->items[i];
    if (kept == 0) candidates->items[kept++] = most_probable;
    candidates->count = kept;
    candidates->n_masked = 0;
}

void sampler_mirostat(struct engine_sampler *sampler)
{
    candidates_list(&sampler->candidates);
    if (sampler->candidates.count == 0) return;
    if (sampler->options.mirostat == 1)
        keep_by_count(sampler);
    else
        keep_by_surprise(sampler);
}

void mirostat_learn(struct engine_sampler *sampler, double probability)
{
    float surprise = (float)-log2_of(probability);
    sampler->mu -= sampler->options.mirostat_eta * (surprise - sampler->options.mirostat_tau);
}
