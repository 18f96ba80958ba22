/* shape.h: the grammar of a whole reply in a conversation: reasoning where the model may reason, then what was asked for:
 * JSON of a schema, or calls of tools in the form that the model's family writes. */
#ifndef ENGINE_SERVE_GENERATE_SHAPE_H
#define ENGINE_SERVE_GENERATE_SHAPE_H

#include "commands/prompt.h"
#include "serve/generate/ask.h"

/* What the grammar depends on besides the ask. */
struct shape {
    struct engine_model *model;
    const struct vocabulary *vocabulary;
    uint32_t format;             /* enum engine_reply_format */
    const char *template_text;   /* NUL-terminated */
    bool reasoning;              /* the prompt's end has begun the reasoning */
    int (*gives_up)(void *user); /* as in engine_grammar_options */
    void *user;
};

/* Whether the ask needs a grammar in a conversation. */
bool shape_needed(const struct ask *ask);

/* *grammar is NULL if any reply will do. False: a mistake, which is recorded. The grammar belongs to the caller. */
bool shape_make(const struct shape *shape, const struct ask *ask, struct engine_grammar **grammar,
                struct mistake *mistake);

/* The grammar of a text that begins where the prompt ends: what the ask's constraint says. */
bool shape_constrain(const struct shape *shape, const struct ask *ask, struct engine_grammar **grammar,
                     struct mistake *mistake);

#endif
