// SPDX-License-Identifier: MIT
// isa_neon.c: defines the kernel table for ARM CPUs with NEON. kernel.h has the contracts of the
// kernels, isa.def the required compiler flags and CPU features. The file contains only static
// functions and one table.
#include "kernel/kernel.h"
#define ISA_NAME "neon"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_neon.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/softmax.h"
#define ATTENTION_MR    6
#define ATTENTION_NR    4
#define ATTENTION_AHEAD 0
#include "kernel/body/attention/attention.h"
#include "kernel/body/attention/additive.h"
#include "kernel/body/attention/attention_stored.h"
#include "kernel/body/attention/attention_int8.h"
#include "kernel/body/attention_back/attention_back_float.h"
#include "kernel/body/attention/attention_probe.h"
#define LINEAR_MR      6
#define LINEAR_NR      4
#define LINEAR_AT_ONCE 4
#include "kernel/body/linear/linear.h"
#include "kernel/body/linear/linear_float.h"
#include "kernel/body/linear/linear_half.h"
// INT8 products multiply groups of four bytes per lane; the sum of two products fits into 16 bits.
enum { INT8_GROUP = 4, INT8_OFFSET = 0 };
#define INT8_ARITHMETIC "int8 pairs"
static inline void int8_put(void *to, vf a)
{
    vf_store_int8(to, a);
}
static inline vi int8_weights(const void *p)
{
    return vreinterpretq_u32_s8(vld1q_s8(p));
}
static inline vi int8_dot(vi sum, vi x, vi w)
{
    const int8x16_t a = vreinterpretq_s8_u32(x), b = vreinterpretq_s8_u32(w);
    const int16x8_t low = vmull_s8(vget_low_s8(a), vget_low_s8(b)), high = vmull_high_s8(a, b);
    const int32x4_t more = vpadalq_s16(vreinterpretq_s32_u32(sum), vpaddq_s16(low, high));
    return vreinterpretq_u32_s32(more);
}
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

const struct qkv_kernels qkv_kernels_neon = {
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
