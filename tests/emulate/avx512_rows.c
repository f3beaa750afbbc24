// SPDX-License-Identifier: MIT
// avx512_rows.c: calls intrinsics of AVX-512 on given operands. It is compiled twice: with the
// instructions (real_rows) and with avx512_names.h (emulated_rows); test_avx512.c compares both.
#include "emulate/avx512_rows.h"
#include <immintrin.h>
#include <string.h>

#define S(N)  (((const __m512 *)from)[N])
#define I(N)  (((const __m512i *)from)[N])
#define B(N)  ((__m512bh)((const __m512i *)from)[N])
#define Q(N)  (*(const __m128 *)((const __m512 *)from + (N)))
#define M32   (*(const __mmask32 *)((const __m512i *)from + 3))
#define M16   ((__mmask16)M32)
#define LOW   (((const __m256i *)from)[0])
#define BYTES (((const __m128i *)from)[0])

#define CALL(NAME, TYPE, ...)                                                                      \
    static void call_##NAME(void *to, const void *from)                                            \
    {                                                                                              \
        const TYPE r = __VA_ARGS__;                                                                \
        memcpy(to, &r, sizeof r);                                                                  \
    }
// clang-format off
CALL(add, __m512, _mm512_add_ps(S(0), S(1)))
CALL(div, __m512, _mm512_div_ps(S(0), S(1)))
CALL(sqrt, __m512, _mm512_sqrt_ps(S(0)))
CALL(fma, __m512, _mm512_fmadd_ps(S(0), S(1), S(2)))
CALL(fms, __m512, _mm512_fmsub_ps(S(0), S(1), S(2)))
CALL(fnma, __m512, _mm512_fnmadd_ps(S(0), S(1), S(2)))
CALL(max, __m512, _mm512_max_ps(S(0), S(1)))
CALL(min, __m512, _mm512_min_ps(S(0), S(1)))
CALL(round, __m512, _mm512_roundscale_ps(S(0), 0))
CALL(scale, __m512, _mm512_scalef_ps(S(0), S(1)))
CALL(scale_z, __m512, _mm512_maskz_scalef_ps(M16, S(0), S(1)))
CALL(scale_1, __m128, _mm_scalef_ss(Q(0), Q(1)))
CALL(exponent, __m512, _mm512_getexp_ps(S(0)))
CALL(exponent_1, __m128, _mm_getexp_ss(Q(0), Q(1)))
CALL(class, __mmask16, _mm512_fpclass_ps_mask(S(0), 0x99))
CALL(minus, __mmask16, _mm512_fpclass_ps_mask(S(0), 0x46))
CALL(less, __mmask16, _mm512_cmp_ps_mask(S(0), S(1), _CMP_LT_OQ))
CALL(not_less, __mmask16, _mm512_cmp_ps_mask(S(0), S(1), _CMP_NLT_UQ))
CALL(unordered, __mmask16, _mm512_cmp_ps_mask(S(0), S(1), _CMP_UNORD_Q))
CALL(above, __mmask16, _mm512_cmp_ps_mask(S(0), S(1), _CMP_GT_OQ))
CALL(unequal, __mmask16, _mm512_cmp_ps_mask(S(0), S(1), _CMP_NEQ_UQ))
CALL(largest, float, _mm512_reduce_max_ps(S(0)))
CALL(largest_i, int, _mm512_reduce_max_epi32(I(0)))
CALL(to_int, __m512i, _mm512_cvtps_epi32(S(0)))
CALL(of_int, __m512, _mm512_cvtepi32_ps(I(0)))
CALL(to_f16, __m256i, _mm512_cvtps_ph(S(0), 0))
CALL(of_f16, __m512, _mm512_cvtph_ps(LOW))
CALL(clamp, __m128i, _mm512_cvtsepi32_epi8(I(0)))
CALL(cut, __m128i, _mm512_cvtepi32_epi8(I(0)))
CALL(cut_16, __m256i, _mm512_cvtepi32_epi16(I(0)))
CALL(extend, __m512i, _mm512_cvtepi8_epi16(LOW))
CALL(extend_8, __m512i, _mm512_cvtepi8_epi32(BYTES))
CALL(extend_16, __m512i, _mm512_cvtepu16_epi32(LOW))
CALL(madd, __m512i, _mm512_madd_epi16(I(0), I(1)))
CALL(mul, __m512i, _mm512_mul_epu32(I(0), I(1)))
CALL(max_i, __m512i, _mm512_max_epi32(I(0), I(1)))
CALL(max_u, __m512i, _mm512_max_epu32(I(0), I(1)))
CALL(max_m, __m512i, _mm512_mask_max_epi32(I(2), M16, I(0), I(1)))
CALL(logic, __m512i, _mm512_ternarylogic_epi32(I(0), I(1), I(2), 0xf8))
CALL(left, __m512i, _mm512_slli_epi32(I(0), 16))
CALL(right, __m512i, _mm512_srli_epi64(I(0), 32))
CALL(permute, __m512i, _mm512_permutex2var_epi16(I(0), I(1), I(2)))
CALL(permute_16, __m512i, _mm512_permutexvar_epi16(I(0), I(1)))
CALL(permute_32, __m512, _mm512_permutexvar_ps(I(0), S(1)))
CALL(shuffle, __m512, _mm512_shuffle_f32x4(S(0), S(1), 0xdd))
CALL(low_16, __m512i, _mm512_unpacklo_epi16(I(0), I(1)))
CALL(high_32, __m512i, _mm512_unpackhi_epi32(I(0), I(1)))
CALL(high_64, __m512i, _mm512_unpackhi_epi64(I(0), I(1)))
CALL(blend, __m512, _mm512_mask_blend_ps(M16, S(0), S(1)))
CALL(move_16, __m512i, _mm512_mask_mov_epi16(I(0), M32, I(1)))
CALL(move_z, __m512i, _mm512_maskz_mov_epi16(M32, I(1)))
CALL(unequal_16, __mmask32, _mm512_cmpneq_epi16_mask(I(0), I(1)))
CALL(at_least_u, __mmask16, _mm512_cmpge_epu32_mask(I(0), I(1)))
CALL(test, __mmask16, _mm_test_epi8_mask(BYTES, BYTES))
CALL(dot_16, __m512i, _mm512_dpwssd_epi32(I(0), I(1), I(2)))
CALL(dot_8, __m512i, _mm512_dpbusd_epi32(I(0), I(1), I(2)))
CALL(to_bf16, __m256bh, _mm512_cvtneps_pbh(S(0)))
CALL(to_bf16_2, __m512bh, _mm512_cvtne2ps_pbh(S(0), S(1)))
CALL(dot_bf16, __m512, _mm512_dpbf16_ps(S(0), B(1), B(2)))

const struct avx512_row AVX512_ROWS[] = {
    { "add", call_add, AVX512_BASE, true },
    { "div", call_div, AVX512_BASE, true },
    { "sqrt", call_sqrt, AVX512_BASE, true },
    { "fma", call_fma, AVX512_BASE, true },
    { "fms", call_fms, AVX512_BASE, true },
    { "fnma", call_fnma, AVX512_BASE, true },
    { "max", call_max, AVX512_BASE, false },
    { "min", call_min, AVX512_BASE, false },
    { "round", call_round, AVX512_BASE, false },
    { "scale", call_scale, AVX512_BASE, false },
    { "scale_z", call_scale_z, AVX512_BASE, false },
    { "scale_1", call_scale_1, AVX512_BASE, false },
    { "exponent", call_exponent, AVX512_BASE, false },
    { "exponent_1", call_exponent_1, AVX512_BASE, false },
    { "class", call_class, AVX512_BASE, false },
    { "minus", call_minus, AVX512_BASE, false },
    { "less", call_less, AVX512_BASE, false },
    { "not_less", call_not_less, AVX512_BASE, false },
    { "unordered", call_unordered, AVX512_BASE, false },
    { "above", call_above, AVX512_BASE, false },
    { "unequal", call_unequal, AVX512_BASE, false },
    { "largest", call_largest, AVX512_BASE, false },
    { "largest_i", call_largest_i, AVX512_BASE, false },
    { "to_int", call_to_int, AVX512_BASE, false },
    { "of_int", call_of_int, AVX512_BASE, false },
    { "to_f16", call_to_f16, AVX512_BASE, false },
    { "of_f16", call_of_f16, AVX512_BASE, false },
    { "clamp", call_clamp, AVX512_BASE, false },
    { "cut", call_cut, AVX512_BASE, false },
    { "cut_16", call_cut_16, AVX512_BASE, false },
    { "extend", call_extend, AVX512_BASE, false },
    { "extend_8", call_extend_8, AVX512_BASE, false },
    { "extend_16", call_extend_16, AVX512_BASE, false },
    { "madd", call_madd, AVX512_BASE, false },
    { "mul", call_mul, AVX512_BASE, false },
    { "max_i", call_max_i, AVX512_BASE, false },
    { "max_u", call_max_u, AVX512_BASE, false },
    { "max_m", call_max_m, AVX512_BASE, false },
    { "logic", call_logic, AVX512_BASE, false },
    { "left", call_left, AVX512_BASE, false },
    { "right", call_right, AVX512_BASE, false },
    { "permute", call_permute, AVX512_BASE, false },
    { "permute_16", call_permute_16, AVX512_BASE, false },
    { "permute_32", call_permute_32, AVX512_BASE, false },
    { "shuffle", call_shuffle, AVX512_BASE, false },
    { "low_16", call_low_16, AVX512_BASE, false },
    { "high_32", call_high_32, AVX512_BASE, false },
    { "high_64", call_high_64, AVX512_BASE, false },
    { "blend", call_blend, AVX512_BASE, false },
    { "move_16", call_move_16, AVX512_BASE, false },
    { "move_z", call_move_z, AVX512_BASE, false },
    { "unequal_16", call_unequal_16, AVX512_BASE, false },
    { "at_least_u", call_at_least_u, AVX512_BASE, false },
    { "test", call_test, AVX512_BASE, false },
    { "dot_16", call_dot_16, AVX512_VNNI, false },
    { "dot_8", call_dot_8, AVX512_VNNI, false },
    { "to_bf16", call_to_bf16, AVX512_BF16, false },
    { "to_bf16_2", call_to_bf16_2, AVX512_BF16, false },
    { "dot_bf16", call_dot_bf16, AVX512_BF16, true },
    { NULL, NULL, AVX512_BASE, false },
};
