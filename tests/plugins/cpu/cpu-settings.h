/* cpu-settings.h: the instruction sets and thread counts that the CPU plugin's tests cover. */
#ifndef TESTS_CPU_SETTINGS_H
#define TESTS_CPU_SETTINGS_H

#include "backend-fixture.h"

/* The plugin's instruction sets for the architecture of this build, the plainest first. */
#if defined(__aarch64__)
#define N_CPU_ISAS 3
#else
#define N_CPU_ISAS 5
#endif
extern const char *const cpu_isas[N_CPU_ISAS];

/* Whether the loaded plugin would take that instruction set for its device. */
bool cpu_uses(struct fixture *fixture, const char *isa);

/* On an emulated processor, tests skip matmuls of more products, which would take minutes. */
#ifdef TEST_EMULATED
#define MAX_PRODUCTS 500000
#else
#define MAX_PRODUCTS SIZE_MAX
#endif

/* Opens the plugin with ENGINE_CPU_ISA set. Returns false, with nothing open, if this machine doesn't support
 * that instruction set. */
bool cpu_open(struct fixture *fixture, const char *isa, uint32_t n_threads);

/* Runs `run` under every instruction set and with 1, 2 and 3 threads; `run` returns n floats in new memory.
 * Asserts that results don't depend on the thread count, that all sets with vectors (vec.h) agree, and that
 * these differ from the scalar one by at most `tolerance`, relative to the root mean square of the result. */
void cpu_compare(float *(*run)(struct fixture *fixture, const void *c), const void *c, size_t n,
                 double tolerance);

#endif
