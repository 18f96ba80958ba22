/* vec.h: the interface between the kernels' templates and a vec-*.h, which must be included before it.
 *
 *   vf      LANES float32           vi      LANES int32           vb      4 * LANES bytes
 *   VEC_DOT4  1: vb_dot4, sums of four products of bytes; 2: vb_dot4_tokens, the same for several tokens;
 *             0: vb_dot2 and its helpers, sums of two
 *   VEC_MAX  the largest byte of a weight that these take unchanged; larger ones less 128, as signed bytes
 *   SCORE_ROWS, vec_sums, four_sums, store_scaled   for attention.h
 *
 * Sums over a row keep 16 lanes for any vector length (PARTS vectors), and are then added as
 * ((l0 + l8) + (l4 + l12)) + … : halves are added, then halves of that, and so on. Results are therefore the
 * same on all instruction sets except the scalar one. */
#ifndef CPU_KERNELS_VEC_H
#define CPU_KERNELS_VEC_H

#include "kernels.h"

#define PARTS (PANEL / LANES) /* vectors of a row of a tile, of 16 lanes */

/* e^x within about 1 unit in the last place; 0 below -104, infinity above 89. x = n ln 2 + r, |r| <= ln
 * 2 / 2, e^r by its Taylor series up to r^7 / 7!, whose remainder is below 1e-8. */
static inline vf vf_exp(vf x)
{
    x = vf_max(vf_set1(-104), vf_min(vf_set1(89), x)); /* keeps NaN: min and max then return the second */
    vf n = vf_round(vf_mul(x, vf_set1(0x1.715476p+0f)));
    vf r = vf_fma(n, vf_set1(-0x1.62e4p-1f), x); /* ln 2 in two parts; the product with the first is exact */
    r = vf_fma(n, vf_set1(-0x1.7f7d1cp-20f), r);
    vf p = vf_set1(1.0f / 5040);
    p = vf_fma(p, r, vf_set1(1.0f / 720));
    p = vf_fma(p, r, vf_set1(1.0f / 120));
    p = vf_fma(p, r, vf_set1(1.0f / 24));
    p = vf_fma(p, r, vf_set1(1.0f / 6));
    p = vf_fma(p, r, vf_set1(0.5f));
    p = vf_fma(p, r, vf_set1(1));
    p = vf_fma(p, r, vf_set1(1));
    return vf_scale_2(p, n);
}

#endif
