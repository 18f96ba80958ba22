/* formats.c: see formats.h. Plain types and the two simplest quantised ones; blocks.c has the others. */
#include "check/formats.h"

#include <stdlib.h>
#include <string.h>

#include "check/blocks.h"
#include "check/numbers.h"
#include "plugin-api.h"

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
    put_half(block, (double)random_normal(seed));
}

static void f16_values(const uint8_t *block, double *values)
{
    *values = get_half(block);
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

static void q8_0_randomise(uint64_t *seed, uint8_t *block)
{
    put_half(block, random_scale(seed, 1.0 / 64));
    random_bytes(seed, block + 2, 32);
}

static void q8_0_values(const uint8_t *block, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = get_half(block) * (int8_t)block[2 + i];
}

static void q4_0_randomise(uint64_t *seed, uint8_t *block)
{
    put_half(block, random_scale(seed, 1.0 / 4));
    random_bytes(seed, block + 2, 16);
}

static void q4_0_values(const uint8_t *block, double *values)
{
    for (int i = 0; i < 16; i++) {
        values[i] = get_half(block) * ((block[2 + i] & 15) - 8);
        values[16 + i] = get_half(block) * ((block[2 + i] >> 4) - 8);
    }
}

static const struct format formats[] = {
    {ENGINE_TYPE_F32, "F32", 1, 4, f32_randomise, f32_values},
    {ENGINE_TYPE_I32, "I32", 1, 4, NULL, NULL},
    {ENGINE_TYPE_F16, "F16", 1, 2, f16_randomise, f16_values},
    {ENGINE_TYPE_BF16, "BF16", 1, 2, bf16_randomise, bf16_values},
    {ENGINE_TYPE_Q8_0, "Q8_0", 32, 34, q8_0_randomise, q8_0_values},
    {ENGINE_TYPE_Q4_0, "Q4_0", 32, 18, q4_0_randomise, q4_0_values},
};

const struct format *format_of(uint32_t type)
{
    for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
        if (formats[i].type == type) return &formats[i];
    for (size_t i = 0; i < n_block_formats; i++)
        if (block_formats[i].type == type) return &block_formats[i];
    return NULL;
}

const struct format *format_at(size_t index)
{
    size_t n = sizeof formats / sizeof *formats;
    if (index < n) return &formats[index];
    return index - n < n_block_formats ? &block_formats[index - n] : NULL;
}

uint64_t format_bytes(uint32_t type, uint64_t n)
{
    const struct format *format = format_of(type);
    return n / format->block_length * format->block_size;
}

void *random_weight(uint64_t *seed, uint32_t type, uint64_t k, uint64_t rows)
{
    const struct format *format = format_of(type);
    size_t n_blocks = k / format->block_length * rows;
    uint8_t *data = malloc(n_blocks * format->block_size);
    for (size_t b = 0; data && b < n_blocks; b++) format->randomise(seed, data + b * format->block_size);
    return data;
}

double *weight_values(uint32_t type, const void *data, size_t n)
{
    const struct format *format = format_of(type);
    double *values = malloc(n * sizeof *values);
    const uint8_t *block = data;
    for (size_t i = 0; values && i < n; i += format->block_length, block += format->block_size)
        format->values(block, values + i);
    return values;
}
