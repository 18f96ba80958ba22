// half.glsl: float16 rounded to nearest, ties to even; packHalf2x16 may round as it likes.
uint half_bits(float value)
{
    uint bits = floatBitsToUint(value), sign = bits >> 16 & 0x8000u, magnitude = bits & 0x7fffffffu;
    if (magnitude > 0x7f800000u) return sign | 0x7e00u;
    if (magnitude >= 0x477ff000u) return sign | 0x7c00u;
    if (magnitude < 0x38800000u) {
        // Denormal or zero: a sum with 0.5 leaves the rounded multiple of 2^-24 in the last bits.
        return sign | (floatBitsToUint(uintBitsToFloat(magnitude) + 0.5) - 0x3f000000u);
    }
    return sign | (magnitude - 0x38000000u + 0xfffu + (magnitude >> 13 & 1u)) >> 13;
}
