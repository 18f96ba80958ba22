/* claims.h: the cases of check/case-groups.h that each of our backends must claim, by area. Other cases that
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

#endif
