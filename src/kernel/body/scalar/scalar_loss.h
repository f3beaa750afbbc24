// SPDX-License-Identifier: MIT
// scalar_loss.h: defines the law (the reference kernels) of the softmax terms of a batch whose rows
// are stored as columns. Requires scalar_linear.h.

static void loss_terms(void *p, qkv_dtype type, int64_t ldp, real gain, real *top, real *sum,
                       real *all, const real *s, int64_t lds, const real *b, int64_t n, int64_t R)
{
    for (int64_t r = 0; r < R; r++) {
        real most = -(real)INFINITY, total = 0, terms = 0;
        for (int64_t i = 0; i < n; i++) {
            const real a = s[i * lds + r] + (b ? b[i] : 0);
            if (a > most) most = a; // the maximum ignores NaN, which then appears in the terms
            total += a;
        }
        const real off = most == -(real)INFINITY ? 0 : most;
        for (int64_t i = 0; i < n; i++) {
            const real a = s[i * lds + r] + (b ? b[i] : 0), e = (real)exp((double)(a - off));
            if (p) put_number(p, type, i * ldp + r, gain * e);
            terms += e;
        }
        top[r] = most;
        sum[r] = terms;
        if (all) all[r] = total;
    }
}

static void loss_slope(void *p, qkv_dtype type, int64_t ldp, real *sums, const real *by, real less,
                       int64_t n, int64_t R)
{
    for (int64_t i = 0; i < n; i++) {
        real sum = 0;
        for (int64_t r = 0; r < R; r++) {
            const real g = number(p, type, i * ldp + r) * by[r] - less;
            put_number(p, type, i * ldp + r, g);
            sum += g;
        }
        if (sums) sums[i] = sum;
    }
}
