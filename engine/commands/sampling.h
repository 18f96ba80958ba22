/* sampling.h: the sampling options of the command line, as engine.h has them. */
#ifndef ENGINE_COMMANDS_SAMPLING_H
#define ENGINE_COMMANDS_SAMPLING_H

#include <stddef.h>

#include "commands/arguments.h"
#include "engine.h"

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

/* Takes what the model recommends (general.sampling.* in its metadata) for options that were not given; nothing for
 * --beams, which don't sample. Returns an enum engine_status. */
int sampling_adopt(const struct arguments *arguments, struct engine_model *model, struct sampling *sampling);

/* Whether the vocabulary has the tokens of --logit-bias and --ban-token. */
struct vocabulary;
int sampling_check_tokens(const struct sampling *sampling, const struct vocabulary *vocabulary);

/* The options with a seed. */
struct engine_sampler_options sampling_options(const struct sampling *sampling, uint64_t seed);

/* The names of samplers from llama.cpp's letters for them. False: a letter is unknown. */
bool sampling_names(const char *letters, char names[SAMPLING_NAMES]);

/* Calls `add` with the options that are not at their defaults, except the seed, as bytes: what a result depends
 * on. */
void sampling_hash(const struct sampling *sampling, void (*add)(void *user, const void *bytes, size_t size),
                   void *user);

#endif
