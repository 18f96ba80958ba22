/* ceilings.c: measures the machine's limits; prints JSON: {"read_gb_s", "int8_gop_s", "f32_gflop_s",
 * "instructions"}.
 *
 *   ceilings [THREADS]
 *
 * Bandwidth: every thread reads its part of 1 GiB, which fits in no cache. Arithmetic: every thread runs a
 * loop of independent multiply-adds between registers; int8 uses the widest instruction available (VNNI: four
 * products per lane; otherwise AVX2's multiply-add pair), float32 uses FMA. Each figure is the best of
 * several runs, because a ceiling is what the machine can do, not what it did while it was busy with
 * something else. */
#include <immintrin.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum { MAX_THREADS = 256, RUNS = 5, CHAINS = 12, ROUNDS = 4000000 };

static const size_t READ_SIZE = (size_t)1 << 30;

struct job {
    const char *memory;
    size_t size;
    double operations; /* done */
    void (*run)(struct job *);
};

/* What keeps the compiler from leaving a loop out. */
static volatile int sink;

__attribute__((target("avx2"))) static void run_read(struct job *job)
{
    __m256i sum[4] = {_mm256_setzero_si256()};
    for (size_t i = 0; i + 256 <= job->size; i += 256) {
        _mm_prefetch(job->memory + i + 4096, _MM_HINT_T0);
        _mm_prefetch(job->memory + i + 4096 + 64, _MM_HINT_T0);
        _mm_prefetch(job->memory + i + 4096 + 128, _MM_HINT_T0);
        _mm_prefetch(job->memory + i + 4096 + 192, _MM_HINT_T0);
        for (size_t j = 0; j < 8; j++)
            sum[j % 4] = _mm256_add_epi64(
                sum[j % 4], _mm256_loadu_si256((const __m256i *)(const void *)(job->memory + i + 32 * j)));
    }
    __m256i all = _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
    sink = _mm256_extract_epi32(all, 0);
    job->operations = (double)job->size;
}

#define UNROLL _Pragma("GCC unroll 12")

/* CHAINS sums in registers; the empty assembly stands for their use. */
#define ARITHMETIC(name, instructions, vector, start, step, per_step)                                        \
    __attribute__((target(instructions))) static void name(struct job *job)                                  \
    {                                                                                                        \
        vector sum[CHAINS], a = start, b = start;                                                            \
        UNROLL for (int c = 0; c < CHAINS; c++) sum[c] = start;                                              \
        for (long i = 0; i < ROUNDS; i++) {                                                                  \
            UNROLL for (int c = 0; c < CHAINS; c++)                                                          \
            {                                                                                                \
                sum[c] = step;                                                                               \
                __asm__ volatile("" : "+v"(sum[c]), "+v"(a));                                                \
            }                                                                                                \
        }                                                                                                    \
        job->operations = (double)ROUNDS * CHAINS * (per_step);                                              \
    }

ARITHMETIC(int8_avx2, "avx2", __m256i, _mm256_set1_epi8(1),
           _mm256_add_epi16(sum[c], _mm256_maddubs_epi16(a, b)), 2 * 32)
ARITHMETIC(int8_vnni, "avx512f,avx512vnni", __m512i, _mm512_set1_epi32(1), _mm512_dpbusd_epi32(sum[c], a, b),
           2 * 64)
ARITHMETIC(f32_avx2, "avx2,fma", __m256, _mm256_set1_ps(1e-9f), _mm256_fmadd_ps(a, b, sum[c]), 2 * 8)
ARITHMETIC(f32_avx512, "avx512f", __m512, _mm512_set1_ps(1e-9f), _mm512_fmadd_ps(a, b, sum[c]), 2 * 16)

static void *thread_main(void *job)
{
    ((struct job *)job)->run(job);
    return NULL;
}

/* Operations per second of all threads together, in 1e9. */
static double measure(struct job *jobs, int n_threads, void (*run)(struct job *))
{
    double best = 0;
    for (int r = 0; r < RUNS; r++) {
        pthread_t threads[MAX_THREADS];
        struct timespec begin, end;
        clock_gettime(CLOCK_MONOTONIC, &begin);
        for (int i = 0; i < n_threads; i++) {
            jobs[i].run = run;
            if (pthread_create(&threads[i], NULL, thread_main, &jobs[i]) != 0) {
                fprintf(stderr, "ceilings: %d threads can't be started\n", n_threads);
                exit(1);
            }
        }
        double operations = 0;
        for (int i = 0; i < n_threads; i++) {
            pthread_join(threads[i], NULL);
            operations += jobs[i].operations;
        }
        clock_gettime(CLOCK_MONOTONIC, &end);
        double seconds = (double)(end.tv_sec - begin.tv_sec) + (double)(end.tv_nsec - begin.tv_nsec) * 1e-9;
        if (operations / seconds > best) best = operations / seconds;
    }
    return best * 1e-9;
}

int main(int argc, char **argv)
{
    int n_threads = argc > 1 ? atoi(argv[1]) : 1;
    if (n_threads < 1 || n_threads > MAX_THREADS) {
        fprintf(stderr, "usage: ceilings [THREADS, 1 to %d]\n", MAX_THREADS);
        return 2;
    }
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        fprintf(stderr, "ceilings: needs a processor with AVX2\n");
        return 1;
    }
    char *memory = mmap(NULL, READ_SIZE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) {
        fprintf(stderr, "ceilings: no room for 1 GiB\n");
        return 1;
    }
    madvise(memory, READ_SIZE, MADV_HUGEPAGE);
    memset(memory, 1, READ_SIZE);
    struct job jobs[MAX_THREADS];
    for (int i = 0; i < n_threads; i++) {
        size_t part = READ_SIZE / (size_t)n_threads / 4096 * 4096;
        jobs[i] = (struct job){.memory = memory + (size_t)i * part, .size = part};
    }
    int vnni = __builtin_cpu_supports("avx512vnni"), avx512 = __builtin_cpu_supports("avx512f");
    double bandwidth = measure(jobs, n_threads, run_read);
    double int8 = measure(jobs, n_threads, vnni ? int8_vnni : int8_avx2);
    double f32 = measure(jobs, n_threads, avx512 ? f32_avx512 : f32_avx2);
    printf("{\"read_gb_s\": %.1f, \"int8_gop_s\": %.0f, \"f32_gflop_s\": %.0f, \"instructions\": \"%s\"}\n",
           bandwidth, int8, f32,
           vnni     ? "avx512vnni"
           : avx512 ? "avx512"
                    : "avx2");
    return 0;
}
