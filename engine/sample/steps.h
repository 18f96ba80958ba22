/* steps.h: the steps of a sampler's chain, and the state that they share. Each works on the candidates that
 * the step before it left, and leaves at least one. Formulas and their sources: docs/sampling.md.
 *
 *   bias.c          logit bias
 *   ban.c           banned texts
 *   penalties.c     repetition, frequency and presence penalties
 *   dry.c           DRY: a penalty for continuing a repetition
 *   truncate.c      top-n-sigma, top-k, typical, top-p, min-p, XTC
 *   temperature.c   temperature, fixed and dynamic
 *   mirostat.c      Mirostat 1 and 2, in place of all truncations */
#ifndef ENGINE_SAMPLE_STEPS_H
#define ENGINE_SAMPLE_STEPS_H

#include "engine.h"
#include "sample/ban.h"
#include "sample/candidates.h"
#include "sample/dry-breakers.h"
#include "sample/history.h"
#include "sample/settings.h"

struct dry {
    /* [n_vocab] 1 + how many tokens a token would repeat before itself; 0: none. All 0 between calls. NULL:
     * DRY is off. */
    uint32_t *lengths;
    int32_t *found; /* [dry_penalty_last_n] tokens that have a length */
    uint32_t *z;    /* [dry_penalty_last_n] */
    struct dry_breakers breakers;
};

struct engine_sampler {
    struct engine_sampler_options options; /* texts and tables are in the fields below */
    uint8_t steps[SETTINGS_MOST_STEPS];    /* [n_steps] enum sampler_step */
    size_t n_steps;
    uint32_t n_vocab;
    struct engine_logit_bias *bias; /* [options.n_logit_bias] */

    uint64_t random; /* state */
    float mu;        /* of Mirostat */
    struct history history;
    uint32_t
        *counts; /* [n_vocab], how often the penalties' last tokens have each token; NULL: no penalties */
    struct dry dry;
    struct ban ban;

    struct candidates candidates;
};

void step_bias(struct engine_sampler *sampler);
void step_penalties(struct engine_sampler *sampler);
void step_dry(struct engine_sampler *sampler);
void step_top_n_sigma(struct engine_sampler *sampler);
void step_top_k(struct engine_sampler *sampler);
void step_typical(struct engine_sampler *sampler);
void step_top_p(struct engine_sampler *sampler);
void step_min_p(struct engine_sampler *sampler);
void step_xtc(struct engine_sampler *sampler);
void step_temperature(struct engine_sampler *sampler);
void step_mirostat(struct engine_sampler *sampler);

/* Records a token for the penalties. Before history_add. */
void penalties_accept(struct engine_sampler *sampler, int32_t token);

int dry_create(struct engine_sampler *sampler, const struct sampler_settings *settings,
               const struct token_texts *texts);
void dry_destroy(struct engine_sampler *sampler);

/* Tells Mirostat the probability of the token that was drawn. */
void mirostat_learn(struct engine_sampler *sampler, double probability);

#endif
