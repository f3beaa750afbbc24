// SPDX-License-Identifier: MIT
// avx512.h: emulates the intrinsics of AVX-512 F, BW, DQ, VL, VNNI and BF16 that the kernels use,
// in C and AVX2, for tests on machines that lack them. Source: Intel SDM vol. 2, the operation of
// each instruction.
//
// emulated_X computes what the intrinsic _mm512_X computes, bit by bit, as long as MXCSR has its
// default (round to nearest even, subnormal numbers as they are). avx512_names.h replaces the
// intrinsics by these functions; avx512_lanes.h has those that move lanes, and the masked ones.
#ifndef QKV_TESTS_AVX512_H
#define QKV_TESTS_AVX512_H

#include <immintrin.h>
#include <stdint.h>

typedef int8_t i8x64 __attribute__((vector_size(64)));
typedef int16_t i16x32 __attribute__((vector_size(64)));
typedef uint16_t u16x32 __attribute__((vector_size(64)));
typedef int32_t i32x16 __attribute__((vector_size(64)));
typedef uint32_t u32x16 __attribute__((vector_size(64)));
typedef uint64_t u64x8 __attribute__((vector_size(64)));
typedef float f32x16 __attribute__((vector_size(64)));

// Both halves of a vector, for which AVX2 has the same operation.
union halves {
    f32x16 f;
    u32x16 u;
    __m256 hf[2];
    __m256i hi[2];
};

#define SIXTEEN(A)   A, A, A, A, A, A, A, A, A, A, A, A, A, A, A, A
#define EACH_LANE(I) for (int I = 0; I < 16; I++)
#define EACH_HALF(H) for (int H = 0; H < 2; H++)
// Not inline: the kernels unroll loops over vectors, and would be compiled for many minutes.
#define EMULATED static __attribute__((noinline, unused))

// ---- constants and casts -----------------------------------------------------------------------
EMULATED __m512 emulated_set1_ps(float a)
{
    return (__m512){ SIXTEEN(a) };
}
EMULATED __m512 emulated_setzero_ps(void)
{
    return (__m512){ 0 };
}
EMULATED __m512 emulated_setr_ps(float a, float b, float c, float d, float e, float f, float g,
                                 float h, float i, float j, float k, float l, float m, float n,
                                 float o, float p)
{
    return (__m512){ a, b, c, d, e, f, g, h, i, j, k, l, m, n, o, p };
}
EMULATED __m512i emulated_set1_epi16(short a)
{
    return (__m512i)(i16x32){ SIXTEEN(a), SIXTEEN(a) };
}
EMULATED __m512i emulated_set1_epi32(int a)
{
    return (__m512i)(i32x16){ SIXTEEN(a) };
}
EMULATED __m512i emulated_set1_epi64(long long a)
{
    return (__m512i){ a, a, a, a, a, a, a, a };
}
EMULATED __m512i emulated_setzero_si512(void)
{
    return (__m512i){ 0 };
}
EMULATED __m512i emulated_castps_si512(__m512 a)
{
    return (__m512i)a;
}
EMULATED __m512 emulated_castsi512_ps(__m512i a)
{
    return (__m512)a;
}
EMULATED __m512d emulated_castps_pd(__m512 a)
{
    return (__m512d)a;
}
EMULATED __m512 emulated_castpd_ps(__m512d a)
{
    return (__m512)a;
}
EMULATED __m256 emulated_castps512_ps256(__m512 a)
{
    return ((union halves){ .f = (f32x16)a }).hf[0];
}
EMULATED __m256i emulated_castsi512_si256(__m512i a)
{
    return ((union halves){ .u = (u32x16)a }).hi[0];
}
EMULATED __m256 emulated_extractf32x8_ps(__m512 a, int half)
{
    return ((union halves){ .f = (f32x16)a }).hf[half & 1];
}
EMULATED __m256i emulated_extracti64x4_epi64(__m512i a, int half)
{
    return ((union halves){ .u = (u32x16)a }).hi[half & 1];
}
EMULATED float emulated_cvtss_f32(__m512 a)
{
    return a[0];
}

// ---- arithmetic of floats ----------------------------------------------------------------------
EMULATED __m512 emulated_add_ps(__m512 a, __m512 b)
{
    return a + b;
}
EMULATED __m512 emulated_sub_ps(__m512 a, __m512 b)
{
    return a - b;
}
EMULATED __m512 emulated_mul_ps(__m512 a, __m512 b)
{
    return a * b;
}
EMULATED __m512 emulated_div_ps(__m512 a, __m512 b)
{
    return a / b;
}
#define OF_HALVES_1(NAME, OPERATION)                                                               \
    EMULATED __m512 emulated_##NAME(__m512 a)                                                      \
    {                                                                                              \
        union halves x = { .f = (f32x16)a };                                                       \
        EACH_HALF(h) x.hf[h] = OPERATION(x.hf[h]);                                                 \
        return (__m512)x.f;                                                                        \
    }
#define OF_HALVES_2(NAME, OPERATION)                                                               \
    EMULATED __m512 emulated_##NAME(__m512 a, __m512 b)                                            \
    {                                                                                              \
        union halves x = { .f = (f32x16)a }, y = { .f = (f32x16)b };                               \
        EACH_HALF(h) x.hf[h] = OPERATION(x.hf[h], y.hf[h]);                                        \
        return (__m512)x.f;                                                                        \
    }
#define OF_HALVES_3(NAME, OPERATION)                                                               \
    EMULATED __m512 emulated_##NAME(__m512 a, __m512 b, __m512 c)                                  \
    {                                                                                              \
        union halves x = { .f = (f32x16)a }, y = { .f = (f32x16)b }, z = { .f = (f32x16)c };       \
        EACH_HALF(h) z.hf[h] = OPERATION(x.hf[h], y.hf[h], z.hf[h]);                               \
        return (__m512)z.f;                                                                        \
    }
OF_HALVES_1(sqrt_ps, _mm256_sqrt_ps)
OF_HALVES_2(max_ps, _mm256_max_ps)
OF_HALVES_2(min_ps, _mm256_min_ps)
OF_HALVES_3(fmadd_ps, _mm256_fmadd_ps)
OF_HALVES_3(fmsub_ps, _mm256_fmsub_ps)
OF_HALVES_3(fnmadd_ps, _mm256_fnmadd_ps)

EMULATED __m512 emulated_abs_ps(__m512 a)
{
    return (__m512)((u32x16)a & 0x7fffffffu);
}
EMULATED __m512 emulated_and_ps(__m512 a, __m512 b)
{
    return (__m512)((u32x16)a & (u32x16)b);
}
EMULATED __m512 emulated_or_ps(__m512 a, __m512 b)
{
    return (__m512)((u32x16)a | (u32x16)b);
}
// Only whole numbers (the upper four bits of `how` are 0) and the rounding mode in `how`.
EMULATED __m512 emulated_roundscale_ps(__m512 a, int how)
{
    union halves x = { .f = (f32x16)a };
    EACH_HALF(h)
    switch (how & ~8) {
    case 0: x.hf[h] = _mm256_round_ps(x.hf[h], 0); break;
    case 1: x.hf[h] = _mm256_round_ps(x.hf[h], 1); break;
    case 2: x.hf[h] = _mm256_round_ps(x.hf[h], 2); break;
    case 3: x.hf[h] = _mm256_round_ps(x.hf[h], 3); break;
    default: __builtin_trap();
    }
    return (__m512)x.f;
}

// ---- the exponent of floats --------------------------------------------------------------------
EMULATED uint32_t emulated_bits(float x)
{
    uint32_t u;
    __builtin_memcpy(&u, &x, sizeof u);
    return u;
}
EMULATED float emulated_float(uint32_t u)
{
    float x;
    __builtin_memcpy(&x, &u, sizeof x);
    return x;
}
EMULATED float emulated_quiet(float x) // NaN
{
    return emulated_float(emulated_bits(x) | 0x400000u);
}
// Returns a 2^n, rounded once: the product is exact in double.
EMULATED float emulated_scalef(float a, float n)
{
    const float infinite = __builtin_inff();
    const uint32_t quiet = emulated_bits(a) & 0x400000u;
    const float none = emulated_float(0xffc00000u);
    if (__builtin_isnan(a)) {
        if (quiet && n == infinite) return infinite;
        if (quiet && n == -infinite) return 0;
        return emulated_quiet(a);
    }
    if (__builtin_isnan(n)) return emulated_quiet(n);
    if (__builtin_isinf(a)) return n == -infinite ? none : a;
    if (a == 0) return n == infinite ? none : a;
    const float within = n > 400 ? 400 : n < -400 ? -400 : n;
    const int64_t whole = (int64_t)within - ((float)(int64_t)within > within);
    union {
        uint64_t u;
        double d;
    } power = { .u = (uint64_t)(whole + 1023) << 52 };
    return (float)((double)a * power.d);
}
EMULATED __m512 emulated_scalef_ps(__m512 a, __m512 n)
{
    EACH_LANE(i) a[i] = emulated_scalef(a[i], n[i]);
    return a;
}
EMULATED __m128 emulated_scalef_ss(__m128 a, __m128 n)
{
    a[0] = emulated_scalef(a[0], n[0]);
    return a;
}
// Returns floor(log2 |x|).
EMULATED float emulated_getexp(float x)
{
    const uint32_t u = emulated_bits(x) & 0x7fffffffu;
    if (u > 0x7f800000u) return emulated_quiet(x);
    if (u == 0x7f800000u) return __builtin_inff();
    if (!u) return -__builtin_inff();
    return u >> 23 ? (float)((int)(u >> 23) - 127) : (float)(31 - __builtin_clz(u) - 149);
}
EMULATED __m512 emulated_getexp_ps(__m512 a)
{
    EACH_LANE(i) a[i] = emulated_getexp(a[i]);
    return a;
}
EMULATED __m128 emulated_getexp_ss(__m128 a, __m128 b)
{
    a[0] = emulated_getexp(b[0]);
    return a;
}

// ---- integers ----------------------------------------------------------------------------------
EMULATED __m512i emulated_and_si512(__m512i a, __m512i b)
{
    return a & b;
}
EMULATED __m512i emulated_andnot_si512(__m512i a, __m512i b)
{
    return ~a & b;
}
EMULATED __m512i emulated_or_si512(__m512i a, __m512i b)
{
    return a | b;
}
EMULATED __m512i emulated_xor_si512(__m512i a, __m512i b)
{
    return a ^ b;
}
// Bit 4 a + 2 b + c of `table` is the result for the bits a, b and c.
EMULATED __m512i emulated_ternarylogic_epi32(__m512i a, __m512i b, __m512i c, int table)
{
    __m512i r = { 0 };
    for (int n = 0; n < 8; n++)
        if (table >> n & 1) r |= (n & 4 ? a : ~a) & (n & 2 ? b : ~b) & (n & 1 ? c : ~c);
    return r;
}
EMULATED __m512i emulated_add_epi16(__m512i a, __m512i b)
{
    return (__m512i)((u16x32)a + (u16x32)b);
}
EMULATED __m512i emulated_add_epi32(__m512i a, __m512i b)
{
    return (__m512i)((u32x16)a + (u32x16)b);
}
EMULATED __m512i emulated_sub_epi32(__m512i a, __m512i b)
{
    return (__m512i)((u32x16)a - (u32x16)b);
}
EMULATED __m512i emulated_slli_epi32(__m512i a, unsigned n)
{
    return n > 31 ? (__m512i){ 0 } : (__m512i)((u32x16)a << n);
}
EMULATED __m512i emulated_srli_epi32(__m512i a, unsigned n)
{
    return n > 31 ? (__m512i){ 0 } : (__m512i)((u32x16)a >> n);
}
EMULATED __m512i emulated_slli_epi64(__m512i a, unsigned n)
{
    return n > 63 ? (__m512i){ 0 } : (__m512i)((u64x8)a << n);
}
EMULATED __m512i emulated_srli_epi64(__m512i a, unsigned n)
{
    return n > 63 ? (__m512i){ 0 } : (__m512i)((u64x8)a >> n);
}
EMULATED __m512i emulated_max_epi32(__m512i a, __m512i b)
{
    const i32x16 x = (i32x16)a, y = (i32x16)b, greater = x > y;
    return (__m512i)((x & greater) | (y & ~greater));
}
EMULATED __m512i emulated_max_epu32(__m512i a, __m512i b)
{
    const u32x16 x = (u32x16)a, y = (u32x16)b, greater = (u32x16)(x > y);
    return (__m512i)((x & greater) | (y & ~greater));
}
EMULATED __m512i emulated_mul_epu32(__m512i a, __m512i b)
{
    return (__m512i)(((u64x8)a & 0xffffffffu) * ((u64x8)b & 0xffffffffu));
}
// a_0 b_0 + a_1 b_1 of 16-bit integers; the sum wraps around.
EMULATED __m512i emulated_madd_epi16(__m512i a, __m512i b)
{
    const i16x32 x = (i16x32)a, y = (i16x32)b;
    u32x16 r;
    EACH_LANE(i)
    r[i] = (uint32_t)(x[2 * i] * y[2 * i]) + (uint32_t)(x[2 * i + 1] * y[2 * i + 1]);
    return (__m512i)r;
}
EMULATED __m512i emulated_dpwssd_epi32(__m512i sum, __m512i a, __m512i b)
{
    return emulated_add_epi32(sum, emulated_madd_epi16(a, b));
}
// Adds the products of four unsigned bytes of a and signed bytes of b; the sum wraps around.
EMULATED __m512i emulated_dpbusd_epi32(__m512i sum, __m512i a, __m512i b)
{
    const i8x64 x = (i8x64)a, y = (i8x64)b;
    u32x16 r = (u32x16)sum;
    for (int i = 0; i < 64; i++) r[i / 4] += (uint32_t)((uint8_t)x[i] * y[i]);
    return (__m512i)r;
}
EMULATED int emulated_reduce_max_epi32(__m512i a)
{
    const i32x16 x = (i32x16)a;
    int most = x[0];
    EACH_LANE(i) most = x[i] > most ? x[i] : most;
    return most;
}
// Halves of the lanes are compared; the second operand remains if one is NaN.
EMULATED float emulated_reduce_max_ps(__m512 a)
{
    for (int n = 8; n; n /= 2)
        for (int i = 0; i < n; i++) {
            const int high = n > 2 ? n + i : i, low = n > 2 ? i : n + i;
            a[i] = a[high] > a[low] ? a[high] : a[low];
        }
    return a[0];
}

// ---- conversions -------------------------------------------------------------------------------
EMULATED __m512 emulated_cvtepi32_ps(__m512i a)
{
    union halves x = { .u = (u32x16)a };
    EACH_HALF(h) x.hf[h] = _mm256_cvtepi32_ps(x.hi[h]);
    return (__m512)x.f;
}
// Numbers without a 32-bit integer become 0x80000000.
EMULATED __m512i emulated_cvtps_epi32(__m512 a)
{
    union halves x = { .f = (f32x16)a };
    EACH_HALF(h) x.hi[h] = _mm256_cvtps_epi32(x.hf[h]);
    return (__m512i)x.u;
}
EMULATED __m512 emulated_cvtph_ps(__m256i a)
{
    union halves x;
    x.hf[0] = _mm256_cvtph_ps(_mm256_castsi256_si128(a));
    x.hf[1] = _mm256_cvtph_ps(_mm256_extracti128_si256(a, 1));
    return (__m512)x.f;
}
// Only rounding to nearest even.
EMULATED __m256i emulated_cvtps_ph(__m512 a, int how)
{
    const union halves x = { .f = (f32x16)a };
    if (how & ~8) __builtin_trap();
    return _mm256_setr_m128i(_mm256_cvtps_ph(x.hf[0], 0), _mm256_cvtps_ph(x.hf[1], 0));
}
EMULATED __m512i emulated_cvtepi8_epi16(__m256i a)
{
    union halves x;
    x.hi[0] = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(a));
    x.hi[1] = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(a, 1));
    return (__m512i)x.u;
}
EMULATED __m512i emulated_cvtepu16_epi32(__m256i a)
{
    union halves x;
    x.hi[0] = _mm256_cvtepu16_epi32(_mm256_castsi256_si128(a));
    x.hi[1] = _mm256_cvtepu16_epi32(_mm256_extracti128_si256(a, 1));
    return (__m512i)x.u;
}
EMULATED __m512i emulated_cvtepi8_epi32(__m128i a)
{
    union halves x;
    x.hi[0] = _mm256_cvtepi8_epi32(a);
    x.hi[1] = _mm256_cvtepi8_epi32(_mm_srli_si128(a, 8));
    return (__m512i)x.u;
}
EMULATED __m256i emulated_cvtepi32_epi16(__m512i a) // truncates
{
    const u32x16 x = (u32x16)a;
    uint16_t r[16];
    EACH_LANE(i) r[i] = (uint16_t)x[i];
    return _mm256_loadu_si256((const void *)r);
}
EMULATED __m128i emulated_cvtepi32_epi8(__m512i a) // truncates
{
    const u32x16 x = (u32x16)a;
    uint8_t r[16];
    EACH_LANE(i) r[i] = (uint8_t)x[i];
    return _mm_loadu_si128((const void *)r);
}
EMULATED __m128i emulated_cvtsepi32_epi8(__m512i a) // clamps
{
    const i32x16 x = (i32x16)a;
    int8_t r[16];
    EACH_LANE(i) r[i] = (int8_t)(x[i] < -128 ? -128 : x[i] > 127 ? 127 : x[i]);
    return _mm_loadu_si128((const void *)r);
}

// ---- bf16 --------------------------------------------------------------------------------------
// Returns x with subnormal numbers replaced by 0 of their sign.
EMULATED u32x16 emulated_flush(u32x16 x)
{
    return x & ~((u32x16)((x & 0x7f800000u) == 0) & 0x7fffffffu);
}
// Rounds to nearest even, whatever MXCSR says; subnormal numbers become 0, and NaN is quiet.
EMULATED u32x16 emulated_bf16_of(__m512 a)
{
    const u32x16 x = emulated_flush((u32x16)a), odd = x >> 16 & 1;
    const u32x16 nan = (u32x16)((x & 0x7fffffffu) > 0x7f800000u);
    return (((x >> 16) | 0x40) & nan) | ((x + 0x7fff + odd) >> 16 & ~nan);
}
EMULATED __m256bh emulated_cvtneps_pbh(__m512 a)
{
    return (__m256bh)emulated_cvtepi32_epi16((__m512i)emulated_bf16_of(a));
}
// The numbers of b are in the lower half.
EMULATED __m512bh emulated_cvtne2ps_pbh(__m512 a, __m512 b)
{
    union halves x;
    x.hi[0] = (__m256i)emulated_cvtneps_pbh(b);
    x.hi[1] = (__m256i)emulated_cvtneps_pbh(a);
    return (__m512bh)x.u;
}
// Returns a b + c, rounded once; a result that is below 2^-126 with an unlimited exponent is 0. The
// multiply-add rounds to a multiple of 2^-149 there, so the numbers in [2^-126 - 2^-150, 2^-126 -
// 2^-151) become 2^-126. In double the sum is exact near these bounds.
EMULATED u32x16 emulated_madd_bf16(u32x16 a, u32x16 b, u32x16 c)
{
    u32x16 r = (u32x16)emulated_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
    union halves least = { .u = (u32x16)((r & 0x7fffffffu) == 0x00800000u) };
    if (_mm256_movemask_epi8(_mm256_or_si256(least.hi[0], least.hi[1]))) EACH_LANE(i)
        {
            const double sum =
                (double)((f32x16)a)[i] * (double)((f32x16)b)[i] + (double)((f32x16)c)[i];
            if (least.u[i] && sum < 0x1p-126 - 0x1p-151 && sum > -0x1p-126 + 0x1p-151)
                r[i] &= 0x80000000u;
        }
    return emulated_flush(r);
}
// Subnormal numbers count as 0, as inputs, sums and results; the second products come first.
EMULATED __m512 emulated_dpbf16_ps(__m512 sum, __m512bh a, __m512bh b)
{
    const u32x16 x = (u32x16)a, y = (u32x16)b;
    u32x16 r = emulated_flush((u32x16)sum);
    r = emulated_madd_bf16(emulated_flush(x & 0xffff0000u), emulated_flush(y & 0xffff0000u), r);
    return (__m512)emulated_madd_bf16(emulated_flush(x << 16), emulated_flush(y << 16), r);
}

#include "emulate/avx512_lanes.h"
#endif
