/* assert.h: rules that the code relies on, checked where they are relied on.
 *
 * A rule is about the engine itself: a caller that breaks one has a mistake in it. Whatever comes from
 * outside (files, requests, plugins, memory that runs out) is checked by code that reports it in every build.
 *
 * The conditions run in builds with tests, in debug builds, and under sanitizers and fuzzers
 * (cmake/flags.cmake defines ENGINE_ASSERTIONS). In releases they are compiled but never evaluated, so they
 * have no side effects. */
#ifndef COMMON_ASSERT_H
#define COMMON_ASSERT_H

#ifdef ENGINE_ASSERTIONS

#include <stdio.h>
#include <stdlib.h>

static inline _Noreturn void assert_failed(const char *file, int line, const char *condition)
{
    fprintf(stderr, "%s:%d: ENGINE_ASSERT(%s) failed\n", file, line, condition);
    abort();
}

/* A statement. Prints file, line and condition, and aborts, unless the condition holds. */
#define ENGINE_ASSERT(condition)                                                                             \
    do {                                                                                                     \
        if (__builtin_expect(!(condition), 0)) assert_failed(__FILE__, __LINE__, #condition);                \
    } while (0)

#else

#define ENGINE_ASSERT(condition)                                                                             \
    do {                                                                                                     \
        (void)(0 && (condition));                                                                            \
    } while (0)

#endif

#endif
