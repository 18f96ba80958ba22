/* output.h: files that commands write. */
#ifndef ENGINE_COMMANDS_OUTPUT_H
#define ENGINE_COMMANDS_OUTPUT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

/* Refuses a path that leads to one of the files that a command reads, under whatever name: by links of both kinds too.
 * `inputs` [n] may hold NULLs, and "-" for standard input. ENGINE_ERROR_ARGUMENT, through command_error. */
int output_check(const char *path, const char *const *inputs, size_t n);

/* A file that is there once it is whole, and not before: an unfinished one in the same folder takes its name at the end.
 * What is no regular file (a device, a FIFO, a symbolic link such as /dev/stdout) is written directly. */
struct output {
    const char *path;
    FILE *file;
    char *part; /* the unfinished file's name; NULL: there is none */
    int lock;   /* its descriptor, with a lock on it; -1 */
};

/* Says why it failed through command_error. One at a time. */
int output_open(struct output *output, const char *path);
/* Not `whole`: what there was under that name stays. */
int output_close(struct output *output, bool whole);

/* Removes the unfinished file of the output that is open, if one is: for signal handlers, which end the program then. */
void output_discard(void);

#endif
