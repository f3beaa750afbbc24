// SPDX-License-Identifier: MIT
// loss.h: computes softmax terms of a batch whose rows are stored as columns, so that each lane of
// a vector belongs to another row of the batch. Requires exp.h and typed.h.

// Computes loss_terms (kernel.h) for `count` vectors of columns, of which only the first `left`
// columns exist.
static inline __attribute__((always_inline)) void
loss_strip(char *p, qkv_dtype type, int64_t ldp, real gain, real *top, real *sum, real *all,
           const real *s, int64_t lds, const real *b, int64_t n, int64_t left, const int count)
{
    enum { MOST = 4 };
    vf most[MOST], total[MOST], terms[MOST];
    const size_t size = qkv_dtype_size(type);
#define LOSS_EACH(j) _Pragma("GCC unroll 4") for (int j = 0; j < count; j++)
#define LOSS_SCORE(i, j)                                                                           \
    vf_add(typed_load(s + (i)*lds, QKV_F32, (j)*VW, left - (j)*VW), vf_set1(b ? b[i] : 0))
    LOSS_EACH(j)
    {
        most[j] = vf_set1(-INFINITY);
        total[j] = terms[j] = vf_zero();
    }
    for (int64_t i = 0; i < n; i++) LOSS_EACH(j)
        {
            const vf a = LOSS_SCORE(i, j);
            // the maximum ignores NaN; a NaN then makes the terms of its column NaN
            most[j] = vf_max(a, most[j]);
            total[j] = vf_add(total[j], a);
        }
    LOSS_EACH(j)
    {
        typed_store(top, QKV_F32, j * VW, most[j], left - j * VW);
        if (all) typed_store(all, QKV_F32, j * VW, total[j], left - j * VW);
        // If the maximum is -INFINITY, any finite offset gives terms of 0 (or NaN).
        most[j] = vf_lt(most[j], vf_set1(-FLT_MAX), vf_zero(), most[j]);
    }
    for (int64_t i = 0; i < n; i++) LOSS_EACH(j)
        {
            const vf e = exp_vector(vf_sub(LOSS_SCORE(i, j), most[j]));
            terms[j] = vf_add(terms[j], e);
            if (p)
                typed_store(p + (size_t)(i * ldp) * size, type, j * VW, vf_mul(vf_set1(gain), e),
                            left - j * VW);
        }
    LOSS_EACH(j) typed_store(sum, QKV_F32, j * VW, terms[j], left - j * VW);
#undef LOSS_SCORE
#undef LOSS_EACH
}

// `type` is a constant where this function is inlined, so that each type gets its own loop.
static inline __attribute__((always_inline)) void
loss_terms_of(char *p, const qkv_dtype type, int64_t ldp, real gain, real *top, real *sum,
              real *all, const real *s, int64_t lds, const real *b, int64_t n, int64_t R)
{
    enum { STRIP = 4 * VW };
    int64_t r = 0;
    const size_t size = qkv_dtype_size(type);
    for (; r + STRIP <= R; r += STRIP)
        loss_strip(p ? p + (size_t)r * size : NULL, type, ldp, gain, top + r, sum + r,
                   all ? all + r : NULL, s + r, lds, b, n, STRIP, 4);
    for (; r < R; r += VW)
        loss_strip(p ? p + (size_t)r * size : NULL, type, ldp, gain, top + r, sum + r,
                   all ? all + r : NULL, s + r, lds, b, n, R - r, 1);
}

static void loss_terms(void *p, qkv_dtype type, int64_t ldp, real gain, real *top, real *sum,
                       real *all, const real *s, int64_t lds, const real *b, int64_t n, int64_t R)
{
    if (type == QKV_BF16)
        loss_terms_of(p, QKV_BF16, ldp, gain, top, sum, all, s, lds, b, n, R);
    else if (type == QKV_F16)
        loss_terms_of(p, QKV_F16, ldp, gain, top, sum, all, s, lds, b, n, R);
    else
        loss_terms_of(p, QKV_F32, ldp, gain, top, sum, all, s, lds, b, n, R);
}

static inline __attribute__((always_inline)) float
loss_slope_row(void *p, const qkv_dtype type, const real *by, real less, int64_t R)
{
    vf sum = vf_zero();
    for (int64_t r = 0; r < R; r += VW) {
        const vf f = typed_load(by, QKV_F32, r, R - r);
        const vf g = vf_fms(typed_load(p, type, r, R - r), f, vf_set1(less));
        typed_store(p, type, r, g, R - r);
        sum = vf_add(sum, R - r >= VW ? g : vf_first(g, R - r));
    }
    return vf_total(sum);
}

static void loss_slope(void *p, qkv_dtype type, int64_t ldp, real *sums, const real *by, real less,
                       int64_t n, int64_t R)
{
    char *at = p;
    for (int64_t i = 0; i < n; i++, at += (size_t)ldp * qkv_dtype_size(type)) {
        const float sum = type == QKV_BF16  ? loss_slope_row(at, QKV_BF16, by, less, R)
                          : type == QKV_F16 ? loss_slope_row(at, QKV_F16, by, less, R)
                                            : loss_slope_row(at, QKV_F32, by, less, R);
        if (sums) sums[i] = sum;
    }
}
