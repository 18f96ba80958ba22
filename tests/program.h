/* program.h: runs the program `engine` from outside. */
#ifndef TESTS_PROGRAM_H
#define TESTS_PROGRAM_H

#include <stddef.h>

struct program_result {
    int status; /* the exit status; 128 + the signal that ended it */
    char *out;  /* standard output, NUL-terminated */
    size_t out_size;
    char *err; /* standard error, NUL-terminated */
};

/* Runs TEST_ENGINE with the arguments (ended by NULL, without the program's name) and `input` on standard
 * input, which may be NULL. The user's configuration is ignored: XDG_CONFIG_HOME leads nowhere. */
struct program_result program_run(const char *const *arguments, const char *input, size_t input_size);
void program_free(struct program_result *result);

/* The same with the arguments as a list and no input. */
#define PROGRAM(...) program_run((const char *const[]){__VA_ARGS__, NULL}, NULL, 0)

/* How many lines of a text contain something. */
size_t program_count_lines(const char *text, const char *containing);

/* Ends the test unless the program succeeded with this text, and Vulkan's validation layers reported
 * nothing. */
void program_expect_text(const struct program_result *result, const char *expected, const char *what);
/* Ends the test unless the program succeeded and printed this text. Frees the result. */
void program_prints(struct program_result result, const char *text);
/* Ends the test unless the program failed with one line of error that contains `words`: with this status, and
 * without having printed anything; or with any status if it is 0, whatever came before. Frees the result. */
void program_fails(struct program_result result, int status, const char *words);

#endif
