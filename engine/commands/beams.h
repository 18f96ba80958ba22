/* beams.h: beam search from the command line: its options, and its results as JSON. */
#ifndef ENGINE_COMMANDS_BEAMS_H
#define ENGINE_COMMANDS_BEAMS_H

#include <jansson.h>
#include <stdbool.h>
#include <stdio.h>

#include "commands/arguments.h"
#include "engine.h"

#define BEAMS_MOST         1024
#define BEAMS_MOST_PENALTY 32 /* the length penalty's distance from 0 */

/* As in struct engine_request. */
struct beam_options {
    uint32_t n_beams; /* 0 or 1: off */
    float length_penalty;
    uint32_t early_stopping;
};

static inline bool wants_beams(const struct arguments *arguments)
{
    return arguments->n_beams > 1;
}

/* Reads --beams, --length-penalty and --early-stopping, and refuses what can't be combined with them. Returns an enum
 * engine_status, with command_error's message. `sampling`: what the command line says. */
struct sampling;
int beam_options_read(const struct arguments *arguments, const struct sampling *sampling,
                      struct beam_options *options);

/* "false", "true" or "never" as an enum engine_early_stopping. */
uint32_t early_stopping_of(const char *word);

/* The positions of the cache for a search of texts with at most `limit` tokens: all beams have the prompt in common. */
uint32_t beams_cache_size(const struct arguments *arguments, uint32_t limit);

/* The texts found, as an array: {"text", "score", "logprob", and, with `tokens`, "tokens"}, and why each ended under the
 * name `end`, in the words of `name_of`. */
json_t *beam_results_json(const struct engine_event *event, bool tokens, const char *end,
                          const char *(*name_of)(uint32_t reason));

/* A table of these: score, log-probability, number of tokens, and text in quotes, or ids with `shows_ids`. */
void beam_results_print(const json_t *beams, bool shows_ids, FILE *out);

#endif
