/* check-large.c: every operation on shapes as large as those of real models, where the other files have
 * small and odd ones: long rows, many rows, more rows than 16 bits count, wide heads. Kernels choose other
 * paths there, and offsets grow. Each large dimension comes with small others, so that the reference stays
 * quick. */
#include <stdlib.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

static void some_case(struct suite *suite, const void *c)
{
    free(run_some_case(&suite->fixture, c));
}

static void try_some_case(void *suite, const struct some_case *c)
{
    suite_try(suite, some_case, c);
}

static void try_group(void *suite, const struct case_group *group)
{
    suite_begin(suite, group->area, "%s", group->name);
    group->each(group, try_some_case, suite);
    suite_end(suite);
}

/* ---- Matrices -------------------------------------------------------------------------------------- */

/* With k rounded up to whole blocks. */
static void try_matmuls(struct suite *suite, const char *area, const struct format *format,
                        const struct matmul_case *cases, size_t n)
{
    suite_begin(suite, area, "%s, large", format->name);
    for (size_t i = 0; i < n; i++) {
        struct some_case c = {CASE_MATMUL, NULL, false, {.matmul = cases[i]}};
        c.as.matmul.type = format->type;
        c.as.matmul.k = format_whole(format, cases[i].k);
        c.as.matmul.input_rounding = format_input_rounding(format->type);
        suite_try(suite, some_case, &c);
    }
    suite_end(suite);
}

static void matmul_large(struct suite *suite, const struct format *format)
{
    /* A k of 8 is 32 or 256 for types in blocks. */
    static const struct matmul_case cases[] = {
        {.k = 4352, .rows = 33, .tokens = 1},  {.k = 5120, .rows = 40, .tokens = 9},
        {.k = 53248, .rows = 5, .tokens = 2},  {.k = 64, .rows = 1100, .tokens = 1},
        {.k = 96, .rows = 2050, .tokens = 20}, {.k = 8, .rows = 33000, .tokens = 1},
        {.k = 8, .rows = 20, .tokens = 5000},
    };
    static const struct matmul_case gates[] = {
        {.k = 4608, .rows = 40, .tokens = 1, .gate = true, .activation = ENGINE_ACTIVATION_SILU},
        {.k = 64, .rows = 1100, .tokens = 5, .gate = true, .activation = ENGINE_ACTIVATION_SILU},
    };
    try_matmuls(suite, "matmul", format, cases, COUNT(cases));
    try_matmuls(suite, "fused matmul", format, gates, COUNT(gates));
}

static void experts_large(struct suite *suite, const struct format *format)
{
    static const struct matmul_case cases[] = {
        {.k = 4352, .rows = 33, .tokens = 5, .n_matrices = 3, .n_used = 2, .one_each = true},
        {.k = 256, .rows = 1100, .tokens = 3, .n_matrices = 2, .n_used = 1, .mix = true},
    };
    try_matmuls(suite, "experts", format, cases, COUNT(cases));
}

static void get_rows(struct suite *suite, const void *c)
{
    free(run_get_rows_case(&suite->fixture, c));
}

static void get_rows_large(struct suite *suite, const struct format *format)
{
    static const struct get_rows_case cases[] = {
        {.n = 8448, .n_rows = 40, .count = 33, .uses = ENGINE_WEIGHT_ROWS},
        {.n = 8, .n_rows = 70000, .count = 50, .uses = ENGINE_WEIGHT_ROWS},
        {.n = 8, .n_rows = 33000, .count = 50, .uses = ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL},
    };
    suite_begin(suite, "get rows", "%s, large", format->name);
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct get_rows_case c = cases[i];
        c.type = format->type;
        c.n = format_whole(format, c.n);
        suite_try(suite, get_rows, &c);
    }
    suite_end(suite);
}

static void hashed_matmul(struct suite *suite, const void *c)
{
    run_hashed_matmul_case(&suite->fixture, c);
}

/* ---- Attention ------------------------------------------------------------------------------------- */

static void cache_write(struct suite *suite, const void *c)
{
    run_cache_write_case(&suite->fixture, c);
}

static void attention_large(struct suite *suite, const struct format *format)
{
    /* Wide heads for one token, a few, and a prompt; many heads; a long text; a large block. */
    static const struct attention_case cases[] = {
        {.head_dim = 256,
         .n_heads = 4,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 2,
         .length = 90,
         .tokens = 1},
        {.head_dim = 256,
         .n_heads = 2,
         .n_kv_heads = 2,
         .block_size = 16,
         .n_sequences = 2,
         .length = 60,
         .tokens = 7},
        {.head_dim = 256,
         .n_heads = 2,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 130,
         .tokens = 130},
        {.head_dim = 512,
         .n_heads = 2,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 70,
         .tokens = 40},
        {.head_dim = 160,
         .n_heads = 3,
         .n_kv_heads = 3,
         .block_size = 16,
         .n_sequences = 1,
         .length = 50,
         .tokens = 20},
        {.head_dim = 64,
         .n_heads = 128,
         .n_kv_heads = 8,
         .block_size = 32,
         .n_sequences = 1,
         .length = 40,
         .tokens = 3},
        {.head_dim = 32,
         .n_heads = 2,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 5000,
         .tokens = 1},
        {.head_dim = 32,
         .n_heads = 1,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 4500,
         .tokens = 9},
        {.head_dim = 32,
         .n_heads = 2,
         .n_kv_heads = 2,
         .block_size = 32,
         .n_sequences = 40,
         .length = 10,
         .tokens = 1},
    };
    /* With float16, the usual type, all; otherwise wide heads, for each of which GPUs compile a kernel
     * anew. */
    const size_t n = format->type == ENGINE_TYPE_F16 ? COUNT(cases) : 3;
    suite_begin(suite, "cache write", "%s, large", format->name);
    for (size_t i = 0; i < n; i++) {
        struct attention_case c = cases[i];
        c.k_type = format->type;
        suite_try(suite, cache_write, &c);
    }
    suite_end(suite);
    suite_begin(suite, "attention", "%s, large", format->name);
    for (size_t i = 0; i < n; i++) {
        struct some_case c = {CASE_ATTENTION, NULL, false, {.attention = cases[i]}};
        c.as.attention.k_type = c.as.attention.v_type = format->type;
        suite_try(suite, some_case, &c);
    }
    suite_end(suite);
}

void check_large(struct suite *suite)
{
    static const uint32_t cache_types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};
    const struct format *format;
    const struct hashed_type *type;
    for (size_t i = 0; (format = format_at(i)); i++) {
        if (!format->is_weight) continue;
        matmul_large(suite, format);
        experts_large(suite, format);
        get_rows_large(suite, format);
    }
    for (size_t i = 0; (type = hashed_type_at(i)); i++) {
        const struct hashed_case cases[] = {{.type = type, .tokens = 2, .k = 8192},
                                            {.type = type, .tokens = 2, .k = 256}};
        suite_begin(suite, "random blocks", "matmul, %s, large", type->name);
        for (size_t j = 0; j < COUNT(cases); j++) suite_try(suite, hashed_matmul, &cases[j]);
        suite_end(suite);
    }
    each_large_group(try_group, suite);
    for (size_t i = 0; i < COUNT(cache_types); i++) attention_large(suite, format_of(cache_types[i]));
}
