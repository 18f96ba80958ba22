/* logits.c: `engine logits`: the logits of every position of a list of tokens, and the hidden states behind
 * them, as NumPy files. */
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "commands/commands.h"
#include "commands/logits-print.h"
#include "commands/logits.h"
#include "io/files.h"
#include "io/messages.h"
#include "io/npy.h"
#include "io/output.h"
#include "options/open.h"
#include "prompts/prompt.h"

/* ---- The logits ---- */

/* The same as JSON; a value that is not finite, which JSON can't express, becomes null. */
static int write_json_rows(FILE *file, const float *logits, size_t rows, size_t columns, bool first)
{
    for (size_t row = 0; row < rows; row++) {
        fputs(first && row == 0 ? "\n[" : ",\n[", file);
        for (size_t i = 0; i < columns; i++, logits++) {
            if (i > 0) fputs(", ", file);
            if (isfinite(*logits))
                fprintf(file, "%.9g", (double)*logits);
            else
                fputs("null", file);
        }
        fputc(']', file);
    }
    return ferror(file) ? -1 : 0;
}

static int write_begin(FILE *file, bool json, size_t count, uint32_t n_vocab)
{
    if (!json) return npy_write_header(file, count, n_vocab);
    return fprintf(file, "{\"tokens\": %zu, \"vocabulary\": %u, \"logits\": [", count, n_vocab) < 0 ? -1 : 0;
}

static int write_rows(FILE *file, bool json, const float *logits, size_t rows, size_t columns, bool first)
{
    if (json) return write_json_rows(file, logits, rows, columns, first);
    return fwrite(logits, sizeof *logits * columns, rows, file) == rows ? 0 : -1;
}

/* Runs the tokens batch by batch and writes each batch's logits before the next one runs. *done is the number
 * of tokens before the batch that runs. */
static int write_logits(struct engine_context *context, const int32_t *tokens, size_t count, FILE *file,
                        bool json, size_t *done)
{
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    float *logits = malloc((size_t)info.n_batch * info.n_vocab * sizeof *logits);
    uint8_t *wanted = malloc(info.n_batch);
    int status = logits && wanted ? ENGINE_OK : command_error(ENGINE_ERROR_MEMORY, "out of memory (logits)");
    if (wanted) memset(wanted, 1, info.n_batch);
    if (!status && write_begin(file, json, count, info.n_vocab) != 0)
        status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
    for (size_t first = 0; first < count && !status && !interrupted;) {
        size_t n = count - first < info.n_batch ? count - first : info.n_batch;
        struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = n, .tokens = tokens + first, .wanted = wanted};
        *done = first;
        status = engine_decode(context, &batch, logits);
        if (!status && write_rows(file, json, logits, n, info.n_vocab, first == 0) != 0)
            status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
        first += n;
    }
    if (!status && !interrupted && json && fputs("\n]}\n", file) < 0)
        status = command_error(ENGINE_ERROR, "cannot write the logits: %s", strerror(errno));
    free(logits);
    free(wanted);
    return status;
}

/* ---- Hidden states ---- */

struct hidden {
    size_t n_tokens, n_layers, n_embd;
    size_t done;   /* tokens before the batch that runs */
    float *states; /* [n_layers + 1, n_tokens, n_embd]; NULL until the first one comes */
};

/* A context's `watched`. */
static int collect_hidden(void *user, const struct engine_watched *value)
{
    struct hidden *hidden = user;
    if (!hidden->states) {
        hidden->n_embd = (size_t)value->ne[0];
        hidden->states = calloc((hidden->n_layers + 1) * hidden->n_tokens, hidden->n_embd * sizeof(float));
        if (!hidden->states) command_error(ENGINE_ERROR_MEMORY, "out of memory (hidden states)");
    }
    if (!hidden->states || interrupted) return 1;
    memcpy(hidden->states + (value->layer * hidden->n_tokens + hidden->done + value->first) * hidden->n_embd,
           value->data, (size_t)value->ne[1] * hidden->n_embd * sizeof(float));
    return 0;
}

static int write_hidden(const struct hidden *hidden, const char *path)
{
    const size_t shape[] = {hidden->n_layers + 1, hidden->n_tokens, hidden->n_embd};
    const size_t count = shape[0] * shape[1] * shape[2];
    struct output output;
    int status = output_open(&output, path);
    if (status) return status;
    if (npy_write_header_of(output.file, shape, 3) != 0 ||
        fwrite(hidden->states, sizeof *hidden->states, count, output.file) != count)
        status = command_error(ENGINE_ERROR, "cannot write the hidden states: %s", strerror(errno));
    int closed = output_close(&output, !status);
    return status ? status : closed;
}

/* ---- The command ---- */

static int write_or_print(const struct arguments *arguments, struct engine_model *model,
                          struct engine_context *context, const struct token_list *tokens, FILE *file,
                          size_t *done)
{
    if (arguments->n_top > 0)
        return print_logits(arguments, model, context, tokens->ids, tokens->count, file, done);
    return write_logits(context, tokens->ids, tokens->count, file, arguments->json, done);
}

/* Writes the logits where -o says. Without -o, but with --hidden, they aren't wanted. */
static int run_to_output(const struct arguments *arguments, struct engine_model *model,
                         struct engine_context *context, const struct token_list *tokens, size_t *done)
{
    const char *path = path_of_output(arguments);
    struct output output;
    if (arguments->hidden && !arguments->output && !arguments->json && arguments->n_top == 0) {
        const struct engine_batch batch = {
            .struct_size = sizeof batch, .n_tokens = tokens->count, .tokens = tokens->ids};
        return engine_decode(context, &batch, NULL);
    }
    if (!path) return write_or_print(arguments, model, context, tokens, stdout, done);
    int status = output_open(&output, path);
    if (status) return status;
    status = write_or_print(arguments, model, context, tokens, output.file, done);
    int closed = output_close(&output, !status && !interrupted);
    return status ? status : closed;
}

/* A model with an encoder and a decoder needs two texts, all others one. */
static int check_decoder_tokens(const struct arguments *arguments, const struct engine_context_info *info)
{
    if (info->has_source && !arguments->decoder_tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "the model has an encoder and a decoder: name the decoder's tokens "
                             "with --decoder-tokens-file");
    if (!info->has_source && arguments->decoder_tokens_file)
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "--decoder-tokens-file is for models with an encoder and a decoder; this one has only one "
            "text: use --tokens-file");
    return ENGINE_OK;
}

/* Reads the decoder's tokens, if there are any. */
static int read_decoder_tokens(const struct arguments *arguments, struct token_list *tokens)
{
    const char *path = arguments->decoder_tokens_file;
    if (!path) return ENGINE_OK;
    if (arguments->lens || arguments->hidden)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--decoder-tokens-file cannot be combined with --lens and --hidden");
    int status = npy_read_integers(path, &tokens->ids, &tokens->count);
    if (!status && tokens->count == 0)
        status = command_error(ENGINE_ERROR_ARGUMENT, "%s: there are no tokens", path);
    return status;
}

/* Lets the encoder read the source text. */
static int encode(const struct arguments *arguments, struct engine_context *context,
                  const struct token_list *source)
{
    const struct engine_batch batch = {
        .struct_size = sizeof batch, .n_tokens = source->count, .tokens = source->ids};
    int status = check_tokens(arguments, context, source->ids, source->count);
    return status ? status : engine_encode(context, &batch);
}

/* `source`: the encoder's tokens; NULL: the model has one text only. */
static int run_tokens(const struct arguments *arguments, struct engine_model *model,
                      const struct token_list *tokens, const struct token_list *source)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    struct engine_plan_totals totals;
    struct hidden hidden = {.n_tokens = tokens->count};
    int32_t offload;
    context_options(arguments, &options, &offload);
    size_t longest = source && source->count > tokens->count ? source->count : tokens->count;
    if (options.n_context == 0 && longest <= INT32_MAX) options.n_context = (uint32_t)longest;
    options.n_needed = longest < UINT32_MAX ? (uint32_t)longest : UINT32_MAX;
    if (arguments->lens) return logits_lens(arguments, model, tokens, &options);
    options.watch = arguments->hidden ? ENGINE_WATCH_HIDDEN : 0;
    options.watched = collect_hidden;
    options.watch_user = &hidden;
    int status = create_context(arguments, model, &options, &context);
    if (status) return status;
    struct engine_context_info info = {.struct_size = sizeof info};
    engine_context_get_info(context, &info);
    status = check_decoder_tokens(arguments, &info);
    if (!status) status = check_tokens(arguments, context, tokens->ids, tokens->count);
    if (!status && source) status = encode(arguments, context, source);
    engine_plan_get_totals(engine_context_plan(context), &totals);
    hidden.n_layers = totals.n_layers;
    if (!status) status = run_to_output(arguments, model, context, tokens, &hidden.done);
    if (!status && arguments->hidden && !interrupted) status = write_hidden(&hidden, arguments->hidden);
    engine_context_destroy(context);
    free(hidden.states);
    return status;
}

/* Before anything is loaded. */
static int check_outputs(const struct arguments *arguments, const struct engine *engine)
{
    const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer, arguments->tokens_file,
                            arguments->prompt_file, arguments->decoder_tokens_file};
    const char *paths[] = {path_of_output(arguments), arguments->hidden};
    int status = ENGINE_OK;
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        if (paths[i]) status = output_check(paths[i], engine, inputs, sizeof inputs / sizeof *inputs);
    for (size_t i = 0; i < sizeof paths / sizeof *paths && !status; i++)
        if (paths[i]) status = check_not_adapter(paths[i], engine, arguments);
    if (!status && paths[0] && paths[1] && output_same(paths[0], paths[1]))
        status = command_error(ENGINE_ERROR_ARGUMENT, "-o and --hidden name the same file");
    return status;
}

int command_logits(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    struct token_list tokens = {0}, decoded = {0};
    if (arguments->lens && (arguments->output || arguments->hidden))
        return command_usage("logits: --lens writes no file; use either it or -o and --hidden");
    if (arguments->output ? !arguments->output[0]
                          : !arguments->json && !arguments->n_top && !arguments->hidden && !arguments->lens)
        return command_usage("logits: no output file; name one with -o, or use --top, --lens or --json");
    if (arguments->hidden && !has_ending(arguments->hidden, ".npy"))
        return command_usage("logits: --hidden %s: the name must end in .npy", arguments->hidden);
    if (token_input_chooses(arguments) && !arguments->lens)
        return command_usage("logits: --token goes with --lens");
    int status = token_input_ids(arguments, &tokens);
    if (!status) status = read_decoder_tokens(arguments, &decoded);
    if (!status) status = open_engine(arguments, &engine);
    if (!status) status = check_outputs(arguments, engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = token_input_text(arguments, model, &tokens);
    if (!status && decoded.count > 0)
        status = run_tokens(arguments, model, &decoded, &tokens);
    else if (!status)
        status = run_tokens(arguments, model, &tokens, NULL);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    free(tokens.ids);
    free(decoded.ids);
    return exit_status;
}
