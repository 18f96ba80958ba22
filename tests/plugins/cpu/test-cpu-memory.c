/* test-cpu-memory.c: the memory of the CPU plugin's weights and buffers. */
#include <criterion/criterion.h>
#include <stdbool.h>
#include <sys/mman.h>

#include "cpu.h"
#include "memory.h"

enum { KIB = 1 << 10, MIB = 1 << 20 };

static bool is_zero(const uint8_t *memory, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (memory[i] != 0) return false;
    return true;
}

Test(cpu_memory, is_zeroed_aligned_and_apart)
{
    static const size_t sizes[] = {1,        100,      255 * KIB, 256 * KIB, 3 * MIB + 1,
                                   31 * MIB, 32 * MIB, 70 * MIB,  5 * MIB};
    enum { N = sizeof sizes / sizeof *sizes };
    struct region *region = NULL;
    uint8_t *memory[N];
    for (int round = 0; round < 2; round++) {
        for (int i = 0; i < N; i++) {
            memory[i] = memory_allocate(&region, sizes[i]);
            cr_assert(memory[i]);
            cr_assert_eq((uintptr_t)memory[i] % CPU_ALIGNMENT, 0);
            cr_assert(is_zero(memory[i], sizes[i]), "%zu bytes", sizes[i]);
            memset(memory[i], i + 1, sizes[i]);
        }
        for (int i = 0; i < N; i++)
            for (size_t j = 0; j < sizes[i]; j++) cr_assert_eq(memory[i][j], i + 1);
        for (int i = 0; i < N; i++) memory_free(&region, memory[i], sizes[i]);
        cr_assert_null(region);
    }
    memory_free(&region, NULL, 0);
}

Test(cpu_memory, allocations_share_huge_pages)
{
    struct region *region = NULL;
    uint8_t *a = memory_allocate(&region, MIB), *b = memory_allocate(&region, MIB);
    cr_assert_eq((uintptr_t)(b - a), MIB);
    memory_free(&region, a, MIB);
    memory_free(&region, b, MIB);
}

/* Whether a page is in memory; errors count as no. */
static bool is_resident(void *page)
{
    unsigned char state = 0;
    return mincore(page, 1, &state) == 0 && (state & 1);
}

Test(cpu_memory, freed_pages_go_back_at_once)
{
    struct region *region = NULL;
    size_t size = 8 * MIB;
    uint8_t *first = memory_allocate(&region, size), *second = memory_allocate(&region, size);
    memset(first, 1, size);
    memset(second, 1, size);
    void *middle = (void *)((uintptr_t)(first + size / 2) / 4096 * 4096);
    cr_assert(is_resident(middle));
    memory_free(&region, first, size);
    cr_assert_not(is_resident(middle));
    for (size_t i = 0; i < size; i++) cr_assert_eq(second[i], 1);
    memory_free(&region, second, size);
}

Test(cpu_memory, too_much_is_refused)
{
    struct region *region = NULL;
    cr_assert_null(memory_allocate(&region, UINT64_MAX));
    cr_assert_null(memory_allocate(&region, SIZE_MAX / 2 + 1));
    cr_assert_null(memory_allocate(&region, SIZE_MAX / 2));
}
