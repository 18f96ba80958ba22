/* case-groups.c: see case-groups.h. Rows, rope, attention, the router; the products are in
 * case-groups-matmul.c. */
#include "check/case-groups.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

float *run_some_case(struct fixture *fixture, const struct some_case *c)
{
    switch (c->kind) {
    case CASE_MATMUL: return run_matmul_case(fixture, &c->as.matmul);
    case CASE_ROWS: return run_rows_case(fixture, &c->as.rows);
    case CASE_ROPE: return run_rope_case(fixture, &c->as.rope);
    case CASE_ATTENTION: return run_attention_case(fixture, &c->as.attention);
    case CASE_ROUTE: return run_route_case(fixture, &c->as.route);
    case CASE_CONCAT: return run_concat_case(fixture, &c->as.concat);
    case CASE_CONV: return run_conv_case(fixture, &c->as.conv);
    case CASE_SCAN: return run_scan_case(fixture, &c->as.scan);
    }
    fixture_fail(fixture, "the suite itself is at fault: it has no case of kind %d", (int)c->kind);
}

size_t some_case_size(const struct some_case *c)
{
    const struct matmul_case *matmul = &c->as.matmul;
    const struct attention_case *attention = &c->as.attention;
    const struct concat_case *concat = &c->as.concat;
    const struct conv_case *conv = &c->as.conv;
    const struct scan_case *scan = &c->as.scan;
    size_t columns = matmul->mix ? 1 : matmul->n_used ? matmul->n_used : matmul->n_matrices;
    switch (c->kind) {
    case CASE_MATMUL: return (size_t)matmul->rows * matmul->tokens * (columns ? columns : 1);
    case CASE_ROWS: return (size_t)c->as.rows.n * c->as.rows.tokens * c->as.rows.planes;
    case CASE_ROPE: return (size_t)c->as.rope.head_dim * c->as.rope.n_heads * c->as.rope.tokens;
    case CASE_ATTENTION:
        return (size_t)(attention->value_dim ? attention->value_dim : attention->head_dim) *
               attention->n_heads * attention->tokens * attention->n_sequences;
    case CASE_ROUTE: return (size_t)c->as.route.n_used * c->as.route.tokens;
    case CASE_CONCAT: return (size_t)(concat->n_a + concat->n_b) * concat->n_heads * concat->tokens;
    case CASE_CONV: return (size_t)conv->n * ((size_t)conv->n_runs * conv->run + conv->n_without);
    case CASE_SCAN:
        return (size_t)scan->value_dim * scan->n_heads * ((size_t)scan->n_runs * scan->run + scan->n_without);
    }
    return 0;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

/* A case in several sizes: rows dense; gaps after rows; after planes, rows dense; after both. */
static void each_size(const char *form, const struct rows_case *base, case_visitor *visit, void *user)
{
    static const uint32_t sizes[] = {1, 5, 31, 64, 257, 3000};
    static const struct fixture_gaps gaps[] = {{0}, {.row = 20}, {.plane = 12}, {.row = 4, .plane = 40}};
    static const float epsilons[] = {1e-5f, 1e-3f, 1e-6f, 0.5f};
    for (size_t i = 0; i < COUNT(sizes); i++)
        for (uint32_t variant = 0; variant < 4; variant++) {
            /* Strides over three dimensions may need other code than over two. */
            struct some_case c = {CASE_ROWS, form, variant % 2 == 1, {.rows = *base}};
            struct rows_case *rows = &c.as.rows;
            rows->n = sizes[i];
            rows->tokens = variant & 1 ? 11 : 1;
            rows->planes = variant & 2 ? 3 : 1;
            rows->in_place = variant & 2;
            rows->gaps = gaps[variant];
            if (rows->op == ENGINE_OP_NORM) rows->epsilon = epsilons[(variant + i) % COUNT(epsilons)];
            visit(user, &c);
        }
}

static void each_norm(const struct case_group *group, case_visitor *visit, void *user)
{
    struct rows_case c = {.op = ENGINE_OP_NORM, .kind = group->argument};
    if (c.kind != ENGINE_NORM_RMS) {
        each_size("neither weight nor bias", &c, visit, user);
        c.second = true;
        each_size("weight", &c, visit, user);
    }
    c.bias = true, c.second = true;
    each_size("weight and bias", &c, visit, user);
    c.second = false;
    each_size("bias", &c, visit, user);
}

static void each_single(const struct case_group *group, case_visitor *visit, void *user)
{
    each_size(NULL, &(struct rows_case){.op = group->argument, .single = true}, visit, user);
}

static void each_activation(const struct case_group *group, case_visitor *visit, void *user)
{
    static const float limits[] = {7, 0.25f, 50}, alphas[] = {1.702f, 1, -0.5f};
    const uint32_t activation = group->argument;
    const bool gated = activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED,
               limited =
                   gated || activation == ENGINE_ACTIVATION_CLAMP || activation == ENGINE_ACTIVATION_SOFTCAP;
    for (size_t i = 0; i < (limited ? COUNT(limits) : 1); i++) {
        struct rows_case c = {.op = ENGINE_OP_ACTIVATE,
                              .activation = activation,
                              .limit = limited ? limits[i] : 0,
                              .alpha = gated ? alphas[i] : 0};
        if (!gated) each_size("no factor", &c, visit, user);
        c.second = true;
        each_size("factor", &c, visit, user);
    }
}

/* ---- Rope ------------------------------------------------------------------------------------------ */

static void each_magnitude(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct rope_case cases[] = {
        /* head_dim, heads, tokens, n_dims, pairs, factors, in place, theta, position scale, most position,
         * … */
        {64, 3, 5, 64, 0, false, true, 10000, 0, 100, .gaps = {0, 16, 0}, .magnitude = 1.2f},
        {64, 3, 40, 64, 0, true, false, 500000, 0, 200000, .gaps = {8, 0, 0}, .magnitude = 0.7f},
        {80, 1, 70, 22, 0, false, true, 10000, 0, 1000000, .gaps = {4, 0, 0}, .magnitude = 1.5f},
        {80, 2, 1, 22, 0, true, false, 1e6f, 0.25f, 1000, .magnitude = 1.0625f},
        {130, 5, 9, 102, 0, false, false, 10000, 0, 2047, .gaps = {12, 8, 0}, .magnitude = 40},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct some_case c = {
            CASE_ROPE, cases[i].factors ? "factors" : "no factors", false, {.rope = cases[i]}};
        c.as.rope.pairs = group->argument;
        visit(user, &c);
        c.as.rope.tokens += c.as.rope.n_heads;
        c.again = true;
        visit(user, &c);
    }
}

/* ---- Attention ------------------------------------------------------------------------------------- */

/* In caches of several types, each also with a batch of fewer tokens and more sequences. */
static void each_cache(const char *form, const struct attention_case *base, case_visitor *visit, void *user)
{
    static const uint32_t types[][2] = {{ENGINE_TYPE_F32, ENGINE_TYPE_F32},
                                        {ENGINE_TYPE_F16, ENGINE_TYPE_F16},
                                        {ENGINE_TYPE_Q8_0, ENGINE_TYPE_Q8_0},
                                        {ENGINE_TYPE_F16, ENGINE_TYPE_Q8_0}};
    for (size_t i = 0; i < COUNT(types); i++) {
        struct some_case c = {CASE_ATTENTION, form, false, {.attention = *base}};
        struct attention_case *attention = &c.as.attention;
        const bool whole = attention->head_dim % 32 == 0 && attention->value_dim % 32 == 0;
        attention->k_type = types[i][0], attention->v_type = types[i][1];
        if (types[i][1] == ENGINE_TYPE_Q8_0 && !whole) continue;
        if (attention->shared && types[i][0] != types[i][1]) continue;
        visit(user, &c);
        attention->n_sequences++;
        attention->length = base->length / 3 + 1;
        if (attention->tokens > attention->length) attention->tokens = attention->length;
        c.again = true;
        visit(user, &c);
    }
}

/* Shapes that every option is tried with: one token at a late position, a prompt, parts of two sequences with
 * gaps, a long batch. */
static const struct attention_case shapes[] = {
    {.head_dim = 64,
     .n_heads = 8,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 1,
     .length = 300,
     .tokens = 1},
    {.head_dim = 80,
     .n_heads = 6,
     .n_kv_heads = 2,
     .block_size = 64,
     .n_sequences = 1,
     .length = 70,
     .tokens = 70},
    {.head_dim = 96,
     .n_heads = 7,
     .n_kv_heads = 7,
     .block_size = 7,
     .n_sequences = 2,
     .length = 33,
     .tokens = 11,
     .gaps = {8, 4, 0},
     .cache_gaps = {0, 12, 4},
     .table_gap = 8},
    {.head_dim = 32,
     .n_heads = 4,
     .n_kv_heads = 1,
     .block_size = 32,
     .n_sequences = 2,
     .length = 250,
     .tokens = 40,
     .leave_out = true},
    {.head_dim = 64,
     .n_heads = 12,
     .n_kv_heads = 2,
     .block_size = 16,
     .n_sequences = 2,
     .length = 90,
     .tokens = 3,
     .size = 200},
};

enum attention_option {
    SLOPES,
    SINKS,
    SOFTCAP,
    CHUNK,
    TOGETHER,
    WEIGHTS,
    WEIGHTS_TOGETHER,
    AHEAD,
    AHEAD_TOGETHER,
    WEIGHTS_AHEAD,
    DISTANCES,
    DISTANCES_AHEAD,
    DISTANCES_TOGETHER,
    DISTANCES_WEIGHTS
};

static void each_attention(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t windows[] = {0, 30, 0, 17, 40}, chunks[] = {64, 16, 7, 100, 1},
                          distances[] = {128, 1, 20, 40, 7};
    for (size_t i = 0; i < COUNT(shapes); i++) {
        struct attention_case c = shapes[i];
        const float softcap = c.size != 0 ? 50 : 1.5f;
        if (group->argument != CHUNK) c.window = windows[i];
        switch ((enum attention_option)group->argument) {
        case SLOPES: c.slopes = true; break;
        case SINKS: c.sinks = true; break;
        case SOFTCAP: c.softcap = softcap; break;
        case CHUNK: c.chunk = chunks[i]; break;
        case WEIGHTS: c.weights = true; break;
        case AHEAD: c.ahead = true; break;
        case WEIGHTS_AHEAD: c.weights = c.ahead = c.slopes = true; break;
        case DISTANCES_WEIGHTS: c.weights = true, c.distances = distances[i]; break;
        case DISTANCES: c.distances = distances[i]; break;
        case DISTANCES_AHEAD: c.ahead = true, c.distances = distances[i]; break;
        case DISTANCES_TOGETHER: c.distances = distances[i], c.ahead = true;    /* fall through */
        case AHEAD_TOGETHER: c.ahead = true;                                    /* fall through */
        case WEIGHTS_TOGETHER: c.weights = group->argument == WEIGHTS_TOGETHER; /* fall through */
        case TOGETHER:
            c.slopes = c.distances == 0;
            c.sinks = true, c.softcap = softcap;
            if (c.window == 0) c.chunk = chunks[i];
            break;
        }
        each_cache(c.window ? "window" : "no window", &c, visit, user);
    }
}

enum value_size { OWN_SIZE, WITHIN, WITHIN_WEIGHTS };

/* Values shorter and longer than keys, and inside them as in latent attention. */
static void each_value_size(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct attention_case cases[] = {
        {.head_dim = 192,
         .n_heads = 4,
         .n_kv_heads = 4,
         .block_size = 16,
         .n_sequences = 1,
         .length = 60,
         .tokens = 13,
         .value_dim = 128},
        {.head_dim = 32,
         .n_heads = 6,
         .n_kv_heads = 2,
         .block_size = 32,
         .n_sequences = 2,
         .length = 200,
         .tokens = 1,
         .value_dim = 96,
         .gaps = {4, 12, 0},
         .cache_gaps = {0, 36, 0}},
        {.head_dim = 10,
         .n_heads = 4,
         .n_kv_heads = 2,
         .block_size = 5,
         .n_sequences = 2,
         .length = 21,
         .tokens = 21,
         .value_dim = 6,
         .leave_out = true},
        {.head_dim = 576,
         .n_heads = 16,
         .n_kv_heads = 1,
         .block_size = 32,
         .n_sequences = 1,
         .length = 150,
         .tokens = 1,
         .value_dim = 512,
         .shared = true},
        {.head_dim = 96,
         .n_heads = 5,
         .n_kv_heads = 1,
         .block_size = 8,
         .n_sequences = 2,
         .length = 40,
         .tokens = 40,
         .value_dim = 64,
         .shared = true,
         .cache_gaps = {0, 8, 8}},
        {.head_dim = 20,
         .n_heads = 6,
         .n_kv_heads = 3,
         .block_size = 16,
         .n_sequences = 2,
         .length = 50,
         .tokens = 9,
         .value_dim = 13,
         .shared = true,
         .window = 20},
        {.head_dim = 64,
         .n_heads = 6,
         .n_kv_heads = 2,
         .block_size = 16,
         .n_sequences = 2,
         .length = 70,
         .tokens = 30,
         .shared = true},
        {.head_dim = 64,
         .n_heads = 4,
         .n_kv_heads = 2,
         .block_size = 16,
         .n_sequences = 2,
         .length = 100,
         .tokens = 20,
         .value_dim = 32,
         .slopes = true,
         .sinks = true,
         .softcap = 2,
         .chunk = 48},
        {.head_dim = 96,
         .n_heads = 4,
         .n_kv_heads = 1,
         .block_size = 16,
         .n_sequences = 2,
         .length = 100,
         .tokens = 20,
         .value_dim = 64,
         .shared = true,
         .slopes = true,
         .sinks = true,
         .softcap = 2,
         .window = 33},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        struct attention_case c = cases[i];
        c.weights = group->argument == WITHIN_WEIGHTS;
        if (c.shared == (group->argument != OWN_SIZE)) each_cache(NULL, &c, visit, user);
    }
}

/* ---- Router ---------------------------------------------------------------------------------------- */

static void each_route(const struct case_group *group, case_visitor *visit, void *user)
{
    static const uint32_t top2 = ENGINE_ROUTE_GROUP_TOP2;
    static const struct route_case cases[] = {
        {.n_experts = 8, .n_used = 2},
        {.n_experts = 32, .n_used = 4, .normalise = true, .gap = 12},
        {.n_experts = 64, .n_used = 6, .scale = 2.5f, .ties = true},
        {.n_experts = 1, .n_used = 1, .normalise = true},
        {.n_experts = 7, .n_used = 7, .bias = true, .gap = 4},
        {.n_experts = 60, .n_used = 4, .bias = true, .normalise = true, .floor = 1e-20f, .size = 30},
        {.n_experts = 16, .n_used = 3, .normalise = true, .floor = 4, .scale = 0.5f, .size = 0.1f},
        {.n_experts = 128, .n_used = 8, .normalise = true, .size = 500, .ties = true, .gap = 8},
        {.n_experts = 512, .n_used = 10, .bias = true, .normalise = true},
        {.n_experts = 257, .n_used = 33, .ties = true},
        {.n_experts = 64, .n_used = 8, .n_groups = 8, .n_groups_used = 3, .normalise = true},
        {.n_experts = 64,
         .n_used = 6,
         .n_groups = 8,
         .n_groups_used = 4,
         .group_score = top2,
         .bias = true,
         .normalise = true,
         .floor = 1e-20f,
         .scale = 2.5f,
         .gap = 4},
        {.n_experts = 256, .n_used = 8, .n_groups = 8, .n_groups_used = 4, .group_score = top2, .bias = true},
        {.n_experts = 20, .n_used = 4, .n_groups = 10, .n_groups_used = 2, .group_score = top2, .ties = true},
        {.n_experts = 12,
         .n_used = 3,
         .n_groups = 4,
         .n_groups_used = 1,
         .bias = true,
         .ties = true,
         .size = 3},
        {.n_experts = 6, .n_used = 2, .n_groups = 6, .n_groups_used = 2},
        {.n_experts = 16, .n_used = 5, .n_groups = 1, .n_groups_used = 1},
        {.n_experts = 16, .n_used = 5, .n_groups = 4, .n_groups_used = 4, .group_score = top2},
    };
    static const uint32_t tokens[] = {1, 5, 70};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {
                CASE_ROUTE, cases[i].n_groups > 1 ? "groups" : "no groups", j > 0, {.route = cases[i]}};
            c.as.route.function = group->argument;
            c.as.route.tokens = tokens[j];
            visit(user, &c);
        }
}

/* ---- Concat ---------------------------------------------------------------------------------------- */

static void each_concat(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct concat_case cases[] = {
        {.n_a = 128, .n_b = 64, .n_heads = 4},
        {.n_a = 1, .n_b = 3, .n_heads = 5, .gaps = {4, 0, 0}},
        {.n_a = 33, .n_b = 1, .n_heads = 1, .gaps = {0, 12, 0}},
        {.n_a = 512, .n_b = 64, .n_heads = 16, .gaps = {8, 20, 0}},
        {.n_a = 7, .n_b = 300, .n_heads = 3},
    };
    static const uint32_t tokens[] = {1, 6, 37};
    for (size_t i = 0; i < COUNT(cases); i++)
        for (size_t j = 0; j < COUNT(tokens); j++) {
            struct some_case c = {CASE_CONCAT, NULL, j > 0, {.concat = cases[i]}};
            c.as.concat.one_each = group->argument != 0;
            c.as.concat.tokens = tokens[j];
            visit(user, &c);
        }
}

/* ---- States ----------------------------------------------------------------------------------------- */

static void each_conv(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct conv_case cases[] = {
        {.n = 1, .taps = 2, .n_runs = 1, .run = 1},
        {.n = 64, .taps = 4, .n_runs = 3, .run = 1, .n_without = 2},
        {.n = 300, .taps = 4, .n_runs = 2, .run = 2, .gaps = {12, 0, 0}},
        {.n = 37, .taps = 2, .n_runs = 4, .run = 5},
        {.n = 257, .taps = 16, .n_runs = 2, .run = 9, .n_without = 1},
        {.n = 520, .taps = 3, .n_runs = 1, .run = 70},
    };
    (void)group;
    for (size_t i = 0; i < COUNT(cases); i++)
        visit(user, &(struct some_case){CASE_CONV, NULL, false, {.conv = cases[i]}});
}

static void each_scan(const struct case_group *group, case_visitor *visit, void *user)
{
    static const struct scan_case sizes[] = {
        {.key_dim = 1, .value_dim = 1, .n_heads = 1, .n_groups = 1, .n_runs = 1, .run = 1},
        {.key_dim = 16, .value_dim = 40, .n_heads = 2, .n_groups = 1, .n_runs = 3, .run = 1, .n_without = 2},
        {.key_dim = 64,
         .value_dim = 64,
         .n_heads = 3,
         .n_groups = 3,
         .n_runs = 2,
         .run = 35,
         .gaps = {4, 8, 0}},
        {.key_dim = 128,
         .value_dim = 16,
         .n_heads = 4,
         .n_groups = 2,
         .n_runs = 1,
         .run = 70,
         .n_without = 1},
        {.key_dim = 5, .value_dim = 300, .n_heads = 1, .n_groups = 1, .n_runs = 4, .run = 3},
        {.key_dim = 256, .value_dim = 3, .n_heads = 6, .n_groups = 2, .n_runs = 2, .run = 2, .scale = 0.25f},
    };
    for (size_t i = 0; i < COUNT(sizes); i++) {
        struct some_case c = {CASE_SCAN, NULL, false, {.scan = sizes[i]}};
        c.as.scan.decay = group->argument & 3;
        c.as.scan.delta = group->argument & 4;
        c.as.scan.bonus = group->argument & 8;
        c.as.scan.erase = group->argument & 16;
        visit(user, &c);
    }
}

/* ---- All ------------------------------------------------------------------------------------------- */

static const struct case_group groups[] = {
    {"norm", "rms, bias", each_norm, ENGINE_NORM_RMS},
    {"norm", "layer", each_norm, ENGINE_NORM_LAYER},
    {"add", "one number a row", each_single, ENGINE_OP_ADD},
    {"mul", "one number a row", each_single, ENGINE_OP_MUL},
    {"activate", "gelu (erf)", each_activation, ENGINE_ACTIVATION_GELU_ERF},
    {"activate", "gelu (tanh)", each_activation, ENGINE_ACTIVATION_GELU_TANH},
    {"activate", "relu", each_activation, ENGINE_ACTIVATION_RELU},
    {"activate", "relu squared", each_activation, ENGINE_ACTIVATION_RELU_SQUARED},
    {"activate", "sigmoid", each_activation, ENGINE_ACTIVATION_SIGMOID},
    {"activate", "tanh", each_activation, ENGINE_ACTIVATION_TANH},
    {"activate", "softplus", each_activation, ENGINE_ACTIVATION_SOFTPLUS},
    {"activate", "clamp", each_activation, ENGINE_ACTIVATION_CLAMP},
    {"activate", "soft cap", each_activation, ENGINE_ACTIVATION_SOFTCAP},
    {"activate", "swiglu, clamped", each_activation, ENGINE_ACTIVATION_SWIGLU_CLAMPED},
    {"activate", "exp", each_activation, ENGINE_ACTIVATION_EXP},
    {"rope", "magnitude, adjacent pairs", each_magnitude, ENGINE_ROPE_ADJACENT},
    {"rope", "magnitude, halves", each_magnitude, ENGINE_ROPE_HALVES},
    {"attention", "slopes", each_attention, SLOPES},
    {"attention", "sinks", each_attention, SINKS},
    {"attention", "soft cap", each_attention, SOFTCAP},
    {"attention", "chunks", each_attention, CHUNK},
    {"attention", "all of these", each_attention, TOGETHER},
    {"attention", "values of another size", each_value_size, OWN_SIZE},
    {"attention", "values within keys", each_value_size, WITHIN},
    {"attention ahead", "windows", each_attention, AHEAD},
    {"attention ahead", "slopes, sinks, soft cap, chunks", each_attention, AHEAD_TOGETHER},
    {"attention distances", "windows", each_attention, DISTANCES},
    {"attention distances", "seeing ahead", each_attention, DISTANCES_AHEAD},
    {"attention distances", "sinks, soft cap, chunks", each_attention, DISTANCES_TOGETHER},
    {"attention weights", "windows", each_attention, WEIGHTS},
    {"attention weights", "seeing ahead", each_attention, WEIGHTS_AHEAD},
    {"attention weights", "biases by distance", each_attention, DISTANCES_WEIGHTS},
    {"attention weights", "slopes, sinks, soft cap, chunks", each_attention, WEIGHTS_TOGETHER},
    {"attention weights", "values within keys", each_value_size, WITHIN_WEIGHTS},
    {"route", "softmax", each_route, ENGINE_ROUTE_SOFTMAX},
    {"route", "sigmoid", each_route, ENGINE_ROUTE_SIGMOID},
    {"concat", "heads", each_concat, false},
    {"concat", "one row for all heads", each_concat, true},
    {"conv", "states", each_conv, 0},
    {"scan", "no decay", each_scan, SCAN_NO_DECAY},
    {"scan", "decay of heads", each_scan, SCAN_DECAY_HEAD},
    {"scan", "decay of keys", each_scan, SCAN_DECAY_KEYS},
    {"scan", "rates", each_scan, SCAN_RATES},
    {"scan", "decay of keys, bonus", each_scan, SCAN_DECAY_KEYS | 8},
    {"scan", "decay of keys, delta rule", each_scan, SCAN_DECAY_KEYS | 4},
    {"scan", "decay of heads, delta rule, erase", each_scan, SCAN_DECAY_HEAD | 4 | 16},
};

void each_case_group(group_visitor *visit, void *user)
{
    for (size_t i = 0; i < COUNT(groups); i++) visit(user, &groups[i]);
    each_matmul_group(visit, user);
}
