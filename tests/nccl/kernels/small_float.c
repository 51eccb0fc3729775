/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/nccl/kernels/small_float.h"

#include <math.h>
#include <string.h>

/* The compiler's binary16. Clang has _Float16 on x86 from version 15 on, and this format for storage before.
 */
#ifdef __clang__
typedef __fp16 nh_binary16;
#else
typedef _Float16 nh_binary16;
#endif

float nh_from_float16(uint16_t bits)
{
    nh_binary16 value;

    memcpy(&value, &bits, sizeof value);
    return (float)value;
}

uint16_t nh_to_float16(float value)
{
    nh_binary16 small = (nh_binary16)value;
    uint16_t bits;

    memcpy(&bits, &small, sizeof bits);
    return bits;
}

float nh_from_bfloat16(uint16_t bits)
{
    uint32_t wide = (uint32_t)bits << 16;
    float value;

    memcpy(&value, &wide, sizeof value);
    return value;
}

uint16_t nh_to_bfloat16(float value)
{
    uint32_t bits;

    memcpy(&bits, &value, sizeof bits);
    if (isnan(value))
        return (uint16_t)(bits >> 16 | 0x40);
    return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* An 8-bit format without its sign: exponent bits above mantissa_bits, values 0 to `last`, which is the
 * largest. */
struct format {
    int mantissa_bits, bias;
    uint8_t last;
};

static const struct format e4m3 = {3, 7, 0x7e}, e5m2 = {2, 15, 0x7b};

static float from_small(const struct format *format, uint8_t bits)
{
    int exponent = (bits & 0x7f) >> format->mantissa_bits;
    int mantissa = bits & ((1 << format->mantissa_bits) - 1);
    int is_normal = exponent > 0;
    float value = ldexpf((float)(mantissa + (is_normal << format->mantissa_bits)),
                         (is_normal ? exponent : 1) - format->bias - format->mantissa_bits);

    if ((bits & 0x7f) > format->last)
        value = format == &e5m2 && mantissa == 0 ? INFINITY : NAN;
    return bits & 0x80 ? -value : value;
}

/* Between two neighbors the nearer one; halfway, the even one. The values rise with their bits. */
static uint8_t to_small(const struct format *format, float value)
{
    uint8_t sign = signbit(value) ? 0x80 : 0, low = 0, high = format->last;
    float magnitude = fabsf(value), below, above;

    if (isnan(value))
        return sign | 0x7f;
    if (magnitude >= from_small(format, format->last))
        return sign | format->last;
    while (high - low > 1) {
        uint8_t middle = (uint8_t)((low + high) / 2);

        if (from_small(format, middle) <= magnitude)
            low = middle;
        else
            high = middle;
    }
    below = magnitude - from_small(format, low);
    above = from_small(format, high) - magnitude;
    if (above < below || (above == below && low % 2))
        low = high;
    return sign | low;
}

float nh_from_e4m3(uint8_t bits)
{
    return from_small(&e4m3, bits);
}

uint8_t nh_to_e4m3(float value)
{
    return to_small(&e4m3, value);
}

float nh_from_e5m2(uint8_t bits)
{
    return from_small(&e5m2, bits);
}

uint8_t nh_to_e5m2(float value)
{
    return to_small(&e5m2, value);
}
