/* reference.c: see reference.h. */
#include "check/reference.h"

#include <math.h>
#include <string.h>

#include "check/numbers.h"

/* ---- Activations ----------------------------------------------------------------------------------- */

static double sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double clamp(double x, double limit)
{
    return fmin(fmax(x, -limit), limit);
}

/* The activation, and its possible error before a factor is multiplied with it. */
static struct expected activation_of(uint32_t activation, double limit, double alpha, double x)
{
    const double size = fabs(x);
    double g = fmin(x, limit); /* of SWIGLU_CLAMPED */
    switch (activation) {
    case ENGINE_ACTIVATION_NONE: return (struct expected){x, 0};
    case ENGINE_ACTIVATION_SILU: return (struct expected){x * sigmoid(x), 0};
    case ENGINE_ACTIVATION_GELU_ERF: return (struct expected){x / 2 * erfc(-x * sqrt(0.5)), 1e-6 * size};
    case ENGINE_ACTIVATION_GELU_TANH:
        return (struct expected){x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))),
                                 1e-6 * size};
    case ENGINE_ACTIVATION_RELU: return (struct expected){fmax(x, 0), 0};
    case ENGINE_ACTIVATION_RELU_SQUARED: return (struct expected){fmax(x, 0) * fmax(x, 0), 0};
    case ENGINE_ACTIVATION_SIGMOID: return (struct expected){sigmoid(x), 1e-6};
    case ENGINE_ACTIVATION_TANH: return (struct expected){tanh(x), 2e-6 * size};
    case ENGINE_ACTIVATION_SOFTPLUS:
        return (struct expected){fmax(x, 0) + log1p(exp(-size)), 1e-6 * (1 + fmax(x, 0))};
    case ENGINE_ACTIVATION_CLAMP: return (struct expected){clamp(x, limit), 0};
    case ENGINE_ACTIVATION_SOFTCAP: return (struct expected){limit * tanh(x / limit), 2e-6 * size};
    case ENGINE_ACTIVATION_SWIGLU_CLAMPED:
        return (struct expected){g * sigmoid(alpha * g), 2e-6 * (g < 0 ? -g : g)};
    case ENGINE_ACTIVATION_EXP: return (struct expected){exp(x), 2e-6 * exp(x)};
    default: return (struct expected){NAN, 0}; /* one that is missing here: no result matches */
    }
}

struct expected reference_activate(uint32_t activation, float limit, float alpha, double x,
                                   const float *factor)
{
    struct expected out = activation_of(activation, (double)limit, (double)alpha, x);
    double times = factor ? (double)*factor : 1;
    if (activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED) times = 1 + clamp(times, (double)limit);
    out.value *= times;
    out.bound = out.bound * fabs(times) + 1e-6 * fabs(out.value) + 1e-30;
    return out;
}

/* The same for an x with an error of its own, at most its bound. */
static struct expected activation_after(uint32_t activation, struct expected x)
{
    /* Only the square is steeper than 1.13 anywhere. */
    double slope = activation == ENGINE_ACTIVATION_RELU_SQUARED ? 2 * (fmax(x.value, 0) + x.bound) : 1.13;
    struct expected out = activation_of(activation, 0, 0, x.value);
    out.bound += x.bound * slope;
    return out;
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
    struct expected out;
    if (gate) {
        struct expected factor = activation_after(activation, *gate);
        out.value = product.value * factor.value;
        out.bound = product.bound * fabs(factor.value) + factor.bound * fabs(product.value) +
                    product.bound * factor.bound;
    } else {
        double times = scale == 0 ? 1 : (double)scale;
        out.value = product.value * times + (bias ? (double)*bias : 0);
        out.bound = product.bound * fabs(times);
        out = activation_after(activation, out);
    }
    if (residual) out.value += (double)*residual;
    out.bound += 1e-6 * (fabs(out.value) + 1);
    return out;
}

struct expected reference_mix(const struct expected *results, const float *mix, size_t n,
                              const float *residual)
{
    struct expected out = {residual ? (double)*residual : 0, 0};
    double sizes = fabs(out.value);
    for (size_t s = 0; s < n; s++) {
        double term = (double)mix[s] * results[s].value;
        out.value += term;
        out.bound += fabs((double)mix[s]) * results[s].bound;
        sizes += fabs(term);
    }
    out.bound += 1e-6 * (sizes + 1);
    return out;
}

double reference_matmul_share(bool quantised, double rounding)
{
    return quantised ? 0.02 : 2e-6 + rounding;
}

/* ---- Rows ------------------------------------------------------------------------------------------ */

void reference_norm(uint32_t kind, const float *row, size_t n, float epsilon, const float *weight,
                    const float *bias, struct expected *out)
{
    double mean = 0, squares = 0, largest = 0;
    for (size_t i = 0; i < n && kind == ENGINE_NORM_LAYER; i++) mean += (double)row[i] / (double)n;
    for (size_t i = 0; i < n; i++) {
        squares += ((double)row[i] - mean) * ((double)row[i] - mean) / (double)n;
        largest = fmax(largest, fabs((double)row[i]));
    }
    double deviation = sqrt(squares + (double)epsilon);
    for (size_t i = 0; i < n; i++) {
        double times = weight ? (double)weight[i] : 1;
        out[i].value = ((double)row[i] - mean) / deviation * times;
        out[i].bound = reference_row_bound(out[i].value);
        if (kind == ENGINE_NORM_LAYER) out[i].bound += 1e-6 * fabs(times) * largest / deviation;
        if (!bias) continue;
        out[i].bound += 1e-6 * (fabs(out[i].value) + fabs((double)bias[i]));
        out[i].value += (double)bias[i];
    }
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
        if (size > max) max = size; /* not fmax, which crashes GCC 12 for ARM */
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
    case ENGINE_TYPE_Q8_0:
        for (size_t i = 0; i < n; i += 32) put_q8_0(values + i, bytes + i / 32 * 34);
        break;
    }
}

/* The bias of a position that is `distance` after the token's own. */
static double bias_at(const struct seen *seen, int64_t distance)
{
    int64_t r = seen->n_biases;
    if (!seen->biases) return 0;
    return (double)seen->biases[(distance < -r ? -r : distance > r ? r : distance) + r];
}

void reference_attend(const float *q, const struct seen *seen, double *out, double *weights, double *size)
{
    double *scores = weights, max = seen->sink ? (double)*seen->sink : -INFINITY;
    *size = 0;
    for (size_t j = 0; j < seen->n; j++) {
        double distant = seen->slope * fabs((double)(seen->n - 1 - seen->n_ahead) - (double)j),
               bias = bias_at(seen, (int64_t)j - (int64_t)(seen->n - 1 - seen->n_ahead)),
               sizes = distant + fabs(bias);
        scores[j] = 0;
        for (size_t d = 0; d < seen->dim; d++) {
            double product = (double)q[d] * seen->keys[j * seen->key_stride + d] * seen->scale;
            scores[j] += product;
            sizes += fabs(product);
        }
        if (seen->softcap > 0) scores[j] = seen->softcap * tanh(scores[j] / seen->softcap);
        scores[j] += bias - distant;
        max = fmax(max, scores[j]);
        *size = fmax(*size, sizes);
    }
    double sum = seen->sink ? exp((double)*seen->sink - max) : 0;
    for (size_t d = 0; d < seen->value_dim; d++) out[d] = 0;
    for (size_t j = 0; j < seen->n; j++) {
        weights[j] = exp(scores[j] - max);
        sum += weights[j];
        for (size_t d = 0; d < seen->value_dim; d++)
            out[d] += weights[j] * seen->values[j * seen->value_stride + d];
    }
    for (size_t d = 0; d < seen->value_dim; d++) out[d] /= sum;
    for (size_t j = 0; j < seen->n; j++) weights[j] /= sum;
}

double reference_attention_bound(double largest, double size)
{
    return 1e-6 * largest * fmax(1, size / 8) + 1e-30;
}
