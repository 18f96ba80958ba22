/* serve.c: see serve.h. */
#include "serve/serve.h"

#include <malloc.h>
#include <sys/resource.h>

#include "commands/common.h"
#include "commands/guesses.h"
#include "common/clock.h"
#include "serve/generate/lenient.h"
#include "serve/http/http.h"
#include "serve/json-memory.h"
#include "serve/life.h"
#include "serve/log.h"
#include "serve/metrics.h"
#include "serve/models/models.h"
#include "serve/server.h"

#define OTHER_FILES 64 /* that the process needs besides its connections */

/* Connections beyond what the process may have open could not be accepted. */
static int allow_files(const struct arguments *arguments)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)arguments->n_connections + OTHER_FILES;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return ENGINE_OK;
    limit.rlim_cur = limit.rlim_max == RLIM_INFINITY || limit.rlim_max > wanted ? wanted : limit.rlim_max;
    if (limit.rlim_cur >= wanted && setrlimit(RLIMIT_NOFILE, &limit) == 0) return ENGINE_OK;
    return command_error(
        ENGINE_ERROR_ARGUMENT,
        "--connections %u: the system allows this process %llu open files (ulimit -n), of which the "
        "engine needs %d itself",
        arguments->n_connections, (unsigned long long)limit.rlim_max, OTHER_FILES);
}

/* glibc's malloc takes 64 MiB of address space for each thread, which is what a limit (ulimit -v) counts. */
static void save_address_space(void)
{
#ifdef M_ARENA_MAX
    mallopt(M_ARENA_MAX, 2);
#endif
}

int serve(const struct arguments *arguments)
{
    struct server server = {.arguments = arguments, .began = seconds_now()};
    save_address_space();
    json_memory_begin();
    log_begin(arguments);
    signals_block();
    int status = guesses_check(arguments);
    if (!status) status = sampling_read(arguments, &server.sampling);
    if (!status) status = allow_files(arguments);
    server.metrics = metrics_create();
    if (!status && !server.metrics) status = command_error(ENGINE_ERROR_MEMORY, "out of memory (metrics)");
    server.lenient = arguments->strict_requests ? NULL : lenient_create();
    if (!status && !arguments->strict_requests && !server.lenient)
        status = command_error(ENGINE_ERROR_MEMORY, "out of memory (the log)");
    if (!status) status = http_create(&server, &server.http);
    if (!status) {
        const struct engine_options options = {.struct_size = sizeof options,
                                               .plugin_dirs = arguments->plugin_dirs.items,
                                               .config_file = arguments->config,
                                               .log = log_engine};
        status = engine_open(&options, &server.engine);
    }
    if (!status) status = models_create(&server, &server.models);
    if (!status) status = models_load_first(server.models);
    if (!status) status = models_start(server.models);
    if (!status) status = http_start(server.http);
    int exit_status = status ? command_fail() : 0;
    if (!status) server_run(&server);
    if (server.is_lost) exit_status = 1;
    if (status && server.models) models_stop(server.models);
    http_stop(server.http);
    models_destroy(server.models);
    http_destroy(server.http);
    engine_close(server.engine);
    lenient_destroy(server.lenient);
    metrics_destroy(server.metrics);
    sampling_free(&server.sampling);
    return exit_status;
}
