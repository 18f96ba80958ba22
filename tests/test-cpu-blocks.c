/* test-cpu-blocks.c: what the CPU plugin makes of the blocks of quantised types: through ENGINE_OP_GET_ROWS, equal to
 * gguf-py to the bit (but for the sign of zeros), by hashes that tests/tools/dequantised-hashes printed; and through
 * ENGINE_OP_MATMUL, within the rounding of the input. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "cpu-settings.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define ROW          ((size_t)1024)
#define ROWS         ((size_t)256)

static const struct type {
    uint32_t type;
    const char *name;
    size_t length, size; /* of a block: values, bytes */
    int scales[2];       /* bytes with the upper part of a scale; -1: none */
    uint64_t hash;       /* FNV-1a of the values as float32, zeros all positive */
} types[] = {
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

static uint8_t *random_blocks(const struct type *type)
{
    size_t n = ROWS * ROW / type->length * type->size;
    uint8_t *blocks = malloc(n);
    uint64_t seed = type->type;
    cr_assert(blocks);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(seed >> 56);
        for (size_t j = 0; j < COUNT(type->scales); j++)
            if ((int)(i % type->size) == type->scales[j]) blocks[i] &= 0xbf; /* neither infinite nor NaN */
    }
    return blocks;
}

#define FNV1A 0xcbf29ce484222325

static uint64_t fnv1a(uint64_t hash, const void *data, size_t size)
{
    for (size_t i = 0; i < size; i++) hash = (hash ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
    return hash;
}

/* Blocks as a weight; the tensor that stands for it goes to *tensor. */
static struct engine_weight *make_weight(struct fixture *fixture, const struct type *type, uint32_t uses,
                                         const uint8_t *blocks, struct engine_tensor *tensor)
{
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "test.weight",
                                      .type = type->type,
                                      .type_name = type->name,
                                      .ne = {ROW, ROWS, 1, 1},
                                      .uses = uses,
                                      .data_is_kept = 1,
                                      .data = blocks,
                                      .data_size = ROWS * ROW / type->length * type->size};
    struct engine_weight *weight;
    int status = fixture->api->weight_create(fixture->device, &desc, &weight);
    cr_assert_eq(status, ENGINE_OK, "%s: %s", type->name, fixture_message());
    *tensor = (struct engine_tensor){
        .struct_size = sizeof *tensor,
        .type = type->type,
        .ne = {ROW, ROWS, 1, 1},
        .nb = {type->size, desc.data_size / ROWS, desc.data_size, desc.data_size},
        .weight = weight,
    };
    return weight;
}

/* All rows of a weight through ENGINE_OP_GET_ROWS, [ROWS][ROW]. */
static float *read_rows(struct fixture *fixture, const struct type *type, uint32_t uses,
                        const uint8_t *blocks)
{
    int32_t numbers[ROWS];
    for (size_t i = 0; i < ROWS; i++) numbers[i] = (int32_t)i;
    struct engine_tensor source;
    struct engine_weight *weight = make_weight(fixture, type, uses, blocks, &source);
    struct engine_op_get_rows args = {.struct_size = sizeof args,
                                      .source = &source,
                                      .rows = fixture_i32(fixture, ROWS, 1, numbers),
                                      .output = fixture_f32(fixture, ROW, ROWS, 1, NULL)};
    fixture_run(fixture, ENGINE_OP_GET_ROWS, &args);
    fixture->api->weight_destroy(weight);
    return fixture_read(fixture, args.output);
}

Test(cpu_blocks, rows_are_what_gguf_py_makes_of_them)
{
    static const uint32_t uses[] = {ENGINE_WEIGHT_ROWS, ENGINE_WEIGHT_ROWS | ENGINE_WEIGHT_MATMUL};
    for (size_t t = 0; t < COUNT(types); t++) {
        uint8_t *blocks = random_blocks(&types[t]);
        for (size_t i = 0; i < N_CPU_ISAS; i++) {
            struct fixture fixture;
            if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
            for (size_t u = 0; u < COUNT(uses); u++) {
                float *values = read_rows(&fixture, &types[t], uses[u], blocks);
                for (size_t j = 0; j < ROWS * ROW; j++) values[j] += 0.0f; /* -0 becomes 0 */
                cr_expect_eq(fnv1a(FNV1A, values, ROWS * ROW * sizeof *values), types[t].hash,
                             "%s, %s, use %u", types[t].name, cpu_isas[i], uses[u]);
                free(values);
            }
            fixture_close(&fixture);
        }
        free(blocks);
    }
}

/* One token and 13 against double precision. Rounding to int8 moves an input of at most 1 by at most 1 / 240. */
static void compare_products(struct fixture *fixture, const struct type *type, const uint8_t *blocks,
                             const float *input, const char *isa)
{
    enum { TOKENS = 13 };
    struct engine_tensor weight;
    float *values = read_rows(fixture, type, ENGINE_WEIGHT_ROWS, blocks);
    struct engine_weight *handle = make_weight(fixture, type, ENGINE_WEIGHT_MATMUL, blocks, &weight);
    for (size_t tokens = 1; tokens <= TOKENS; tokens += TOKENS - 1) {
        struct engine_op_matmul args = {.struct_size = sizeof args,
                                        .weight = &weight,
                                        .input = fixture_f32(fixture, ROW, tokens, 1, input),
                                        .output = fixture_f32(fixture, ROWS, tokens, 1, NULL)};
        fixture_run(fixture, ENGINE_OP_MATMUL, &args);
        float *products = fixture_read(fixture, args.output);
        for (size_t i = 0; i < ROWS * tokens; i++) {
            const float *row = values + i % ROWS * ROW, *x = input + i / ROWS * ROW;
            double exact = 0, size = 0;
            for (size_t j = 0; j < ROW; j++) {
                exact += (double)row[j] * (double)x[j];
                size += fabs((double)row[j]);
            }
            if (!(size < 1e30)) continue; /* random powers of two overflow float32 */
            cr_assert(fabs((double)products[i] - exact) <= size / 240,
                      "%s, %s: row %zu of token %zu: %g, not %g", type->name, isa, i % ROWS, i / ROWS,
                      (double)products[i], exact);
        }
        free(products);
    }
    fixture->api->weight_destroy(handle);
    free(values);
}

Test(cpu_blocks, products_are_those_of_the_values)
{
    static float input[13 * ROW];
    uint64_t seed = 7;
    for (size_t i = 0; i < COUNT(input); i++) input[i] = (float)random_bits(&seed) * 0x1p-31f - 1;
    for (size_t t = 0; t < COUNT(types); t++) {
        uint8_t *blocks = random_blocks(&types[t]);
        for (size_t i = 0; i < N_CPU_ISAS; i++) {
            struct fixture fixture;
            if (!cpu_open(&fixture, cpu_isas[i], 2)) continue;
            compare_products(&fixture, &types[t], blocks, input, cpu_isas[i]);
            fixture_close(&fixture);
        }
        free(blocks);
    }
}
