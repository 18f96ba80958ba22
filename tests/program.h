/* program.h: runs the program `engine` from outside. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stddef.h>

struct program_result {
    int status; /* the exit status; 128 + the signal that ended it */
    char *out;  /* standard output; a NUL behind */
    size_t out_size;
    char *err; /* standard error; a NUL behind */
};

/* Runs TEST_ENGINE with the arguments (ended by NULL, the program's name left out) and `input` on standard
 * input, which may be NULL. The user's configuration doesn't count: XDG_CONFIG_HOME leads nowhere. */
struct program_result program_run(const char *const *arguments, const char *input, size_t input_size);
void program_free(struct program_result *result);

/* The same with the arguments behind each other and no input. */
#define PROGRAM(...) program_run((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)

#endif
