/* case-groups.h: the cases of what plugin-api.h's version 1.1 added, in groups by operation: one list for the
 * conformance suite, which tries what a plugin claims, and for the tests of our own backends. */
#ifndef ENGINE_CHECK_CASE_GROUPS_H
#define ENGINE_CHECK_CASE_GROUPS_H

#include "check/cases.h"

enum case_kind {
    CASE_MATMUL,
    CASE_ROWS,
    CASE_ROPE,
    CASE_ATTENTION,
    CASE_ROUTE,
    CASE_CONCAT,
    CASE_CONV,
    CASE_SCAN
};

struct some_case {
    enum case_kind kind;
    const char *form; /* what a plugin may or may not claim; NULL: the group has only one form */
    bool again;       /* differs from the previous case only in what changes from run to run */
    union {
        struct matmul_case matmul;
        struct rows_case rows;
        struct rope_case rope;
        struct attention_case attention;
        struct route_case route;
        struct concat_case concat;
        struct conv_case conv;
        struct scan_case scan;
    } as;
};
typedef void case_visitor(void *user, const struct some_case *c);

struct case_group {
    const char *area, *name;
    void (*each)(const struct case_group *group, case_visitor *visit, void *user);
    uint32_t argument; /* for `each`: a type, an operation, … */
};
typedef void group_visitor(void *user, const struct case_group *group);

void each_case_group(group_visitor *visit, void *user);
void each_matmul_group(group_visitor *visit, void *user); /* only those that are matrix products */

float *run_some_case(struct fixture *fixture, const struct some_case *c);
size_t some_case_size(const struct some_case *c); /* how many floats run_some_case returns */

#endif
