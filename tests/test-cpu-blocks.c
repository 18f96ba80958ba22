/* test-cpu-blocks.c: blocks of the rarer quantised types, read by the CPU plugin's own functions, against gguf-py to
 * the bit: hashes that tests/tools/dequantised-hashes printed. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "plugin-api.h"
#include "plugins/cpu/block.h"

#define COUNT(array) (sizeof(array) / sizeof *(array))
#define N_VALUES     ((size_t)1 << 18)

static const struct {
    uint32_t type;
    const char *name;
    size_t length, size; /* of a block: values, bytes */
    int scales[2];       /* bytes with the upper part of a scale; -1: none */
    uint64_t hash;       /* FNV-1a of the values as float32 */
    void (*read)(const uint8_t *from, struct block *block);
    size_t sub;
} types[] = {
    /* clang-format off */
    {ENGINE_TYPE_Q8_K, "Q8_K", 256, 292, {3, -1}, 0x220d29944606aa8e, q8_k_read, 32},
    {ENGINE_TYPE_IQ2_XXS, "IQ2_XXS", 256, 66, {1, -1}, 0xb2304f28f9437687, iq2_xxs_read, 32},
    {ENGINE_TYPE_IQ2_XS, "IQ2_XS", 256, 74, {1, -1}, 0x6ec77ff8a3d29ef6, iq2_xs_read, 16},
    {ENGINE_TYPE_IQ2_S, "IQ2_S", 256, 82, {1, -1}, 0x2b1973dd9b0d0615, iq2_s_read, 16},
    {ENGINE_TYPE_IQ3_XXS, "IQ3_XXS", 256, 98, {1, -1}, 0x043df7f5e32d7cba, iq3_xxs_read, 32},
    {ENGINE_TYPE_IQ3_S, "IQ3_S", 256, 110, {1, -1}, 0x07f7f81b5fd8db52, iq3_s_read, 32},
    {ENGINE_TYPE_IQ1_S, "IQ1_S", 256, 50, {1, -1}, 0xfc0957fba5f556cb, iq1_s_read, 32},
    {ENGINE_TYPE_IQ1_M, "IQ1_M", 256, 56, {55, -1}, 0x907ddc689e117fc1, iq1_m_read, 16},
    {ENGINE_TYPE_TQ1_0, "TQ1_0", 256, 54, {53, -1}, 0xc3ee575750302fff, tq1_0_read, 32},
    {ENGINE_TYPE_TQ2_0, "TQ2_0", 256, 66, {65, -1}, 0x5a53ad9d7c1d135f, tq2_0_read, 32},
    {ENGINE_TYPE_MXFP4, "MXFP4", 32, 17, {-1, -1}, 0x85fa1e56ad7dc5f6, mxfp4_read, 32},
    /* clang-format on */
};

static const int8_t mxfp4_values[16] = {0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

static uint8_t *random_blocks(size_t t, size_t n_blocks)
{
    size_t n = n_blocks * types[t].size;
    uint8_t *blocks = malloc(n);
    uint64_t seed = types[t].type;
    cr_assert(blocks);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(seed >> 56);
        for (size_t j = 0; j < COUNT(types[t].scales); j++)
            if ((int)(i % types[t].size) == types[t].scales[j])
                blocks[i] &= 0xbf; /* neither infinite nor NaN */
    }
    return blocks;
}

static uint64_t hash_value(uint64_t hash, float value)
{
    uint8_t bytes[4];
    memcpy(bytes, &value, 4);
    for (size_t i = 0; i < 4; i++) hash = (hash ^ bytes[i]) * 0x100000001b3;
    return hash;
}

Test(cpu_blocks, mean_what_gguf_py_makes_of_them)
{
    for (size_t t = 0; t < COUNT(types); t++) {
        size_t n_blocks = N_VALUES / types[t].length;
        uint8_t *blocks = random_blocks(t, n_blocks);
        uint64_t hash = 0xcbf29ce484222325;
        for (size_t b = 0; b < n_blocks; b++) {
            struct block block;
            memset(&block, 0x55, sizeof block);
            types[t].read(blocks + b * types[t].size, &block);
            for (size_t i = 0; i < types[t].length; i++) {
                int q = types[t].type == ENGINE_TYPE_MXFP4 ? mxfp4_values[block.q[i]] : block.q[i] - 128;
                float scale = block.d * (float)block.scales[i / types[t].sub];
                hash = hash_value(hash, (float)q * scale - block.dmin * (float)block.mins[i / types[t].sub]);
            }
        }
        free(blocks);
        cr_expect_eq(hash, types[t].hash, "%s", types[t].name);
    }
}
