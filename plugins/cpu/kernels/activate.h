/* activate.h: template of the activations, each a function of a vector. Expects vec-*.h, vec.h. A new one is
 * such a function and a line in activations.h. */
#include "activations.h"

/* In all lanes. */
struct activation_numbers {
    vf limit, alpha, beta, gamma;
};

typedef vf vector_activation(vf x, const struct activation_numbers *numbers);

static inline vf vf_identity(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    return x;
}

/* x / (1 + exp(-y)) */
static inline vf vf_sigmoid_times(vf x, vf y)
{
    return vf_div(x, vf_add(vf_set1(1), vf_exp(vf_sub(vf_zero(), y))));
}

static inline vf vf_silu(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    return vf_sigmoid_times(x, x);
}

static inline vf vf_sigmoid(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    return vf_sigmoid_times(vf_set1(1), x);
}

/* x times the normal distribution's function of x. With z = |x| / sqrt(2), erfc(z) = (a1 t + … + a5 t^5)
 * exp(-z^2), t = 1 / (1 + p z), within 1.5e-7: Abramowitz and Stegun, 7.1.26. */
static inline vf vf_gelu_erf(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    vf z = vf_mul(vf_abs(x), vf_set1(0.70710678F));
    vf t = vf_div(vf_set1(1), vf_fma(z, vf_set1(0.3275911F), vf_set1(1)));
    vf p = vf_set1(1.061405429F);
    p = vf_fma(p, t, vf_set1(-1.453152027F));
    p = vf_fma(p, t, vf_set1(1.421413741F));
    p = vf_fma(p, t, vf_set1(-0.284496736F));
    p = vf_fma(p, t, vf_set1(0.254829592F));
    vf half = vf_mul(vf_mul(p, t), vf_set1(0.5F));
    vf beyond = vf_mul(half, vf_exp(vf_sub(vf_zero(), vf_mul(z, z)))); /* of |x|, the share above it */
    return vf_mul(x, vf_if_above(x, vf_zero(), vf_sub(vf_set1(1), beyond), beyond));
}

/* (1 + tanh(y)) / 2 = 1 / (1 + exp(-2 y)) */
static inline vf vf_gelu_tanh(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    const vf linear = vf_set1(1.5957691F), cubic = vf_set1(0.071354814F); /* sqrt(8 / pi) * 1, 0.044715 */
    return vf_sigmoid_times(x, vf_mul(x, vf_fma(vf_mul(x, x), cubic, linear)));
}

static inline vf vf_relu(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    return vf_if_above(x, vf_zero(), x, vf_zero());
}

static inline vf vf_relu_squared(vf x, const struct activation_numbers *numbers)
{
    vf y = vf_relu(x, numbers);
    return vf_mul(y, y);
}

/* Up to 0.625: x + x^3 P(x^2), P of degree 4 through the function at the zeros of a Chebyshev polynomial,
 * with a relative error of 2e-8. Above: (1 - exp(-2 |x|)) / (1 + exp(-2 |x|)), which loses nothing there. */
static inline vf vf_tanh(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    vf size = vf_abs(x), square = vf_mul(x, x);
    vf p = vf_set1(-0.0060967147F);
    p = vf_fma(p, square, vf_set1(0.020997179F));
    p = vf_fma(p, square, vf_set1(-0.05385091F));
    p = vf_fma(p, square, vf_set1(0.1333277F));
    p = vf_fma(p, square, vf_set1(-0.33333329F));
    vf small = vf_fma(vf_mul(x, square), p, x);
    vf e = vf_exp(vf_mul(size, vf_set1(-2)));
    vf large = vf_div(vf_sub(vf_set1(1), e), vf_add(vf_set1(1), e));
    large = vf_if_above(x, vf_zero(), large, vf_sub(vf_zero(), large));
    return vf_if_above(size, vf_set1(0.625F), large, small);
}

/* max(x, 0) + ln(1 + u), u = exp(-|x|). With s = u / (2 + u) <= 1/3, ln(1 + u) = 2 artanh(s) = 2
 * (s + s^3 / 3 + …): the terms after s^13 / 13 add less than 2e-8. */
static inline vf vf_softplus(vf x, const struct activation_numbers *numbers)
{
    vf u = vf_exp(vf_sub(vf_zero(), vf_abs(x)));
    vf s = vf_div(u, vf_add(u, vf_set1(2))), square = vf_mul(s, s);
    vf p = vf_set1(1.0F / 13);
    p = vf_fma(p, square, vf_set1(1.0F / 11));
    p = vf_fma(p, square, vf_set1(1.0F / 9));
    p = vf_fma(p, square, vf_set1(1.0F / 7));
    p = vf_fma(p, square, vf_set1(1.0F / 5));
    p = vf_fma(p, square, vf_set1(1.0F / 3));
    p = vf_fma(p, square, vf_set1(1));
    return vf_fma(vf_add(s, s), p, vf_relu(x, numbers));
}

static inline vf vf_exp_of(vf x, const struct activation_numbers *numbers)
{
    (void)numbers;
    return vf_exp(x);
}

static inline vf vf_clamp(vf x, const struct activation_numbers *numbers)
{
    vf least = vf_sub(vf_zero(), numbers->limit);
    return vf_max(least, vf_min(numbers->limit, x)); /* keeps NaN: min and max then return the second */
}

static inline vf vf_softcap(vf x, const struct activation_numbers *numbers)
{
    return vf_mul(numbers->limit, vf_tanh(vf_div(x, numbers->limit), numbers));
}

static inline vf vf_swiglu_clamped(vf x, const struct activation_numbers *numbers)
{
    vf g = vf_min(numbers->limit, x);
    return vf_sigmoid_times(g, vf_mul(numbers->alpha, g));
}

static inline vf vf_silu_clamped(vf x, const struct activation_numbers *numbers)
{
    vf g = vf_min(numbers->limit, x);
    return vf_sigmoid_times(g, g);
}

static inline vf vf_xielu(vf x, const struct activation_numbers *numbers)
{
    vf linear = vf_mul(numbers->beta, x), least = vf_min(x, vf_sub(vf_zero(), numbers->limit));
    vf below = vf_sub(vf_sub(vf_exp(least), vf_set1(1)), x);
    vf above = vf_fma(vf_mul(numbers->alpha, x), x, linear);
    return vf_if_above(x, vf_zero(), above, vf_fma(numbers->gamma, below, linear));
}

static inline vf vf_one_and_clamped(vf x, const struct activation_numbers *numbers)
{
    return vf_add(vf_set1(1), vf_clamp(x, numbers));
}

/* Rows of one activation. */
FLATTEN void activate_row(vector_activation *of_x, vector_activation *of_factor,
                          const struct activation_numbers *numbers, const float *x, const float *factor,
                          float *out, size_t n)
{
    size_t i = 0;
    if (factor) {
        for (; i + LANES <= n; i += LANES)
            vf_store(out + i, vf_mul(of_x(vf_load(x + i), numbers), of_factor(vf_load(factor + i), numbers)));
        if (i < n)
            vf_store_end(out + i, n - i,
                         vf_mul(of_x(vf_load_end(x + i, n - i), numbers),
                                of_factor(vf_load_end(factor + i, n - i), numbers)));
        return;
    }
    for (; i + LANES <= n; i += LANES) vf_store(out + i, of_x(vf_load(x + i), numbers));
    if (i < n) vf_store_end(out + i, n - i, of_x(vf_load_end(x + i, n - i), numbers));
}

static void activate(uint32_t activation, const struct curve *curve, const float *x, const float *factor,
                     float *out, size_t n)
{
    static const struct curve none;
    const struct curve *of = curve ? curve : &none;
    const struct activation_numbers numbers = {vf_set1(of->limit), vf_set1(of->alpha), vf_set1(of->beta),
                                               vf_set1(of->gamma)};
    switch (activation) {
#define X(NAME, of_x, of_factor)                                                                             \
    case ENGINE_ACTIVATION_##NAME:                                                                           \
        activate_row(vf_##of_x, vf_##of_factor, &numbers, x, factor, out, n);                                \
        break;
        ACTIVATIONS(X)
#undef X
    default: break;
    }
}
