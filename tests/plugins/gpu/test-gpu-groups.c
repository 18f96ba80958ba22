/* test-gpu-groups.c: what version 1.1 of the border added, by a GPU plugin on its first device, against
 * double precision, in every form of its kernels that runs here. Where there is no device the tests skip,
 * saying so. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "claims.h"
#include "gpu-device.h"
#include "sample.h"

static struct fixture fixture;

static struct {
    const char *area;
    const struct case_group *group;
    bool few_types; /* of weights of several matrices: every form of every type takes long to compile */
    unsigned n;     /* cases until now */
} tried;

/* Nearly every case is a kernel to compile, of which the conformance suite takes others. */
#define CASE_STEP all_or_sample(1, 3)

static void setup(void)
{
    gpu_skip_without_device();
    fixture_open(&fixture, gpu.plugin, 0, 0, 0);
}

static void teardown(void)
{
    fixture_close(&fixture);
    gpu_expect_no_complaints();
}

TestSuite(gpu_groups, .init = setup, .fini = teardown);

static bool has_to_claim(const char *area)
{
    const struct claim *claim = claim_of(area);
    cr_assert(claim, "claims.h lacks %s", area);
    return strcmp(gpu.plugin, "vulkan") == 0 ? claim->vulkan : claim->opencl;
}

/* What GPU plugins don't take: caches with gaps, unless values lie within keys; odd rows of float16 in them;
 * a gate of another type. */
static bool may_refuse(const struct some_case *c)
{
    const struct attention_case *a = &c->as.attention;
    bool is_odd = (a->head_dim % 2 && a->k_type == ENGINE_TYPE_F16) ||
                  (a->value_dim % 2 && a->v_type == ENGINE_TYPE_F16);
    if (c->kind == CASE_MATMUL) return c->as.matmul.gate_type != 0;
    return c->kind == CASE_ATTENTION &&
           (is_odd || a->cache_gaps.row || a->cache_gaps.plane || a->cache_gaps.volume);
}

static void try_case(void *user, const struct some_case *c)
{
    (void)user;
    if (tried.n++ % CASE_STEP != first_of_sample(CASE_STEP)) return;
    if (c->kind == CASE_MATMUL && c->as.matmul.k > gpu_most_columns()) return;
    float *result = fixture_run_claimed(&fixture, c);
    cr_assert(result || may_refuse(c) || !has_to_claim(tried.area), "%s, %s, is not claimed: %s", tried.area,
              tried.group->name, c->form ? c->form : "");
    free(result);
}

/* The host's code is the same for all types. */
static bool is_one_of_few(uint32_t type)
{
    return type == ENGINE_TYPE_F32 || type == ENGINE_TYPE_Q4_K ||
           (all_or_sample(1, 0) && (type == ENGINE_TYPE_Q8_0 || type == ENGINE_TYPE_Q3_K));
}

static void try_group(void *user, const struct case_group *group)
{
    (void)user;
    tried.group = group;
    if (tried.few_types && !is_one_of_few(group->argument)) return;
    if (strcmp(group->area, tried.area) == 0) group->each(group, try_case, NULL);
}

static void try_area(const char *area)
{
    tried.area = area;
    has_to_claim(area);
    each_case_group(try_group, NULL);
}

/* The same in every form of the kernels that runs here. */
static void try_forms(const char *area)
{
    for (unsigned form = 0; form < gpu.n_forms; form++) {
        if (!gpu_choose(&gpu.forms[form])) continue;
        fixture_close(&fixture);
        fixture_open(&fixture, gpu.plugin, 0, 0, 0);
        try_area(area);
    }
}

Test(gpu_groups, norm)
{
    try_forms("norm");
}

Test(gpu_groups, attention)
{
    try_forms("attention");
}

Test(gpu_groups, attention_distances)
{
    try_area("attention distances");
}

Test(gpu_groups, matmul)
{
    try_area("matmul");
}

Test(gpu_groups, experts)
{
    tried.few_types = all_or_sample(false, true);
    try_area("experts");
}

Test(gpu_groups, heads)
{
    tried.few_types = all_or_sample(false, true);
    try_area("heads");
}

Test(gpu_groups, experts_and_heads_in_every_form)
{
    tried.few_types = true;
    try_forms("experts");
    try_forms("heads");
}

Test(gpu_groups, route)
{
    try_forms("route");
}

/* So that a new area needs no test here. Of attention that sees ahead, the suite tries enough. */
Test(gpu_groups, all_others)
{
    static const char *const named[] = {"norm",  "attention", "attention distances", "matmul", "experts",
                                        "heads", "route",     "attention ahead"};
    claims_each_other(named, sizeof named / sizeof *named, try_area);
}
