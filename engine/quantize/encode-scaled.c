/* encode-scaled.c: see encode.h. Types with values that are products of a scale and a level:
 *   Q6_K    16 sub-blocks of 16: d * s * q, s int8, q = -32 … 31
 *   Q3_K    16 sub-blocks of 16: d * s * q, s = -32 … 31, q = -4 … 3
 *   IQ4_XS  8 sub-blocks of 32:  d * s * level, s = -32 … 31, 16 uneven levels
 *   IQ4_NL  blocks of 32:        d * level
 *
 * The search minimises the sum of squared errors, each times its weight. Given levels q, the best scale of a
 * sub-block is sum(x q) / sum(q q), and it explains sum(x q)^2 / sum(q q) of sum(x x). So: (1) for each
 * sub-block try a series of scales that put its largest value near the end of the levels, take the nearest
 * levels for each, and keep the scale that explains most; (2) find the d that brings the whole numbers s
 * closest to those scales; (3) with d fixed, also try the neighbours of each s, with levels chosen again; (4)
 * with s and q fixed, compute the best d, and see if it improves the result of (3). */
#include "base/half.h"
#include "quantize/encode.h"
#include "quantize/lanes.h"

enum levels { LEVELS_Q3, LEVELS_Q6, LEVELS_IQ4 };

/* The nearest level. */
INLINE lane snap(enum levels levels, lane v)
{
    if (levels == LEVELS_Q3) return nearest(clamp(v, -4, 3));
    if (levels == LEVELS_Q6) return nearest(clamp(v, -32, 31));
    /* Starts at -127 and adds a step for each midpoint between neighbours that v has passed. */
    static const struct {
        float middle, step;
    } steps[15] = {
        {-115.5f, 23}, {-93.5f, 21}, {-74, 18},   {-57, 16}, {-42, 14},
        {-28.5f, 13},  {-16, 12},    {-4.5f, 11}, {7, 12},   {19, 12},
        {31.5f, 13},   {45.5f, 15},  {61, 16},    {79, 20},  {101, 24},
    };
    lane q = splat(-127);
    for (size_t t = 0; t < 15; t++) q += (lane)((v > steps[t].middle) & (lane_mask)splat(steps[t].step));
    return q;
}

/* The targets of the largest value, in units of the levels; the search tries each. */
static const float ends_q3[] = {-2.6f, -2.9f, -3.2f, -3.5f, -3.8f, -4.1f, -4.4f,
                                -4.7f, -5.0f, 2.6f,  2.9f,  3.2f,  3.5f};
static const float ends_q6[] = {-30.4f, -30.8f, -31.2f, -31.6f, -32.0f, -32.4f, -32.8f, 30.4f, 30.9f, 31.4f};
static const float ends_iq4[] = {-103, -108, -113, -118, -123, -128, -133, -138,
                                 -145, 90,   95,   100,  105,  110,  115,  121};

struct scales {
    lane scale[MAX_GROUPS]; /* the best */
    lane power[MAX_GROUPS]; /* sum of q q with it */
};

/* Takes the levels nearest to x times `by`, and keeps their best scale if it explains more. */
INLINE void try_scales(enum levels levels, const lane *x, const lane *w, size_t n, lane by, lane *scale,
                       lane *power)
{
    lane xq = {0}, qq = {0};
    for (size_t i = 0; i < n; i++) {
        lane q = snap(levels, x[i] * by);
        lane wq = weight_of(w, i) * q;
        xq += x[i] * wq;
        qq += q * wq;
    }
    lane tried = pick(qq > 0, xq / qq, splat(0));
    lane_mask better = tried * xq > *scale * *scale * *power;
    *scale = pick(better, tried, *scale);
    *power = pick(better, qq, *power);
}

INLINE void find_scales(enum levels levels, const lane *x, const lane *w, size_t n, size_t groups,
                        struct scales *best)
{
    const float *ends = levels == LEVELS_Q3 ? ends_q3 : levels == LEVELS_Q6 ? ends_q6 : ends_iq4;
    size_t n_ends = levels == LEVELS_Q3   ? sizeof ends_q3 / sizeof *ends
                    : levels == LEVELS_Q6 ? sizeof ends_q6 / sizeof *ends
                                          : sizeof ends_iq4 / sizeof *ends;
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane peak = {0}, scale = {0}, power = {0};
        for (size_t i = 0; i < n; i++) peak = pick(size_of(x[i]) > size_of(peak), x[i], peak);
        peak = pick(size_of(peak) < SMALLEST_PEAK, splat(0), inverse_of(peak));
        for (size_t e = 0; e < n_ends; e++) try_scales(levels, x, w, n, ends[e] * peak, &scale, &power);
        try_scales(levels, x, w, n, inverse_of(scale), &scale, &power);
        best->scale[g] = scale;
        best->power[g] = power;
    }
}

/* ---- Types with whole-number scales ---- */

struct choice {
    float d;            /* a float16 */
    lane s[MAX_GROUPS]; /* whole numbers */
    float error;        /* sum of squares, of all values */
};

/* (2): the d for which d * s is nearest to the scales, with errors weighted by their effect. */
INLINE float find_step(const struct scales *scales, size_t groups, float least, float most)
{
    float peak = 0, best_d = 0, best_cost = INFINITY;
    for (size_t g = 0; g < groups; g++)
        for (size_t j = 0; j < LANES; j++)
            if (fabsf(scales->scale[g][j]) > fabsf(peak)) peak = scales->scale[g][j];
    if (peak == 0) return 0;
    for (int t = 0; t < 24; t++) {
        float end = t < 16 ? least + 0.5f * (float)t : most - 0.5f * (float)(t - 16);
        float d = engine_f16_to_f32(engine_f32_to_f16(peak / end)), by = inverse(d);
        lane cost = {0};
        for (size_t g = 0; g < groups; g++) {
            lane miss = scales->scale[g] - d * nearest(clamp(scales->scale[g] * by, least, most));
            cost += miss * miss * scales->power[g];
        }
        float total = sum(&cost, 1);
        best_d = total < best_cost ? d : best_d;
        best_cost = total < best_cost ? total : best_cost;
    }
    return best_d;
}

INLINE lane error_of(enum levels levels, const lane *x, const lane *w, size_t n, lane scale)
{
    lane by = inverse_of(scale), error = {0};
    for (size_t i = 0; i < n; i++) {
        lane miss = x[i] - scale * snap(levels, x[i] * by);
        error += miss * miss * weight_of(w, i);
    }
    return error;
}

/* (3): the best s near the scales, for a given d. */
INLINE void find_whole_scales(enum levels levels, const lane *x, const lane *w, size_t n, size_t groups,
                              const lane *scale, float least, float most, struct choice *choice)
{
    lane errors[MAX_GROUPS];
    float by = inverse(choice->d);
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane first = nearest(clamp(scale[g] * by, least, most)), best = first, best_error = splat(INFINITY);
        for (int offset = -1; offset <= 1; offset++) {
            lane s = clamp(first + (float)offset, least, most);
            lane error = error_of(levels, x, w, n, choice->d * s);
            best = pick(error < best_error, s, best);
            best_error = smaller(error, best_error);
        }
        choice->s[g] = best;
        errors[g] = best_error;
    }
    choice->error = sum(errors, groups);
}

/* (4): the best d for the levels of a choice. */
INLINE float refit_step(enum levels levels, const lane *x, const lane *w, size_t n, size_t groups,
                        const struct choice *choice)
{
    lane xq = {0}, qq = {0};
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane by = inverse_of(choice->d * choice->s[g]);
        for (size_t i = 0; i < n; i++) {
            lane q = choice->s[g] * snap(levels, x[i] * by);
            lane wq = weight_of(w, i) * q;
            xq += x[i] * wq;
            qq += q * wq;
        }
    }
    float total = sum(&qq, 1);
    return total > 0 ? engine_f16_to_f32(engine_f32_to_f16(sum(&xq, 1) / total)) : 0;
}

INLINE void choose(enum levels levels, const lane *x, const lane *w, size_t n, size_t groups, float least,
                   float most, struct choice *best)
{
    struct scales scales;
    find_scales(levels, x, w, n, groups, &scales);
    best->d = find_step(&scales, groups, least, most);
    find_whole_scales(levels, x, w, n, groups, scales.scale, least, most, best);
    for (int round = 0; round < 2; round++) {
        struct choice next = {.d = refit_step(levels, x, w, n, groups, best)};
        if (next.d == best->d || next.d == 0) return;
        find_whole_scales(levels, x, w, n, groups, scales.scale, least, most, &next);
        if (next.error >= best->error) return;
        *best = next;
    }
}

/* The levels of four sub-blocks, in the file's order. */
INLINE void store_levels(enum levels levels, const lane *x, size_t n, lane scale, int8_t *q)
{
    lane by = inverse_of(scale);
    for (size_t i = 0; i < n; i++) {
        lane level = snap(levels, x[i] * by);
        for (size_t j = 0; j < LANES; j++) q[j * n + i] = (int8_t)level[j];
    }
}

/* Chooses the levels and scales of a block of 256 values; returns d. */
INLINE float search(enum levels levels, const float *values, const float *weights, size_t n, float least,
                    float most, int8_t *q, int8_t *s)
{
    lane x[256 / LANES], w[256 / LANES];
    size_t groups = 256 / LANES / n;
    struct choice choice;
    turn(values, n, groups, x);
    if (weights) {
        turn(weights, n, groups, w);
        choose(levels, x, w, n, groups, least, most, &choice);
    } else {
        choose(levels, x, NULL, n, groups, least, most, &choice);
    }
    for (size_t g = 0; g < groups; g++) {
        store_levels(levels, x + g * n, n, choice.d * choice.s[g], q + g * LANES * n);
        for (size_t j = 0; j < LANES; j++) s[g * LANES + j] = (int8_t)choice.s[g][j];
    }
    return choice.d;
}

/* ql: low four bits; qh: high two; 16 scales; d. For each 128 values, the low nibbles of 64 bytes hold the
 * first 64, the high nibbles the others; a byte of qh belongs to four values, 32 apart. */
void encode_q6_k(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    int8_t q[256], s[16];
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 210) {
        float d = search(LEVELS_Q6, values, block_weights(weights, b), 16, -128, 127, q, s);
        memset(blocks, 0, 192);
        for (size_t i = 0; i < 256; i++) {
            uint8_t level = (uint8_t)(q[i] + 32);
            size_t half = i / 128, at = i % 128;
            blocks[64 * half + at % 64] |= (uint8_t)((level & 15) << at / 64 * 4);
            blocks[128 + 32 * half + at % 32] |= (uint8_t)((level >> 4) << at / 32 * 2);
        }
        for (size_t j = 0; j < 16; j++) blocks[192 + j] = (uint8_t)s[j];
        store_half(blocks + 208, d);
    }
}

/* 32 bytes with the third bits, 64 with the low two, 12 with the scales, d. */
void encode_q3_k(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    int8_t q[256], s[16];
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 110) {
        float d = search(LEVELS_Q3, values, block_weights(weights, b), 16, -32, 31, q, s);
        memset(blocks, 0, 108);
        for (size_t i = 0; i < 256; i++) {
            uint8_t level = (uint8_t)(q[i] + 4);
            blocks[i % 32] |= (uint8_t)((level >> 2) << i / 32);
            blocks[32 + i / 128 * 32 + i % 32] |= (uint8_t)((level & 3) << i % 128 / 32 * 2);
        }
        for (size_t j = 0; j < 16; j++) {
            uint8_t scale = (uint8_t)(s[j] + 32);
            blocks[96 + j % 8] |= (uint8_t)((scale & 15) << j / 8 * 4);
            blocks[104 + j % 4] |= (uint8_t)((scale >> 4) << j / 4 * 2);
        }
        store_half(blocks + 108, d);
    }
}

/* The number of a level of IQ4. */
static uint8_t iq4_code(int8_t level)
{
    static const int8_t levels[16] = {-127, -104, -83, -65, -49, -35, -22, -10,
                                      1,    13,   25,  38,  53,  69,  89,  113};
    uint8_t code = 0;
    while (levels[code] != level) code++;
    return code;
}

/* d; the high two bits of 8 scales; their low four; 8 x 16 bytes of codes. */
void encode_iq4_xs(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    int8_t q[256], s[16];
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 136) {
        float d = search(LEVELS_IQ4, values, block_weights(weights, b), 32, -32, 31, q, s);
        memset(blocks, 0, 8);
        store_half(blocks, d);
        for (size_t j = 0; j < 8; j++) {
            uint8_t scale = (uint8_t)(s[j] + 32);
            blocks[2 + j / 4] |= (uint8_t)((scale >> 4) << j % 4 * 2);
            blocks[4 + j / 2] |= (uint8_t)((scale & 15) << j % 2 * 4);
            for (size_t i = 0; i < 16; i++)
                blocks[8 + 16 * j + i] =
                    (uint8_t)(iq4_code(q[32 * j + i]) | iq4_code(q[32 * j + 16 + i]) << 4);
        }
    }
}

/* d, 16 bytes of codes. Four blocks at once, or as many as are left. */
void encode_iq4_nl(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    enum { AT_ONCE = 32 * LANES };
    float rest[AT_ONCE] = {0}, rest_weights[AT_ONCE] = {0};
    int8_t q[AT_ONCE];
    lane x[32], w[32];
    struct scales scales;
    for (size_t at = 0; at < n; at += AT_ONCE) {
        size_t count = n - at < AT_ONCE ? n - at : AT_ONCE;
        if (count < AT_ONCE) memcpy(rest, values + at, count * sizeof *rest);
        turn(count < AT_ONCE ? rest : values + at, 32, 1, x);
        if (weights) {
            if (count < AT_ONCE) memcpy(rest_weights, weights + at, count * sizeof *rest_weights);
            turn(count < AT_ONCE ? rest_weights : weights + at, 32, 1, w);
            find_scales(LEVELS_IQ4, x, w, 32, 1, &scales);
        } else {
            find_scales(LEVELS_IQ4, x, NULL, 32, 1, &scales);
        }
        lane d = {0};
        for (size_t j = 0; j < count / 32; j++) d[j] = store_half(blocks + 18 * j, scales.scale[0][j]);
        store_levels(LEVELS_IQ4, x, 32, d, q);
        for (size_t j = 0; j < count / 32; j++, blocks += 18)
            for (size_t i = 0; i < 16; i++)
                blocks[2 + i] = (uint8_t)(iq4_code(q[32 * j + i]) | iq4_code(q[32 * j + 16 + i]) << 4);
    }
}
