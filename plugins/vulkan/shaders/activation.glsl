// activation.glsl: activation functions, in full float32 accuracy: Vulkan's own exp may be off by many units in the
// last place.

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

float silu(float x)
{
    return x / (1 + accurate_exp(-x));
}
