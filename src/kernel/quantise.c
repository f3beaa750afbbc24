// SPDX-License-Identifier: MIT
// quantise.c: converts rows of numbers to 8-bit weights as files store them, and back.
//
//   scale = max |w| / 127,   q = w (127 / max |w|) rounded to nearest even
//
// The reverse is w = scale q, except for q = +-127, where |w| is the float nearest to 127 scale
// that, divided by 127, is exactly scale. So quantising the result again gives the same largest
// magnitude, the same scale and the same q, bit for bit.
#include "kernel/kernel.h"
#include "kernel/body/linear/quantise.h"

void qkv_quantise_row(int8_t *q, float *scale, const float *w, int64_t n, int64_t ld)
{
    float highest = 0, inverse;
    for (int64_t i = 0; i < n && highest == highest; i++) {
        const float size = fabsf(w[i * ld]);
        if (!(size <= highest)) highest = size;
    }
    *scale = int8_scale(highest, &inverse);
    for (int64_t i = 0; i < n; i++)
        q[i * ld] = inverse > 0 ? (int8_t)lrintf(w[i * ld] * inverse) : 0;
}

static float qkv_quantised_highest(float scale)
{
    const float near = 127 * scale;
    if (near / 127 == scale) return near;
    const float above = nextafterf(near, INFINITY), below = nextafterf(near, 0);
    return above / 127 == scale ? above : below / 127 == scale ? below : near;
}

void qkv_quantised_row(real *w, const int8_t *q, float scale, int64_t n, int64_t ld)
{
    const float highest = qkv_quantised_highest(scale);
    if (!(scale < INFINITY)) { // scale is NaN: the original row contained a nonfinite number
        for (int64_t i = 0; i < n; i++) w[i] = (real)NAN;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const int whole = q[i * ld];
        w[i] = (real)(whole == 127 ? highest : whole == -127 ? -highest : scale * (float)whole);
    }
}
