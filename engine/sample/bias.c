/* bias.c: adds to the logits of tokens that the caller names. */
#include <math.h>

#include "sample/sampler.h"
#include "sample/steps.h"

static void add(const struct engine_logit_bias *bias, size_t count, float *logits)
{
    for (size_t i = 0; i < count; i++) {
        float *logit = &logits[bias[i].token];
        if (!isfinite(*logit)) continue;
        *logit = bias[i].bias == -INFINITY ? -INFINITY : finite_logit((double)*logit + (double)bias[i].bias);
    }
}

void step_bias(struct engine_sampler *sampler)
{
    add(sampler->bias, sampler->options.n_logit_bias, sampler->candidates.logits);
}

void sampler_add_bias(const struct sampler_settings *settings, float *logits)
{
    add(settings->options.logit_bias, settings->options.n_logit_bias, logits);
}
