/* text-options.h: what JSON says about a text that is to be written: sampling, limits, stop texts,
 * constraints. Lines of `engine batch` and the server's requests have the same names for it. */
#ifndef ENGINE_PROMPTS_TEXT_OPTIONS_H
#define ENGINE_PROMPTS_TEXT_OPTIONS_H

#include <jansson.h>
#include <stdbool.h>

#include "engine.h"
#include "options/sampling.h"

struct text_options {
    uint32_t max_tokens, n_logprobs;
    bool temperature_given;
    struct engine_sampler_options sampler;
    bool seed_given;
    int32_t priority;
    bool ignore_end;
    bool constrained; /* it is said what constrains the text, which may be nothing */
    struct constraint constraint;
    struct engine_string *stop; /* [n_stop]; NULL: not given */
    size_t n_stop;
    /* What `sampler` points to, if it is given. */
    struct engine_string *breakers, *ban;
    struct engine_logit_bias *bias;
    char samplers[SAMPLING_NAMES];
};

enum text_option_result { TEXT_OPTION_UNKNOWN, TEXT_OPTION_READ, TEXT_OPTION_WRONG };

/* The error where memory runs out, which is no mistake of whoever wrote the JSON. */
#define TEXT_OPTION_NO_MEMORY "out of memory"

/* Reads one option over what *options holds, which must not move from then on; texts in `value` are not
 * copied. WRONG: *error says why, in one line. */
enum text_option_result text_option_read(struct text_options *options, const char *name, json_t *value,
                                         char error[256]);
void text_options_free(struct text_options *options);

/* A text, or an array of at most `most` texts: *texts [*n_texts], for the caller to free; null changes
 * nothing. */
bool text_options_texts(const char *name, const json_t *value, size_t most, struct engine_string **texts,
                        size_t *n_texts, char error[256]);

#endif
