/* half.h: packed float16 numbers and powers of two; plugin-types.h has the conversions. */
#ifndef CPU_HALF_H
#define CPU_HALF_H

#include "plugin-types.h"

/* The code of a power of two that engine_power_to_f32 gives. */
static inline uint8_t power_code(float power)
{
    uint32_t bits = engine_bits_of_float(power);
    return bits < 0x00800000 ? bits == 0x00400000 : (uint8_t)((bits >> 23) + 1);
}

static inline void store_u16(void *to, uint16_t value)
{
    memcpy(to, &value, sizeof value);
}

#endif
