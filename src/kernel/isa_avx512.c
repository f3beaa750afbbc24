// SPDX-License-Identifier: MIT
// isa_avx512.c: flags and CPU bits: its row in isa.def.  Contracts: kernel.h.  Only static code and one table.
#include "kernel/kernel.h"
#define ISA_NAME "avx512"
#ifndef QKV_DOUBLE
#include "kernel/body/vec_avx512.h"
#include <math.h>
#include <string.h>

#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/softmax.h"
#define ATTENTION_MR 6
#define ATTENTION_NR 4
#include "kernel/body/attention.h"
#include "kernel/body/additive.h"
#include "kernel/body/attention_more.h"
#define LINEAR_MR 8
#define LINEAR_NR 3
#define LINEAR_EACH_ROWS                                                                           \
    QKV_ROWS(1) QKV_ROWS(2) QKV_ROWS(3) QKV_ROWS(4) QKV_ROWS(5) QKV_ROWS(6) QKV_ROWS(7) QKV_ROWS(8)
#include "kernel/body/linear.h"
#include "kernel/body/norm.h"
#include "kernel/body/peak.h"

const struct qkv_kernels qkv_kernels_avx512 = {
    .isa = ISA_NAME,
    .softmax_rows = softmax_rows,
    .exp = exp_array,
    // f32, f32_strict, f32_fast, bf16, f16, int8
    .attention = { &attention, &attention, &attention, &attention_bf16, &attention_f16,
                   &attention_int8 },
    .additive = &additive,
    .linear = { &linear, &linear, &linear },
    .activation = activation,
    .norm_rows = norm_rows,
    .embed_row = embed_row,
    .peak = { [QKV_UNIT_FLOAT] = peak_float },
    .peak_read = peak_read,
};
#endif
