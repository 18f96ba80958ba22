/* cpu-settings.h: the instruction sets and thread counts that the CPU plugin's tests go through. */
#ifndef TESTS_CPU_SETTINGS_H
#define TESTS_CPU_SETTINGS_H

#include "backend-fixture.h"

#define N_CPU_ISAS 5
extern const char *const cpu_isas[N_CPU_ISAS];

/* Opens the plugin with ENGINE_CPU_ISA set. Returns false, with nothing open, where this machine doesn't run
 * that instruction set. */
bool cpu_open(struct fixture *fixture, const char *isa, uint32_t n_threads);

/* Runs `run` under every instruction set and with 1, 2 and 3 threads; `run` returns n floats in new memory.
 * Asserts that the thread count makes no difference, and the instruction set one of at most `tolerance`,
 * relative to the root mean square of the result. */
void cpu_compare(float *(*run)(struct fixture *fixture, const void *c), const void *c, size_t n,
                 double tolerance);

#endif
