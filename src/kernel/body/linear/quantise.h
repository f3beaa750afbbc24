// SPDX-License-Identifier: MIT
// quantise.h: quantises numbers to integers in -127 .. 127 times a scale, symmetric around 0.
#include <math.h>

// Returns the scale of numbers whose largest magnitude is `highest`; *inverse is the factor that is
// applied before rounding to nearest even. The error |x - scale q| is at most scale / 2 plus a
// rounding error. A maximum below 2^-100 counts as 0, because the inverse would overflow; a
// nonfinite maximum makes the scale, and so every result, NaN.
static inline float int8_scale(float highest, float *inverse)
{
    *inverse = 0;
    if (highest < 0x1p-100f) return 0;
    if (!(highest < INFINITY)) return NAN;
    *inverse = 127 / highest;
    return highest / 127;
}

// Returns the largest magnitude of the n numbers of w, which are ld apart; NaN if one of the
// numbers is NaN.
static inline float int8_highest_of(const real *w, int64_t n, int64_t ld)
{
    float highest = 0;
    for (int64_t i = 0; i < n && highest == highest; i++) {
        const float size = fabsf((float)w[i * ld]);
        if (!(size <= highest)) highest = size;
    }
    return highest;
}
