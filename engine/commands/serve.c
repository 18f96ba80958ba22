/* serve.c: `engine serve`: finds the program engine-serve, which is a package of its own, and becomes it. */
#include "commands/serve.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "commands/common.h"

#define PROGRAM "engine-serve"

/* Where it may be, as seen from the folder of `engine`: there in the build tree, else where it is installed. */
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
