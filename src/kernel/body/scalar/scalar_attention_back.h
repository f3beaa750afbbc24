// SPDX-License-Identifier: MIT
// scalar_attention_back.h: defines the law (the reference kernels) of the backward pass of
// attention in plain C. Requires scalar_attention.h and uses its layouts: keys in panels of KEYS
// columns, rows and right operands row by row, all as real numbers.

enum { BACK_ROWS = 8 };

static void back_scores(real *s, const void *packed, int rows, const void *keys, int64_t W,
                        struct qkv_columns span)
{
    const void *row[BACK_ROWS];
    for (int i = 0; i < rows; i++) row[i] = (const real *)packed + i * W;
    scores(s, row, rows, keys, W, span);
}

static void back_cap(real *s, real *gain, int32_t lo, int32_t hi, real scale, real cap)
{
    for (int32_t j = lo; j < hi; j++) {
        const real x = (real)tanh((double)(scale * s[j] / cap));
        s[j] = cap * x;
        gain[j] = (1 - x) * (1 + x);
    }
}

static void back_softmax_grad(real *s, real *ds, const struct qkv_columns *spans, int n, int32_t lo,
                              int32_t hi, const struct qkv_softmax_grad *how)
{
    for (int p = 0; p < n; p++)
        for (int32_t j = spans[p].from; j < spans[p].to; j++) {
            const bool seen = j >= lo && j < hi && s[j] != -(real)INFINITY;
            const bool kept = !how->word || (seen && how->word[j] >= how->less);
            const real times = kept ? how->times : 0;
            const double power =
                (double)how->c * (double)s[j] - (double)how->base - (double)how->rest;
            const real probability = seen ? (real)exp2(power) : 0;
            s[j] = seen ? times * probability : 0;
            ds[j] = seen ? probability * (times * ds[j] - how->d) : 0;
        }
}

static void back_gain(real *ds, const real *gain, int32_t lo, int32_t hi)
{
    for (int32_t j = lo; j < hi; j++) ds[j] = ds[j] == 0 ? 0 : gain[j] * ds[j];
}

// The products of a column are summed over the rows before this total is added to sum.
static void back_add_transposed(real *sum, const void *operand, int rows, const void *right,
                                int64_t W, const struct qkv_columns *spans, int n)
{
    const real *x = operand, *y = right;
    for (int p = 0; p < n; p++)
        for (int32_t j = spans[p].from; j < spans[p].to; j++)
            for (int64_t w = 0; w < W; w++) {
                real add = 0;
                for (int i = 0; i < rows; i++) add += x[i * QKV_CHUNK + j] * y[i * W + w];
                sum[j * W + w] += add;
            }
}

static void back_add_product(real *sum, const void *operand, int rows, const void *right, int64_t W,
                             const struct qkv_columns *spans, int n)
{
    const real *x = operand, *y = right;
    for (int i = 0; i < rows; i++, x += QKV_CHUNK)
        for (int64_t w = 0; w < W; w++) {
            real add = 0;
            for (int p = 0; p < n; p++)
                for (int32_t j = spans[p].from; j < spans[p].to; j++) add += x[j] * y[j * W + w];
            sum[i * W + w] += add;
        }
}

static void back_add(real *y, const real *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++) y[i] += x[i];
}

static real back_total(const real *x, int64_t n)
{
    real sum = 0;
    for (int64_t i = 0; i < n; i++) sum += x[i];
    return sum;
}

static real back_moment(const real *x, int32_t lo, int32_t hi, int64_t distance)
{
    real sum = 0;
    for (int32_t j = lo; j < hi; j++) {
        const int64_t apart = distance - j;
        sum += x[j] * (real)(apart < 0 ? -apart : apart);
    }
    return sum;
}

#define STORED real
#include "kernel/body/scalar/scalar_back_packs.h"
#undef STORED
#define STORED bf16
#include "kernel/body/scalar/scalar_back_packs.h"
#undef STORED
#define STORED f16
#include "kernel/body/scalar/scalar_back_packs.h"
#undef STORED

#define BACK_LAW(WORDS, NAME_)                                                                     \
    .isa = ISA_NAME, .arithmetic = WORDS, .rows = BACK_ROWS, .keys = KEYS, .lanes = 1,             \
    .row_bytes = key_bytes, .key_bytes = key_bytes, .right_bytes = key_bytes, .width = width,      \
    .pack_rows = back_rows_##NAME_, .pack_keys = back_keys_##NAME_,                                \
    .pack_right = back_right_##NAME_, .scores = back_scores, .cap = back_cap, .modify = modify,    \
    .softmax_grad = back_softmax_grad, .gain = back_gain, .add_transposed = back_add_transposed,   \
    .add_product = back_add_product, .dot = back_dot_##NAME_, .store = back_store_##NAME_,         \
    .add = back_add, .total = back_total, .moment = back_moment

static const struct qkv_attention_back_kernels attention_back = { BACK_LAW("float", real),
                                                                  .native = true,
                                                                  .type = QKV_REAL };
static const struct qkv_attention_back_kernels attention_back_bf16 = {
    BACK_LAW("bf16 as float", bf16), .type = QKV_BF16
};
static const struct qkv_attention_back_kernels attention_back_f16 = { BACK_LAW("f16 as float", f16),
                                                                      .type = QKV_F16 };
