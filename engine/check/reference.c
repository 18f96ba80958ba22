/* reference.c: see reference.h. */
#include "check/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/numbers.h"
#include "plugin-api.h"

double reference_activation(uint32_t activation, double x)
{
    return activation == ENGINE_ACTIVATION_SILU ? x / (1 + exp(-x)) : x;
}

/* ---- Matmul ---------------------------------------------------------------------------------------- */

bool reference_is_quantised(uint32_t type)
{
    return type != ENGINE_TYPE_F32 && type != ENGINE_TYPE_F16 && type != ENGINE_TYPE_BF16;
}

struct expected reference_dot(uint32_t type, const double *weight, const float *input, size_t k,
                              double rounding)
{
    double sum = 0, size = 0, steps = 0;
    for (size_t block = 0; block < k; block += 32) {
        size_t end = block + 32 < k ? block + 32 : k;
        double max = 0, weights = 0;
        for (size_t i = block; i < end; i++) {
            double x = (double)input[i];
            sum += weight[i] * x;
            size += fabs(weight[i] * x);
            weights += fabs(weight[i]);
            max = fmax(max, fabs(x));
        }
        steps += weights * max / 254; /* half a step of max / 127 for each */
    }
    return (struct expected){sum,
                             1e-6 * size + (reference_is_quantised(type) ? 1.01 * steps : rounding * size)};
}

struct expected reference_matmul(struct expected product, const struct expected *gate, uint32_t activation,
                                 float scale, const float *bias, const float *residual)
{
    enum { SLOPE = 11 }; /* tenths: silu is nowhere steeper than 1.1 */
    struct expected out;
    if (gate) {
        double factor = reference_activation(activation, gate->value), bound = gate->bound * SLOPE / 10;
        out.value = product.value * factor;
        out.bound = product.bound * fabs(factor) + bound * fabs(product.value) + product.bound * bound;
    } else {
        double times = scale == 0 ? 1 : (double)scale;
        out.value = reference_activation(activation, product.value * times + (bias ? (double)*bias : 0));
        out.bound = product.bound * fabs(times) * SLOPE / 10;
    }
    if (residual) out.value += (double)*residual;
    out.bound += 1e-6 * (fabs(out.value) + 1);
    return out;
}

double reference_matmul_share(bool quantised, double rounding)
{
    return quantised ? 0.02 : 2e-6 + rounding;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

double reference_rms(const float *row, size_t n, float epsilon)
{
    double squares = 0;
    for (size_t i = 0; i < n; i++) squares += (double)row[i] * (double)row[i];
    return 1 / sqrt(squares / (double)n + (double)epsilon);
}

double reference_row_bound(double value)
{
    return 1e-6 * fabs(value) + 1e-30;
}

void reference_turn(double *a, double *b, double position, double position_scale, double theta, double n_dims,
                    size_t pair, double factor)
{
    double angle = position * position_scale * pow(theta, -2.0 * (double)pair / n_dims) / factor;
    double x = *a, y = *b;
    *a = x * cos(angle) - y * sin(angle);
    *b = x * sin(angle) + y * cos(angle);
}

double reference_turn_bound(double a, double b)
{
    return (fabs(a) + fabs(b)) * 3e-7 + 1e-30;
}

/* ---- Attention ------------------------------------------------------------------------------------- */

static void put_q8_0(const float *values, uint8_t *block)
{
    double max = 0;
    for (size_t i = 0; i < 32; i++) {
        double size = fabs((double)values[i]);
        if (size > max) max = size; /* not fmax, which GCC 12 for ARM breaks down at */
    }
    put_half(block, (double)(float)(max / 127));
    for (size_t i = 0; i < 32; i++)
        block[2 + i] = (uint8_t)(max > 0 ? (int8_t)round((double)values[i] * 127 / max) : 0);
}

void reference_cache_row(uint32_t type, const float *values, size_t n, uint8_t *bytes)
{
    switch (type) {
    case ENGINE_TYPE_F32: memcpy(bytes, values, n * sizeof *values); break;
    case ENGINE_TYPE_F16:
        for (size_t i = 0; i < n; i++) put_half(bytes + 2 * i, (double)values[i]);
        break;
    default:
        for (size_t i = 0; i < n; i += 32) put_q8_0(values + i, bytes + i / 32 * 34);
        break;
    }
}

bool reference_attend(const float *q, const double *keys, const double *values, size_t n, size_t stride,
                      size_t dim, double scale, double *out, double *size)
{
    *size = 0;
    double *scores = calloc(n, sizeof *scores), max = -INFINITY, sum = 0;
    if (!scores) return false;
    for (size_t j = 0; j < n; j++) {
        double sizes = 0;
        for (size_t d = 0; d < dim; d++) {
            double product = (double)q[d] * keys[j * stride + d] * scale;
            scores[j] += product;
            sizes += fabs(product);
        }
        max = fmax(max, scores[j]);
        *size = fmax(*size, sizes);
    }
    for (size_t d = 0; d < dim; d++) out[d] = 0;
    for (size_t j = 0; j < n; j++) {
        double weight = exp(scores[j] - max);
        sum += weight;
        for (size_t d = 0; d < dim; d++) out[d] += weight * values[j * stride + d];
    }
    for (size_t d = 0; d < dim; d++) out[d] /= sum;
    free(scores);
    return true;
}

double reference_attention_bound(double largest, double size)
{
    return 1e-6 * largest * fmax(1, size / 8) + 1e-30;
}
