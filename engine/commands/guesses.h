/* guesses.h: --lookup and --draft, for commands that run a queue. */
#ifndef ENGINE_COMMANDS_GUESSES_H
#define ENGINE_COMMANDS_GUESSES_H

#include <stdbool.h>

#include "commands/arguments.h"
#include "engine.h"

struct draft_model {
    struct engine_model *model;
    struct engine_context *context;
};

bool wants_guesses(const struct arguments *arguments);

/* Whether the options fit together. */
int guesses_check(const struct arguments *arguments);

/* Loads the draft model, if one is named, with the context options of the model, and completes the options
 * of its queue. */
int guesses_open(const struct arguments *arguments, struct engine *engine,
                 const struct engine_context_options *options, struct draft_model *draft,
                 struct engine_queue_options *queue);
/* After the queue. */
void guesses_close(struct draft_model *draft);

#endif
