/* common.h: what several commands do alike: opening the engine and the model, options for contexts, output,
 * errors. */
#ifndef ENGINE_COMMANDS_COMMON_H
#define ENGINE_COMMANDS_COMMON_H

#include <signal.h>
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
int command_plugins_check(const struct arguments *arguments, const char *path);
int command_devices(const struct arguments *arguments);
int command_help(const struct arguments *arguments);
int command_quantize(const struct arguments *arguments);

/* Prints "engine: MESSAGE" and returns the exit status: 1, or 2 after command_error(ENGINE_ERROR_ARGUMENT). The
 * message is that of command_error if there was one, else engine_error_message(). */
int command_fail(void);

/* Keeps a message of the command's own for command_fail, and returns `status`. */
int command_error(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* Prints "engine: TEXT" and returns the exit status 2, for what is wrong with the command line itself. */
int command_usage(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Text for standard output, as it comes. */
void print_text(const char *text, size_t length);
/* Ends its last line, if that is open, where a message would follow on the same line: on standard output if that is a
 * terminal, else, so that the text stays as it is, on a standard error that is a terminal or goes to the same place. All
 * messages do so by themselves. */
void end_text(void);

/* Replaces control characters, in place, so that a terminal shows the text as one line and does nothing else. */
void make_printable(char *text);

/* Opens the engine with the arguments' plugin folders and configuration; warnings go to standard error, and
 * with --verbose notes as well. */
int open_engine(const struct arguments *arguments, struct engine **engine);
/* The same for commands that list the plugins that are not used anyway: without warnings of them. */
int open_engine_to_list(const struct arguments *arguments, struct engine **engine);

/* The plugins that are not used, with the reasons, on standard output. In plugins.c. */
void print_refused_plugins(const struct engine *engine);

/* The path of the model: -m's, or the configuration's `model`, or that of the one installed with the engine; NULL if
 * there is none of them. */
const char *path_of_model(const struct arguments *arguments, const struct engine *engine);

/* Opens it; an error that says what to do if there is none. */
int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model);

/* Options for contexts and plans from the arguments. `offload` is storage that options->offload may point to.
 * Shows a progress bar while loading if standard error is a terminal. */
void context_options(const struct arguments *arguments, struct engine_context_options *options,
                     int32_t *offload);

/* Whether the context can run the tokens, which have yet to run: there is room for them, and the model has each of
 * them. An enum engine_status, with command_error's message. */
int check_tokens(const struct engine_context *context, const int32_t *tokens, size_t count);

/* Runs tokens batch by batch, as the next ones of sequence 0, until all have run or `interrupted`. `logits` receives
 * those of the last token, [n_vocab]. `what` is the word beside a bar on a terminal, if there are several batches; NULL:
 * no bar. */
int prefill(struct engine_context *context, const int32_t *tokens, size_t count, float *logits,
            const char *what);

/* For the library's `progress` functions, with `user` a word such as "loading": draws a bar on a terminal. Not 0, which
 * stops the work, after Ctrl-C. */
int report_progress(void *user, uint64_t done, uint64_t total);

/* Seconds since some moment in the past, to measure by. */
double seconds_now(void);

/* Reads a whole file, "-" for standard input. *data has *size bytes and a NUL behind them; the caller frees
 * it. An error if `interrupted`. */
int read_file(const char *path, char **data, size_t *size);

/* "1 copy", "2 copies". */
struct count_text {
    char text[64];
};
struct count_text count_text(uint64_t number, const char *one, const char *several);

/* "1.2 GiB": bytes for people. */
struct size_text {
    char text[16];
};
struct size_text size_text(uint64_t bytes);

/* Not 0 once SIGINT (Ctrl-C) has come, or nobody reads standard output any more: commands that run long look
 * at it between tokens and end cleanly, with the exit status that they would have had; main.c does the rest.
 * A second Ctrl-C kills. */
extern volatile sig_atomic_t interrupted;

/* Not 0 while a progress bar stands on the terminal's last line. */
extern volatile sig_atomic_t progress_is_shown;

#endif
