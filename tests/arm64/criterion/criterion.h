/* criterion.h: as much of Criterion as the CPU plugin's tests use, for a machine that Debian's Criterion
 * isn't built for here. Tests run one after the other, each in a process of its own (main.c). */
#ifndef TESTS_ARM64_CRITERION_H
#define TESTS_ARM64_CRITERION_H

#include <stdbool.h>
#include <string.h>

struct suite {
    const char *name;
    void (*init)(void), (*fini)(void); /* around each test; may be NULL */
    struct suite *next;
};

struct test {
    const char *suite, *name;
    void (*run)(void);
    struct test *next;
};

/* Called by constructors, before main. */
void add_suite(struct suite *suite);
void add_test(struct test *test);

/* Prints where and what, and a message of printf's kind; the test has failed, and goes on or ends. */
void test_failed(const char *file, int line, const char *what, const char *format, ...)
    __attribute__((format(printf, 4, 5)));
_Noreturn void test_end(void);

#define TestSuite(suite_name, ...)                                                                           \
    static struct suite suite_##suite_name = {.name = #suite_name, __VA_ARGS__};                             \
    static void __attribute__((constructor)) add_suite_##suite_name(void)                                    \
    {                                                                                                        \
        add_suite(&suite_##suite_name);                                                                      \
    }

#define Test(suite_name, test_name)                                                                          \
    static void run_##suite_name##_##test_name(void);                                                        \
    static struct test test_##suite_name##_##test_name = {#suite_name, #test_name,                           \
                                                          run_##suite_name##_##test_name, NULL};             \
    static void __attribute__((constructor)) add_##suite_name##_##test_name(void)                            \
    {                                                                                                        \
        add_test(&test_##suite_name##_##test_name);                                                          \
    }                                                                                                        \
    static void run_##suite_name##_##test_name(void)

/* The message, if there is one, is a literal. */
#define cr_expect(condition, ...)                                                                            \
    ((condition) ? (void)0 : test_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__))
#define cr_assert(condition, ...)                                                                            \
    ((condition) ? (void)0 : (test_failed(__FILE__, __LINE__, #condition, " " __VA_ARGS__), test_end()))
#define cr_assert_fail(...) (test_failed(__FILE__, __LINE__, "", " " __VA_ARGS__), test_end())

#define cr_expect_not(condition, ...) cr_expect(!(condition), __VA_ARGS__)
#define cr_expect_eq(a, b, ...)       cr_expect((a) == (b), __VA_ARGS__)
#define cr_expect_neq(a, b, ...)      cr_expect((a) != (b), __VA_ARGS__)
#define cr_expect_gt(a, b, ...)       cr_expect((a) > (b), __VA_ARGS__)
#define cr_expect_lt(a, b, ...)       cr_expect((a) < (b), __VA_ARGS__)
#define cr_expect_leq(a, b, ...)      cr_expect((a) <= (b), __VA_ARGS__)
#define cr_assert_eq(a, b, ...)       cr_assert((a) == (b), __VA_ARGS__)
#define cr_assert_gt(a, b, ...)       cr_assert((a) > (b), __VA_ARGS__)
#define cr_assert_geq(a, b, ...)      cr_assert((a) >= (b), __VA_ARGS__)
#define cr_assert_lt(a, b, ...)       cr_assert((a) < (b), __VA_ARGS__)
#define cr_assert_str_eq(a, b, ...)   cr_assert(strcmp(a, b) == 0, __VA_ARGS__)

#endif
