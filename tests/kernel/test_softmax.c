// SPDX-License-Identifier: MIT
// test_softmax.c: tests softmax_rows: invariants on every ISA of this machine, then against the
// formula in double.
#include "check.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
#define UNIT 0x1p-53
#else
#define UNIT 0x1p-24
#endif

static const int64_t widths[] = {
    0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 33, 48, 51, 257, 1000
};

static real *random_reals(int64_t n, double size)
{
    real *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)(check_gauss() * size);
    return x;
}

static double pick_small(void) // returns an integer in -256 .. 255
{
    return floor(check_random() * 256);
}

TEST(rows_sum_to_one)
{
    EACH_ISA(k) EACH(n, widths)
    {
        real *x = random_reals(*n, 3);
        double sum = 0;
        k->softmax_rows(x, x, 1, *n, *n, *n); // in place: allowed by kernel.h
        for (int64_t i = 0; i < *n; i++) sum += (double)x[i];
        // The divisor has n roundings, each quotient one.
        if (*n) CHECK_NEAR(sum, 1, 2 * (double)(*n + 2) * UNIT);
        fence_free();
    }
}

TEST(every_row_follows_the_formula)
{
    const double sizes[] = { 0.01, 1, 30, 1000 };
    EACH_ISA(k) EACH(n, widths) EACH(size, sizes)
    {
        real *x = random_reals(3 * *n, *size), *y = fenced((size_t)(3 * *n) * sizeof *y);
        k->softmax_rows(y, x, 3, *n, *n, *n);
        for (int r = 0; r < 3; r++) {
            double most = -INFINITY, sum = 0;
            for (int64_t i = 0; i < *n; i++) most = fmax(most, (double)x[r * *n + i]);
            for (int64_t i = 0; i < *n; i++) sum += exp((double)x[r * *n + i] - most);
            for (int64_t i = 0; i < *n; i++) {
                const double below = (double)x[r * *n + i] - most, want = exp(below) / sum;
                // x - max is rounded once, e^x has an error of at most 2 ulp, the sum n roundings,
                // the quotient one.
                CHECK_NEAR(y[r * *n + i], want, want * UNIT * (-below + (double)*n + 12) + 1e-44);
            }
        }
        fence_free();
    }
}

TEST(rows_with_nothing_are_zero_and_what_is_not_finite_shows)
{
    EACH_ISA(k) EACH(n, widths)
    {
        if (!*n) continue;
        real *x = random_reals(*n, 1);
        for (int64_t i = 0; i < *n; i++) x[i] = -(real)INFINITY;
        k->softmax_rows(x, x, 1, *n, *n, *n);
        for (int64_t i = 0; i < *n; i++) CHECK(x[i] == 0);
        for (int64_t at = 0; at < *n; at += 1 + *n / 5)
            for (int bad = 0; bad < 2; bad++) {
                for (int64_t i = 0; i < *n; i++) x[i] = (real)check_gauss();
                x[at] = bad ? (real)INFINITY : (real)NAN;
                k->softmax_rows(x, x, 1, *n, *n, *n);
                for (int64_t i = 0; i < *n; i++) CHECK(isnan(x[i]));
            }
        fence_free();
    }
}

TEST(a_row_is_the_same_alone_and_in_any_company)
{
    EACH_ISA(k) EACH(n, widths)
    {
        const int64_t ldx = *n + 3, ldy = *n + 5;
        real *x = random_reals(5 * ldx, 2), *y = random_reals(5 * ldy, 1),
             *one = random_reals(*n, 1);
        real *before = random_reals(5 * ldy, 1);
        memcpy(before, y, (size_t)(5 * ldy) * sizeof *y);
        k->softmax_rows(y, x, 5, *n, ldy, ldx);
        for (int r = 0; r < 5; r++) {
            k->softmax_rows(one, x + r * ldx, 1, *n, *n, *n);
            CHECK_BITS(one, y + r * ldy, (size_t)*n * sizeof *y);
            // elements between the rows are unchanged
            CHECK_BITS(before + r * ldy + *n, y + r * ldy + *n, 5 * sizeof *y);
        }
        fence_free();
    }
}

TEST(a_shift_changes_no_more_than_its_own_rounding)
{
    EACH_ISA(k)
    {
        real x[100], y[100], z[100];
        for (int i = 0; i < 100; i++) x[i] = (real)(pick_small() / 64.0);
        k->softmax_rows(y, x, 1, 100, 100, 100);
        // the addition is exact: multiples of 1/64 below 2^12
        for (int i = 0; i < 100; i++) x[i] += 1024;
        k->softmax_rows(z, x, 1, 100, 100, 100);
        CHECK_BITS(y, z, sizeof y);
    }
}

CHECK_MAIN(CASE(rows_sum_to_one), CASE(every_row_follows_the_formula),
           CASE(rows_with_nothing_are_zero_and_what_is_not_finite_shows),
           CASE(a_row_is_the_same_alone_and_in_any_company),
           CASE(a_shift_changes_no_more_than_its_own_rounding))
