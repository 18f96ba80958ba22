/* program.c: see program.h. */
#include "program.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define MAX_ARGUMENTS 64

static char *read_all(FILE *file, size_t *size)
{
    fseek(file, 0, SEEK_END);
    long end = ftell(file);
    rewind(file);
    char *text = malloc((size_t)end + 1);
    cr_assert(text);
    *size = fread(text, 1, (size_t)end, file);
    text[*size] = '\0';
    fclose(file);
    return text;
}

static void become_engine(const char *const *arguments, FILE *in, FILE *out, FILE *err)
{
    char *argv[MAX_ARGUMENTS + 2] = {(char *)"engine"};
    for (size_t i = 0; i < MAX_ARGUMENTS && arguments[i]; i++) argv[i + 1] = (char *)(size_t)arguments[i];
    /* Where the tests' own standard streams are closed, the files may lie in their places: first out of the
     * way. */
    int files[] = {fileno(in), fileno(out), fileno(err)};
    for (int i = 0; i < 3; i++) files[i] = fcntl(files[i], F_DUPFD_CLOEXEC, 3);
    for (int i = 0; i < 3; i++) dup2(files[i], i);
    setenv("XDG_CONFIG_HOME", "/dev/null", 1);
    execv(TEST_ENGINE, argv);
    perror(TEST_ENGINE);
    _exit(127);
}

struct program_result program_run(const char *const *arguments, const char *input, size_t input_size)
{
    /* Files rather than pipes: nothing can wait for anything. */
    FILE *in = tmpfile(), *out = tmpfile(), *err = tmpfile();
    struct program_result result;
    int status;
    size_t err_size;
    cr_assert(in && out && err);
    if (input) cr_assert_eq(fwrite(input, 1, input_size, in), input_size);
    rewind(in);
    fflush(NULL);
    pid_t child = fork();
    cr_assert(child >= 0);
    if (child == 0) become_engine(arguments, in, out, err);
    cr_assert_eq(waitpid(child, &status, 0), child);
    fclose(in);
    result.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    result.out = read_all(out, &result.out_size);
    result.err = read_all(err, &err_size);
    return result;
}

void program_free(struct program_result *result)
{
    free(result->out);
    free(result->err);
}

size_t program_count_lines(const char *text, const char *containing)
{
    size_t count = 0;
    for (; (text = strstr(text, containing)) && *text; count++) {
        text += strcspn(text, "\n");
        text += *text == '\n';
    }
    return count;
}

void program_expect_text(const struct program_result *result, const char *expected, const char *what)
{
    cr_assert_eq(result->status, 0, "%s: %s", what, result->err);
    cr_assert_str_eq(result->out, expected, "%s", what);
    cr_assert_null(strstr(result->err, "validation"), "%s: %s", what, result->err);
}

void program_prints(struct program_result result, const char *text)
{
    cr_assert_eq(result.status, 0, "%s", result.err);
    cr_assert_str_eq(result.out, text);
    program_free(&result);
}

void program_fails(struct program_result result, int status, const char *words)
{
    cr_assert_neq(result.status, 0);
    cr_assert_lt(result.status, 128, "ended by signal %d", result.status - 128);
    cr_assert_eq(program_count_lines(result.err, "engine: "), 1, "%s", result.err);
    cr_assert(strstr(result.err, words), "no \"%s\" in: %s", words, result.err);
    if (status) {
        cr_assert_eq(result.status, status, "%d: %s", result.status, result.err);
        cr_assert_str_empty(result.out);
    }
    program_free(&result);
}
