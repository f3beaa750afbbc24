// SPDX-License-Identifier: MIT
// isa_avx512vnni.c: defines the kernel table for CPUs with AVX-512 VNNI. kernel.h has the contracts
// of the kernels, isa.def the required compiler flags and CPU features. The file contains only
// static functions and one table.
#include "kernel/kernel.h"
#define ISA_NAME "avx512vnni"
#ifndef QKV_DOUBLE
#include "kernel/body/vec/vec_avx512.h"
#include <float.h>
#include <math.h>
#include <string.h>

#include "kernel/body/typed.h"
#include "kernel/body/activation.h"
#include "kernel/body/exp.h"
#define ATTENTION_MR 6
#define ATTENTION_NR 4
#include "kernel/body/attention/attention_shape.h"
#define STORED f32
#include "kernel/body/attention/attention_divide.h"
#undef STORED
// Adds products to sum by the instruction vNAME. The assembly updates sum in place, because gcc 12
// compiles the intrinsic to code that copies every sum of a tile in each step. A build for tests
// defines this macro in tests/emulate/avx512_names.h.
#ifndef ADD_PRODUCTS
#define ADD_PRODUCTS(NAME, sum, a, b) __asm__("v" #NAME " %2, %1, %0" : "+v"(sum) : "v"(a), "v"(b))
#endif
// The products of a pair of 16-bit integers are added to the sum by one instruction.
static inline vi pairs_dot_vnni(vi sum, vi a, vi b)
{
    ADD_PRODUCTS(pdpwssd, sum, a, b);
    return sum;
}
#define pairs_dot      pairs_dot_vnni
#define ATTENTION_INT8 "int16 dot"
#include "kernel/body/attention/attention_int8_pairs.h"
#undef pairs_dot
#define LINEAR_MR      8
#define LINEAR_NR      3
#define LINEAR_AT_ONCE 1
#include "kernel/body/linear/linear.h"
// INT8 products use groups of four bytes. The instruction requires one unsigned operand, so 128 is
// added to x.
enum { INT8_GROUP = 4, INT8_OFFSET = 128 };
#define INT8_ARITHMETIC "int8 dot"
static inline void int8_put(void *to, vf a)
{
    const vi q = _mm512_add_epi32(_mm512_cvtps_epi32(a), _mm512_set1_epi32(INT8_OFFSET));
    _mm_storeu_si128(to, _mm512_cvtepi32_epi8(q));
}
static inline vi int8_weights(const void *p)
{
    return _mm512_loadu_si512(p);
}
static inline vi int8_dot(vi sum, vi x, vi w)
{
    ADD_PRODUCTS(pdpbusd, sum, x, w);
    return sum;
}
#include "kernel/body/linear/linear_int8.h"
#include "kernel/body/peak/peak_int8.h"

const struct qkv_kernels qkv_kernels_avx512vnni = {
    .isa = ISA_NAME,
    .attention[QKV_PRECISION_INT8] = &attention_int8,
    .linear[QKV_PRECISION_INT8] = &linear_int8,
    .peak[QKV_UNIT_INT8] = peak_int8,
};
#endif
