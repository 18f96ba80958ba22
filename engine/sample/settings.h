/* settings.h: a caller's sampler options, checked and copied, so that a request can keep them until it
 * runs. */
#ifndef ENGINE_SAMPLE_SETTINGS_H
#define ENGINE_SAMPLE_SETTINGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"

#define SETTINGS_MOST_STEPS 64

enum sampler_step {
    STEP_PENALTIES,
    STEP_DRY,
    STEP_TOP_N_SIGMA,
    STEP_TOP_K,
    STEP_TYPICAL,
    STEP_TOP_P,
    STEP_MIN_P,
    STEP_XTC,
    STEP_TEMPERATURE,
    STEP_COUNT
};

struct sampler_settings {
    struct engine_sampler_options options; /* its arrays and texts are copies, owned */
    uint8_t steps[SETTINGS_MOST_STEPS];    /* [n_steps] enum sampler_step: options.samplers */
    size_t n_steps;
};

int sampler_settings_read(const struct engine_sampler_options *given, struct sampler_settings *settings);
/* Whether DRY is on. */
bool settings_want_dry(const struct sampler_settings *settings);
/* All zero is allowed. */
void sampler_settings_free(struct sampler_settings *settings);

#endif
