// SPDX-License-Identifier: MIT
// test_update.c: compares optimizer steps and sums of squares of each ISA with the formula in
// double.
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
static const int64_t lengths[] = { 0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 51, 1027 };
static const struct qkv_update how = { .scale = 0.25f,
                                       .rate = 0.0625f,
                                       .keep = 0.9375f,
                                       .m = 0.125f,
                                       .v = 0.03125f,
                                       .root = 1.5f,
                                       .eps = 1e-8f,
                                       .decay = 0.125f,
                                       .momentum = 0.875f };

// Roundings, one each: a, a - m, the product, the sum; for the squares the same relative to v; then
// the root, the quotient, its product with the rate, and the difference.
TEST(adamw_is_its_formula)
{
    EACH_ISA(k) EACH(n, lengths)
    {
        float *w = fenced_random(*n), *m = fenced_random(*n), *v = fenced_random(*n);
        float *g = fenced_random(*n);
        double want[3][1027], tol[3][1027];
        const double u = FLT_EPSILON;
        for (int64_t i = 0; i < *n; i++) {
            const double a = (double)how.scale * (double)g[i];
            v[i] = fabsf(v[i]) + 0.01f;
            want[0][i] = (double)m[i] + (double)how.m * (a - (double)m[i]);
            want[1][i] = (double)v[i] + (double)how.v * (a * a - (double)v[i]);
            const double q = want[0][i] / (sqrt(want[1][i]) * (double)how.root + (double)how.eps);
            want[2][i] = (double)how.keep * (double)w[i] - (double)how.rate * q;
            tol[0][i] = 2 * u * (fabs(a) + fabs((double)m[i]));
            tol[1][i] = 2 * u * (a * a + fabs((double)v[i]));
            const double off =
                tol[0][i] / fabs(want[0][i] + DBL_MIN) + 0.5 * tol[1][i] / want[1][i];
            tol[2][i] = u * fabs((double)w[i]) + (double)how.rate * fabs(q) * (off + 3 * u) +
                        u * fabs(want[2][i]);
        }
        k->adamw(w, m, v, g, *n, &how);
        for (int64_t i = 0; i < *n; i++) {
            CHECK_NEAR((double)m[i], want[0][i], tol[0][i]);
            CHECK_NEAR((double)v[i], want[1][i], tol[1][i]);
            CHECK_NEAR((double)w[i], want[2][i], tol[2][i]);
        }
        fence_free();
    }
}

TEST(sgd_is_its_formula_with_and_without_momentum)
{
    EACH_ISA(k) EACH(n, lengths)
    {
        for (int with = 0; with < 2; with++) {
            float *w = fenced_random(*n), *m = with ? fenced_random(*n) : NULL;
            float *g = fenced_random(*n);
            double want[1027], tol[1027];
            for (int64_t i = 0; i < *n; i++) {
                const double x = (double)how.scale * (double)g[i];
                const double decayed = (double)how.decay * (double)w[i];
                const double kept = with ? (double)how.momentum * (double)m[i] : 0;
                const double a = x + decayed + kept;
                want[i] = (double)w[i] - (double)how.rate * a;
                tol[i] = 2 * FLT_EPSILON *
                         ((double)how.rate * (fabs(x) + fabs(decayed) + fabs(kept)) +
                          fabs((double)w[i]));
            }
            k->sgd(w, m, g, *n, &how);
            for (int64_t i = 0; i < *n; i++) CHECK_NEAR((double)w[i], want[i], tol[i]);
            fence_free();
        }
    }
}

TEST(a_number_has_the_same_bits_wherever_it_stands)
{
    EACH_ISA(k)
    {
        enum { N = 67 };
        float w[N], m[N], v[N], g[N], one[3][N];
        for (int i = 0; i < N; i++) {
            one[0][i] = w[i] = (float)check_gauss();
            one[1][i] = m[i] = (float)check_gauss();
            one[2][i] = v[i] = fabsf((float)check_gauss());
            g[i] = (float)check_gauss();
        }
        k->adamw(w, m, v, g, N, &how);
        for (int i = 0; i < N; i++) k->adamw(&one[0][i], &one[1][i], &one[2][i], &g[i], 1, &how);
        CHECK_BITS(w, one[0], sizeof w);
        CHECK_BITS(m, one[1], sizeof m);
        CHECK_BITS(v, one[2], sizeof v);
        k->sgd(w, m, g, N, &how);
        for (int i = 0; i < N; i++) k->sgd(&one[0][i], &one[1][i], &g[i], 1, &how);
        CHECK_BITS(w, one[0], sizeof w);
    }
}

TEST(sums_of_squares_have_the_same_bits_on_every_isa)
{
    EACH(n, lengths)
    {
        float *x = fenced_random(*n);
        double exact = 0;
        for (int64_t i = 0; i < *n; i++) exact += (double)x[i] * (double)x[i];
        const double first = qkv_kernel_isa(0)->squares(x, *n);
        CHECK_NEAR(first, exact, exact * (double)*n * DBL_EPSILON);
        EACH_ISA(k)
        {
            const double sum = k->squares(x, *n);
            CHECK_BITS(&sum, &first, sizeof sum);
        }
        if (*n) {
            x[*n / 2] = NAN;
            EACH_ISA(k) CHECK(isnan(k->squares(x, *n)));
            x[*n / 2] = -INFINITY;
            EACH_ISA(k) CHECK(isinf(k->squares(x, *n)));
            x[*n / 2] = FLT_MAX;
            EACH_ISA(k) CHECK(isfinite(k->squares(x, *n)));
        }
        fence_free();
    }
}

CHECK_MAIN(CASE(adamw_is_its_formula), CASE(sgd_is_its_formula_with_and_without_momentum),
           CASE(a_number_has_the_same_bits_wherever_it_stands),
           CASE(sums_of_squares_have_the_same_bits_on_every_isa))
#endif
