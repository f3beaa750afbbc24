// SPDX-License-Identifier: MIT
// test_recurrent.c: compares loss terms, gates of recurrent units and additive scores of every ISA
// with the formula in double, at every width; arrays are between guard pages.
#include "check.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
#define U 0x1p-53
#else
#define U 0x1p-24
#endif

static const int64_t widths[] = { 1, 2, 3, 7, 8, 9, 15, 16, 17, 31, 33, 48, 51, 65, 130 };
static const qkv_dtype types[] = { QKV_REAL, QKV_BF16, QKV_F16 };

static real *random_reals(int64_t n, double size)
{
    real *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(check_gauss() * size);
    return x;
}

static double number(const void *p, qkv_dtype type, int64_t i)
{
    float one;
    if (type == QKV_REAL) return (double)((const real *)p)[i];
    qkv_to_f32(&one, (const uint16_t *)p + i, type, 1);
    return (double)one;
}

static double unit(qkv_dtype type)
{
    return type == QKV_BF16 ? 0x1p-8 : type == QKV_F16 ? 0x1p-11 : U;
}

TEST(terms_are_powers_of_what_lies_below_the_largest_of_a_column)
{
    EACH_ISA(k) EACH(R, widths) EACH(type, types) for (int64_t n = 1; n <= 21; n += 4)
    {
        const int64_t ld = *R + 3;
        real *s = random_reals((n - 1) * ld + *R, 4), *b = random_reals(n, 1);
        real *top = random_reals(*R, 1), *sum = random_reals(*R, 1), *all = random_reals(*R, 1);
        void *p = fenced((size_t)((n - 1) * ld + *R) * qkv_dtype_size(*type));
        for (int plain = 0; plain < 2; plain++) {
            const real *bias = plain ? NULL : b;
            k->loss_terms(p, *type, ld, 8, top, sum, plain ? NULL : all, s, ld, bias, n, *R);
            for (int64_t r = 0; r < *R; r++) {
                double most = -INFINITY, terms = 0, total = 0;
                for (int64_t i = 0; i < n; i++)
                    most = fmax(most, (double)(s[i * ld + r] + (bias ? bias[i] : 0)));
                CHECK((double)top[r] == most);
                for (int64_t i = 0; i < n; i++) {
                    const double a = (double)(s[i * ld + r] + (bias ? bias[i] : 0));
                    const double e = exp(a - most);
                    // a - top is rounded once; e^x has an error of at most 2 ulp, 4 U.
                    const double off = e * U * (5 + most - a);
                    terms += e;
                    total += a;
                    CHECK_NEAR(number(p, *type, i * ld + r), 8 * e,
                               8 * off + 8 * e * unit(*type) + 0x1p-25);
                }
                CHECK_NEAR((double)sum[r], terms, terms * U * (5 + 30 + (double)n));
                if (!plain) CHECK_NEAR((double)all[r], total, (double)n * U * 20 * (double)n);
            }
        }
        fence_free();
    }
}

TEST(columns_with_nothing_have_no_terms_and_a_nan_shows)
{
    EACH_ISA(k) EACH(R, widths)
    {
        real *s = random_reals(4 * *R, 1), top[130], sum[130];
        for (int i = 0; i < 4; i++) s[i * *R] = -(real)INFINITY;
        s[3 * *R + *R - 1] = (real)NAN;
        k->loss_terms(s, QKV_REAL, *R, 1, top, sum, NULL, s, *R, NULL, 4, *R);
        if (*R > 1) CHECK(top[0] == -(real)INFINITY && sum[0] == 0);
        CHECK(isnan((double)sum[*R - 1]));
        fence_free();
    }
}

TEST(slopes_are_terms_times_a_factor_of_their_column)
{
    EACH_ISA(k) EACH(R, widths) EACH(type, types)
    {
        enum { N = 5 };
        const int64_t ld = *R + 1;
        void *p = fenced((size_t)((N - 1) * ld + *R) * qkv_dtype_size(*type));
        real *by = random_reals(*R, 1), sums[N];
        double was[N * 131];
        for (int64_t i = 0; i < (N - 1) * ld + *R; i++) {
            const float x = (float)check_random();
            if (*type == QKV_REAL)
                ((real *)p)[i] = (real)x;
            else
                qkv_from_f32((uint16_t *)p + i, *type, &x, 1);
            was[i] = number(p, *type, i);
        }
        k->loss_slope(p, *type, ld, sums, by, (real)0.25, N, *R);
        for (int64_t i = 0; i < N; i++) {
            double sum = 0;
            for (int64_t r = 0; r < *R; r++) {
                const double g = was[i * ld + r] * (double)by[r] - 0.25;
                CHECK_NEAR(number(p, *type, i * ld + r), g,
                           fabs(g) * unit(*type) + 4 * U * (fabs(g) + 1) + 0x1p-25);
                sum += g;
            }
            CHECK_NEAR((double)sums[i], sum, (double)(*R + 4) * U * 5 * (double)*R);
        }
        fence_free();
    }
}

static double gate(double x)
{
    return 1 / (1 + exp(-x));
}

TEST(gates_follow_their_formula_forward_and_back)
{
    EACH_ISA(k) EACH(n, widths)
    {
        real *gates = random_reals(4 * *n, 2), *hidden = random_reals(3 * *n, 2);
        real *old = random_reals(*n, 1), *h = random_reals(*n, 1), *dh = random_reals(*n, 1);
        real *d = random_reals(4 * *n, 1), *flow = random_reals(*n, 1), in[3 * 130];
        memcpy(in, gates, (size_t)(3 * *n) * sizeof *in);
        k->gru_row(h, gates, *n, hidden, *n, old, *n);
        k->gru_row_backward(d, flow, dh, gates, old, *n);
        for (int64_t i = 0; i < *n; i++) {
            // Arguments of magnitude below 16 have a rounding error of 16 U; the derivative of a
            // gate is below 1.
            const double off = 40 * U, own = (double)hidden[2 * *n + i];
            const double r = gate((double)in[i] + (double)hidden[i]);
            const double z = gate((double)in[*n + i] + (double)hidden[*n + i]);
            const double made = tanh((double)in[2 * *n + i] + r * own), up = (double)dh[i];
            const double size = 1 + fabs(own) + fabs((double)old[i]) + fabs(up);
            CHECK_NEAR((double)gates[i], r, off);
            CHECK_NEAR((double)gates[*n + i], z, off);
            CHECK_NEAR((double)gates[2 * *n + i], made, off * size);
            CHECK(gates[3 * *n + i] == hidden[2 * *n + i]);
            CHECK_NEAR((double)h[i], (1 - z) * made + z * (double)old[i], 2 * off * size);
            const double dmade = up * (1 - z) * (1 - made * made),
                         wide = 4 * off * size * size * size;
            CHECK_NEAR((double)d[i], dmade * own * r * (1 - r), wide);
            CHECK_NEAR((double)d[*n + i], up * ((double)old[i] - made) * z * (1 - z), wide);
            CHECK_NEAR((double)d[2 * *n + i], dmade, wide);
            CHECK_NEAR((double)d[3 * *n + i], dmade * r, wide);
            CHECK_NEAR((double)flow[i], up * z, wide);
        }
        fence_free();
    }
}

// Widths around the four vectors whose sums stay in registers.
TEST(weighted_sums_of_rows_follow_the_formula)
{
    static const int64_t counts[] = { 1, 5, 16, 31, 32, 33, 63, 64, 67, 131 };
    EACH_ISA(k) EACH(d, widths) EACH(n, counts)
    {
        const int64_t ld = *n + 3;
        real *x = random_reals(*d, 1), *rows = random_reals((*d - 1) * ld + *n, 1);
        real *y = random_reals(*n, 1), alone;
        k->weigh_rows(y, x, rows, ld, *n, *d);
        for (int64_t j = 0; j < *n; j++) {
            double want = 0, size = 0;
            for (int64_t e = 0; e < *d; e++) {
                want += (double)x[e] * (double)rows[e * ld + j];
                size += fabs((double)x[e] * (double)rows[e * ld + j]);
            }
            CHECK_NEAR((double)y[j], want, U * size * (double)(*d + 1));
            k->weigh_rows(&alone, x, rows + j, ld, 1, *d); // the bits do not depend on n
            CHECK_BITS(&alone, &y[j], sizeof alone);
        }
        fence_free();
    }
}

TEST(additive_scores_and_their_gradients_follow_the_formula)
{
    EACH_ISA(k) EACH(d, widths)
    {
        enum { N = 4 };
        const int64_t ld = *d + 2;
        real *u = random_reals(*d, 1), *w = random_reals(*d, 1), *s = random_reals(N, 1);
        real *p = random_reals((N - 1) * ld + *d, 1), *dp = random_reals((N - 1) * ld + *d, 1);
        real *du = random_reals(*d, 1), *dw = random_reals(*d, 1), *y = random_reals(N, 1);
        real ds[N] = { (real)0.5, -2, 0, 1 }, was[3][130], kept[N * 132];
        memcpy(was[0], du, (size_t)*d * sizeof *du);
        memcpy(was[1], dw, (size_t)*d * sizeof *dw);
        memcpy(kept, dp, (size_t)((N - 1) * ld + *d) * sizeof *dp);
        k->additive_row(s, u, w, p, ld, N, *d);
        k->dots(y, u, p, ld, N, *d);
        for (int j = 0; j < N; j++) {
            double score = 0, dot = 0, size = 0;
            for (int64_t e = 0; e < *d; e++) {
                const double x = (double)p[j * ld + e];
                score += (double)w[e] * tanh((double)u[e] + x);
                dot += (double)u[e] * x;
                size += fabs((double)w[e]) + fabs((double)u[e] * x);
            }
            CHECK_NEAR((double)s[j], score, U * size * (double)(*d + 24));
            CHECK_NEAR((double)y[j], dot, U * size * (double)(*d + 8));
        }
        // its gradient is 0, so this row must not be read
        for (int64_t e = 0; e < *d; e++) p[2 * ld + e] = (real)NAN;
        k->additive_row_backward(du, dw, dp, ld, ds, u, w, p, ld, N, *d);
        for (int64_t e = 0; e < *d; e++) {
            double du_want = (double)was[0][e], dw_want = (double)was[1][e];
            for (int j = 0; j < N; j++) {
                if (j == 2) continue;
                const double t = tanh((double)u[e] + (double)p[j * ld + e]);
                const double x = (double)ds[j] * (double)w[e] * (1 - t * t);
                du_want += x;
                dw_want += (double)ds[j] * t;
                CHECK_NEAR((double)dp[j * ld + e], (double)kept[j * ld + e] + x, 200 * U);
            }
            CHECK(dp[2 * ld + e] == kept[2 * ld + e]);
            CHECK_NEAR((double)du[e], du_want, 400 * U);
            CHECK_NEAR((double)dw[e], dw_want, 400 * U);
        }
        fence_free();
    }
}

CHECK_MAIN(CASE(terms_are_powers_of_what_lies_below_the_largest_of_a_column),
           CASE(columns_with_nothing_have_no_terms_and_a_nan_shows),
           CASE(slopes_are_terms_times_a_factor_of_their_column),
           CASE(gates_follow_their_formula_forward_and_back),
           CASE(weighted_sums_of_rows_follow_the_formula),
           CASE(additive_scores_and_their_gradients_follow_the_formula))
