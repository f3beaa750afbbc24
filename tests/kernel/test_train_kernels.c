// SPDX-License-Identifier: MIT
// test_train_kernels.c: compares the training kernels of every ISA with the law, in every type and
// at every width; arrays end at a guard page.
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>

#ifdef QKV_DOUBLE
int main(void)
{
    puts("skipped: this build computes in double, and these bounds hold for float");
    return 77;
}
#else
static const qkv_dtype types[] = { QKV_F32, QKV_BF16, QKV_F16 };
static const int64_t widths[] = { 1, 2, 7, 8, 9, 15, 16, 17, 31, 33, 64, 65, 130 };

// An array of a type, and its numbers as floats, rounded to the type.
struct typed {
    void *at;
    float *is;
    int64_t n;
    qkv_dtype type;
};
static struct typed typed(qkv_dtype type, int64_t n, double spread)
{
    struct typed t = { fenced((size_t)n * qkv_dtype_size(type)), fenced_random(n), n, type };
    for (int64_t i = 0; i < n; i++) t.is[i] *= (float)spread;
    CHECK(qkv_from_f32(t.at, type, t.is, n) && qkv_to_f32(t.is, t.at, type, n));
    return t;
}
static float typed_at(const struct typed *t, int64_t i)
{
    float x;
    CHECK(qkv_to_f32(&x, (char *)t->at + (size_t)i * qkv_dtype_size(t->type), t->type, 1));
    return x;
}
// Returns half the distance of adjacent numbers of a type at x.
static double rounding(qkv_dtype type, double x)
{
    const double unit = type == QKV_BF16 ? 0x1p-9 : type == QKV_F16 ? 0x1p-12 : 0x1p-25;
    return fabs(x) * 2 * unit + (type == QKV_F16 ? 0x1p-25 : 0x1p-140);
}
static const struct qkv_kernels *law(void)
{
    return qkv_kernel_isa(0);
}

// ---- activations -------------------------------------------------------------------------------
static double slope(double x, enum qkv_activation act)
{
    const double c = 1.5957691216057307118, v = c * (x + 0.044715 * x * x * x);
    const double s = 1 / (1 + exp(-(act == QKV_ACT_SILU ? x : v)));
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x > 0;
    case QKV_ACT_GELU:
        return 0.5 * erfc(-x * 0.70710678118654752440) + x * 0.3989422804014327 * exp(-0.5 * x * x);
    case QKV_ACT_GELU_TANH: return s + x * s * (1 - s) * c * (1 + 3 * 0.044715 * x * x);
    case QKV_ACT_SILU: return s + x * s * (1 - s);
    case QKV_ACT_TANH: return 1 - tanh(x) * tanh(x);
    case QKV_ACT_QUICK_GELU: {
        const double q = 1 / (1 + exp(-1.702 * x));
        return q + 1.702 * x * q * (1 - q);
    }
    case QKV_ACT_RELU2: return x > 0 ? 2 * x : 0;
    case QKV_ACT_RELU6: return x > 0 && x < 6;
    case QKV_ACT_MISH: {
        const double t = tanh(log1p(exp(x)));
        return t + x * (1 - t * t) / (1 + exp(-x));
    }
    }
    return 1;
}
static double value(double x, enum qkv_activation act)
{
    const double v = 1.5957691216057307118 * (x + 0.044715 * x * x * x);
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x > 0 ? x : 0;
    case QKV_ACT_GELU: return x * 0.5 * erfc(-x * 0.70710678118654752440);
    case QKV_ACT_GELU_TANH: return x / (1 + exp(-v));
    case QKV_ACT_SILU: return x / (1 + exp(-x));
    case QKV_ACT_TANH: return tanh(x);
    case QKV_ACT_QUICK_GELU: return x / (1 + exp(-1.702 * x));
    case QKV_ACT_RELU2: return x > 0 ? x * x : 0;
    case QKV_ACT_RELU6: return x > 0 ? fmin(x, 6) : 0;
    case QKV_ACT_MISH: return x * tanh(log1p(exp(x)));
    }
    return x;
}

TEST(slopes_are_those_of_the_formulas)
{
    EACH_ISA(k)
    EACH(type, types) EACH(n, widths) for (int act = QKV_ACT_NONE; act <= QKV_ACT_LAST; act++)
    {
        const enum qkv_activation a = (enum qkv_activation)act;
        const struct typed x = typed(*type, *n, 3), u = typed(*type, *n, 1),
                           dy = typed(*type, *n, 1);
        const struct typed dx = typed(*type, *n, 1), du = typed(*type, *n, 1),
                           y = typed(*type, *n, 1);
        k->activation_backward(dx.at, dy.at, x.at, *type, *n, a);
        for (int64_t i = 0; i < *n; i++) {
            const double want = (double)dy.is[i] * slope((double)x.is[i], a);
            CHECK_NEAR((double)typed_at(&dx, i), want,
                       0x1p-20 * fabs((double)dy.is[i]) + rounding(*type, want));
        }
        k->gated(y.at, x.at, u.at, *type, *n, a);
        k->gated_backward(dx.at, du.at, dy.at, x.at, u.at, *type, *n, a);
        for (int64_t i = 0; i < *n; i++) {
            const double v = value((double)x.is[i], a), up = (double)u.is[i], d = (double)dy.is[i];
            const double far = 1 + fabs((double)x.is[i]);
            CHECK_NEAR((double)typed_at(&y, i), v * up,
                       0x1p-20 * far * fabs(up) + rounding(*type, v * up));
            CHECK_NEAR((double)typed_at(&du, i), d * v,
                       0x1p-20 * far * fabs(d) + rounding(*type, d * v));
            const double want = d * up * slope((double)x.is[i], a);
            CHECK_NEAR((double)typed_at(&dx, i), want,
                       0x1p-20 * fabs(d * up) + rounding(*type, want));
        }
        fence_free();
    }
}

TEST(slopes_have_limits_and_work_in_place)
{
    EACH_ISA(k)
    for (int act = QKV_ACT_NONE; act <= QKV_ACT_LAST; act++) {
        float x[] = { INFINITY, -INFINITY, 200, -200, 0, NAN, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11 };
        float dy[17], want[17];
        for (int i = 0; i < 17; i++) dy[i] = 1;
        k->activation_backward(want, dy, x, QKV_REAL, 17, (enum qkv_activation)act);
        const bool square = act == QKV_ACT_RELU2,
                   flat = act == QKV_ACT_RELU || act == QKV_ACT_RELU6;
        const float up = act == QKV_ACT_TANH || act == QKV_ACT_RELU6 ? 0 : 1;
        const float down = act == QKV_ACT_NONE ? 1 : 0;
        CHECK(want[0] == (square ? INFINITY : up) && want[1] == down);
        CHECK(want[2] == (square ? 400 : up) && want[3] == down);
        CHECK(flat || square ? want[4] == 0 : want[4] >= 0.4999f);
        CHECK(act == QKV_ACT_NONE || flat ? want[5] == 1 : isnan(want[5]));
        k->activation_backward(x, dy, x, QKV_REAL, 17, (enum qkv_activation)act);
        for (int i = 0; i < 17; i++) CHECK(x[i] == want[i] || isnan(want[i]));
    }
}

// ---- norms -------------------------------------------------------------------------------------
// Sums of D terms are rounded at each step, so their relative error is at most D half steps.
static void check_norms(const struct qkv_kernels *k, qkv_dtype type, int64_t D, bool rms)
{
    enum { ROWS = 3 };
    float *x = fenced_random(ROWS * D), *w = fenced_random(D), *b = fenced_random(D);
    float mean[2][ROWS], rstd[2][ROWS], *dx[2], *dw[2], *db[2];
    const struct typed y = typed(type, ROWS * D, 1), dy = typed(type, ROWS * D, 1);
    for (int64_t i = 0; i < ROWS * D; i++) x[i] += 5;
    float *exact = fenced_random(ROWS * D), *add = fenced_random(ROWS * D);
    k->norm_rows_to(y.at, type, mean[0], rstd[0], x, w, b, 1e-5f, rms, ROWS, D);
    law()->norm_rows_to(exact, QKV_REAL, mean[1], rstd[1], x, w, b, 1e-5f, rms, ROWS, D);
    const double u = FLT_EPSILON * (double)(D + 16);
    for (int64_t i = 0; i < ROWS * D; i++)
        CHECK_NEAR((double)typed_at(&y, i), (double)exact[i],
                   8 * u * fabs((double)w[i % D]) + u * fabs((double)b[i % D]) +
                       rounding(type, (double)exact[i]));
    for (int i = 0; i < 2; i++) {
        const struct qkv_kernels *one = i ? law() : k;
        dx[i] = fenced_random(ROWS * D);
        dw[i] = fenced((size_t)D * sizeof(float));
        db[i] = fenced((size_t)D * sizeof(float));
        for (int64_t d = 0; d < D; d++) dw[i][d] = db[i][d] = 1;
        one->norm_rows_backward(dx[i], add, dw[i], db[i], dy.at, type, x, mean[1], rstd[1], w, rms,
                                ROWS, D);
    }
    double most = 0; // largest magnitude of the summed terms
    for (int64_t i = 0; i < ROWS * D; i++)
        most = fmax(most, fabs((double)(dy.is[i] * w[i % D])) + fabs((double)dy.is[i]));
    for (int64_t i = 0; i < ROWS * D; i++)
        CHECK_NEAR((double)dx[0][i], (double)dx[1][i],
                   32 * u * most * fmax(1, (double)rstd[1][i / D]) + 4 * FLT_EPSILON);
    for (int64_t d = 0; d < D; d++) {
        CHECK_NEAR((double)dw[0][d], (double)dw[1][d], 16 * u * (most + 1) * sqrt((double)D));
        // bit-identical, because every ISA adds in the same order
        CHECK_BITS(&db[0][d], &db[1][d], sizeof(float));
    }
    k->norm_rows_backward(add, add, NULL, NULL, dy.at, type, x, mean[1], rstd[1], w, rms, ROWS, D);
    CHECK_BITS(add, dx[0], (size_t)(ROWS * D) * sizeof *add);
    fence_free();
}

TEST(norms_agree_with_the_law_forward_and_back)
{
    EACH_ISA(k) EACH(type, types) EACH(D, widths)
    {
        if (*D == 1) continue; // skipped: the variance is 0, so the result is only rounding noise
        check_norms(k, *type, *D, false);
        check_norms(k, *type, *D, true);
    }
}

// A missing weight is 1, a missing bias 0.
TEST(a_norm_without_weights_has_the_bits_of_one_with_neutral_weights)
{
    EACH_ISA(k) EACH(D, widths) for (int rms = 0; rms < 2; rms++)
    {
        float *x = fenced_random(2 * *D), *w = fenced_random(*D), *b = fenced_random(*D);
        float *y = fenced_random(2 * *D), *z = fenced_random(2 * *D);
        for (int64_t i = 0; i < *D; i++) w[i] = 1, b[i] = 0;
        k->norm_rows_to(y, QKV_REAL, NULL, NULL, x, NULL, NULL, 1e-5f, rms, 2, *D);
        k->norm_rows_to(z, QKV_REAL, NULL, NULL, x, w, b, 1e-5f, rms, 2, *D);
        for (int64_t i = 0; i < 2 * *D; i++) CHECK(y[i] == z[i]);
        fence_free();
    }
}

TEST(a_norm_in_floats_has_the_bits_of_the_one_of_inference)
{
    EACH_ISA(k) EACH(D, widths)
    {
        float *x = fenced_random(2 * *D), *w = fenced_random(*D), *b = fenced_random(*D);
        float *y = fenced_random(2 * *D), *z = fenced_random(2 * *D);
        k->norm_rows(y, NULL, NULL, NULL, x, NULL, w, b, 1e-5f, 2, *D);
        k->norm_rows_to(z, QKV_REAL, NULL, NULL, x, w, b, 1e-5f, false, 2, *D);
        CHECK_BITS(y, z, (size_t)(2 * *D) * sizeof *y);
        fence_free();
    }
}

// ---- dropout, random numbers -------------------------------------------------------------------
TEST(random_numbers_are_those_of_their_place)
{
    static const uint64_t blocks[] = { 0, 5, UINT32_MAX - 3, UINT64_C(1) << 40 };
    EACH_ISA(k) EACH(block, blocks) for (int64_t n = 0; n < 70; n += 3)
    {
        uint32_t *out = fenced((size_t)n * 16), want[4];
        k->philox(out, UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210), *block, n);
        for (int64_t i = 0; i < n; i++) {
            qkv_philox(want, UINT64_C(0x123456789abcdef0), UINT64_C(0xfedcba9876543210),
                       *block + (uint64_t)i);
            CHECK_BITS(out + 4 * i, want, sizeof want);
        }
        fence_free();
    }
}

TEST(dropout_drops_below_the_threshold_and_scales_the_rest)
{
    EACH_ISA(k) EACH(type, types) EACH(to, types) EACH(n, widths)
    {
        const struct typed x = typed(*type, *n, 1), y = typed(*to, *n, 1);
        float *residual = fenced_random(*n);
        uint32_t *words = fenced((size_t)*n * sizeof *words);
        for (int64_t i = 0; i < *n; i++) words[i] = (uint32_t)(i % 3) * 0x7fffffffu + 1;
        k->dropout(y.at, *to, residual, x.at, *type, words, 0x80000000u, 2, *n);
        for (int64_t i = 0; i < *n; i++) {
            const double want = (double)residual[i] + (i % 3 < 1 ? 0 : 2 * (double)x.is[i]);
            CHECK_NEAR((double)typed_at(&y, i), want, rounding(*to, want) * 1.01);
        }
        k->dropout(y.at, *to, NULL, x.at, *type, words, 0, 1, *n);
        if (*to == *type) CHECK_BITS(y.at, x.at, (size_t)*n * qkv_dtype_size(*to));
        fence_free();
    }
}

// ---- positions, sums, transposes ---------------------------------------------------------------
TEST(rotary_positions_turn_pairs_of_either_kind)
{
    enum { H = 2 };
    EACH_ISA(k)
    EACH(type, types)
    EACH(half, widths)
    for (int between = 0; between < 2; between++)
        for (int back = 0; back < 2; back++) {
            const int64_t E = 2 * *half, step = between ? 2 : 1, apart = between ? 1 : *half;
            const struct typed x = typed(*type, H * E, 1);
            float *c = fenced_random(*half), *s = fenced_random(*half);
            k->rope_row(x.at, *type, c, s, back, *half, step, apart, H, E);
            for (int64_t h = 0; h < H; h++)
                for (int64_t i = 0; i < *half; i++) {
                    const int64_t p = h * E + i * step, q = p + apart;
                    const double a = (double)x.is[p], b = (double)x.is[q], ci = (double)c[i];
                    const double si = back ? -(double)s[i] : (double)s[i];
                    const double u = 2 * FLT_EPSILON * (fabs(a) + fabs(b)) * (fabs(ci) + fabs(si));
                    CHECK_NEAR((double)typed_at(&x, p), a * ci - b * si,
                               u + rounding(*type, a * ci - b * si) * 1.01);
                    CHECK_NEAR((double)typed_at(&x, q), b * ci + a * si,
                               u + rounding(*type, b * ci + a * si) * 1.01);
                }
            fence_free();
        }
}

TEST(sums_of_rows_have_the_bits_of_the_law)
{
    EACH_ISA(k) EACH(type, types) EACH(n, widths)
    {
        enum { ROWS = 9 };
        const int64_t ld = *n + 3;
        const struct typed x = typed(*type, (ROWS - 1) * ld + *n, 1);
        float *a = fenced_random(*n), *b = fenced((size_t)*n * sizeof *b);
        float *row = fenced_random(*n);
        memcpy(b, a, (size_t)*n * sizeof *b);
        k->add_rows(a, x.at, *type, ld, ROWS, *n);
        law()->add_rows(b, x.at, *type, ld, ROWS, *n);
        CHECK_BITS(a, b, (size_t)*n * sizeof *a);
        k->add_row(a, row, 3, *n);
        law()->add_row(b, row, 3, *n);
        CHECK_BITS(a, b, (size_t)*n * sizeof *a);
        fence_free();
    }
}

TEST(turned_arrays_are_their_columns_in_any_type)
{
    static const int64_t rows[] = { 1, 2, 8, 15, 16, 31, 32, 33, 67 };
    EACH_ISA(k) EACH(type, types) EACH(to, types) EACH(n, widths) EACH(r, rows)
    {
        const int64_t ld = *n + 1, ldto = *r + 5;
        const struct typed x = typed(*type, (*r - 1) * ld + *n, 1);
        const struct typed y = typed(*to, (*n - 1) * ldto + *r, 1);
        k->transpose(y.at, *to, ldto, x.at, *type, ld, *r, *n);
        for (int64_t i = 0; i < *n; i++)
            for (int64_t j = 0; j < *r + 5 && i * ldto + j < y.n; j++) {
                uint32_t want = 0, is = 0;
                const float from = j < *r ? x.is[j * ld + i] : y.is[i * ldto + j];
                CHECK(qkv_from_f32(&want, *to, &from, 1));
                memcpy(&is, (char *)y.at + (size_t)(i * ldto + j) * qkv_dtype_size(*to),
                       qkv_dtype_size(*to));
                CHECK_EQ(is, want);
            }
        fence_free();
    }
}

CHECK_MAIN(CASE(slopes_are_those_of_the_formulas), CASE(slopes_have_limits_and_work_in_place),
           CASE(norms_agree_with_the_law_forward_and_back),
           CASE(a_norm_without_weights_has_the_bits_of_one_with_neutral_weights),
           CASE(a_norm_in_floats_has_the_bits_of_the_one_of_inference),
           CASE(random_numbers_are_those_of_their_place),
           CASE(dropout_drops_below_the_threshold_and_scales_the_rest),
           CASE(rotary_positions_turn_pairs_of_either_kind),
           CASE(sums_of_rows_have_the_bits_of_the_law),
           CASE(turned_arrays_are_their_columns_in_any_type))
#endif
