// SPDX-License-Identifier: MIT
// vec_avx512bf16.h: stores vectors as bf16 with an instruction of AVX-512 BF16. Requires
// vec_avx512.h; typed.h uses the macros.
//
// Numbers are rounded to nearest even like by all other stores; subnormal numbers become 0, because
// the bf16 products of these CPUs count them as 0.
static inline void store_pairs(uint16_t *p, vf a)
{
    _mm256_storeu_si256((__m256i *)(void *)p, (__m256i)_mm512_cvtneps_pbh(a));
}
static inline void store_pairs_n(uint16_t *p, vf a, int64_t n)
{
    _mm256_mask_storeu_epi16(p, vm_first(n), (__m256i)_mm512_cvtneps_pbh(a));
}
#define TYPED_STORE_BF16   store_pairs
#define TYPED_STORE_BF16_N store_pairs_n
