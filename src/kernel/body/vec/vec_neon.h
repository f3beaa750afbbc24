// SPDX-License-Identifier: MIT
// vec_neon.h: defines the vector functions of the kernel bodies for NEON: 4 floats per vector. A
// function with the suffix _n processes only the first n lanes (0 <= n <= VW): it neither reads nor
// writes the memory of the other lanes, and a load sets them to 0. Each function is on one line
// where possible, so that two instruction sets can be compared.
// clang-format off
#include <arm_neon.h>
#include <stdbool.h>
#include <stdint.h>

typedef float32x4_t vf;
typedef uint32x4_t vi;
typedef uint32x4_t vm; // mask: each lane is all ones or 0
enum { VW = 4 };

static inline int32x4_t vi_lanes(void)
{
    static const int32_t lanes[4] = { 0, 1, 2, 3 };
    return vld1q_s32(lanes);
}
static inline vm vm_first(int64_t n) { return vcgtq_s32(vdupq_n_s32((int32_t)n), vi_lanes()); }
static inline vf vf_load(const float *p) { return vld1q_f32(p); }
// NEON has no masked loads, so single lanes are loaded
static inline vf vf_load_n(const float *p, int64_t n)
{
    const vf zero = vdupq_n_f32(0);
    switch (n) {
    case 0: return zero;
    case 1: return vld1q_lane_f32(p, zero, 0);
    case 2: return vcombine_f32(vld1_f32(p), vdup_n_f32(0));
    case 3: return vld1q_lane_f32(p + 2, vcombine_f32(vld1_f32(p), vdup_n_f32(0)), 2);
    default: return vld1q_f32(p);
    }
}
static inline void vf_store(float *p, vf a) { vst1q_f32(p, a); }
static inline void vf_store_n(float *p, vf a, int64_t n)
{
    switch (n) {
    case 0: return;
    case 1: vst1q_lane_f32(p, a, 0); return;
    case 3: vst1q_lane_f32(p + 2, a, 2); // fall through
    case 2: vst1_f32(p, vget_low_f32(a)); return;
    default: vst1q_f32(p, a);
    }
}
static inline vf vf_first(vf a, int64_t n) // keeps the first n lanes; the others become 0
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vm_first(n)));
}
static inline float vf_lane0(vf a) { return vgetq_lane_f32(a, 0); }
static inline vf vf_set1(float a) { return vdupq_n_f32(a); }
static inline vf vf_zero(void) { return vdupq_n_f32(0); }
static inline vf vf_add(vf a, vf b) { return vaddq_f32(a, b); }
static inline vf vf_sub(vf a, vf b) { return vsubq_f32(a, b); }
static inline vf vf_mul(vf a, vf b) { return vmulq_f32(a, b); }
static inline vf vf_div(vf a, vf b) { return vdivq_f32(a, b); }
static inline vf vf_sqrt(vf a) { return vsqrtq_f32(a); }
// returns a b + c, rounded once
static inline vf vf_fma(vf a, vf b, vf c) { return vfmaq_f32(c, a, b); }
// returns c - a b, rounded once
static inline vf vf_fnma(vf a, vf b, vf c) { return vfmsq_f32(c, a, b); }
// returns a b - c, rounded once
static inline vf vf_fms(vf a, vf b, vf c) { return vfmaq_f32(vnegq_f32(c), a, b); }
// vf_max and vf_min return NaN if the second argument is NaN, and ignore a NaN in the first
// argument. The instructions fmax and fmaxnm treat NaN differently.
static inline vf vf_max(vf a, vf b) { return vbslq_f32(vcgtq_f32(a, b), a, b); }
static inline vf vf_min(vf a, vf b) { return vbslq_f32(vcltq_f32(a, b), a, b); }
static inline vf vf_abs(vf a) { return vabsq_f32(a); }
// rounds to the nearest integer, ties to even
static inline vf vf_round(vf a) { return vrndnq_f32(a); }
// Returns a 2^n for an integer n in -252..254, computed in two steps, so that each power is
// representable and the result may be subnormal.
static inline vf vf_pow2(vf a, vf n)
{
    const int32x4_t whole = vcvtq_s32_f32(n), half = vshrq_n_s32(whole, 1);
    const int32x4_t one = vdupq_n_s32(127), rest = vsubq_s32(whole, half);
    a = vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(half, one), 23)));
    return vmulq_f32(a, vreinterpretq_f32_s32(vshlq_n_s32(vaddq_s32(rest, one), 23)));
}
// per lane: x < 0 ? a : b
static inline vf vf_lt0(vf x, vf a, vf b) { return vbslq_f32(vcltzq_f32(x), a, b); }
// per lane: x < y ? a : b
static inline vf vf_lt(vf x, vf y, vf a, vf b) { return vbslq_f32(vcltq_f32(x, y), a, b); }
static inline vf vf_sign(vf a, vf sign) // returns a (>= 0) with the sign of `sign`
{
    return vbslq_f32(vdupq_n_u32(0x80000000), sign, a);
}
// u in [1, 16) is in one of 16 cells, four per octave. vi_cell returns the index of the cell,
// vf_cell_middle the middle of the cell.
static inline vi vi_cell(vf u)
{
    return vshrq_n_u32(vsubq_u32(vreinterpretq_u32_f32(u), vdupq_n_u32(0x3f800000)), 21);
}
static inline vf vf_cell_middle(vf u)
{
    const vi top = vbicq_u32(vreinterpretq_u32_f32(u), vdupq_n_u32(0x1fffff));
    return vreinterpretq_f32_u32(vorrq_u32(top, vdupq_n_u32(0x100000)));
}
static inline vf vf_lookup16(const float *table, vi i) // returns table[i] for i in 0..15
{
    const uint8_t *p = (const uint8_t *)(const void *)table;
    const uint8x16x4_t bytes = { { vld1q_u8(p), vld1q_u8(p + 16), vld1q_u8(p + 32), vld1q_u8(p + 48) } };
    // `at` contains, for each element, the indices of its four bytes in the table
    const vi at = vmlaq_u32(vdupq_n_u32(0x03020100), i, vdupq_n_u32(0x04040404));
    return vreinterpretq_f32_u8(vqtbl4q_u8(bytes, vreinterpretq_u8_u32(at)));
}
// Returns the sum of the lanes, which are always added in the same order, pairwise as a tree.
static inline float vf_total(vf a)
{
    const float32x2_t q = vadd_f32(vget_low_f32(a), vget_high_f32(a));
    return vget_lane_f32(q, 0) + vget_lane_f32(q, 1);
}
// Functions for 16-bit floats: a load is exact; a store rounds to nearest even, and NaN remains
// NaN.
static inline vf vf_of_bf16(uint16x4_t h) { return vreinterpretq_f32_u32(vshll_n_u16(h, 16)); }
static inline uint16x4_t vf_to_bf16(vf a)
{
    const vi u = vreinterpretq_u32_f32(a), high = vshrq_n_u32(u, 16);
    const vi odd = vandq_u32(high, vdupq_n_u32(1));
    const vi near = vaddq_u32(vaddq_u32(u, vdupq_n_u32(0x7fff)), odd);
    const vi quiet = vorrq_u32(high, vdupq_n_u32(0x40));
    return vmovn_u32(vbslq_u32(vceqq_f32(a, a), vshrq_n_u32(near, 16), quiet));
}
static inline vf vf_of_f16(uint16x4_t h) { return vcvt_f32_f16(vreinterpret_f16_u16(h)); }
static inline uint16x4_t vf_to_f16(vf a) { return vreinterpret_u16_f16(vcvt_f16_f32(a)); }
static inline uint16x4_t vf_halves_n(const uint16_t *p, int64_t n)
{
    uint16_t h[VW] = { 0 };
    for (int64_t i = 0; i < n && i < VW; i++) h[i] = p[i];
    return vld1_u16(h);
}
static inline void vf_halves_store_n(uint16_t *p, uint16x4_t a, int64_t n)
{
    uint16_t h[VW];
    vst1_u16(h, a);
    for (int64_t i = 0; i < n && i < VW; i++) p[i] = h[i];
}
static inline vf vf_load_bf16(const uint16_t *p) { return vf_of_bf16(vld1_u16(p)); }
static inline vf vf_load_bf16_n(const uint16_t *p, int64_t n) { return vf_of_bf16(vf_halves_n(p, n)); }
static inline void vf_store_bf16(uint16_t *p, vf a) { vst1_u16(p, vf_to_bf16(a)); }
static inline void vf_store_bf16_n(uint16_t *p, vf a, int64_t n) { vf_halves_store_n(p, vf_to_bf16(a), n); }
static inline vf vf_load_f16(const uint16_t *p) { return vf_of_f16(vld1_u16(p)); }
static inline vf vf_load_f16_n(const uint16_t *p, int64_t n) { return vf_of_f16(vf_halves_n(p, n)); }
static inline void vf_store_f16(uint16_t *p, vf a) { vst1_u16(p, vf_to_f16(a)); }
static inline void vf_store_f16_n(uint16_t *p, vf a, int64_t n) { vf_halves_store_n(p, vf_to_f16(a), n); }
// Interleaves two rows of 16-bit numbers: lane i contains a[i] in its low half and b[i] in its high
// half.
static inline vf vf_pair_halves(const uint16_t *a, const uint16_t *b)
{
    return vreinterpretq_f32_u32(vorrq_u32(vmovl_u16(vld1_u16(a)), vshll_n_u16(vld1_u16(b), 16)));
}
// returns in lane i: a if words[i] >= least, otherwise 0
static inline vf vf_keep(const uint32_t *words, uint32_t least, vf a)
{
    return vreinterpretq_f32_u32(vandq_u32(vreinterpretq_u32_f32(a), vcgeq_u32(vld1q_u32(words), vdupq_n_u32(least))));
}
// Functions for 8-bit integers: a store rounds to nearest even and clamps to -128 .. 127.
static inline vf vf_load_int8(const int8_t *p)
{
    uint32_t four;
    __builtin_memcpy(&four, p, sizeof four);
    const int16x8_t wide = vmovl_s8(vreinterpret_s8_u32(vdup_n_u32(four)));
    return vcvtq_f32_s32(vmovl_s16(vget_low_s16(wide)));
}
static inline void vf_store_int8(int8_t *p, vf a)
{
    const int16x4_t h = vqmovn_s32(vcvtnq_s32_f32(a));
    const uint32_t four = vget_lane_u32(vreinterpret_u32_s8(vqmovn_s16(vcombine_s16(h, h))), 0);
    __builtin_memcpy(p, &four, sizeof four);
}
// 32-bit integers.
static inline vi vi_set1(int32_t a) { return vreinterpretq_u32_s32(vdupq_n_s32(a)); }
static inline vi vi_load(const int32_t *p) { return vreinterpretq_u32_s32(vld1q_s32(p)); }
static inline void vi_store(uint32_t *p, vi a) { vst1q_u32(p, a); }
static inline vi vi_max(vi a, vi b) { return vmaxq_u32(a, b); } // maximum of unsigned integers
static inline vi vi_bits(vf a) { return vreinterpretq_u32_f32(a); }
static inline vi vi_add(vi a, vi b) { return vaddq_u32(a, b); }
static inline vi vi_xor(vi a, vi b) { return veorq_u32(a, b); }
// multiplies the lanes as unsigned integers; returns the high halves of the products, *low receives
// the low halves
static inline vi vi_mul_wide(vi *low, vi a, uint32_t by)
{
    const uint32x2_t m = vdup_n_u32(by);
    const uint32x4_t p = vreinterpretq_u32_u64(vmull_u32(vget_low_u32(a), m));
    const uint32x4_t q = vreinterpretq_u32_u64(vmull_u32(vget_high_u32(a), m));
    *low = vuzp1q_u32(p, q);
    return vuzp2q_u32(p, q);
}
static inline void vi_transpose4(vi r[4]) // r[i] lane j becomes r[j] lane i
{
    const uint64x2_t a = vreinterpretq_u64_u32(vtrn1q_u32(r[0], r[1]));
    const uint64x2_t b = vreinterpretq_u64_u32(vtrn2q_u32(r[0], r[1]));
    const uint64x2_t c = vreinterpretq_u64_u32(vtrn1q_u32(r[2], r[3]));
    const uint64x2_t d = vreinterpretq_u64_u32(vtrn2q_u32(r[2], r[3]));
    r[0] = vreinterpretq_u32_u64(vtrn1q_u64(a, c));
    r[1] = vreinterpretq_u32_u64(vtrn1q_u64(b, d));
    r[2] = vreinterpretq_u32_u64(vtrn2q_u64(a, c));
    r[3] = vreinterpretq_u32_u64(vtrn2q_u64(b, d));
}
static inline vf vf_of_vi(vi a) { return vcvtq_f32_s32(vreinterpretq_s32_u32(a)); }
// ---- for attention -----------------------------------------------------------------------------
// Returns the mask of lanes lo .. hi-1; both bounds may lie outside the vector.
static inline vm vm_range(int64_t lo, int64_t hi)
{
    const int64_t a = lo < 0 ? 0 : lo > VW ? VW : lo, b = hi < 0 ? 0 : hi > VW ? VW : hi;
    return vbicq_u32(vm_first(b), vm_first(a));
}
static inline vm vm_and(vm a, vm b) { return vandq_u32(a, b); }
static inline vm vm_not_equal(vf a, vf b) { return vmvnq_u32(vceqq_f32(a, b)); }
static inline bool vm_full(vm m) { return vminvq_u32(m) != 0; }
static inline uint32_t vf_above(vf a, vf b) // returns one bit per lane, set where a > b
{
    const uint32x4_t bit = { 1, 2, 4, 8 };
    return vaddvq_u32(vandq_u32(vcgtq_f32(a, b), bit));
}
// loads one byte for each lane in the mask m and returns the mask of the lanes whose byte is not 0;
// bytes of other lanes are not read
static inline vm vm_bytes(const uint8_t *p, vm m)
{
    uint32_t open[VW];
    vst1q_u32(open, m);
    for (int i = 0; i < VW; i++) open[i] = open[i] ? p[i] : 0;
    const vi bytes = vld1q_u32(open);
    return vtstq_u32(bytes, bytes);
}
static inline vm vm_finite(vf a) // mask of the finite lanes: a - a is NaN if a is nonfinite
{
    const vf zero = vsubq_f32(a, a);
    return vceqq_f32(zero, zero);
}
// loads the lanes in m; the other lanes are not read and become 0
static inline vf vf_load_m(const float *p, vm m)
{
    if (vm_full(m)) return vld1q_f32(p);
    uint32_t open[VW];
    float x[VW];
    vst1q_u32(open, m);
    for (int i = 0; i < VW; i++) x[i] = open[i] ? p[i] : 0;
    return vld1q_f32(x);
}
static inline vf vf_select(vm m, vf a, vf b) { return vbslq_f32(m, a, b); } // per lane: m ? a : b
static inline vf vf_lanes(void) { return vcvtq_f32_s32(vi_lanes()); }
// returns a 2^n, or 0 in lanes where t < limit; a and a 2^n must be normal numbers; NaN in t gives
// NaN
static inline vf vf_shift_exponent_above(vf a, vf n, vf t, float limit)
{
    // If t is NaN, a is NaN too, and n converts to 0, so that a remains NaN.
    const int32x4_t x = vaddq_s32(vreinterpretq_s32_f32(a), vshlq_n_s32(vcvtq_s32_f32(n), 23));
    const vm low = vcltq_f32(t, vdupq_n_f32(limit));
    return vreinterpretq_f32_u32(vbicq_u32(vreinterpretq_u32_s32(x), low));
}
static inline float vf_highest(vf a) { return vmaxvq_f32(a); }
// Transposes VW vectors: lane j of r[i] becomes lane i of r[j].
static inline void vf_transpose(vf r[VW])
{
    const float64x2_t a = vreinterpretq_f64_f32(vtrn1q_f32(r[0], r[1]));
    const float64x2_t b = vreinterpretq_f64_f32(vtrn2q_f32(r[0], r[1]));
    const float64x2_t c = vreinterpretq_f64_f32(vtrn1q_f32(r[2], r[3]));
    const float64x2_t d = vreinterpretq_f64_f32(vtrn2q_f32(r[2], r[3]));
    r[0] = vreinterpretq_f32_f64(vtrn1q_f64(a, c));
    r[1] = vreinterpretq_f32_f64(vtrn1q_f64(b, d));
    r[2] = vreinterpretq_f32_f64(vtrn2q_f64(a, c));
    r[3] = vreinterpretq_f32_f64(vtrn2q_f64(b, d));
}
