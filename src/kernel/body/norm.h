// SPDX-License-Identifier: MIT
// norm.h: computes layer norm of rows, and the sum of the terms of an embedding row, with the
// vector functions.

// Returns x + residual, or x if residual is NULL: the first n lanes, or all lanes if n >= VW.
static inline vf norm_sum(const float *x, const float *residual, int64_t n)
{
    if (n >= VW) return residual ? vf_add(vf_load(x), vf_load(residual)) : vf_load(x);
    return residual ? vf_add(vf_load_n(x, n), vf_load_n(residual, n)) : vf_load_n(x, n);
}

// Computes the moments of s[D] - m: *off is the mean, *var is the mean square minus off^2.
static void norm_moments(float *off, float *var, const float *s, float m, int64_t D)
{
    const vf mean = vf_set1(m);
    vf d0 = vf_zero(), d1 = vf_zero(), v0 = vf_zero(), v1 = vf_zero();
    int64_t i = 0;
    for (; i + 2 * VW <= D; i += 2 * VW) {
        const vf a = vf_sub(vf_load(s + i), mean), b = vf_sub(vf_load(s + i + VW), mean);
        d0 = vf_add(d0, a);
        d1 = vf_add(d1, b);
        v0 = vf_fma(a, a, v0);
        v1 = vf_fma(b, b, v1);
    }
    for (; i < D; i += VW) {
        const int64_t n = qkv_min64(D - i, VW);
        // in lanes past the end s and mean are 0, so a is 0
        const vf a = vf_sub(norm_sum(s + i, NULL, n), vf_first(mean, n));
        d0 = vf_add(d0, a);
        v0 = vf_fma(a, a, v0);
    }
    *off = vf_total(vf_add(d0, d1)) / (float)D;
    const float v = vf_total(vf_add(v0, v1)) / (float)D - *off * *off;
    *var = v > 0 ? v : v * 0; // a negative variance becomes 0; NaN remains NaN because v * 0 is NaN
}

static void norm_rows(real *y, real *sum, real *mean, real *rstd, const real *x,
                      const real *residual, const real *w, const real *b, real eps, int64_t rows,
                      int64_t D)
{
    for (int64_t r = 0; r < rows; r++, x += D, y += D) {
        real *s = sum ? sum : y; // s is stored in sum, or temporarily in y
        vf t0 = vf_zero(), t1 = vf_zero();
        int64_t i = 0;
        for (; i + 2 * VW <= D; i += 2 * VW) {
            const vf a = norm_sum(x + i, residual ? residual + i : NULL, VW);
            const vf c = norm_sum(x + i + VW, residual ? residual + i + VW : NULL, VW);
            vf_store(s + i, a);
            vf_store(s + i + VW, c);
            t0 = vf_add(t0, a);
            t1 = vf_add(t1, c);
        }
        for (; i < D; i += VW) {
            const int64_t n = qkv_min64(D - i, VW);
            const vf a = norm_sum(x + i, residual ? residual + i : NULL, n);
            vf_store_n(s + i, a, n);
            t0 = vf_add(t0, a);
        }
        const float m = vf_total(vf_add(t0, t1)) / (float)D;
        float off, var;
        norm_moments(&off, &var, s, m, D);
        const float scale = 1 / sqrtf(var + eps);
        const vf vm1 = vf_set1(m), voff = vf_set1(off), vscale = vf_set1(scale);
        for (i = 0; i < D; i += VW) {
            const int64_t n = qkv_min64(D - i, VW);
            vf a = vf_mul(vf_sub(vf_sub(norm_sum(s + i, NULL, n), vm1), voff), vscale);
            const vf wi = w ? norm_sum(w + i, NULL, n) : vf_set1(1),
                     bi = b ? norm_sum(b + i, NULL, n) : vf_zero();
            a = vf_fma(a, wi, bi);
            if (n == VW)
                vf_store(y + i, a);
            else
                vf_store_n(y + i, a, n);
        }
        if (mean) mean[r] = m;
        if (rstd) rstd[r] = scale;
        if (residual) residual += D;
        if (sum) sum += D;
    }
}

static void embed_row(real *y, const real *a, real scale, const real *b, const real *c, int64_t n)
{
    const vf f = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VW) {
        const int64_t m = qkv_min64(n - i, VW);
        vf s = vf_mul(f, norm_sum(a + i, NULL, m));
        if (b) s = vf_add(s, norm_sum(b + i, NULL, m));
        if (c) s = vf_add(s, norm_sum(c + i, NULL, m));
        if (m == VW)
            vf_store(y + i, s);
        else
            vf_store_n(y + i, s, m);
    }
}
