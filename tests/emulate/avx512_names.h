// SPDX-License-Identifier: MIT
// avx512_names.h: replaces the intrinsics of AVX-512 by the functions of avx512.h. A build with
// QKV_EMULATE_AVX512 includes it before each source that is compiled for AVX-512. Some intrinsics
// are macros of the compiler's header.
#include "emulate/avx512.h"

#undef _mm_maskz_loadu_epi8
#undef _mm_test_epi8_mask
#undef _mm256_mask_storeu_epi16
#undef _mm256_maskz_loadu_epi16
#undef _mm512_abs_ps
#undef _mm512_add_epi16
#undef _mm512_add_epi32
#undef _mm512_add_ps
#undef _mm512_and_ps
#undef _mm512_and_si512
#undef _mm512_andnot_si512
#undef _mm512_castpd_ps
#undef _mm512_castps512_ps256
#undef _mm512_castps_pd
#undef _mm512_castps_si512
#undef _mm512_castsi512_ps
#undef _mm512_castsi512_si256
#undef _mm512_cmp_ps_mask
#undef _mm512_cmpge_epi32_mask
#undef _mm512_cmpge_epu32_mask
#undef _mm512_cmple_epi32_mask
#undef _mm512_cmplt_epi32_mask
#undef _mm512_cmpneq_epi16_mask
#undef _mm512_cvtepi32_epi16
#undef _mm512_cvtepi32_epi8
#undef _mm512_cvtepi32_ps
#undef _mm512_cvtepi8_epi16
#undef _mm512_cvtepi8_epi32
#undef _mm512_cvtepu16_epi32
#undef _mm512_cvtne2ps_pbh
#undef _mm512_cvtneps_pbh
#undef _mm512_cvtph_ps
#undef _mm512_cvtps_epi32
#undef _mm512_cvtps_ph
#undef _mm512_cvtsepi32_epi8
#undef _mm512_cvtss_f32
#undef _mm512_div_ps
#undef _mm512_dpbf16_ps
#undef _mm512_dpbusd_epi32
#undef _mm512_dpwssd_epi32
#undef _mm512_extractf32x8_ps
#undef _mm512_extracti64x4_epi64
#undef _mm512_fmadd_ps
#undef _mm512_fmsub_ps
#undef _mm512_fnmadd_ps
#undef _mm512_fpclass_ps_mask
#undef _mm512_getexp_ps
#undef _mm_getexp_ss
#undef _mm512_load_si512
#undef _mm512_loadu_ps
#undef _mm512_loadu_si512
#undef _mm512_madd_epi16
#undef _mm512_mask_blend_ps
#undef _mm512_mask_max_epi32
#undef _mm512_mask_mov_epi16
#undef _mm512_mask_mov_epi32
#undef _mm512_mask_storeu_epi16
#undef _mm512_mask_storeu_epi32
#undef _mm512_mask_storeu_ps
#undef _mm512_maskz_add_ps
#undef _mm512_maskz_loadu_epi16
#undef _mm512_maskz_loadu_ps
#undef _mm512_maskz_mov_epi16
#undef _mm512_maskz_mov_ps
#undef _mm512_maskz_scalef_ps
#undef _mm512_max_epi32
#undef _mm512_max_epu32
#undef _mm512_max_ps
#undef _mm512_min_ps
#undef _mm512_mul_epu32
#undef _mm512_mul_ps
#undef _mm512_or_ps
#undef _mm512_or_si512
#undef _mm512_permutex2var_epi16
#undef _mm512_permutexvar_epi16
#undef _mm512_permutexvar_ps
#undef _mm512_reduce_max_epi32
#undef _mm512_reduce_max_ps
#undef _mm512_roundscale_ps
#undef _mm512_scalef_ps
#undef _mm_scalef_ss
#undef _mm512_set1_epi16
#undef _mm512_set1_epi32
#undef _mm512_set1_epi64
#undef _mm512_set1_ps
#undef _mm512_setr_ps
#undef _mm512_setzero_ps
#undef _mm512_setzero_si512
#undef _mm512_shuffle_f32x4
#undef _mm512_slli_epi32
#undef _mm512_slli_epi64
#undef _mm512_sqrt_ps
#undef _mm512_srli_epi32
#undef _mm512_srli_epi64
#undef _mm512_store_si512
#undef _mm512_storeu_ps
#undef _mm512_storeu_si512
#undef _mm512_sub_epi32
#undef _mm512_sub_ps
#undef _mm512_ternarylogic_epi32
#undef _mm512_unpackhi_epi16
#undef _mm512_unpackhi_epi32
#undef _mm512_unpackhi_epi64
#undef _mm512_unpackhi_pd
#undef _mm512_unpackhi_ps
#undef _mm512_unpacklo_epi16
#undef _mm512_unpacklo_epi32
#undef _mm512_unpacklo_epi64
#undef _mm512_unpacklo_pd
#undef _mm512_unpacklo_ps
#undef _mm512_xor_si512

#define _mm_maskz_loadu_epi8      emulated_128_maskz_loadu_epi8
#define _mm_test_epi8_mask        emulated_128_test_epi8_mask
#define _mm256_mask_storeu_epi16  emulated_256_mask_storeu_epi16
#define _mm256_maskz_loadu_epi16  emulated_256_maskz_loadu_epi16
#define _mm512_abs_ps             emulated_abs_ps
#define _mm512_add_epi16          emulated_add_epi16
#define _mm512_add_epi32          emulated_add_epi32
#define _mm512_add_ps             emulated_add_ps
#define _mm512_and_ps             emulated_and_ps
#define _mm512_and_si512          emulated_and_si512
#define _mm512_andnot_si512       emulated_andnot_si512
#define _mm512_castpd_ps          emulated_castpd_ps
#define _mm512_castps512_ps256    emulated_castps512_ps256
#define _mm512_castps_pd          emulated_castps_pd
#define _mm512_castps_si512       emulated_castps_si512
#define _mm512_castsi512_ps       emulated_castsi512_ps
#define _mm512_castsi512_si256    emulated_castsi512_si256
#define _mm512_cmp_ps_mask        emulated_cmp_ps_mask
#define _mm512_cmpge_epi32_mask   emulated_cmpge_epi32_mask
#define _mm512_cmpge_epu32_mask   emulated_cmpge_epu32_mask
#define _mm512_cmple_epi32_mask   emulated_cmple_epi32_mask
#define _mm512_cmplt_epi32_mask   emulated_cmplt_epi32_mask
#define _mm512_cmpneq_epi16_mask  emulated_cmpneq_epi16_mask
#define _mm512_cvtepi32_epi16     emulated_cvtepi32_epi16
#define _mm512_cvtepi32_epi8      emulated_cvtepi32_epi8
#define _mm512_cvtepi32_ps        emulated_cvtepi32_ps
#define _mm512_cvtepi8_epi16      emulated_cvtepi8_epi16
#define _mm512_cvtepi8_epi32      emulated_cvtepi8_epi32
#define _mm512_cvtepu16_epi32     emulated_cvtepu16_epi32
#define _mm512_cvtne2ps_pbh       emulated_cvtne2ps_pbh
#define _mm512_cvtneps_pbh        emulated_cvtneps_pbh
#define _mm512_cvtph_ps           emulated_cvtph_ps
#define _mm512_cvtps_epi32        emulated_cvtps_epi32
#define _mm512_cvtps_ph           emulated_cvtps_ph
#define _mm512_cvtsepi32_epi8     emulated_cvtsepi32_epi8
#define _mm512_cvtss_f32          emulated_cvtss_f32
#define _mm512_div_ps             emulated_div_ps
#define _mm512_dpbf16_ps          emulated_dpbf16_ps
#define _mm512_dpbusd_epi32       emulated_dpbusd_epi32
#define _mm512_dpwssd_epi32       emulated_dpwssd_epi32
#define _mm512_extractf32x8_ps    emulated_extractf32x8_ps
#define _mm512_extracti64x4_epi64 emulated_extracti64x4_epi64
#define _mm512_fmadd_ps           emulated_fmadd_ps
#define _mm512_fmsub_ps           emulated_fmsub_ps
#define _mm512_fnmadd_ps          emulated_fnmadd_ps
#define _mm512_fpclass_ps_mask    emulated_fpclass_ps_mask
#define _mm512_getexp_ps          emulated_getexp_ps
#define _mm_getexp_ss             emulated_getexp_ss
#define _mm512_load_si512         emulated_load_si512
#define _mm512_loadu_ps           emulated_loadu_ps
#define _mm512_loadu_si512        emulated_loadu_si512
#define _mm512_madd_epi16         emulated_madd_epi16
#define _mm512_mask_blend_ps      emulated_mask_blend_ps
#define _mm512_mask_max_epi32     emulated_mask_max_epi32
#define _mm512_mask_mov_epi16     emulated_mask_mov_epi16
#define _mm512_mask_mov_epi32     emulated_mask_mov_epi32
#define _mm512_mask_storeu_epi16  emulated_mask_storeu_epi16
#define _mm512_mask_storeu_epi32  emulated_mask_storeu_epi32
#define _mm512_mask_storeu_ps     emulated_mask_storeu_ps
#define _mm512_maskz_add_ps       emulated_maskz_add_ps
#define _mm512_maskz_loadu_epi16  emulated_maskz_loadu_epi16
#define _mm512_maskz_loadu_ps     emulated_maskz_loadu_ps
#define _mm512_maskz_mov_epi16    emulated_maskz_mov_epi16
#define _mm512_maskz_mov_ps       emulated_maskz_mov_ps
#define _mm512_maskz_scalef_ps    emulated_maskz_scalef_ps
#define _mm512_max_epi32          emulated_max_epi32
#define _mm512_max_epu32          emulated_max_epu32
#define _mm512_max_ps             emulated_max_ps
#define _mm512_min_ps             emulated_min_ps
#define _mm512_mul_epu32          emulated_mul_epu32
#define _mm512_mul_ps             emulated_mul_ps
#define _mm512_or_ps              emulated_or_ps
#define _mm512_or_si512           emulated_or_si512
#define _mm512_permutex2var_epi16 emulated_permutex2var_epi16
#define _mm512_permutexvar_epi16  emulated_permutexvar_epi16
#define _mm512_permutexvar_ps     emulated_permutexvar_ps
#define _mm512_reduce_max_epi32   emulated_reduce_max_epi32
#define _mm512_reduce_max_ps      emulated_reduce_max_ps
#define _mm512_roundscale_ps      emulated_roundscale_ps
#define _mm512_scalef_ps          emulated_scalef_ps
#define _mm_scalef_ss             emulated_scalef_ss
#define _mm512_set1_epi16         emulated_set1_epi16
#define _mm512_set1_epi32         emulated_set1_epi32
#define _mm512_set1_epi64         emulated_set1_epi64
#define _mm512_set1_ps            emulated_set1_ps
#define _mm512_setr_ps            emulated_setr_ps
#define _mm512_setzero_ps         emulated_setzero_ps
#define _mm512_setzero_si512      emulated_setzero_si512
#define _mm512_shuffle_f32x4      emulated_shuffle_f32x4
#define _mm512_slli_epi32         emulated_slli_epi32
#define _mm512_slli_epi64         emulated_slli_epi64
#define _mm512_sqrt_ps            emulated_sqrt_ps
#define _mm512_srli_epi32         emulated_srli_epi32
#define _mm512_srli_epi64         emulated_srli_epi64
#define _mm512_store_si512        emulated_store_si512
#define _mm512_storeu_ps          emulated_storeu_ps
#define _mm512_storeu_si512       emulated_storeu_si512
#define _mm512_sub_epi32          emulated_sub_epi32
#define _mm512_sub_ps             emulated_sub_ps
#define _mm512_ternarylogic_epi32 emulated_ternarylogic_epi32
#define _mm512_unpackhi_epi16     emulated_unpackhi_epi16
#define _mm512_unpackhi_epi32     emulated_unpackhi_epi32
#define _mm512_unpackhi_epi64     emulated_unpackhi_epi64
#define _mm512_unpackhi_pd        emulated_unpackhi_pd
#define _mm512_unpackhi_ps        emulated_unpackhi_ps
#define _mm512_unpacklo_epi16     emulated_unpacklo_epi16
#define _mm512_unpacklo_epi32     emulated_unpacklo_epi32
#define _mm512_unpacklo_epi64     emulated_unpacklo_epi64
#define _mm512_unpacklo_pd        emulated_unpacklo_pd
#define _mm512_unpacklo_ps        emulated_unpacklo_ps
#define _mm512_xor_si512          emulated_xor_si512

// src/kernel/isa_avx512vnni.c has these two as assembly.
#define ADD_PRODUCTS(NAME, SUM, A, B) (SUM = emulated_##NAME(SUM, A, B))
#define emulated_pdpwssd              emulated_dpwssd_epi32
#define emulated_pdpbusd              emulated_dpbusd_epi32
