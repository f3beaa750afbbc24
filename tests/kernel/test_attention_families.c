// SPDX-License-Identifier: MIT
// test_attention_families.c: tests the contract of all attention kernel families, whatever their
// layouts of keys, values and rows of q: every precision of every ISA, in blocks that end at guard
// pages.
#include "check.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and these bounds hold for float");
    return 77;
}
#else
static const int64_t widths[] = { 1, 2, 15, 16, 17, 31, 33, 48, 64, 130 };
static const int32_t counts[] = { 1, 2, 15, 16, 17, 33, 64, 65, 100, QKV_CHUNK };
static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_STRICT,
                                            QKV_PRECISION_F32_FAST, QKV_PRECISION_BF16,
                                            QKV_PRECISION_F16 };
#define EACH_FAMILY(isa, how) EACH_ISA(isa) EACH(how, precisions)

static void check_tile(const struct qkv_attention_kernels *k)
{
    CHECK(k != NULL);
    // attention allocates arrays for at most this many rows
    CHECK(k->rows >= 1 && k->rows <= QKV_TILE_ROWS_MAX);
    // a chunk is a multiple of the panel; with 2 or more keys per panel it has at most
    // QKV_CHUNK / 2 spans
    CHECK(k->keys >= 2 && QKV_CHUNK / 4 % k->keys == 0);
    CHECK(k->lanes >= 1 && k->keys % k->lanes == 0);
}

TEST(a_tile_is_no_larger_than_the_capacity_of_the_operator)
{
    EACH_ISA(isa)
    {
        for (int p = 0; p < QKV_PRECISIONS; p++) check_tile(isa->attention[p]);
        check_tile(isa->additive);
    }
}

// n numbers in the type of a family, and the same numbers as floats.
struct numbers {
    void *at;
    float *of;
};
static struct numbers stored(const float *x, int64_t n, qkv_dtype type)
{
    struct numbers a = { fenced((size_t)n * qkv_dtype_size(type)),
                         fenced((size_t)n * sizeof(float)) };
    for (int64_t i = 0; i < n; i++) {
        if (type == QKV_F32) {
            ((float *)a.at)[i] = a.of[i] = x[i];
        } else if (type == QKV_BF16) {
            ((uint16_t *)a.at)[i] = qkv_f32_to_bf16(x[i]);
            a.of[i] = qkv_bf16_to_f32(((uint16_t *)a.at)[i]);
        } else {
            ((uint16_t *)a.at)[i] = qkv_f32_to_f16(x[i]);
            a.of[i] = qkv_f16_to_f32(((uint16_t *)a.at)[i]);
        }
    }
    return a;
}

// Keys and rows of q, packed by a family.
struct asked {
    const struct qkv_attention_kernels *k;
    int64_t E;
    int32_t n;
    int rows;
    struct numbers keys, q;
    void *packed;
    const void *row[64];
    float *s;
};
static int32_t up(int32_t n, int to)
{
    return (n + to - 1) / to * to;
}
static struct asked asked(const struct qkv_attention_kernels *k, const float *keys, const float *q,
                          int64_t E, int32_t n, int rows)
{
    struct asked a = { .k = k, .E = E, .n = n, .rows = rows };
    const size_t size = qkv_dtype_size(k->type);
    a.keys = stored(keys, n * E, k->type);
    a.q = stored(q, rows * E, k->type);
    a.packed = fenced((size_t)up(n, k->keys) * k->key_bytes(E));
    a.s = fenced((size_t)rows * QKV_CHUNK * sizeof *a.s);
    k->pack_keys(a.packed, a.keys.at, E, 0, n, E);
    const size_t apart = k->pack_query ? k->query_bytes(E) : (size_t)E * size;
    char *all = k->pack_query ? fenced((size_t)up(rows, k->rows) * apart) : a.q.at;
    for (int i = 0; i < rows; i++) {
        a.row[i] = all + (size_t)i * apart;
        if (k->pack_query)
            k->pack_query(all + (size_t)i * apart, (char *)a.q.at + (size_t)(i * E) * size, E);
    }
    return a;
}
static void ask(const struct asked *a, int32_t from, int32_t to)
{
    a->k->scores(a->s, a->row, a->rows, a->packed, a->E, (struct qkv_columns){ from, to });
}

// Returns the error bound of a product of E numbers, relative to the sum of the magnitudes of its
// terms: E roundings, and the remainder that a split into parts omits (docs/numerics.md).
static double off(int64_t E, qkv_precision how)
{
    return (double)(E + 3) * 0x1p-24 + (how == QKV_PRECISION_F32_FAST ? 0x1p-15 : 0);
}

TEST(scores_are_the_products_of_what_is_stored)
{
    EACH_FAMILY(isa, how) EACH(E, widths) EACH(n, counts)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        const int rows = 1 + (int)(*E + *n) % k->rows;
        const struct asked a =
            asked(k, fenced_random(*n * *E), fenced_random(rows * *E), *E, *n, rows);
        for (int i = 0; i < rows * QKV_CHUNK; i++) a.s[i] = 7;
        const int32_t from = *n > 40 ? up(20, k->lanes) : 0, to = up(*n, k->lanes);
        ask(&a, from, to);
        for (int i = 0; i < rows; i++)
            for (int32_t j = 0; j < QKV_CHUNK; j++) {
                double want = 0, size = 0;
                for (int64_t e = 0; e < *E && j < *n; e++) {
                    const double x = (double)a.q.of[i * *E + e] * (double)a.keys.of[j * *E + e];
                    want += x;
                    size += fabs(x);
                }
                if (j < from || j >= to)
                    CHECK(a.s[i * QKV_CHUNK + j] == 7);
                else
                    CHECK_NEAR(a.s[i * QKV_CHUNK + j], want, off(*E, *how) * size);
            }
        fence_free();
    }
}

TEST(a_row_of_scores_has_the_same_bits_alone)
{
    EACH_FAMILY(isa, how) EACH(E, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { N = 70 };
        const struct asked all =
            asked(k, fenced_random(N * *E), fenced_random(k->rows * *E), *E, N, k->rows);
        ask(&all, 0, up(N, k->lanes));
        for (int i = 0; i < k->rows; i++) {
            const struct asked one = asked(k, all.keys.of, all.q.of + i * *E, *E, N, 1);
            ask(&one, 0, up(N, k->lanes));
            CHECK_BITS(one.s, all.s + i * QKV_CHUNK, N * sizeof *one.s);
            // the test allocates few guard pages: eight rows suffice
            if (i % 8 == 7) fence_free(), i = k->rows;
        }
        fence_free();
    }
}

TEST(keys_may_be_packed_piece_by_piece)
{
    static const int32_t pieces[] = { 1, 3, 16, 5, 40, 7, 64, 1, 1, 30 };
    EACH_FAMILY(isa, how) EACH(E, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { N = 168 };
        const struct asked a = asked(k, fenced_random(N * *E), fenced_random(*E), *E, N, 1);
        float whole[QKV_CHUNK];
        ask(&a, 0, up(N, k->lanes));
        memcpy(whole, a.s, N * sizeof *whole);
        memset(a.packed, 0xff, (size_t)up(N, k->keys) * k->key_bytes(*E));
        int32_t at = 0;
        EACH(piece, pieces)
        {
            k->pack_keys(a.packed, (char *)a.keys.at + (size_t)(at * *E) * qkv_dtype_size(k->type),
                         *E, at, *piece, *E);
            at += *piece;
            ask(&a, 0, up(at, k->lanes));
            CHECK_BITS(a.s, whole, (size_t)at * sizeof *whole);
        }
        CHECK_EQ(at, N);
        fence_free();
    }
}

// Numbers so large or small that their parts would leave the range of floats.
TEST(scores_of_extreme_rows_are_as_near_as_others)
{
    static const int powers[][2] = { { 0, 0 },      { 100, -100 }, { -120, 90 }, { 120, -60 },
                                     { -126, 120 }, { 60, 60 },    { -70, -40 }, { 30, -145 } };
    EACH_ISA(isa) EACH(p, powers)
    {
        const qkv_precision all[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_FAST };
        EACH(how, all)
        {
            const struct qkv_attention_kernels *k = isa->attention[*how];
            enum { E = 40, N = 20, R = 5 };
            float *keys = fenced_random(N * E), *q = fenced_random(R * E);
            for (int i = 0; i < N * E; i++)
                // every third row keeps its magnitude
                if (i / E % 3) keys[i] = ldexpf(keys[i], (*p)[1]);
            for (int i = 0; i < R * E; i++)
                if (i / E % 2) q[i] = ldexpf(q[i], (*p)[0]);
            const struct asked a = asked(k, keys, q, E, N, R);
            ask(&a, 0, up(N, k->lanes));
            for (int i = 0; i < R; i++)
                for (int j = 0; j < N; j++) {
                    double want = 0, size = 0;
                    for (int e = 0; e < E; e++) {
                        const double x = (double)q[i * E + e] * (double)keys[j * E + e];
                        want += x;
                        size += fabs(x);
                    }
                    // skipped, because an intermediate sum may overflow
                    if (size > 0x1p127) continue;
                    CHECK_NEAR(a.s[i * QKV_CHUNK + j], want, off(E, *how) * size + E * 0x1p-149);
                }
            fence_free();
        }
    }
}

TEST(scores_of_what_is_not_finite_are_those_of_floats)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    EACH_FAMILY(isa, how) EACH(x, odd) for (int where = 0; where < 2; where++)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { E = 37, N = 40, R = 6 };
        const int rows = R < k->rows ? R : k->rows, row = rows - 1, key = 21, e = 35;
        float *keys = fenced_random(N * E), *q = fenced_random(R * E);
        // bf16 and f16 represent them as normal numbers
        for (int i = 0; i < N * E; i++) keys[i] = fabsf(keys[i]) + 0.5f;
        for (int i = 0; i < R * E; i++) q[i] = fabsf(q[i]) + 0.5f;
        const struct asked plain = asked(k, keys, q, E, N, rows);
        ask(&plain, 0, up(N, k->lanes));
        *(where ? &q[row * E + e] : &keys[key * E + e]) = *x;
        const struct asked a = asked(k, keys, q, E, N, rows);
        ask(&a, 0, up(N, k->lanes));
        for (int i = 0; i < rows; i++)
            for (int j = 0; j < N; j++) {
                const float s = a.s[i * QKV_CHUNK + j];
                if (where ? i == row : j == key)
                    CHECK(isnan(*x) ? isnan(s) : s == *x);
                else
                    CHECK(s == plain.s[i * QKV_CHUNK + j]);
            }
        fence_free();
    }
}

// ---- values ------------------------------------------------------------------------------------
struct given {
    const struct qkv_attention_kernels *k;
    int64_t F, capacity, wide;
    struct numbers v;
    void *packed;
};
// Allocates space for a chunk, packs rows at .. at+n-1, and leaves NaN in the other rows.
static struct given given(const struct qkv_attention_kernels *k, const float *v, int64_t at,
                          int64_t n, int64_t F)
{
    struct given g = { .k = k, .F = F, .capacity = QKV_CHUNK, .wide = k->width(F) };
    g.v = stored(v, n * F, k->type);
    g.packed = fenced((size_t)g.capacity * k->value_bytes(F));
    memset(g.packed, 0xff, (size_t)g.capacity * k->value_bytes(F));
    CHECK(k->pack_values(g.packed, g.v.at, F, at, n, g.capacity, F));
    return g;
}

// Turns rows of scores into weights of the same value, with the family's own kernel if it stores
// weights in another format.
static void make_shares(const struct qkv_attention_kernels *k, float *s, int rows)
{
    int32_t lo[64], hi[64];
    for (int i = 0; i < rows; i++) lo[i] = 0, hi[i] = QKV_CHUNK;
    const struct qkv_columns all = { 0, QKV_CHUNK };
    if (k->probability) k->clear(s, rows, &all, 1, lo, hi);
}
static float share_of(const struct qkv_attention_kernels *k, const float *s, int i, int32_t j)
{
    return k->probability ? k->probability(s, i, j) : s[i * QKV_CHUNK + j];
}

TEST(values_are_sums_over_the_spans_and_nothing_else_is_read)
{
    EACH_FAMILY(isa, how) EACH(F, widths) EACH(n, counts)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        const int32_t at = (int32_t)((QKV_CHUNK - *n) / 2);
        const int rows = 1 + (int)(*F + *n) % k->rows;
        const struct given g = given(k, fenced_random(*n * *F), at, *n, *F);
        float *s = fenced_random(rows * QKV_CHUNK), *o = fenced_random(rows * g.wide), old[64],
              now[64];
        float *one = fenced((size_t)g.wide * sizeof *one);
        for (int i = 0; i < rows; i++) old[i] = 0.5f, now[i] = 0.75f;
        make_shares(k, s, rows);
        const struct qkv_columns spans[] = { { at, at + *n / 3 },
                                             { at + *n / 3 + (*n > 3), at + *n } };
        for (int again = 0; again < 2; again++)
            k->values(o, again ? old : NULL, now, s, rows, g.packed, g.capacity, *F, spans, 2);
        for (int i = 0; i < rows; i++)
            for (int64_t f = 0; f < *F; f++) {
                double want = 0, size = 0;
                for (int p = 0; p < 2; p++)
                    for (int32_t j = spans[p].from; j < spans[p].to; j++) {
                        const double x =
                            (double)share_of(k, s, i, j) * (double)g.v.of[(j - at) * *F + f];
                        want += x;
                        size += fabs(x);
                    }
                CHECK_NEAR(o[i * g.wide + f], 1.125 * want,
                           1.125 * (off(*n, *how) + 4 * 0x1p-24) * size);
            }
        for (int i = 0; i < rows; i += 5) { // each row alone, and in two steps, is bit-identical
            for (int again = 0; again < 2; again++)
                k->values(one, again ? old : NULL, now, s + i * QKV_CHUNK, 1, g.packed, g.capacity,
                          *F, spans, 2);
            CHECK_BITS(one, o + i * g.wide, (size_t)*F * sizeof *o);
            const float whole = 1;
            float *part = fenced((size_t)g.wide * sizeof *part);
            k->values(part, NULL, &whole, s + i * QKV_CHUNK, 1, g.packed, g.capacity, *F, spans, 2);
            k->join(one, NULL, now, part, 1, g.wide);
            k->join(one, old, now, part, 1, g.wide);
            CHECK_BITS(one, o + i * g.wide, (size_t)*F * sizeof *o);
        }
        fence_free();
    }
}

// A weight of 0 adds nothing: the result is bit-identical whether its column is in a span or not.
TEST(columns_without_a_share_may_be_left_out)
{
    EACH_FAMILY(isa, how) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        const struct given g = given(k, fenced_random(QKV_CHUNK * *F), 0, QKV_CHUNK, *F);
        float *s = fenced_random(QKV_CHUNK), *o = fenced_random(g.wide), *p = fenced_random(g.wide);
        const float now = 1;
        for (int j = 0; j < QKV_CHUNK; j++)
            s[j] = (j >= 70 && j < 100) || (j >= 128 && j < 192) ? fabsf(s[j]) : 0;
        make_shares(k, s, 1);
        const struct qkv_columns all = { 0, QKV_CHUNK }, some[] = { { 70, 100 }, { 128, 192 } };
        k->values(o, NULL, &now, s, 1, g.packed, g.capacity, *F, &all, 1);
        k->values(p, NULL, &now, s, 1, g.packed, g.capacity, *F, some, 2);
        for (int64_t f = 0; f < *F; f++) CHECK(o[f] == p[f]);
        fence_free();
    }
}

TEST(values_may_be_packed_piece_by_piece)
{
    static const int32_t pieces[] = { 1, 1, 1, 13, 16, 32, 5, 64, 7, 1, 27 };
    EACH_FAMILY(isa, how) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { N = 168 };
        const struct given g = given(k, fenced_random(N * *F), 0, N, *F);
        float *s = fenced_random(QKV_CHUNK), *o = fenced_random(g.wide), *p = fenced_random(g.wide);
        const float now = 1;
        const struct qkv_columns all = { 0, N };
        make_shares(k, s, 1);
        k->values(o, NULL, &now, s, 1, g.packed, g.capacity, *F, &all, 1);
        memset(g.packed, 0xff, (size_t)g.capacity * k->value_bytes(*F));
        int32_t at = 0;
        EACH(piece, pieces)
        {
            CHECK(k->pack_values(g.packed,
                                 (char *)g.v.at + (size_t)(at * *F) * qkv_dtype_size(k->type), *F,
                                 at, *piece, g.capacity, *F));
            at += *piece;
        }
        CHECK_EQ(at, N);
        k->values(p, NULL, &now, s, 1, g.packed, g.capacity, *F, &all, 1);
        CHECK_BITS(o, p, (size_t)*F * sizeof *o);
        fence_free();
    }
}

TEST(values_that_are_not_finite_are_noticed_and_count_as_zero)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    EACH_FAMILY(isa, how) EACH(F, widths) EACH(x, odd)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { N = 9, AT = 3, BAD = 4 };
        float *v = fenced_random(N * *F), *o = fenced_random(k->width(*F));
        float *s = fenced_random(QKV_CHUNK);
        v[BAD * *F + *F - 1] = 0;
        const struct given fine = given(k, v, AT, N, *F);
        make_shares(k, s, 1);
        const float now = 1;
        const struct qkv_columns span = { AT, AT + N };
        k->values(o, NULL, &now, s, 1, fine.packed, fine.capacity, *F, &span, 1);
        v[BAD * *F + *F - 1] = *x;
        const struct numbers bad = stored(v, N * *F, k->type);
        CHECK(!k->pack_values(fine.packed, bad.at, *F, AT, N, fine.capacity, *F));
        float *p = fenced_random(k->width(*F));
        k->values(p, NULL, &now, s, 1, fine.packed, fine.capacity, *F, &span, 1);
        CHECK_BITS(o, p, (size_t)*F * sizeof *o);
        fence_free();
    }
}

TEST(extreme_values_and_shares_are_as_near_as_others)
{
    static const int powers[][2] = { { 0, 100 },   { 0, -110 },  { 0, 120 },  { 60, -60 },
                                     { 120, -60 }, { -100, 90 }, { -60, -60 } };
    EACH_ISA(isa) EACH(p, powers)
    {
        const qkv_precision all[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_FAST };
        EACH(how, all)
        {
            const struct qkv_attention_kernels *k = isa->attention[*how];
            enum { F = 20, N = 50 };
            float *v = fenced_random(N * F), *s = fenced_random(2 * QKV_CHUNK);
            for (int i = 0; i < N * F; i++)
                if (i / F % 4) v[i] = ldexpf(v[i], (*p)[1]);
            // row 1 keeps its magnitude
            for (int j = 0; j < QKV_CHUNK; j++) s[j] = ldexpf(s[j], (*p)[0]);
            const struct given g = given(k, v, 0, N, F);
            float *o = fenced((size_t)(2 * g.wide) * sizeof *o);
            const float now[2] = { 1, 1 };
            const struct qkv_columns span = { 0, N };
            k->values(o, NULL, now, s, 2, g.packed, g.capacity, F, &span, 1);
            for (int i = 0; i < 2; i++)
                for (int f = 0; f < F; f++) {
                    double want = 0, size = 0;
                    for (int j = 0; j < N; j++) {
                        const double x = (double)s[i * QKV_CHUNK + j] * (double)v[j * F + f];
                        want += x;
                        size += fabs(x);
                    }
                    if (size > 0x1p127) continue;
                    CHECK_NEAR(o[i * g.wide + f], want, off(N, *how) * size + N * 0x1p-149);
                }
            fence_free();
        }
    }
}

TEST(shares_that_are_not_finite_reach_their_row_alone)
{
    static const float odd[] = { NAN, INFINITY, -INFINITY };
    EACH_FAMILY(isa, how) EACH(x, odd)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        enum { F = 20, N = 50 };
        float *v = fenced_random(N * F), *s = fenced_random(2 * QKV_CHUNK);
        for (int i = 0; i < N * F; i++) v[i] = fabsf(v[i]) + 0.5f;
        const struct given g = given(k, v, 0, N, F);
        float *o = fenced((size_t)(2 * g.wide) * sizeof *o), *p = fenced_random(2 * g.wide);
        const float now[2] = { 1, 1 };
        const struct qkv_columns span = { 0, N };
        float t[2 * QKV_CHUNK];
        memcpy(t, s, sizeof t);
        t[33] = *x;
        make_shares(k, s, 2);
        make_shares(k, t, 2);
        k->values(o, NULL, now, s, 2, g.packed, g.capacity, F, &span, 1);
        k->values(p, NULL, now, t, 2, g.packed, g.capacity, F, &span, 1);
        CHECK_BITS(o + g.wide, p + g.wide, F * sizeof *o);
        for (int f = 0; f < F; f++) CHECK(isnan(*x) ? isnan(p[f]) : p[f] == *x);
        fence_free();
    }
}

TEST(rows_are_divided_into_the_type_of_the_arrays)
{
    EACH_FAMILY(isa, how) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[*how];
        const float *o = fenced_random(k->width(*F));
        void *out = fenced((size_t)*F * qkv_dtype_size(k->type));
        const double half = k->type == QKV_F32 ? 0 : k->type == QKV_BF16 ? 0x1p-8 : 0x1p-11;
        for (int zero = 0; zero < 2; zero++) {
            k->divide(out, o, zero ? 0 : 3, *F);
            for (int64_t f = 0; f < *F; f++) {
                const uint16_t h = k->type == QKV_F32 ? 0 : ((uint16_t *)out)[f];
                const float x = k->type == QKV_F32    ? ((float *)out)[f]
                                : k->type == QKV_BF16 ? qkv_bf16_to_f32(h)
                                                      : qkv_f16_to_f32(h);
                const double want = zero ? 0 : (double)o[f] / 3;
                CHECK_NEAR(x, want, (half + 3 * 0x1p-24) * fabs(want) + (half > 0) * 0x1p-25);
                CHECK(!zero || !signbit(x));
            }
        }
        fence_free();
    }
}

CHECK_MAIN(CASE(a_tile_is_no_larger_than_the_capacity_of_the_operator),
           CASE(scores_are_the_products_of_what_is_stored),
           CASE(a_row_of_scores_has_the_same_bits_alone), CASE(keys_may_be_packed_piece_by_piece),
           CASE(scores_of_extreme_rows_are_as_near_as_others),
           CASE(scores_of_what_is_not_finite_are_those_of_floats),
           CASE(values_are_sums_over_the_spans_and_nothing_else_is_read),
           CASE(columns_without_a_share_may_be_left_out), CASE(values_may_be_packed_piece_by_piece),
           CASE(values_that_are_not_finite_are_noticed_and_count_as_zero),
           CASE(extreme_values_and_shares_are_as_near_as_others),
           CASE(shares_that_are_not_finite_reach_their_row_alone),
           CASE(rows_are_divided_into_the_type_of_the_arrays))
#endif
