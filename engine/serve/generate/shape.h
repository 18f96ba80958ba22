/* reply-grammar.h: the grammar of a whole reply in a conversation: reasoning where the model may reason, then
 * what was asked for: JSON of a schema, or calls of tools in the form that the model's family writes. */
#ifndef ENGINE_SERVE_GENERATE_SHAPE_H
#define ENGINE_SERVE_GENERATE_SHAPE_H

#include "commands/prompt.h"
#include "serve/generate/ask.h"

/* What the grammar depends on besides the parameters. */
struct reply_grammar_input {
    struct engine_model *model;
    const struct vocabulary *vocabulary;
    uint32_t format;             /* enum engine_reply_format */
    const char *template_text;   /* NUL-terminated */
    bool reasoning;              /* the prompt's end has begun the reasoning */
    int (*gives_up)(void *user); /* as in engine_grammar_options */
    void *user;
};

/* Whether the parameters need a grammar in a conversation. */
bool reply_grammar_needed(const struct params *params);

/* *grammar is NULL if any reply will do. False: an error, which is recorded. The grammar belongs to the
 * caller. */
bool reply_grammar_create(const struct reply_grammar_input *input, const struct params *params,
                          struct engine_grammar **grammar, struct api_error *error);

/* The grammar of a text that begins where the prompt ends: what the parameters' constraint says. */
bool reply_grammar_constrain(const struct reply_grammar_input *input, const struct params *params,
                             struct engine_grammar **grammar, struct api_error *error);

#endif
