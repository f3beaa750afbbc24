// SPDX-License-Identifier: MIT
// amx_split.h: represents floats as sums of bf16. Requires amx_tiles.h.
//
//   x = x0 + x1 + x2,   x0 = bf16(x),  x1 = bf16(x - x0),  x2 = x - x0 - x1
//
// With rounding to nearest, each part is at most 2^-8 of the part before, both differences are
// exact, and the parts hold 24 bits: x2 is a bf16 and the sum is x. With two parts the remainder is
// below 2^-17 |x|. bf16 instructions treat numbers below 2^-126 as 0; so numbers are first
// multiplied by a power of two that brings the largest of their row to 2^UP. Then no number that
// affects a sum is that small, and no sum overflows that would not overflow in floats. The power is
// divided out at the end. docs/numerics.md, "AMX", derives the errors.

enum { UP = 40, FINITE = 0x7f800000 };

// Returns the bits of |x|; bits of FINITE or more mean that x is nonfinite.
TILE_ALWAYS __m512i abs_bits(vf x)
{
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// Returns the exponent e with 2^UP <= x 2^-e < 2^(UP + 1) for the finite number x >= 0 that has
// these bits; 0 if x is 0.
static float exponent_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return bits ? _mm_cvtss_f32(_mm_getexp_ss(_mm_setzero_ps(), _mm_set_ss(x))) - UP : 0;
}

// bf16_of converts 32 floats to bf16, in their order; bf16_low and bf16_high convert the first 16
// and the last 16 of them back to floats.
TILE_ALWAYS __m512i bf16_of(vf low, vf high)
{
    return (__m512i)_mm512_cvtne2ps_pbh(high, low);
}
TILE_ALWAYS vf bf16_low(__m512i x)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_castsi512_si256(x)), 16));
}
TILE_ALWAYS vf bf16_high(__m512i x)
{
    return _mm512_castsi512_ps(
        _mm512_slli_epi32(_mm512_cvtepu16_epi32(_mm512_extracti64x4_epi64(x, 1)), 16));
}

// Writes 32 numbers as sums of bf16 numbers: part[0] is the rounded number, each following part the
// rounded rest.
TILE_ALWAYS void split(__m512i *part, vf low, vf high, const int parts)
{
    for (int p = 0; p < parts; p++) {
        part[p] = bf16_of(low, high);
        low = vf_sub(low, bf16_low(part[p]));
        high = vf_sub(high, bf16_high(part[p]));
    }
}

// Splits 32 numbers of which some are nonfinite: a nonfinite number is stored in the first part
// only, and its other parts are 0, so that the sum of the parts is the number.
TILE_ALWAYS void split_odd(__m512i *part, vf low, vf high, const int parts)
{
    const vm a = vm_finite(low), b = vm_finite(high);
    const __mmask32 odd = ~((__mmask32)a | (__mmask32)b << 16);
    split(part, vf_select(a, low, vf_zero()), vf_select(b, high, vf_zero()), parts);
    part[0] = _mm512_mask_mov_epi16(part[0], odd, bf16_of(low, high));
}

// Returns 2^power times the sum of the bf16 parts at `at`, which are `apart` bytes apart.
TILE_ALWAYS float joined(const char *at, int64_t apart, float power, const int parts)
{
    float sum = 0;
    for (int p = parts - 1; p >= 0; p--) {
        uint16_t half;
        memcpy(&half, at + p * apart, sizeof half);
        const uint32_t bits = (uint32_t)half << 16;
        float x;
        memcpy(&x, &bits, sizeof x);
        sum += x;
    }
    return _mm_cvtss_f32(_mm_scalef_ss(_mm_set_ss(sum), _mm_set_ss(power)));
}
