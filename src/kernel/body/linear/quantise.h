// SPDX-License-Identifier: MIT
// quantise.h: numbers as whole ones in -127 .. 127 times a scale, symmetric around 0.
#include <math.h>

// Of numbers whose largest magnitude is `highest`: returns the scale; *inverse is what they are
// multiplied with before they are rounded to nearest even.  |x - scale q| <= scale / 2 and a
// rounding.
// All below 2^-100 counts as 0 (the inverse would leave the floats); what is not finite makes the
// scale NaN, and with it whatever it is part of.
static inline float int8_scale(float highest, float *inverse)
{
    *inverse = 0;
    if (highest < 0x1p-100f) return 0;
    if (!(highest < INFINITY)) return NAN;
    *inverse = 127 / highest;
    return highest / 127;
}

// The largest magnitude of w[n], ld apart; NaN if one is.
static inline float int8_highest_of(const real *w, int64_t n, int64_t ld)
{
    float highest = 0;
    for (int64_t i = 0; i < n && highest == highest; i++) {
        const float size = fabsf((float)w[i * ld]);
        if (!(size <= highest)) highest = size;
    }
    return highest;
}
