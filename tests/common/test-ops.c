/* test-ops.c: the shape rule of common/ops.h, on the suite's examples: which dimension of which operand may
 * change alone. That its table is plugin-api.h's is compared by tests/tools/operations. */
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "backend-fixture.h"
#include "check/examples.h"

/* The dimensions that nothing else depends on, or that have two good sizes; none in the other examples. */
static const struct {
    const char *what, *dimensions;
} may_change[] = {
    {"experts", " input[1]"}, /* one column for all of a token's experts, or one for each */
    {"experts, mix", " input[1]"},
    {"attention", " block_table[0] block_table[1] positions[1]"},
    {"attention, options", " block_table[0] block_table[1] positions[1]"},
    {"attention, weights", " block_table[0] block_table[1] positions[1] weights[0]"},
    {"attention, biases by distance", " block_table[0] block_table[1] positions[1]"},
    {"attention, a part", " block_table[0] block_table[1] positions[1]"},
    {"cache write", " cache[1] cache[3]"},
    {"get rows", " source[1]"},
    {"route, given experts", " logits[0]"}, /* of which more may not be named */
    {"concat, one row for all heads", " b[1]"},
    {"conv", " state[2]"},
    {"scan", " state[3]"},
    {"scan, delta rule", " state[3]"},
    {"scan, rates", " state[3]"},
    {"attention, picked positions", " block_table[0] block_table[1] positions[1] picked[0]"},
    {"pick", " k[1] k[3] block_table[0] block_table[1] picked[0]"},
    {"pool", " cache[1] cache[3] bias[1] block_table[0] block_table[1]"},
};

static const char *dimensions_of(const char *what)
{
    for (size_t i = 0; i < sizeof may_change / sizeof *may_change; i++)
        if (strcmp(may_change[i].what, what) == 0) return may_change[i].dimensions;
    return "";
}

/* Whether the operation fits with some larger size of a dimension. */
static bool may_grow(uint32_t op, union op_args *args, const struct op_operand *operand, int d)
{
    const struct engine_tensor **at = op_tensor(args, operand), *good = *at;
    const uint64_t size = good->ne[d], sizes[] = {size + 1, 2 * size, 4 * size};
    bool fits = false;
    for (int i = 0; i < 3; i++) {
        struct engine_tensor other = *good;
        other.ne[d] = sizes[i];
        *at = &other;
        fits = fits || !op_misfit(op, args);
    }
    *at = good;
    return fits;
}

Test(ops, shapes_depend_on_each_other)
{
    struct fixture fixture;
    const struct example *example;
    fixture_open(&fixture, "cpu", 0, 1, 0);
    for (size_t i = 0; (example = example_at(i)); i++) {
        union op_args args = example_make(&fixture, example);
        char found[200] = "";
        for (const struct op_operand *operand = op_operands(example->op); operand->name; operand++)
            for (int d = 0; d < 4 && op_given(&args, operand); d++)
                if (may_grow(example->op, &args, operand, d))
                    snprintf(found + strlen(found), sizeof found - strlen(found), " %s[%d]", operand->name,
                             d);
        cr_expect_str_eq(found, dimensions_of(example->what), "%s: '%s'", example->what, found);
    }
    fixture_close(&fixture);
}

/* A device reads only the weights that lie on it, so each operation has to run where they do. */
Test(ops, an_operand_that_may_be_a_weight_places_the_operation)
{
    for (uint32_t op = 0; op <= ENGINE_OP_POOL; op++)
        for (const struct op_operand *operand = op_operands(op); operand->name; operand++)
            cr_expect(!(operand->flags & OP_EITHER) || operand->flags & OP_PLACES, "operation %u: %s", op,
                      operand->name);
}

Test(ops, every_operand_that_is_not_optional_is_needed)
{
    struct fixture fixture;
    const struct example *example;
    fixture_open(&fixture, "cpu", 0, 1, 0);
    for (size_t i = 0; (example = example_at(i)); i++) {
        union op_args args = example_make(&fixture, example);
        for (const struct op_operand *operand = op_operands(example->op); operand->name; operand++) {
            if (operand->flags & OP_OPTIONAL) continue;
            const struct engine_tensor *good = op_given(&args, operand);
            *op_tensor(&args, operand) = NULL;
            cr_expect(op_misfit(example->op, &args), "%s without %s", example->what, operand->name);
            *op_tensor(&args, operand) = good;
        }
    }
    fixture_close(&fixture);
}

Test(ops, unknown_ones_have_no_operands)
{
    cr_expect_null(op_info(0));
    cr_expect_null(op_info(UINT32_MAX));
    cr_expect_null(op_operands(77)->name);
    cr_expect(!op_has(77, OP_CACHE, OP_BOTH));
    cr_expect_str_eq(op_misfit(77, NULL), "it is no operation");
}

Test(ops, shapes_are_printed_as_far_as_there_is_room)
{
    const struct engine_tensor source = {.ne = {64, 320, 1, 1}}, rows = {.ne = {5, 1, 1, 1}},
                               output = {.ne = {64, 5, 1, 3}};
    const union op_args args = {.get_rows = {.source = &source, .rows = &rows, .output = &output}};
    char text[80], little[20];
    op_print_shapes(ENGINE_OP_GET_ROWS, &args, text, sizeof text);
    cr_expect_str_eq(text, "source [64, 320], rows [5], output [64, 5, 1, 3]");
    op_print_shapes(ENGINE_OP_GET_ROWS, &args, little, sizeof little);
    cr_expect_str_eq(little, "source [64, 320], r");
    op_print_shapes(77, &args, text, sizeof text);
    cr_expect_str_eq(text, "");
}
