/* output.c: see output.h. */
#include "commands/output.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "commands/common.h"

int output_check(const char *path, const char *const *inputs, size_t n)
{
    struct stat output, input;
    if (stat(path, &output) != 0) return ENGINE_OK; /* there is nothing that could be overwritten */
    for (size_t i = 0; i < n; i++) {
        if (!inputs[i]) continue;
        bool standard = strcmp(inputs[i], "-") == 0;
        int found = standard ? fstat(STDIN_FILENO, &input) : stat(inputs[i], &input);
        if (found != 0 || !S_ISREG(input.st_mode)) continue; /* a terminal or pipe may be both */
        if (input.st_dev == output.st_dev && input.st_ino == output.st_ino)
            return command_error(ENGINE_ERROR_ARGUMENT,
                                 "%s is the same file as the input %s: give the output another name", path,
                                 standard ? "on standard input" : inputs[i]);
    }
    return ENGINE_OK;
}

static FILE *create_temporary(const char *path, char **name)
{
    FILE *file = NULL;
    for (unsigned i = 0; i < 100 && !file; i++) {
        free(*name);
        if (asprintf(name, "%s.part%u", path, i) < 0) {
            *name = NULL;
            errno = ENOMEM;
            return NULL;
        }
        file = fopen(*name, "wbx");
        if (!file && errno != EEXIST) return NULL;
    }
    return file;
}

int output_open(struct output *output, const char *path)
{
    struct stat info;
    bool exists = lstat(path, &info) == 0;
    *output = (struct output){.path = path};
    if (exists && !S_ISREG(info.st_mode))
        output->file = fopen(path, "wb");
    else if (!exists || access(path, W_OK) == 0)
        output->file = create_temporary(path, &output->temporary);
    if (!output->file) {
        command_error(ENGINE_ERROR, "%s: %s", path, strerror(errno));
        free(output->temporary);
        return ENGINE_ERROR;
    }
    if (exists && output->temporary) fchmod(fileno(output->file), info.st_mode & 0777);
    return ENGINE_OK;
}

int output_close(struct output *output, bool whole)
{
    int status = ENGINE_OK;
    if (fclose(output->file) != 0 && whole)
        status = command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
    if (!output->temporary) return status;
    if (whole && !status && rename(output->temporary, output->path) != 0)
        status = command_error(ENGINE_ERROR, "%s: %s", output->path, strerror(errno));
    if (!whole || status) remove(output->temporary);
    free(output->temporary);
    return status;
}
