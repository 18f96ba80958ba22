/* output.h: files that commands write. */
#ifndef ENGINE_IO_OUTPUT_H
#define ENGINE_IO_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "engine.h"

/* Of how many files a model consists by the name of one, NAME-00001-of-00003.gguf; 0: the name is another. */
uint32_t output_parts(const char *path);

/* Rejects a path that leads to one of the files that a command reads, under any name, including hard and
 * symbolic links: `inputs` [n], which may contain NULLs, and "-" for standard input, and of directories (or
 * their config.json) all files that belong to a model; the configuration files; the plugins.
 * ENGINE_ERROR_ARGUMENT, through command_error. */
int output_check(const char *path, const struct engine *engine, const char *const *inputs, size_t n);

/* Whether two outputs are one file, under whatever names. */
bool output_same(const char *path, const char *other);

/* A file that appears only when it is complete: it is written under another name in the same folder, and
 * renamed at the end. Anything but a regular file (a device, a FIFO, a symbolic link such as /dev/stdout) is
 * written directly. */
struct output {
    const char *path;
    FILE *file;
    char *part; /* the name of the unfinished file; NULL: none */
    int lock;   /* its descriptor, which holds a lock on it; or -1 */
};

/* Outputs that may be open at a time: those of `engine run` with --logprobs-file and --prompt-cache. */
#define OUTPUTS_MAX 2

/* Reports a failure through command_error. */
int output_open(struct output *output, const char *path);
/* If not `whole`, an existing file of that name is kept. */
int output_close(struct output *output, bool whole);

/* Removes the unfinished files of the open outputs, if any. For signal handlers, which then end the
 * program. */
void output_discard(void);

#endif
