/* main.c: runs the tests that were linked in, see criterion/criterion.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <criterion/criterion.h>

static struct suite *suites;
static struct test *tests;
static bool failed; /* the test of this process */

void add_suite(struct suite *suite)
{
    suite->next = suites;
    suites = suite;
}

void add_test(struct test *test)
{
    test->next = tests;
    tests = test;
}

void test_failed(const char *file, int line, const char *what, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    printf("%s:%d: %s:", file, line, what);
    vprintf(format, arguments);
    putchar('\n');
    va_end(arguments);
    failed = true;
}

void test_end(void)
{
    fflush(stdout);
    _exit(1);
}

static const struct suite *suite_of(const struct test *test)
{
    static const struct suite none;
    for (const struct suite *suite = suites; suite; suite = suite->next)
        if (strcmp(suite->name, test->suite) == 0) return suite;
    return &none;
}

static bool passes(const struct test *test)
{
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return false;
    }
    if (child == 0) {
        const struct suite *suite = suite_of(test);
        if (suite->init) suite->init();
        test->run();
        if (suite->fini) suite->fini();
        fflush(stdout);
        _exit(failed);
    }
    int status;
    return waitpid(child, &status, 0) == child && WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

/* Arguments: suites, or 2/3 for the second of three parts of all; without any, all. */
int main(int n_arguments, char **arguments)
{
    int n_passed = 0, n_failed = 0;
    unsigned part = 1, n_parts = 1, number = 0;
    bool is_part = n_arguments == 2 && sscanf(arguments[1], "%u/%u", &part, &n_parts) == 2;
    if (part < 1 || part > n_parts) return 2;
    for (const struct test *test = tests; test; test = test->next) {
        bool asked = n_arguments == 1 || (is_part && number++ % n_parts == part - 1);
        for (int i = 1; i < n_arguments; i++) asked |= strcmp(arguments[i], test->suite) == 0;
        if (!asked) continue;
        struct timespec before, after;
        timespec_get(&before, TIME_UTC);
        bool good = passes(test);
        timespec_get(&after, TIME_UTC);
        printf("%s/%s: %ld s\n", test->suite, test->name, (long)(after.tv_sec - before.tv_sec));
        if (!good) printf("FAILED: %s/%s\n", test->suite, test->name);
        n_passed += good;
        n_failed += !good;
    }
    printf("%d passed, %d failed\n", n_passed, n_failed);
    return n_passed == 0 || n_failed > 0;
}
