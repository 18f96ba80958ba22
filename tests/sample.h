/* sample.h: AddressSanitizer watches the host's code, and slowly. Where cases differ in what a device computes, not in what
 * the host does, tests take a sample of them under it; so they do on an emulated processor (arm64/), which is as slow. With
 * ENGINE_TEST_ALL in the environment (`./dev test --all`) they take all. */
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

/* A number of cases, or the step from one to the next: `all`, or under AddressSanitizer `sample`. */
static inline unsigned all_or_sample(unsigned all, unsigned sample)
{
    return UNDER_ADDRESS_SANITIZER && !getenv("ENGINE_TEST_ALL") ? sample : all;
}

/* The same, or on an emulated processor `sample`. */
static inline unsigned all_or_emulated(unsigned all, unsigned sample)
{
    return EMULATED && !getenv("ENGINE_TEST_ALL") ? sample : all;
}

#endif
