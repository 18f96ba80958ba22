/* encode-plain.c: see encode.h. F16, BF16, and the types in blocks of 32 whose scale follows from the
 * extremes of a block:
 *   Q8_0  d, 32 int8              value d q
 *   Q4_0  d, 16 bytes             value d (q - 8)
 *   Q4_1  d, m, 16 bytes          value d q + m
 *   Q5_0  d, 32 bits, 16 bytes    value d (q - 16)
 *   Q5_1  d, m, 32 bits, 16 bytes value d q + m
 * In the 16 bytes, the low nibbles are columns 0 … 15, the high ones 16 … 31; the bits are the fifth of each
 * column. */
#include <math.h>
#include <string.h>

#include "base/half.h"
#include "model/types.h"
#include "plugin-types.h"
#include "quantize/encode.h"

enum { BLOCK = 32 };

static void encode_f32(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    (void)weights;
    memcpy(blocks, x, n * sizeof *x);
}

void encode_f16(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    (void)weights;
    for (size_t i = 0; i < n; i++) store_half(blocks + 2 * i, x[i]);
}

void encode_bf16(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    (void)weights;
    for (size_t i = 0; i < n; i++) {
        uint16_t bfloat = bfloat_from_float(x[i]);
        memcpy(blocks + 2 * i, &bfloat, 2);
    }
}

/* The value of largest magnitude, the first if there are several. */
static float peak_of(const float *x)
{
    float peak = 0;
    for (size_t i = 0; i < BLOCK; i++)
        if (fabsf(x[i]) > fabsf(peak)) peak = x[i];
    return peak;
}

static float plain_inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

void encode_q8_0(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    (void)weights;
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, blocks += 34) {
        float d = fabsf(peak_of(x)) / 127, by = plain_inverse(d);
        store_half(blocks, d);
        for (size_t i = 0; i < BLOCK; i++) blocks[2 + i] = (uint8_t)(int8_t)roundf(x[i] * by);
    }
}

/* Truncates sums in 0 … most + 1: the peak itself may come out one too large. */
static uint8_t truncate_to(float value, int most)
{
    int q = (int)value;
    return (uint8_t)(q < 0 ? 0 : q > most ? most : q);
}

/* 32 numbers of four bits. */
static void store_nibbles(const uint8_t *q, uint8_t *to)
{
    for (size_t i = 0; i < BLOCK / 2; i++) to[i] = (uint8_t)((q[i] & 15) | q[BLOCK / 2 + i] << 4);
}

static void store_fifth_bits(const uint8_t *q, uint8_t *to)
{
    uint32_t bits = 0;
    for (size_t i = 0; i < BLOCK; i++) bits |= (uint32_t)(q[i] >> 4) << i;
    memcpy(to, &bits, sizeof bits);
}

/* The peak becomes -half: that side has one level more. */
static void centred(const float *x, const float *weights, int half, uint8_t *q, uint8_t *scale)
{
    float d = peak_of(x) / (float)-half, by = plain_inverse(d), m = 0;
    if (weights) encode_weighted(x, weights, 2 * half - 1, half, &d, &m, q);
    store_half(scale, d);
    if (weights) return;
    for (size_t i = 0; i < BLOCK; i++) q[i] = truncate_to(x[i] * by + ((float)half + 0.5f), 2 * half - 1);
}

void encode_q4_0(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    uint8_t q[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, blocks += 18) {
        centred(x, weights ? weights + BLOCK * b : NULL, 8, q, blocks);
        store_nibbles(q, blocks + 2);
    }
}

void encode_q5_0(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    uint8_t q[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, blocks += 22) {
        centred(x, weights ? weights + BLOCK * b : NULL, 16, q, blocks);
        store_fifth_bits(q, blocks + 2);
        store_nibbles(q, blocks + 6);
    }
}

/* Maps the smallest value to 0 and the largest to `most`. */
static void from_least(const float *x, const float *weights, int most, uint8_t *q, uint8_t *scale)
{
    float least = x[0], largest = x[0];
    for (size_t i = 1; i < BLOCK; i++) {
        if (x[i] < least) least = x[i];
        if (x[i] > largest) largest = x[i];
    }
    float d = (largest - least) / (float)most, by = plain_inverse(d);
    if (weights) encode_weighted(x, weights, most, 0, &d, &least, q);
    store_half(scale, d);
    store_half(scale + 2, least);
    if (weights) return;
    for (size_t i = 0; i < BLOCK; i++) q[i] = truncate_to((x[i] - least) * by + 0.5f, most);
}

void encode_q4_1(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    uint8_t q[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, blocks += 20) {
        from_least(x, weights ? weights + BLOCK * b : NULL, 15, q, blocks);
        store_nibbles(q, blocks + 4);
    }
}

void encode_q5_1(const float *x, const float *weights, size_t n, uint8_t *blocks)
{
    uint8_t q[BLOCK];
    for (size_t b = 0; b < n / BLOCK; b++, x += BLOCK, blocks += 24) {
        from_least(x, weights ? weights + BLOCK * b : NULL, 31, q, blocks);
        store_fifth_bits(q, blocks + 4);
        store_nibbles(q, blocks + 8);
    }
}

/* ---- All types ---- */

/* The largest magnitude for which float32 arithmetic on sums and differences is safe and, for the types with
 * a search, every resulting scale fits a float16. */
#define LARGEST_FLOAT    3.402823466e38f
#define LARGEST_PLAIN    1e9f
#define LARGEST_SEARCHED (8 * 65504.0f)

static const struct encoder {
    uint32_t type;
    encode_function *encode;
    float largest;
    size_t n_halves, halves[2]; /* positions of a block's float16 numbers; those of F16 are its values */
    bool uses_weights;
} encoders[] = {
    /* clang-format off */
    {ENGINE_TYPE_F32,    encode_f32,    LARGEST_FLOAT,    0, {0}, false},
    {ENGINE_TYPE_F16,    encode_f16,    LARGEST_FLOAT,    1, {0}, false},
    {ENGINE_TYPE_BF16,   encode_bf16,   LARGEST_FLOAT,    1, {0}, false},
    {ENGINE_TYPE_Q8_0,   encode_q8_0,   LARGEST_PLAIN,    1, {0}, false},
    {ENGINE_TYPE_Q4_0,   encode_q4_0,   LARGEST_PLAIN,    1, {0}, true},
    {ENGINE_TYPE_Q4_1,   encode_q4_1,   LARGEST_PLAIN,    2, {0, 2}, true},
    {ENGINE_TYPE_Q5_0,   encode_q5_0,   LARGEST_PLAIN,    1, {0}, true},
    {ENGINE_TYPE_Q5_1,   encode_q5_1,   LARGEST_PLAIN,    2, {0, 2}, true},
    {ENGINE_TYPE_Q2_K,   encode_q2_k,   LARGEST_SEARCHED, 2, {80, 82}, true},
    {ENGINE_TYPE_Q3_K,   encode_q3_k,   LARGEST_SEARCHED, 1, {108}, true},
    {ENGINE_TYPE_Q4_K,   encode_q4_k,   LARGEST_SEARCHED, 2, {0, 2}, true},
    {ENGINE_TYPE_Q5_K,   encode_q5_k,   LARGEST_SEARCHED, 2, {0, 2}, true},
    {ENGINE_TYPE_Q6_K,   encode_q6_k,   LARGEST_SEARCHED, 1, {208}, true},
    {ENGINE_TYPE_IQ4_NL, encode_iq4_nl, LARGEST_SEARCHED, 1, {0}, true},
    {ENGINE_TYPE_IQ4_XS, encode_iq4_xs, LARGEST_SEARCHED, 1, {0}, true},
    /* clang-format on */
};

static const struct encoder *find_encoder(uint32_t type)
{
    for (size_t e = 0; e < sizeof encoders / sizeof *encoders; e++)
        if (encoders[e].type == type) return &encoders[e];
    return NULL;
}

encode_function *quantize_encoder(uint32_t type)
{
    const struct encoder *encoder = find_encoder(type);
    return encoder ? encoder->encode : NULL;
}

bool encode_uses_weights(uint32_t type)
{
    const struct encoder *encoder = find_encoder(type);
    return encoder && encoder->uses_weights;
}

float encode_largest(uint32_t type)
{
    const struct encoder *encoder = find_encoder(type);
    return encoder ? encoder->largest : 0;
}

bool quantize_decodes(uint32_t type)
{
    return engine_layout_of(type) != NULL;
}

void quantize_decode(uint32_t type, const uint8_t *from, size_t n, float *x)
{
    engine_weight_to_float(engine_layout_of(type), from, n, x);
}

bool quantize_encoded_is_finite(uint32_t type, const uint8_t *blocks, size_t n)
{
    const struct encoder *encoder = find_encoder(type);
    const struct type_info *info = type_info(type);
    unsigned exponent = type == ENGINE_TYPE_BF16 ? 0x7f80 : 0x7c00;
    for (size_t b = 0; b < n / info->block_length; b++, blocks += info->block_size)
        for (size_t h = 0; h < encoder->n_halves; h++) {
            uint16_t half;
            memcpy(&half, blocks + encoder->halves[h], 2);
            if ((half & exponent) == exponent) return false;
        }
    return true;
}
