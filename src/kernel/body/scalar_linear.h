// SPDX-License-Identifier: MIT
// scalar_linear.h: linear, activation, norm, embedding row:
// the law in plain C, for isa_scalar.c alone.
#include <math.h>

// One number through an activation.  Computed in double and rounded once.
static real act_scalar(real x, enum qkv_activation act)
{
    const double d = (double)x;
    if (x == -(real)INFINITY && act != QKV_ACT_NONE)
        return act == QKV_ACT_TANH ? -1 : 0; // the limits
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x < 0 ? 0 : x; // a NaN stays
    case QKV_ACT_GELU: return (real)(d * 0.5 * erfc(-d * 0.70710678118654752440));
    case QKV_ACT_GELU_TANH: // 0.5 (1 + tanh u) = 1 / (1 + exp(-2u))
        return (real)(d / (1 + exp(-1.5957691216057307 * (d + 0.044715 * d * d * d))));
    case QKV_ACT_SILU: return (real)(d / (1 + exp(-d)));
    case QKV_ACT_TANH: return (real)tanh(d);
    }
    return x;
}

static void activation(real *y, const real *x, int64_t n, enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i++) y[i] = act_scalar(x[i], act);
}

enum { PANEL = 8 };

static size_t linear_panel_bytes(int64_t K)
{
    return qkv_round_up((size_t)(K * PANEL) * sizeof(real), 64);
}

static void linear_pack(void *packed, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk)
{
    real *panels = packed;
    for (int64_t n0 = 0; n0 < N; n0 += PANEL)
        for (int64_t k = 0; k < K; k++)
            for (int64_t n = n0; n < n0 + PANEL; n++) *panels++ = n < N ? w[n * ldn + k * ldk] : 0;
}

static void linear_rows(void *out, int64_t ldy, const void *in, int64_t ldx, const void *packed,
                        int64_t rows, int64_t K, int64_t N, const struct qkv_linear_tail *tail)
{
    real *y = out;
    const real *x = in, *panels = packed;
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < N; n++) {
            const real *w = panels + n / PANEL * PANEL * K + n % PANEL;
            real sum = 0;
            for (int64_t k0 = 0; k0 < K; k0 += QKV_LINEAR_CHUNK) {
                real part = 0;
                for (int64_t k = k0; k < K && k < k0 + QKV_LINEAR_CHUNK; k++)
                    part += x[r * ldx + k] * w[k * PANEL];
                sum = k0 ? sum + part : part;
            }
            sum = tail->scale * sum + (tail->b ? tail->b[n] : 0);
            if (tail->before) tail->before[r * tail->before_ld + n] = sum;
            sum = act_scalar(sum, tail->act);
            if (tail->residual) sum += tail->residual[r * tail->residual_ld + n];
            y[r * ldy + n] = sum;
        }
}

static const struct qkv_linear_kernel linear = {
    ISA_NAME, "float", PANEL, linear_panel_bytes, linear_pack, linear_rows
};

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
            off += c; // m was rounded: by how much, relative to s - m
            v += c * c;
        }
        off /= (real)D;
        v = v / (real)D - off * off;
        const real scale =
            1 / (real)sqrt((double)((v > 0 ? v : v * 0) + eps)); // v * 0: a NaN stays
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
