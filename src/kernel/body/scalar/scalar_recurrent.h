// SPDX-License-Identifier: MIT
// scalar_recurrent.h: defines the law (the reference kernels) of the gates of recurrent units, and
// of the additive scores of one query.

static real gate(real x)
{
    return (real)(1 / (1 + exp(-(double)x)));
}

static void gru_row(real *h, real *gates, int64_t apart, const real *hidden, int64_t hidden_apart,
                    const real *before, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const real r = gate(gates[i] + hidden[i]);
        const real z = gate(gates[apart + i] + hidden[hidden_apart + i]);
        const real own = hidden[2 * hidden_apart + i];
        const real made = (real)tanh((double)(gates[2 * apart + i] + r * own));
        gates[i] = r;
        gates[apart + i] = z;
        gates[2 * apart + i] = made;
        gates[3 * apart + i] = own;
        h[i] = (1 - z) * made + z * before[i];
    }
}

static void gru_row_backward(real *d, real *dbefore, const real *dh, const real *gates,
                             const real *before, int64_t n)
{
    for (int64_t i = 0; i < n; i++) {
        const real r = gates[i], z = gates[n + i], made = gates[2 * n + i], own = gates[3 * n + i];
        const real dmade = dh[i] * (1 - z) * (1 - made) * (1 + made);
        d[i] = dmade * own * r * (1 - r);
        d[n + i] = dh[i] * (before[i] - made) * z * (1 - z);
        d[2 * n + i] = dmade;
        d[3 * n + i] = dmade * r;
        dbefore[i] = dh[i] * z;
    }
}

static void additive_row(real *s, const real *u, const real *w, const real *p, int64_t ld,
                         int64_t n, int64_t d)
{
    for (int64_t j = 0; j < n; j++) {
        real sum = 0;
        for (int64_t e = 0; e < d; e++) sum += w[e] * (real)tanh((double)(u[e] + p[j * ld + e]));
        s[j] = sum;
    }
}

static void additive_row_backward(real *du, real *dw, real *dp, int64_t lddp, const real *ds,
                                  const real *u, const real *w, const real *p, int64_t ld,
                                  int64_t n, int64_t d)
{
    for (int64_t j = 0; j < n; j++)
        for (int64_t e = 0; e < d && ds[j] != 0; e++) {
            const real t = (real)tanh((double)(u[e] + p[j * ld + e]));
            const real x = ds[j] * w[e] * (1 - t) * (1 + t);
            dw[e] += ds[j] * t;
            du[e] += x;
            dp[j * lddp + e] += x;
        }
}

static void weigh_rows(real *y, const real *x, const real *rows, int64_t ld, int64_t n, int64_t d)
{
    for (int64_t j = 0; j < n; j++) {
        real sum = 0;
        for (int64_t e = 0; e < d; e++) sum += x[e] * rows[e * ld + j];
        y[j] = sum;
    }
}

static void dots(real *y, const real *x, const real *rows, int64_t ld, int64_t n, int64_t d)
{
    for (int64_t j = 0; j < n; j++) {
        real sum = 0;
        for (int64_t i = 0; i < d; i++) sum += x[i] * rows[j * ld + i];
        y[j] = sum;
    }
}
