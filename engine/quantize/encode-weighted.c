/* encode-weighted.c: see encode.h. The search for Q4_0, Q4_1, Q5_0 and Q5_1 where values have weights.
 *
 * From each of a series of lines d q + m, it takes the nearest levels, then the line that fits these best
 * (weighted linear regression), and the nearest levels again. The line with the least weighted error wins;
 * the first is the one that the extremes of the block give. */
#include <math.h>

#include "base/half.h"
#include "quantize/encode.h"

enum { BLOCK = 32 };

struct search {
    const float *x, *weights; /* [BLOCK] */
    int most, half;
    float d, m, error; /* of the best line so far */
};

static float to_half(float value)
{
    return engine_f16_to_f32(engine_f32_to_f16(value));
}

/* The level whose value d q + m is nearest to x; by: 1 / d. */
static float level_of(float x, float m, float by, int most)
{
    float q = floorf((x - m) * by + 0.5f);
    return q < 0 ? 0 : q > (float)most ? (float)most : q;
}

/* Not 1 / 0; d is a float16, so that 1 / d is finite otherwise. */
static float weighted_inverse(float d)
{
    return d != 0 ? 1 / d : 0;
}

static void keep_better(struct search *search, float d, float m)
{
    float by = weighted_inverse(d), error = 0;
    for (int i = 0; i < BLOCK; i++) {
        float miss = search->x[i] - (d * level_of(search->x[i], m, by, search->most) + m);
        error += miss * miss * search->weights[i];
    }
    if (!(error < search->error)) return;
    search->d = d;
    search->m = m;
    search->error = error;
}

/* The line that fits the levels of a line best. */
static void refit(const struct search *search, float *d, float *m)
{
    float by = weighted_inverse(*d), w = 0, q1 = 0, q2 = 0, x1 = 0, xq = 0;
    for (int i = 0; i < BLOCK; i++) {
        float weight = search->weights[i], x = search->x[i];
        float q = level_of(x, *m, by, search->most) - (float)search->half;
        w += weight;
        q1 += weight * q;
        q2 += weight * q * q;
        x1 += weight * x;
        xq += weight * x * q;
    }
    if (search->half > 0) {
        if (q2 > 0) *d = xq / q2;
        return;
    }
    float spread = q2 - q1 * q1 / w;
    if (spread > 1e-6f * q2) {
        *d = (xq - x1 * q1 / w) / spread;
        *m = (x1 - *d * q1) / w;
    }
}

static void try_line(struct search *search, float d, float m)
{
    for (int round = 0; round < 3; round++) {
        d = to_half(d);
        m = search->half > 0 ? (float)-search->half * d : to_half(m);
        if (!isfinite(d) || !isfinite(m)) return; /* no block can have it */
        keep_better(search, d, m);
        refit(search, &d, &m);
    }
}

void encode_weighted(const float *x, const float *weights, int most, int half, float *d, float *m, uint8_t *q)
{
    struct search search = {
        .x = x, .weights = weights, .most = most, .half = half, .d = *d, .m = *m, .error = INFINITY};
    try_line(&search, *d, *m);
    if (half > 0) {
        /* The value at the end of the levels is put beside it, and on the other side, which has one level
         * less. */
        float peak = *d * (float)-half;
        for (int t = 0; t < 12; t++) {
            float end = (float)half + 0.6f - 0.2f * (float)t;
            try_line(&search, peak / -end, 0);
            try_line(&search, peak / end, 0);
        }
    } else {
        /* Both ends are moved inwards, by parts of a level. */
        for (int low = -1; low < 5; low++)
            for (int high = -1; high < 5; high++)
                try_line(&search, *d * (float)most / ((float)most + 0.25f * (float)(low + high)),
                         *m + *d * 0.25f * (float)low);
    }
    *d = search.d;
    *m = search.m;
    float by = weighted_inverse(*d);
    for (int i = 0; i < BLOCK; i++) q[i] = (uint8_t)level_of(x[i], *m, by, most);
}
