// SPDX-License-Identifier: MIT
// isa_scalar.c: defines every kernel in plain C, written to be read. These kernels are the law:
// they define what the vector kernels compute. kernel.h has their contracts.
#include "kernel/kernel.h"
#define ISA_NAME "scalar"
#include <math.h>
#include <string.h>

// Computes the softmax of rows: y_i = exp(x_i - max) / sum_j exp(x_j - max).
static void softmax_rows(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx)
{
    for (int64_t r = 0; r < rows; r++, x += ldx, y += ldy) {
        real top = -(real)INFINITY, sum = 0;
        for (int64_t i = 0; i < n; i++)
            if (!(x[i] <= top)) top = x[i]; // a NaN becomes the maximum
        for (int64_t i = 0; i < n; i++) {
            y[i] = top == -(real)INFINITY ? 0 : (real)exp((double)(x[i] - top));
            sum += y[i];
        }
        for (int64_t i = 0; i < n && sum != 0; i++) y[i] /= sum;
    }
}

// Computes y[i] = e^x[i] in double and rounds the result once.
static void exp_array(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] = (real)exp((double)x[i]);
}

static void philox(uint32_t *out, uint64_t seed, uint64_t site, uint64_t block, int64_t n)
{
    for (int64_t i = 0; i < n; i++) qkv_philox(out + 4 * i, seed, site, block + (uint64_t)i);
}

#include "kernel/body/scalar/scalar_attention.h"
#include "kernel/body/scalar/scalar_attention_back.h"
#include "kernel/body/scalar/scalar_additive.h"
#include "kernel/body/scalar/scalar_probe.h"
#include "kernel/body/scalar/scalar_linear.h"
#include "kernel/body/scalar/scalar_loss.h"
#include "kernel/body/scalar/scalar_train.h"
#include "kernel/body/scalar/scalar_peak.h"
#include "kernel/body/scalar/scalar_recurrent.h"
#include "kernel/body/scalar/scalar_stored_dots.h"
#include "kernel/body/scalar/scalar_update.h"
#include "kernel/body/sum_of_squares.h"
#include "kernel/body/kernel_rows.h"

const struct qkv_kernels qkv_kernels_scalar = {
    .isa = ISA_NAME,
    .softmax_rows = softmax_rows,
    .exp = exp_array,
    .attention = BY_CONVERSION(attention),
    .attention_back = {
        [QKV_PRECISION_F32] = &attention_back,
        [QKV_PRECISION_F32_STRICT] = &attention_back,
        [QKV_PRECISION_F32_FAST] = &attention_back,
        [QKV_PRECISION_BF16] = &attention_back_bf16,
        [QKV_PRECISION_F16] = &attention_back_f16,
    },
    .additive = &additive,
    .linear = BY_CONVERSION(linear),
    SLOTS_EVERYWHERE,
};
