// SPDX-License-Identifier: MIT
// scalar_linear.h: defines the law (the reference kernels) of linear layers, activations, norm and
// embedding rows in plain C, for isa_scalar.c.
#include "kernel/body/linear/quantise.h"
#include <math.h>
#include <string.h>

// Applies an activation to one number: computes it in double and rounds the result once.
static real act_scalar(real x, enum qkv_activation act)
{
    const double d = (double)x;
    if (x == -(real)INFINITY && act != QKV_ACT_NONE)
        return act == QKV_ACT_TANH ? -1 : 0; // the limits of the activations at -INFINITY
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x < 0 ? 0 : x; // x < 0 is false for NaN, so NaN gives NaN
    case QKV_ACT_GELU: return (real)(d * 0.5 * erfc(-d * 0.70710678118654752440));
    case QKV_ACT_GELU_TANH: // uses 0.5 (1 + tanh u) = 1 / (1 + exp(-2u))
        return (real)(d / (1 + exp(-1.5957691216057307 * (d + 0.044715 * d * d * d))));
    case QKV_ACT_SILU: return (real)(d / (1 + exp(-d)));
    case QKV_ACT_TANH: return (real)tanh(d);
    case QKV_ACT_QUICK_GELU: return (real)(d / (1 + exp(-1.702 * d)));
    case QKV_ACT_RELU2: return x < 0 ? 0 : (real)(d * d);
    case QKV_ACT_RELU6: return x < 0 ? 0 : x > 6 ? 6 : x;
    case QKV_ACT_MISH: { // tanh(ln(1 + exp(x))), by which x is multiplied, from e = exp(-|x|)
        const double e = exp(-fabs(d)), more = 1 + 2 * e, down = e * (2 + e);
        return (real)(x < 0 ? d * (down / (2 + down)) : d * (more / (more + 2 * e * e)));
    }
    }
    return x;
}

// ---- linear ------------------------------------------------------------------------------------
// Weights are packed in panels of 8 columns, [K][PANEL]; in panels of 8-bit weights the scales of
// the columns come first.
enum { PANEL = 8 };

static real number(const void *x, qkv_dtype type, int64_t i)
{
    if (type == QKV_BF16) return qkv_bf16_to_f32(((const uint16_t *)x)[i]);
    if (type == QKV_F16) return qkv_f16_to_f32(((const uint16_t *)x)[i]);
    return ((const real *)x)[i];
}

static void put_number(void *y, qkv_dtype type, int64_t i, real a)
{
    if (type == QKV_BF16)
        ((uint16_t *)y)[i] = qkv_f32_to_bf16((float)a);
    else if (type == QKV_F16)
        ((uint16_t *)y)[i] = qkv_f32_to_f16((float)a);
    else
        ((real *)y)[i] = a;
}

static real tail_of(real sum, int64_t r, int64_t n, const struct qkv_linear_tail *tail)
{
    sum = tail->scale * sum + (tail->b ? tail->b[n] : 0);
    if (tail->before) tail->before[r * tail->before_ld + n] = sum;
    sum = act_scalar(sum, tail->act);
    if (tail->residual) sum += tail->residual[r * tail->residual_ld + n];
    return sum;
}

// Linear layers with weights of any float type: weights are stored as `type`, and x is rounded to
// it. A product of two bf16 or two f16 is exact in float. bytes_of returns the bytes of a panel.
static inline size_t bytes_of(int64_t K, qkv_dtype type)
{
    return qkv_round_up((size_t)(K * PANEL) * qkv_dtype_size(type), 64);
}

static inline void pack_as(void *packed, const void *w, qkv_dtype from, int64_t K, int64_t N,
                           int64_t ldn, int64_t ldk, qkv_dtype type)
{
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += bytes_of(K, type))
        for (int64_t i = 0; i < K * PANEL; i++) {
            const int64_t n = n0 + i % PANEL, k = i / PANEL;
            put_number(panel, type, i, n < N ? number(w, from, n * ldn + k * ldk) : 0);
        }
}

static inline void sums_as(real sum[PANEL], const void *x, qkv_dtype x_type, const char *panel,
                           int64_t K, qkv_dtype type)
{
    for (int64_t n = 0; n < PANEL; n++) sum[n] = 0;
    for (int64_t k0 = 0; k0 < K; k0 += QKV_LINEAR_CHUNK) {
        real part[PANEL] = { 0 };
        for (int64_t k = k0; k < K && k < k0 + QKV_LINEAR_CHUNK; k++) {
            real a = number(x, x_type, k);
            if (type != QKV_REAL && type != x_type) {
                uint16_t half;
                put_number(&half, type, 0, a);
                a = number(&half, type, 0);
            }
            for (int64_t n = 0; n < PANEL; n++) part[n] += a * number(panel, type, k * PANEL + n);
        }
        for (int64_t n = 0; n < PANEL; n++) sum[n] = k0 ? sum[n] + part[n] : part[n];
    }
}

static inline void rows_as(void *y, int64_t ldy, const void *x, int64_t ldx, const char *panels,
                           int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail,
                           qkv_dtype type)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n0 = 0; n0 < N; n0 += PANEL) {
            real sum[PANEL];
            sums_as(sum, (const char *)x + (size_t)(r * ldx) * qkv_dtype_size(tail->x), tail->x,
                    panels + (size_t)(n0 / PANEL) * bytes_of(K, type), K, type);
            for (int64_t n = n0; n < N && n < n0 + PANEL; n++)
                put_number(y, tail->y, r * ldy + n, tail_of(sum[n - n0], r, n, tail));
        }
}

#define LINEAR_AS(NAME, TYPE, ARITHMETIC)                                                          \
    static size_t NAME##_bytes(int64_t K)                                                          \
    {                                                                                              \
        return bytes_of(K, TYPE);                                                                  \
    }                                                                                              \
    static void NAME##_pack(void *packed, const void *w, qkv_dtype type, int64_t K, int64_t N,     \
                            int64_t ldn, int64_t ldk)                                              \
    {                                                                                              \
        pack_as(packed, w, type, K, N, ldn, ldk, TYPE);                                            \
    }                                                                                              \
    static void NAME##_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels,  \
                            int64_t rows, int64_t K, int64_t N,                                    \
                            const struct qkv_linear_tail *tail)                                    \
    {                                                                                              \
        rows_as(y, ldy, x, ldx, panels, rows, K, N, tail, TYPE);                                   \
    }                                                                                              \
    static const struct qkv_linear_kernel NAME = { ISA_NAME,    ARITHMETIC,  PANEL, NAME##_bytes,  \
                                                   NAME##_pack, NAME##_rows, 0 };
LINEAR_AS(linear, QKV_REAL, "float")
LINEAR_AS(linear_bf16, QKV_BF16, "bf16 as float")
LINEAR_AS(linear_f16, QKV_F16, "f16 as float")

// Linear layers with 8-bit weights: weights have one scale per column, x has one scale per row.
// Sums of integers are exact within a chunk, and chunks are added as floats. The result is (scale
// of x times scale of the column) times the sum; a sum of 0 gives 0 also where the product of the
// scales exceeds the range of a float, and NaN only where a scale is NaN. int8_bytes returns the
// bytes of a panel.
static size_t int8_bytes(int64_t K)
{
    return qkv_round_up(PANEL * sizeof(float) + (size_t)(K * PANEL), 64);
}

static void int8_pack(void *packed, const void *given, qkv_dtype type, int64_t K, int64_t N,
                      int64_t ldn, int64_t ldk)
{
    const real *w = given;
    (void)type;
    char *panel = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL, panel += int8_bytes(K)) {
        memset(panel, 0, int8_bytes(K));
        int8_t *q = (int8_t *)(void *)(panel + PANEL * sizeof(float));
        for (int64_t n = n0; n < N && n < n0 + PANEL; n++) {
            const real *column = w + n * ldn;
            float inverse;
            ((float *)(void *)panel)[n - n0] =
                int8_scale(int8_highest_of(column, K, ldk), &inverse);
            for (int64_t k = 0; k < K && inverse > 0; k++)
                q[k * PANEL + n - n0] = (int8_t)lrintf((float)column[k * ldk] * inverse);
        }
    }
}

static void int8_sums(float sum[PANEL], const void *x, qkv_dtype type, float inverse,
                      const int8_t *w, int64_t K)
{
    for (int64_t n = 0; n < PANEL; n++) sum[n] = 0;
    for (int64_t k0 = 0; k0 < K && inverse > 0; k0 += QKV_LINEAR_INT8_CHUNK) {
        int32_t part[PANEL] = { 0 };
        for (int64_t k = k0; k < K && k < k0 + QKV_LINEAR_INT8_CHUNK; k++) {
            const int32_t q = (int32_t)lrintf((float)number(x, type, k) * inverse);
            for (int64_t n = 0; n < PANEL; n++) part[n] += q * w[k * PANEL + n];
        }
        for (int64_t n = 0; n < PANEL; n++) sum[n] = k0 ? sum[n] + (float)part[n] : (float)part[n];
    }
}

static void int8_rows(void *y, int64_t ldy, const void *x, int64_t ldx, const void *panels,
                      int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)
{
    for (int64_t r = 0; r < rows; r++) {
        const char *row = (const char *)x + (size_t)(r * ldx) * qkv_dtype_size(tail->x);
        float highest = 0, inverse;
        for (int64_t k = 0; k < K && highest == highest; k++) {
            const float size = fabsf((float)number(row, tail->x, k));
            if (!(size <= highest)) highest = size;
        }
        const float scale = int8_scale(highest, &inverse);
        for (int64_t n0 = 0; n0 < N; n0 += PANEL) {
            const char *panel = (const char *)panels + (size_t)(n0 / PANEL) * int8_bytes(K);
            const float *scales = (const float *)(const void *)panel;
            float sum[PANEL];
            int8_sums(sum, row, tail->x, inverse, (const int8_t *)(const void *)(scales + PANEL),
                      K);
            for (int64_t n = n0; n < N && n < n0 + PANEL; n++) {
                const float by = scale * scales[n - n0];
                const float scaled = sum[n - n0] == 0 && by == INFINITY ? 0 : sum[n - n0] * by;
                put_number(y, tail->y, r * ldy + n, tail_of(scaled, r, n, tail));
            }
        }
    }
}

static const struct qkv_linear_kernel linear_int8 = { ISA_NAME,  "int8 as int32", PANEL, int8_bytes,
                                                      int8_pack, int8_rows,       0 };

// ---- norm, embedding ---------------------------------------------------------------------------
static void norm_rows(real *y, real *sum, real *mean, real *rstd, const real *x,
                      const real *residual, const real *w, const real *b, real eps, int64_t rows,
                      int64_t D)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = r * D;
        real m = 0, off = 0, v = 0;
        for (int64_t i = at; i < at + D; i++) m += residual ? x[i] + residual[i] : x[i];
        m /= (real)D;
        for (int64_t i = at; i < at + D; i++) {
            const real c = (residual ? x[i] + residual[i] : x[i]) - m;
            off += c; // off becomes the rounding error of the mean m
            v += c * c;
        }
        off /= (real)D;
        v = v / (real)D - off * off;
        // a negative variance becomes 0; NaN remains NaN because v * 0 is NaN
        const real scale = 1 / (real)sqrt((double)((v > 0 ? v : v * 0) + eps));
        for (int64_t i = 0; i < D; i++) {
            const real s = residual ? x[at + i] + residual[at + i] : x[at + i];
            if (sum) sum[at + i] = s;
            y[at + i] = (s - m - off) * scale * (w ? w[i] : 1) + (b ? b[i] : 0);
        }
        if (mean) mean[r] = m;
        if (rstd) rstd[r] = scale;
    }
}

static void embed_row(real *y, const real *a, real scale, const real *b, const real *c, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real s = scale * a[i];
        if (b) s += b[i];
        if (c) s += c[i];
        y[i] = s;
    }
}
