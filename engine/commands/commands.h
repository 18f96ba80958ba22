/* commands.h: the commands of the program, as the table in main.c has them, and what `engine plugins` and
 * `engine devices` share. */
#ifndef ENGINE_COMMANDS_COMMANDS_H
#define ENGINE_COMMANDS_COMMANDS_H

#include <jansson.h>

#include "engine.h"
#include "options/arguments.h"

/* Each returns the exit status, and has printed why it failed (command_fail). */
int command_run(const struct arguments *arguments);
int command_batch(const struct arguments *arguments);
int command_chat(const struct arguments *arguments);
int command_info(const struct arguments *arguments);
int command_tokenize(const struct arguments *arguments);
int command_logits(const struct arguments *arguments);
int command_perplexity(const struct arguments *arguments);
int command_imatrix(const struct arguments *arguments);
int command_score(const struct arguments *arguments);
int command_embed(const struct arguments *arguments);
int command_rerank(const struct arguments *arguments);
int command_classify(const struct arguments *arguments);
int command_attention(const struct arguments *arguments);
int command_bench(const struct arguments *arguments);
int command_plan(const struct arguments *arguments);
int command_plugins(const struct arguments *arguments);
int command_plugins_check(const struct arguments *arguments, const char *path);
int command_devices(const struct arguments *arguments);
int command_help(const struct arguments *arguments);
int command_quantize(const struct arguments *arguments);
int command_template(const struct arguments *arguments);
/* Executes engine-serve with the same arguments. Returns only if that fails. */
int command_serve(const struct arguments *arguments);
int command_worker(const struct arguments *arguments);

/* The plugins that are not used, with the reasons: printed to standard output, or as an array; NULL: out of
 * memory. In plugins.c. */
void print_refused_plugins(const struct engine *engine);
json_t *refused_plugins(const struct engine *engine);

#endif
