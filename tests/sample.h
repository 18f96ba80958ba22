/* sample.h: AddressSanitizer watches the host's code, and slowly. Where cases differ in what a device computes, not in what
 * the host does, tests take a sample of them under it, and all with ENGINE_TEST_ALL in the environment (`./dev test --all`). */
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

/* A number of cases, or the step from one to the next: `all`, or under AddressSanitizer `sample`. */
static inline unsigned all_or_sample(unsigned all, unsigned sample)
{
    return UNDER_ADDRESS_SANITIZER && !getenv("ENGINE_TEST_ALL") ? sample : all;
}

#endif
