/* claims.h: the cases of check/cases.h that each of our backends must claim, by area. Other cases that
 * it claims are tried all the same. */
#ifndef TESTS_CLAIMS_H
#define TESTS_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <string.h>

struct claim {
    const char *area;
    bool cpu, vulkan, opencl;
};

static const struct claim claims[] = {
    /* clang-format off */
    /*              CPU    Vulkan OpenCL */
    {"norm",       true,  true,  true},
    {"add",        true,  true,  true},
    {"mul",        true,  true,  true},
    {"activate",   true,  true,  true},
    {"rope",       true,  true,  true},
    {"attention",  true,  true,  true},
    {"attention ahead", true, true, true},
    {"attention distances", true, true, true},
    {"attention weights", true, false, false},
    {"matmul",     true,  true,  true},
    {"experts",    true,  true,  true},
    {"heads",      true,  true,  true},
    {"route",      true,  true,  true},
    {"concat",     true,  true,  true},
    {"conv",       true,  true,  true},
    {"scan",       true,  true,  true},
    /* clang-format on */
};

static inline const struct claim *claim_of(const char *area)
{
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (strcmp(claims[i].area, area) == 0) return &claims[i];
    return NULL;
}

/* Tries the areas that the n named ones are not among. */
static inline void claims_each_other(const char *const *named, size_t n, void (*try_area)(const char *area))
{
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++) {
        size_t k = 0;
        while (k < n && strcmp(named[k], claims[i].area) != 0) k++;
        if (k == n) try_area(claims[i].area);
    }
}

#endif
