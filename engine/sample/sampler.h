/* sampler.h: what other modules use of the sampler beside engine.h. */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "engine.h"

/* Copies a caller's options and checks them, as engine_sampler_create does. */
int sampler_read_options(const struct engine_sampler_options *given, struct engine_sampler_options *known);

#endif
