/* internal.h: what the files of api/ share. */
#ifndef ENGINE_SERVE_API_INTERNAL_H
#define ENGINE_SERVE_API_INTERNAL_H

#include <jansson.h>
#include <stddef.h>

#include "serve/generate/generation.h"
#include "serve/models/models.h"
#include "serve/params/params.h"

/* ---- chat.c: parts of answers that OpenAI's APIs share ---- */

/* All functions that return JSON give new references; NULL: out of memory. */

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

/* A stream's last event where memory has run out. */
#define OPENAI_LAST_WORDS "data: " OUT_OF_MEMORY_OPENAI "\n\n"
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

/* ---- completions.c: prompts that are no conversations, for all APIs that have some ---- */

/* A field with the most tokens that are written, for tables of fields. */
bool completions_read_limit(struct params *params, const char *name, json_t *value, struct api_error *error);
/* Makes room for prompts: params->prompts. */
bool completions_make_prompts(struct params *params, size_t count, struct api_error *error);
/* Reads "prompt" and "suffix" of a request. */
bool completions_read_prompts(struct params *params, const struct served *served, const json_t *body,
                              struct api_error *error);

/* ---- infill.c: prompts that have a model fill in the middle of a text (arXiv 2207.14255) ---- */

struct fim_texts {
    const json_t *prefix, *suffix;
    const json_t *begun; /* goes on with the prefix; NULL: nothing */
    bool files;          /* the prompt has what the model wants to know of the project: its files */
    const json_t *extra; /* with `files`: the others, an array of {"text", "filename"}; NULL: none */
    const char *param;   /* the field to blame if the model has no marks for gaps */
};

/* Writes a prompt for the text between two others, as llama.cpp's server does: the files, then prefix and
 * suffix, each after its mark, and the mark of the middle. */
bool fim_prompt(const struct served *served, const struct fim_texts *texts, struct token_list *tokens,
                struct api_error *error);

#endif
