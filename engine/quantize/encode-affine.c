/* encode-affine.c: see encode.h. Types with values of d * s * q - dmin * m: Q2_K  16 sub-blocks of 16: s, m =
 * 0 … 15, q = 0 … 3 Q4_K  8 sub-blocks of 32:  s, m = 0 … 63, q = 0 … 15 Q5_K  8 sub-blocks of 32:  s, m = 0
 * … 63, q = 0 … 31
 *
 * The search minimises the sum of squared errors, each times its weight. Given levels q, the best line x =
 * scale * q - min is that of linear regression. So: (1) for each sub-block try a series of lines that put
 * its smallest value near 0 and its largest near the last level, take the nearest levels for each, and
 * keep the best line through them; (2) find the d that brings the whole numbers s closest to those scales,
 * then dmin in the same way; (3) with both fixed, also try the neighbours of each s and m, with levels
 * chosen again; (4) with s, m and q fixed, compute the best d and dmin, and see if they improve the result
 * of (3). */
#include "base/half.h"
#include "quantize/encode.h"
#include "quantize/lanes.h"

struct lines {
    lane scale[MAX_GROUPS], min[MAX_GROUPS]; /* the best: x is near scale * q - min; min >= 0 */
    lane mean[MAX_GROUPS];                   /* of q */
    lane power[MAX_GROUPS];                  /* sum of (q - mean)^2, or of q^2 if min is 0 */
    lane total[MAX_GROUPS];                  /* of the weights */
};

/* Of four sub-blocks, during the search for their lines. Sums are weighted. */
struct search {
    lane sum_1, sum_x, sum_xx;
    lane error; /* sum of squares with the best line */
    lane scale, min, mean, power;
};

/* Takes the levels nearest to (x + min) * by, and keeps the best line through them if it is better. */
INLINE void try_lines(const lane *x, const lane *w, size_t n, float most, lane min, lane by,
                      struct search *best)
{
    lane q1 = {0}, q2 = {0}, xq = {0};
    for (size_t i = 0; i < n; i++) {
        lane q = nearest(clamp((x[i] + min) * by, 0, most));
        lane wq = weight_of(w, i) * q;
        q1 += wq;
        q2 += q * wq;
        xq += x[i] * wq;
    }
    lane count = w ? best->sum_1 : splat((float)n);
    lane mean = q1 / count, power = q2 - q1 * mean;
    lane slope = pick(power > 0, (xq - best->sum_x * mean) / power, splat(0));
    lane start = slope * mean - best->sum_x / count;
    /* A line that would start above 0 is forced through 0. */
    lane_mask above = start < 0;
    slope = pick(above, pick(q2 > 0, xq / q2, splat(0)), slope);
    start = pick(above, splat(0), start);
    power = pick(above, q2, power);
    lane error = best->sum_xx + slope * (slope * q2 - 2 * xq) +
                 start * (count * start + 2 * (best->sum_x - slope * q1));
    lane_mask better = (error < best->error) & (slope >= 0);
    best->scale = pick(better, slope, best->scale);
    best->min = pick(better, start, best->min);
    best->error = pick(better, error, best->error);
    best->mean = pick(better, mean, best->mean);
    best->power = pick(better, power, best->power);
}

/* How many levels the smallest and the largest value are moved inwards by: one line is tried for each. */
static const float insets_2[] = {-0.2f, 0, 0.15f, 0.3f, 0.45f, 0.6f, 0.75f, 0.9f};
static const float insets_4[] = {-0.6f, -0.3f, 0, 0.2f, 0.4f, 0.6f, 0.8f, 1.1f};
#define N_INSETS (sizeof insets_4 / sizeof *insets_4)

INLINE void find_lines(const lane *x, const lane *w, size_t n, size_t groups, float most, struct lines *lines)
{
    const float *insets = most < 4 ? insets_2 : insets_4;
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane least = {0}, largest = x[0]; /* values above 0 must be reached without a min */
        struct search best = {.error = splat(INFINITY)};
        for (size_t i = 0; i < n; i++) {
            least = smaller(x[i], least);
            largest = larger(x[i], largest);
            lane wx = weight_of(w, i) * x[i];
            best.sum_1 += weight_of(w, i);
            best.sum_x += wx;
            best.sum_xx += x[i] * wx;
        }
        lane range = largest - least;
        for (size_t low = 0; low < N_INSETS; low += 2)
            for (size_t high = 0; high < N_INSETS; high++) {
                lane level =
                    pick(range < SMALLEST_PEAK, splat(0), range / (most + insets[low] + insets[high]));
                try_lines(x, w, n, most, -least - insets[low] * level, inverse_of(level), &best);
            }
        for (int round = 0; round < 2; round++)
            try_lines(x, w, n, most, best.min, inverse_of(best.scale), &best);
        lines->scale[g] = best.scale;
        lines->min[g] = best.min;
        lines->mean[g] = best.mean;
        lines->power[g] = best.power;
        lines->total[g] = best.sum_1;
    }
}

/* ---- Whole numbers ---- */

struct choice {
    float d, dmin;                     /* float16 numbers */
    lane s[MAX_GROUPS], m[MAX_GROUPS]; /* whole numbers */
    float error;                       /* sum of squares, of all values */
};

INLINE lane whole(lane value, float limit)
{
    return nearest(clamp(value, 0, limit));
}

/* The step whose multiples, 0 … limit times, are nearest to the targets by weight. */
INLINE float find_step(const lane *targets, const lane *weights, size_t groups, float limit)
{
    float peak = 0, best_step = 0, best_cost = INFINITY;
    for (size_t g = 0; g < groups; g++)
        for (size_t j = 0; j < LANES; j++) peak = targets[g][j] > peak ? targets[g][j] : peak;
    if (peak == 0) return 0;
    for (int t = 0; t < 16; t++) {
        float step = engine_f16_to_f32(engine_f32_to_f16(peak / (limit + 0.4f - 0.2f * (float)t))),
              by = inverse(step);
        lane cost = {0};
        for (size_t g = 0; g < groups; g++) {
            lane miss = targets[g] - step * whole(targets[g] * by, limit);
            cost += miss * miss * weights[g];
        }
        float total = sum(&cost, 1);
        best_step = total < best_cost ? step : best_step;
        best_cost = total < best_cost ? total : best_cost;
    }
    return best_step;
}

INLINE lane error_of(const lane *x, const lane *w, size_t n, float most, lane scale, lane min)
{
    lane by = inverse_of(scale), error = {0};
    for (size_t i = 0; i < n; i++) {
        lane v = x[i] + min, miss = v - scale * whole(v * by, most);
        error += miss * miss * weight_of(w, i);
    }
    return error;
}

/* The best min for a scale other than the best one: the line still goes through the mean. */
INLINE lane min_beside(const struct lines *lines, size_t g, lane scale)
{
    return larger(lines->min[g] + (scale - lines->scale[g]) * lines->mean[g], splat(0));
}

/* (3) */
INLINE void find_whole(const lane *x, const lane *w, size_t n, size_t groups, float most, float limit,
                       const struct lines *lines, struct choice *choice)
{
    float s_by = inverse(choice->d), m_by = inverse(choice->dmin);
    lane errors[MAX_GROUPS];
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane first = whole(lines->scale[g] * s_by, limit), best = splat(INFINITY);
        choice->s[g] = choice->m[g] = splat(0);
        for (int ds = -1; ds <= 1; ds++) {
            lane s = clamp(first + (float)ds, 0, limit), scale = choice->d * s;
            lane middle = whole(min_beside(lines, g, scale) * m_by, limit);
            for (int dm = -1; dm <= 1; dm++) {
                lane m = clamp(middle + (float)dm, 0, limit);
                lane error = error_of(x, w, n, most, scale, choice->dmin * m);
                lane_mask better = error < best;
                best = pick(better, error, best);
                choice->s[g] = pick(better, s, choice->s[g]);
                choice->m[g] = pick(better, m, choice->m[g]);
            }
        }
        errors[g] = best;
    }
    choice->error = sum(errors, groups);
}

/* (4): the best d and dmin for the levels of a choice: x is near d a - dmin m, a = s q. */
INLINE void refit_steps(const lane *x, const lane *w, size_t n, size_t groups, float most,
                        const struct choice *choice, struct choice *next)
{
    lane lane_aa = {0}, lane_ax = {0}, lane_am = {0}, lane_mm = {0}, lane_mx = {0};
    for (size_t g = 0; g < groups; g++, x += n, w = weights_at(w, n)) {
        lane m = choice->m[g], min = choice->dmin * m, by = inverse_of(choice->d * choice->s[g]);
        for (size_t i = 0; i < n; i++) {
            lane a = choice->s[g] * whole((x[i] + min) * by, most);
            lane wa = weight_of(w, i) * a, wm = weight_of(w, i) * m;
            lane_aa += a * wa;
            lane_ax += wa * x[i];
            lane_am += wa * m;
            lane_mm += m * wm;
            lane_mx += wm * x[i];
        }
    }
    float aa = sum(&lane_aa, 1), ax = sum(&lane_ax, 1), am = sum(&lane_am, 1);
    float mm = sum(&lane_mm, 1), mx = sum(&lane_mx, 1);
    float determinant = aa * mm - am * am, d = choice->d, dmin = choice->dmin;
    if (determinant > 1e-6f * aa * mm) {
        d = (ax * mm - mx * am) / determinant;
        dmin = (ax * am - mx * aa) / determinant;
    } else if (aa > mm) {
        d = (ax + dmin * am) / aa;
    } else if (mm > 0) {
        dmin = (d * am - mx) / mm;
    }
    next->d = engine_f16_to_f32(engine_f32_to_f16(d));
    next->dmin = engine_f16_to_f32(engine_f32_to_f16(dmin));
}

INLINE void choose(const lane *x, const lane *w, size_t n, size_t groups, float most, float limit,
                   struct choice *best)
{
    struct lines lines;
    struct choice next;
    lane targets[MAX_GROUPS], totals[MAX_GROUPS];
    find_lines(x, w, n, groups, most, &lines);
    best->d = find_step(lines.scale, lines.power, groups, limit);
    for (size_t g = 0; g < groups; g++) {
        targets[g] = min_beside(&lines, g, best->d * whole(lines.scale[g] * inverse(best->d), limit));
        totals[g] = w ? lines.total[g] : splat(1);
    }
    best->dmin = find_step(targets, totals, groups, limit);
    find_whole(x, w, n, groups, most, limit, &lines, best);
    for (int round = 0; round < 2; round++) {
        refit_steps(x, w, n, groups, most, best, &next);
        if ((next.d == best->d && next.dmin == best->dmin) || next.d < 0 || next.dmin < 0) return;
        find_whole(x, w, n, groups, most, limit, &lines, &next);
        if (next.error >= best->error) return;
        *best = next;
    }
}

/* The stored numbers of a block of 256 values. */
struct found {
    float d, dmin;
    uint8_t q[256], s[16], m[16];
};

INLINE void search(const float *values, const float *weights, size_t n, float most, float limit,
                   struct found *found)
{
    lane x[256 / LANES], w[256 / LANES];
    size_t groups = 256 / LANES / n;
    struct choice choice;
    turn(values, n, groups, x);
    if (weights) {
        turn(weights, n, groups, w);
        choose(x, w, n, groups, most, limit, &choice);
    } else {
        choose(x, NULL, n, groups, most, limit, &choice);
    }
    found->d = choice.d;
    found->dmin = choice.dmin;
    for (size_t g = 0; g < groups; g++) {
        lane by = inverse_of(choice.d * choice.s[g]), min = choice.dmin * choice.m[g];
        for (size_t i = 0; i < n; i++) {
            lane q = whole((x[g * n + i] + min) * by, most);
            for (size_t j = 0; j < LANES; j++) found->q[(g * LANES + j) * n + i] = (uint8_t)q[j];
        }
        for (size_t j = 0; j < LANES; j++) {
            found->s[g * LANES + j] = (uint8_t)choice.s[g][j];
            found->m[g * LANES + j] = (uint8_t)choice.m[g][j];
        }
    }
}

/* 16 bytes of scales (low nibbles) and mins (high nibbles), 64 of levels, d, dmin. For each 128 values, 32
 * bytes hold the levels: two bits for each of four values, 32 apart. */
void encode_q2_k(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    struct found found;
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 84) {
        search(values, block_weights(weights, b), 16, 3, 15, &found);
        memset(blocks, 0, 80);
        for (size_t j = 0; j < 16; j++) blocks[j] = (uint8_t)(found.s[j] | found.m[j] << 4);
        for (size_t i = 0; i < 256; i++)
            blocks[16 + i / 128 * 32 + i % 32] |= (uint8_t)(found.q[i] << i % 128 / 32 * 2);
        store_half(blocks + 80, found.d);
        store_half(blocks + 82, found.dmin);
    }
}

/* d, dmin, and 12 bytes of six-bit scales and mins: 4 + 4 with the high two bits of the last four on top,
 * then the low four bits of those. */
static void store_head(const struct found *found, uint8_t *to)
{
    store_half(to, found->d);
    store_half(to + 2, found->dmin);
    uint8_t *packed = to + 4;
    for (size_t j = 0; j < 4; j++) {
        unsigned s = found->s[j], m = found->m[j], s_late = found->s[4 + j], m_late = found->m[4 + j];
        packed[j] = (uint8_t)(s | s_late >> 4 << 6);
        packed[4 + j] = (uint8_t)(m | m_late >> 4 << 6);
        packed[8 + j] = (uint8_t)((s_late & 15) | m_late << 4);
    }
}

/* 32 bytes hold the low four bits of 64 values, 32 apart. */
static void store_low_bits(const uint8_t *q, uint8_t *to)
{
    for (size_t i = 0; i < 128; i++) {
        const uint8_t *pair = q + i / 32 * 64 + i % 32;
        to[i] = (uint8_t)((pair[0] & 15) | pair[32] << 4);
    }
}

void encode_q4_k(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    struct found found;
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 144) {
        search(values, block_weights(weights, b), 32, 15, 63, &found);
        store_head(&found, blocks);
        store_low_bits(found.q, blocks + 16);
    }
}

/* After the head: 32 bytes with the fifth bits, one for each of eight values, 32 apart. */
void encode_q5_k(const float *values, const float *weights, size_t n, uint8_t *blocks)
{
    struct found found;
    for (size_t b = 0; b < n / 256; b++, values += 256, blocks += 176) {
        search(values, block_weights(weights, b), 32, 31, 63, &found);
        store_head(&found, blocks);
        memset(blocks + 16, 0, 32);
        for (size_t i = 0; i < 256; i++) blocks[16 + i % 32] |= (uint8_t)((found.q[i] >> 4) << i / 32);
        store_low_bits(found.q, blocks + 48);
    }
}
