// SPDX-License-Identifier: MIT
// attention_back_bf16.h: defines what the attention backward passes with products of bf16 have in
// common. Requires attention_names.h and attention_probabilities.h.

// Computes 2^t, where t is c s - base of struct qkv_softmax_grad. `rest`, the rounding error of
// base, is ignored, because it changes the result by less than the error of exp2_coarse.
INLINE vf back_power(vf t, vf rest)
{
    (void)rest;
    return exp2_coarse(t);
}

#include "kernel/body/attention_back/attention_back_rows.h"

// Stores a row as bf16; subnormal numbers become 0, because the bf16 products of this CPU count
// them as 0.
static void back_store_bf16(void *to, const real *x, real times, int64_t n)
{
    const vf by = vf_set1(times);
    uint16_t *y = to;
    for (int64_t i = 0; i < n; i += VW) {
        const vm there = vm_first(qkv_min64(VW, n - i));
        const vf a = vf_mul(by, _mm512_maskz_loadu_ps(there, x + i));
        _mm256_mask_storeu_epi16(y + i, there, (__m256i)_mm512_cvtneps_pbh(a));
    }
}

typedef uint16_t element_bf16;
#define STORED bf16
#include "kernel/body/attention_back/attention_back_dot.h"
#undef STORED
