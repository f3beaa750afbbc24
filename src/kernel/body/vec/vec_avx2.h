// SPDX-License-Identifier: MIT
// vec_avx2.h: defines the vector functions of the kernel bodies for AVX2: 8 floats per vector. A
// function with the suffix _n processes only the first n lanes (0 <= n <= VW): it neither reads nor
// writes the memory of the other lanes, and a load sets them to 0. Each function is on one line
// where possible, so that two instruction sets can be compared.
// clang-format off
#include <immintrin.h>
#include <stdint.h>

typedef __m256 vf;
typedef __m256i vi;
enum { VW = 8 };

static inline __m256i vm_first(int64_t n)
{
    return _mm256_cmpgt_epi32(_mm256_set1_epi32((int)n), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}
static inline vf vf_load(const float *p) { return _mm256_loadu_ps(p); }
static inline vf vf_load_n(const float *p, int64_t n) { return _mm256_maskload_ps(p, vm_first(n)); }
static inline void vf_store(float *p, vf a) { _mm256_storeu_ps(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n)
{
    _mm256_maskstore_ps(p, vm_first(n), a);
    QKV_WRITTEN(p, (size_t)n * sizeof *p);
}
static inline vf vf_first(vf a, int64_t n) // keeps the first n lanes; the others become 0
{
    return _mm256_and_ps(a, _mm256_castsi256_ps(vm_first(n)));
}
static inline float vf_lane0(vf a) { return _mm256_cvtss_f32(a); }
static inline vf vf_set1(float a) { return _mm256_set1_ps(a); }
static inline vf vf_zero(void) { return _mm256_setzero_ps(); }
static inline vf vf_add(vf a, vf b) { return _mm256_add_ps(a, b); }
static inline vf vf_sub(vf a, vf b) { return _mm256_sub_ps(a, b); }
static inline vf vf_mul(vf a, vf b) { return _mm256_mul_ps(a, b); }
static inline vf vf_div(vf a, vf b) { return _mm256_div_ps(a, b); }
static inline vf vf_sqrt(vf a) { return _mm256_sqrt_ps(a); }
// returns a b + c, rounded once
static inline vf vf_fma(vf a, vf b, vf c) { return _mm256_fmadd_ps(a, b, c); }
// returns c - a b, rounded once
static inline vf vf_fnma(vf a, vf b, vf c) { return _mm256_fnmadd_ps(a, b, c); }
// returns a b - c, rounded once
static inline vf vf_fms(vf a, vf b, vf c) { return _mm256_fmsub_ps(a, b, c); }
// vf_max and vf_min return NaN if the second argument is NaN, as the instruction does.
static inline vf vf_max(vf a, vf b) { return _mm256_max_ps(a, b); }
static inline vf vf_min(vf a, vf b) { return _mm256_min_ps(a, b); }
static inline vf vf_abs(vf a) { return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), a); }
static inline vf vf_round(vf a) { return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC); }
// Returns a 2^n for an integer n in -252..254, computed in two steps, so that each power is
// representable and the result may be subnormal.
static inline vf vf_pow2(vf a, vf n)
{
    const __m256i whole = _mm256_cvtps_epi32(n), half = _mm256_srai_epi32(whole, 1);
    const __m256i one = _mm256_set1_epi32(127), rest = _mm256_sub_epi32(whole, half);
    a = _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(half, one), 23)));
    return _mm256_mul_ps(a, _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(rest, one), 23)));
}
static inline vf vf_lt0(vf x, vf a, vf b) // per lane: x < 0 ? a : b
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, _mm256_setzero_ps(), _CMP_LT_OQ));
}
static inline vf vf_lt(vf x, vf y, vf a, vf b) // per lane: x < y ? a : b
{
    return _mm256_blendv_ps(b, a, _mm256_cmp_ps(x, y, _CMP_LT_OQ));
}
static inline vf vf_sign(vf a, vf sign) // returns a (>= 0) with the sign of `sign`
{
    return _mm256_or_ps(a, _mm256_and_ps(sign, _mm256_set1_ps(-0.0f)));
}
// u in [1, 16) is in one of 16 cells, four per octave. vi_cell returns the index of the cell,
// vf_cell_middle the middle of the cell.
static inline vi vi_cell(vf u)
{
    return _mm256_srli_epi32(_mm256_sub_epi32(_mm256_castps_si256(u), _mm256_set1_epi32(0x3f800000)), 21);
}
static inline vf vf_cell_middle(vf u)
{
    const vi top = _mm256_andnot_si256(_mm256_set1_epi32(0x1fffff), _mm256_castps_si256(u));
    return _mm256_castsi256_ps(_mm256_or_si256(top, _mm256_set1_epi32(0x100000)));
}
static inline vf vf_lookup16(const float *table, vi i) // returns table[i] for i in 0..15
{
    const __m256 low = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table), i);
    const __m256 high = _mm256_permutevar8x32_ps(_mm256_loadu_ps(table + 8), i);
    return _mm256_blendv_ps(low, high, _mm256_castsi256_ps(_mm256_slli_epi32(i, 28)));
}
// Returns the sum of the lanes, which are always added in the same order, pairwise as a tree.
static inline float vf_total(vf a)
{
    __m128 q = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_add_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_add_ss(q, _mm_movehdup_ps(q)));
}
// Functions for 16-bit floats: a load is exact; a store rounds to nearest even, and NaN remains
// NaN.
static inline vf vf_of_bf16(__m128i h)
{
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(h), 16));
}
static inline __m128i vf_to_bf16(vf a)
{
    const __m256i u = _mm256_castps_si256(a), high = _mm256_srli_epi32(u, 16);
    const __m256i odd = _mm256_and_si256(high, _mm256_set1_epi32(1));
    const __m256i near = _mm256_add_epi32(_mm256_add_epi32(u, _mm256_set1_epi32(0x7fff)), odd);
    const __m256i quiet = _mm256_or_si256(high, _mm256_set1_epi32(0x40));
    const __m256i nan = _mm256_castps_si256(_mm256_cmp_ps(a, a, _CMP_UNORD_Q));
    const __m256i h = _mm256_blendv_epi8(_mm256_srli_epi32(near, 16), quiet, nan);
    return _mm_packus_epi32(_mm256_castsi256_si128(h), _mm256_extracti128_si256(h, 1));
}
// Load and store the first n of eight 16-bit numbers, for which AVX2 has no masked loads and
// stores.
static inline __m128i vf_halves_n(const uint16_t *p, int64_t n)
{
    uint16_t h[VW] = { 0 };
    for (int64_t i = 0; i < n && i < VW; i++) h[i] = p[i];
    return _mm_loadu_si128((const __m128i *)(const void *)h);
}
static inline void vf_halves_store_n(uint16_t *p, __m128i a, int64_t n)
{
    uint16_t h[VW];
    _mm_storeu_si128((__m128i *)(void *)h, a);
    for (int64_t i = 0; i < n && i < VW; i++) p[i] = h[i];
}
static inline vf vf_load_bf16(const uint16_t *p) { return vf_of_bf16(_mm_loadu_si128((const __m128i *)(const void *)p)); }
static inline vf vf_load_bf16_n(const uint16_t *p, int64_t n) { return vf_of_bf16(vf_halves_n(p, n)); }
static inline void vf_store_bf16(uint16_t *p, vf a) { _mm_storeu_si128((__m128i *)(void *)p, vf_to_bf16(a)); }
static inline void vf_store_bf16_n(uint16_t *p, vf a, int64_t n) { vf_halves_store_n(p, vf_to_bf16(a), n); }
static inline vf vf_load_f16(const uint16_t *p) { return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p)); }
static inline vf vf_load_f16_n(const uint16_t *p, int64_t n) { return _mm256_cvtph_ps(vf_halves_n(p, n)); }
static inline void vf_store_f16(uint16_t *p, vf a)
{
    _mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT));
}
static inline void vf_store_f16_n(uint16_t *p, vf a, int64_t n)
{
    vf_halves_store_n(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT), n);
}
// Loads sixteen bf16 numbers: a[0] receives the numbers with even indices, a[1] the others. Two
// loads that widen their numbers need more instructions.
static inline void vf_split_bf16(vf a[2], const uint16_t *p)
{
    const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)p);
    a[0] = _mm256_castsi256_ps(_mm256_slli_epi32(w, 16));
    a[1] = _mm256_and_ps(_mm256_castsi256_ps(w), _mm256_castsi256_ps(_mm256_set1_epi32(-65536)));
}
// Interleaves the lanes of two vectors, which undoes the order of vf_split_bf16.
static inline void vf_interleave(vf a[2])
{
    const vf low = _mm256_unpacklo_ps(a[0], a[1]), high = _mm256_unpackhi_ps(a[0], a[1]);
    a[0] = _mm256_permute2f128_ps(low, high, 0x20);
    a[1] = _mm256_permute2f128_ps(low, high, 0x31);
}
// Interleaves two rows of 16-bit numbers: lane i contains a[i] in its low half and b[i] in its high
// half.
static inline vf vf_pair_halves(const uint16_t *a, const uint16_t *b)
{
    const __m256i low = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)a));
    const __m256i high = _mm256_cvtepu16_epi32(_mm_loadu_si128((const __m128i *)(const void *)b));
    return _mm256_castsi256_ps(_mm256_or_si256(low, _mm256_slli_epi32(high, 16)));
}
// returns in lane i: a if words[i] >= least, otherwise 0
static inline vf vf_keep(const uint32_t *words, uint32_t least, vf a)
{
    const __m256i w = _mm256_loadu_si256((const __m256i *)(const void *)words);
    const __m256i most = _mm256_max_epu32(w, _mm256_set1_epi32((int)least));
    return _mm256_and_ps(a, _mm256_castsi256_ps(_mm256_cmpeq_epi32(most, w)));
}
// Functions for 8-bit integers: a store rounds to nearest even and clamps to -128 .. 127.
static inline vf vf_load_int8(const int8_t *p) { return _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)p))); }
static inline void vf_store_int8(int8_t *p, vf a)
{
    const __m256i n = _mm256_cvtps_epi32(a);
    const __m128i h = _mm_packs_epi32(_mm256_castsi256_si128(n), _mm256_extracti128_si256(n, 1));
    _mm_storel_epi64((__m128i *)(void *)p, _mm_packs_epi16(h, h));
}
// 32-bit integers.
static inline vi vi_set1(int32_t a) { return _mm256_set1_epi32(a); }
static inline vi vi_load(const int32_t *p) { return _mm256_loadu_si256((const __m256i *)(const void *)p); }
static inline void vi_store(uint32_t *p, vi a) { _mm256_storeu_si256((__m256i *)(void *)p, a); }
// returns the maximum of unsigned integers, lane by lane
static inline vi vi_max(vi a, vi b) { return _mm256_max_epu32(a, b); }
static inline vi vi_bits(vf a) { return _mm256_castps_si256(a); }
static inline vi vi_add(vi a, vi b) { return _mm256_add_epi32(a, b); }
static inline vi vi_xor(vi a, vi b) { return _mm256_xor_si256(a, b); }
// multiplies the lanes as unsigned integers; returns the high halves of the products, *low receives
// the low halves
static inline vi vi_mul_wide(vi *low, vi a, uint32_t by)
{
    const __m256i m = _mm256_set1_epi64x(by), even = _mm256_mul_epu32(a, m);
    const __m256i odd = _mm256_mul_epu32(_mm256_srli_epi64(a, 32), m);
    *low = _mm256_blend_epi32(even, _mm256_slli_epi64(odd, 32), 0xaa);
    return _mm256_blend_epi32(_mm256_srli_epi64(even, 32), odd, 0xaa);
}
static inline void vi_transpose4(vi r[4]) // in each four lanes: r[i] lane j becomes r[j] lane i
{
    const vi a = _mm256_unpacklo_epi32(r[0], r[1]), b = _mm256_unpackhi_epi32(r[0], r[1]);
    const vi c = _mm256_unpacklo_epi32(r[2], r[3]), d = _mm256_unpackhi_epi32(r[2], r[3]);
    r[0] = _mm256_unpacklo_epi64(a, c);
    r[1] = _mm256_unpackhi_epi64(a, c);
    r[2] = _mm256_unpacklo_epi64(b, d);
    r[3] = _mm256_unpackhi_epi64(b, d);
}
static inline vf vf_of_vi(vi a) { return _mm256_cvtepi32_ps(a); }
// ---- for attention -----------------------------------------------------------------------------
typedef __m256i vm;
// Returns the mask of lanes lo .. hi-1; both bounds may lie outside the vector.
static inline vm vm_range(int64_t lo, int64_t hi)
{
    const int64_t a = lo < 0 ? 0 : lo > VW ? VW : lo, b = hi < 0 ? 0 : hi > VW ? VW : hi;
    return _mm256_andnot_si256(vm_first(a), vm_first(b));
}
static inline vm vm_and(vm a, vm b) { return _mm256_and_si256(a, b); }
static inline vm vm_not_equal(vf a, vf b) { return _mm256_castps_si256(_mm256_cmp_ps(a, b, _CMP_NEQ_UQ)); }
static inline bool vm_full(vm m) { return _mm256_movemask_ps(_mm256_castsi256_ps(m)) == 0xff; }
// returns one bit per lane, set where a > b
static inline uint32_t vf_above(vf a, vf b) { return (uint32_t)_mm256_movemask_ps(_mm256_cmp_ps(a, b, _CMP_GT_OQ)); }
// loads one byte for each lane in the mask m and returns the mask of the lanes whose byte is not 0;
// bytes of other lanes are not read
static inline vm vm_bytes(const uint8_t *p, vm m)
{
    uint8_t b[VW];
    const int open = _mm256_movemask_ps(_mm256_castsi256_ps(m));
    if (open == 0xff) {
        for (int i = 0; i < VW; i++) b[i] = p[i];
    } else {
        for (int i = 0; i < VW; i++) b[i] = open >> i & 1 ? p[i] : 0;
    }
    const __m256i wide = _mm256_cvtepu8_epi32(_mm_loadl_epi64((const __m128i *)(const void *)b));
    return _mm256_cmpgt_epi32(wide, _mm256_setzero_si256());
}
static inline vm vm_finite(vf a) // mask of the finite lanes: a - a is NaN if a is nonfinite
{
    const vf zero = _mm256_sub_ps(a, a);
    return _mm256_castps_si256(_mm256_cmp_ps(zero, zero, _CMP_EQ_OQ));
}
// loads the lanes in m; the other lanes are not read and become 0
static inline vf vf_load_m(const float *p, vm m) { return _mm256_maskload_ps(p, m); }
static inline vf vf_select(vm m, vf a, vf b) // per lane: m ? a : b
{
    return _mm256_blendv_ps(b, a, _mm256_castsi256_ps(m));
}
static inline vf vf_lanes(void) { return _mm256_setr_ps(0, 1, 2, 3, 4, 5, 6, 7); }
// returns a 2^n, or 0 in lanes where t < limit; a and a 2^n must be normal numbers; NaN in t gives
// NaN
static inline vf vf_shift_exponent_above(vf a, vf n, vf t, float limit)
{
    const __m256i add = _mm256_slli_epi32(_mm256_cvtps_epi32(n), 23);
    const vf x = _mm256_castsi256_ps(_mm256_add_epi32(_mm256_castps_si256(a), add));
    // NaN is copied from t, because the integer addition could turn it into a number.
    return _mm256_or_ps(_mm256_and_ps(x, _mm256_cmp_ps(t, _mm256_set1_ps(limit), _CMP_GE_OQ)),
                        _mm256_cmp_ps(t, t, _CMP_UNORD_Q));
}
static inline float vf_highest(vf a)
{
    __m128 q = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    q = _mm_max_ps(q, _mm_movehl_ps(q, q));
    return _mm_cvtss_f32(_mm_max_ss(q, _mm_movehdup_ps(q)));
}
// Pairs of 16-bit integers: pairs_put stores numbers, rounded to nearest even, as VW integers;
// pairs_load loads VW pairs of 8-bit integers; pairs_dot adds a_0 b_0 + a_1 b_1 to each lane.
static inline void pairs_put(void *to, vf a)
{
    const __m256i q = _mm256_cvtps_epi32(a);
    _mm_storeu_si128(to,
                     _mm_packs_epi32(_mm256_castsi256_si128(q), _mm256_extracti128_si256(q, 1)));
}
static inline vi pairs_load(const void *p)
{
    return _mm256_cvtepi8_epi16(_mm_loadu_si128(p));
}
static inline vi pairs_dot(vi sum, vi x, vi w)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(x, w));
}
// Transposes VW vectors: lane j of r[i] becomes lane i of r[j].
static inline void vf_transpose(vf r[VW])
{
    vf t[VW];
    for (int i = 0; i < VW; i += 2) {
        t[i] = _mm256_unpacklo_ps(r[i], r[i + 1]);
        t[i + 1] = _mm256_unpackhi_ps(r[i], r[i + 1]);
    }
    for (int i = 0; i < VW; i += 4)
        for (int j = 0; j < 2; j++) {
            r[i + 2 * j] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0x44);
            r[i + 2 * j + 1] = _mm256_shuffle_ps(t[i + j], t[i + j + 2], 0xee);
        }
    for (int i = 0; i < 4; i++) {
        t[i] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x20);
        t[i + 4] = _mm256_permute2f128_ps(r[i], r[i + 4], 0x31);
    }
    for (int i = 0; i < VW; i++) r[i] = t[i];
}
