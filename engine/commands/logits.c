/* logits.c: `engine logits`: the logits of every position of a list of tokens, as a NumPy file. */
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "commands/common.h"
#include "commands/npy.h"
#include "commands/output.h"

/* "1 2 3" or "1,2,3". */
static int parse_tokens(const char *text, int32_t **tokens, size_t *count)
{
    int32_t *ids = malloc((strlen(text) / 2 + 1) * sizeof *ids);
    size_t n = 0;
    if (!ids) return command_error(ENGINE_ERROR_MEMORY, "out of memory (tokens)");
    for (const char *at = text; *at;) {
        char *end;
        if (isspace((unsigned char)*at) || *at == ',') {
            at++;
            continue;
        }
        errno = 0;
        long id = strtol(at, &end, 10);
        if (end == at || errno || id < 0 || id > INT32_MAX) {
            free(ids);
            return command_error(ENGINE_ERROR_ARGUMENT, "--tokens: '%s' does not begin with a token id", at);
        }
        ids[n++] = (int32_t)id;
        at = end;
    }
    *tokens = ids;
    *count = n;
    return ENGINE_OK;
}

static int read_tokens(const struct arguments *arguments, int32_t **tokens, size_t *count)
{
    if (!arguments->tokens == !arguments->tokens_file)
        return command_error(ENGINE_ERROR_ARGUMENT, "use either --tokens or --tokens-file");
    int status = arguments->tokens ? parse_tokens(arguments->tokens, tokens, count)
                                   : npy_read_integers(arguments->tokens_file, tokens, count);
    if (!status && *count == 0) status = command_error(ENGINE_ERROR_ARGUMENT, "there are no tokens");
    return status;
}

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

/* Runs the tokens batch by batch and writes each batch's logits before the next one runs. */
static int write_logits(struct engine_context *context, const int32_t *tokens, size_t count, FILE *file,
                        bool json)
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

static int run_tokens(const struct arguments *arguments, struct engine_model *model, const int32_t *tokens,
                      size_t count)
{
    struct engine_context_options options;
    struct engine_context *context = NULL;
    int32_t offload;
    struct output output;
    context_options(arguments, &options, &offload);
    if (options.n_context == 0 && count <= INT32_MAX) options.n_context = (uint32_t)count;
    options.n_needed = count < UINT32_MAX ? (uint32_t)count : UINT32_MAX;
    int status = engine_context_create(model, &options, &context);
    if (status) return status;
    status = check_tokens(context, tokens, count);
    const char *path = path_of_output(arguments);
    if (!path) {
        if (!status) status = write_logits(context, tokens, count, stdout, arguments->json);
        engine_context_destroy(context);
        return status;
    }
    if (!status) status = output_open(&output, path);
    if (!status) {
        status = write_logits(context, tokens, count, output.file, arguments->json);
        int closed = output_close(&output, !status && !interrupted);
        if (!status) status = closed;
    }
    engine_context_destroy(context);
    return status;
}

/* Before anything is loaded. */
static int check_output(const struct arguments *arguments, const struct engine *engine)
{
    const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer, arguments->tokens_file};
    const char *path = path_of_output(arguments);
    if (!path) return ENGINE_OK;
    return output_check(path, engine, inputs, sizeof inputs / sizeof *inputs);
}

int command_logits(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    int32_t *tokens = NULL;
    size_t count = 0;
    if (arguments->output ? !arguments->output[0] : !arguments->json)
        return command_usage("logits: no output file; name one with -o");
    int status = read_tokens(arguments, &tokens, &count);
    if (!status) status = open_engine(arguments, &engine);
    if (!status) status = check_output(arguments, engine);
    if (!status) status = open_model(arguments, engine, &model);
    if (!status) status = run_tokens(arguments, model, tokens, count);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    free(tokens);
    return exit_status;
}
