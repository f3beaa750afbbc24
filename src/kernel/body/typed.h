// SPDX-License-Identifier: MIT
// typed.h: loads and stores vectors of float, bf16 and f16 arrays, with the vector functions.

// Functions that store a vector as bf16; a file isa_*.c may define these macros to use an
// instruction of its CPU.
#ifndef TYPED_STORE_BF16
#define TYPED_STORE_BF16   vf_store_bf16
#define TYPED_STORE_BF16_N vf_store_bf16_n
#endif

// Loads up to VW numbers from element i of p on; lanes n .. VW-1 become 0.
static inline vf typed_load(const void *p, qkv_dtype type, int64_t i, int64_t n)
{
    const uint16_t *half = (const uint16_t *)p + i;
    if (type == QKV_BF16) return n >= VW ? vf_load_bf16(half) : vf_load_bf16_n(half, n);
    if (type == QKV_F16) return n >= VW ? vf_load_f16(half) : vf_load_f16_n(half, n);
    return n >= VW ? vf_load((const float *)p + i) : vf_load_n((const float *)p + i, n);
}

// Returns a sum of integers times its scale; a sum of 0 gives 0 also if the scale is infinite.
static inline vf vf_scaled_sum(vf sum, vf scale)
{
    const vf finite = vf_min(vf_set1(FLT_MAX), scale); // NaN remains NaN
    return vf_mul(sum, vf_lt(vf_abs(sum), vf_set1(1), finite, scale));
}

static inline void typed_store(void *p, qkv_dtype type, int64_t i, vf a, int64_t n)
{
    uint16_t *half = (uint16_t *)p + i;
    if (type == QKV_BF16) {
        if (n >= VW)
            TYPED_STORE_BF16(half, a);
        else
            TYPED_STORE_BF16_N(half, a, n);
    } else if (type == QKV_F16) {
        if (n >= VW)
            vf_store_f16(half, a);
        else
            vf_store_f16_n(half, a, n);
    } else if (n >= VW) {
        vf_store((float *)p + i, a);
    } else {
        vf_store_n((float *)p + i, a, n);
    }
}

// Loads VW rows and VW columns of an array as floats: t[i] is the i-th row; row 0 begins at element
// `at`, and rows are `apart` elements apart. Elements past `rows` and `columns` are 0.
static inline void typed_block(vf t[VW], const void *p, qkv_dtype type, int64_t at, int64_t apart,
                               int64_t rows, int64_t columns)
{
    for (int64_t i = 0; i < VW; i++)
        t[i] = i < rows ? typed_load(p, type, at + i * apart, columns) : vf_zero();
}
