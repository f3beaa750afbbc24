// SPDX-License-Identifier: MIT
// vec_avx512.h: the words of the vector bodies: 16 floats a vector.
// _n: the first n lanes only (0 <= n <= VW); lanes past n are neither read nor written, and load as 0.
#include <immintrin.h>
#include <stdint.h>

typedef __m512 vf;
typedef __m512i vi;
typedef __mmask16 vm;
enum { VW = 16 };

static inline vm vm_first(int64_t n) { return (vm)((1u << n) - 1); }
static inline vf vf_load(const float *p) { return _mm512_loadu_ps(p); }
static inline vf vf_load_n(const float *p, int64_t n) { return _mm512_maskz_loadu_ps(vm_first(n), p); }
static inline void vf_store(float *p, vf a) { _mm512_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n) { _mm512_mask_storeu_ps(p, vm_first(n), a); }
static inline vf vf_first(vf a, int64_t n) { return _mm512_maskz_mov_ps(vm_first(n), a); } // rest: 0
static inline vf vf_set1(float a) { return _mm512_set1_ps(a); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }   // a b + c
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); } // c - a b
static inline vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }   // a b - c
// A NaN in the second argument stays, as the instruction has it.
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
static inline vf vf_pow2(vf a, vf n) { return _mm512_scalef_ps(a, n); } // a 2^n, n a whole number
static inline vf vf_lt0(vf x, vf a, vf b) // x < 0 ? a : b
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}
static inline vf vf_lt(vf x, vf y, vf a, vf b) // x < y ? a : b
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
static inline vf vf_sign(vf a, vf sign) // a >= 0 with the sign of the other
{
    return _mm512_or_ps(a, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
// u in [1, 16) lies in one of 16 cells, four an octave: which, and the middle of it.
static inline vi vi_cell(vf u)
{
    return _mm512_srli_epi32(_mm512_sub_epi32(_mm512_castps_si512(u), _mm512_set1_epi32(0x3f800000)), 21);
}
static inline vf vf_cell_middle(vf u)
{
    const vi top = _mm512_andnot_si512(_mm512_set1_epi32(0x1fffff), _mm512_castps_si512(u));
    return _mm512_castsi512_ps(_mm512_or_si512(top, _mm512_set1_epi32(0x100000)));
}
static inline vf vf_lookup16(const float *table, vi i) // table[i], i in 0..15
{
    return _mm512_permutexvar_ps(i, _mm512_loadu_ps(table));
}
// The sum of the lanes, always by the same tree.
static inline float vf_total(vf a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
