// SPDX-License-Identifier: MIT
// amx_split.h: floats as sums of bf16.  After amx_tiles.h.
//
//   x = x0 + x1 + x2,   x0 = bf16(x),  x1 = bf16(x - x0),  x2 = x - x0 - x1
//
// Rounded to nearest each part is at most 2^-8 of the one before, both differences are exact, and
// 24 bits fit: x2 is a bf16 and the sum is x.  With two parts what is left out is below 2^-17 |x|.
// bf16 instructions take what is below 2^-126 as 0: numbers are first multiplied by a power of two
// that brings the largest of their row to 2^UP, where nothing that shows in a sum is so small, and
// no sum overflows that a sum of floats would not.  The power is taken out again at the end.
// docs/numerics.md, "AMX".

enum { UP = 40, FINITE = 0x7f800000 };

// Bits of the largest |x|; FINITE or more: something is not finite.
TILE_ALWAYS __m512i abs_bits(vf x)
{
    return _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(0x7fffffff));
}

// e with 2^UP <= |largest| 2^-e < 2^(UP + 1); 0 of nothing but zeros.  bits: of a finite number.
static float exponent_of(uint32_t bits)
{
    float x;
    memcpy(&x, &bits, sizeof x);
    return bits ? _mm_cvtss_f32(_mm_getexp_ss(_mm_setzero_ps(), _mm_set_ss(x))) - UP : 0;
}

// 32 numbers in their order as bf16, and back.
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

// part[0..parts-1] of 32 numbers.
TILE_ALWAYS void split(__m512i *part, vf low, vf high, const int parts)
{
    for (int p = 0; p < parts; p++) {
        part[p] = bf16_of(low, high);
        low = vf_sub(low, bf16_low(part[p]));
        high = vf_sub(high, bf16_high(part[p]));
    }
}

// The same of 32 numbers of which some are not finite: those stand in the first part alone, and are
// what the parts sum up to.
TILE_ALWAYS void split_odd(__m512i *part, vf low, vf high, const int parts)
{
    const vm a = vm_finite(low), b = vm_finite(high);
    const __mmask32 odd = ~((__mmask32)a | (__mmask32)b << 16);
    split(part, vf_select(a, low, vf_zero()), vf_select(b, high, vf_zero()), parts);
    part[0] = _mm512_mask_mov_epi16(part[0], odd, bf16_of(low, high));
}

// The float whose parts stand at `at`, `apart` bytes from one to the next.
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
