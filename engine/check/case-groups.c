/* case-groups.c: runs a case of any kind, and lists all groups; see cases.h. */
#include "check/cases.h"

float *run_some_case(struct fixture *fixture, const struct some_case *c)
{
#define RUN(number, name)                                                                                    \
    case CASE_##number: return run_##name##_case(fixture, &c->as.name);
    switch (c->kind) {
        CASE_KINDS(RUN)
    }
    fixture_fail(fixture, "the suite itself is at fault: it has no case of kind %d", (int)c->kind);
}

size_t some_case_size(const struct some_case *c)
{
#define SIZE(number, name)                                                                                   \
    case CASE_##number: return name##_case_size(&c->as.name);
    switch (c->kind) {
        CASE_KINDS(SIZE)
    }
    return 0;
}

void each_case_group(group_visitor *visit, void *user)
{
    each_rows_group(visit, user);
    each_attention_group(visit, user);
    each_pick_group(visit, user);
    each_block_group(visit, user);
    each_stream_group(visit, user);
    each_matmul_group(visit, user);
}

void each_large_group(group_visitor *visit, void *user)
{
    each_large_rows_group(visit, user);
    each_large_block_group(visit, user);
}
