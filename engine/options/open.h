/* open.h: opens what the command line names: the engine, the model with its adapters, a context or a plan on
 * the devices that were asked for, and a draft model. */
#ifndef ENGINE_OPTIONS_OPEN_H
#define ENGINE_OPTIONS_OPEN_H

#include <stdbool.h>
#include <stdint.h>

#include "engine.h"
#include "options/arguments.h"

/* Opens the engine with the plugin folders and configuration from the arguments. Warnings go to standard
 * error, with --verbose notes too. */
int open_engine(const struct arguments *arguments, struct engine **engine);
/* The same without warnings about unusable plugins, for commands that list them anyway. */
int open_engine_to_list(const struct arguments *arguments, struct engine **engine);

/* The path of the model: from -m, else from the setting `model`, else the model installed with the engine;
 * NULL if there is none. */
const char *path_of_model(const struct arguments *arguments, const struct engine *engine);

/* The path that -o names; NULL, for standard output, without it and for "-". */
const char *path_of_output(const struct arguments *arguments);

/* Opens the model at path_of_model. If there is none, the error says what to do. */
int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model);

/* The same at a path of the caller's: with --tokenizer, --load-type, --override-kv and rope's options. */
int open_model_to_run(const struct arguments *arguments, struct engine *engine, const char *path,
                      struct engine_model **model);

/* Opens a model, after --verify has compared its files with their checksums. `tokenizer` may be NULL. */
int open_model_file(const struct arguments *arguments, struct engine *engine, const char *path,
                    const char *tokenizer, struct engine_model **model);

/* Compares a model's or an adapter's files with their checksums, as --verify does, and reports it.
 * `tokenizer` may be NULL. */
int verify_files(const char *path, const char *tokenizer);

/* Options for contexts and plans from the arguments. `offload` is storage for options->offload. If standard
 * error is a terminal, a progress bar is shown while loading. */
void context_options(const struct arguments *arguments, struct engine_context_options *options,
                     int32_t *offload);

/* How long a context is, what the model was trained with, and the reason; returns `text`. */
const char *context_text(const struct engine_plan_context *context, char *text, size_t size);

/* The option that makes the context of these arguments longer. */
const char *context_option(const struct arguments *arguments, uint32_t n_context);

/* Opens the adapters of --lora and creates a context with them. `options` keeps none of them: a draft model's
 * context takes the same options. */
int create_context(const struct arguments *arguments, struct engine_model *model,
                   const struct engine_context_options *options, struct engine_context **context);
/* Splits FILE=SCALE. What follows the last "=" belongs to the name of the file if that exists so, or if it is
 * no number and nothing has the name before it. The caller frees *path. Returns an enum engine_status. */
int lora_split(const char *text, char **path, float *scale);
/* output_check for the files of --lora. */
int check_not_adapter(const char *path, const struct engine *engine, const struct arguments *arguments);
/* Adds those files and their scales to a hash. */
int hash_adapters(const struct arguments *arguments, uint64_t *hash);
/* create_context for a plan. */
int create_plan(const struct arguments *arguments, struct engine_model *model,
                const struct engine_context_options *options, struct engine_plan **plan);

/* Checks that the context has room for tokens that have yet to run, and that the model has each of them.
 * Returns an enum engine_status, with command_error's message. */
int check_tokens(const struct arguments *arguments, const struct engine_context *context,
                 const int32_t *tokens, size_t count);

/* ---- Guesses: --lookup and --draft, for commands that run a queue ---- */

struct draft_model {
    struct engine_model *model;
    struct engine_context *context;
};

bool wants_guesses(const struct arguments *arguments);

/* Whether the options fit together. */
int guesses_check(const struct arguments *arguments);

/* Loads the draft model, if one is named, with the context options of the model, whose context it guesses
 * for, and completes the options of its queue. */
int guesses_open(const struct arguments *arguments, struct engine *engine,
                 const struct engine_context_options *options, const struct engine_context *context,
                 struct draft_model *draft, struct engine_queue_options *queue);
/* After the queue. */
void guesses_close(struct draft_model *draft);

#endif
