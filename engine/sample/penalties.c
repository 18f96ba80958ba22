/* penalties.c: penalties for tokens that the text used recently: repetition (Keskar et al., CTRL, arXiv
 * 1909.05858, with the logit's sign taken into account), frequency and presence (as in OpenAI's API). */
#include <math.h>

#include "sample/steps.h"

#define SEEN 0x80000000u /* a flag in a count, within a call */

void penalties_accept(struct engine_sampler *sampler, int32_t token)
{
    if (!sampler->counts) return;
    size_t last_n = sampler->options.penalty_last_n;
    if (sampler->history.count >= last_n) sampler->counts[history_at(&sampler->history, last_n - 1)]--;
    sampler->counts[token]++;
}

static float penalize(const struct engine_sampler_options *options, float logit, uint32_t count)
{
    double repeat = options->penalty_repeat == 0 ? 1 : (double)options->penalty_repeat;
    float repeated = finite_logit(logit > 0 ? (double)logit / repeat : (double)logit * repeat);
    return finite_logit((double)repeated - ((double)count * (double)options->penalty_frequency +
                                            (double)options->penalty_presence));
}

/* Each of the last tokens once. */
static void penalize_array(struct engine_sampler *sampler)
{
    const struct history *history = &sampler->history;
    size_t n =
        sampler->options.penalty_last_n < history->count ? sampler->options.penalty_last_n : history->count;
    for (size_t i = 0; i < n; i++) {
        int32_t token = history_at(history, i);
        uint32_t count = sampler->counts[token];
        float *logit = &sampler->candidates.logits[token];
        if (count & SEEN) continue;
        sampler->counts[token] |= SEEN;
        if (isfinite(*logit)) *logit = penalize(&sampler->options, *logit, count);
    }
    for (size_t i = 0; i < n; i++) sampler->counts[history_at(history, i)] &= ~SEEN;
}

void step_penalties(struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    bool repeats = options->penalty_repeat != 0 && options->penalty_repeat != 1;
    if (!sampler->counts || (!repeats && options->penalty_frequency == 0 && options->penalty_presence == 0))
        return;
    if (!sampler->candidates.listed) {
        penalize_array(sampler);
        return;
    }
    for (size_t i = 0; i < sampler->candidates.count; i++) {
        struct candidate *candidate = &sampler->candidates.items[i];
        uint32_t count = sampler->counts[candidate->id];
        if (count > 0) candidate->logit = penalize(options, candidate->logit, count);
    }
}
