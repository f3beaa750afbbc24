// SPDX-License-Identifier: MIT
// test_norm.c: tests layer norm of rows, and the rows of an embedding: invariants on every ISA,
// then against double.
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
static const int64_t widths[] = { 1,  2,  3,  7,  8,  9,  15, 16,  17,  31,
                                  32, 33, 48, 51, 63, 64, 65, 384, 1027 };

struct row {
    double mean, rstd;
};
static struct row exact(const float *x, const float *residual, int64_t D, double eps)
{
    double mean = 0, var = 0;
    for (int64_t i = 0; i < D; i++) mean += (double)(residual ? x[i] + residual[i] : x[i]);
    mean /= (double)D;
    for (int64_t i = 0; i < D; i++) {
        const double c = (double)(residual ? x[i] + residual[i] : x[i]) - mean;
        var += c * c;
    }
    return (struct row){ mean, 1 / sqrt(var / (double)D + eps) };
}

// Returns the relative error bound of s - mean - off: both sums of D terms have at worst D/lanes
// roundings plus a tree of depth 5; the same for the variance, halved by the square root; then
// scale, w and b. `off` corrects the rounding of the mean, so the error is relative to the spread
// of the row, not to its mean.
static double bound(int64_t D, double n, double w, double b)
{
    const double u = FLT_EPSILON / 2, terms = (double)D + 8;
    return u * (terms * (1 + fabs(n)) + 8 * fabs(n)) * fabs(w) + u * 2 * fabs(b);
}

TEST(rows_are_within_the_bound_of_double)
{
    static const float means[] = { 0, 3, -1e4f }, spreads[] = { 1, 0.01f, 1e3f };
    EACH_ISA(k) EACH(D, widths) EACH(m, means) EACH(s, spreads)
    {
        enum { ROWS = 3 };
        float *x = fenced_random(ROWS * *D), *residual = fenced_random(ROWS * *D);
        float *w = fenced_random(*D), *b = fenced_random(*D),
              *y = fenced((size_t)(ROWS * *D) * sizeof *y);
        float *mean = fenced(ROWS * sizeof *mean), *rstd = fenced(ROWS * sizeof *rstd);
        for (int64_t i = 0; i < ROWS * *D; i++) x[i] = *m + *s * x[i], residual[i] *= *s;
        const float eps = 1e-12f;
        k->norm_rows(y, NULL, mean, rstd, x, residual, w, b, eps, ROWS, *D);
        for (int r = 0; r < ROWS; r++) {
            const struct row e = exact(x + r * *D, residual + r * *D, *D, (double)eps);
            for (int64_t i = r * *D; i < (r + 1) * *D; i++) {
                const double n = ((double)(x[i] + residual[i]) - e.mean) * e.rstd;
                const double wi = w[i % *D], bi = b[i % *D];
                CHECK_NEAR((double)y[i], n * wi + bi, bound(*D, n, wi, bi) + 1e-5 * (*D == 1));
            }
            CHECK_NEAR((double)mean[r], e.mean,
                       FLT_EPSILON * (double)(*D + 8) * (fabs((double)*m) + 8 * *s));
            if (*D > 1) CHECK_NEAR((double)rstd[r] / e.rstd, 1, FLT_EPSILON * (double)(*D + 8));
        }
        fence_free();
    }
}

// A float near 1e4 can represent a spread of .01, and that information must survive: E[x^2] -
// E[x]^2 would be noise, and a mean rounded to float would shift the row by 5% of the spread.
TEST(a_large_mean_with_a_small_spread_comes_out_normal)
{
    EACH_ISA(k)
    {
        enum { D = 384 };
        float x[D], y[D];
        for (int i = 0; i < D; i++) x[i] = (float)(1e4 + 0.01 * check_gauss());
        k->norm_rows(y, NULL, NULL, NULL, x, NULL, NULL, NULL, 0, 1, D);
        double mean = 0, var = 0;
        for (int i = 0; i < D; i++) mean += (double)y[i] / D;
        for (int i = 0; i < D; i++) var += (double)y[i] * (double)y[i] / D;
        CHECK_NEAR(mean, 0, bound(D, 0, 1, 0));
        CHECK_NEAR(var, 1, 2 * bound(D, 1, 1, 0));
    }
}

TEST(a_row_has_the_same_bits_alone_in_place_and_with_its_sum_kept)
{
    EACH_ISA(k) EACH(D, widths)
    {
        enum { ROWS = 4 };
        const size_t bytes = (size_t)(ROWS * *D) * sizeof(float);
        float *x = fenced_random(ROWS * *D), *residual = fenced_random(ROWS * *D);
        float *y = fenced(bytes), *z = fenced(bytes), *sum = fenced(bytes);
        k->norm_rows(y, NULL, NULL, NULL, x, residual, NULL, NULL, 1e-5f, ROWS, *D);
        for (int r = 0; r < ROWS; r++)
            k->norm_rows(z + r * *D, NULL, NULL, NULL, x + r * *D, residual + r * *D, NULL, NULL,
                         1e-5f, 1, *D);
        CHECK_BITS(z, y, bytes);
        k->norm_rows(z, sum, NULL, NULL, x, residual, NULL, NULL, 1e-5f, ROWS, *D);
        CHECK_BITS(z, y, bytes);
        for (int64_t i = 0; i < ROWS * *D; i++) CHECK(sum[i] == x[i] + residual[i]);
        // The outputs overwrite the inputs.
        k->norm_rows(residual, x, NULL, NULL, x, residual, NULL, NULL, 1e-5f, ROWS, *D);
        CHECK_BITS(residual, y, bytes);
        CHECK_BITS(x, sum, bytes);
        fence_free();
    }
}

TEST(a_constant_row_gives_the_bias_and_nan_stays_in_its_row)
{
    EACH_ISA(k) EACH(D, widths)
    {
        float *x = fenced_random(3 * *D), *b = fenced_random(*D),
              *y = fenced((size_t)(3 * *D) * sizeof *y);
        for (int64_t i = 0; i < *D; i++) x[i] = 7, x[2 * *D + i] = i == *D / 2 ? NAN : 1;
        k->norm_rows(y, NULL, NULL, NULL, x, NULL, NULL, b, 1e-5f, 3, *D);
        CHECK_BITS(y, b, (size_t)*D * sizeof *y);
        for (int64_t i = 0; i < *D; i++) CHECK(isfinite(y[*D + i]) && isnan(y[2 * *D + i]));
        fence_free();
    }
}

TEST(embedding_rows_add_from_the_left)
{
    EACH_ISA(k) EACH(D, widths)
    {
        float *a = fenced_random(*D), *b = fenced_random(*D), *c = fenced_random(*D);
        float *y = fenced((size_t)*D * sizeof *y);
        k->embed_row(y, a, 3, b, c, *D);
        for (int64_t i = 0; i < *D; i++) {
            const float scaled = 3 * a[i], two = scaled + b[i], all = two + c[i];
            CHECK_BITS(&y[i], &all, sizeof all);
        }
        k->embed_row(y, a, 1, NULL, NULL, *D);
        CHECK_BITS(y, a, (size_t)*D * sizeof *y);
        fence_free();
    }
}

CHECK_MAIN(CASE(rows_are_within_the_bound_of_double),
           CASE(a_large_mean_with_a_small_spread_comes_out_normal),
           CASE(a_row_has_the_same_bits_alone_in_place_and_with_its_sum_kept),
           CASE(a_constant_row_gives_the_bias_and_nan_stays_in_its_row),
           CASE(embedding_rows_add_from_the_left))
#endif
