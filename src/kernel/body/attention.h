// SPDX-License-Identifier: MIT
// attention.h: the steps of attention on vectors.  After exp.h.
//
// An isa file sets ATTENTION_MR queries and ATTENTION_NR vectors of keys (or of value columns) a
// tile: MR * NR sums stay in registers, with NR + 1 more.  Both products have one shape: the outer
// product of MR broadcast numbers and NR vectors, added once for each e (scores) or each key
// (values).  Keys are packed so that e is the slow axis of a panel, values so that the key is; the
// last panel of values is only as wide as F asks for.  Each sum
// is one chain of fma: for every tile the same.

#include "kernel/body/steps.h"

enum { MR = ATTENTION_MR, NR = ATTENTION_NR, WIDE = NR * VW };
#define UNROLL _Pragma("GCC unroll 16")
#define INLINE static inline __attribute__((always_inline))

static size_t row_bytes(int64_t E)
{
    return (size_t)E * sizeof(real);
}

static void pack_keys(void *packed, const void *given, int64_t ldk, int64_t at, int64_t n,
                      int64_t E)
{
    real *to = packed;
    const real *k = given;
    for (; at % VW && n > 0; at++, n--, k += ldk) // keys of a vector that is begun
        for (int64_t e = 0; e < E; e++) to[at / WIDE * WIDE * E + at % WIDE + e * WIDE] = k[e];
    for (int64_t j = 0; j < n; j += VW) {
        const int64_t rows = qkv_min64(VW, n - j);
        real *panel = to + (at + j) / WIDE * WIDE * E + (at + j) % WIDE;
        for (int64_t e = 0; e < E; e += VW) {
            const int64_t columns = qkv_min64(VW, E - e);
            const real *from = k + j * ldk + e;
            vf r[VW];
            if (rows == VW && columns == VW) {
                UNROLL for (int i = 0; i < VW; i++) r[i] = vf_load(from + i * ldk);
                // Rows lie far apart: no prefetcher sees the next ones coming.
                for (int i = 0; j + 2 * VW <= n && i < VW; i++)
                    __builtin_prefetch(from + (i + VW) * ldk);
            } else {
                for (int i = 0; i < VW; i++)
                    r[i] = i < rows ? vf_load_n(from + i * ldk, columns) : vf_zero();
            }
            vf_transpose(r);
            for (int i = 0; i < columns; i++) vf_store(panel + (e + i) * WIDE, r[i]);
        }
    }
}

static int64_t width(int64_t F)
{
    return (F + VW - 1) / VW * VW;
}

static size_t value_bytes(int64_t F)
{
    return (size_t)width(F) * sizeof(real);
}

static bool pack_values(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                        int64_t room, int64_t F)
{
    real *to = packed;
    const real *v = given;
    bool finite = true;
    for (int64_t f0 = 0; f0 < F; f0 += WIDE, to += room * WIDE) {
        const int64_t columns = qkv_min64(WIDE, F - f0), ld = width(columns);
        for (int64_t j = 0; j < n; j++) {
            real *row = to + (at + j) * ld;
            for (int64_t f = 0; j + 8 < n && f < columns; f += 16)
                __builtin_prefetch(v + (j + 8) * ldv + f0 + f);
            for (int64_t f = 0; f < columns; f += VW) {
                const real *from = v + j * ldv + f0 + f;
                const vf x = columns - f < VW ? vf_load_n(from, columns - f) : vf_load(from);
                const vm fine = vm_finite(x);
                if (!vm_full(fine)) finite = false;
                vf_store(row + f, vf_select(fine, x, vf_zero()));
            }
        }
    }
    return finite;
}

// s[rows][vecs * VW] = q[rows][E] panel[E][WIDE]; rows and vecs are known where this is laid in.
INLINE void scores_tile(real *s, const void *const *q, const real *panel, int64_t E, const int rows,
                        const int vecs)
{
    vf acc[MR][NR];
    const real *row[MR];
    UNROLL for (int i = 0; i < rows; i++)
    {
        row[i] = q[i];
        UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_zero();
    }
    for (int64_t e = 0; e < E; e++, panel += WIDE) {
        vf k[NR];
        UNROLL for (int j = 0; j < vecs; j++) k[j] = vf_load(panel + j * VW);
        UNROLL for (int i = 0; i < rows; i++)
        {
            const vf a = vf_set1(row[i][e]);
            UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_fma(a, k[j], acc[i][j]);
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
        vf_store(s + i * QKV_CHUNK + j * VW, acc[i][j]);
}

// o[rows][vecs * VW] = old o + now s[rows][..] values[..][vecs * VW] over the columns of the spans.
INLINE void values_tile(real *o, int64_t ldo, const real *old, const real *now, const real *s,
                        const real *packed, const struct qkv_columns *spans, int n, const int rows,
                        const int vecs)
{
    vf acc[MR][NR];
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++) acc[i][j] =
        vf_zero();
    for (int p = 0; p < n; p++) {
        const real *v = packed + spans[p].from * vecs * VW, *a = s + spans[p].from;
        const real *const end = s + spans[p].to;
        for (; a < end; a++, v += vecs * VW) {
            vf x[NR];
            UNROLL for (int j = 0; j < vecs; j++) x[j] = vf_load(v + j * VW);
            UNROLL for (int i = 0; i < rows; i++)
            {
                const vf b = vf_set1(a[i * QKV_CHUNK]);
                UNROLL for (int j = 0; j < vecs; j++) acc[i][j] = vf_fma(b, x[j], acc[i][j]);
            }
        }
    }
    UNROLL for (int i = 0; i < rows; i++) UNROLL for (int j = 0; j < vecs; j++)
    {
        real *at = o + i * ldo + j * VW;
        const vf sum = vf_mul(vf_set1(now[i]), acc[i][j]);
        vf_store(at, old ? vf_fma(vf_set1(old[i]), vf_load(at), sum) : sum);
    }
}

// One function a shape of tile: EACH_TILE(ROWS, VECS) names them all.
#if ATTENTION_NR == 4
#define EACH_VECS(I, X) X(I, 1) X(I, 2) X(I, 3) X(I, 4)
#else
#define EACH_VECS(I, X) X(I, 1) X(I, 2)
#endif
#define EACH_TILE(X)                                                                               \
    EACH_VECS(1, X) EACH_VECS(2, X) EACH_VECS(3, X) EACH_VECS(4, X) EACH_VECS(5, X) EACH_VECS(6, X)

static void scores(real *s, const void *const *q, int rows, const void *packed, int64_t E,
                   struct qkv_columns span)
{
    const real *keys = packed;
    for (int32_t j = span.from, next; j < span.to; j = next) {
        next = j / WIDE * WIDE + WIDE;
        if (next > span.to) next = span.to;
        const real *panel = keys + j / WIDE * WIDE * E + j % WIDE;
        switch (rows * 8 + (next - j) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: scores_tile(s + j, q, panel, E, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static void values(real *o, const real *old, const real *now, const real *s, int rows,
                   const void *given, int64_t room, int64_t F, const struct qkv_columns *spans,
                   int n)
{
    const real *packed = given;
    const int64_t ldo = width(F);
    for (int64_t f = 0; f < ldo; f += WIDE, packed += room * WIDE) {
        switch (rows * 8 + qkv_min64(ldo - f, WIDE) / VW) {
#define QKV_TILE(I, J)                                                                             \
    case I * 8 + J: values_tile(o + f, ldo, old, now, s, packed, spans, n, I, J); break;
            EACH_TILE(QKV_TILE)
#undef QKV_TILE
        }
    }
}

static void shape(real *s, int32_t lo, int32_t hi, const struct qkv_shaping *how)
{
    const vf lanes = vf_lanes(), hidden = vf_set1(how->masked);
    for (int32_t j = lo / VW * VW; j < hi; j += VW) {
        vm seen = vm_range(lo - j, hi - j);
        vf x = vf_mul(vf_load(s + j), vf_set1(how->scale));
        if (how->cap != 0) x = vf_mul(vf_set1(how->cap), act_tanh(vf_div(x, vf_set1(how->cap))));
        if (how->bias) {
            const vf b = vf_load_m(how->bias + j, seen);
            x = vf_add(x, b);
            seen = vm_and(seen, vm_not_equal(b, vf_set1(-INFINITY)));
        }
        if (how->slope != 0) {
            const vf apart = vf_sub(vf_set1((real)(how->distance - j)), lanes);
            x = vf_fnma(vf_set1(how->slope), vf_abs(apart), x);
        }
        if (how->mask) seen = vm_bytes(how->mask + j, seen);
        vf_store(s + j, vf_select(seen, x, hidden));
    }
}

// The columns j .. j+VW-1 of a row that sees lo .. hi-1; the others are `hidden`.
INLINE vf load_seen(const real *s, int32_t j, int32_t lo, int32_t hi, vf hidden)
{
    const vf x = vf_load(s + j);
    return j >= lo && j + VW <= hi ? x : vf_select(vm_range(lo - j, hi - j), x, hidden);
}

// One pass for the tops of all rows (they pass over NaN), one for the
// powers: while a row waits for its top, others run.
static void softmax(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans, int n,
                    const int32_t *lo, const int32_t *hi, real c)
{
    const vf none = vf_set1(-INFINITY), times = vf_set1(c);
    for (int i = 0; i < rows; i++) {
        vf most = none;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                most = vf_max(load_seen(s + i * QKV_CHUNK, j, lo[i], hi[i], none), most);
        top[i] = vf_highest(most);
    }
    for (int i = 0; i < rows; i++) {
        const vf off = vf_set1(top[i] == -INFINITY ? 0 : top[i]);
        vf total = vf_zero();
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW) {
                real *const at = s + i * QKV_CHUNK;
                const vf x =
                    exp2_vector(vf_mul(vf_sub(load_seen(at, j, lo[i], hi[i], none), off), times));
                vf_store(at + j, x);
                total = vf_add(total, x);
            }
        sum[i] = vf_total(total);
    }
}

static void clear(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                  const int32_t *hi)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j += VW)
                vf_store(s + j, load_seen(s, j, lo[i], hi[i], vf_zero()));
}

static void merge(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c)
{
    const vf times = vf_set1(c), none = vf_set1(-INFINITY);
    for (int i = 0; i < rows; i += VW) {
        const int n = rows - i < VW ? rows - i : VW;
        const vf a = vf_load_n(top + i, n), b = vf_load_n(top1 + i, n), both = vf_max(a, b);
        const vm any = vm_not_equal(both, none); // where none, 2^(-INFINITY + INFINITY) is NaN
        const vf x = vf_select(any, exp2_vector(vf_mul(vf_sub(a, both), times)), vf_zero());
        const vf y = vf_select(any, exp2_vector(vf_mul(vf_sub(b, both), times)), vf_zero());
        vf_store_n(old + i, x, n);
        vf_store_n(now + i, y, n);
        vf_store_n(sum + i, vf_fma(x, vf_load_n(sum + i, n), vf_mul(y, vf_load_n(sum1 + i, n))), n);
        vf_store_n(top + i, both, n);
    }
}

static void divide(void *to, const real *o, real sum, int64_t F)
{
    real *out = to;
    if (sum == 0) {
        for (int64_t f = 0; f < F; f++) out[f] = 0;
        return;
    }
    const vf times = vf_set1(1 / sum), zero = vf_zero();
    int64_t f = 0;
    for (; f + VW <= F; f += VW)
        vf_store(out + f, vf_fma(vf_load(o + f), times, zero)); // + 0: -0 becomes 0
    if (f < F) vf_store_n(out + f, vf_fma(vf_load(o + f), times, zero), F - f);
}

static void weights(real *w, int64_t n, real c, real top, real sum)
{
    const vf times = vf_set1(c), off = vf_set1(top == -INFINITY ? 0 : top), by = vf_set1(sum);
    int64_t j = 0;
    if (sum == 0) {
        for (; j < n; j++) w[j] = 0;
        return;
    }
    for (; j + VW <= n; j += VW) {
        const vf x = exp2_vector(vf_mul(vf_sub(vf_load(w + j), off), times));
        vf_store(w + j, vf_div(x, by));
    }
    if (j < n) {
        const vf x = exp2_vector(vf_mul(vf_sub(vf_load_n(w + j, n - j), off), times));
        vf_store_n(w + j, vf_div(x, by), n - j);
    }
}

static const struct qkv_attention_kernels attention =
    ATTENTION_STEPS(ISA_NAME, MR, WIDE, VW, pack_keys, scores);
#undef INLINE
#undef UNROLL
