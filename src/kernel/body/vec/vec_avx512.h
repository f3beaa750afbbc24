// SPDX-License-Identifier: MIT
// vec_avx512.h: defines the vector functions of the kernel bodies for AVX-512: 16 floats per
// vector.
// A function with the suffix _n processes only the first n lanes (0 <= n <= VW): it neither reads
// nor writes the memory of the other lanes, and a load sets them to 0. Each function is on one line
// where possible, so that two instruction sets can be compared.
// clang-format off
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
// returns a with all lanes after the first n set to 0
static inline vf vf_first(vf a, int64_t n) { return _mm512_maskz_mov_ps(vm_first(n), a); }
static inline float vf_lane0(vf a) { return _mm512_cvtss_f32(a); }
static inline vf vf_set1(float a) { return _mm512_set1_ps(a); }
static inline vf vf_zero(void) { return _mm512_setzero_ps(); }
static inline vf vf_add(vf a, vf b) { return _mm512_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm512_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm512_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm512_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm512_sqrt_ps(a); }
// returns a b + c, rounded once
static inline vf vf_fma(vf a, vf b, vf c) { return _mm512_fmadd_ps(a, b, c); }
// returns c - a b, rounded once
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm512_fnmadd_ps(a, b, c); }
// returns a b - c, rounded once
static inline vf vf_fms(vf a, vf b, vf c) { return _mm512_fmsub_ps(a, b, c); }
// vf_max and vf_min return NaN if the second argument is NaN, as the instruction does.
static inline vf vf_max(vf a, vf b) { return _mm512_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm512_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm512_abs_ps(a); }
static inline vf vf_round(vf a) { return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT); }
// returns a 2^n for an integer n
static inline vf vf_pow2(vf a, vf n) { return _mm512_scalef_ps(a, n); }
static inline vf vf_lt0(vf x, vf a, vf b) // per lane: x < 0 ? a : b
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, _mm512_setzero_ps(), _CMP_LT_OQ), b, a);
}
static inline vf vf_lt(vf x, vf y, vf a, vf b) // per lane: x < y ? a : b
{
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(x, y, _CMP_LT_OQ), b, a);
}
static inline vf vf_sign(vf a, vf sign) // returns a (>= 0) with the sign of `sign`
{
    return _mm512_or_ps(a, _mm512_and_ps(sign, _mm512_set1_ps(-0.0f)));
}
// u in [1, 16) is in one of 16 cells, four per octave. vi_cell returns the index of the cell,
// vf_cell_middle the middle of the cell.
static inline vi vi_cell(vf u)
{
    return _mm512_srli_epi32(_mm512_sub_epi32(_mm512_castps_si512(u), _mm512_set1_epi32(0x3f800000)), 21);
}
static inline vf vf_cell_middle(vf u)
{
    const vi top = _mm512_andnot_si512(_mm512_set1_epi32(0x1fffff), _mm512_castps_si512(u));
    return _mm512_castsi512_ps(_mm512_or_si512(top, _mm512_set1_epi32(0x100000)));
}
static inline vf vf_lookup16(const float *table, vi i) // returns table[i] for i in 0..15
{
    return _mm512_permutexvar_ps(i, _mm512_loadu_ps(table));
}
// Returns the sum of the lanes, which are always added in the same order, pairwise as a tree.
static inline float vf_total(vf a)
{
    const __m256 h = _mm256_add_ps(_mm512_castps512_ps256(a), _mm512_extractf32x8_ps(a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(h), _mm256_extractf128_ps(h, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
// Functions for 16-bit floats: a load is exact; a store rounds to nearest even, and NaN remains
// NaN.
static inline vf vf_of_bf16(__m256i h)
{
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(h), 16));
}
static inline __m256i vf_to_bf16(vf a)
{
    const __m512i u = _mm512_castps_si512(a), high = _mm512_srli_epi32(u, 16);
    const __m512i odd = _mm512_and_si512(high, _mm512_set1_epi32(1));
    const __m512i near = _mm512_add_epi32(_mm512_add_epi32(u, _mm512_set1_epi32(0x7fff)), odd);
    const __m512i quiet = _mm512_or_si512(high, _mm512_set1_epi32(0x40));
    return _mm512_cvtepi32_epi16(_mm512_mask_mov_epi32(_mm512_srli_epi32(near, 16), _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), quiet));
}
static inline vf vf_load_bf16(const uint16_t *p) { return vf_of_bf16(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
static inline vf vf_load_bf16_n(const uint16_t *p, int64_t n) { return vf_of_bf16(_mm256_maskz_loadu_epi16(vm_first(n), p)); }
static inline void vf_store_bf16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)(void *)p, vf_to_bf16(a)); }
static inline void vf_store_bf16_n(uint16_t *p, vf a, int64_t n) { _mm256_mask_storeu_epi16(p, vm_first(n), vf_to_bf16(a)); }
static inline vf vf_load_f16(const uint16_t *p) { return _mm512_cvtph_ps(_mm256_loadu_si256((const __m256i *)(const void *)p)); }
static inline vf vf_load_f16_n(const uint16_t *p, int64_t n) { return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(vm_first(n), p)); }
static inline void vf_store_f16(uint16_t *p, vf a) { _mm256_storeu_si256((__m256i *)(void *)p, _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT)); }
static inline void vf_store_f16_n(uint16_t *p, vf a, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
// Interleaves two rows of 16-bit numbers: lane i contains a[i] in its low half and b[i] in its high
// half.
static inline vf vf_pair_halves(const uint16_t *a, const uint16_t *b)
{
    const __m512i low = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)a));
    const __m512i high = _mm512_cvtepu16_epi32(_mm256_loadu_si256((const __m256i *)(const void *)b));
    return _mm512_castsi512_ps(_mm512_or_si512(low, _mm512_slli_epi32(high, 16)));
}
// returns in lane i: a if words[i] >= least, otherwise 0
static inline vf vf_keep(const uint32_t *words, uint32_t least, vf a)
{
    return _mm512_maskz_mov_ps(_mm512_cmpge_epu32_mask(_mm512_loadu_si512(words), _mm512_set1_epi32((int)least)), a);
}
// Functions for 8-bit integers: a store rounds to nearest even and clamps to -128 .. 127.
static inline vf vf_load_int8(const int8_t *p) { return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128((const __m128i *)(const void *)p))); }
static inline void vf_store_int8(int8_t *p, vf a) { _mm_storeu_si128((__m128i *)(void *)p, _mm512_cvtsepi32_epi8(_mm512_cvtps_epi32(a))); }
// 32-bit integers.
static inline vi vi_set1(int32_t a) { return _mm512_set1_epi32(a); }
static inline vi vi_load(const int32_t *p) { return _mm512_loadu_si512(p); }
static inline void vi_store(uint32_t *p, vi a) { _mm512_storeu_si512(p, a); }
// returns the maximum of unsigned integers, lane by lane
static inline vi vi_max(vi a, vi b) { return _mm512_max_epu32(a, b); }
static inline vi vi_bits(vf a) { return _mm512_castps_si512(a); }
static inline vi vi_add(vi a, vi b) { return _mm512_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm512_xor_si512(a, b); }
// multiplies the lanes as unsigned integers; returns the high halves of the products, *low receives
// the low halves
static inline vi vi_mul_wide(vi *low, vi a, uint32_t by)
{
    const __m512i m = _mm512_set1_epi64(by), even = _mm512_mul_epu32(a, m);
    const __m512i odd = _mm512_mul_epu32(_mm512_srli_epi64(a, 32), m);
    *low = _mm512_mask_mov_epi32(even, 0xaaaa, _mm512_slli_epi64(odd, 32));
    return _mm512_mask_mov_epi32(_mm512_srli_epi64(even, 32), 0xaaaa, odd);
}
static inline void vi_transpose4(vi r[4]) // in each four lanes: r[i] lane j becomes r[j] lane i
{
    const vi a = _mm512_unpacklo_epi32(r[0], r[1]), b = _mm512_unpackhi_epi32(r[0], r[1]);
    const vi c = _mm512_unpacklo_epi32(r[2], r[3]), d = _mm512_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm512_unpacklo_epi64(a, c);
    r[1] = _mm512_unpackhi_epi64(a, c);
    r[2] = _mm512_unpacklo_epi64(b, d);
    r[3] = _mm512_unpackhi_epi64(b, d);
}
static inline vf vf_of_vi(vi a) { return _mm512_cvtepi32_ps(a); }
// ---- for attention -----------------------------------------------------------------------------
// Returns the mask of lanes lo .. hi-1; both bounds may lie outside the vector.
static inline vm vm_range(int64_t lo, int64_t hi)
{
    const int64_t a = lo < 0 ? 0 : lo > VW ? VW : lo, b = hi < 0 ? 0 : hi > VW ? VW : hi;
    return (vm)(vm_first(b) & ~vm_first(a));
}
static inline vm vm_and(vm a, vm b) { return a & b; }
static inline vm vm_not_equal(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_NEQ_UQ); }
// returns one bit per lane, set where a > b
static inline uint32_t vf_above(vf a, vf b) { return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ); }
// loads one byte for each lane in the mask m and returns the mask of the lanes whose byte is not 0;
// bytes of other lanes are not read
static inline vm vm_bytes(const uint8_t *p, vm m)
{
    const __m128i b = _mm_maskz_loadu_epi8(m, p);
    return _mm_test_epi8_mask(b, b);
}
static inline vm vm_finite(vf a) { return (vm)~_mm512_fpclass_ps_mask(a, 0x99); }
static inline bool vm_full(vm m) { return m == 0xffff; }
// loads the lanes in m; the other lanes are not read and become 0
static inline vf vf_load_m(const float *p, vm m) { return _mm512_maskz_loadu_ps(m, p); }
// per lane: m ? a : b
static inline vf vf_select(vm m, vf a, vf b) { return _mm512_mask_blend_ps(m, b, a); }
static inline vf vf_lanes(void) // returns the indices of the lanes: 0, 1, 2 ...
{
    return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
}
// returns a 2^n, or 0 in lanes where t < limit; a and a 2^n must be normal numbers; NaN in t gives
// NaN
static inline vf vf_shift_exponent_above(vf a, vf n, vf t, float limit)
{
    return _mm512_maskz_scalef_ps(_mm512_cmp_ps_mask(t, _mm512_set1_ps(limit), _CMP_NLT_UQ), a, n);
}
static inline float vf_highest(vf a) { return _mm512_reduce_max_ps(a); }
// Pairs of 16-bit integers: pairs_put stores numbers, rounded to nearest even, as VW integers;
// pairs_load loads VW pairs of 8-bit integers; pairs_dot adds a_0 b_0 + a_1 b_1 to each lane.
static inline void pairs_put(void *to, vf a)
{
    _mm256_storeu_si256(to, _mm512_cvtepi32_epi16(_mm512_cvtps_epi32(a)));
}
static inline vi pairs_load(const void *p)
{
    return _mm512_cvtepi8_epi16(_mm256_loadu_si256(p));
}
static inline vi pairs_dot(vi sum, vi x, vi w)
{
    return _mm512_add_epi32(sum, _mm512_madd_epi16(x, w));
}
// Transposes VW vectors: lane j of r[i] becomes lane i of r[j].
static inline void vf_transpose(vf r[VW])
{
    vf t[VW];
    for (int i = 0; i < VW; i += 2) {
        t[i] = _mm512_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm512_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VW; i += 4)
        for (int j = 0; j < 2; j++) {
            const __m512d a = _mm512_castps_pd(t[i + j]), b = _mm512_castps_pd(t[i + j + 2]);
            r[i + 2 * j] = _mm512_castpd_ps(_mm512_unpacklo_pd(a, b));
            r[i + 2 * j + 1] = _mm512_castpd_ps(_mm512_unpackhi_pd(a, b));
        }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0x88);
        t[i + 4] = _mm512_shuffle_f32x4(r[i], r[i + 4], 0xdd);
        t[i + 8] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0x88);
        t[i + 12] = _mm512_shuffle_f32x4(r[i + 8], r[i + 12], 0xdd);
    }
    for (int i = 0; i < 8; i++) {
        r[i] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0x88);
        r[i + 8] = _mm512_shuffle_f32x4(t[i], t[i + 8], 0xdd);
    }
}
