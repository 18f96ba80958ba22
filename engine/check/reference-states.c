/* reference-states.c: convolutions and recurrences, see reference.h. */
#include <math.h>

#include "check/reference.h"

struct expected reference_conv(const float *weights, const float *inputs, size_t taps)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < taps; i++) {
        double product = (double)weights[i] * (double)inputs[i];
        sum += product;
        size += fabs(product);
    }
    return (struct expected){sum, 1e-6 * size + 1e-30};
}

double reference_scan_bound(double size)
{
    return 2e-5 * size + 1e-30;
}

struct expected reference_scan(const struct scanned *x, double *state, double *sizes)
{
    double erased = 0, erased_size = 0, out = 0, size = 0;
    for (size_t i = 0; i < x->key_dim && x->a; i++) {
        erased += x->erase * (double)x->a[i] * state[i];
        erased_size += fabs(x->erase * (double)x->a[i]) * sizes[i];
    }
    for (size_t i = 0; i < x->key_dim; i++) {
        double new = (double)x->k[i] * x->v, before = state[i], before_size = sizes[i],
               b = x->a ? (double)x->b[i] : 0;
        state[i] = x->w[i] * before + b * erased + new;
        sizes[i] = x->w[i] * before_size + fabs(b) * erased_size + fabs(new);
        double q = x->scale * (double)x->q[i], bonus = x->bonus ? (double)x->bonus[i] : 0;
        out += q * (x->bonus ? before + bonus * new : state[i]);
        size += fabs(q) * (x->bonus ? before_size + fabs(bonus * new) : sizes[i]);
    }
    return (struct expected){out, reference_scan_bound(size)};
}
