/* claims.h: what each backend of ours has to claim of the cases of check/case-groups.h, by area. Where it doesn't have to,
 * what it claims is tried all the same. */
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
    {"norm",       true,  false, false},
    {"add",        true,  false, false},
    {"mul",        true,  false, false},
    {"activate",   true,  false, false},
    {"rope",       true,  false, false},
    {"attention",  true,  false, false},
    {"matmul",     true,  false, false},
    {"experts",    false, false, false},
    {"heads",      false, false, false},
    {"route",      true,  false, false},
    {"concat",     true,  false, false},
    /* clang-format on */
};

static inline const struct claim *claim_of(const char *area)
{
    for (size_t i = 0; i < sizeof claims / sizeof *claims; i++)
        if (strcmp(claims[i].area, area) == 0) return &claims[i];
    return NULL;
}

#endif
