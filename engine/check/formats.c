/* formats.c: see formats.h. */
#include "check/formats.h"

#include <stdlib.h>
#include <string.h>

#include "check/numbers.h"
#include "plugin-types.h"

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
