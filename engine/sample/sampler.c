/* sampler.c: from logits to a token (engine.h, "Sampling"): runs the steps of the chain over the candidates,
 * and draws one of those that are left. Probabilities are always those among the remaining candidates.
 *
 * The same options, seed and logits give the same token on every machine: the portable arithmetic of
 * sampler.h says how. Nothing is allocated after the sampler has been created. */
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "common/assert.h"
#include "sample/internal.h"

/* ---- Creation ---- */

static bool sampler_has_step(const struct engine_sampler *sampler, enum sampler_step step)
{
    for (size_t i = 0; i < sampler->n_steps; i++)
        if (sampler->steps[i] == step) return true;
    return false;
}

int sampler_check_tokens(const struct sampler_settings *settings, uint32_t n_vocab)
{
    const struct engine_sampler_options *options = &settings->options;
    for (size_t i = 0; i < options->n_logit_bias; i++) {
        int32_t token = options->logit_bias[i].token;
        if (token < 0 || (uint32_t)token >= n_vocab)
            return error_raise(ENGINE_ERROR_ARGUMENT,
                               "logit_bias: there is no token %" PRIi32 "; the model has 0 to %" PRIu32,
                               token, n_vocab - 1);
    }
    return ENGINE_OK;
}

static int sampler_copy_bias(struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    sampler->bias = calloc(options->n_logit_bias > 0 ? options->n_logit_bias : 1, sizeof *sampler->bias);
    if (!sampler->bias) return error_memory("sampler");
    if (options->n_logit_bias > 0)
        memcpy(sampler->bias, options->logit_bias, options->n_logit_bias * sizeof *sampler->bias);
    return ENGINE_OK;
}

static int sampler_fill(struct engine_sampler *sampler, const struct sampler_settings *settings,
                        const struct token_texts *texts)
{
    const struct engine_sampler_options *options = &sampler->options;
    size_t last_n = 0;
    if (sampler_has_step(sampler, SAMPLER_PENALTIES)) last_n = options->penalty_last_n;
    sampler->candidates.n_vocab = sampler->n_vocab;
    sampler->candidates.items = calloc(sampler->n_vocab, sizeof *sampler->candidates.items);
    if (!sampler->candidates.items) return error_memory("sampler");
    if (last_n > 0) {
        sampler->counts = calloc(sampler->n_vocab, sizeof *sampler->counts);
        if (!sampler->counts) return error_memory("sampler");
    }
    int status = dry_create(sampler, settings, texts);
    if (sampler->dry.lengths && options->dry_penalty_last_n > last_n) last_n = options->dry_penalty_last_n;
    if (!status) status = history_create(&sampler->history, last_n);
    if (!status) status = sampler_copy_bias(sampler);
    if (!status) status = ban_create(&sampler->ban, options->ban, options->n_ban, texts, sampler->n_vocab);
    return status;
}

bool sampler_needs_texts(const struct sampler_settings *settings)
{
    return settings->options.n_ban > 0 ||
           (sampler_settings_want_dry(settings) && settings->options.n_dry_breakers > 0);
}

int sampler_create(const struct sampler_settings *settings, uint32_t n_vocab, const struct token_texts *texts,
                   struct engine_sampler **sampler)
{
    if (!texts && sampler_needs_texts(settings))
        return error_raise(ENGINE_ERROR_ARGUMENT,
                           "%s needs the texts of tokens: create the sampler for a model",
                           settings->options.n_ban > 0 ? "ban" : "DRY with sequence breakers");
    if (n_vocab == 0 || n_vocab > INT32_MAX)
        return error_raise(ENGINE_ERROR_ARGUMENT, "the vocabulary has %u tokens; a sampler supports 1 to %d",
                           n_vocab, INT32_MAX);
    int status = sampler_check_tokens(settings, n_vocab);
    if (status) return status;
    struct engine_sampler *created = calloc(1, sizeof *created);
    if (!created) return error_memory("sampler");
    created->options = settings->options;
    memcpy(created->steps, settings->steps, sizeof created->steps);
    created->n_steps = settings->n_steps;
    created->n_vocab = n_vocab;
    created->random = settings->options.seed;
    created->mu = 2 * settings->options.mirostat_tau;
    status = sampler_fill(created, settings, texts);
    /* The settings' copies may go before the sampler does. */
    created->options.logit_bias = NULL;
    created->options.dry_breakers = created->options.ban = NULL;
    if (status)
        engine_sampler_destroy(created);
    else
        *sampler = created;
    return status;
}

int engine_sampler_create(const struct engine_sampler_options *options, uint32_t n_vocab,
                          struct engine_sampler **sampler)
{
    struct sampler_settings settings;
    int status = sampler_settings_read(options, &settings);
    if (status) return status;
    status = sampler_create(&settings, n_vocab, NULL, sampler);
    sampler_settings_free(&settings);
    return status;
}

void engine_sampler_destroy(struct engine_sampler *sampler)
{
    if (!sampler) return;
    ban_destroy(&sampler->ban);
    dry_destroy(sampler);
    history_destroy(&sampler->history);
    free(sampler->bias);
    free(sampler->counts);
    free(sampler->candidates.items);
    free(sampler);
}

void engine_sampler_accept(struct engine_sampler *sampler, int32_t token)
{
    if (token < 0 || (uint32_t)token >= sampler->n_vocab) return;
    penalties_accept(sampler, token);
    history_add(&sampler->history, token);
    ban_accept(&sampler->ban, token);
}

/* ---- Logit bias ---- */

static void add_bias(const struct engine_logit_bias *bias, size_t count, float *logits)
{
    for (size_t i = 0; i < count; i++) {
        float *logit = &logits[bias[i].token];
        if (!isfinite(*logit)) continue;
        *logit = bias[i].bias == -INFINITY ? -INFINITY : finite_logit((double)*logit + (double)bias[i].bias);
    }
}

static void step_bias(struct engine_sampler *sampler)
{
    add_bias(sampler->bias, sampler->options.n_logit_bias, sampler->candidates.logits);
}

void sampler_add_bias(const struct sampler_settings *settings, float *logits)
{
    add_bias(settings->options.logit_bias, settings->options.n_logit_bias, logits);
}

/* ---- The chain ---- */

static void run_step(struct engine_sampler *sampler, enum sampler_step step)
{
    switch (step) {
    case SAMPLER_PENALTIES: sampler_penalties(sampler); break;
    case SAMPLER_DRY: sampler_dry(sampler); break;
    case SAMPLER_TOP_N_SIGMA: sampler_top_n_sigma(sampler); break;
    case SAMPLER_TOP_K: sampler_top_k(sampler); break;
    case SAMPLER_TYPICAL: sampler_typical(sampler); break;
    case SAMPLER_TOP_P: sampler_top_p(sampler); break;
    case SAMPLER_MIN_P: sampler_min_p(sampler); break;
    case SAMPLER_XTC: sampler_xtc(sampler); break;
    case SAMPLER_TEMPERATURE: sampler_temperature(sampler); break;
    case SAMPLER_N_STEPS: break;
    }
}

/* Whether the most likely token is taken. */
static bool is_greedy(const struct engine_sampler *sampler)
{
    const struct engine_sampler_options *options = &sampler->options;
    return options->temperature == 0 && options->dynatemp_range == 0 &&
           (options->mirostat > 0 || sampler_has_step(sampler, SAMPLER_TEMPERATURE));
}

/* The steps that matter to a greedy choice: those up to the last one that changes logits. */
static size_t greedy_steps(const struct engine_sampler *sampler)
{
    for (size_t n = sampler->options.mirostat > 0 ? 0 : sampler->n_steps; n > 0; n--)
        if (sampler->steps[n - 1] == SAMPLER_PENALTIES || sampler->steps[n - 1] == SAMPLER_DRY) return n;
    return 0;
}

/* No candidate is left. Bans make logits -infinity; damaged weights leave others that are not numbers. */
static int nothing_left(const struct engine_sampler *sampler, const float *logits)
{
    bool banned = sampler->ban.vocabulary || sampler->options.n_logit_bias > 0;
    for (uint32_t i = 0; i < sampler->n_vocab; i++) banned = banned && !isnan(logits[i]);
    return error_raise(ENGINE_ERROR_DATA, "no token is left: %s",
                       banned ? "all that could follow are banned, by a banned text or a logit bias"
                              : "no logit is finite, so the model's weights are damaged");
}

static int run_chain(struct engine_sampler *sampler, float *logits)
{
    struct candidates *candidates = &sampler->candidates;
    bool greedy = is_greedy(sampler);
    candidates_begin(candidates, logits);
    step_bias(sampler);
    int status = ban_apply(&sampler->ban, logits);
    if (status) return status;
    if (sampler->options.mirostat > 0 && !greedy) {
        sampler_temperature(sampler);
        sampler_mirostat(sampler);
    } else {
        size_t n = greedy ? greedy_steps(sampler) : sampler->n_steps;
        for (size_t i = 0; i < n; i++) {
            run_step(sampler, sampler->steps[i]);
            if (candidates->listed && candidates->count == 0) break;
        }
    }
    if (greedy)
        candidates_keep_top(candidates, 1);
    else
        candidates_list(candidates);
    return candidates->count > 0 ? ENGINE_OK : nothing_left(sampler, logits);
}

/* Makes the candidates' keys their weights in a softmax. Returns the sum. */
static double weigh_candidates(struct engine_sampler *sampler)
{
    struct candidates *candidates = &sampler->candidates;
    double highest = (double)candidates_highest(candidates), total = 0;
    for (size_t i = 0; i < candidates->count; i++) {
        struct candidate *candidate = &candidates->items[i];
        candidate->key = portable_exp((double)candidate->logit - highest);
        total += candidate->key;
    }
    return total;
}

/* Draws a candidate with the probabilities of the weights. */
static const struct candidate *draw_candidate(struct engine_sampler *sampler, double total)
{
    const struct candidate *items = sampler->candidates.items, *drawn = &items[0];
    double target = portable_random_unit(&sampler->random) * total, sum = 0;
    ENGINE_ASSERT(total >= 1 && sampler->candidates.count > 0);
    for (size_t i = 0; i < sampler->candidates.count; i++) {
        if (items[i].key == 0) continue;
        drawn = &items[i];
        sum += drawn->key;
        if (sum > target) break;
    }
    return drawn;
}

int engine_sample(struct engine_sampler *sampler, float *logits, int32_t *token)
{
    int status = run_chain(sampler, logits);
    if (status) return status;
    if (is_greedy(sampler)) {
        *token = sampler->candidates.items[0].id;
        return ENGINE_OK;
    }
    double total = weigh_candidates(sampler);
    const struct candidate *drawn = draw_candidate(sampler, total);
    *token = drawn->id;
    if (sampler->options.mirostat > 0) mirostat_learn(sampler, drawn->key / total);
    return ENGINE_OK;
}

int engine_sampler_probabilities(struct engine_sampler *sampler, float *logits, float *probabilities)
{
    uint64_t random = sampler->random;
    int status = run_chain(sampler, logits);
    sampler->random = random;
    if (status) return status;
    double total = weigh_candidates(sampler);
    for (uint32_t id = 0; id < sampler->n_vocab; id++) probabilities[id] = 0;
    for (size_t i = 0; i < sampler->candidates.count; i++) {
        const struct candidate *candidate = &sampler->candidates.items[i];
        probabilities[candidate->id] = (float)(candidate->key / total);
    }
    return ENGINE_OK;
}

int engine_sampler_create_for(struct engine_model *model, const struct engine_sampler_options *options,
                              uint32_t n_vocab, struct engine_sampler **sampler)
{
    struct sampler_settings settings;
    const struct token_texts *texts = NULL;
    int status = sampler_settings_read(options, &settings);
    if (status) return status;
    if (sampler_needs_texts(&settings)) status = model_token_texts(model, &texts);
    if (!status) status = sampler_create(&settings, n_vocab, texts, sampler);
    sampler_settings_free(&settings);
    return status;
}
