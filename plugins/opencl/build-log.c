/* build-log.c: puts the compiler's log of a program that it can't build into one line. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "device.h"

/* The log, ended by NUL, which the caller frees; NULL if there is none. */
static char *read_log(const struct engine_device *device, cl_program program)
{
    cl_device_id handle = device->listed->handle;
    size_t size = 0;
    if (cl.clGetProgramBuildInfo(program, handle, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) != CL_SUCCESS ||
        size == 0)
        return NULL;
    char *log = calloc(1, size + 1);
    if (log && cl.clGetProgramBuildInfo(program, handle, CL_PROGRAM_BUILD_LOG, size, log, NULL) == CL_SUCCESS)
        return log;
    free(log);
    return NULL;
}

static bool tells_of_error(const char *line, size_t length)
{
    for (size_t i = 0; i + 5 <= length; i++)
        if (strncasecmp(line + i, "error", 5) == 0) return true;
    return false;
}

void build_log(const struct engine_device *device, cl_program program, char text[BUILD_LOG_SIZE])
{
    char *log = read_log(device, program), *first = log;
    size_t used = 0;
    snprintf(text, BUILD_LOG_SIZE, "the compiler gave no reason");
    for (char *line = log; line && *line; line += strcspn(line, "\n"), line += strspn(line, "\n")) {
        if (!tells_of_error(line, strcspn(line, "\n"))) continue;
        first = line;
        break;
    }
    for (char *rest = first, *line; rest && (line = strsep(&rest, "\r\n")) && used < BUILD_LOG_SIZE;) {
        line += strspn(line, " \t");
        if (*line)
            used += (size_t)snprintf(text + used, BUILD_LOG_SIZE - used, "%s%s", used ? " | " : "", line);
    }
    free(log);
}
