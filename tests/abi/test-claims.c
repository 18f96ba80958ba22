/* test-claims.c: what is asked of a backend of version 1.0 that it can't know. knows-1.0.c, compiled from the
 * frozen header, says of all that 1.0 has whether it could be run: it must say no to every later addition. */
#include <criterion/criterion.h>
#include <stdlib.h>

#include "backend-fixture.h"

static struct fixture fixture;
static const struct case_group *tried;
static unsigned n_refused;

/* Version 1.0 has these as well: values that are the keys, rows of one number. */
static bool is_known(const struct some_case *c)
{
    const struct attention_case *a = &c->as.attention;
    if (c->kind == CASE_ROWS) return c->as.rows.single && c->as.rows.n == 1;
    return c->kind == CASE_ATTENTION && !a->value_dim && !a->slopes && !a->sinks && !a->chunk &&
           !(a->softcap > 0) && !a->weights && !a->n_picked && !a->earlier && !a->logsums;
}

static void expect_no(void *user, const struct some_case *c)
{
    (void)user;
    if (is_known(c)) return;
    cr_assert_null(fixture_run_claimed(&fixture, c), "%s, %s: %s", tried->area, tried->name,
                   c->form ? c->form : "");
    n_refused++;
}

static void try_group(void *user, const struct case_group *group)
{
    (void)user;
    tried = group;
    group->each(group, expect_no, NULL);
}

Test(abi_claims, a_backend_of_1_0_says_no_to_what_1_1_added)
{
    fixture_open(&fixture, "knows-1.0", 0, 0, 0);
    each_case_group(try_group, NULL);
    cr_assert_gt(n_refused, 1000);
    fixture_close(&fixture);
}

/* The same operations without what was added, in the structs of today. */
Test(abi_claims, and_yes_to_what_it_knows)
{
    fixture_open(&fixture, "knows-1.0", 0, 0, 0);
    struct engine_tensor *a = fixture_f32(&fixture, 8, 3, 2, NULL), *b = fixture_f32(&fixture, 8, 3, 2, NULL);
    struct engine_op_norm norm = {.struct_size = sizeof norm, .input = a, .output = b, .epsilon = 1e-5f};
    struct engine_op_rope rope = {
        .struct_size = sizeof rope, .input = a, .output = b, .n_dims = 8, .theta = 10000};
    struct engine_op_binary add = {.struct_size = sizeof add, .a = a, .b = a, .output = b};
    struct engine_op_activate silu = {
        .struct_size = sizeof silu, .input = a, .output = b, .activation = ENGINE_ACTIVATION_SILU};
    struct engine_op_attention attention = {
        .struct_size = sizeof attention, .q = a, .k = a, .v = a, .output = b, .scale = 1};
    cr_assert(fixture_supports(&fixture, ENGINE_OP_NORM, &norm));
    cr_assert(fixture_supports(&fixture, ENGINE_OP_ROPE, &rope));
    cr_assert(fixture_supports(&fixture, ENGINE_OP_ADD, &add));
    cr_assert(fixture_supports(&fixture, ENGINE_OP_ACTIVATE, &silu));
    cr_assert(fixture_supports(&fixture, ENGINE_OP_ATTENTION, &attention));
    rope.magnitude = 1.5f;
    cr_assert_not(fixture_supports(&fixture, ENGINE_OP_ROPE, &rope));
    fixture_close(&fixture);
}
