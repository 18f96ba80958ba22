/* worker.c: `engine worker`: offers this machine's devices to an engine on another one. */
#include "commands/common.h"

int command_worker(const struct arguments *arguments)
{
    struct engine *engine;
    struct engine_serve_options options = {
        .struct_size = sizeof options, .backends = arguments->backend, .n_threads = arguments->n_threads};
    if (open_engine(arguments, &engine) != ENGINE_OK) return command_fail();
    int status = engine_serve_devices(engine, &options) == ENGINE_OK ? 0 : command_fail();
    engine_close(engine);
    return status;
}
