/* test-queue-invariance.c: ENGINE_DEVICE_BATCH_INVARIANT of the CPU plugin, through the library. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "queue-fixture.h"

TestSuite(queue_invariance, .fini = end_queue, .timeout = 1200);

#define N_TOGETHER 24

static bool cpu_is_invariant(void)
{
    struct engine_device_entry device;
    size_t count;
    cr_assert_eq(engine_device_count(engine, &count), ENGINE_OK);
    for (size_t i = 0; i < count; i++) {
        cr_assert_eq(engine_device_at(engine, i, &device), ENGINE_OK);
        if (strcmp(device.name, "cpu") == 0) return device.info.flags & ENGINE_DEVICE_BATCH_INVARIANT;
    }
    return false;
}

/* Logits of prompts of 1 to 5 tokens in `n` sequences at once, then of one token more in each. */
static void run_together(uint32_t n, float *logits)
{
    int32_t tokens[5 * N_TOGETHER], sequences[5 * N_TOGETHER];
    uint8_t wanted[5 * N_TOGETHER];
    uint32_t count = 0;
    for (uint32_t s = 0; s < n; s++)
        for (uint32_t i = 0; i <= s % 5; i++, count++) {
            tokens[count] = (int32_t)(3 + s * 13 + i * 7) % N_VOCAB;
            sequences[count] = (int32_t)s;
            wanted[count] = i == s % 5;
        }
    struct engine_batch batch = {.struct_size = sizeof batch,
                                 .n_tokens = count,
                                 .tokens = tokens,
                                 .sequences = sequences,
                                 .wanted = wanted};
    cr_assert_eq(engine_decode(context, &batch, logits), ENGINE_OK, "%s", engine_error_message());
    for (uint32_t s = 0; s < n; s++) tokens[s] = (int32_t)(5 + s), sequences[s] = (int32_t)s, wanted[s] = 1;
    batch.n_tokens = n;
    cr_assert_eq(engine_decode(context, &batch, logits + (size_t)n * N_VOCAB), ENGINE_OK, "%s",
                 engine_error_message());
    engine_context_destroy(context);
    context = NULL;
}

/* The first sequences give the same bits, however many others there are. */
static void compare_widths(uint32_t type)
{
    static const uint32_t widths[] = {1, 2, 3, 4, 7, 8, 15, 16, 17};
    static float all[2 * N_TOGETHER * N_VOCAB], some[2 * N_TOGETHER * N_VOCAB];
    setenv("ENGINE_CPU_INTEGERS", "all", 1); /* else so small a model is computed in float32 */
    open_model_of("", type);
    cr_assert(cpu_is_invariant());
    context = open_context(N_TOGETHER, 0, "cpu");
    run_together(N_TOGETHER, all);
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        const uint32_t n = widths[i];
        const size_t size = sizeof(float) * n * N_VOCAB;
        context = open_context(N_TOGETHER, 0, "cpu");
        run_together(n, some);
        cr_assert_eq(memcmp(all, some, size), 0, "type %u: prompts of %u sequences", type, n);
        cr_assert_eq(memcmp(all + (size_t)N_TOGETHER * N_VOCAB, some + (size_t)n * N_VOCAB, size), 0,
                     "type %u: %u sequences", type, n);
    }
}

Test(queue_invariance, f32)
{
    compare_widths(ENGINE_TYPE_F32);
}

Test(queue_invariance, f16)
{
    compare_widths(ENGINE_TYPE_F16);
}

Test(queue_invariance, bf16)
{
    compare_widths(ENGINE_TYPE_BF16);
}

Test(queue_invariance, q8_0)
{
    compare_widths(ENGINE_TYPE_Q8_0);
}

Test(queue_invariance, q4_0)
{
    compare_widths(ENGINE_TYPE_Q4_0);
}
