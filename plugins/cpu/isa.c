/* isa.c: finds out what the processor and the system support, and chooses kernels. */
#include "isa.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "cpu.h"

#ifdef CPU_X86
#include <cpuid.h>

#define NAMES "scalar, avx2, avxvnni, avx512 or avx512vnni on this architecture"

static bool bit(unsigned word, int index)
{
    return word >> index & 1;
}

struct features {
    bool avx2, avxvnni, avx512, avx512vnni;
};

/* Intel's manual, volume 2, CPUID: leaf 1, leaf 7 with subleaves 0 and 1. A vector extension counts where the
 * system also saves its registers (XCR0: bits 1, 2 for AVX, 5 … 7 for AVX-512). */
static struct features detect(void)
{
    struct features found = {false};
    unsigned a, b, c, d, c1, a71 = 0;
    if (!__get_cpuid(1, &a, &b, &c1, &d) || !bit(c1, 27)) return found; /* OSXSAVE */
    unsigned xcr0, xcr0_high;
    __asm__("xgetbv" : "=a"(xcr0), "=d"(xcr0_high) : "c"(0));
    if (!__get_cpuid_count(7, 0, &a, &b, &c, &d)) return found;
    if (a >= 1) {
        unsigned b71, c71, d71;
        __get_cpuid_count(7, 1, &a71, &b71, &c71, &d71);
    }
    bool avx_saved = (xcr0 & 0x06) == 0x06, avx512_saved = (xcr0 & 0xe6) == 0xe6;
    /* AVX2 with FMA and F16C, which all processors with AVX2 but one have. */
    found.avx2 = avx_saved && bit(b, 5) && bit(c1, 12) && bit(c1, 29);
    found.avxvnni = found.avx2 && bit(a71, 4);
    /* AVX-512 F, DQ, BW, VL: all server processors with AVX-512. */
    found.avx512 = found.avx2 && avx512_saved && bit(b, 16) && bit(b, 17) && bit(b, 30) && bit(b, 31);
    found.avx512vnni = found.avx512 && bit(c, 11);
    return found;
}
#endif

#ifdef CPU_ARM64
#include <asm/hwcap.h>
#include <sys/auxv.h>

#define NAMES "scalar, neon or neondot on this architecture"

/* Linux's flags of the processor; every system that has the vector registers saves them. */
static bool has(unsigned long feature)
{
    return (getauxval(AT_HWCAP) & feature) != 0;
}
#endif

#ifndef NAMES
#define NAMES "scalar on this architecture"
#endif

/* An instruction set of this architecture. */
struct choice {
    const char *name;              /* as ENGINE_CPU_ISA takes it */
    const struct kernels *kernels; /* NULL: the build has left it out */
    bool usable;
};

const struct kernels *isa_kernels(void)
{
    /* From the plainest to the best; a cap excludes all that follow it. */
    const struct choice choices[] = {
        {"scalar", &kernels_scalar, true},
#ifdef CPU_X86
        {"avx2", &kernels_avx2, detect().avx2},
        {"avxvnni", &kernels_avxvnni, detect().avxvnni},
        {"avx512", &kernels_avx512, detect().avx512},
        {"avx512vnni", &kernels_avx512vnni, detect().avx512vnni},
#endif
#ifdef CPU_ARM64
        {"neon", &kernels_neon, has(HWCAP_ASIMD)},
        {"neondot", &kernels_neondot, has(HWCAP_ASIMD) && has(HWCAP_ASIMDDP)},
#endif
    };
    size_t n = sizeof choices / sizeof *choices;
    const char *cap = getenv("ENGINE_CPU_ISA");
    if (cap && *cap) {
        size_t last = 0;
        while (last < n && strcmp(choices[last].name, cap) != 0) last++;
        if (last == n) {
            cpu_host->fail(ENGINE_ERROR_ARGUMENT, "ENGINE_CPU_ISA is '%s'; choose " NAMES, cap);
            return NULL;
        }
        n = last + 1;
    }
    while (!choices[n - 1].kernels || !choices[n - 1].usable) n--; /* scalar always is */
    return choices[n - 1].kernels;
}
