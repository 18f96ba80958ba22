/* scalar-activate.c: the activations in plain C. */
#include <math.h>

#include "activations.h"
#include "scalar.h"

typedef float activation(float x, const struct curve *numbers);

static float of_identity(float x, const struct curve *numbers)
{
    (void)numbers;
    return x;
}

static float of_silu(float x, const struct curve *numbers)
{
    (void)numbers;
    return x / (1 + expf(-x));
}

static float of_gelu_erf(float x, const struct curve *numbers)
{
    (void)numbers;
    return 0.5F * x * erfcf(x * -0.70710678F);
}

static float of_gelu_tanh(float x, const struct curve *numbers)
{
    (void)numbers;
    return 0.5F * x * (1 + tanhf(x * (0.79788456F + 0.035677407F * x * x)));
}

static float of_relu(float x, const struct curve *numbers)
{
    (void)numbers;
    return x <= 0 ? 0 : x;
}

static float of_relu_squared(float x, const struct curve *numbers)
{
    float y = of_relu(x, numbers);
    return y * y;
}

static float of_sigmoid(float x, const struct curve *numbers)
{
    (void)numbers;
    return 1 / (1 + expf(-x));
}

static float of_tanh(float x, const struct curve *numbers)
{
    (void)numbers;
    return tanhf(x);
}

static float of_softplus(float x, const struct curve *numbers)
{
    return of_relu(x, numbers) + log1pf(expf(-fabsf(x)));
}

static float of_exp_of(float x, const struct curve *numbers)
{
    (void)numbers;
    return expf(x);
}

static float of_clamp(float x, const struct curve *numbers)
{
    if (x > numbers->limit) return numbers->limit;
    return x < -numbers->limit ? -numbers->limit : x;
}

static float of_softcap(float x, const struct curve *numbers)
{
    return numbers->limit * tanhf(x / numbers->limit);
}

static float of_swiglu_clamped(float x, const struct curve *numbers)
{
    float g = x > numbers->limit ? numbers->limit : x;
    return g / (1 + expf(-numbers->alpha * g));
}

static float of_silu_clamped(float x, const struct curve *numbers)
{
    float g = x > numbers->limit ? numbers->limit : x;
    return g / (1 + expf(-g));
}

static float of_xielu(float x, const struct curve *numbers)
{
    if (x > 0) return numbers->alpha * x * x + numbers->beta * x;
    float least = x < -numbers->limit ? x : -numbers->limit;
    return numbers->gamma * (expm1f(least) - x) + numbers->beta * x;
}

static float of_one_and_clamped(float x, const struct curve *numbers)
{
    return 1 + of_clamp(x, numbers);
}

static void activate_row(activation *of_x, activation *of_factor, const struct curve *numbers, const float *x,
                         const float *factor, float *out, size_t n)
{
    for (size_t i = 0; i < n; i++)
        out[i] = factor ? of_x(x[i], numbers) * of_factor(factor[i], numbers) : of_x(x[i], numbers);
}

void scalar_activate(uint32_t kind, const struct curve *curve, const float *x, const float *factor,
                     float *out, size_t n)
{
    static const struct curve none;
    const struct curve *numbers = curve ? curve : &none;
    switch (kind) {
#define X(NAME, x_function, factor_function)                                                                 \
    case ENGINE_ACTIVATION_##NAME:                                                                           \
        activate_row(of_##x_function, of_##factor_function, numbers, x, factor, out, n);                     \
        break;
        ACTIVATIONS(X)
#undef X
    default: break;
    }
}
