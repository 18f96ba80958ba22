/* case-hashed.c: types whose blocks use tables too large to be written down twice. Random blocks, the same
 * everywhere, must give the values that gguf-py reads from them (tests/tools/dequantised-hashes printed the
 * hashes). Products are compared with the values that plugin-types.h reads (a test compares those with the
 * hashes), so that a plugin that claims products alone is checked too. */
#include <math.h>
#include <stdlib.h>

#include "check/cases.h"
#include "check/formats.h"
#include "plugin-types.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))

enum { ROW = 1024, ROWS = 256, N_VALUES = ROW * ROWS };

static const struct hashed_type types[] = {
    /* clang-format off */
    {ENGINE_TYPE_Q4_0, "Q4_0", 32, 18, {1, -1}, 0xd3cda18db2d16f53},
    {ENGINE_TYPE_Q4_1, "Q4_1", 32, 20, {1, 3}, 0x59fbc970cced146e},
    {ENGINE_TYPE_Q5_0, "Q5_0", 32, 22, {1, -1}, 0xee4cdfa75da349c1},
    {ENGINE_TYPE_Q5_1, "Q5_1", 32, 24, {1, 3}, 0x5976aad9f8bb7ed7},
    {ENGINE_TYPE_Q8_0, "Q8_0", 32, 34, {1, -1}, 0xa4a18eb6f58e2d38},
    {ENGINE_TYPE_Q2_K, "Q2_K", 256, 84, {81, 83}, 0x298ed3095c4e7a7f},
    {ENGINE_TYPE_Q3_K, "Q3_K", 256, 110, {109, -1}, 0x80783a6c3f90760e},
    {ENGINE_TYPE_Q4_K, "Q4_K", 256, 144, {1, 3}, 0x2cf198e8997829c5},
    {ENGINE_TYPE_Q5_K, "Q5_K", 256, 176, {1, 3}, 0x2efd2b298ab5a2ac},
    {ENGINE_TYPE_Q6_K, "Q6_K", 256, 210, {209, -1}, 0x93ede4a2eebc4321},
    {ENGINE_TYPE_Q8_K, "Q8_K", 256, 292, {3, -1}, 0x331be15b47d8170e},
    {ENGINE_TYPE_IQ4_NL, "IQ4_NL", 32, 18, {1, -1}, 0x139c412bdb1c012e},
    {ENGINE_TYPE_IQ4_XS, "IQ4_XS", 256, 136, {1, -1}, 0xd24e20b26b981bf2},
    {ENGINE_TYPE_IQ2_XXS, "IQ2_XXS", 256, 66, {1, -1}, 0xb2304f28f9437687},
    {ENGINE_TYPE_IQ2_XS, "IQ2_XS", 256, 74, {1, -1}, 0x6ec77ff8a3d29ef6},
    {ENGINE_TYPE_IQ2_S, "IQ2_S", 256, 82, {1, -1}, 0x2b1973dd9b0d0615},
    {ENGINE_TYPE_IQ3_XXS, "IQ3_XXS", 256, 98, {1, -1}, 0x043df7f5e32d7cba},
    {ENGINE_TYPE_IQ3_S, "IQ3_S", 256, 110, {1, -1}, 0x07f7f81b5fd8db52},
    {ENGINE_TYPE_IQ1_S, "IQ1_S", 256, 50, {1, -1}, 0xfc0957fba5f556cb},
    {ENGINE_TYPE_IQ1_M, "IQ1_M", 256, 56, {55, -1}, 0x907ddc689e117fc1},
    {ENGINE_TYPE_TQ1_0, "TQ1_0", 256, 54, {53, -1}, 0x369d2104a0c4abff},
    {ENGINE_TYPE_TQ2_0, "TQ2_0", 256, 66, {65, -1}, 0x18b557c533e2395f},
    {ENGINE_TYPE_MXFP4, "MXFP4", 32, 17, {-1, -1}, 0x85fa1e56ad7dc5f6},
    /* clang-format on */
};

const struct hashed_type *hashed_type_at(size_t index)
{
    return index < COUNT(types) ? &types[index] : NULL;
}

static uint8_t *random_blocks(struct fixture *fixture, const struct hashed_type *type, size_t n_values)
{
    size_t n = n_values / type->length * type->size;
    uint8_t *blocks = fixture_room(fixture, n, 1);
    uint64_t seed = type->type;
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(seed >> 56);
        for (size_t j = 0; j < COUNT(type->scales); j++)
            if ((int)(i % type->size) == type->scales[j]) blocks[i] &= 0xbf; /* neither infinite nor NaN */
    }
    return blocks;
}

static uint64_t fnv1a(const void *data, size_t size)
{
    uint64_t hash = 0xcbf29ce484222325;
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return hash;
}

/* The blocks as a weight [k, rows, n_matrices], and a tensor of it. Unclaimed if the backend doesn't take it
 * for these uses. */
static struct engine_weight *make_weight(struct fixture *fixture, const struct hashed_type *type,
                                         uint32_t uses, uint32_t k, uint32_t rows, uint32_t n_matrices,
                                         const uint8_t *blocks, struct engine_tensor *tensor)
{
    const uint64_t row = k / type->length * type->size;
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "check.weight",
                                      .type = type->type,
                                      .type_name = type->name,
                                      .ne = {k, rows, n_matrices, 1},
                                      .uses = uses,
                                      .data_is_kept = 1,
                                      .data_size = row * rows * n_matrices};
    struct engine_weight *weight = NULL;
    uint64_t bytes;
    if (fixture->api->weight_size(fixture->device, &desc, &bytes) == ENGINE_ERROR_UNSUPPORTED)
        fixture->stop(fixture, FIXTURE_UNCLAIMED, "weight_size");
    desc.data = blocks;
    fixture_must(fixture, fixture->api->weight_create(fixture->device, &desc, &weight), "weight_create");
    *tensor = (struct engine_tensor){
        .struct_size = sizeof *tensor,
        .type = type->type,
        .ne = {k, rows, n_matrices, 1},
        .nb = {type->size, row, row * rows, desc.data_size},
        .weight = weight,
    };
    return weight;
}

/* All rows of a weight through ENGINE_OP_GET_ROWS, [ROWS][ROW]; owned by the fixture. */
static float *read_rows(struct fixture *fixture, const struct hashed_type *type, uint32_t uses,
                        const uint8_t *blocks)
{
    int32_t *numbers = fixture_room(fixture, ROWS, sizeof *numbers);
    for (int32_t i = 0; i < ROWS; i++) numbers[i] = i;
    struct engine_tensor source;
    struct engine_weight *weight = make_weight(fixture, type, uses, ROW, ROWS, 1, blocks, &source);
    struct engine_op_get_rows args = {.struct_size = sizeof args,
                                      .source = &source,
                                      .rows = fixture_i32(fixture, ROWS, 1, numbers),
                                      .output = fixture_f32(fixture, ROW, ROWS, 1, NULL)};
    fixture_run(fixture, ENGINE_OP_GET_ROWS, &args);
    fixture->api->weight_destroy(weight);
    return fixture_hold(fixture, fixture_read(fixture, args.output));
}

void run_hashed_rows_case(struct fixture *fixture, const struct hashed_case *c)
{
    fixture_describe(fixture, "%s, %d rows of %d, weight for uses %u", c->type->name, ROWS, ROW, c->uses);
    float *values = read_rows(fixture, c->type, c->uses, random_blocks(fixture, c->type, N_VALUES));
    for (size_t i = 0; i < N_VALUES; i++) values[i] += 0.0f; /* -0 becomes 0 */
    if (fnv1a(values, N_VALUES * sizeof *values) != c->type->hash)
        fixture_fail(fixture, "get rows: %d blocks of %s aren't what gguf-py reads from them",
                     (int)(N_VALUES / c->type->length), c->type->name);
}

/* Whole numbers 0 … n - 1, repeated. */
static int32_t *take_turns(struct fixture *fixture, uint32_t n, uint32_t count)
{
    int32_t *numbers = fixture_room(fixture, count, sizeof *numbers);
    for (uint32_t i = 0; i < count; i++) numbers[i] = (int32_t)(i % n);
    return numbers;
}

void run_hashed_matmul_case(struct fixture *fixture, const struct hashed_case *c)
{
    const uint32_t n_matrices = c->matrices ? c->matrices : 1, k = c->k ? c->k : ROW,
                   rows = N_VALUES / k / n_matrices;
    const uint8_t *blocks = random_blocks(fixture, c->type, N_VALUES);
    struct engine_tensor weight;
    size_t n = (size_t)rows * c->tokens;
    uint64_t seed = 7;
    float *values = fixture_room(fixture, N_VALUES, sizeof *values);
    engine_weight_to_float(engine_layout_of(c->type->type), blocks, N_VALUES, values);
    float *input = fixture_room(fixture, k * (size_t)c->tokens, sizeof *input);
    for (size_t i = 0; i < k * (size_t)c->tokens; i++) input[i] = (float)random_bits(&seed) * 0x1p-31f - 1;
    int32_t *experts = take_turns(fixture, n_matrices, c->tokens);
    fixture_describe(fixture, "%s, %u rows of %u, %u matrices, %u tokens", c->type->name, rows, k, n_matrices,
                     c->tokens);
    struct engine_weight *handle =
        make_weight(fixture, c->type, c->matrices ? ENGINE_WEIGHT_MATRICES : ENGINE_WEIGHT_MATMUL, k, rows,
                    n_matrices, blocks, &weight);
    struct engine_op_matmul args = {.struct_size = sizeof args,
                                    .weight = &weight,
                                    .input = c->matrices ? fixture_f32(fixture, k, 1, c->tokens, input)
                                                         : fixture_f32(fixture, k, c->tokens, 1, input),
                                    .output = c->matrices ? fixture_f32(fixture, rows, 1, c->tokens, NULL)
                                                          : fixture_f32(fixture, rows, c->tokens, 1, NULL),
                                    .experts =
                                        c->matrices ? fixture_i32(fixture, 1, c->tokens, experts) : NULL};
    if (!fixture_supports(fixture, ENGINE_OP_MATMUL, &args)) fixture->api->weight_destroy(handle);
    fixture_run(fixture, ENGINE_OP_MATMUL, &args);
    fixture->api->weight_destroy(handle);
    float *products = fixture_hold(fixture, fixture_read(fixture, args.output));
    struct expected *expected = fixture_room(fixture, n, sizeof *expected);
    for (size_t i = 0; i < n; i++) {
        const size_t token = i / rows, at = (size_t)experts[token] * rows + i % rows;
        const float *row = values + at * k, *x = input + token * k;
        double size = 0;
        for (size_t j = 0; j < k; j++) {
            expected[i].value += (double)row[j] * (double)x[j];
            size += fabs((double)row[j]);
        }
        expected[i].bound = size / 240; /* rounding to int8 moves an input of at most 1 by at most 1 / 254 */
        if (size < 1e30) continue;
        expected[i].value = 0, products[i] = 0; /* random powers of two overflow float32 */
    }
    fixture_compare(fixture, "matmul", products, expected, n);
}
