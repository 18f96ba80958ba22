/* quantize.c: `engine quantize`: a model file with its matrices in another type. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "io/messages.h"
#include "io/output.h"
#include "options/open.h"

struct destination {
    const struct arguments *arguments;
    const struct engine *engine;
    const char *path;     /* as it was typed */
    struct output output; /* path NULL: none is open */
    uint64_t size;        /* bytes written */
    char **parts;         /* [n_parts], the names of a split model's files */
    uint32_t n_parts, n_whole;
    bool refused; /* this file has said why */
};

static int write_bytes(void *user, const void *data, size_t size)
{
    struct destination *to = user;
    if (fwrite(data, 1, size, to->output.file) != size)
        return command_error(ENGINE_ERROR, "%s: %s", to->output.path, strerror(errno));
    to->size += size;
    return ENGINE_OK;
}

static int progress(void *user, uint64_t done, uint64_t total)
{
    (void)user;
    return report_progress("quantising", done, total);
}

static int close_output(struct destination *to, bool whole)
{
    int status = to->output.path ? output_close(&to->output, whole) : ENGINE_OK;
    to->output.path = NULL;
    return status;
}

/* OUT-00001-of-00003.gguf of OUT.gguf, in new memory. */
static char *part_name(const char *path, uint32_t part, uint32_t n_parts)
{
    size_t length = strlen(path), size = length + 64;
    char *name = malloc(size);
    if (length > 5 && strcmp(path + length - 5, ".gguf") == 0) length -= 5;
    if (name) snprintf(name, size, "%.*s-%05u-of-%05u.gguf", (int)length, path, part + 1, n_parts);
    return name;
}

static int check_output(const struct destination *to, const char *path)
{
    const char *inputs[] = {to->arguments->words.items[0], to->arguments->tokenizer, to->arguments->imatrix};
    return output_check(path, to->engine, inputs, sizeof inputs / sizeof *inputs);
}

/* Names all parts, so that none is written if one may not be. */
static int name_parts(struct destination *to, uint32_t n_parts)
{
    to->parts = calloc(n_parts, sizeof *to->parts);
    if (!to->parts) return command_error(ENGINE_ERROR_MEMORY, "out of memory (names)");
    for (int status; to->n_parts < n_parts;) {
        char *name = to->parts[to->n_parts] = part_name(to->path, to->n_parts, n_parts);
        if (!name) return command_error(ENGINE_ERROR_MEMORY, "out of memory (names)");
        to->n_parts++;
        status = check_output(to, name);
        to->refused = status != ENGINE_OK;
        if (status) return status;
    }
    return ENGINE_OK;
}

static int begin_part(void *user, uint32_t part, uint32_t n_parts)
{
    struct destination *to = user;
    int status = part == 0 ? name_parts(to, n_parts) : close_output(to, true);
    if (status) return status;
    to->n_whole = part;
    return output_open(&to->output, to->parts[part]);
}

/* A model is only usable with all of its parts. */
static void remove_parts(struct destination *to)
{
    for (uint32_t p = 0; p < to->n_whole; p++) unlink(to->parts[p]);
}

/* "4G", "500M", "100K": units of 1000. */
static int read_split_size(const char *text, uint64_t *size)
{
    char *end;
    *size = 0;
    if (!text) return ENGINE_OK;
    double number = strtod(text, &end), unit = *end == 'G' ? 1e9 : *end == 'M' ? 1e6 : *end == 'K' ? 1e3 : 0;
    if (end > text && unit > 0 && !end[1] && number * unit >= 1 && number * unit < 1e18) {
        *size = (uint64_t)(number * unit);
        return ENGINE_OK;
    }
    return command_error(ENGINE_ERROR_ARGUMENT,
                         "--split-size: '%.40s' is not a size such as 4G, 500M or 100K", text);
}

static int quantize(const struct arguments *arguments, const struct engine *engine,
                    struct engine_model *model)
{
    struct engine_model_info info = {.struct_size = sizeof info};
    struct destination to = {.arguments = arguments, .engine = engine, .path = arguments->words.items[1]};
    struct engine_quantize_options options = {
        .struct_size = sizeof options,
        .type = arguments->words.items[2],
        .only = arguments->only.items,
        .pure = arguments->pure,
        .n_threads = arguments->n_threads,
        .write = write_bytes,
        .progress = progress,
        .user = &to,
        .begin_part = begin_part,
        .imatrix = arguments->imatrix,
    };
    int status = read_split_size(arguments->split_size, &options.split_size);
    if (status) return status;
    if (output_parts(to.path))
        return command_error(
            ENGINE_ERROR_ARGUMENT,
            "%s is the name of one part of a model: choose another; --split-size names the parts", to.path);
    if (options.split_size == 0) status = output_open(&to.output, to.path);
    if (status) return status;
    status = engine_model_quantize(model, &options);
    int closed = close_output(&to, !status && !interrupted);
    if (status == ENGINE_ERROR_ARGUMENT && !to.refused) command_error(status, "%s", engine_error_message());
    bool failed = status || closed || interrupted;
    if (failed) remove_parts(&to);
    engine_model_get_info(model, &info);
    if (!failed)
        fprintf(stderr, "%s: %s%s%s, from %s\n", to.path, size_text(to.size).text, to.n_parts ? " in " : "",
                to.n_parts ? count_text(to.n_parts, "part", "parts").text : "",
                size_text(info.file_size).text);
    for (uint32_t p = 0; p < to.n_parts; p++) free(to.parts[p]);
    free(to.parts);
    return status ? status : closed;
}

int command_quantize(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    const char *from = arguments->words.items[0];
    const char *inputs[] = {from, arguments->tokenizer, arguments->imatrix};
    int status = open_engine(arguments, &engine);
    if (!status)
        status = output_check(arguments->words.items[1], engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = open_model_to_run(arguments, engine, from, &model);
    if (!status) status = quantize(arguments, engine, model);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    return exit_status;
}
