// SPDX-License-Identifier: MIT
// isa_amx.c: defines the kernel table for CPUs with AMX tiles. kernel.h has the contracts of the
// kernels, isa.def the required compiler flags and CPU features. The file contains only static
// functions and one table. Kernels that tiles do not accelerate come from the weaker ISAs.
#include "kernel/kernel.h"
#define ISA_NAME "amx"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_avx512.h"
#include "kernel/body/vec/vec_avx512bf16.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#include "kernel/body/amx/amx_tiles.h"
#include "kernel/body/amx/amx_split.h"
#include "kernel/body/amx/amx_linear.h"
#include "kernel/body/amx/amx_six.h"
#include "kernel/body/amx/amx_int8.h"
#include "kernel/body/attention/attention_names.h"
#include "kernel/body/attention/attention_rows.h"
#include "kernel/body/attention/attention_probabilities.h"
#include "kernel/body/amx/amx_attention.h"
#include "kernel/body/amx/amx_attention_back.h"
#include "kernel/body/peak/peak_tiles.h"

const struct qkv_kernels qkv_kernels_amx = {
    .isa = ISA_NAME,
    .exp = exp_array,
    .activation = activation,
    .attention = {
        [QKV_PRECISION_F32] = &attention_six,
        [QKV_PRECISION_F32_FAST] = &attention_three,
        [QKV_PRECISION_BF16] = &attention_bf16,
    },
    .attention_back[QKV_PRECISION_BF16] = &attention_back_bf16,
    .linear = {
        [QKV_PRECISION_F32] = &linear_six,
        [QKV_PRECISION_F32_FAST] = &linear_three,
        [QKV_PRECISION_BF16] = &linear_bf16,
        [QKV_PRECISION_INT8] = &linear_whole,
    },
    .peak = {
        [QKV_UNIT_BF16_TILES] = peak_bf16_tiles,
        [QKV_UNIT_INT8_TILES] = peak_int8_tiles,
    },
};
#endif
