// SPDX-License-Identifier: MIT
// scalar_attention.h: the steps of attention: the law in plain C, for isa_scalar.c alone.
//
// Layouts: keys in panels of KEYS side by side, values as they come, one row after the other.
#include "kernel/body/steps.h"
#include <math.h>

enum { ROWS = 4, KEYS = 4 };

static size_t row_bytes(int64_t E)
{
    return (size_t)E * sizeof(real);
}

static void pack_keys(void *to, const void *given, int64_t ldk, int64_t at, int64_t n, int64_t E)
{
    const real *k = given;
    for (int64_t j = at; j < at + n; j++, k += ldk)
        for (int64_t e = 0; e < E; e++)
            ((real *)to)[j / KEYS * KEYS * E + e * KEYS + j % KEYS] = k[e];
}

static bool pack_values(void *packed, const void *given, int64_t ldv, int64_t at, int64_t n,
                        int64_t room, int64_t F)
{
    real *to = packed;
    const real *v = given;
    (void)room;
    bool finite = true;
    for (int64_t j = 0; j < n; j++)
        for (int64_t f = 0; f < F; f++) {
            const real x = v[j * ldv + f];
            to[(at + j) * F + f] = isfinite(x) ? x : 0;
            if (!isfinite(x)) finite = false;
        }
    return finite;
}

static int64_t width(int64_t F)
{
    return F;
}

static size_t value_bytes(int64_t F)
{
    return (size_t)F * sizeof(real);
}

static void scores(real *s, const void *const *queries, int rows, const void *packed, int64_t E,
                   struct qkv_columns span)
{
    const real *keys = packed;
    for (int i = 0; i < rows; i++) {
        const real *q = queries[i];
        for (int32_t j = span.from; j < span.to; j++) {
            const real *k = keys + j / KEYS * KEYS * E + j % KEYS;
            real sum = 0;
            for (int64_t e = 0; e < E; e++) sum += q[e] * k[e * KEYS];
            s[i * QKV_CHUNK + j] = sum;
        }
    }
}

static void shape(real *s, int32_t lo, int32_t hi, const struct qkv_shaping *how)
{
    for (int32_t j = lo; j < hi; j++) {
        real x = how->scale * s[j];
        if (how->cap != 0) x = how->cap * (real)tanh((double)(x / how->cap));
        if (how->bias) x += (real)how->bias[j];
        if (how->slope != 0) {
            const int64_t apart = how->distance - j;
            x -= how->slope * (real)(apart < 0 ? -apart : apart);
        }
        const bool masked =
            (how->mask && !how->mask[j]) || (how->bias && how->bias[j] == -INFINITY);
        s[j] = masked ? how->masked : x;
    }
}

static void softmax(real *s, real *top, real *sum, int rows, const struct qkv_columns *spans, int n,
                    const int32_t *lo, const int32_t *hi, real c)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK) {
        real most = -(real)INFINITY, total = 0;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++)
                if (j >= lo[i] && j < hi[i] && s[j] > most) most = s[j]; // a NaN is not larger
        // With nothing to see the exponents below are -INFINITY or NaN whatever is taken off.
        const real off = most == -(real)INFINITY ? 0 : most;
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++) {
                const bool seen = j >= lo[i] && j < hi[i];
                s[j] = seen ? (real)exp2((double)(c * (s[j] - off))) : 0;
                total += s[j];
            }
        top[i] = most;
        sum[i] = total;
    }
}

static void clear(real *s, int rows, const struct qkv_columns *spans, int n, const int32_t *lo,
                  const int32_t *hi)
{
    for (int i = 0; i < rows; i++, s += QKV_CHUNK)
        for (int p = 0; p < n; p++)
            for (int32_t j = spans[p].from; j < spans[p].to; j++)
                if (j < lo[i] || j >= hi[i]) s[j] = 0;
}

static void merge(real *top, real *sum, real *old, real *now, const real *top1, const real *sum1,
                  int rows, real c)
{
    for (int i = 0; i < rows; i++) {
        const real both = top[i] > top1[i] ? top[i] : top1[i];
        const bool none = both == -(real)INFINITY; // 2^(-INFINITY + INFINITY) is NaN
        old[i] = none ? 0 : (real)exp2((double)(c * (top[i] - both)));
        now[i] = none ? 0 : (real)exp2((double)(c * (top1[i] - both)));
        sum[i] = old[i] * sum[i] + now[i] * sum1[i];
        top[i] = both;
    }
}

static void values(real *o, const real *old, const real *now, const real *s, int rows,
                   const void *given, int64_t room, int64_t F, const struct qkv_columns *spans,
                   int n)
{
    const real *packed = given;
    (void)room;
    for (int i = 0; i < rows; i++, s += QKV_CHUNK, o += F)
        for (int64_t f = 0; f < F; f++) {
            real sum = 0;
            for (int p = 0; p < n; p++)
                for (int32_t j = spans[p].from; j < spans[p].to; j++)
                    sum += s[j] * packed[j * F + f];
            o[f] = old ? old[i] * o[f] + now[i] * sum : now[i] * sum;
        }
}

static void divide(void *to, const real *o, real sum, int64_t F)
{
    real *out = to;
    for (int64_t f = 0; f < F; f++) out[f] = sum == 0 ? 0 : o[f] / sum + 0; // + 0: -0 becomes 0
}

static void weights(real *w, int64_t n, real c, real top, real sum)
{
    const real off = top == -(real)INFINITY ? 0 : top;
    for (int64_t j = 0; j < n; j++)
        w[j] = sum == 0 ? 0 : (real)exp2((double)(c * (w[j] - off))) / sum;
}

static const struct qkv_attention_kernels attention =
    ATTENTION_STEPS(ISA_NAME, ROWS, KEYS, 1, pack_keys, scores);
