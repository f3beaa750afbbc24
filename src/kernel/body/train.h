// SPDX-License-Identifier: MIT
// train.h: computes norms for training, dropout, rotary positions, sums of rows and transposes,
// with the vector functions. Requires typed.h and norm.h.

// ---- norm --------------------------------------------------------------------------------------
static float norm_total(const float *x, int64_t D)
{
    vf t0 = vf_zero(), t1 = vf_zero();
    int64_t i = 0;
    for (; i + 2 * VW <= D; i += 2 * VW) {
        t0 = vf_add(t0, vf_load(x + i));
        t1 = vf_add(t1, vf_load(x + i + VW));
    }
    for (; i < D; i += VW) t0 = vf_add(t0, norm_sum(x + i, NULL, qkv_min64(D - i, VW)));
    return vf_total(vf_add(t0, t1));
}

static void norm_rows_to(void *y, qkv_dtype type, real *mean, real *rstd, const real *x,
                         const real *w, const real *b, real eps, bool rms, int64_t rows, int64_t D)
{
    for (int64_t r = 0; r < rows; r++, x += D) {
        const float m = rms ? 0 : norm_total(x, D) / (float)D;
        float off, var;
        norm_moments(&off, &var, x, m, D);
        if (rms) {
            var += off * off;
            off = 0;
        }
        const float scale = 1 / sqrtf(var + eps);
        const vf vm1 = vf_set1(m), voff = vf_set1(off), vscale = vf_set1(scale);
        for (int64_t i = 0; i < D && y; i += VW) {
            const int64_t n = qkv_min64(D - i, VW);
            const vf a = vf_mul(vf_sub(vf_sub(norm_sum(x + i, NULL, n), vm1), voff), vscale);
            const vf wi = w ? norm_sum(w + i, NULL, n) : vf_set1(1);
            const vf bi = b ? norm_sum(b + i, NULL, n) : vf_zero();
            typed_store(y, type, r * D + i, vf_fma(a, wi, bi), n);
        }
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
        const float scale = rstd[r];
        const vf m = vf_set1(rms ? 0 : mean[r]), one = vf_set1(1);
        // moved, sum and turn are the sums of x - m, of dn = w dy, and of dn (x - m), where m is
        // the mean
        vf moved = vf_zero(), sum = vf_zero(), turn = vf_zero();
        for (int64_t i = 0; i < D; i += VW) {
            const int64_t n = qkv_min64(D - i, VW);
            const vf c = vf_first(vf_sub(norm_sum(x + at + i, NULL, n), m), n);
            const vf dn =
                vf_mul(w ? norm_sum(w + i, NULL, n) : one, typed_load(dy, type, at + i, n));
            moved = vf_add(moved, c);
            sum = vf_add(sum, dn);
            turn = vf_fma(dn, c, turn);
        }
        const float off = rms ? 0 : vf_total(moved) / (float)D, dn_mean = vf_total(sum) / (float)D;
        const vf by = vf_set1(scale), take = vf_set1(off), less = vf_set1(rms ? 0 : dn_mean);
        const vf along = vf_set1((vf_total(turn) / (float)D - off * dn_mean) * scale);
        for (int64_t i = 0; i < D; i += VW) {
            const int64_t n = qkv_min64(D - i, VW);
            const vf d = typed_load(dy, type, at + i, n);
            const vf dn = vf_mul(w ? norm_sum(w + i, NULL, n) : one, d);
            const vf c = vf_mul(vf_sub(vf_sub(norm_sum(x + at + i, NULL, n), m), take), by);
            if (dw) typed_store(dw, QKV_F32, i, vf_fma(d, c, norm_sum(dw + i, NULL, n)), n);
            if (db) typed_store(db, QKV_F32, i, vf_add(d, norm_sum(db + i, NULL, n)), n);
            if (!dx) continue;
            vf out = vf_mul(by, vf_fnma(c, along, vf_sub(dn, less)));
            if (dx_add) out = vf_add(out, norm_sum(dx_add + at + i, NULL, n));
            typed_store(dx, QKV_F32, at + i, out, n);
        }
    }
}

// ---- dropout -----------------------------------------------------------------------------------
static void dropout(void *y, qkv_dtype y_type, const real *residual, const void *x,
                    qkv_dtype x_type, const uint32_t *words, uint32_t threshold, real scale,
                    int64_t n)
{
    const vf by = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VW) {
        uint32_t last[VW] = { 0 };
        const uint32_t *word = words + i;
        if (n - i < VW) word = memcpy(last, word, (size_t)(n - i) * sizeof *word);
        vf a = vf_keep(word, threshold, vf_mul(by, typed_load(x, x_type, i, n - i)));
        if (residual) a = vf_add(typed_load(residual, QKV_F32, i, n - i), a);
        typed_store(y, y_type, i, a, n - i);
    }
}

// ---- rotary positions --------------------------------------------------------------------------
// Rotates the pairs (a, b) by the angles with cosines c and sines s.
static inline void rope_turn(vf *a, vf *b, vf c, vf s)
{
    const vf left = vf_fnma(*b, s, vf_mul(*a, c)), right = vf_fma(*a, s, vf_mul(*b, c));
    *a = left;
    *b = right;
}

// Rotates interleaved pairs: splits them into two vectors, rotates and interleaves them again.
static void rope_between(void *x, qkv_dtype type, int64_t at, const vf c, const vf s, int64_t n)
{
    float both[2 * VW], left[VW], right[VW];
    for (int64_t i = 0; i < 2 * VW; i += VW)
        vf_store(both + i, typed_load(x, type, at + i, qkv_max64(2 * n - i, 0)));
    for (int i = 0; i < VW; i++) left[i] = both[2 * i], right[i] = both[2 * i + 1];
    vf a = vf_load(left), b = vf_load(right);
    rope_turn(&a, &b, c, s);
    vf_store(left, a);
    vf_store(right, b);
    for (int i = 0; i < VW; i++) both[2 * i] = left[i], both[2 * i + 1] = right[i];
    for (int64_t i = 0; i < 2 * n; i += VW)
        typed_store(x, type, at + i, vf_load(both + i), 2 * n - i);
}

static void rope_row(void *x, qkv_dtype type, const real *cosine, const real *sine, bool back,
                     int64_t pairs, int64_t step, int64_t apart, int64_t H, int64_t ld)
{
    for (int64_t i = 0; i < pairs; i += VW) {
        const int64_t n = qkv_min64(pairs - i, VW);
        const vf c = typed_load(cosine, QKV_F32, i, n), some = typed_load(sine, QKV_F32, i, n);
        const vf s = back ? vf_sub(vf_zero(), some) : some;
        for (int64_t h = 0; h < H; h++) {
            const int64_t at = h * ld + i * step;
            if (step > 1) {
                rope_between(x, type, at, c, s, n);
                continue;
            }
            vf a = typed_load(x, type, at, n), b = typed_load(x, type, at + apart, n);
            rope_turn(&a, &b, c, s);
            typed_store(x, type, at, a, n);
            typed_store(x, type, at + apart, b, n);
        }
    }
}

// ---- sums of rows ------------------------------------------------------------------------------
static void add_row(real *to, const real *x, real scale, int64_t n)
{
    const vf by = vf_set1(scale);
    for (int64_t i = 0; i < n; i += VW) {
        const vf a = vf_mul(by, typed_load(x, QKV_F32, i, n - i));
        typed_store(to, QKV_F32, i, vf_add(typed_load(to, QKV_F32, i, n - i), a), n - i);
    }
}

static inline __attribute__((always_inline)) void
add_some(real *to, const void *x, const qkv_dtype type, int64_t ld, int64_t rows, int64_t n)
{
    enum { AT_ONCE = 4 };
    for (int64_t i = 0; i < n; i += AT_ONCE * VW) {
        vf sum[AT_ONCE] = { vf_zero(), vf_zero(), vf_zero(), vf_zero() };
        if (n - i >= AT_ONCE * VW) {
            for (int64_t r = 0; r < rows; r++)
                for (int j = 0; j < AT_ONCE; j++)
                    sum[j] = vf_add(sum[j], typed_load(x, type, r * ld + i + j * VW, VW));
        } else {
            for (int64_t r = 0; r < rows; r++)
                for (int j = 0; j * VW < n - i; j++)
                    sum[j] =
                        vf_add(sum[j], typed_load(x, type, r * ld + i + j * VW, n - i - j * VW));
        }
        for (int j = 0; j < AT_ONCE && j * VW < n - i; j++) {
            const int64_t at = i + j * VW;
            typed_store(to, QKV_F32, at, vf_add(typed_load(to, QKV_F32, at, n - at), sum[j]),
                        n - at);
        }
    }
}

static void add_rows(real *to, const void *x, qkv_dtype type, int64_t ld, int64_t rows, int64_t n)
{
    if (type == QKV_BF16)
        add_some(to, x, QKV_BF16, ld, rows, n);
    else if (type == QKV_F16)
        add_some(to, x, QKV_F16, ld, rows, n);
    else
        add_some(to, x, QKV_F32, ld, rows, n);
}
