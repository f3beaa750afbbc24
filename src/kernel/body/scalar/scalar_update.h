// SPDX-License-Identifier: MIT
// scalar_update.h: defines the law (the reference kernels) of optimizer steps.

static void adamw(real *w, real *m, real *v, const real *g, int64_t n, const struct qkv_update *how)
{
    for (int64_t i = 0; i < n; i++) {
        const real a = how->scale * g[i];
        m[i] += how->m * (a - m[i]);
        v[i] += how->v * (a * a - v[i]);
        const real under = (real)sqrt((double)v[i]) * how->root + how->eps;
        w[i] = how->keep * w[i] - how->rate * (m[i] / under);
    }
}

static void sgd(real *w, real *m, const real *g, int64_t n, const struct qkv_update *how)
{
    for (int64_t i = 0; i < n; i++) {
        real a = how->scale * g[i] + how->decay * w[i];
        if (m) a = m[i] = how->momentum * m[i] + a;
        w[i] -= how->rate * a;
    }
}
