// SPDX-License-Identifier: MIT
// scalar_train.h: defines the law (the reference kernels) of training, except matrix products, in
// plain C. Requires scalar_linear.h (number, put_number, act_scalar).

// Returns the derivative act'(x), computed in double and rounded once. At the infinities it returns
// the limits.
static real act_slope(real x, enum qkv_activation act)
{
    const double d = (double)x;
    if (isinf(d) && d > 0 && act == QKV_ACT_RELU2) return x;
    if (isinf(d) && act != QKV_ACT_NONE)
        return d > 0 && act != QKV_ACT_TANH && act != QKV_ACT_RELU6;
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x <= 0 ? 0 : 1;
    case QKV_ACT_GELU: // the derivative is Phi(x) + x phi(x)
        return (real)(0.5 * erfc(-d * 0.70710678118654752440) +
                      d * 0.39894228040143267794 * exp(-0.5 * d * d));
    // GELU_TANH is x s(v), with s the logistic function and v the polynomial below; the derivative
    // is s(v) + x s'(v) v'
    case QKV_ACT_GELU_TANH: {
        const double v = 1.5957691216057307 * (d + 0.044715 * d * d * d), e = exp(-fabs(v));
        const double slope = 1.5957691216057307 * (1 + 3 * 0.044715 * d * d);
        return (real)((v < 0 ? e : 1) / (1 + e) +
                      (e > 0 ? d * slope * e / ((1 + e) * (1 + e)) : 0));
    }
    case QKV_ACT_SILU: {
        const double e = exp(-fabs(d));
        return (real)((d < 0 ? e : 1) / (1 + e) + d * e / ((1 + e) * (1 + e)));
    }
    case QKV_ACT_QUICK_GELU: {
        const double v = 1.702 * d, e = exp(-fabs(v));
        return (real)((v < 0 ? e : 1) / (1 + e) + v * e / ((1 + e) * (1 + e)));
    }
    case QKV_ACT_RELU2: return x <= 0 ? 0 : 2 * x;
    case QKV_ACT_RELU6: return x <= 0 || x >= 6 ? 0 : 1;
    // MISH is x t(x); the derivative is t + x t', from e = exp(-|x|)
    case QKV_ACT_MISH: {
        const double e = exp(-fabs(d)), above = x < 0 ? e * (2 + e) : 1 + 2 * e;
        const double under = above + (x < 0 ? 2 : 2 * e * e);
        return (real)(above / under + d * 4 * e * (1 + e) * (x < 0 ? 1 : e) / (under * under));
    }
    case QKV_ACT_TANH: {
        const double e = exp(-2 * fabs(d));
        return (real)(4 * e / ((1 + e) * (1 + e)));
    }
    }
    return 1;
}

static void activation(void *y, const void *x, qkv_dtype type, int64_t n, enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i++) put_number(y, type, i, act_scalar(number(x, type, i), act));
}

static void activation_backward(void *dx, const void *dy, const void *x, qkv_dtype type, int64_t n,
                                enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i++)
        put_number(dx, type, i, number(dy, type, i) * act_slope(number(x, type, i), act));
}

static void gated(void *y, const void *g, const void *u, qkv_dtype type, int64_t n,
                  enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i++)
        put_number(y, type, i, act_scalar(number(g, type, i), act) * number(u, type, i));
}

static void gated_backward(void *dg, void *du, const void *dy, const void *g, const void *u,
                           qkv_dtype type, int64_t n, enum qkv_activation act)
{
    for (int64_t i = 0; i < n; i++) {
        const real d = number(dy, type, i), gate = number(g, type, i), up = number(u, type, i);
        put_number(dg, type, i, d * up * act_slope(gate, act));
        put_number(du, type, i, d * act_scalar(gate, act));
    }
}

// ---- norm --------------------------------------------------------------------------------------
static void norm_rows_to(void *y, qkv_dtype type, real *mean, real *rstd, const real *x,
                         const real *w, const real *b, real eps, bool rms, int64_t rows, int64_t D)
{
    for (int64_t r = 0; r < rows; r++, x += D) {
        real m = 0, off = 0, v = 0;
        for (int64_t i = 0; i < D && !rms; i++) m += x[i];
        m /= (real)D;
        for (int64_t i = 0; i < D; i++) {
            const real c = x[i] - m;
            off += c;
            v += c * c;
        }
        off = rms ? 0 : off / (real)D;
        v = v / (real)D - off * off;
        const real scale = 1 / (real)sqrt((double)((v > 0 ? v : v * 0) + eps));
        for (int64_t i = 0; i < D && y; i++)
            put_number(y, type, r * D + i,
                       (x[i] - m - off) * scale * (w ? w[i] : 1) + (b ? b[i] : 0));
        if (mean && !rms) mean[r] = m;
        if (rstd) rstd[r] = scale;
    }
}

static void norm_rows_backward(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                               qkv_dtype type, const real *x, const real *mean, const real *rstd,
                               const real *w, bool rms, int64_t rows, int64_t D)
{
    for (int64_t r = 0; r < rows; r++) {
        const int64_t at = r * D;
        const real m = rms ? 0 : mean[r], scale = rstd[r];
        real off = 0, sum = 0, turn = 0; // sums of x - m, of dn and of dn (x - m)
        for (int64_t i = 0; i < D; i++) {
            const real c = x[at + i] - m, dn = (w ? w[i] : 1) * number(dy, type, at + i);
            off += c;
            sum += dn;
            turn += dn * c;
        }
        off = rms ? 0 : off / (real)D;
        sum /= (real)D;
        turn = (turn / (real)D - off * sum) * scale; // turn becomes mean(dn n)
        for (int64_t i = 0; i < D; i++) {
            const real d = number(dy, type, at + i), dn = (w ? w[i] : 1) * d;
            const real n = (x[at + i] - m - off) * scale;
            if (dw) dw[i] += d * n;
            if (db) db[i] += d;
            if (!dx) continue;
            dx[at + i] = scale * (dn - (rms ? 0 : sum) - n * turn) + (dx_add ? dx_add[at + i] : 0);
        }
    }
}

// ---- dropout, positions, sums ------------------------------------------------------------------
static void dropout(void *y, qkv_dtype y_type, const real *residual, const void *x,
                    qkv_dtype x_type, const uint32_t *words, uint32_t threshold, real scale,
                    int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const real kept = words[i] < threshold ? 0 : scale * number(x, x_type, i);
        put_number(y, y_type, i, residual ? residual[i] + kept : kept);
    }
}

static void rope_row(void *x, qkv_dtype type, const real *cosine, const real *sine, bool back,
                     int64_t pairs, int64_t step, int64_t apart, int64_t H, int64_t ld)
{
    for (int64_t h = 0; h < H; h++)
        for (int64_t i = 0; i < pairs; i++) {
            const int64_t at = h * ld + i * step;
            const real c = cosine[i], s = back ? -sine[i] : sine[i];
            const real a = number(x, type, at), b = number(x, type, at + apart);
            put_number(x, type, at, a * c - b * s);
            put_number(x, type, at + apart, b * c + a * s);
        }
}

static void add_row(real *to, const real *x, real scale, int64_t n)
{
    for (int64_t i = 0; i < n; i++) to[i] += scale * x[i];
}

static void add_rows(real *to, const void *x, qkv_dtype type, int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        real sum = 0;
        for (int64_t r = 0; r < rows; r++) sum += number(x, type, r * ld + i);
        to[i] += sum;
    }
}

static void transpose(void *to, qkv_dtype to_type, int64_t ldto, const void *x, qkv_dtype type,
                      int64_t ld, int64_t rows, int64_t n)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++)
            put_number(to, to_type, i * ldto + r, number(x, type, r * ld + i));
}
