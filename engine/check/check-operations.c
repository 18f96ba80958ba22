/* check-operations.c: checks every operation against the reference, over types, shapes, strides and odd
 * sizes. One row for each form that a backend may claim or not. */
#include <stdlib.h>

#include "check/cases.h"
#include "check/formats.h"
#include "check/suite.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Tries a case of a form. A backend must claim all cases of a form or none, because they differ only in
 * things that change from run to run. `first`: the result of the first of them, CHECK_FAILED before it. */
static void try_form(struct suite *suite, suite_body *body, const void *c, enum check_result *first)
{
    enum check_result result = suite_try(suite, body, c);
    if (result == CHECK_SKIPPED) return;
    if (*first == CHECK_FAILED) *first = result;
    if ((result == CHECK_UNCLAIMED) != (*first == CHECK_UNCLAIMED))
        suite_fail(suite,
                   "`supports` depends on what changes from run to run: of cases that differ only in tokens, "
                   "rows, sequences or blocks it claims some; case %u is %sclaimed",
                   suite->n_tries, result == CHECK_UNCLAIMED ? "not " : "");
}

/* ---- Matmul ---------------------------------------------------------------------------------------- */

static void matmul(struct suite *suite, const void *c)
{
    free(run_matmul_case(&suite->fixture, c));
}

static void matmul_sizes(struct suite *suite, const struct format *format)
{
    static const uint32_t rows[] = {1, 15, 16, 17, 31, 32, 33, 100},
                          tokens[] = {1, 2, 3, 4, 5, 7, 8, 9, 13, 15, 16, 17, 29, 33, 100, 290};
    static const uint32_t odd_k[] = {1, 7, 33, 64, 257, 600}, block_k[] = {32, 64, 96, 256, 288, 2080};
    bool plain = format->block_length == 1;
    suite_begin(suite, "matmul", "%s", format->name);
    for (size_t j = 0; j < COUNT(odd_k); j++) {
        enum check_result first = CHECK_FAILED;
        for (size_t i = 0; i < COUNT(tokens); i++) {
            struct matmul_case c = {.type = format->type,
                                    .k = plain ? odd_k[j] : format_whole(format, block_k[j]),
                                    .rows = rows[(i + j) % COUNT(rows)],
                                    .tokens = tokens[i],
                                    .gap = (i + j) % 3 == 1 ? 12 : 0,
                                    .input_rounding = format_input_rounding(format->type)};
            try_form(suite, matmul, &c, &first);
        }
    }
    suite_end(suite);
}

static void matmul_forms(struct suite *suite, const struct format *format)
{
    static const struct form {
        const char *name;
        bool always;
        struct matmul_case c;
    } forms[] = {
        {"bias", false, {.rows = 50, .bias = true, .gap = 12}},
        {"scale and activation", false, {.rows = 50, .scale = -0.5f, .activation = ENGINE_ACTIVATION_SILU}},
        {"residual", false, {.rows = 50, .residual = true, .gap = 4}},
        {"residual in place", false, {.rows = 33, .residual = true, .in_place = true}},
        {"all of these",
         true,
         {.rows = 50,
          .bias = true,
          .residual = true,
          .scale = 3,
          .activation = ENGINE_ACTIVATION_SILU,
          .gap = 4}},
        {"gate", false, {.rows = 50, .gate = true}},
        {"gate with activation", true, {.rows = 50, .gate = true, .activation = ENGINE_ACTIVATION_SILU}},
        {"gate and residual", false, {.rows = 50, .gate = true, .residual = true, .gap = 64}},
    };
    /* All forms with two types, otherwise the two forms with the most parts: each takes a GPU's compiler a
     * while. */
    bool all = format->type == ENGINE_TYPE_F32 || format->type == ENGINE_TYPE_Q8_0;
    suite_begin(suite, "fused matmul", "%s", format->name);
    for (size_t i = 0; i < COUNT(forms); i++) {
        if (!all && !forms[i].always) continue;
        enum check_result first = CHECK_FAILED;
        for (uint32_t tokens = 1; tokens < 40; tokens = tokens * 3 + 4) {
            struct matmul_case c = forms[i].c;
            c.type = format->type;
            c.k = format_whole(format, 96);
            c.tokens = tokens;
            c.input_rounding = format_input_rounding(format->type);
            try_form(suite, matmul, &c, &first);
        }
        if (first == CHECK_UNCLAIMED)
            suite_remark(suite, "%s%s", suite->row.message[0] ? ", " : "without ", forms[i].name);
    }
    suite_end(suite);
}

/* The gate has another type than the weight. */
static void matmul_mixed(struct suite *suite)
{
    static const uint32_t types[][2] = {{ENGINE_TYPE_Q4_0, ENGINE_TYPE_F16},
                                        {ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0},
                                        {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q4_0},
                                        {ENGINE_TYPE_Q6_K, ENGINE_TYPE_Q4_K}};
    suite_begin(suite, "fused matmul", "a gate of another type");
    for (size_t i = 0; i < COUNT(types); i++)
        for (uint32_t tokens = 1; tokens < 40; tokens += 29)
            suite_try(suite, matmul,
                      &(struct matmul_case){.type = types[i][0],
                                            .gate_type = types[i][1],
                                            .k = 256,
                                            .rows = 50,
                                            .tokens = tokens,
                                            .gate = true,
                                            .activation = ENGINE_ACTIVATION_SILU,
                                            .input_rounding = 0x1p-11});
    suite_end(suite);
}

void check_matmul(struct suite *suite)
{
    const struct format *format;
    for (size_t i = 0; (format = format_at(i)); i++) {
        if (!format->is_weight) continue;
        matmul_sizes(suite, format);
        matmul_forms(suite, format);
    }
    matmul_mixed(suite);
}

/* ---- Types checked by hashes ---- */

static void hashed_rows(struct suite *suite, const void *c)
{
    run_hashed_rows_case(&suite->fixture, c);
}

static void hashed_matmul(struct suite *suite, const void *c)
{
    run_hashed_matmul_case(&suite->fixture, c);
}

void check_hashed(struct suite *suite)
{
    const struct hashed_type *type;
    for (size_t i = 0; (type = hashed_type_at(i)); i++) {
        const struct hashed_case cases[] = {
            {.type = type, .uses = ENGINE_WEIGHT_ROWS, .tokens = 1},
            {.type = type, .uses = ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL, .tokens = 13}};
        const struct hashed_case experts[] = {{.type = type, .tokens = 1, .matrices = 8},
                                              {.type = type, .tokens = 50, .matrices = 8}};
        suite_begin(suite, "random blocks", "get rows, %s", type->name);
        for (size_t j = 0; j < COUNT(cases); j++) suite_try(suite, hashed_rows, &cases[j]);
        suite_end(suite);
        suite_begin(suite, "random blocks", "matmul, %s", type->name);
        for (size_t j = 0; j < COUNT(cases); j++) suite_try(suite, hashed_matmul, &cases[j]);
        suite_end(suite);
        suite_begin(suite, "random blocks", "experts, %s", type->name);
        for (size_t j = 0; j < COUNT(experts); j++) suite_try(suite, hashed_matmul, &experts[j]);
        suite_end(suite);
    }
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

static void get_rows(struct suite *suite, const void *c)
{
    free(run_get_rows_case(&suite->fixture, c));
}

void check_get_rows(struct suite *suite)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL};
    const struct format *format;
    for (size_t i = 0; (format = format_at(i)); i++) {
        if (!format->is_weight) continue;
        suite_begin(suite, "get rows", "%s", format->name);
        for (int variant = 0; variant < 4; variant++) {
            struct get_rows_case c = {.type = format->type,
                                      .n = format_whole(format, 544),
                                      .n_rows = 45,
                                      .count = 20,
                                      .uses = uses[variant & 1],
                                      .data_is_kept = variant & 2};
            enum check_result first = CHECK_FAILED;
            try_form(suite, get_rows, &c, &first);
            c.count = 45;
            try_form(suite, get_rows, &c, &first);
            c.n = format_whole(format, 7), c.count = 1;
            suite_try(suite, get_rows, &c);
        }
        suite_end(suite);
    }
    suite_begin(suite, "get rows", "an activation");
    for (uint32_t n = 1; n < 3000; n = n * 5 + 3) {
        enum check_result first = CHECK_FAILED;
        struct get_rows_case c = {
            .type = ENGINE_TYPE_F32, .n = n, .n_rows = 30, .count = 3, .gap = n % 7 * 4};
        try_form(suite, get_rows, &c, &first);
        c.n_rows = 7, c.count = 31;
        try_form(suite, get_rows, &c, &first);
    }
    suite_end(suite);
}

static void rows(struct suite *suite, const void *c)
{
    free(run_rows_case(&suite->fixture, c));
}

static void check_rows_of(struct suite *suite, uint32_t op, const char *area, const char *form, bool second,
                          bool is_weight, uint32_t activation)
{
    static const uint32_t sizes[] = {1, 5, 16, 31, 64, 257, 3000};
    /* Rows dense; gaps after rows; after planes, rows dense; after both. */
    static const struct fixture_gaps gaps[] = {{0}, {.row = 20}, {.plane = 12}, {.row = 4, .plane = 40}};
    static const float epsilons[] = {1e-5f, 1e-3f, 1e-6f, 0.5f};
    suite_begin(suite, area, "%s", form);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        enum check_result first = CHECK_FAILED;
        for (int variant = 0; variant < 4; variant++) {
            struct rows_case c = {
                .op = op,
                .n = sizes[i],
                .tokens = variant & 1 ? 11 : 1,
                .planes = variant & 2 ? 3 : 1,
                .second = second,
                .is_weight = is_weight,
                .in_place = variant & 2,
                .gaps = gaps[variant],
                .activation = activation,
                .epsilon = epsilons[((size_t)variant + i) % COUNT(epsilons)],
            };
            if (variant & 2) first = CHECK_FAILED; /* strides over three dimensions may need other code */
            try_form(suite, rows, &c, &first);
        }
    }
    suite_end(suite);
}

void check_rows(struct suite *suite)
{
    const uint32_t none = ENGINE_ACTIVATION_NONE, silu = ENGINE_ACTIVATION_SILU;
    check_rows_of(suite, ENGINE_OP_NORM, "norm", "rms", false, false, none);
    check_rows_of(suite, ENGINE_OP_NORM, "norm", "rms, weight", true, false, none);
    check_rows_of(suite, ENGINE_OP_ADD, "add", "of a's shape", false, false, none);
    check_rows_of(suite, ENGINE_OP_ADD, "add", "one row", true, false, none);
    check_rows_of(suite, ENGINE_OP_ADD, "add", "a weight", true, true, none);
    check_rows_of(suite, ENGINE_OP_MUL, "mul", "of a's shape", false, false, none);
    check_rows_of(suite, ENGINE_OP_MUL, "mul", "one row", true, false, none);
    check_rows_of(suite, ENGINE_OP_MUL, "mul", "a weight", true, true, none);
    check_rows_of(suite, ENGINE_OP_ACTIVATE, "activate", "none", false, false, none);
    check_rows_of(suite, ENGINE_OP_ACTIVATE, "activate", "none, factor", true, false, none);
    check_rows_of(suite, ENGINE_OP_ACTIVATE, "activate", "silu", false, false, silu);
    check_rows_of(suite, ENGINE_OP_ACTIVATE, "activate", "silu, factor", true, false, silu);
}

/* ---- Rope ------------------------------------------------------------------------------------------ */

static void rope(struct suite *suite, const void *c)
{
    free(run_rope_case(&suite->fixture, c));
}

void check_rope(struct suite *suite)
{
    static const struct rope_case cases[] = {
        /* head_dim, heads, tokens, n_dims, pairs, factors, in place, theta, position scale, most position,
         * gaps */
        {64, 3, 5, 64, 0, false, true, 10000, 0, 100, .gaps = {0, 16, 0}},
        {64, 3, 40, 64, 0, true, false, 500000, 0, 200000, .gaps = {8, 0, 0}},
        {8, 2, 33, 8, 0, false, false, 10000, 0.25f, 5000, .gaps = {0, 0, 0}},
        {80, 1, 70, 22, 0, false, true, 10000, 0, 1000000, .gaps = {4, 0, 0}},
        {80, 2, 1, 22, 0, true, false, 1e6f, 2, 1000, .gaps = {0, 0, 0}},
        {2, 1, 3, 2, 0, false, false, 10000, 0, 10, .gaps = {0, 0, 0}},
        {130, 5, 9, 130, 0, false, true, 10000, 0, 2047, .gaps = {0, 0, 0}},
        {130, 5, 9, 102, 0, false, false, 10000, 0, 2047, .gaps = {12, 8, 0}},
    };
    for (uint32_t pairs = ENGINE_ROPE_ADJACENT; pairs <= ENGINE_ROPE_HALVES; pairs++)
        for (int factors = 0; factors < 2; factors++) {
            suite_begin(suite, "rope", "%s%s", pairs == ENGINE_ROPE_ADJACENT ? "adjacent pairs" : "halves",
                        factors ? ", factors" : "");
            for (size_t i = 0; i < COUNT(cases); i++) {
                struct rope_case c = cases[i];
                enum check_result first = CHECK_FAILED;
                c.pairs = pairs;
                if (c.factors != (factors != 0)) continue;
                try_form(suite, rope, &c, &first);
                c.tokens += c.n_heads;
                try_form(suite, rope, &c, &first);
            }
            suite_end(suite);
        }
}

/* ---- Attention ------------------------------------------------------------------------------------- */

/* A case, and another as it may follow in the next run: fewer tokens, of more sequences. */
static void try_batches(struct suite *suite, suite_body *body, const struct attention_case *c)
{
    enum check_result first = CHECK_FAILED;
    struct attention_case other = *c;
    other.n_sequences++;
    other.length = c->length / 3 + 1;
    if (other.tokens > other.length) other.tokens = other.length;
    try_form(suite, body, c, &first);
    try_form(suite, body, &other, &first);
}

static void cache_write(struct suite *suite, const void *c)
{
    run_cache_write_case(&suite->fixture, c);
}

static const uint32_t cache_types[] = {ENGINE_TYPE_F32, ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0};

void check_cache_write(struct suite *suite)
{
    static const struct attention_case cases[] = {
        {.head_dim = 64, .n_kv_heads = 2, .block_size = 16, .n_sequences = 1, .length = 100},
        {.head_dim = 32,
         .n_kv_heads = 4,
         .block_size = 32,
         .n_sequences = 2,
         .length = 40,
         .leave_out = true},
        {.head_dim = 96,
         .n_kv_heads = 3,
         .block_size = 7,
         .n_sequences = 2,
         .length = 33,
         .gaps = {8, 12, 0}},
        {.head_dim = 128, .n_kv_heads = 1, .block_size = 64, .n_sequences = 1, .length = 1},
        {.head_dim = 9, .n_kv_heads = 3, .block_size = 5, .n_sequences = 3, .length = 21, .leave_out = true},
        {.head_dim = 1, .n_kv_heads = 1, .block_size = 1, .n_sequences = 1, .length = 1},
        {.head_dim = 64,
         .n_kv_heads = 3,
         .block_size = 6,
         .n_sequences = 2,
         .length = 20,
         .gaps = {0, 4, 0},
         .cache_gaps = {6, 0, 2},
         .leave_out = true},
        {.head_dim = 32,
         .n_kv_heads = 2,
         .block_size = 8,
         .n_sequences = 2,
         .length = 20,
         .cache_gaps = {0, 36, 0}},
    };
    for (size_t type = 0; type < COUNT(cache_types); type++) {
        const struct format *format = format_of(cache_types[type]);
        suite_begin(suite, "cache write", "%s", format->name);
        for (size_t i = 0; i < COUNT(cases); i++) {
            struct attention_case c = cases[i];
            c.k_type = format->type;
            if (c.head_dim % format->block_length == 0) try_batches(suite, cache_write, &c);
        }
        suite_end(suite);
    }
}

static void attention(struct suite *suite, const void *c)
{
    free(run_attention_case(&suite->fixture, c));
}

static const struct attention_case attention_cases[] = {
    {.head_dim = 64,
     .n_heads = 8,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 1,
     .length = 100,
     .tokens = 1},
    {.head_dim = 64,
     .n_heads = 8,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 1,
     .length = 100,
     .tokens = 100},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 4,
     .block_size = 32,
     .n_sequences = 2,
     .length = 40,
     .tokens = 3},
    {.head_dim = 96,
     .n_heads = 3,
     .n_kv_heads = 3,
     .block_size = 7,
     .n_sequences = 2,
     .length = 33,
     .tokens = 11,
     .gaps = {8, 0, 0},
     .table_gap = 8},
    {.head_dim = 9,
     .n_heads = 6,
     .n_kv_heads = 3,
     .block_size = 5,
     .n_sequences = 3,
     .length = 21,
     .tokens = 21},
    {.head_dim = 128,
     .n_heads = 71,
     .n_kv_heads = 1,
     .block_size = 64,
     .n_sequences = 1,
     .length = 70,
     .tokens = 4},
    {.head_dim = 1,
     .n_heads = 1,
     .n_kv_heads = 1,
     .block_size = 1,
     .n_sequences = 1,
     .length = 1,
     .tokens = 1},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 32,
     .n_sequences = 2,
     .length = 900,
     .tokens = 1},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 32,
     .n_sequences = 2,
     .length = 300,
     .tokens = 90,
     .leave_out = true},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 32,
     .n_sequences = 1,
     .length = 800,
     .tokens = 2,
     .window = 300},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 1,
     .block_size = 32,
     .n_sequences = 2,
     .length = 600,
     .tokens = 50,
     .window = 17},
    {.head_dim = 32,
     .n_heads = 2,
     .n_kv_heads = 2,
     .block_size = 8,
     .n_sequences = 3,
     .length = 30,
     .tokens = 2,
     .window = 1,
     .leave_out = true},
    {.head_dim = 16,
     .n_heads = 2,
     .n_kv_heads = 2,
     .block_size = 256,
     .n_sequences = 1,
     .length = 513,
     .tokens = 513,
     .window = 256},
    /* Other scales, and scores whose exponentials overflow or underflow float32: all larger, all smaller. */
    {.head_dim = 64,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 2,
     .length = 300,
     .tokens = 1,
     .size = 200},
    {.head_dim = 32,
     .n_heads = 3,
     .n_kv_heads = 3,
     .block_size = 16,
     .n_sequences = 1,
     .length = 70,
     .tokens = 70,
     .gaps = {0, 20, 0},
     .scale = 0.5f,
     .size = 2000},
    {.head_dim = 96,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 8,
     .n_sequences = 2,
     .length = 90,
     .tokens = 12,
     .window = 40,
     .scale = 1,
     .size = 120,
     .leave_out = true},
    {.head_dim = 64,
     .n_heads = 2,
     .n_kv_heads = 2,
     .block_size = 32,
     .n_sequences = 2,
     .length = 50,
     .tokens = 20,
     .scale = 0.03f},
    /* Caches with gaps after rows, planes and blocks. */
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 2,
     .block_size = 8,
     .n_sequences = 2,
     .length = 50,
     .tokens = 3,
     .gaps = {4, 12, 0},
     .cache_gaps = {0, 36, 0},
     .table_gap = 4},
    {.head_dim = 64,
     .n_heads = 3,
     .n_kv_heads = 3,
     .block_size = 6,
     .n_sequences = 1,
     .length = 40,
     .tokens = 40,
     .cache_gaps = {6, 0, 2}},
};

void check_attention(struct suite *suite)
{
    for (size_t k = 0; k < COUNT(cache_types); k++)
        for (size_t v = 0; v < COUNT(cache_types); v++)
            for (int window = 0; window < 2; window++) {
                const struct format *of_k = format_of(cache_types[k]), *of_v = format_of(cache_types[v]);
                suite_begin(suite, "attention", "keys %s, values %s%s", of_k->name, of_v->name,
                            window ? ", window" : "");
                for (size_t i = 0; i < COUNT(attention_cases); i++) {
                    struct attention_case c = attention_cases[i];
                    c.k_type = of_k->type, c.v_type = of_v->type;
                    bool whole = c.head_dim % of_k->block_length == 0 && c.head_dim % of_v->block_length == 0;
                    if (whole && (c.window > 0) == (window > 0)) try_batches(suite, attention, &c);
                }
                suite_end(suite);
            }
}

/* ---- Since 1.1 ------------------------------------------------------------------------------------- */

struct progress {
    struct suite *suite;
    enum check_result first; /* result of the first of the similar cases */
    const char *form;
};

static void some_case(struct suite *suite, const void *c)
{
    free(run_some_case(&suite->fixture, c));
}

static void try_some_case(void *user, const struct some_case *c)
{
    struct progress *progress = user;
    if (!c->again) progress->first = CHECK_FAILED;
    try_form(progress->suite, some_case, c, &progress->first);
    if (!c->form || c->form == progress->form || progress->first != CHECK_UNCLAIMED) return;
    suite_remark(progress->suite, "%s%s", progress->suite->row.message[0] ? ", " : "without ", c->form);
    progress->form = c->form;
}

static void try_group(void *user, const struct case_group *group)
{
    struct progress progress = {user, CHECK_FAILED, NULL};
    suite_begin(user, group->area, "%s", group->name);
    group->each(group, try_some_case, &progress);
    suite_end(user);
}

void check_later_operations(struct suite *suite)
{
    each_case_group(try_group, suite);
}
