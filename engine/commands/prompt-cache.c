/* prompt-cache.c: see prompt-cache.h. */
#include "commands/prompt-cache.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "io/messages.h"
#include "io/output.h"
#include "options/open.h"

int prompt_cache_check(const struct arguments *arguments, const struct engine *engine)
{
    bool from_input = arguments->prompt && strcmp(arguments->prompt, "-") == 0;
    const char *inputs[] = {path_of_model(arguments, engine), arguments->tokenizer, arguments->prompt_file,
                            from_input ? "-" : NULL,          arguments->draft,     arguments->tokens_file};
    const char *path = arguments->prompt_cache;
    if (!path && (arguments->prompt_cache_all || arguments->prompt_cache_ro))
        return command_error(ENGINE_ERROR_ARGUMENT, "%s goes with --prompt-cache FILE",
                             arguments->prompt_cache_all ? "--prompt-cache-all" : "--prompt-cache-ro");
    if (arguments->prompt_cache_all && arguments->prompt_cache_ro)
        return command_error(ENGINE_ERROR_ARGUMENT,
                             "--prompt-cache-all and --prompt-cache-ro can't be given together");
    if (path && !path[0]) return command_error(ENGINE_ERROR_ARGUMENT, "--prompt-cache: which file?");
    if (!path) return ENGINE_OK;
    int status = output_check(path, engine, inputs, sizeof inputs / sizeof *inputs);
    return status ? status : check_not_adapter(path, engine, arguments);
}

/* Whether the sequence begins with all of the tokens. */
static int compare(const struct engine_context *context, const int32_t *tokens, size_t count, bool *covers)
{
    *covers = false;
    if (count > engine_sequence_length(context, 0)) return ENGINE_OK;
    int32_t *saved = malloc(count * sizeof *saved);
    if (!saved) return command_error(ENGINE_ERROR_MEMORY, "out of memory (prompt)");
    int status = engine_sequence_tokens(context, 0, 0, (uint32_t)count, saved);
    *covers = !status && memcmp(saved, tokens, count * sizeof *saved) == 0;
    free(saved);
    return status;
}

int prompt_cache_read(const struct arguments *arguments, struct engine_context *context,
                      const int32_t *tokens, size_t count, bool *covers)
{
    *covers = false;
    if (!arguments->prompt_cache) return ENGINE_OK;
    int status = engine_sequence_load(context, 0, arguments->prompt_cache);
    if (status == ENGINE_ERROR_NOT_FOUND) return ENGINE_OK;
    return status ? status : compare(context, tokens, count, covers);
}

static int write_piece(void *user, const void *data, size_t size)
{
    const struct output *output = user;
    if (fwrite(data, 1, size, output->file) == size) return ENGINE_OK;
    return command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
}

int prompt_cache_write(const struct arguments *arguments, struct engine_context *context)
{
    struct output output;
    int status = output_open(&output, arguments->prompt_cache);
    if (status) return status;
    status = engine_sequence_save(context, 0, write_piece, &output);
    int closed = output_close(&output, !status);
    return status ? status : closed;
}
