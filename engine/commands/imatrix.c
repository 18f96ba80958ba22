/* imatrix.c: `engine imatrix`: how much each column of a model's matrices matters on a text, as a file for
 * `engine quantize --imatrix` and llama-quantize. The text is cut into windows, which run one after
 * another. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/windows.h"
#include "io/json.h"
#include "io/messages.h"
#include "io/output.h"
#include "options/open.h"

struct collecting {
    const struct arguments *arguments;
    struct engine *engine;
    struct engine_model *model;
    struct engine_context *context;
    struct engine_importance *importance;
    struct engine_context_info info;
    struct token_list tokens; /* of the text */
    size_t n_window, n_windows;
    int32_t bos;     /* takes the place of each window's first token; -1: none does */
    int32_t *window; /* [n_window] */
    uint8_t *wanted; /* [n_batch], all 1 */
    float *logits;   /* [n_batch, n_vocab]; with --process-output, which runs the output matrix */
};

/* Whether a matrix counts: those of the layers, and with --process-output the one after them. */
static bool counts(const struct collecting *c, const char *weight)
{
    return strncmp(weight, "blk.", 4) == 0 ||
           (c->arguments->process_output && strcmp(weight, "output.weight") == 0);
}

/* A context's `watched`. */
static int collect_inputs(void *user, const struct engine_watched *value)
{
    struct collecting *c = user;
    if (interrupted) return 1;
    if (!counts(c, value->weight)) return 0;
    int status = engine_importance_add(c->importance, value);
    return status ? command_error(status, "%s", engine_error_message()) : ENGINE_OK;
}

/* ---- The text, files and the context ---- */

static int prepare_windows(struct collecting *c)
{
    const struct arguments *a = c->arguments;
    struct vocabulary vocabulary = {0};
    int status = vocabulary_open(c->model, &vocabulary);
    if (status && !a->tokens_file) return status;
    if (status) vocabulary.api = NULL; /* tokens need no vocabulary */
    c->bos = vocabulary.api && vocabulary.info.add_bos ? vocabulary.info.bos : -1;
    status = window_text_read(a, &vocabulary, &c->tokens);
    if (status) return status;
    c->n_window = window_text_length(a, c->model);
    c->n_windows = windows_count(c->tokens.count, c->n_window, 0);
    if (c->n_windows == 0)
        return command_error(
            ENGINE_ERROR,
            "the text has %s, too few for a window of %zu: use a longer text or smaller windows "
            "(-c)",
            count_text(c->tokens.count, "token", "tokens").text, c->n_window);
    if (a->n_chunks > 0 && a->n_chunks < c->n_windows) c->n_windows = a->n_chunks;
    return ENGINE_OK;
}

static int read_earlier(struct collecting *c)
{
    int status = engine_importance_create(&c->importance);
    for (size_t i = 0; i < c->arguments->in_files.count && !status; i++)
        status = engine_importance_read(c->importance, c->arguments->in_files.items[i]);
    return status;
}

static int open_collecting_context(struct collecting *c)
{
    struct engine_context_options options;
    int32_t offload;
    context_options(c->arguments, &options, &offload);
    options.n_context = options.n_needed = (uint32_t)c->n_window;
    options.watch = ENGINE_WATCH_INPUTS;
    options.watched = collect_inputs;
    options.watch_user = c;
    int status = create_context(c->arguments, c->model, &options, &c->context);
    if (status) return status;
    c->info.struct_size = sizeof c->info;
    engine_context_get_info(c->context, &c->info);
    c->window = malloc(c->n_window * sizeof *c->window);
    c->wanted = malloc(c->info.n_batch);
    bool with_output = c->arguments->process_output;
    if (with_output) c->logits = malloc((size_t)c->info.n_batch * c->info.n_vocab * sizeof *c->logits);
    if (!c->window || !c->wanted || (with_output && !c->logits))
        return command_error(ENGINE_ERROR_MEMORY, "out of memory (windows)");
    memset(c->wanted, 1, c->info.n_batch);
    return window_text_check(&c->tokens, c->info.n_vocab);
}

static int check_output_path(const struct collecting *c)
{
    const struct arguments *a = c->arguments;
    const char *inputs[] = {path_of_model(a, c->engine), a->tokenizer, a->prompt_file, a->tokens_file};
    if (!a->output) return command_error(ENGINE_ERROR_ARGUMENT, "no output: name a file with -o");
    int status = output_check(a->output, c->engine, inputs, sizeof inputs / sizeof *inputs);
    return status ? status : check_not_adapter(a->output, c->engine, a);
}

/* ---- Running ---- */

static int write_bytes(void *user, const void *data, size_t size)
{
    const struct output *output = user;
    if (fwrite(data, 1, size, output->file) == size) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
}

/* Writes what there is after so many windows. */
static int save_matrix(const struct collecting *c, size_t n_done)
{
    const struct arguments *a = c->arguments;
    const struct engine_importance_text text = {.struct_size = sizeof text,
                                                .name = a->tokens_file ? a->tokens_file : a->prompt_file,
                                                .n_chunks = n_done,
                                                .chunk_size = (uint32_t)c->n_window};
    struct output output;
    int status = output_open(&output, a->output);
    if (status) return status;
    status = engine_importance_write(c->importance, &text, write_bytes, &output);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

static int run_window(struct collecting *c, size_t number)
{
    struct window window = windows_at(c->tokens.count, c->n_window, 0, number);
    memcpy(c->window, c->tokens.ids + window.first, window.length * sizeof *c->window);
    if (c->bos >= 0) c->window[0] = c->bos;
    int status = engine_sequence_truncate(c->context, 0, 0);
    for (size_t from = 0, n; from < window.length && !status && !interrupted; from += n) {
        n = window.length - from < c->info.n_batch ? window.length - from : c->info.n_batch;
        const struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = n, .tokens = c->window + from, .wanted = c->wanted};
        status = engine_decode(c->context, &batch, c->logits);
    }
    return status;
}

static int run_windows(struct collecting *c)
{
    uint32_t every = c->arguments->output_frequency;
    int status = ENGINE_OK;
    for (size_t i = 0; i < c->n_windows && !status && !interrupted; i++) {
        count_progress("importance matrix", i, c->n_windows, "windows");
        status = run_window(c, i);
        if (!status && !interrupted && every > 0 && (i + 1) % every == 0 && i + 1 < c->n_windows)
            status = save_matrix(c, i + 1);
    }
    count_progress("importance matrix", c->n_windows, c->n_windows, "windows");
    return status || interrupted ? status : save_matrix(c, c->n_windows);
}

/* ---- The command ---- */

static int print_result(const struct collecting *c)
{
    struct engine_importance_info info = {.struct_size = sizeof info};
    const char *path = c->arguments->output;
    engine_importance_get_info(c->importance, &info);
    if (info.n_unused > 0)
        command_warn(
            "no token of the text used %s: quantising them takes all columns for the same; a longer text "
            "helps",
            count_text(info.n_unused, "expert", "experts").text);
    if (c->arguments->json)
        return json_print(json_pack("{s:o, s:o, s:o, s:o, s:o, s:o}", "file", json_line(path), "matrices",
                                    json_count(info.n_matrices), "unused_experts", json_count(info.n_unused),
                                    "tokens", json_count((uint64_t)c->n_windows * c->n_window), "windows",
                                    json_count(c->n_windows), "window", json_count(c->n_window)));
    fprintf(stderr, "%s: %s, ", path, count_text(info.n_matrices, "matrix", "matrices").text);
    fprintf(stderr, "%s of %zu tokens\n", count_text(c->n_windows, "window", "windows").text, c->n_window);
    return 0;
}

static int check_inputs(const struct arguments *a)
{
    int n_given = !!a->prompt_file + !!a->tokens_file;
    if (n_given == 0)
        return command_error(ENGINE_ERROR_ARGUMENT, "no text: name one with -f or --tokens-file");
    if (n_given > 1) return command_error(ENGINE_ERROR_ARGUMENT, "use either --file or --tokens-file");
    return ENGINE_OK;
}

int command_imatrix(const struct arguments *arguments)
{
    struct collecting c = {.arguments = arguments, .bos = -1};
    int exit_status = 0, status = check_inputs(arguments);
    if (!status) status = open_engine(arguments, &c.engine);
    if (!status) status = check_output_path(&c);
    if (!status) status = open_model(arguments, c.engine, &c.model);
    if (!status) status = read_earlier(&c);
    if (!status) status = prepare_windows(&c);
    if (!status) status = open_collecting_context(&c);
    if (!status) status = run_windows(&c);
    if (!status && !interrupted) exit_status = print_result(&c);
    if (status && !interrupted) exit_status = command_fail();
    engine_context_destroy(c.context);
    engine_importance_destroy(c.importance);
    engine_model_close(c.model);
    engine_close(c.engine);
    free(c.tokens.ids);
    free(c.window);
    free(c.wanted);
    free(c.logits);
    return exit_status;
}
