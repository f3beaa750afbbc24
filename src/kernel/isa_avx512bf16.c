// SPDX-License-Identifier: MIT
// isa_avx512bf16.c: defines the kernel table for CPUs with AVX-512 BF16. kernel.h has the contracts
// of the kernels, isa.def the required compiler flags and CPU features. The file contains only
// static functions and one table.
#include "kernel/kernel.h"
#define ISA_NAME "avx512bf16"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_avx512.h"
#include <float.h>
#include <math.h>
#include <string.h>

// Stores a vector as bf16, rounded to nearest even like all other stores; subnormal numbers become
// 0, because the bf16 products of this CPU count them as 0.
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
#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/attention/attention_pairs.h"
#include "kernel/body/attention/attention_back_pairs.h"
#define LINEAR_MR 8
#define LINEAR_NR 3
#include "kernel/body/linear/linear.h"
#include "kernel/body/linear/linear_pairs.h"
#include "kernel/body/peak/peak_pairs.h"

const struct qkv_kernels qkv_kernels_avx512bf16 = {
    .isa = ISA_NAME,
    .attention[QKV_PRECISION_BF16] = &attention_pairs,
    .attention_back[QKV_PRECISION_BF16] = &attention_back_pairs,
    .linear[QKV_PRECISION_BF16] = &linear_pairs,
    .peak[QKV_UNIT_BF16_PAIRS] = peak_pairs,
};
#endif
