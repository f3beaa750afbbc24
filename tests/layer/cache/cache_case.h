// SPDX-License-Identifier: MIT
// cache_case.h: runs one attention problem twice: on keys and values in arrays, and on a KV cache
// to which these keys and values were appended.
//
//   pair_new()      the problem: B items of different lengths, with the bottom-right diagonal
//   pair_fill()     appends its keys and values to a cache, in pieces
//   pair_check()    checks that out, lse and weights of both runs are bit-identical
#ifndef QKV_CACHE_CASE_H
#define QKV_CACHE_CASE_H
#include "check.h"
#include "kernel/kernel.h"
#include <qkv/cache.h>
#include <stdlib.h>

// Returns true if precision p has kernels of its own in the current kernel table.
static inline bool own(int p)
{
    const struct qkv_attention_kernels *const *k = qkv_kernel()->attention;
    bool first = k[p] != NULL;
    for (int i = 0; i < p; i++)
        if (k[i] == k[p]) first = false;
    return first;
}
#define EACH_PRECISION(p)                                                                          \
    for (int p = 0; p < QKV_PRECISIONS; p++)                                                       \
        if (own(p) && !check_leaves_out_precision(p))

struct pair {
    struct qkv_attention a; // the request for qkv_attention_forward
    void *q, *k, *v;        // arrays of the type that the precision stores
    int64_t lengths[8];     // number of keys of each item
    int64_t capacity;
    int64_t parts, first_part, own_parts; // as in struct qkv_cache_shape
};

static inline qkv_dtype pair_type(qkv_precision p)
{
    return p == QKV_PRECISION_BF16 ? QKV_BF16 : p == QKV_PRECISION_F16 ? QKV_F16 : QKV_F32;
}
static inline void pair_set(void *x, qkv_precision p, int64_t i, float to)
{
    const qkv_dtype type = pair_type(p);
    if (type == QKV_F32)
        ((float *)x)[i] = to;
    else
        ((uint16_t *)x)[i] = type == QKV_BF16 ? qkv_f32_to_bf16(to) : qkv_f32_to_f16(to);
}
static inline void *pair_numbers(qkv_precision p, int64_t n)
{
    void *x = fenced((size_t)n * qkv_dtype_size(pair_type(p)));
    for (int64_t i = 0; i < n; i++) pair_set(x, p, i, (float)check_gauss());
    return x;
}

// Returns a problem with the sizes, precision and options in a. S is the length of the longest
// item; the lengths of the other items are drawn at random.
static inline struct pair pair_new(struct qkv_attention a)
{
    struct pair p = { .a = a };
    if (!p.a.G) p.a.G = p.a.H;
    if (!p.a.F) p.a.F = p.a.E;
    p.a.diagonal = QKV_BOTTOM_RIGHT;
    p.q = pair_numbers(a.precision, p.a.B * p.a.T * p.a.H * p.a.E);
    p.k = pair_numbers(a.precision, p.a.B * p.a.S * p.a.G * p.a.E);
    p.v = pair_numbers(a.precision, p.a.B * p.a.S * p.a.G * p.a.F);
    for (int64_t b = 0; b < p.a.B; b++)
        p.lengths[b] = b ? (int64_t)((check_random() + 1) * 0.5 * (double)p.a.S) : p.a.S;
    return p;
}

static inline const char *pair_row(const struct pair *p, const void *x, int64_t width, int64_t b,
                                   int64_t j)
{
    return (const char *)x +
           (size_t)((b * p->a.S + j) * p->a.G * width) * qkv_dtype_size(pair_type(p->a.precision));
}
// Appends tokens from .. to-1 of item b.
static inline void pair_append(qkv_cache *c, const struct pair *p, int64_t b, int64_t from,
                               int64_t to)
{
    qkv_error err = { 0 };
    if (qkv_cache_append(c, b, pair_row(p, p->k, p->a.E, b, from),
                         pair_row(p, p->v, p->a.F, b, from), to - from, NULL, NULL, &err) != QKV_OK)
        fail_msg("append: %s", err.text);
    CHECK_EQ(qkv_cache_length(c, b), to);
}
static inline qkv_cache *pair_cache(const struct pair *p)
{
    qkv_error err = { 0 };
    qkv_cache *c = NULL;
    const struct qkv_cache_shape s = { .B = p->a.B,
                                       .G = p->a.G,
                                       .E = p->a.E,
                                       .F = p->a.F,
                                       .capacity = p->capacity,
                                       .precision = p->a.precision,
                                       .parts = p->parts,
                                       .first_part = p->first_part,
                                       .own_parts = p->own_parts };
    if (qkv_cache_new(&c, &s, &err) != QKV_OK) fail_msg("new: %s", err.text);
    return c;
}
// Appends every item completely, `piece` tokens at a time.
static inline qkv_cache *pair_fill(const struct pair *p, int64_t piece)
{
    qkv_cache *c = pair_cache(p);
    for (int64_t b = 0; b < p->a.B; b++)
        for (int64_t at = 0; at < p->lengths[b]; at += piece)
            pair_append(c, p, b, at, at + piece < p->lengths[b] ? at + piece : p->lengths[b]);
    return c;
}

// Checks that x[n] and y[n] are bit-identical; any NaN equals any other NaN.
static inline void pair_same(const void *x, const void *y, size_t n, qkv_dtype type,
                             const char *what)
{
    const size_t size = qkv_dtype_size(type);
    for (size_t i = 0; i < n; i++) {
        const char *a = (const char *)x + i * size, *b = (const char *)y + i * size;
        if (memcmp(a, b, size) == 0) continue;
        double c, d;
        if (type == QKV_F32) {
            float e, f;
            memcpy(&e, a, 4), memcpy(&f, b, 4);
            c = (double)e, d = (double)f;
        } else {
            uint16_t e, f;
            memcpy(&e, a, 2), memcpy(&f, b, 2);
            c = (double)(type == QKV_BF16 ? qkv_bf16_to_f32(e) : qkv_f16_to_f32(e));
            d = (double)(type == QKV_BF16 ? qkv_bf16_to_f32(f) : qkv_f16_to_f32(f));
        }
        if (!(isnan(c) && isnan(d)))
            fail_msg("%s[%zu]: %.9g of the cache, expected the bits of %.9g", what, i, c, d);
    }
}

// Runs attention on the arrays and on the cache and compares the results; dense: also compares the
// dense weights.
static inline void pair_check(const struct pair *p, const qkv_cache *c, bool dense)
{
    struct qkv_attention a = p->a, cached = p->a;
    const size_t n = (size_t)(a.B * a.T * a.H * a.F), rows = (size_t)(a.B * a.H * a.T);
    const size_t size = qkv_dtype_size(pair_type(a.precision));
    void *out = fenced(n * size), *want = fenced(n * size);
    float *lse = fenced(rows * 4), *want_lse = fenced(rows * 4), *w = NULL, *want_w = NULL;
    if (dense) {
        w = fenced(rows * (size_t)a.S * 4);
        want_w = fenced(rows * (size_t)a.S * 4);
    }
    memset(lse, 0, rows * 4);
    memset(want_lse, 0, rows * 4);
    a.k_lengths = p->lengths;
    cached.S = 0;
    cached.diagonal = QKV_TOP_LEFT; // ignored: a cache always uses the bottom-right diagonal
    const struct qkv_attention_plan one = qkv_attention_plan(&a), two = qkv_cache_plan(c, &cached);
    if (two.status != QKV_OK) fail_msg("plan: %s", two.reason);
    CHECK_EQ(one.status, QKV_OK);
    char *scratch = NULL;
    const size_t capacity = (one.scratch > two.scratch ? one.scratch : two.scratch) + 64;
    CHECK_EQ(posix_memalign((void **)&scratch, 64, capacity), 0);
    memset(scratch, 0xff, capacity);
    CHECK_EQ(qkv_attention_forward(want, want_lse, want_w, p->q, p->k, p->v, &a, scratch), QKV_OK);
    memset(scratch, 0xff, capacity); // NaN, so that a read before the first write is detected
    CHECK_EQ(qkv_cache_forward(out, lse, w, p->q, c, &cached, scratch), QKV_OK);
    for (size_t i = two.scratch; i < capacity; i++) CHECK_EQ((uint8_t)scratch[i], 0xff);
    free(scratch);
    pair_same(out, want, n, pair_type(a.precision), "out");
    pair_same(lse, want_lse, rows, QKV_F32, "lse");
    if (dense) pair_same(w, want_w, rows * (size_t)a.S, QKV_F32, "weights");
}
#endif
