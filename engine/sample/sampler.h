/* sampler.h: what other modules use of the sampler beside engine.h. */
#ifndef ENGINE_SAMPLE_SAMPLER_H
#define ENGINE_SAMPLE_SAMPLER_H

#include "engine.h"
#include "sample/settings.h"
#include "vocabulary/token-texts.h"

/* Whether the tokens that the settings name are below n_vocab. */
int sampler_check_tokens(const struct sampler_settings *settings, uint32_t n_vocab);

/* Whether a sampler has to know the texts of tokens. */
bool sampler_needs_texts(const struct sampler_settings *settings);

/* `texts` may be NULL unless they are needed, and outlive the sampler. */
int sampler_create(const struct sampler_settings *settings, uint32_t n_vocab, const struct token_texts *texts,
                   struct engine_sampler **sampler);

/* Adds the bias to logits, for choices without a sampler. */
void sampler_add_bias(const struct sampler_settings *settings, float *logits);

#endif
