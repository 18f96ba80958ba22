/* worker.c: `engine worker`: offers this machine's devices to an engine on another one. */
#include <string.h>

#include "commands/common.h"

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
