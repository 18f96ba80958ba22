/* cpu-settings.c: see cpu-settings.h. */
#include "cpu-settings.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "sample.h"

#if defined(__aarch64__)
const char *const cpu_isas[N_CPU_ISAS] = {"scalar", "neon", "neondot"};
#else
const char *const cpu_isas[N_CPU_ISAS] = {"scalar", "avx2", "avxvnni", "avx512", "avx512vnni"};
#endif

/* The description ends in "…, ISA, N threads". */
bool cpu_uses(struct fixture *fixture, const char *isa)
{
    struct engine_device_info info = {.struct_size = sizeof info};
    cr_assert_eq(fixture->api->device_info(0, &info), ENGINE_OK, "%s", fixture_message());
    char wanted[32];
    snprintf(wanted, sizeof wanted, ", %s, ", isa);
    return strstr(info.description, wanted);
}

bool cpu_open(struct fixture *fixture, const char *isa, uint32_t n_threads)
{
    setenv("ENGINE_CPU_ISA", isa, 1);
    setenv("ENGINE_CPU_INTEGERS", "all", 1); /* small shapes go to the kernels of large ones */
    fixture_open(fixture, "cpu", 0, n_threads, 0);
    if (cpu_uses(fixture, isa)) return true;
    fixture_close(fixture);
    return false;
}

enum { MAX_THREADS = 3 };

static void compare(const float *got, const float *reference, size_t n, double tolerance, const char *isa)
{
    double size = 0;
    for (size_t i = 0; i < n; i++) size += (double)reference[i] * (double)reference[i];
    double usual = sqrt(size / (double)n);
    for (size_t i = 0; i < n; i++) { /* curves such as x^2 have elements that are far larger than usual */
        double bound = tolerance * fmax(usual, fabs((double)reference[i]));
        cr_assert(fabs((double)got[i] - (double)reference[i]) <= bound,
                  "%s: element %zu is %.9g, scalar %.9g", isa, i, (double)got[i], (double)reference[i]);
    }
}

/* Devices stay open for the next case of the test's process: opening them takes longer than most cases. NULL
 * where this machine doesn't run the instruction set. */
static struct fixture *opened(size_t isa, uint32_t n_threads)
{
    static struct fixture fixtures[N_CPU_ISAS][MAX_THREADS];
    static enum { UNKNOWN, OPENED, ABSENT } states[N_CPU_ISAS][MAX_THREADS];
    size_t t = n_threads - 1;
    if (states[isa][t] == UNKNOWN)
        states[isa][t] = cpu_open(&fixtures[isa][t], cpu_isas[isa], n_threads) ? OPENED : ABSENT;
    return states[isa][t] == OPENED ? &fixtures[isa][t] : NULL;
}

void cpu_compare(float *(*run)(struct fixture *fixture, const void *c), const void *c, size_t n,
                 double tolerance)
{
    /* As a sample two or three threads, in turns; emulated only one number of them. */
    static unsigned n_cases;
    const unsigned left_out = all_or_sample(0, 2 + n_cases % 2);
    const unsigned only = all_unless(EMULATED, 0, 1 + n_cases % MAX_THREADS);
    n_cases++;
    float *scalar = NULL, *vectors = NULL; /* results of the plain kernels, of the first others */
    for (size_t i = 0; i < N_CPU_ISAS; i++) {
        float *first = NULL;
        for (uint32_t n_threads = 1; n_threads <= MAX_THREADS; n_threads++) {
            if (n_threads == left_out || (only && n_threads != only)) continue;
            struct fixture *fixture = opened(i, n_threads);
            if (!fixture) break;
            float *result = run(fixture, c);
            fixture_clear(fixture);
            if (!first) {
                first = result;
                if (scalar) compare(first, scalar, n, tolerance, cpu_isas[i]);
                cr_assert(!vectors || memcmp(first, vectors, n * sizeof *first) == 0,
                          "%s gives another result than the sets before it", cpu_isas[i]);
                continue;
            }
            cr_assert(memcmp(first, result, n * sizeof *first) == 0, "%s: %u threads give another result",
                      cpu_isas[i], n_threads);
            free(result);
        }
        float **kept = i == 0 ? &scalar : &vectors;
        if (!*kept)
            *kept = first;
        else
            free(first);
    }
    free(scalar);
    free(vectors);
}
