/* numbers.c: see numbers.h. */
#include "check/numbers.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Random numbers -------------------------------------------------------------------------------- */

uint32_t random_bits(uint64_t *seed)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u; /* Knuth's MMIX generator */
    return (uint32_t)(*seed >> 32);
}

float random_normal(uint64_t *seed)
{
    double sum = 0; /* sum of 12 uniform numbers: standard deviation 1 */
    for (int i = 0; i < 12; i++) sum += random_bits(seed) * 0x1p-32;
    return (float)(sum - 6);
}

float *random_floats(uint64_t *seed, size_t n)
{
    float *values = malloc(n * sizeof *values);
    for (size_t i = 0; values && i < n; i++) values[i] = random_normal(seed);
    return values;
}

double random_scale(uint64_t *seed, double size)
{
    return size * (0.25 + random_bits(seed) * 0x1p-32) * (random_bits(seed) & 1 << 20 ? -1 : 1);
}

void random_bytes(uint64_t *seed, uint8_t *at, size_t n)
{
    for (size_t i = 0; i < n; i++) at[i] = (uint8_t)(random_bits(seed) >> 24);
}

/* ---- float16 --------------------------------------------------------------------------------------- */

double half_value(uint16_t half)
{
    int exponent = half >> 10 & 31, fraction = half & 1023;
    double value = exponent == 0 ? ldexp(fraction, -24) : ldexp(1024 + fraction, exponent - 25);
    if (exponent == 31) value = fraction ? NAN : INFINITY;
    return half & 0x8000 ? -value : value;
}

uint16_t half_of(double value)
{
    uint16_t sign = signbit(value) ? 0x8000 : 0;
    double magnitude = fabs(value);
    if (isnan(value)) return 0x7e00;
    if (magnitude >= 65520) return sign | 0x7c00;
    int exponent;
    frexp(magnitude, &exponent); /* magnitude = 0.5 … 1 times 2^exponent */
    if (exponent < -13) exponent = -13;
    double fraction = nearbyint(ldexp(magnitude, 11 - exponent)); /* units of the last place: 0 … 2048 */
    return (uint16_t)(sign | (fraction >= 1024 ? ((exponent + 13) << 10) + (int)fraction : (int)fraction));
}

void put_half(uint8_t *at, double value)
{
    uint16_t half = half_of(value);
    memcpy(at, &half, 2);
}

double get_half(const uint8_t *at)
{
    uint16_t half;
    memcpy(&half, at, 2);
    return half_value(half);
}
