/* reference.c: see reference.h. */
#include "check/reference.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "check/formats.h"

/* ---- Activations ----------------------------------------------------------------------------------- */

static double reference_sigmoid(double x)
{
    return 1 / (1 + exp(-x));
}

static double reference_clamp(double x, double limit)
{
    return fmin(fmax(x, -limit), limit);
}

/* The activation, and its possible error before a factor is multiplied with it. */
static struct expected activation_of(const struct engine_op_activate *args, double x)
{
    const double size = fabs(x), limit = (double)args->limit, alpha = (double)args->alpha,
                 beta = (double)args->beta, gamma = (double)args->gamma;
    double g = fmin(x, limit); /* of the gated units */
    switch (args->activation) {
    case ENGINE_ACTIVATION_NONE: return (struct expected){x, 0};
    case ENGINE_ACTIVATION_SILU: return (struct expected){x * reference_sigmoid(x), 0};
    case ENGINE_ACTIVATION_GELU_ERF: return (struct expected){x / 2 * erfc(-x * sqrt(0.5)), 1e-6 * size};
    case ENGINE_ACTIVATION_GELU_TANH:
        return (struct expected){x / 2 * (1 + tanh(sqrt(2 / acos(-1)) * (x + 0.044715 * x * x * x))),
                                 1e-6 * size};
    case ENGINE_ACTIVATION_RELU: return (struct expected){fmax(x, 0), 0};
    case ENGINE_ACTIVATION_RELU_SQUARED: return (struct expected){fmax(x, 0) * fmax(x, 0), 0};
    case ENGINE_ACTIVATION_SIGMOID: return (struct expected){reference_sigmoid(x), 1e-6};
    case ENGINE_ACTIVATION_TANH: return (struct expected){tanh(x), 2e-6 * size};
    case ENGINE_ACTIVATION_SOFTPLUS:
        return (struct expected){fmax(x, 0) + log1p(exp(-size)), 1e-6 * (1 + fmax(x, 0))};
    case ENGINE_ACTIVATION_CLAMP: return (struct expected){reference_clamp(x, limit), 0};
    case ENGINE_ACTIVATION_SOFTCAP: return (struct expected){limit * tanh(x / limit), 2e-6 * size};
    case ENGINE_ACTIVATION_SWIGLU_CLAMPED:
        return (struct expected){g * reference_sigmoid(alpha * g), 2e-6 * (g < 0 ? -g : g)};
    case ENGINE_ACTIVATION_EXP: return (struct expected){exp(x), 2e-6 * exp(x)};
    case ENGINE_ACTIVATION_SILU_CLAMPED:
        return (struct expected){g * reference_sigmoid(g), 2e-6 * (g < 0 ? -g : g)};
    case ENGINE_ACTIVATION_XIELU:
        if (x > 0)
            return (struct expected){alpha * x * x + beta * x, 1e-6 * (fabs(alpha) * x * x + fabs(beta * x))};
        return (struct expected){gamma * (expm1(fmin(x, -limit)) - x) + beta * x,
                                 1e-6 * (fabs(gamma) * (1 + size) + fabs(beta * x))};
    default: return (struct expected){NAN, 0}; /* one that is missing here: no result matches */
    }
}

struct expected reference_activate(const struct engine_op_activate *args, double x, const float *factor)
{
    struct expected out = activation_of(args, x);
    double times = factor ? (double)*factor : 1;
    if (args->activation == ENGINE_ACTIVATION_SWIGLU_CLAMPED)
        times = 1 + reference_clamp(times, (double)args->limit);
    if (args->activation == ENGINE_ACTIVATION_SILU_CLAMPED)
        times = reference_clamp(times, (double)args->limit);
    out.value *= times;
    out.bound = out.bound * fabs(times) + 1e-6 * fabs(out.value) + 1e-30;
    return out;
}

/* The same for an x with an error of its own, at most its bound. */
static struct expected activation_after(uint32_t activation, struct expected x)
{
    /* Only the square is steeper than 1.13 anywhere. */
    double slope = activation == ENGINE_ACTIVATION_RELU_SQUARED ? 2 * (fmax(x.value, 0) + x.bound) : 1.13;
    const struct engine_op_activate args = {.activation = activation};
    struct expected out = activation_of(&args, x.value);
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

double reference_attend(const float *q, const struct seen *seen, double *out, double *weights, double *size)
{
    const bool has_earlier = seen->earlier && seen->earlier_logsum > -1e30;
    double *scores = weights, max = seen->sink ? (double)*seen->sink : -INFINITY;
    bool is_any = false;
    *size = has_earlier ? fabs(seen->earlier_logsum) : 0;
    if (has_earlier) max = fmax(max, seen->earlier_logsum);
    for (size_t j = 0; j < seen->n; j++) {
        scores[j] = -INFINITY;
        if (seen->hidden && seen->hidden[j]) continue;
        is_any = true;
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
    for (size_t j = 0; j < seen->n && !is_any; j++) weights[j] = 0;
    for (size_t d = 0; d < seen->value_dim; d++) out[d] = 0;
    if (!is_any && !has_earlier) return -1e30;
    for (size_t j = 0; j < seen->n && !is_any; j++) scores[j] = -INFINITY;
    double sum = has_earlier ? exp(seen->earlier_logsum - max) : 0;
    for (size_t d = 0; d < seen->value_dim; d++) out[d] = has_earlier ? sum * (double)seen->earlier[d] : 0;
    for (size_t j = 0; j < seen->n; j++) {
        weights[j] = exp(scores[j] - max);
        sum += weights[j];
        for (size_t d = 0; d < seen->value_dim; d++)
            out[d] += weights[j] * seen->values[j * seen->value_stride + d];
    }
    const double logsum = log(sum) + max;
    if (seen->sink) sum += exp((double)*seen->sink - max);
    for (size_t d = 0; d < seen->value_dim; d++) out[d] /= sum;
    for (size_t j = 0; j < seen->n; j++) weights[j] /= sum;
    return logsum;
}

double reference_attention_bound(double largest, double size)
{
    return 1e-6 * largest * fmax(1, size / 8) + 1e-30;
}

/* ---- Pick ---------------------------------------------------------------------------------------------- */

struct expected reference_score(const float *q, const float *weights, size_t n_heads, const double *key,
                                size_t dim, bool *is_zero)
{
    struct expected score = {0, 0};
    *is_zero = true;
    for (size_t h = 0; h < n_heads; h++, q += dim) {
        double product = 0, size = 0, weight = (double)weights[h];
        for (size_t d = 0; d < dim; d++) {
            product += (double)q[d] * key[d];
            size += fabs((double)q[d] * key[d]);
        }
        score.value += weight * fmax(product, 0);
        score.bound += 1e-6 * fabs(weight) * size;
        if (size > 0 && product > -1e-6 * size) *is_zero = false;
    }
    return score;
}

bool reference_pick_allows(const struct expected *scores, const bool *is_zero, size_t n,
                           const int32_t *picked, size_t n_picked)
{
    size_t n_chosen = n < n_picked ? n : n_picked, k = 0;
    double lowest = INFINITY; /* that a picked score may be, */
    bool leaves_zero = false; /* a zero is passed over */
    for (size_t i = 0; i < n_picked; i++) {
        if (i >= n_chosen ? picked[i] != -1 : picked[i] < 0 || (size_t)picked[i] >= n) return false;
        if (i > 0 && i < n_chosen && picked[i] <= picked[i - 1]) return false;
        if (i < n_chosen) lowest = fmin(lowest, scores[picked[i]].value + scores[picked[i]].bound);
    }
    for (size_t j = 0; j < n; j++) {
        if (k < n_chosen && (size_t)picked[k] == j) {
            if (is_zero[j] && leaves_zero) return false;
            k++;
            continue;
        }
        if (scores[j].value - scores[j].bound > lowest) return false;
        leaves_zero = leaves_zero || is_zero[j];
    }
    return true;
}

/* ---- Router --------------------------------------------------------------------------------------- */

/* The right choice of experts is not unique: of two that are nearly equal, either is accepted. */
enum { MAX_GROUPS = 32 };
static const double NEAR = 1e-6; /* scores closer than this may be swapped */

void reference_route(const struct engine_op_route *args, size_t n_experts, const float *logits,
                     const float *bias, double *p, double *c)
{
    double max = -INFINITY, sum = 0;
    /* not fmax, which crashes GCC 12 for ARM */
    for (size_t e = 0; e < n_experts; e++)
        if ((double)logits[e] > max) max = (double)logits[e];
    for (size_t e = 0; e < n_experts; e++) sum += exp((double)logits[e] - max);
    for (size_t e = 0; e < n_experts; e++) {
        double x = (double)logits[e];
        p[e] = args->function == ENGINE_ROUTE_SIGMOID         ? 1 / (1 + exp(-x))
               : args->function == ENGINE_ROUTE_SQRT_SOFTPLUS ? sqrt(fmax(x, 0) + log1p(exp(-fabs(x))))
                                                              : exp(x - max) / sum;
        c[e] = p[e] + (bias ? (double)bias[e] : 0);
    }
}

/* Whether the ids are the first of the remaining experts (`groups`, as bits), in order. */
static bool is_in_order(const double *c, size_t n_experts, size_t group_size, uint32_t groups,
                        const int32_t *ids, size_t n_used)
{
    for (size_t s = 0; s < n_used; s++) {
        const size_t chosen = (size_t)ids[s];
        if (!(groups >> chosen / group_size & 1)) return false;
        for (size_t e = 0; e < n_experts; e++) {
            bool taken = !(groups >> e / group_size & 1);
            for (size_t i = 0; i <= s; i++) taken = taken || (size_t)ids[i] == e;
            if (taken) continue;
            const double ahead = c[e] - c[chosen];
            if (ahead >= NEAR || (e < chosen && ahead == 0)) return false;
        }
    }
    return true;
}

static double group_score(uint32_t kind, const double *c, size_t n)
{
    double first = -INFINITY, second = -INFINITY;
    for (size_t i = 0; i < n; i++)
        if (c[i] > first)
            second = first, first = c[i];
        else if (c[i] > second)
            second = c[i];
    return kind == ENGINE_ROUTE_GROUP_TOP2 ? first + second : first;
}

/* Whether a set of groups, as bits, is one of those with the largest scores. */
static bool are_largest(const double *scores, size_t n, uint32_t groups)
{
    for (size_t in = 0; in < n; in++)
        for (size_t out = 0; out < n && groups >> in & 1; out++) {
            if (groups >> out & 1) continue;
            const double ahead = scores[out] - scores[in];
            if (ahead >= NEAR || (out < in && ahead == 0)) return false;
        }
    return true;
}

/* Tries all sets of n_left more groups, from `next` on. */
static bool any_set_allows(const struct engine_op_route *args, const double *scores, const double *c,
                           size_t n_experts, const int32_t *ids, size_t n_used, uint32_t groups,
                           uint32_t next, uint32_t n_left)
{
    const size_t size = n_experts / args->n_groups;
    if (n_left == 0)
        return are_largest(scores, args->n_groups, groups) &&
               is_in_order(c, n_experts, size, groups, ids, n_used);
    for (; next + n_left <= args->n_groups; next++)
        if (any_set_allows(args, scores, c, n_experts, ids, n_used, groups | (uint32_t)1 << next, next + 1,
                           n_left - 1))
            return true;
    return false;
}

bool reference_route_allows(const struct engine_op_route *args, size_t n_experts, const double *c,
                            const int32_t *ids, size_t n_used)
{
    for (size_t s = 0; s < n_used; s++) {
        if (ids[s] < 0 || (size_t)ids[s] >= n_experts) return false;
        for (size_t i = 0; i < s; i++)
            if (ids[i] == ids[s]) return false;
    }
    if (args->n_groups < 2) return is_in_order(c, n_experts, n_experts, 1, ids, n_used);
    if (args->n_groups > MAX_GROUPS) return false;
    double scores[MAX_GROUPS];
    const size_t size = n_experts / args->n_groups;
    for (size_t g = 0; g < args->n_groups; g++)
        scores[g] = group_score(args->group_score, c + g * size, size);
    return any_set_allows(args, scores, c, n_experts, ids, n_used, 0, 0, args->n_groups_used);
}

void reference_route_given(const float *given, size_t n_used, int32_t *ids, double *times)
{
    for (size_t s = 0; s < n_used; s++) {
        ids[s] = (int32_t)given[s], times[s] = 0;
        for (size_t i = 0; i < n_used; i++) times[s] += given[i] == given[s];
        for (size_t i = 0; i < s; i++)
            if (given[i] == given[s]) ids[s] = -1;
    }
    for (size_t s = 0; s < n_used; s++) {
        if (ids[s] >= 0) continue;
        times[s] = 0;
        bool taken = true;
        while (taken) {
            ids[s]++;
            taken = false;
            for (size_t i = 0; i < n_used; i++) taken = taken || (i != s && ids[i] == ids[s]);
        }
    }
}

void reference_route_weights(const struct engine_op_route *args, const double *p, const int32_t *ids,
                             const double *times, size_t n_used, struct expected *out)
{
    double sum = 0, scale = args->scale == 0 ? 1 : (double)args->scale;
    for (size_t s = 0; s < n_used; s++) sum += p[ids[s]] * (times ? times[s] : 1);
    if (args->normalise) scale /= fmax(sum, (double)args->floor);
    for (size_t s = 0; s < n_used; s++) {
        out[s].value = p[ids[s]] * scale * (times ? times[s] : 1);
        out[s].bound = 1e-5 * fabs(out[s].value) + 1e-30;
    }
}

/* ---- Streams -------------------------------------------------------------------------------------- */

struct expected reference_sum(const float *numbers, const float *weights, size_t n)
{
    double sum = 0, size = 0;
    for (size_t i = 0; i < n; i++) {
        double term = (double)numbers[i] * (double)weights[i];
        sum += term;
        size += fabs(term);
    }
    return (struct expected){sum, 1e-6 * size + 1e-30};
}

/* Divides n numbers, `stride` apart, by their sum plus epsilon. */
static void divide_by_sum(double *x, size_t n, size_t stride, double epsilon)
{
    double sum = epsilon;
    for (size_t i = 0; i < n; i++) sum += x[i * stride];
    for (size_t i = 0; i < n; i++) x[i * stride] /= sum;
}

void reference_hyper(const struct engine_op_hyper *args, size_t width, const float *x, const float *scale,
                     const float *base, struct expected *out)
{
    double c[16 * 16], epsilon = (double)args->epsilon, largest = 0;
    const size_t n = args->n;
    for (size_t i = 0; i < width; i++) {
        const size_t part = i < n ? 0 : i < 2 * n ? 1 : 2;
        const double term = (double)scale[part] * (double)x[i], sum = term + (double)base[i];
        largest = fmax(largest, fabs(term) + fabs((double)base[i]));
        if (part == 0) out[i].value = reference_sigmoid(sum) + epsilon;
        if (part == 1) out[i].value = 2 * reference_sigmoid(sum);
        if (part == 2) c[i - 2 * n] = sum;
    }
    for (size_t j = 0; j < n && width > n; j++) {
        double max = -INFINITY;
        for (size_t k = 0; k < n; k++) max = c[j * n + k] > max ? c[j * n + k] : max;
        for (size_t k = 0; k < n; k++) c[j * n + k] = exp(c[j * n + k] - max);
        divide_by_sum(c + j * n, n, 1, 0);
        for (size_t k = 0; k < n; k++) c[j * n + k] += epsilon;
    }
    for (uint32_t i = 0; i < args->n_iterations && width > n; i++) {
        for (size_t j = 0; i > 0 && j < n; j++) divide_by_sum(c + j * n, n, 1, epsilon);
        for (size_t k = 0; k < n; k++) divide_by_sum(c + k, n, n, epsilon);
    }
    for (size_t j = 0; j < n && width > n; j++)
        for (size_t k = 0; k < n; k++) out[2 * n + k * n + j].value = c[j * n + k];
    for (size_t i = 0; i < width; i++) out[i].bound = 2e-6 * (1 + largest);
}

struct expected reference_pool(const double *values, const double *scores, size_t n, double largest,
                               double value)
{
    double max = -INFINITY, sum = 0, out = 0;
    for (size_t j = 0; j < n; j++) max = scores[j] > max ? scores[j] : max;
    for (size_t j = 0; j < n; j++) {
        sum += exp(scores[j] - max);
        out += exp(scores[j] - max) * values[j];
    }
    return (struct expected){out / sum, 2e-6 * fmax(1, largest) * value + 1e-30};
}

/* ---- States --------------------------------------------------------------------------------------- */

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
