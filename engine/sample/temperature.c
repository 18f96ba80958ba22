/* temperature.c: divides logits by a temperature, which is fixed or follows from the entropy (dynamic
 * temperature, arXiv 2309.02772). */
#include "sample/portable.h"
#include "sample/steps.h"

/* Temperature 0: only the best candidate is left. */
static void keep_one(struct candidates *candidates)
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

void step_temperature(struct engine_sampler *sampler)
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
        keep_one(candidates);
        return;
    }
    for (size_t i = 0; i < candidates->count; i++)
        candidates->items[i].logit = finite_logit((double)candidates->items[i].logit / (double)temperature);
}
