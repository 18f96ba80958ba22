/* truncate.c: the steps that drop candidates: top-n-sigma (arXiv 2411.07641), top-k (arXiv 1805.04833),
 * locally typical (arXiv 2202.00666), top-p (arXiv 1904.09751), min-p (arXiv 2407.01082), XTC. */
#include <math.h>
#include <string.h>

#include "sample/internal.h"

/* ---- Top-n-sigma ---- */

/* Sums over finite logits, in order of id or of the list; in float32, as in llama.cpp. */
struct moments {
    size_t count;
    float highest, sum, squares;
};

static void moments_add(struct moments *moments, float logit)
{
    if (!isfinite(logit)) return;
    if (moments->count == 0 || logit > moments->highest) moments->highest = logit;
    moments->count++;
    moments->sum += logit;
}

static float moments_mean(const struct moments *moments)
{
    return moments->sum / (float)moments->count;
}

static void moments_add_square(struct moments *moments, float logit, float mean)
{
    double distance = (double)(logit - mean);
    if (isfinite(logit)) moments->squares = (float)((double)moments->squares + distance * distance);
}

/* The least logit to keep. */
static float sigma_bound(const struct moments *moments, float n)
{
    float deviation = (float)sqrt((double)(moments->squares / (float)moments->count));
    return moments->highest - n * deviation;
}

/* Without a list: masks the logits. */
static void mask_sigma(struct candidates *candidates, float n)
{
    struct moments moments = {0};
    for (uint32_t id = 0; id < candidates->n_vocab; id++) moments_add(&moments, candidates->logits[id]);
    if (moments.count == 0) return;
    float mean = moments_mean(&moments);
    for (uint32_t id = 0; id < candidates->n_vocab; id++)
        moments_add_square(&moments, candidates->logits[id], mean);
    float bound = sigma_bound(&moments, n);
    for (uint32_t id = 0; id < candidates->n_vocab; id++)
        if (candidates->logits[id] < bound) candidates->logits[id] = -INFINITY;
}

static void drop_sigma(struct candidates *candidates, float n)
{
    struct moments moments = {0};
    size_t kept = 0;
    for (size_t i = 0; i < candidates->count; i++) moments_add(&moments, candidates->items[i].logit);
    float mean = moments_mean(&moments);
    for (size_t i = 0; i < candidates->count; i++)
        moments_add_square(&moments, candidates->items[i].logit, mean);
    float bound = sigma_bound(&moments, n);
    for (size_t i = 0; i < candidates->count; i++)
        if (candidates->items[i].logit >= bound) candidates->items[kept++] = candidates->items[i];
    candidates->n_masked += candidates->count - kept;
    candidates->count = kept;
}

/* Keeps logits within n standard deviations of the highest one. The others stay candidates with a logit of
 * -infinity. */
void sampler_top_n_sigma(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    float n = sampler->options.top_n_sigma;
    if (n <= 0) return;
    if (!candidates->listed)
        mask_sigma(candidates, n);
    else if (candidates->count + candidates->n_masked > 1)
        drop_sigma(candidates, n);
}

/* ---- By rank and by mass ---- */

void sampler_top_k(struct engine_sampler *sampler)
{
    if (sampler->options.top_k > 0) candidates_keep_top(&sampler->candidates, sampler->options.top_k);
}

/* Keeps the tokens whose information -log p is nearest to the entropy, until their probabilities exceed
 * typical_p. */
void sampler_typical(struct engine_sampler *sampler)
{
    float p = sampler->options.typical_p;
    struct candidates *candidates = &sampler->candidates;
    if (p <= 0 || p >= 1) return;
    candidates_list(candidates);
    if (candidates->count == 0) return;
    candidates_sort(candidates);
    float entropy = candidates_entropy(candidates);
    for (size_t i = 0; i < candidates->count; i++) /* their keys are -log p */
        candidates->items[i].key = -fabs((double)((float)candidates->items[i].key - entropy));
    candidates_keep_mass(candidates, p, true);
}

void sampler_top_p(struct engine_sampler *sampler)
{
    float p = sampler->options.top_p;
    if (p <= 0 || p >= 1) return;
    candidates_list(&sampler->candidates);
    if (sampler->candidates.count == 0) return;
    candidates_key_by_logit(&sampler->candidates);
    candidates_keep_mass(&sampler->candidates, p, false);
}

/* ---- By probability ---- */

/* Keeps candidates at least min_p times as probable as the most probable one. */
void sampler_min_p(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    if (sampler->options.min_p <= 0) return;
    candidates_list(candidates);
    if (candidates->count == 0) return;
    float least = candidates_highest(candidates) + (float)portable_log((double)sampler->options.min_p);
    size_t kept = 0;
    for (size_t i = 0; i < candidates->count; i++)
        if (candidates->items[i].logit >= least) candidates->items[kept++] = candidates->items[i];
    candidates->count = kept;
    candidates->n_masked = 0;
}

/* Exclude top choices (github.com/oobabooga/text-generation-webui, pull request 6335): with the given
 * probability, drops all candidates that reach the threshold except the least probable of them. */
void sampler_xtc(struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    struct candidates *candidates = &sampler->candidates;
    if (options->xtc_probability <= 0 || options->xtc_threshold > 0.5f) return;
    candidates_list(candidates);
    if (candidates->count + candidates->n_masked < 2 || candidates->count == 0) return;
    if (portable_random_unit(&sampler->random) >= (double)options->xtc_probability) return;

    candidates_sort(candidates);
    float highest = candidates->items[0].logit, total = candidates_float_total(candidates, highest);
    size_t n = 0; /* candidates that reach the threshold */
    while (n < candidates->count &&
           candidate_float_probability(&candidates->items[n], highest, total) >= options->xtc_threshold)
        n++;
    if (n < 2) return;
    candidates->count -= n - 1;
    memmove(candidates->items, candidates->items + n - 1, candidates->count * sizeof *candidates->items);
}
