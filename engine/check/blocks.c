/* blocks.c: see blocks.h. `q` points at a block as it lies in files; values[i] is its i-th value. */
#include "check/blocks.h"

#include <math.h>

#include "check/numbers.h"
#include "plugin-api.h"

/* ---- Blocks of 32 --------------------------------------------------------------------------------------------------- */

/* Nibble i: 0 … 15 are the low halves of bytes, 16 … 31 the high ones. */
static int nibble(const uint8_t *bytes, int i)
{
    return i < 16 ? bytes[i] & 15 : bytes[i - 16] >> 4;
}

static void q4_1_randomise(uint64_t *seed, uint8_t *q)
{
    put_half(q, random_scale(seed, 0.25));
    put_half(q + 2, random_scale(seed, 2));
    random_bytes(seed, q + 4, 16);
}

static void q4_1_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = get_half(q) * nibble(q + 4, i) + get_half(q + 2);
}

static int five_bits(const uint8_t *high, const uint8_t *low, int i)
{
    return nibble(low, i) | (high[i / 8] >> i % 8 & 1) << 4;
}

static void q5_0_randomise(uint64_t *seed, uint8_t *q)
{
    put_half(q, random_scale(seed, 0.125));
    random_bytes(seed, q + 2, 20);
}

static void q5_0_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = get_half(q) * (five_bits(q + 2, q + 6, i) - 16);
}

static void q5_1_randomise(uint64_t *seed, uint8_t *q)
{
    put_half(q, random_scale(seed, 0.125));
    put_half(q + 2, random_scale(seed, 2));
    random_bytes(seed, q + 4, 20);
}

static void q5_1_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = get_half(q) * five_bits(q + 4, q + 8, i) + get_half(q + 2);
}

static const int nonlinear[16] = {-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

static void iq4_nl_randomise(uint64_t *seed, uint8_t *q)
{
    put_half(q, random_scale(seed, 1.0 / 64));
    random_bytes(seed, q + 2, 16);
}

static void iq4_nl_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 32; i++) values[i] = get_half(q) * nonlinear[nibble(q + 2, i)];
}

static void mxfp4_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 17);
    q[0] = (uint8_t)(124 + q[0] % 5); /* 2^-3 … 2 */
}

static void mxfp4_values(const uint8_t *q, double *values)
{
    static const double e2m1[8] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    for (int i = 0; i < 32; i++) {
        int bits = nibble(q + 1, i);
        values[i] = ldexp(bits & 8 ? -e2m1[bits & 7] : e2m1[bits], q[0] - 127);
    }
}

/* ---- Blocks of 256 -------------------------------------------------------------------------------------------------- */

static void q2_k_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 80);
    put_half(q + 80, random_scale(seed, 1.0 / 16));
    put_half(q + 82, random_scale(seed, 1.0 / 16));
}

static void q2_k_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 256; i++) {
        int scale = q[i / 16], bits = q[16 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        values[i] = get_half(q + 80) * (scale & 15) * bits - get_half(q + 82) * (scale >> 4);
    }
}

static void q3_k_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 108);
    put_half(q + 108, random_scale(seed, 1.0 / 64));
}

static void q3_k_values(const uint8_t *q, double *values)
{
    const uint8_t *scales = q + 96;
    for (int i = 0; i < 256; i++) {
        int group = i / 16;
        int low = group < 8 ? scales[group] & 15 : scales[group - 8] >> 4;
        int scale = (low | (scales[8 + group % 4] >> group / 4 * 2 & 3) << 4) - 32;
        int bits = q[32 + i / 128 * 32 + i % 32] >> i % 128 / 32 * 2 & 3;
        if (!(q[i % 32] >> i / 32 & 1)) bits -= 4;
        values[i] = get_half(q + 108) * scale * bits;
    }
}

/* Scale and minimum of 32 values: eight of each in twelve bytes. */
static void six_bits(const uint8_t *bytes, int group, int *scale, int *minimum)
{
    if (group < 4) {
        *scale = bytes[group] & 63;
        *minimum = bytes[group + 4] & 63;
    } else {
        *scale = (bytes[group + 4] & 15) | bytes[group - 4] >> 6 << 4;
        *minimum = bytes[group + 4] >> 4 | bytes[group] >> 6 << 4;
    }
}

static void q4_k_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 144);
    put_half(q, random_scale(seed, 1.0 / 256));
    put_half(q + 2, random_scale(seed, 1.0 / 64));
}

static void q4_k_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 256; i++) {
        int scale, minimum, bits = q[16 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
        six_bits(q + 4, i / 32, &scale, &minimum);
        values[i] = get_half(q) * scale * bits - get_half(q + 2) * minimum;
    }
}

static void q5_k_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 176);
    put_half(q, random_scale(seed, 1.0 / 512));
    put_half(q + 2, random_scale(seed, 1.0 / 64));
}

static void q5_k_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 256; i++) {
        int scale, minimum, bits = q[48 + i / 64 * 32 + i % 32] >> i / 32 % 2 * 4 & 15;
        bits |= (q[16 + i % 32] >> i / 32 & 1) << 4;
        six_bits(q + 4, i / 32, &scale, &minimum);
        values[i] = get_half(q) * scale * bits - get_half(q + 2) * minimum;
    }
}

static void q6_k_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 208);
    put_half(q + 208, random_scale(seed, 1.0 / 1024));
}

static void q6_k_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 256; i++) {
        int half = i / 128, quarter = i % 128 / 32;
        int bits = q[half * 64 + quarter % 2 * 32 + i % 32] >> quarter / 2 * 4 & 15;
        bits |= (q[128 + half * 32 + i % 32] >> quarter * 2 & 3) << 4;
        values[i] = get_half(q + 208) * (int8_t)q[192 + i / 16] * (bits - 32);
    }
}

static void iq4_xs_randomise(uint64_t *seed, uint8_t *q)
{
    random_bytes(seed, q, 136);
    put_half(q, random_scale(seed, 1.0 / 1024));
}

static void iq4_xs_values(const uint8_t *q, double *values)
{
    for (int i = 0; i < 256; i++) {
        int group = i / 32, high = q[2] | q[3] << 8;
        int scale = ((q[4 + group / 2] >> group % 2 * 4 & 15) | (high >> group * 2 & 3) << 4) - 32;
        values[i] = get_half(q) * scale * nonlinear[nibble(&q[8 + group * 16], i % 32)];
    }
}

const struct format block_formats[] = {
    {ENGINE_TYPE_Q4_1, "Q4_1", 32, 20, q4_1_randomise, q4_1_values},
    {ENGINE_TYPE_Q5_0, "Q5_0", 32, 22, q5_0_randomise, q5_0_values},
    {ENGINE_TYPE_Q5_1, "Q5_1", 32, 24, q5_1_randomise, q5_1_values},
    {ENGINE_TYPE_Q2_K, "Q2_K", 256, 84, q2_k_randomise, q2_k_values},
    {ENGINE_TYPE_Q3_K, "Q3_K", 256, 110, q3_k_randomise, q3_k_values},
    {ENGINE_TYPE_Q4_K, "Q4_K", 256, 144, q4_k_randomise, q4_k_values},
    {ENGINE_TYPE_Q5_K, "Q5_K", 256, 176, q5_k_randomise, q5_k_values},
    {ENGINE_TYPE_Q6_K, "Q6_K", 256, 210, q6_k_randomise, q6_k_values},
    {ENGINE_TYPE_IQ4_NL, "IQ4_NL", 32, 18, iq4_nl_randomise, iq4_nl_values},
    {ENGINE_TYPE_IQ4_XS, "IQ4_XS", 256, 136, iq4_xs_randomise, iq4_xs_values},
    {ENGINE_TYPE_MXFP4, "MXFP4", 32, 17, mxfp4_randomise, mxfp4_values},
};
const size_t n_block_formats = sizeof block_formats / sizeof *block_formats;
