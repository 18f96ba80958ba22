/* serve.c: the commands that serve others: `engine serve` finds the program engine-serve, which is a package
 * of its own, and becomes it; `engine worker` offers this machine's devices to an engine on another one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/commands.h"
#include "io/messages.h"
#include "options/open.h"

#define PROGRAM "engine-serve"

/* Where it may be, as seen from the folder of `engine`: there in the build tree, else where it is
 * installed. */
static const char *const places[] = {PROGRAM, ENGINE_LIBEXEC "/" PROGRAM};

int command_serve(const struct arguments *arguments)
{
    char folder[3072], path[4096];
    ssize_t length = readlink("/proc/self/exe", folder, sizeof folder - 1);
    char *name = length > 0 ? memrchr(folder, '/', (size_t)length) : NULL;
    if (!name) {
        command_error(ENGINE_ERROR, "cannot tell where the program engine is: %s", strerror(errno));
        return command_fail();
    }
    *name = '\0';
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, places[i]);
        execv(path, arguments->typed);
        if (errno == ENOENT) continue;
        command_error(ENGINE_ERROR, "%s: %s", path, strerror(errno));
        return command_fail();
    }
    command_error(ENGINE_ERROR,
                  "the server is not installed (%s): install the package engine-server, or build the engine "
                  "with libmicrohttpd",
                  path);
    return command_fail();
}

static uint32_t weights_of(const struct arguments *arguments)
{
    if (!arguments->weights) return ENGINE_WEIGHTS_SAME;
    return strcmp(arguments->weights, "send") == 0 ? ENGINE_WEIGHTS_SENT : ENGINE_WEIGHTS_OWN;
}

int command_worker(const struct arguments *arguments)
{
    struct engine *engine;
    struct engine_model *model = NULL;
    if (arguments->weights && !arguments->model)
        return command_usage("--weights says when a worker's own model is used: give it one (-m)");
    if (open_engine(arguments, &engine) != ENGINE_OK) return command_fail();
    int status =
        arguments->model ? open_model_file(arguments, engine, arguments->model, NULL, &model) : ENGINE_OK;
    const struct engine_serve_options options = {.struct_size = sizeof options,
                                                 .backends = arguments->backend,
                                                 .n_threads = arguments->n_threads,
                                                 .weights = weights_of(arguments),
                                                 .model = model};
    if (status == ENGINE_OK) status = engine_serve_devices(engine, &options);
    int result = status == ENGINE_OK ? 0 : command_fail();
    engine_model_close(model);
    engine_close(engine);
    return result;
}
