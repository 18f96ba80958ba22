/* test-cpu-blocks.c: what the CPU plugin makes of the blocks of quantised types, against gguf-py to the bit: hashes that
 * tests/tools/dequantised-hashes printed. Once through ENGINE_OP_GET_ROWS, for the types that the plugin takes as weights,
 * and once, for the rarer types, by the functions that read a block. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "backend-fixture.h"
#include "cpu-settings.h"
#include "plugins/cpu/block.h"

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

/* All rows of a weight through ENGINE_OP_GET_ROWS; a hash of them. 0: the plugin doesn't take the type. */
static uint64_t read_rows(struct fixture *fixture, const struct type *type, uint32_t uses,
                          const uint8_t *blocks)
{
    int32_t numbers[ROWS];
    struct engine_weight_desc desc = {.struct_size = sizeof desc,
                                      .name = "test.weight",
                                      .type = type->type,
                                      .type_name = type->name,
                                      .ne = {ROW, ROWS, 1, 1},
                                      .uses = uses,
                                      .data_is_kept = 1,
                                      .data = blocks,
                                      .data_size = ROWS * ROW / type->length * type->size};
    struct engine_tensor source = {.struct_size = sizeof source,
                                   .type = type->type,
                                   .ne = {ROW, ROWS, 1, 1},
                                   .nb = {type->size, desc.data_size / ROWS, desc.data_size, desc.data_size}};
    struct engine_weight *weight;
    for (size_t i = 0; i < ROWS; i++) numbers[i] = (int32_t)i;
    int status = fixture->api->weight_create(fixture->device, &desc, &weight);
    if (status == ENGINE_ERROR_UNSUPPORTED) return 0;
    cr_assert_eq(status, ENGINE_OK, "%s: %s", type->name, fixture_message());
    source.weight = weight;
    struct engine_op_get_rows args = {.struct_size = sizeof args,
                                      .source = &source,
                                      .rows = fixture_i32(fixture, ROWS, 1, numbers),
                                      .output = fixture_f32(fixture, ROW, ROWS, 1, NULL)};
    fixture_run(fixture, ENGINE_OP_GET_ROWS, &args);
    float *values = fixture_read(fixture, args.output);
    for (size_t i = 0; i < ROWS * ROW; i++) values[i] += 0.0f; /* -0 and 0 are one number */
    uint64_t hash = fnv1a(FNV1A, values, ROWS * ROW * sizeof *values);
    free(values);
    fixture->api->weight_destroy(weight);
    return hash;
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
                uint64_t hash = read_rows(&fixture, &types[t], uses[u], blocks);
                if (hash)
                    cr_expect_eq(hash, types[t].hash, "%s, %s, use %u", types[t].name, cpu_isas[i], uses[u]);
                else if (i == 0 && u == 0)
                    cr_log_info("%s is no weight of this plugin", types[t].name);
            }
            fixture_close(&fixture);
        }
        free(blocks);
    }
}

/* ---- The functions that read a block ---- */

static const struct {
    uint32_t type;
    void (*read)(const uint8_t *from, struct block *block);
    size_t sub; /* values that share a scale */
} readers[] = {
    {ENGINE_TYPE_Q8_K, q8_k_read, 32},       {ENGINE_TYPE_IQ2_XXS, iq2_xxs_read, 32},
    {ENGINE_TYPE_IQ2_XS, iq2_xs_read, 16},   {ENGINE_TYPE_IQ2_S, iq2_s_read, 16},
    {ENGINE_TYPE_IQ3_XXS, iq3_xxs_read, 32}, {ENGINE_TYPE_IQ3_S, iq3_s_read, 32},
    {ENGINE_TYPE_IQ1_S, iq1_s_read, 32},     {ENGINE_TYPE_IQ1_M, iq1_m_read, 16},
    {ENGINE_TYPE_TQ1_0, tq1_0_read, 32},     {ENGINE_TYPE_TQ2_0, tq2_0_read, 32},
    {ENGINE_TYPE_MXFP4, mxfp4_read, 32},
};

static float value_of(uint32_t type, const struct block *block, size_t i, size_t sub)
{
    static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};
    int q = type == ENGINE_TYPE_MXFP4 ? mxfp4_values[block->q[i]] : block->q[i] - 128;
    return (float)q * (block->d * (float)block->scales[i / sub]) - block->dmin * (float)block->mins[i / sub];
}

Test(cpu_blocks, readers_take_them_apart)
{
    for (size_t r = 0; r < COUNT(readers); r++) {
        const struct type *type = types;
        while (type->type != readers[r].type) type++;
        uint8_t *blocks = random_blocks(type);
        uint64_t hash = FNV1A;
        for (size_t b = 0; b < ROWS * ROW / type->length; b++) {
            struct block block;
            memset(&block, 0x55, sizeof block);
            readers[r].read(blocks + b * type->size, &block);
            for (size_t i = 0; i < type->length; i++) {
                float value = value_of(type->type, &block, i, readers[r].sub) + 0.0f;
                hash = fnv1a(hash, &value, sizeof value);
            }
        }
        free(blocks);
        cr_expect_eq(hash, type->hash, "%s", type->name);
    }
}
