// SPDX-License-Identifier: MIT
// test_multi_head.c: compares the public multi-head layer with its formula in double.
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>
#include <qkv/layer.h>
#include <stdlib.h>

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and these bounds hold for float");
    return 77;
}
#else
#define U (FLT_EPSILON / 2)
enum { MOST = 4096 };

// A number, and the error bound of its computation in float.
struct near {
    double v, e;
};

// y[rows][N] = x w^T + b with the error bound of floats: |fl - exact| <= gamma_(2K+3) sum |x||w| +
// the error of x.
static void linear(struct near *y, const struct near *x, int64_t rows, int64_t K, int64_t N,
                   const float *w, const float *b)
{
    for (int64_t r = 0; r < rows; r++)
        for (int64_t n = 0; n < N; n++) {
            double v = b ? b[n] : 0, size = fabs(v), e = 0;
            for (int64_t k = 0; k < K; k++) {
                const struct near a = x[r * K + k];
                v += a.v * (double)w[n * K + k];
                size += (fabs(a.v) + a.e) * fabs((double)w[n * K + k]);
                e += a.e * fabs((double)w[n * K + k]);
            }
            y[r * N + n] = (struct near){ v, e + (double)(2 * K + 3) * U * size };
        }
}

struct problem {
    struct qkv_multi_head m;
    struct qkv_attention a;
    float *x, *c;
};

static struct near score(const struct problem *p, const struct near *q, const struct near *k,
                         int64_t h)
{
    const struct qkv_multi_head *m = &p->m;
    double v = 0, size = 0, e = 0;
    if (m->score == QKV_SCORE_ADDITIVE) {
        struct near u[64], t[64];
        linear(u, q, 1, m->d_k, m->d_a, m->w_aq + h * m->d_a * m->d_k, NULL);
        linear(t, k, 1, m->d_k, m->d_a, m->w_ak + h * m->d_a * m->d_k, NULL);
        // tanh: derivative at most 1, 4 ulp, and the error of its argument
        for (int64_t i = 0; i < m->d_a; i++) {
            const double w = m->w_a[h * m->d_a + i], y = tanh(u[i].v + t[i].v);
            v += w * y;
            size += fabs(w);
            e += fabs(w) * (u[i].e + t[i].e + U * fabs(u[i].v + t[i].v) + 8 * U);
        }
        return (struct near){ v, e + (double)(2 * m->d_a + 2) * U * size };
    }
    struct near turned[64];
    if (m->score == QKV_SCORE_BILINEAR) {
        float w[64 * 64] = { 0 };
        for (int64_t i = 0; i < m->d_k; i++)
            for (int64_t j = 0; j < m->d_k; j++)
                w[j * m->d_k + i] = m->w_s[(h * m->d_k + i) * m->d_k + j];
        linear(turned, q, 1, m->d_k, m->d_k, w, NULL);
        q = turned;
    }
    for (int64_t i = 0; i < m->d_k; i++) {
        v += q[i].v * k[i].v;
        size += (fabs(q[i].v) + q[i].e) * (fabs(k[i].v) + k[i].e);
        e += q[i].e * fabs(k[i].v) + k[i].e * fabs(q[i].v) + q[i].e * k[i].e;
    }
    return (struct near){ v, e + (double)(2 * m->d_k + 2) * U * size };
}

static bool sees(const struct qkv_attention *a, int64_t b, int64_t t, int64_t s)
{
    return !(a->causal && s > t) && !(a->k_lengths && s >= a->k_lengths[b]) &&
           !(a->mask.at && !a->mask.at[b * a->mask.b + t * a->mask.t + s]);
}

// Computes heads[t][h][F] of batch item b.
static void reference(struct near *heads, const struct problem *p, int64_t b)
{
    static struct near x[MOST], c[MOST], q[MOST], k[MOST], v[MOST];
    const struct qkv_multi_head *m = &p->m;
    const struct qkv_attention *a = &p->a;
    const int64_t T = a->T, S = a->S, H = m->H, G = m->G ? m->G : H,
                  dkv = m->d_kv ? m->d_kv : m->d_q;
    for (int64_t i = 0; i < T * m->d_q; i++) x[i] = (struct near){ p->x[b * T * m->d_q + i], 0 };
    const float *context = p->c ? p->c : p->x;
    for (int64_t i = 0; i < S * dkv; i++) c[i] = (struct near){ context[b * S * dkv + i], 0 };
    if (m->w_q)
        linear(q, x, T, m->d_q, H * m->d_k, m->w_q, m->b_q);
    else
        memcpy(q, x, sizeof q);
    if (m->w_k)
        linear(k, c, S, dkv, G * m->d_k, m->w_k, m->b_k);
    else
        memcpy(k, c, sizeof k);
    if (m->w_v)
        linear(v, c, S, dkv, G * m->d_v, m->w_v, m->b_v);
    else
        memcpy(v, c, sizeof v);
    const double scale = a->scale != 0               ? (double)a->scale
                         : m->score == QKV_SCORE_DOT ? 1 / sqrt((double)m->d_k)
                                                     : 1;
    for (int64_t t = 0; t < T; t++)
        for (int64_t h = 0; h < H; h++) {
            struct near s[64];
            double top = -INFINITY, sum = 0, off = 0;
            const int64_t g = h / (H / G);
            for (int64_t j = 0; j < S; j++) {
                if (!sees(a, b, t, j)) continue;
                s[j] = score(p, q + (t * H + h) * m->d_k, k + (j * G + g) * m->d_k, h);
                s[j].e = (s[j].e + 4 * U * fabs(s[j].v)) * scale;
                s[j].v *= scale;
                top = fmax(top, s[j].v);
                off = fmax(off, s[j].e);
            }
            for (int64_t j = 0; j < S; j++)
                if (sees(a, b, t, j)) sum += exp(s[j].v - top);
            // Error of a weight: numerator and sum change by at most a factor e^off; the
            // exponentials, their sum and its merges have S + 16 roundings; the exponent itself has
            // an error of up to |s - top| ulp.
            for (int64_t f = 0; f < m->d_v; f++) {
                double value = 0, e = 0;
                for (int64_t j = 0; j < S; j++) {
                    if (!sees(a, b, t, j)) continue;
                    const double w = exp(s[j].v - top) / sum;
                    const double rel =
                        expm1(2 * off) +
                        U * ((double)S + 16 + 4 * fabs(s[j].v - top) + 4 * fabs(top));
                    const struct near vj = v[(j * G + g) * m->d_v + f];
                    value += w * vj.v;
                    e += w * (vj.e + (fabs(vj.v) + vj.e) * (rel + 2 * (double)S * U));
                }
                heads[(t * H + h) * m->d_v + f] = (struct near){ value, e };
            }
        }
}

static void run(float *out, const struct problem *p, const struct qkv_multi_head_keep *keep)
{
    const struct qkv_attention_plan plan = qkv_multi_head_plan(&p->m, &p->a);
    const size_t bytes = plan.scratch;
    CHECK_EQ(plan.status, QKV_OK);
    void *scratch = qkv_alloc(bytes, 1);
    memset(scratch, 0xff, bytes); // NaN, to detect reads before the first write
    CHECK_EQ(qkv_multi_head_forward(out, keep, p->x, p->c, &p->m, &p->a, scratch), QKV_OK);
    qkv_free(scratch);
}

static float *weights(int64_t n, double size)
{
    float *w = fenced_random(n);
    for (int64_t i = 0; i < n; i++) w[i] *= (float)size;
    return w;
}

// Draws projections, weights of the scores and inputs for the sizes in p.
static void fill(struct problem *p, bool cross)
{
    struct qkv_multi_head *m = &p->m;
    const int64_t G = m->G ? m->G : m->H, dkv = m->d_kv ? m->d_kv : m->d_q;
    p->x = fenced_random(p->a.B * p->a.T * m->d_q);
    p->c = cross ? fenced_random(p->a.B * p->a.S * dkv) : NULL;
    const double small = 1 / sqrt((double)m->d_q), inner = 1 / sqrt((double)m->d_k);
    m->w_q = weights(m->H * m->d_k * m->d_q, small);
    m->w_k = weights(G * m->d_k * dkv, small);
    m->w_v = weights(G * m->d_v * dkv, small);
    m->b_q = weights(m->H * m->d_k, 0.1);
    m->b_v = weights(G * m->d_v, 0.1);
    if (m->d_out)
        m->w_o = weights(m->d_out * m->H * m->d_v, small), m->b_o = weights(m->d_out, 0.1);
    m->w_s = weights(m->H * m->d_k * m->d_k, inner);
    m->w_aq = weights(m->H * m->d_a * m->d_k, inner);
    m->w_ak = weights(m->H * m->d_a * m->d_k, inner);
    m->w_a = weights(m->H * m->d_a, 1);
}

static void check_against_formula(const struct problem *p)
{
    static struct near heads[MOST], want[MOST];
    const struct qkv_multi_head *m = &p->m;
    const int64_t width = m->w_o ? m->d_out : m->H * m->d_v, n = p->a.T * width;
    float *out = fenced((size_t)(p->a.B * n) * sizeof *out);
    run(out, p, NULL);
    for (int64_t b = 0; b < p->a.B; b++) {
        reference(heads, p, b);
        if (m->w_o)
            linear(want, heads, p->a.T, m->H * m->d_v, m->d_out, m->w_o, m->b_o);
        else
            memcpy(want, heads, sizeof want);
        for (int64_t i = 0; i < n; i++)
            CHECK_NEAR((double)out[b * n + i], want[i].v, want[i].e + 1e-37);
    }
}

static const enum qkv_score scores[] = { QKV_SCORE_DOT, QKV_SCORE_BILINEAR, QKV_SCORE_ADDITIVE };

// x(5,10), W_q and W_k (20,10), W_v (25,10): out (5,25).
TEST(one_head_of_the_notes_gives_5_by_25)
{
    EACH_ISA(k) EACH(score, scores)
    {
        struct problem p = {
            .m = { .H = 1, .d_q = 10, .d_k = 20, .d_v = 25, .d_a = 7, .score = *score },
            .a = { .B = 1, .T = 5, .S = 5 }
        };
        fill(&p, false);
        check_against_formula(&p);
        fence_free();
    }
}

TEST(every_score_follows_its_formula_with_every_mask_and_sharing_of_heads)
{
    static const int64_t groups[] = { 1, 2, 4 };
    static const int64_t lengths[] = { 3, 11 };
    uint8_t mask[2 * 9 * 13];
    for (size_t i = 0; i < sizeof mask; i++) mask[i] = check_random() > -0.3;
    for (int i = 0; i < 13; i++) mask[4 * 13 + i] = 0; // query 4 of item 0 sees no key
    EACH_ISA(k) EACH(score, scores) EACH(G, groups)
    {
        for (int masks = 0; masks < 8; masks++) {
            struct problem p = { .m = { .H = 4,
                                        .G = *G,
                                        .d_q = 11,
                                        .d_kv = 6,
                                        .d_k = 5,
                                        .d_v = 3,
                                        .d_out = 8,
                                        .d_a = 9,
                                        .score = *score },
                                 .a = { .B = 2, .T = 9, .S = 13, .scale = masks & 1 ? 0.5f : 0 } };
            p.a.causal = masks & 1;
            if (masks & 2) p.a.k_lengths = lengths;
            if (masks & 4) p.a.mask.at = mask, p.a.mask.b = 9 * 13, p.a.mask.t = 13;
            fill(&p, true);
            check_against_formula(&p);
            fence_free();
        }
    }
}

TEST(what_is_masked_is_not_read_and_a_row_without_keys_is_the_bias)
{
    static const int64_t lengths[] = { 4, 0 };
    EACH_ISA(k) EACH(score, scores)
    {
        struct problem p = { .m = { .H = 2,
                                    .G = 1,
                                    .d_q = 6,
                                    .d_k = 5,
                                    .d_v = 3,
                                    .d_out = 4,
                                    .d_a = 3,
                                    .score = *score },
                             .a = { .B = 2, .T = 9, .S = 9, .k_lengths = lengths } };
        fill(&p, true);
        float clean[2 * 9 * 4], out[2 * 9 * 4], lse[2 * 2 * 9];
        run(clean, &p, NULL);
        for (int64_t i = 0; i < 2 * 9; i++)
            for (int f = 0; f < 6; f++)
                if (i % 9 >= lengths[i / 9]) p.c[i * 6 + f] = i % 2 ? NAN : INFINITY;
        run(out, &p, &(struct qkv_multi_head_keep){ .lse = lse });
        CHECK_BITS(out, clean, sizeof out);
        for (int t = 0; t < 9; t++) CHECK_BITS(out + (9 + t) * 4, p.m.b_o, 4 * sizeof *out);
        for (int i = 0; i < 18; i++) CHECK(isfinite(lse[i]) && lse[18 + i] == -INFINITY);
        fence_free();
    }
}

TEST(what_is_kept_makes_the_output_again)
{
    EACH_ISA(k) EACH(score, scores)
    {
        enum { B = 2, T = 7, S = 10, H = 4, G = 2, E = 5, F = 3 };
        struct problem p = { .m = { .H = H,
                                    .G = G,
                                    .d_q = 6,
                                    .d_k = E,
                                    .d_v = F,
                                    .d_out = 4,
                                    .d_a = 3,
                                    .score = *score },
                             .a = { .B = B, .T = T, .S = S } };
        fill(&p, true);
        static float plain[B * T * 4], out[B * T * 4], q[B * T * H * E], key[B * S * G * E],
            v[B * S * G * F];
        static float heads[B * T * H * F], lse[B * H * T], w[B * H * T * S], again[B * T * 4];
        run(plain, &p, NULL);
        run(out, &p, &(struct qkv_multi_head_keep){ q, key, v, heads, lse, w });
        CHECK_BITS(out, plain, sizeof out);
        for (int b = 0; b < B; b++)
            for (int h = 0; h < H; h++)
                for (int t = 0; t < T; t++) {
                    const float *row = w + ((b * H + h) * T + t) * S;
                    double sum = 0;
                    for (int s = 0; s < S; s++) sum += (double)row[s];
                    CHECK_NEAR(sum, 1, (S + 16) * FLT_EPSILON);
                    for (int f = 0; f < F; f++) {
                        double value = 0, size = 0;
                        for (int s = 0; s < S; s++) {
                            const double part =
                                (double)row[s] * (double)v[((b * S + s) * G + h / 2) * F + f];
                            value += part;
                            size += fabs(part);
                        }
                        CHECK_NEAR((double)heads[((b * T + t) * H + h) * F + f], value,
                                   (2 * S + 32) * U * size);
                    }
                }
        CHECK_EQ(qkv_linear(again, heads, p.m.w_o, p.m.b_o, B * T, H * F, 4), QKV_OK);
        CHECK_BITS(again, out, sizeof out);
        fence_free();
    }
}

static const qkv_precision precisions[] = { QKV_PRECISION_F32, QKV_PRECISION_F32_FAST,
                                            QKV_PRECISION_BF16, QKV_PRECISION_F16,
                                            QKV_PRECISION_INT8 };
static qkv_dtype stored(qkv_precision p)
{
    return p == QKV_PRECISION_BF16 ? QKV_BF16 : p == QKV_PRECISION_F16 ? QKV_F16 : QKV_F32;
}
// Computes y[rows][N] of type `to` from x[rows][K] of type `from`, with weights packed for this
// product only.
static void product(void *y, qkv_dtype to, int64_t ldy, const void *x, qkv_dtype from, int64_t ldx,
                    int64_t rows, int64_t K, int64_t N, const float *w, const float *b,
                    qkv_precision precision)
{
    qkv_packed *packed;
    CHECK_EQ(qkv_packed_open(&packed, w, b, K, N, precision), QKV_OK);
    const struct qkv_packed_call call = { .x = from, .y = to, .x_stride = ldx, .y_stride = ldy };
    CHECK_EQ(qkv_packed_linear(y, x, rows, packed, &call), QKV_OK);
    qkv_packed_close(packed);
}
static float widened(const void *x, int64_t i, qkv_dtype type)
{
    if (type == QKV_F32) return ((const float *)x)[i];
    const uint16_t half = ((const uint16_t *)x)[i];
    return type == QKV_BF16 ? qkv_bf16_to_f32(half) : qkv_f16_to_f32(half);
}

// Runs the steps of the layer one by one, each of which has its own tests: packed products,
// attention, a packed product.
TEST(in_every_precision_the_layer_is_its_products_and_the_operator)
{
    enum { B = 2, T = 7, S = 10, H = 4, G = 2, DQ = 6, E = 5, F = 3, DO = 4 };
    EACH_ISA(isa) EACH(precision, precisions) for (int bilinear = 0; bilinear < 2; bilinear++)
    {
        const qkv_dtype type = stored(*precision);
        struct problem p = { .m = { .H = H,
                                    .G = G,
                                    .d_q = DQ,
                                    .d_k = E,
                                    .d_v = F,
                                    .d_out = DO,
                                    .score = bilinear ? QKV_SCORE_BILINEAR : QKV_SCORE_DOT },
                             .a = { .B = B, .T = T, .S = S, .precision = *precision } };
        fill(&p, true);
        float out[B * T * DO], plain[B * T * DO], want[B * T * DO];
        float keep_q[B * T * H * E], keep_k[B * S * G * E], keep_v[B * S * G * F],
            keep_heads[B * T * H * F];
        double q[B * T * H * E], turned[B * T * H * E], k[B * S * G * E], v[B * S * G * F],
            heads[B * T * H * F]; // arrays of double have space for any type
        run(plain, &p, NULL);
        run(out, &p,
            &(struct qkv_multi_head_keep){ keep_q, keep_k, keep_v, keep_heads, NULL, NULL });
        CHECK_BITS(out, plain, sizeof out);
        const struct qkv_multi_head *m = &p.m;
        product(q, type, H * E, p.x, QKV_F32, DQ, B * T, DQ, H * E, m->w_q, m->b_q, *precision);
        product(k, type, G * E, p.c, QKV_F32, DQ, B * S, DQ, G * E, m->w_k, m->b_k, *precision);
        product(v, type, G * F, p.c, QKV_F32, DQ, B * S, DQ, G * F, m->w_v, m->b_v, *precision);
        for (int h = 0; bilinear && h < H; h++) {
            float w[E * E]; // transposed, because a product reads [out][in]
            const size_t at = (size_t)(h * E) * qkv_dtype_size(type);
            for (int i = 0; i < E; i++)
                for (int j = 0; j < E; j++) w[j * E + i] = m->w_s[(h * E + i) * E + j];
            product((char *)turned + at, type, H * E, (char *)q + at, type, H * E, B * T, E, E, w,
                    NULL, *precision);
        }
        const struct qkv_attention a = { .B = B,
                                         .T = T,
                                         .S = S,
                                         .H = H,
                                         .G = G,
                                         .E = E,
                                         .F = F,
                                         .scale = bilinear ? 1 : 0,
                                         .precision = *precision };
        void *scratch = qkv_alloc(qkv_attention_plan(&a).scratch, 1);
        CHECK_EQ(qkv_attention_forward(heads, NULL, NULL, bilinear ? turned : q, k, v, &a, scratch),
                 QKV_OK);
        qkv_free(scratch);
        product(want, QKV_F32, DO, heads, type, H * F, B * T, H * F, DO, m->w_o, m->b_o,
                *precision);
        CHECK_BITS(out, want, sizeof out);
        for (int i = 0; i < B * T * H * E; i++) CHECK(keep_q[i] == widened(q, i, type));
        for (int i = 0; i < B * S * G * E; i++) CHECK(keep_k[i] == widened(k, i, type));
        for (int i = 0; i < B * S * G * F; i++) CHECK(keep_v[i] == widened(v, i, type));
        for (int i = 0; i < B * T * H * F; i++) CHECK(keep_heads[i] == widened(heads, i, type));

        // Without weights the inputs are rounded to the type, and the heads are the output.
        p.m = (struct qkv_multi_head){ .H = 2, .d_q = DQ, .d_k = 3, .d_v = 3 };
        p.a.T = p.a.S = T;
        p.c = NULL;
        float bare[B * T * DQ];
        run(bare, &p, NULL);
        for (int i = 0; i < B * T * DQ; i++) {
            if (type == QKV_BF16) ((uint16_t *)q)[i] = qkv_f32_to_bf16(p.x[i]);
            if (type == QKV_F16) ((uint16_t *)q)[i] = qkv_f32_to_f16(p.x[i]);
            if (type == QKV_F32) ((float *)q)[i] = p.x[i];
        }
        const struct qkv_attention self = {
            .B = B, .T = T, .S = T, .H = 2, .E = 3, .precision = *precision
        };
        scratch = qkv_alloc(qkv_attention_plan(&self).scratch, 1);
        CHECK_EQ(qkv_attention_forward(heads, NULL, NULL, q, q, q, &self, scratch), QKV_OK);
        qkv_free(scratch);
        for (int i = 0; i < B * T * DQ; i++) CHECK(bare[i] == widened(heads, i, type));
        fence_free();
    }
}

TEST(additive_scores_are_refused_where_they_are_not_computed)
{
    struct problem p = {
        .m = { .H = 2, .d_q = 6, .d_k = 3, .d_v = 3, .d_a = 4, .score = QKV_SCORE_ADDITIVE },
        .a = { .B = 1, .T = 3, .S = 3 }
    };
    fill(&p, false);
    const qkv_precision refused[] = { QKV_PRECISION_BF16, QKV_PRECISION_F16, QKV_PRECISION_INT8 };
    EACH(precision, refused)
    {
        p.a.precision = *precision;
        const struct qkv_attention_plan plan = qkv_multi_head_plan(&p.m, &p.a);
        CHECK_EQ(plan.status, QKV_ERR_UNSUPPORTED);
        CHECK(strstr(plan.reason, "additive") &&
              strstr(plan.reason, qkv_precision_name(*precision)));
    }
    p.a.precision = (qkv_precision)99;
    CHECK_EQ(qkv_multi_head_plan(&p.m, &p.a).status, QKV_ERR_USAGE);
    fence_free();
}

// Without w_q, w_k, w_v, w_o the layer is only attention.
TEST(without_projections_the_inputs_are_query_key_and_value)
{
    EACH_ISA(k)
    {
        enum { T = 6, S = 8, H = 2, E = 5 };
        const struct qkv_multi_head m = { .H = H, .d_q = H * E, .d_k = E, .d_v = E };
        struct problem p = {
            m, { .B = 1, .T = T, .S = S }, fenced_random(T * H * E), fenced_random(S * H * E)
        };
        struct qkv_attention a = p.a;
        float out[T * H * E], want[T * H * E], q[T * H * E], heads[T * H * E];
        run(out, &p, &(struct qkv_multi_head_keep){ .q = q, .heads = heads });
        a.H = H;
        a.E = E;
        void *scratch = qkv_alloc(qkv_attention_plan(&a).scratch, 1);
        CHECK_EQ(qkv_attention_forward(want, NULL, NULL, p.x, p.c, p.c, &a, scratch), QKV_OK);
        CHECK_BITS(out, want, sizeof out);
        CHECK_BITS(heads, out, sizeof out);
        CHECK_BITS(q, p.x, sizeof q);
        qkv_free(scratch);
        fence_free();
    }
}

TEST(packed_sequences_equal_each_alone_and_threads_change_no_bit)
{
    static const int64_t offsets[] = { 0, 5, 5, 12, 40 };
    EACH(score, scores)
    {
        struct problem p = {
            .m = { .H = 3,
                   .G = 1,
                   .d_q = 12,
                   .d_k = 9,
                   .d_v = 7,
                   .d_out = 10,
                   .d_a = 11,
                   .score = *score },
            .a = { .B = 1, .T = 40, .S = 40, .sequences = 4, .q_offsets = offsets, .causal = true }
        };
        fill(&p, false);
        float all[40 * 10], other[40 * 10], one[40 * 10];
        CHECK_EQ(qkv_threads_set(1), QKV_OK);
        run(all, &p, NULL);
        for (int threads = 2; threads <= 8; threads++) {
            CHECK_EQ(qkv_threads_set(threads), QKV_OK);
            run(other, &p, NULL);
            CHECK_BITS(other, all, sizeof all);
        }
        CHECK_EQ(qkv_threads_set(0), QKV_OK);
        for (int i = 0; i < 4; i++) {
            const int64_t n = offsets[i + 1] - offsets[i];
            struct problem alone = p;
            alone.a = (struct qkv_attention){ .B = 1, .T = n, .S = n, .causal = true };
            alone.x = p.x + offsets[i] * 12;
            run(one, &alone, NULL);
            CHECK_BITS(one, all + offsets[i] * 10, (size_t)(n * 10) * sizeof *one);
        }
        fence_free();
    }
}

TEST(widths_that_do_not_fit_are_refused_before_anything_is_written)
{
    const float w = 0;
    float out = 3, x[8] = { 0 };
    _Alignas(64) char scratch[64];
    const struct qkv_multi_head good = { .H = 2, .d_q = 8, .d_k = 4, .d_v = 4, .d_a = 3 };
    struct qkv_multi_head bad[10];
    for (int i = 0; i < 10; i++) bad[i] = good;
    bad[0].H = 0;
    bad[1].G = 3;
    bad[2].d_k = -1;
    bad[3].d_q = 9;                    // invalid: no w_q, and d_q is not H * d_k
    bad[4].score = QKV_SCORE_BILINEAR; // invalid: without w_s
    bad[5].score = QKV_SCORE_ADDITIVE; // invalid: without w_aq, w_ak and w_a
    bad[6].w_o = &w;                   // invalid: without d_out
    bad[7].score = (enum qkv_score)9;
    bad[8].d_v = 5;  // invalid: no w_v, and d_kv is not G * d_v
    bad[9].d_kv = 4; // invalid: no w_k, and d_kv is not G * d_k
    const struct qkv_attention a = { .B = 1, .T = 1, .S = 1 };
    EACH(m, bad)
    {
        const struct qkv_attention_plan p = qkv_multi_head_plan(m, &a);
        CHECK_EQ(p.status, QKV_ERR_USAGE);
        CHECK_EQ(p.scratch, 0);
        CHECK(p.reason[0]);
        CHECK_EQ(qkv_multi_head_forward(&out, NULL, x, NULL, m, &a, scratch), QKV_ERR_USAGE);
    }
    struct qkv_multi_head huge = good;
    huge.d_q = INT64_MAX;
    CHECK_EQ(qkv_multi_head_plan(&huge, &a).status, QKV_ERR_LIMIT);
    struct qkv_multi_head additive = bad[5];
    additive.w_aq = additive.w_ak = additive.w_a = &w;
    const struct qkv_attention endless = { .B = 1, .T = 1, .S = INT64_MAX };
    CHECK_EQ(qkv_multi_head_plan(&additive, &endless).status, QKV_ERR_LIMIT);
    // S differs from T, but there is no context
    const struct qkv_attention cross = { .B = 1, .T = 1, .S = 2 };
    void *enough = qkv_alloc(qkv_multi_head_plan(&good, &cross).scratch, 1);
    CHECK_EQ(qkv_multi_head_forward(&out, NULL, x, NULL, &good, &cross, enough), QKV_ERR_USAGE);
    CHECK_EQ(qkv_multi_head_forward(&out, NULL, x, x, &good, &a, scratch + 4), QKV_ERR_USAGE);
    CHECK(out == 3);
    qkv_free(enough);
}

CHECK_MAIN(CASE(one_head_of_the_notes_gives_5_by_25),
           CASE(every_score_follows_its_formula_with_every_mask_and_sharing_of_heads),
           CASE(what_is_masked_is_not_read_and_a_row_without_keys_is_the_bias),
           CASE(what_is_kept_makes_the_output_again),
           CASE(in_every_precision_the_layer_is_its_products_and_the_operator),
           CASE(additive_scores_are_refused_where_they_are_not_computed),
           CASE(without_projections_the_inputs_are_query_key_and_value),
           CASE(packed_sequences_equal_each_alone_and_threads_change_no_bit),
           CASE(widths_that_do_not_fit_are_refused_before_anything_is_written))
#endif
