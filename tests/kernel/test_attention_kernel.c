// SPDX-License-Identifier: MIT
// test_attention_kernel.c: compares the attention kernels of each ISA with the scalar law; arrays
// are between guard pages.
//
// Each family has its own layouts, so products are compared by the results of packing and product
// together. The family is the one with float products, whose rows of q are read without packing;
// test_attention_families tests the contract of every family in every precision.
#include "check.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
#define UNIT 0x1p-53
#else
#define UNIT 0x1p-24
#endif
enum { ROWS = 6, STRICT = QKV_PRECISION_F32_STRICT }; // ROWS: most rows of a tile of that family

static const int64_t widths[] = { 1, 3, 8, 15, 16, 17, 20, 25, 33, 64, 67, 130 };
static const int32_t counts[] = { 1, 2, 7, 8, 15, 16, 17, 33, 63, 64, 65, 100, QKV_CHUNK };

static real *reals(int64_t n)
{
    real *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(float)check_gauss();
    return x;
}
static const struct qkv_attention_kernels *law(void)
{
    return qkv_kernel_isa(0)->attention[STRICT];
}
static int32_t up(int32_t n, int lanes)
{
    return (n + lanes - 1) / lanes * lanes;
}

TEST(scores_are_the_products_for_every_shape_of_tile)
{
    EACH_ISA(isa) EACH(E, widths) EACH(n, counts)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        const int64_t ldk = *E + 3;
        real *keys = reals(*n * ldk - 3), *s = reals(ROWS * QKV_CHUNK);
        real *packed = fenced((size_t)(up(*n, k->keys) * *E) * sizeof *packed);
        const void *q[ROWS];
        for (int i = 0; i < ROWS; i++) q[i] = reals(*E);
        k->pack_keys(packed, keys, ldk, 0, *n, *E);
        for (int rows = 1; rows <= k->rows; rows++) {
            for (int i = 0; i < ROWS * QKV_CHUNK; i++) s[i] = 7;
            const int32_t from = *n > 40 ? up(20, k->lanes) : 0, to = up(*n, k->lanes);
            k->scores(s, q, rows, packed, *E, (struct qkv_columns){ from, to });
            for (int i = 0; i < ROWS; i++)
                for (int32_t j = 0; j < QKV_CHUNK; j++) {
                    double want = 0, size = 0;
                    for (int64_t e = 0; e < *E && j < *n; e++) {
                        want += (double)((const real *)q[i])[e] * (double)keys[j * ldk + e];
                        size += fabs((double)((const real *)q[i])[e] * (double)keys[j * ldk + e]);
                    }
                    if (i >= rows || j < from || j >= to)
                        CHECK(s[i * QKV_CHUNK + j] == 7);
                    else
                        CHECK_NEAR(s[i * QKV_CHUNK + j], want, (double)(*E + 1) * UNIT * size);
                }
        }
        fence_free();
    }
}

#ifndef QKV_DOUBLE
static float flushed(float x)
{
    return fabsf(x) < 0x1p-126f ? 0 : x;
}
// Computes a chain of bf16 pairs, docs/numerics.md, "Pairs of bf16": the second product of a pair
// is added first, each with a fused multiply-add.
static float chain_of_pairs(const uint16_t *q, const uint16_t *k, int64_t E)
{
    float sum = 0;
    for (int64_t e = 0; e < E; e += 2)
        for (int64_t i = e + 1 < E ? e + 1 : e; i >= e; i--)
            sum =
                flushed(fmaf(flushed(qkv_bf16_to_f32(q[i])), flushed(qkv_bf16_to_f32(k[i])), sum));
    return sum;
}

TEST(pairs_are_added_as_the_documents_say)
{
    EACH_ISA(isa) EACH(E, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[QKV_PRECISION_BF16];
        if (strcmp(k->arithmetic, "bf16 pairs") != 0) continue;
        enum { N = 70 };
        uint16_t *q = fenced((size_t)*E * sizeof *q), *keys = fenced((size_t)(N * *E) * sizeof *q);
        for (int64_t i = 0; i < *E; i++) q[i] = qkv_f32_to_bf16((float)check_gauss());
        for (int64_t i = 0; i < N * *E; i++)
            keys[i] = qkv_f32_to_bf16((float)(check_gauss() * (i % 7 ? 1 : 0x1p-127)));
        void *row = fenced(k->query_bytes(*E)),
             *packed = fenced((size_t)up(N, k->keys) * k->key_bytes(*E));
        real s[QKV_CHUNK];
        k->pack_query(row, q, *E);
        k->pack_keys(packed, keys, *E, 0, N, *E);
        k->scores(s, (const void *const[]){ row }, 1, packed, *E,
                  (struct qkv_columns){ 0, up(N, k->lanes) });
        for (int j = 0; j < N; j++) {
            const real want = chain_of_pairs(q, keys + j * *E, *E);
            CHECK_BITS(s + j, &want, sizeof want);
        }
        fence_free();
    }
}

// Kernels that convert numbers must say so ("bf16 as float"), so that no plan claims native
// products.
TEST(what_is_converted_says_so_and_from_what)
{
    EACH_ISA(isa) for (int p = 0; p < QKV_PRECISIONS; p++)
    {
        const struct qkv_attention_kernels *k = isa->attention[p];
        CHECK_EQ(k->type, qkv_stored_type((qkv_precision)p));
        char converted[32];
        snprintf(converted, sizeof converted, "%s as float", qkv_precision_name((qkv_precision)p));
        CHECK_EQ(strcmp(k->arithmetic, converted) == 0, !k->native);
        CHECK_EQ(strstr(k->arithmetic, " as float") != NULL, !k->native);
    }
}

// Kernels that convert bf16 and f16 compute the chains of the float kernel on the same numbers
// (docs/numerics.md, "The bound in each precision"), in every tile and in the order of the columns.
TEST(numbers_that_are_converted_have_the_bits_of_floats)
{
    static const qkv_precision halves[] = { QKV_PRECISION_BF16, QKV_PRECISION_F16 };
    EACH_ISA(isa) EACH(E, widths) EACH(p, halves)
    {
        const struct qkv_attention_kernels *h = isa->attention[*p], *k = isa->attention[STRICT];
        enum { N = 70, ROOM = 128 };
        if (h->native) continue;
        const int64_t width = k->width(*E);
        uint16_t *x = fenced((size_t)((ROWS + N) * *E) * sizeof *x);
        float *y = fenced((size_t)((ROWS + N) * *E) * sizeof *y), *s = reals(ROWS * QKV_CHUNK),
              *t = reals(ROWS * QKV_CHUNK), *o[2] = { reals(ROWS * width), reals(ROWS * width) };
        for (int64_t i = 0; i < (ROWS + N) * *E; i++) {
            const float v = (float)check_gauss();
            const bool f16 = *p == QKV_PRECISION_F16;
            x[i] = f16 ? qkv_f32_to_f16(v) : qkv_f32_to_bf16(v);
            y[i] = f16 ? qkv_f16_to_f32(x[i]) : qkv_bf16_to_f32(x[i]);
        }
        char *keys[] = { fenced(ROOM * h->key_bytes(*E)), fenced(ROOM * k->key_bytes(*E)) };
        char *values[] = { fenced(ROOM * h->value_bytes(*E)), fenced(ROOM * k->value_bytes(*E)) };
        CHECK_EQ(h->width(*E), width);
        h->pack_keys(keys[0], x + ROWS * *E, *E, 0, N, *E);
        k->pack_keys(keys[1], y + ROWS * *E, *E, 0, N, *E);
        CHECK(h->pack_values(values[0], x + ROWS * *E, *E, 0, N, ROOM, *E));
        CHECK(k->pack_values(values[1], y + ROWS * *E, *E, 0, N, ROOM, *E));
        char *rows = fenced(ROWS * h->query_bytes(*E));
        const void *q[2][ROWS];
        for (int i = 0; i < ROWS; i++) {
            q[0][i] = rows + (size_t)i * h->query_bytes(*E);
            q[1][i] = y + i * *E;
            h->pack_query(rows + (size_t)i * h->query_bytes(*E), x + i * *E, *E);
        }
        // spans that begin and end inside a panel have tiles of fewer vectors
        for (int n = 1; n <= k->rows; n++)
            for (int32_t from = 0; from < 4 * k->lanes; from += k->lanes) {
                const struct qkv_columns span = { from, up(N, k->lanes) }, some = { from, N };
                const real now[ROWS] = { 1, 1, 1, 1, 1, 1 };
                h->scores(s, q[0], n, keys[0], *E, span);
                k->scores(t, q[1], n, keys[1], *E, span);
                h->values(o[0], NULL, now, t, n, values[0], ROOM, *E, &some, 1);
                k->values(o[1], NULL, now, t, n, values[1], ROOM, *E, &some, 1);
                for (int i = 0; i < n; i++) {
                    CHECK_BITS(s + i * QKV_CHUNK + from, t + i * QKV_CHUNK + from,
                               (size_t)(N - from) * sizeof *s);
                    CHECK_BITS(o[0] + i * width, o[1] + i * width, (size_t)*E * sizeof *s);
                }
            }
        fence_free();
    }
}

// Keys and values that are packed one by one give the same packed bytes as all at once.
TEST(what_is_appended_one_by_one_is_packed_as_all_at_once)
{
    EACH_ISA(isa) EACH(E, widths) for (int p = 0; p < QKV_PRECISIONS; p++)
    {
        const struct qkv_attention_kernels *k = isa->attention[p];
        enum { N = 37, ROOM = 64 };
        const size_t size = qkv_dtype_size(k->type), row = (size_t)*E * size;
        char *x = fenced(N * row);
        for (int64_t i = 0; i < N * *E; i++) {
            const float v = (float)check_gauss();
            const uint16_t half = p == QKV_PRECISION_F16 ? qkv_f32_to_f16(v) : qkv_f32_to_bf16(v);
            memcpy(x + (size_t)i * size, size == 4 ? (const void *)&v : &half, size);
        }
        const size_t key_bytes = ROOM * k->key_bytes(*E), value_bytes = ROOM * k->value_bytes(*E);
        char *keys[2], *values[2];
        for (int way = 0; way < 2; way++) {
            keys[way] = fenced(key_bytes);
            values[way] = fenced(value_bytes);
            memset(keys[way], 0, key_bytes);
            memset(values[way], 0, value_bytes);
        }
        k->pack_keys(keys[0], x, *E, 0, N, *E);
        CHECK(k->pack_values(values[0], x, *E, 0, N, ROOM, *E));
        for (int64_t j = 0, n = 1; j < N; j += n, n = 1 + j % 3) {
            if (n > N - j) n = N - j;
            k->pack_keys(keys[1], x + (size_t)j * row, *E, j, n, *E);
            CHECK(k->pack_values(values[1], x + (size_t)j * row, *E, j, n, ROOM, *E));
        }
        CHECK_BITS(keys[0], keys[1], key_bytes);
        CHECK_BITS(values[0], values[1], value_bytes);
        fence_free();
    }
}

// At the odd ends of a span, the other half of a pair contains NaN and must not be read.
TEST(columns_beside_a_span_are_not_read_by_pairs)
{
    EACH_ISA(isa) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[QKV_PRECISION_BF16];
        if (!k->native || k->lanes != 16 || strcmp(k->arithmetic, "bf16 pairs") != 0) continue;
        const int64_t width = k->width(*F);
        uint16_t *v = fenced((size_t)(9 * *F) * sizeof *v);
        for (int64_t i = 0; i < 9 * *F; i++) v[i] = qkv_f32_to_bf16((float)check_gauss());
        char *packed = fenced((size_t)QKV_CHUNK * k->value_bytes(*F));
        memset(packed, 0xff, (size_t)QKV_CHUNK * k->value_bytes(*F)); // fills the array with NaN
        CHECK(k->pack_values(packed, v, *F, 5, 9, QKV_CHUNK, *F));
        real s[QKV_CHUNK], *o = reals(width), now = 1, top, sum;
        for (int32_t j = 0; j < QKV_CHUNK; j++) s[j] = 0;
        const struct qkv_columns all = { 0, 16 }, span = { 5, 14 };
        const int32_t lo = 5, hi = 14;
        k->softmax(s, &top, &sum, 1, &all, 1, &lo, &hi, 1);
        CHECK_EQ(sum, 9);
        k->values(o, NULL, &now, s, 1, packed, QKV_CHUNK, *F, &span, 1);
        for (int64_t f = 0; f < *F; f++) {
            double want = 0, size = 0;
            for (int64_t j = 0; j < 9; j++) {
                const double x = (double)qkv_bf16_to_f32(v[j * *F + f]);
                want += x;
                size += fabs(x);
            }
            CHECK_NEAR(o[f], want, 12 * UNIT * size);
        }
        fence_free();
    }
}
#endif

TEST(values_are_added_in_order_whatever_the_tile)
{
    EACH_ISA(isa) EACH(F, widths) EACH(n, counts)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        const int64_t ldv = *F + 5, width = k->width(*F);
        real *v = reals(*n * ldv - 5), *s = reals(ROWS * QKV_CHUNK), *o = reals(ROWS * width),
             *one = reals(width);
        real *packed = fenced((size_t)(QKV_CHUNK * width) * sizeof *packed), old[ROWS], now[ROWS];
        for (int64_t i = 0; i < QKV_CHUNK * width; i++)
            packed[i] = NAN; // NaN, because other columns must not be read
        for (int i = 0; i < ROWS; i++) {
            old[i] = (real)0.5;
            now[i] = (real)0.75;
        }
        CHECK(k->pack_values(packed, v, ldv, 0, *n, QKV_CHUNK, *F));
        const struct qkv_columns spans[] = { { 0, *n / 3 }, { *n / 3 + (*n > 3), *n } };
        for (int rows = 1; rows <= k->rows; rows++) {
            // first call: o is written; second call: merged into o
            for (int again = 0; again < 2; again++)
                k->values(o, again ? old : NULL, now, s, rows, packed, QKV_CHUNK, *F, spans, 2);
            for (int i = 0; i < rows; i++) {
                for (int64_t f = 0; f < *F; f++) {
                    double want = 0, size = 0;
                    for (int p = 0; p < 2; p++)
                        for (int32_t j = spans[p].from; j < spans[p].to; j++) {
                            want += (double)s[i * QKV_CHUNK + j] * (double)v[j * ldv + f];
                            size += fabs((double)s[i * QKV_CHUNK + j] * (double)v[j * ldv + f]);
                        }
                    CHECK_NEAR(o[i * width + f], 1.125 * want,
                               (double)(*n + 4) * UNIT * 1.125 * size);
                }
                // one row alone is bit-identical to the same row in a tile
                for (int again = 0; again < 2; again++)
                    k->values(one, again ? old : NULL, now, s + i * QKV_CHUNK, 1, packed, QKV_CHUNK,
                              *F, spans, 2);
                CHECK_BITS(one, o + i * width, (size_t)*F * sizeof *o);
            }
        }
        fence_free();
    }
}

TEST(values_that_are_not_finite_are_noticed_and_packed_as_zero)
{
    const real bad[] = { (real)NAN, (real)INFINITY, -(real)INFINITY };
    EACH_ISA(isa) EACH(F, widths) EACH(x, bad)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        const int64_t n = 9, width = k->width(*F);
        real *v = reals(n * *F), *o = reals(width), now = 1;
        real *packed = fenced((size_t)(16 * width) * sizeof *packed);
        real s[QKV_CHUNK];
        for (int i = 0; i < QKV_CHUNK; i++) s[i] = 1;
        v[4 * *F + *F - 1] = *x;
        CHECK(!k->pack_values(packed, v, *F, 3, n, 16, *F));
        const struct qkv_columns span = { 3, 3 + (int32_t)n };
        k->values(o, NULL, &now, s, 1, packed, 16, *F, &span, 1);
        double want = 0;
        for (int64_t j = 0; j < n; j++) want += j == 4 ? 0 : (double)v[j * *F + *F - 1];
        CHECK_NEAR(o[*F - 1], want, 100 * UNIT);
        v[4 * *F + *F - 1] = 0;
        CHECK(k->pack_values(packed, v, *F, 3, n, 16, *F));
        fence_free();
    }
}

TEST(scores_are_shaped_as_the_law_has_it)
{
    EACH_ISA(isa) EACH(n, counts) for (int features = 0; features < 16; features++)
    {
        real *s = reals(QKV_CHUNK), *t = reals(QKV_CHUNK);
        float *bias = fenced_random(*n); // the bias ends with the last column, at a guard page
        uint8_t *mask = fenced((size_t)*n);
        for (int32_t j = 0; j < *n; j++) {
            mask[j] = (uint8_t)(j * 7 % 3);
            if (j % 5 == 2) bias[j] = -INFINITY;
        }
        memcpy(t, s, QKV_CHUNK * sizeof *s);
        const struct qkv_score_modifiers how = { .scale = (real)0.37,
                                                 .cap = features & 1 ? 2 : 0,
                                                 .bias = features & 2 ? bias : NULL,
                                                 .mask = features & 4 ? mask : NULL,
                                                 .slope = features & 8 ? (real)0.25 : 0,
                                                 .distance = *n / 2 + 1000,
                                                 .masked = features & 1 ? 0 : -(real)INFINITY };
        const int32_t lo = *n > 20 ? 5 : 0;
        isa->attention[STRICT]->modify(s, lo, *n, &how);
        law()->modify(t, lo, *n, &how);
        for (int32_t j = lo; j < *n; j++)
            if (isinf(t[j]))
                CHECK(s[j] == t[j]);
            else
                CHECK_NEAR(s[j], t[j], 12 * UNIT * (300 + fabs((double)t[j])));
        fence_free();
    }
}

TEST(softmax_of_a_chunk_is_that_of_the_law)
{
    EACH_ISA(isa) EACH(n, counts) for (int rows = 1; rows <= isa->attention[STRICT]->rows; rows++)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        real *s = reals(ROWS * QKV_CHUNK), *t = reals(ROWS * QKV_CHUNK), top[2][ROWS], sum[2][ROWS];
        int32_t lo[ROWS], hi[ROWS];
        for (int i = 0; i < rows; i++) {
            lo[i] = (int32_t)(i * 3 % *n);
            hi[i] = i == 4 ? lo[i] : *n - i > lo[i] ? *n - i : lo[i]; // row 4 sees no column
        }
        const struct qkv_columns spans[] = { { 0, up(*n / 2, k->lanes) },
                                             { up(*n / 2, k->lanes), up(*n, k->lanes) } };
        memcpy(t, s, ROWS * QKV_CHUNK * sizeof *s);
        k->softmax(s, top[0], sum[0], rows, spans, 2, lo, hi, (real)1.3);
        law()->softmax(t, top[1], sum[1], rows, spans, 2, lo, hi, (real)1.3);
        CHECK_BITS(top[0], top[1], (size_t)rows * sizeof(real));
        for (int i = 0; i < rows; i++) {
            CHECK_NEAR(sum[0][i], sum[1][i], (double)(*n + 30) * UNIT * (double)sum[1][i]);
            for (int32_t j = 0; j < spans[1].to; j++)
                CHECK_NEAR(s[i * QKV_CHUNK + j], t[i * QKV_CHUNK + j],
                           8 * UNIT * (double)t[i * QKV_CHUNK + j]);
            for (int32_t j = spans[1].to; j < QKV_CHUNK; j++)
                CHECK_BITS(s + i * QKV_CHUNK + j, t + i * QKV_CHUNK + j, sizeof *s);
        }
        k->clear(s, rows, spans, 2, lo, hi);
        for (int i = 0; i < rows; i++)
            for (int32_t j = 0; j < spans[1].to; j++)
                if (j < lo[i] || j >= hi[i]) CHECK(s[i * QKV_CHUNK + j] == 0);
        fence_free();
    }
}

TEST(softmaxes_merge_as_the_law_has_it)
{
    EACH_ISA(isa) for (int rows = 1; rows <= isa->attention[STRICT]->rows; rows++)
    {
        real *top = reals(rows), *sum = reals(rows), *top1 = reals(rows), *sum1 = reals(rows);
        real *old = reals(rows), *now = reals(rows), t[ROWS], u[ROWS], v[ROWS], w[ROWS];
        for (int i = 0; i < rows; i++) {
            if (i % 3 != 1) top[i] = -(real)INFINITY, sum[i] = 0;
            if (i % 3 == 2) top1[i] = -(real)INFINITY, sum1[i] = 0;
        }
        memcpy(t, top, (size_t)rows * sizeof *t);
        memcpy(u, sum, (size_t)rows * sizeof *t);
        isa->attention[STRICT]->merge(top, sum, old, now, top1, sum1, rows, 2);
        law()->merge(t, u, v, w, top1, sum1, rows, 2);
        for (int i = 0; i < rows; i++) {
            CHECK(top[i] == t[i]);
            CHECK_NEAR(old[i], v[i], 4 * UNIT);
            CHECK_NEAR(now[i], w[i], 4 * UNIT);
            CHECK_NEAR(sum[i], u[i], 12 * UNIT * (fabs((double)sum1[i]) + 4));
        }
        fence_free();
    }
}

TEST(sums_left_before_are_joined_with_the_bits_of_values)
{
    EACH_ISA(isa) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        const int64_t n = 21, width = k->width(*F);
        real *v = reals(n * *F), *s = reals(ROWS * QKV_CHUNK), *o = reals(ROWS * width),
             *o1 = reals(ROWS * width), *o2 = reals(ROWS * width), old[ROWS], now[ROWS], one[ROWS];
        real *packed = fenced((size_t)(QKV_CHUNK * width) * sizeof *packed);
        for (int i = 0; i < ROWS; i++) {
            old[i] = (real)fabs(check_gauss());
            now[i] = (real)fabs(check_gauss());
            one[i] = 1;
        }
        CHECK(k->pack_values(packed, v, *F, 0, n, QKV_CHUNK, *F));
        const struct qkv_columns span = { 0, (int32_t)n };
        for (int rows = 1; rows <= k->rows; rows++)
            for (int again = 0; again < 2; again++) {
                k->values(o1, NULL, one, s, rows, packed, QKV_CHUNK, *F, &span, 1);
                memcpy(o2, o, (size_t)(ROWS * width) * sizeof *o);
                k->values(o, again ? old : NULL, now, s, rows, packed, QKV_CHUNK, *F, &span, 1);
                k->join(o2, again ? old : NULL, now, o1, rows, width);
                CHECK_BITS(o, o2, (size_t)(ROWS * width) * sizeof *o);
            }
        fence_free();
    }
}

TEST(rows_are_divided_and_weights_made)
{
    EACH_ISA(isa) EACH(F, widths)
    {
        const struct qkv_attention_kernels *k = isa->attention[STRICT];
        real *o = reals(k->width(*F)), *out = reals(*F), *w = reals(*F), *x = reals(*F);
        o[0] = -(real)0.0;
        k->divide(out, o, 3, *F);
        for (int64_t f = 0; f < *F; f++)
            CHECK_NEAR(out[f], (double)o[f] / 3, 2 * UNIT * fabs((double)o[f]));
        CHECK(!signbit(out[0]));
        k->divide(out, o, 0, *F);
        for (int64_t f = 0; f < *F; f++) CHECK(out[f] == 0);
        memcpy(w, x, (size_t)*F * sizeof *w);
        w[0] = -(real)INFINITY;
        k->weights(w, *F, (real)0.5, 4, 8);
        CHECK(w[0] == 0);
        for (int64_t f = 1; f < *F; f++) {
            const double want = exp2(0.5 * ((double)x[f] - 4)) / 8;
            CHECK_NEAR(w[f], want, 12 * UNIT * want);
        }
        k->weights(w, *F, 1, -(real)INFINITY, 0);
        for (int64_t f = 0; f < *F; f++) CHECK(w[f] == 0);
        fence_free();
    }
}

#ifndef QKV_DOUBLE
#define CASES_OF_HALVES                                                                            \
    CASE(pairs_are_added_as_the_documents_say), CASE(what_is_converted_says_so_and_from_what),     \
        CASE(numbers_that_are_converted_have_the_bits_of_floats),                                  \
        CASE(what_is_appended_one_by_one_is_packed_as_all_at_once),                                \
        CASE(columns_beside_a_span_are_not_read_by_pairs),
#else
#define CASES_OF_HALVES
#endif
CHECK_MAIN(CASES_OF_HALVES CASE(scores_are_the_products_for_every_shape_of_tile),
           CASE(values_are_added_in_order_whatever_the_tile),
           CASE(values_that_are_not_finite_are_noticed_and_packed_as_zero),
           CASE(scores_are_shaped_as_the_law_has_it), CASE(softmax_of_a_chunk_is_that_of_the_law),
           CASE(softmaxes_merge_as_the_law_has_it),
           CASE(sums_left_before_are_joined_with_the_bits_of_values),
           CASE(rows_are_divided_and_weights_made))
