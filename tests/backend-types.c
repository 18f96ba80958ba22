/* backend-types.c: see backend-types.h; and the random numbers of backend-fixture.h. */
#include "backend-types.h"

#include <criterion/criterion.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "backend-blocks.h"
#include "backend-fixture.h"

/* ---- Random numbers -------------------------------------------------------------------------------- */

uint32_t random_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return (uint32_t)(*seed >> 32);
}

float random_normal(uint64_t *seed)
{
    double sum = 0; /* of 12 uniform numbers: deviation 1 */
    for (int i = 0; i < 12; i++) sum += random_bits(seed) * 0x1p-32;
    return (float)(sum - 6);
}

float *random_floats(uint64_t *seed, size_t n)
{
    float *values = malloc(n * sizeof *values);
    cr_assert(values);
    for (size_t i = 0; i < n; i++) values[i] = random_normal(seed);
    return values;
}

/* ---- float16 --------------------------------------------------------------------------------------- */

double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) value = fraction ? NAN : INFINITY;
    return half & 0x8000 ? -value : value;
}

uint16_t half_of(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) return 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = 0.5 … 1 times 2^exponent */
    if (exponent < -13) exponent = -13;
    double fraction = nearbyint(ldexp(magnitude, 11 - exponent)); /* units of the last place: 0 … 2048 */
    return (uint16_t)(sign | (fraction >= 1024 ? ((exponent + 13) << 10) + (int)fraction : (int)fraction));
}

/* ---- Types ----------------------------------------------------------------------------------------- */

void test_put_half(uint8_t *at, double value)
{
    uint16_t half = half_of(value);
    memcpy(at, &half, 2);
}

double test_get_half(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, 2);
    return half_value(half);
}

void test_random_bytes(uint64_t *seed, uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) at[i] = (uint8_t)(random_bits(seed) >> 24);
}

static void f32_randomise(uint64_t *seed, uint8_t *block)
{
    float value = random_normal(seed);
    memcpy(block, &value, 4);
}

static void f32_values(const uint8_t *block, double *values)
{
    float value;
    memcpy(&value, block, 4);
    *values = (double)value;
}

static void f16_randomise(uint64_t *seed, uint8_t *block)
{
    test_put_half(block, (double)random_normal(seed));
}

static void f16_values(const uint8_t *block, double *values)
{
    *values = test_get_half(block);
}

static void bf16_randomise(uint64_t *seed, uint8_t *block)
{
    float value = random_normal(seed);
    memcpy(block, (uint8_t *)&value + 2, 2);
}

static void bf16_values(const uint8_t *block, double *values)
{
    uint8_t bytes[4] = {0, 0, block[0], block[1]};
    float value;
    memcpy(&value, bytes, 4);
    *values = (double)value;
}

/* Both signs and a range of sizes of scales. */
double test_random_scale(uint64_t *seed, double size)
{
    return size * (0.25 + random_bits(seed) * 0x1p-32) * (random_bits(seed) & 1 << 20 ? -1 : 1);
}

static void q8_0_randomise(uint64_t *seed, uint8_t *block)
{
    test_put_half(block, test_random_scale(seed, 1.0 / 64));
    test_random_bytes(seed, block + 2, 32);
}

static void q8_0_values(const uint8_t *block, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = test_get_half(block) * (int8_t)block[2 + i];
}

static void q4_0_randomise(uint64_t *seed, uint8_t *block)
{
    test_put_half(block, test_random_scale(seed, 1.0 / 4));
    test_random_bytes(seed, block + 2, 16);
}

static void q4_0_values(const uint8_t *block, double *values)
{
    for (int i = 0; i < 16; i++) {
        values[i] = test_get_half(block) * ((block[2 + i] & 15) - 8);
        values[16 + i] = test_get_half(block) * ((block[2 + i] >> 4) - 8);
    }
}

static const struct test_type types[] = {
    {ENGINE_TYPE_F32, "F32", 1, 4, f32_randomise, f32_values},
    {ENGINE_TYPE_I32, "I32", 1, 4, NULL, NULL},
    {ENGINE_TYPE_F16, "F16", 1, 2, f16_randomise, f16_values},
    {ENGINE_TYPE_BF16, "BF16", 1, 2, bf16_randomise, bf16_values},
    {ENGINE_TYPE_Q8_0, "Q8_0", 32, 34, q8_0_randomise, q8_0_values},
    {ENGINE_TYPE_Q4_0, "Q4_0", 32, 18, q4_0_randomise, q4_0_values},
};

const struct test_type *test_type(uint32_t type)
{
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (types[i].type == type) return &types[i];
    for (size_t i = 0; i < n_test_blocks; i++)
        if (test_blocks[i].type == type) return &test_blocks[i];
    cr_assert_fail("type %u isn't in tests/backend-types.c", type);
    return NULL;
}

uint64_t type_bytes(uint32_t type, uint64_t n)
{
    const struct test_type *known = test_type(type);
    cr_assert_eq(n % known->block_length, 0);
    return n / known->block_length * known->block_size;
}

void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows)
{
    const struct test_type *known = test_type(type);
    size_t n_blocks = k / known->block_length * rows;
    uint8_t *data = malloc(n_blocks * known->block_size);
    cr_assert(data);
    for (size_t b = 0; b < n_blocks; b++) known->randomise(seed, data + b * known->block_size);
    return data;
}

double *weight_values(uint32_t type, const void *data, size_t n)
{
    const struct test_type *known = test_type(type);
    double *values = malloc(n * sizeof *values);
    cr_assert(values);
    const uint8_t *block = data;
    for (size_t i = 0; i < n; i += known->block_length, block += known->block_size)
        known->values(block, values + i);
    return values;
}
