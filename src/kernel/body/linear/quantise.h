// SPDX-License-Identifier: MIT
// quantise.h: quantises numbers to integers in -127 .. 127 times a scale, symmetric around 0.
#include <math.h>

// Returns the scale of numbers whose largest magnitude is `highest`; *inverse is the factor that is
// applied before rounding to nearest even. |x - scale q| <= scale / 2 plus a rounding error. A
// maximum below 2^-100 counts as 0 (the inverse would overflow); a nonfinite one makes the scale
// NaN, and with it every result.
static inline float int8_scale(float highest, float *inverse)
{
    *inverse = 0;
    if (highest < 0x1p-100f) return 0;
    if (!(highest < INFINITY)) return NAN;
    *inverse = 127 / highest;
    return highest / 127;
}

// Returns the largest magnitude of w[n], ld apart; NaN if one of them is NaN.
static inline float int8_highest_of(const real *w, int64_t n, int64_t ld)
{
    float highest = 0;
    for (int64_t i = 0; i < n && highest == highest; i++) {
        const float size = fabsf((float)w[i * ld]);
        if (!(size <= highest)) highest = size;
    }
    return highest;
}
