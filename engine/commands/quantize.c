/* quantize.c: `engine quantize`: a model file with its matrices in another type. */
#include <errno.h>
#include <string.h>

#include "commands/common.h"
#include "commands/output.h"

struct destination {
    struct output output;
    uint64_t size; /* bytes written */
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

static int quantize(const struct arguments *arguments, struct engine_model *model)
{
    const char *path = arguments->words.items[1];
    struct engine_model_info info = {.struct_size = sizeof info};
    struct destination to = {.size = 0};
    struct engine_quantize_options options = {
        .struct_size = sizeof options,
        .type = arguments->words.items[2],
        .only = arguments->only.items,
        .pure = arguments->pure,
        .n_threads = arguments->n_threads,
        .write = write_bytes,
        .progress = progress,
        .user = &to,
    };
    int status = output_open(&to.output, path);
    if (status) return status;
    status = engine_model_quantize(model, &options);
    int closed = output_close(&to.output, !status && !interrupted);
    if (status == ENGINE_ERROR_ARGUMENT) command_error(status, "%s", engine_error_message());
    if (status || interrupted) return status;
    engine_model_get_info(model, &info);
    if (!closed)
        fprintf(stderr, "%s: %s, from %s\n", path, size_text(to.size).text, size_text(info.file_size).text);
    return closed;
}

int command_quantize(const struct arguments *arguments)
{
    struct engine *engine = NULL;
    struct engine_model *model = NULL;
    const char *from = arguments->words.items[0];
    const char *inputs[] = {from, arguments->tokenizer};
    int status = open_engine(arguments, &engine);
    if (!status)
        status = output_check(arguments->words.items[1], engine, inputs, sizeof inputs / sizeof *inputs);
    if (!status) status = engine_model_open(engine, from, arguments->tokenizer, &model);
    if (!status) status = quantize(arguments, model);
    int exit_status = status && !interrupted ? command_fail() : 0;
    engine_model_close(model);
    engine_close(engine);
    return exit_status;
}
