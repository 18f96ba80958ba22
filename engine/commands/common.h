/* common.h: what several commands do alike: opening the engine and the model, options for contexts, errors.
 * */
#ifndef ENGINE_COMMANDS_COMMON_H
#define ENGINE_COMMANDS_COMMON_H

#include <stdbool.h>
#include <stdio.h>

#include "commands/arguments.h"
#include "engine.h"

int command_run(const struct arguments *arguments);
int command_info(const struct arguments *arguments);
int command_tokenize(const struct arguments *arguments);
int command_logits(const struct arguments *arguments);
int command_bench(const struct arguments *arguments);
int command_plan(const struct arguments *arguments);
int command_plugins(const struct arguments *arguments);
int command_devices(const struct arguments *arguments);

/* Prints "engine: MESSAGE" with engine_error_message() and returns the exit status 1. */
int command_fail(void);

/* Prints "engine: TEXT" and returns the exit status 2, for what is wrong with the command line itself. */
int command_usage(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Opens the engine with the arguments' plugin folders and configuration; warnings go to standard error. */
int open_engine(const struct arguments *arguments, struct engine **engine);

/* Opens -m's model, or the configuration's `model`; an error that says what to do if there is neither. */
int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model);

/* Options for contexts and plans from the arguments. `offload` is storage that options->offload may point to.
 * Shows a progress bar while loading if standard error is a terminal. */
int context_options(const struct arguments *arguments, struct engine_context_options *options,
                    int32_t *offload);

/* Reads a whole file, "-" for standard input. *data has *size bytes and a NUL behind them; the caller frees
 * it. */
int read_file(const char *path, char **data, size_t *size);

/* Set by SIGINT (Ctrl-C): commands that run long look at it between tokens and end cleanly. Installed by
 * main. */
extern volatile bool interrupted;

#endif
