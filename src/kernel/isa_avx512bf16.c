// SPDX-License-Identifier: MIT
// isa_avx512bf16.c: defines the kernel table for CPUs with AVX-512 BF16. kernel.h has the contracts
// of the kernels, isa.def the required compiler flags and CPU features. The file contains only
// static functions and one table.
#include "kernel/kernel.h"
#define ISA_NAME "avx512bf16"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_avx512.h"
#include "kernel/body/vec/vec_avx512bf16.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/attention/attention_pairs.h"
#include "kernel/body/attention_back/attention_back_pairs.h"
#define LINEAR_MR      8
#define LINEAR_NR      3
#define LINEAR_AT_ONCE 1
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
