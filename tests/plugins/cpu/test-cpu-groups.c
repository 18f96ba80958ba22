/* test-cpu-groups.c: what version 1.1 of the border added, by the CPU plugin, for each instruction set and
 * with several threads, against double precision. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "claims.h"
#include "cpu-settings.h"
#include "sample.h"

static struct {
    struct fixture fixture; /* asked what the plugin claims; what it does is tried with others */
    const char *area;
    const struct case_group *group;
    unsigned n_cases; /* of the group */
} tried;

static float *run(struct fixture *fixture, const void *c)
{
    return run_some_case(fixture, c);
}

static bool is_too_long(const struct some_case *c)
{
    const struct matmul_case *m = &c->as.matmul;
    return c->kind == CASE_MATMUL &&
           (size_t)m->k * m->rows * m->tokens * (m->n_used ? m->n_used : 1) > MAX_PRODUCTS;
}

static bool is_quantised(uint32_t type)
{
    return format_of(type)->block_length > 1;
}

/* How far instruction sets may be apart: where two ways to round are equally good, they may differ in their
 * choice. */
static double tolerance(const struct some_case *c)
{
    const struct matmul_case *m = &c->as.matmul;
    const struct attention_case *a = &c->as.attention;
    switch (c->kind) {
    case CASE_MATMUL: return is_quantised(m->type) || is_quantised(m->gate_type) ? 1e-1 : 1e-5;
    case CASE_ATTENTION: return is_quantised(a->k_type) || a->size != 0 ? 1e-2 : 1e-4;
    case CASE_ROUTE: return 1e-4;
    case CASE_CONV: return 1e-5;
    case CASE_SCAN: return 1e-4;
    case CASE_ROWS:
        if (c->as.rows.kind == ENGINE_NORM_LAYER) return 1e-3; /* some rows are far from zero */
        return some_case_size(c) < 64 ? 1 : 5e-6;              /* a few values may all be next to nothing */
    default: return 5e-6;
    }
}

static void try_case(void *user, const struct some_case *c)
{
    (void)user;
    if (is_too_long(c) || tried.n_cases++ % all_unless(SANITIZED || EMULATED, 1, 4) != 0) return;
    float *result = fixture_run_claimed(&tried.fixture, c);
    if (!result) {
        cr_assert(!claim_of(tried.area)->cpu, "%s, %s, is not claimed: %s", tried.area, tried.group->name,
                  c->form ? c->form : "");
        return;
    }
    free(result);
    cpu_compare(run, c, some_case_size(c), tolerance(c));
}

static void try_group(void *user, const struct case_group *group)
{
    (void)user;
    cr_assert(claim_of(group->area), "claims.h lacks %s", group->area);
    tried.group = group;
    tried.n_cases = 0;
    if (strcmp(group->area, tried.area) == 0) group->each(group, try_case, NULL);
}

static void try_area(const char *area)
{
    tried.area = area;
    cr_assert(cpu_open(&tried.fixture, "scalar", 2));
    each_case_group(try_group, NULL);
    fixture_close(&tried.fixture);
}

Test(cpu_groups, attention_weights)
{
    try_area("attention weights");
}

Test(cpu_groups, attention_distances)
{
    try_area("attention distances");
}

Test(cpu_groups, attention)
{
    try_area("attention");
}

Test(cpu_groups, matmul)
{
    try_area("matmul");
}

Test(cpu_groups, experts)
{
    try_area("experts");
}

Test(cpu_groups, heads)
{
    try_area("heads");
}

/* So that a new area needs no test here. Of attention that sees ahead, the suite tries enough. */
Test(cpu_groups, all_others)
{
    static const char *const named[] = {
        "attention weights", "attention distances", "attention", "matmul", "experts", "heads",
        "attention ahead"};
    claims_each_other(named, sizeof named / sizeof *named, try_area);
}
