/* constraints.h: grammars and JSON schemas, from the command line or from lines of a batch. */
#ifndef ENGINE_COMMANDS_CONSTRAINTS_H
#define ENGINE_COMMANDS_CONSTRAINTS_H

#include <stdbool.h>

#include "commands/arguments.h"
#include "engine.h"

/* What constrains a text; kind 0: nothing. */
struct constraint {
    enum engine_grammar_kind kind;
    char *text; /* [size]; NULL for any JSON object */
    size_t size;
    const char *option; /* that asks for it; NULL: a line of a batch does */
    bool is_typed;      /* the text is the option's value, not that of a file */
};

/* Reads what --grammar, --json-schema and so on ask for; no more than one may be given. constraint_free in either
 * case. Returns an enum engine_status, with command_error's message. */
int constraint_read(const struct arguments *arguments, struct constraint *constraint);
void constraint_free(struct constraint *constraint);

/* *grammar is NULL without a constraint. Returns an enum engine_status; a mistake in a text that was typed is one of the
 * command line, with command_error's message. */
int constraint_open(struct engine_model *model, const struct constraint *constraint,
                    struct engine_grammar **grammar);

#endif
