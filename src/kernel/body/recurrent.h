// SPDX-License-Identifier: MIT
// recurrent.h: computes the gates of recurrent units, and additive scores of one query, and sums
// of rows, with the vector functions. Requires activation.h and typed.h.

static inline vf recurrent_gate(vf x)
{
    return act_gate(vf_set1(1), x);
}

#define RECURRENT_LOAD(p)     typed_load(p, QKV_F32, i, n)
#define RECURRENT_STORE(p, a) typed_store(p, QKV_F32, i, a, n)

static void gru_row(real *h, real *gates, int64_t apart, const real *hidden, int64_t hidden_apart,
                    const real *before, int64_t count)
{
    for (int64_t i = 0, n; i < count; i += VW) {
        n = count - i;
        const vf r = recurrent_gate(vf_add(RECURRENT_LOAD(gates), RECURRENT_LOAD(hidden)));
        const vf z = recurrent_gate(
            vf_add(RECURRENT_LOAD(gates + apart), RECURRENT_LOAD(hidden + hidden_apart)));
        const vf own = RECURRENT_LOAD(hidden + 2 * hidden_apart);
        const vf made = act_tanh(vf_fma(r, own, RECURRENT_LOAD(gates + 2 * apart)));
        const vf old = RECURRENT_LOAD(before);
        RECURRENT_STORE(gates, r);
        RECURRENT_STORE(gates + apart, z);
        RECURRENT_STORE(gates + 2 * apart, made);
        RECURRENT_STORE(gates + 3 * apart, own);
        RECURRENT_STORE(h, vf_fma(z, old, vf_mul(vf_sub(vf_set1(1), z), made)));
    }
}

static void gru_row_backward(real *d, real *dbefore, const real *dh, const real *gates,
                             const real *before, int64_t count)
{
    const vf one = vf_set1(1);
    for (int64_t i = 0, n; i < count; i += VW) {
        n = count - i;
        const vf r = RECURRENT_LOAD(gates), z = RECURRENT_LOAD(gates + count);
        const vf made = RECURRENT_LOAD(gates + 2 * count), own = RECURRENT_LOAD(gates + 3 * count);
        const vf up = RECURRENT_LOAD(dh), keep = vf_sub(one, z);
        const vf steep = vf_mul(vf_sub(one, made), vf_add(one, made));
        const vf dmade = vf_mul(vf_mul(up, keep), steep);
        const vf apart = vf_sub(RECURRENT_LOAD(before), made);
        RECURRENT_STORE(d, vf_mul(vf_mul(dmade, own), vf_mul(r, vf_sub(one, r))));
        RECURRENT_STORE(d + count, vf_mul(vf_mul(up, apart), vf_mul(z, keep)));
        RECURRENT_STORE(d + 2 * count, dmade);
        RECURRENT_STORE(d + 3 * count, vf_mul(dmade, r));
        RECURRENT_STORE(dbefore, vf_mul(up, z));
    }
}

static void additive_row(real *s, const real *u, const real *w, const real *p, int64_t ld,
                         int64_t count, int64_t d)
{
    for (int64_t j = 0; j < count; j++) {
        vf sum = vf_zero();
        for (int64_t i = 0, n; i < d; i += VW) {
            n = d - i;
            const vf t = act_tanh(vf_add(RECURRENT_LOAD(u), RECURRENT_LOAD(p + j * ld)));
            // w is 0 in lanes past the end, so these lanes add nothing
            sum = vf_fma(RECURRENT_LOAD(w), t, sum);
        }
        s[j] = vf_total(sum);
    }
}

static void additive_row_backward(real *du, real *dw, real *dp, int64_t lddp, const real *ds,
                                  const real *u, const real *w, const real *p, int64_t ld,
                                  int64_t count, int64_t d)
{
    const vf one = vf_set1(1);
    for (int64_t i = 0, n; i < d; i += VW) {
        n = d - i;
        const vf query = RECURRENT_LOAD(u), weight = RECURRENT_LOAD(w);
        vf sum_u = RECURRENT_LOAD(du), sum_w = RECURRENT_LOAD(dw);
        for (int64_t j = 0; j < count; j++) {
            if (ds[j] == 0) continue;
            const vf t = act_tanh(vf_add(query, RECURRENT_LOAD(p + j * ld))), by = vf_set1(ds[j]);
            const vf steep = vf_mul(vf_sub(one, t), vf_add(one, t));
            const vf x = vf_mul(vf_mul(by, weight), steep);
            sum_w = vf_fma(by, t, sum_w);
            sum_u = vf_add(sum_u, x);
            RECURRENT_STORE(dp + j * lddp, vf_add(RECURRENT_LOAD(dp + j * lddp), x));
        }
        RECURRENT_STORE(du, sum_u);
        RECURRENT_STORE(dw, sum_w);
    }
}

// Computes `vectors` vectors of sums: each adds its numbers one after another, so that several sums
// are under way.
static inline __attribute__((always_inline)) void
weigh_columns(real *y, const real *x, const real *rows, int64_t ld, int64_t d, const int vectors)
{
    vf sum[8];
    _Pragma("GCC unroll 8") for (int j = 0; j < vectors; j++) sum[j] = vf_zero();
    for (int64_t e = 0; e < d; e++, rows += ld) {
        const vf by = vf_set1(x[e]);
        _Pragma("GCC unroll 8") for (int j = 0; j < vectors; j++) sum[j] =
            vf_fma(by, vf_load(rows + j * VW), sum[j]);
    }
    _Pragma("GCC unroll 8") for (int j = 0; j < vectors; j++) vf_store(y + j * VW, sum[j]);
}
static void weigh_rows(real *y, const real *x, const real *rows, int64_t ld, int64_t count,
                       int64_t d)
{
    int64_t i = 0;
    for (; i + 8 * VW <= count; i += 8 * VW) weigh_columns(y + i, x, rows + i, ld, d, 8);
    for (; i + 2 * VW <= count; i += 2 * VW) weigh_columns(y + i, x, rows + i, ld, d, 2);
    for (int64_t n; i < count; i += VW) {
        n = count - i;
        vf sum = vf_zero();
        for (int64_t e = 0; e < d; e++)
            sum = vf_fma(vf_set1(x[e]), RECURRENT_LOAD(rows + e * ld), sum);
        RECURRENT_STORE(y, sum);
    }
}

static void dots(real *y, const real *x, const real *rows, int64_t ld, int64_t count, int64_t d)
{
    for (int64_t j = 0; j < count; j++) {
        vf sum = vf_zero();
        for (int64_t i = 0, n; i < d; i += VW) {
            n = d - i;
            sum = vf_fma(RECURRENT_LOAD(x), RECURRENT_LOAD(rows + j * ld), sum);
        }
        y[j] = vf_total(sum);
    }
}
#undef RECURRENT_LOAD
#undef RECURRENT_STORE
