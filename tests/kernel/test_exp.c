// SPDX-License-Identifier: MIT
// test_exp.c: compares e^x and the 2^t of attention with double, over every float in their range.
//
// Where |x| < 2^-6 the result is 1 to within rounding and every 61st float is tested; elsewhere all
// of them.
#include "check.h"
#include "kernel/kernel.h"
#include <stdlib.h>

#ifndef QKV_DOUBLE
enum { BLOCK = 4096 };

static float from_bits(uint32_t u)
{
    float x;
    memcpy(&x, &u, sizeof x);
    return x;
}
static uint32_t to_bits(float x)
{
    uint32_t u;
    memcpy(&u, &x, sizeof u);
    return u;
}
// Returns the distance of y from the exact value, in ulp of a float at that value.
static double ulps(float y, double exact)
{
    int e;
    frexp(exact, &e);
    return fabs((double)y - exact) / ldexp(1, (e < -125 ? -125 : e) - 24);
}

static void exp_of(const struct qkv_kernels *k, float *y, const float *x, int64_t n)
{
    k->exp(y, x, n);
}
static void exp2_of(const struct qkv_kernels *k, float *y, const float *x, int64_t n)
{
    memcpy(y, x, (size_t)n * sizeof *y);
    k->attention[0]->weights(y, n, 1, 0, 1);
}

// Returns the step between tested floats: with QKV_SLOW (`make long`) all of them are tested.
static uint32_t apart(void)
{
#ifdef QKV_EMULATED
    return 53;
#else
    return getenv("QKV_SLOW") ? 1 : 7;
#endif
}

// Returns the worst error over the floats of one sign from |least| to |most|, `step` apart.
static double worst(void (*of)(const struct qkv_kernels *, float *, const float *, int64_t),
                    double (*exact)(double), const struct qkv_kernels *k, float least, float most,
                    uint32_t step)
{
    static float x[BLOCK], y[BLOCK];
    double most_wrong = 0;
    const uint32_t sign = to_bits(most) & 0x80000000u, end = to_bits(most) & 0x7fffffff;
    for (uint32_t u = to_bits(least) & 0x7fffffff; u <= end;) {
        int n = 0;
        for (; n < BLOCK && u <= end; n++, u += step) x[n] = from_bits(u | sign);
        of(k, y, x, n);
        for (int i = 0; i < n; i++) {
            const double e = exact((double)x[i]), wrong = ulps(y[i], e);
            // the comparison is false for NaN, so a NaN becomes the maximum
            if (!(wrong <= most_wrong)) most_wrong = wrong;
        }
    }
    return most_wrong;
}

TEST(exp_is_within_two_ulp_of_every_float_that_matters)
{
    EACH_ISA(k)
    {
        // the law is libm's result, rounded
        const uint32_t step = k == qkv_kernel_isa(0) ? 1009 : apart();
        CHECK(worst(exp_of, exp, k, 0x1p-6f, 88.72283f, step) <= 2);
        CHECK(worst(exp_of, exp, k, -0x1p-6f, -104.0f, step) <= 2);
        CHECK(worst(exp_of, exp, k, 0, 0x1p-6f, 61 * step) <= 2);
        CHECK(worst(exp_of, exp, k, -0.0f, -0x1p-6f, 61 * step) <= 2);
    }
}

TEST(exp_of_the_ends)
{
    EACH_ISA(k)
    {
        const float x[] = { 0, -0.0f, INFINITY, -INFINITY, NAN, 88.7229f, 1e30f, -104.1f, -1e30f };
        const float want[] = { 1, 1, INFINITY, 0, NAN, INFINITY, INFINITY, 0, 0 };
        float y[9];
        k->exp(y, x, 9);
        for (int i = 0; i < 9; i++) CHECK(isnan(want[i]) ? isnan(y[i]) : y[i] == want[i]);
    }
}

TEST(the_power_of_attention_is_within_two_ulp_and_exact_at_zero)
{
    EACH_ISA(k)
    {
        const uint32_t step = k == qkv_kernel_isa(0) ? 1009 : apart();
        CHECK(worst(exp2_of, exp2, k, -0x1p-6f, -126.0f, step) <= 2);
        CHECK(worst(exp2_of, exp2, k, -0.0f, -0x1p-6f, 61 * step) <= 2);
        float y[20];
        const float x[20] = { 0, -0.0f, -INFINITY, NAN, -1, -126, -1e30f, -3.4e38f };
        exp2_of(k, y, x, 20);
        CHECK(y[0] == 1 && y[1] == 1 && y[2] == 0 && isnan(y[3]) && y[4] == 0.5f &&
              y[5] == 0x1p-126f);
        CHECK(y[6] == 0 && y[7] == 0);
    }
}

TEST(exp_touches_its_own_numbers_alone_and_each_by_itself)
{
    EACH_ISA(k) for (int64_t n = 0; n <= 3 * 16 + 3; n++)
    {
        float *x = fenced_random(n), *y = fenced((size_t)n * sizeof *y);
        k->exp(y, x, n);
        for (int64_t i = 0; i < n; i++) {
            float one;
            k->exp(&one, x + i, 1);
            CHECK_BITS(&one, y + i, sizeof one);
        }
        k->exp(x, x, n);
        CHECK_BITS(x, y, (size_t)n * sizeof *y);
        fence_free();
    }
}

CHECK_MAIN(CASE(exp_is_within_two_ulp_of_every_float_that_matters), CASE(exp_of_the_ends),
           CASE(the_power_of_attention_is_within_two_ulp_and_exact_at_zero),
           CASE(exp_touches_its_own_numbers_alone_and_each_by_itself))
#else
TEST(exp_is_that_of_the_c_library)
{
    double x[] = { -3, 0, 1.5 }, y[3];
    qkv_kernel()->exp(y, x, 3);
    for (int i = 0; i < 3; i++) CHECK(y[i] == exp(x[i]));
}
CHECK_MAIN(CASE(exp_is_that_of_the_c_library))
#endif
