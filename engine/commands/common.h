/* common.h: shared by several commands: opening the engine and the model, options for contexts, output,
 * errors. */
#ifndef ENGINE_COMMANDS_COMMON_H
#define ENGINE_COMMANDS_COMMON_H

#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "commands/arguments.h"
#include "engine.h"

/* What a context has at most if none is asked for (engine_context_options). */
#define DEFAULT_CONTEXT 4096

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
int command_worker(const struct arguments *arguments);

/* Prints "engine: MESSAGE" and returns the exit status: 2 after command_error(ENGINE_ERROR_ARGUMENT), else 1.
 * The message is that of command_error if there was one, else engine_error_message(). */
int command_fail(void);

/* Stores a message of the command's own for command_fail, and returns `status`. Each thread has its own message. */
int command_error(int status, const char *format, ...) ENGINE_PRINTF(2, 3);

/* The message that command_fail would print, for programs that go on after a failure: the next failure that has no message
 * of command_error's then counts again. Valid until the thread's next call. */
const char *command_message(void);

/* Makes the library's message, if there is none of its own, that of the command: for what an option asked for. Returns
 * `status`. */
int command_adopt_error(int status);

/* Prints "engine: warning: TEXT". */
void command_warn(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Prints "engine: TEXT" and returns the exit status 2, for mistakes on the command line itself. */
int command_usage(const char *format, ...) ENGINE_PRINTF(1, 2);

/* Writes text to standard output. */
void print_text(const char *text, size_t length);
/* Ends the last line of the text if it is open and a message would otherwise follow on the same line. If
 * standard output is a terminal, the newline goes there. Else it goes to standard error, provided that this
 * is a terminal or the same file, so that the text stays unchanged. All messages call this. */
void end_text(void);

/* Opens the engine with the plugin folders and configuration from the arguments. Warnings go to standard
 * error, with --verbose notes too. */
int open_engine(const struct arguments *arguments, struct engine **engine);
/* The same without warnings about unusable plugins, for commands that list them anyway. */
int open_engine_to_list(const struct arguments *arguments, struct engine **engine);

/* Prints the plugins that are not used, with the reasons, to standard output. In plugins.c. */
void print_refused_plugins(const struct engine *engine);

/* The path of the model: from -m, else from the setting `model`, else the model installed with the engine;
 * NULL if there is none. */
const char *path_of_model(const struct arguments *arguments, const struct engine *engine);

/* The path that -o names; NULL, for standard output, without it and for "-". */
const char *path_of_output(const struct arguments *arguments);

/* Opens the model at path_of_model. If there is none, the error says what to do. */
int open_model(const struct arguments *arguments, struct engine *engine, struct engine_model **model);

/* The same at a path of the caller's: with --tokenizer and --load-type. */
int open_model_to_run(const struct arguments *arguments, struct engine *engine, const char *path,
                      struct engine_model **model);

/* Opens a model, after --verify has compared its files with their checksums. `tokenizer` may be NULL. */
int open_model_file(const struct arguments *arguments, struct engine *engine, const char *path,
                    const char *tokenizer, struct engine_model **model);

/* Compares a model's or an adapter's files with their checksums, as --verify does, and reports it. `tokenizer` may be
 * NULL. */
int verify_files(const char *path, const char *tokenizer);

/* Options for contexts and plans from the arguments. `offload` is storage for options->offload. If standard
 * error is a terminal, a progress bar is shown while loading. */
void context_options(const struct arguments *arguments, struct engine_context_options *options,
                     int32_t *offload);

/* The option that makes the context of these arguments longer. */
const char *context_option(const struct arguments *arguments, uint32_t n_context);

/* Opens the adapters of --lora and creates a context with them. `options` keeps none of them: a draft model's
 * context takes the same options. */
int create_context(const struct arguments *arguments, struct engine_model *model,
                   const struct engine_context_options *options, struct engine_context **context);
/* Splits FILE=SCALE. What follows the last "=" belongs to the name of the file if that exists so, or if it is no number and
 * nothing has the name before it. The caller frees *path. Returns an enum engine_status. */
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

/* For the library's `progress` callbacks, with `user` a word such as "loading": draws a bar on a terminal.
 * After Ctrl-C it returns a value other than 0, which stops the work. */
int report_progress(void *user, uint64_t done, uint64_t total);

/* The same for a number of items ("tokens"). The bar disappears when all are done. */
void count_progress(const char *what, uint64_t done, uint64_t total, const char *items);

/* Whether a path ends in ".npy" or the like, after a name. */
static inline bool has_ending(const char *path, const char *ending)
{
    size_t length = strlen(path), n = strlen(ending);
    return length > n && strcmp(path + length - n, ending) == 0;
}

/* Reads a whole file, "-" for standard input. *data has *size bytes followed by a NUL; the caller frees it.
 * An error if `interrupted`. */
int read_file(const char *path, char **data, size_t *size);
/* The same for a text, without the byte order mark that some editors write before it. An error if the mark is that of
 * UTF-16 or UTF-32. */
int read_text_file(const char *path, char **data, size_t *size);
/* The length of the mark at the beginning of the text called `name`, 3 or 0, in *skipped; or such an error. */
int text_mark(const char *name, const char *text, size_t size, size_t *skipped);

/* A text that grows; zeroed at first. The caller frees `data`. */
struct text_buffer {
    char *data; /* [size]; NULL: nothing yet */
    size_t size, capacity;
};
int text_add(struct text_buffer *text, const struct engine_string *added);

/* "1 copy", "2 copies". */
struct count_text {
    char text[64];
};
struct count_text count_text(uint64_t number, const char *one, const char *several);

/* Bytes for people: "1.2 GiB". */
struct size_text {
    char text[16];
};
struct size_text size_text(uint64_t bytes);

/* Not 0 after SIGINT (Ctrl-C), or once nobody reads standard output any more. Long-running commands check it
 * between tokens and end cleanly with their usual exit status; main.c does the rest. A second Ctrl-C
 * kills. */
extern volatile sig_atomic_t interrupted;

/* Not 0 while a progress bar occupies the terminal's last line. */
extern volatile sig_atomic_t progress_is_shown;

#endif
