/* output.h: files that commands write. */
#ifndef ENGINE_COMMANDS_OUTPUT_H
#define ENGINE_COMMANDS_OUTPUT_H

#include <stdbool.h>
#include <stdio.h>

/* A file that is there once it is whole, and not before: a temporary one in the same folder takes its name at the end.
 * What is no regular file (a device, a FIFO, a symbolic link such as /dev/stdout) is written directly. */
struct output {
    const char *path;
    char *temporary; /* NULL: there is none */
    FILE *file;
};

/* Says why it failed through command_error. */
int output_open(struct output *output, const char *path);
/* Not `whole`: what there was under that name stays. */
int output_close(struct output *output, bool whole);

#endif
