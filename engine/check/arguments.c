/* arguments.c: see arguments.h. */
#include "check/arguments.h"

#include <stdio.h>

void suite_expect_refusal(struct suite *suite, uint32_t op, const void *args, int wanted, const char *what)
{
    struct fixture *fixture = &suite->fixture;
    fixture_describe_operands(fixture, op, args);
    SUITE_EXPECT(suite, !fixture_supports(fixture, op, args), "%s: supported", what);
    check_host_message();
    suite_expect_error(suite, fixture_enqueue(fixture, op, args), wanted, what);
    fixture_must(fixture, fixture->api->stream_wait(fixture->stream), "stream_wait after what was refused");
}

void suite_only_if(struct suite *suite, uint32_t op, const void *args)
{
    if (!fixture_supports(&suite->fixture, op, args))
        suite->fixture.stop(&suite->fixture, FIXTURE_UNCLAIMED, "");
}

/* The tensor with dimension d changed, dense. */
static struct engine_tensor resized(const struct engine_tensor *tensor, unsigned d, uint64_t size)
{
    struct engine_tensor other = *tensor;
    other.ne[d] = size;
    for (int i = 1; i < 4; i++) other.nb[i] = other.nb[i - 1] * other.ne[i - 1];
    return other;
}

uint64_t suite_bit(unsigned operand, unsigned dimension)
{
    return (uint64_t)1 << (4 * operand + dimension);
}

/* Gives an operand several wrong sizes of dimension d. */
static void expect_fitting_dimension(struct suite *suite, uint32_t op, void *args, unsigned operand,
                                     unsigned d)
{
    const struct engine_tensor **at = fixture_operand(op, args, operand), *good = *at;
    const uint64_t size = good->ne[d], sizes[] = {size + 1, 2 * size, 4 * size};
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        char what[80];
        const struct engine_tensor bad = resized(good, d, sizes[i]);
        snprintf(what, sizeof what, "operand %u with ne[%u] = %llu in place of %llu", operand, d,
                 (unsigned long long)sizes[i], (unsigned long long)size);
        *at = &bad;
        suite_expect_refusal(suite, op, args, ENGINE_OK, what);
    }
    *at = good;
}

void suite_expect_fitting_shapes(struct suite *suite, uint32_t op, void *args, uint64_t free_ones)
{
    const struct engine_tensor **at;
    for (unsigned operand = 0; (at = fixture_operand(op, args, operand)); operand++)
        for (unsigned d = 0; d < 4 && *at; d++)
            if (!(free_ones & suite_bit(operand, d))) expect_fitting_dimension(suite, op, args, operand, d);
    /* not earlier: even a plugin that refuses correct ones must refuse wrong ones */
    suite_only_if(suite, op, args);
}

struct engine_tensor *suite_floats(struct suite *suite, uint64_t ne0, uint64_t ne1, uint64_t ne2)
{
    return fixture_f32(&suite->fixture, ne0, ne1, ne2, NULL);
}
