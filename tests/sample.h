/* sample.h: which of many like cases a test takes. Where cases differ in what a device computes, not in what
 * the host does, tests take a sample of them, and another one under AddressSanitizer, which is slow; so they
 * do on an emulated processor (arm64/), which is as slow. With ENGINE_TEST_ALL in the environment (`./dev
 * test --all`) they take all. */
#ifndef TESTS_SAMPLE_H
#define TESTS_SAMPLE_H

#include <stdlib.h>

#if defined(__SANITIZE_ADDRESS__)
#define UNDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#define UNDER_ADDRESS_SANITIZER __has_feature(address_sanitizer)
#else
#define UNDER_ADDRESS_SANITIZER 0
#endif

#ifdef TEST_EMULATED
#define EMULATED 1
#else
#define EMULATED 0
#endif

/* A number of cases, or the step from one to the next: `sample`, or `all` if all are asked for. */
static inline unsigned all_or_sample(unsigned all, unsigned sample)
{
    return getenv("ENGINE_TEST_ALL") ? all : sample;
}

/* The first of the cases that are taken `step` apart: not the same ones with and without AddressSanitizer. */
static inline unsigned first_of_sample(unsigned step)
{
    return step > 1 && !UNDER_ADDRESS_SANITIZER ? 1 : 0;
}

/* `all`, or under AddressSanitizer `sample`. */
static inline unsigned all_or_sanitized(unsigned all, unsigned sample)
{
    return UNDER_ADDRESS_SANITIZER ? all_or_sample(all, sample) : all;
}

/* `all`, or on an emulated processor `sample`. */
static inline unsigned all_or_emulated(unsigned all, unsigned sample)
{
    return EMULATED ? all_or_sample(all, sample) : all;
}

/* `all`, or `sample` where a case takes several times as long as elsewhere. */
static inline unsigned all_or_slow(unsigned all, unsigned sample)
{
    return EMULATED || UNDER_ADDRESS_SANITIZER ? all_or_sample(all, sample) : all;
}

#endif
