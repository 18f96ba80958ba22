/* sampling.h: how the command line wants texts to be written: by sampling, by beam search, within a
 * grammar. */
#ifndef ENGINE_OPTIONS_SAMPLING_H
#define ENGINE_OPTIONS_SAMPLING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "engine.h"
#include "options/arguments.h"

#define SAMPLING_NAMES 512 /* bytes for the names of samplers */

/* Texts as they were typed, with \n, \t, \r, \\, \", \' and \xHH replaced by what they stand for. */
struct text_list {
    struct engine_string *items; /* [count] */
    size_t count;
};
int texts_read(const struct argument_list *typed, const char *option, struct text_list *texts);
void texts_free(struct text_list *texts);

struct sampling {
    struct engine_sampler_options options; /* its arrays are the fields below */
    struct engine_sampler_options typed;   /* the same without what the model recommends: for beams */
    char samplers[SAMPLING_NAMES];
    struct engine_logit_bias *bias;
    struct text_list breakers, ban;
};
/* Reads and checks the options. Returns an enum engine_status; sampling_free in either case. */
int sampling_read(const struct arguments *arguments, struct sampling *sampling);
void sampling_free(struct sampling *sampling);

/* Takes what the model recommends (general.sampling.* in its metadata) for options that were not given;
 * nothing for --beams, which don't sample. Returns an enum engine_status. */
int sampling_adopt(const struct arguments *arguments, struct engine_model *model, struct sampling *sampling);

/* Whether a vocabulary of n_tokens tokens has those of --logit-bias and --ban-token. */
int sampling_check_tokens(const struct sampling *sampling, uint32_t n_tokens);

/* The options with a seed. */
struct engine_sampler_options sampling_options(const struct sampling *sampling, uint64_t seed);

/* The names of samplers from llama.cpp's letters for them. False: a letter is unknown. */
bool sampling_names(const char *letters, char names[SAMPLING_NAMES]);

/* Calls `add` with the options that are not at their defaults, except the seed, as bytes: what a result
 * depends on. */
void sampling_hash(const struct sampling *sampling, void (*add)(void *user, const void *bytes, size_t size),
                   void *user);

/* ---- Beam search ---- */

#define MAX_BEAMS         1024
#define MAX_BEAMS_PENALTY 32 /* the length penalty's distance from 0 */

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

/* Reads --beams, --length-penalty and --early-stopping, and refuses what can't be combined with them. Returns
 * an enum engine_status, with command_error's message. `sampling`: what the command line says. */
int beam_options_read(const struct arguments *arguments, const struct sampling *sampling,
                      struct beam_options *options);

/* "false", "true" or "never" as an enum engine_early_stopping. */
uint32_t early_stopping_of(const char *word);

/* The positions of the cache for a search of texts with at most `limit` tokens in a context of so many
 * positions: all beams have the prompt in common. */
uint32_t beams_cache_size(const struct arguments *arguments, uint32_t n_context, uint32_t limit);

/* ---- Grammars and JSON schemas, from the command line or from lines of a batch ---- */

/* What constrains a text; kind 0: nothing. */
struct constraint {
    enum engine_grammar_kind kind;
    char *text; /* [size]; NULL for any JSON object */
    size_t size;
    const char *option; /* that asks for it; NULL: a line of a batch does */
    bool is_typed;      /* the text is the option's value, not that of a file */
};

/* Reads what --grammar, --json-schema and so on ask for; no more than one may be given. constraint_free in
 * either case. Returns an enum engine_status, with command_error's message. */
int constraint_read(const struct arguments *arguments, struct constraint *constraint);
void constraint_free(struct constraint *constraint);

/* *grammar is NULL without a constraint. Returns an enum engine_status; a mistake in a text that was typed is
 * one of the command line, with command_error's message. */
int constraint_open(struct engine_model *model, const struct constraint *constraint,
                    struct engine_grammar **grammar);

#endif
