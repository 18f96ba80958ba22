// activation.glsl: activation functions, in full float32 accuracy: Vulkan's own exp may be off by many units
// in the last place.

// exp(x) as 2^n * exp(r), |r| <= ln(2) / 2, with the Taylor polynomial of degree 7.
float accurate_exp(float x)
{
    x = clamp(x, -88.0, 88.0);
    float n = floor(fma(x, 1.44269504, 0.5));
    precise float whole = n * 0.693359375; // the first digits of ln(2): exact
    precise float rest = x - whole;        // exact too
    precise float r = rest + n * 2.12194440e-4;
    float e = 1.0 / 5040;
    e = fma(e, r, 1.0 / 720);
    e = fma(e, r, 1.0 / 120);
    e = fma(e, r, 1.0 / 24);
    e = fma(e, r, 1.0 / 6);
    e = fma(e, r, 0.5);
    e = fma(e, r, 1.0);
    e = fma(e, r, 1.0);
    return e * uintBitsToFloat(uint(int(n) + 127) << 23);
}

// exp(x) - 1, accurate relative to its own size near 0 too, where the Taylor polynomial of degree 7 is used.
float accurate_expm1(float x)
{
    if (abs(x) > 0.3) return accurate_exp(x) - 1;
    float e = 1.0 / 5040;
    e = fma(e, x, 1.0 / 720);
    e = fma(e, x, 1.0 / 120);
    e = fma(e, x, 1.0 / 24);
    e = fma(e, x, 1.0 / 6);
    e = fma(e, x, 0.5);
    return fma(e * x, x, x);
}

// ln(1 + x) for x in 0 … 1: twice the series of artanh(x / (2 + x)).
float accurate_log1p(float x)
{
    float s = x / (2 + x), z = s * s;
    float e = 1.0 / 13;
    e = fma(e, z, 1.0 / 11);
    e = fma(e, z, 1.0 / 9);
    e = fma(e, z, 1.0 / 7);
    e = fma(e, z, 1.0 / 5);
    e = fma(e, z, 1.0 / 3);
    return 2 * fma(e * z, s, s);
}

float accurate_tanh(float x)
{
    float e = accurate_expm1(2 * abs(x)), t = e / (e + 2);
    return x < 0 ? -t : t;
}

float sigmoid(float x)
{
    return 1 / (1 + accurate_exp(-x));
}

// (1 + erf(x / sqrt(2))) / 2 within 1e-7, by Abramowitz and Stegun, Handbook of Mathematical Functions,
// 7.1.26.
float normal_share(float x)
{
    float z = abs(x) * 0.70710678, t = 1 / fma(0.3275911, z, 1.0);
    float e = fma(1.061405429, t, -1.453152027);
    e = fma(e, t, 1.421413741);
    e = fma(e, t, -0.284496736);
    e = fma(e, t, 0.254829592);
    float above = 0.5 * e * t * accurate_exp(-z * z);
    return x < 0 ? above : 1 - above;
}

// enum engine_activation of plugin-api.h
const uint NONE = 0, SILU = 1, GELU_ERF = 2, GELU_TANH = 3, RELU = 4, RELU_SQUARED = 5, SIGMOID = 6, TANH = 7, SOFTPLUS = 8,
           CLAMP = 9, SOFTCAP = 10, SWIGLU_CLAMPED = 11, EXP = 12;

float activate(uint kind, float x, float limit, float alpha)
{
    switch (kind) {
    case SILU: return x / (1 + accurate_exp(-x));
    case GELU_ERF: return x * normal_share(x);
    // 1 + tanh(u) = 2 sigmoid(2 u)
    case GELU_TANH: return x * sigmoid(1.5957691216 * fma(0.044715 * x * x, x, x));
    case RELU: return max(x, 0);
    case RELU_SQUARED: return max(x, 0) * max(x, 0);
    case SIGMOID: return sigmoid(x);
    case TANH: return accurate_tanh(x);
    case SOFTPLUS: return max(x, 0) + accurate_log1p(accurate_exp(-abs(x)));
    case CLAMP: return clamp(x, -limit, limit);
    case SOFTCAP: return limit * accurate_tanh(x / limit);
    case SWIGLU_CLAMPED: return min(x, limit) * sigmoid(alpha * min(x, limit));
    case EXP: return accurate_exp(x);
    default: return x;
    }
}

// The factor that the activation's result is multiplied by, if there is one.
float activated_factor(uint kind, float u, float limit)
{
    return kind == SWIGLU_CLAMPED ? 1 + clamp(u, -limit, limit) : u;
}
