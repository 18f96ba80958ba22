/* test-types.c: plugin-types.h, which says what weights of each type mean, against what gguf-py makes of the
 * same bytes (the hashes of engine/check/case-hashed.c). */
#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/cases.h"
#include "check/formats.h"
#include "model/types.h"
#include "plugin-types.h"

enum { N_VALUES = 1 << 18 };

/* Blocks of random bytes, scales finite. */
static uint8_t *random_blocks(const struct hashed_type *type)
{
    size_t n = N_VALUES / type->length * type->size;
    uint8_t *blocks = malloc(n);
    uint64_t seed = type->type;
    cr_assert(blocks);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        blocks[i] = (uint8_t)(seed >> 56);
        for (size_t j = 0; j < 2; j++)
            if ((int)(i % type->size) == type->scales[j]) blocks[i] &= 0xbf;
    }
    return blocks;
}

Test(types, blocks_mean_what_gguf_py_reads_from_them)
{
    const struct hashed_type *type;
    for (size_t t = 0; (type = hashed_type_at(t)); t++) {
        const struct engine_layout *layout = engine_layout_of(type->type);
        cr_assert(layout && layout->read, "%s", type->name);
        cr_assert_str_eq(layout->name, type->name);
        cr_assert_eq(layout->length, type->length, "%s", type->name);
        cr_assert_eq(layout->size, type->size, "%s", type->name);
        cr_assert_eq(engine_weight_bytes(layout, 512), 512 / type->length * type->size, "%s", type->name);
        uint8_t *blocks = random_blocks(type);
        float *values = malloc(N_VALUES * sizeof *values);
        uint64_t hash = 0xcbf29ce484222325;
        engine_weight_to_float(layout, blocks, N_VALUES, values);
        for (size_t i = 0; i < N_VALUES; i++) {
            uint8_t bytes[4];
            float value = values[i] + 0.0f; /* -0 becomes 0 */
            memcpy(bytes, &value, sizeof bytes);
            for (size_t j = 0; j < sizeof bytes; j++) hash = (hash ^ bytes[j]) * 0x100000001b3;
        }
        cr_expect_eq(hash, type->hash, "%s", type->name);
        free(blocks);
        free(values);
    }
}

/* Of a block that begins anywhere, nothing is read but its bytes, and nothing is written but its values. */
Test(types, blocks_may_begin_anywhere)
{
    const struct engine_layout *layout;
    for (size_t t = 0; (layout = engine_layout_at(t)); t++) {
        uint64_t seed = t;
        uint8_t *bytes = malloc(1 + layout->size), *same = malloc(layout->size);
        float *values = malloc(layout->length * sizeof *values),
              *again = malloc(layout->length * sizeof *again);
        random_bytes(&seed, same, layout->size);
        memcpy(bytes + 1, same, layout->size);
        engine_weight_to_float(layout, same, layout->length, values);
        engine_weight_to_float(layout, bytes + 1, layout->length, again);
        cr_expect_arr_eq(values, again, layout->length * sizeof *values, "%s", layout->name);
        free(bytes), free(same), free(values), free(again);
    }
}

Test(types, all_of_the_engine_are_there)
{
    size_t n = 0;
    for (uint32_t type = 0; type < 64; type++) {
        const struct type_info *info = type_info(type);
        const struct engine_layout *layout = engine_layout_of(type);
        if (!info || (type >= ENGINE_TYPE_I8 && type <= ENGINE_TYPE_F64)) {
            cr_expect(!layout, "%u", type);
            continue;
        }
        cr_assert(layout, "%s", info->name);
        cr_expect_eq(layout->type, type);
        cr_expect_str_eq(layout->name, info->name);
        cr_expect_eq(layout->length, info->block_length);
        cr_expect_eq(layout->size, info->block_size);
        n++;
    }
    cr_expect_eq(n, 26);
    cr_expect(engine_layout_at(25) && !engine_layout_at(26));
    cr_expect(!engine_layout_of(UINT32_MAX));
}

Test(types, plain_ones_are_what_their_bits_say)
{
    for (uint32_t bits = 0; bits < 1 << 16; bits++) {
        uint8_t bytes[4] = {(uint8_t)bits, (uint8_t)(bits >> 8), 0, 0};
        float half = 0, bfloat = 0;
        engine_weight_to_float(engine_layout_of(ENGINE_TYPE_F16), bytes, 1, &half);
        engine_weight_to_float(engine_layout_of(ENGINE_TYPE_BF16), bytes, 1, &bfloat);
        double wanted = half_value((uint16_t)bits);
        cr_assert(isnan(wanted) ? isnan(half) : (double)half == wanted && !signbit(half) == !signbit(wanted),
                  "%04x", bits);
        if (!isnan(half)) cr_assert_eq(engine_f32_to_f16(half), bits, "%04x", bits);
        cr_assert_eq(engine_bits_of_float(bfloat), bits << 16, "%04x", bits);
    }
    float value = -1.5f, same;
    uint8_t little[4] = {0x00, 0x00, 0xc0, 0xbf};
    engine_weight_to_float(engine_layout_of(ENGINE_TYPE_F32), little, 1, &same);
    cr_expect_eq(same, value);
}

/* Halfway between two float16 numbers, and a little to either side. */
Test(types, float16_is_the_nearest)
{
    for (uint16_t half = 0; half < 0x7bff; half++) {
        double a = half_value(half), b = half_value((uint16_t)(half + 1));
        float middle = (float)((a + b) / 2);
        cr_assert_eq(engine_f32_to_f16(middle), half & 1 ? half + 1 : half, "%04x", half);
        cr_assert_eq(engine_f32_to_f16(nextafterf(middle, 0)), half, "%04x", half);
        cr_assert_eq(engine_f32_to_f16(nextafterf(middle, INFINITY)), half + 1, "%04x", half);
    }
    cr_expect_eq(engine_f32_to_f16(65519.996f), 0x7bff);
    cr_expect_eq(engine_f32_to_f16(65520), 0x7c00);
    cr_expect_eq(engine_f32_to_f16(NAN) & 0x7e00, 0x7e00);
}
