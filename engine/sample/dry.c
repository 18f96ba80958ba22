/* dry.c: DRY ("don't repeat yourself", github.com/oobabooga/text-generation-webui, pull request 5677): a
 * token that would continue a repetition of n tokens, of at least the allowed length, loses multiplier *
 * base^(n - allowed length). A repetition does not reach back over a sequence breaker. */
#include <math.h>
#include <stdlib.h>

#include "base/error.h"
#include "sample/portable.h"
#include "sample/steps.h"

int dry_create(struct engine_sampler *sampler, const struct sampler_settings *settings,
               const struct token_texts *texts)
{
    const struct engine_sampler_options *options = &settings->options;
    if (!settings_want_dry(settings)) return ENGINE_OK;
    size_t n = sampler->options.dry_penalty_last_n;
    sampler->dry.lengths = calloc(sampler->n_vocab, sizeof *sampler->dry.lengths);
    sampler->dry.found = calloc(n, sizeof *sampler->dry.found);
    sampler->dry.z = calloc(n, sizeof *sampler->dry.z);
    if (!sampler->dry.lengths || !sampler->dry.found || !sampler->dry.z) return error_memory("sampler");
    if (options->n_dry_breakers == 0) return ENGINE_OK;
    return dry_breakers_create(&sampler->dry.breakers, options->dry_breakers, options->n_dry_breakers, texts,
                               sampler->n_vocab);
}

void dry_destroy(struct engine_sampler *sampler)
{
    free(sampler->dry.lengths);
    free(sampler->dry.found);
    free(sampler->dry.z);
    dry_breakers_destroy(&sampler->dry.breakers);
}

/* z[k]: how many of the last tokens, read backwards, also stand before the last k; the Z-function of the
 * reversed text (Gusfield, Algorithms on Strings, 1997, 1.4). */
static void find_repetitions(const struct history *history, size_t n, uint32_t *z)
{
    size_t left = 0, right = 0; /* the box that reaches furthest: [left, right) */
    z[0] = (uint32_t)n;
    for (size_t k = 1; k < n; k++) {
        size_t length = 0;
        if (k < right) length = z[k - left] < right - k ? z[k - left] : right - k;
        while (k + length < n && history_at(history, length) == history_at(history, k + length)) length++;
        z[k] = (uint32_t)length;
        if (k + length > right) {
            left = k;
            right = k + length;
        }
    }
}

static double penalty_of(const struct engine_sampler_options *options, uint32_t length)
{
    double base = (double)options->dry_base, result = (double)options->dry_multiplier;
    uint32_t exponent = length - options->dry_allowed_length, most = 0;
    /* up to the exponent at which base^exponent leaves float32 */
    if (options->dry_base > 1.000001f) most = (uint32_t)(88.7228391 / portable_log(base));
    if (most > 0 && exponent > most) exponent = most;
    for (; exponent > 0; exponent >>= 1, base *= base)
        if (exponent & 1) result *= base;
    return result;
}

static void penalize(struct engine_sampler *sampler, float *logit, int32_t token)
{
    uint32_t length = sampler->dry.lengths[token];
    if (length == 0 || dry_breakers_has(&sampler->dry.breakers, token) || !isfinite(*logit)) return;
    *logit = finite_logit((double)*logit - penalty_of(&sampler->options, length - 1));
}

void step_dry(struct engine_sampler *sampler)
{
    const struct history *history = &sampler->history;
    struct dry *dry = &sampler->dry;
    size_t allowed = sampler->options.dry_allowed_length, n = sampler->options.dry_penalty_last_n,
           n_found = 0;
    if (!dry->lengths) return;
    if (n > history->count) n = history->count;
    if (n <= allowed) return;
    size_t reach = dry_breakers_reach(&dry->breakers, history, n);
    if (reach < allowed) return;
    find_repetitions(history, n, dry->z);
    for (size_t k = 1; k < n; k++) {
        size_t length = dry->z[k] < reach ? dry->z[k] : reach;
        if (length < allowed) continue;
        int32_t token = history_at(history, k - 1); /* what came after the repeated tokens */
        if (dry->lengths[token] == 0) dry->found[n_found++] = token;
        if (dry->lengths[token] < length + 1) dry->lengths[token] = (uint32_t)length + 1;
    }
    struct candidates *candidates = &sampler->candidates;
    if (!candidates->listed)
        for (size_t i = 0; i < n_found; i++)
            penalize(sampler, &candidates->logits[dry->found[i]], dry->found[i]);
    else
        for (size_t i = 0; i < candidates->count; i++)
            penalize(sampler, &candidates->items[i].logit, candidates->items[i].id);
    for (size_t i = 0; i < n_found; i++) dry->lengths[dry->found[i]] = 0;
}
