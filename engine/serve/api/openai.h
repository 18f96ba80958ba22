/* openai.h: parts of answers that OpenAI's APIs share. All functions give new references; NULL: out of
 * memory. */
#ifndef ENGINE_SERVE_API_OPENAI_H
#define ENGINE_SERVE_API_OPENAI_H

#include <jansson.h>

#include "serve/generate/generation.h"

/* Identifies the model and the engine, as far as results depend on them: "fp_" and 16 digits. */
void openai_fingerprint(const struct served *served, char text[24]);
/* "stop", "length", "tool_calls" */
const char *openai_finish_reason(const struct choice *choice);
/* Of chat and completions. */
json_t *openai_usage(const struct generation *generation);
/* How long a choice took so far, as llama.cpp's server has it. */
json_t *openai_timings(const struct choice *choice);
/* A token with its probability and its most likely rivals, as in chat's logprobs.content. `n_top`: of
 * event->top. */
json_t *openai_logprob(struct engine_model *model, const struct engine_event *event, uint32_t n_top);
/* Keeps such tokens in choice->state, an array, if the request wants them: all of a choice, or of a stream
 * those that no part has had yet. For the generation's `token`. */
void openai_take_token(struct choice *choice, const struct engine_event *event);
void openai_free_tokens(struct choice *choice);
/* -9999 for what is impossible, as in OpenAI's API: JSON has no infinity. */
json_t *openai_logarithm(float logprob);
/* A float32 as it was typed: 0.95 is not 0.949999988. */
json_t *openai_number(float value);
/* Sends {"error": {…}} in a stream. */
void openai_stream_failed(struct generation *generation, const struct api_error *error);

/* Fields of chat and completions alike that nothing depends on, and such that can only have one value. */
#define OPENAI_COMMON_FIELDS                                                                                 \
    {"model", params_read_nothing}, {"user", params_read_any_text}, {"metadata", params_read_metadata},      \
        {"safety_identifier", params_read_any_text}, {"prompt_cache_key", params_read_any_text},             \
        {"prompt_cache_retention", params_read_any_text}, {"store", params_read_only_false},                 \
        {"service_tier", params_read_service_tier}, {"cache_prompt", params_read_only_true},                 \
        {"stream", params_read_stream}, {"stream_options", params_read_stream_options},                      \
    {                                                                                                        \
        "n", params_read_n                                                                                   \
    }

#endif
