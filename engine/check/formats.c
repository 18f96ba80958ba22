/* formats.c: see formats.h. */
#include "check/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "plugin-types.h"

/* ---- Random numbers -------------------------------------------------------------------------------- */

uint32_t random_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return (uint32_t)(*seed >> 32);
}

float random_normal(uint64_t *seed)
{
    double sum = 0; /* sum of 12 uniform numbers: standard deviation 1 */
    for (int i = 0; i < 12; i++) sum += random_bits(seed) * 0x1p-32;
    return (float)(sum - 6);
}

float *random_floats(uint64_t *seed, size_t n)
{
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; values && i < n; i++) values[i] = random_normal(seed);
    return values;
}

double random_scale(uint64_t *seed, double size)
{
    return size * (0.25 + random_bits(seed) * 0x1p-32) * (random_bits(seed) & 1 << 20 ? -1 : 1);
}

void random_bytes(uint64_t *seed, uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) at[i] = (uint8_t)(random_bits(seed) >> 24);
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

void put_half(uint8_t *at, double value)
{
    uint16_t half = half_of(value);
    memcpy(at, &half, 2);
}

double get_half(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, 2);
    return half_value(half);
}

/* ---- Types ----------------------------------------------------------------------------------------- */

static const struct format formats[] = {
    /* clang-format off */
    {ENGINE_TYPE_F32,    "F32",    1,   4,   true,  {{0, 0}}},
    {ENGINE_TYPE_I32,    "I32",    1,   4,   false, {{0, 0}}},
    {ENGINE_TYPE_F16,    "F16",    1,   2,   true,  {{0, 0}}},
    {ENGINE_TYPE_BF16,   "BF16",   1,   2,   true,  {{0, 0}}},
    {ENGINE_TYPE_Q8_0,   "Q8_0",   32,  34,  true,  {{0, 1.0 / 64}}},
    {ENGINE_TYPE_Q4_0,   "Q4_0",   32,  18,  true,  {{0, 1.0 / 4}}},
    {ENGINE_TYPE_Q4_1,   "Q4_1",   32,  20,  true,  {{0, 1.0 / 4}, {2, 2}}},
    {ENGINE_TYPE_Q5_0,   "Q5_0",   32,  22,  true,  {{0, 1.0 / 8}}},
    {ENGINE_TYPE_Q5_1,   "Q5_1",   32,  24,  true,  {{0, 1.0 / 8}, {2, 2}}},
    {ENGINE_TYPE_Q2_K,   "Q2_K",   256, 84,  true,  {{80, 1.0 / 16}, {82, 1.0 / 16}}},
    {ENGINE_TYPE_Q3_K,   "Q3_K",   256, 110, true,  {{108, 1.0 / 64}}},
    {ENGINE_TYPE_Q4_K,   "Q4_K",   256, 144, true,  {{0, 1.0 / 256}, {2, 1.0 / 64}}},
    {ENGINE_TYPE_Q5_K,   "Q5_K",   256, 176, true,  {{0, 1.0 / 512}, {2, 1.0 / 64}}},
    {ENGINE_TYPE_Q6_K,   "Q6_K",   256, 210, true,  {{208, 1.0 / 1024}}},
    {ENGINE_TYPE_IQ4_NL, "IQ4_NL", 32,  18,  true,  {{0, 1.0 / 64}}},
    {ENGINE_TYPE_IQ4_XS, "IQ4_XS", 256, 136, true,  {{0, 1.0 / 1024}}},
    {ENGINE_TYPE_MXFP4,  "MXFP4",  32,  17,  true,  {{0, 0}}},
    /* clang-format on */
};

const struct format *format_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type) return &formats[i];
    return NULL;
}

const struct format *format_at(size_t index)
{
    return index < sizeof formats / sizeof *formats ? &formats[index] : NULL;
}

uint64_t format_bytes(uint32_t type, uint64_t n)
{
    const struct format *format = format_of(type);
    return n / format->block_length * format->block_size;
}

uint32_t format_whole(const struct format *format, uint32_t n)
{
    const uint32_t length = (uint32_t)format->block_length;
    return (n + length - 1) / length * length;
}

double format_input_rounding(uint32_t type)
{
    return type == ENGINE_TYPE_F16 ? 0x1p-11 : type == ENGINE_TYPE_BF16 ? 0x1p-8 : 0;
}

static void randomise_block(uint64_t *seed, const struct format *format, uint8_t *block)
{
    float value = random_normal(seed);
    switch (format->type) {
    case ENGINE_TYPE_F32: memcpy(block, &value, 4); return;
    case ENGINE_TYPE_F16: put_half(block, (double)value); return;
    case ENGINE_TYPE_BF16: memcpy(block, (uint8_t *)&value + 2, 2); return;
    default: break;
    }
    random_bytes(seed, block, format->block_size);
    if (format->type == ENGINE_TYPE_MXFP4) block[0] = (uint8_t)(124 + block[0] % 5); /* 2^-3 … 2 */
    for (size_t i = 0; i < 2; i++)
        if (format->halves[i].size > 0)
            put_half(block + format->halves[i].offset, random_scale(seed, format->halves[i].size));
}

void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows)
{
    const struct format *format = format_of(type);
    size_t n_blocks = k / format->block_length * rows;
    uint8_t *data = malloc(n_blocks * format->block_size);
    for (size_t b = 0; data && b < n_blocks; b++)
        randomise_block(seed, format, data + b * format->block_size);
    return data;
}

/* The formula of struct engine_block, without rounding. */
void block_values(const struct format *format, const uint8_t *block, double *values)
{
    const struct engine_layout *layout = engine_layout_of(format->type);
    struct engine_block parts;
    if (!layout->read) {
        float value = 0;
        engine_weight_to_float(layout, block, 1, &value);
        *values = (double)value;
        return;
    }
    layout->read(block, &parts);
    for (size_t i = 0; i < layout->length; i++) {
        int k = layout->levels ? layout->levels[parts.q[i]] : parts.q[i] - layout->offset;
        size_t sub = i / layout->sub;
        values[i] = (double)parts.d * parts.scales[sub] * k - (double)parts.dmin * parts.mins[sub];
    }
}

double *weight_values(uint32_t type, const void *data, size_t n)
{
    const struct format *format = format_of(type);
    double *values = malloc(n * sizeof *values);
    const uint8_t *block = data;
    for (size_t i = 0; values && i < n; i += format->block_length, block += format->block_size)
        block_values(format, block, values + i);
    return values;
}
