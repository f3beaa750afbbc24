// SPDX-License-Identifier: MIT
// isa_avx2.c: defines the kernel table for CPUs with AVX2. kernel.h has the contracts of the
// kernels, isa.def the required compiler flags and CPU features. The file contains only static
// functions and one table.
#include "kernel/kernel.h"
#define ISA_NAME "avx2"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_avx2.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/softmax.h"
#define ATTENTION_MR    6
#define ATTENTION_NR    2
#define ATTENTION_AHEAD 4096
#define ATTENTION_SPLIT
#include "kernel/body/attention/attention.h"
#include "kernel/body/attention/additive.h"
#include "kernel/body/attention/attention_stored.h"
#define ATTENTION_INT8 "int16 pairs"
#include "kernel/body/attention/attention_int8_pairs.h"
#include "kernel/body/attention_back/attention_back_float.h"
#include "kernel/body/attention/attention_probe.h"
#define LINEAR_MR      6
#define LINEAR_NR      2
#define LINEAR_AT_ONCE 4
#include "kernel/body/linear/linear.h"
#include "kernel/body/linear/linear_float.h"
#include "kernel/body/linear/linear_half.h"
// INT8 products are computed from pairs of 16-bit integers, because the sum of the two products of
// a pair fits into a lane of 32 bits.
enum { INT8_GROUP = 2, INT8_OFFSET = 0 };
#define INT8_ARITHMETIC "int16 pairs"
#define int8_put        pairs_put
#define int8_weights    pairs_load
#define int8_dot        pairs_dot
#include "kernel/body/linear/linear_int8.h"
#include "kernel/body/stored_dots.h"
#include "kernel/body/loss.h"
#include "kernel/body/recurrent.h"
#include "kernel/body/norm.h"
#include "kernel/body/philox.h"
#include "kernel/body/activation_grad.h"
#include "kernel/body/train.h"
#include "kernel/body/transpose.h"
#include "kernel/body/sum_of_squares.h"
#include "kernel/body/update.h"
#include "kernel/body/peak/peak.h"
#include "kernel/body/peak/peak_int8.h"
#include "kernel/body/kernel_rows.h"

const struct qkv_kernels qkv_kernels_avx2 = {
    .isa = ISA_NAME,
    .softmax_rows = softmax_rows,
    .exp = exp_array,
    .attention = BY_CONVERSION(attention),
    .attention_back = ATTENTION_BACK,
    .additive = &additive,
    .linear = BY_CONVERSION(linear),
    SLOTS_EVERYWHERE,
};
#endif
