// SPDX-License-Identifier: MIT
// test_activation.c: compares every activation of every ISA with double, over floats of every
// magnitude.
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
#if defined(QKV_EMULATED) || QKV_FEW
enum { STEP = 32003, MANY = 1 << 16 };
#else
enum { STEP = 2003, MANY = 1 << 20 };
#endif
static const enum qkv_activation all[] = { QKV_ACT_NONE,       QKV_ACT_RELU,  QKV_ACT_GELU,
                                           QKV_ACT_GELU_TANH,  QKV_ACT_SILU,  QKV_ACT_TANH,
                                           QKV_ACT_QUICK_GELU, QKV_ACT_RELU2, QKV_ACT_RELU6,
                                           QKV_ACT_MISH };

// Computes the formulas of kernel.h in double; each branch keeps its relative accuracy.
static double exact(double x, enum qkv_activation act)
{
    const double u2 = 1.5957691216057307118 * (x + 0.044715 * x * x * x);
    switch (act) {
    case QKV_ACT_NONE: break;
    case QKV_ACT_RELU: return x < 0 ? 0 : x;
    case QKV_ACT_GELU: return 0.5 * x * erfc(-x * 0.70710678118654752440);
    case QKV_ACT_GELU_TANH: return u2 < -700 ? 0 : x / (1 + exp(-u2));
    case QKV_ACT_SILU: return x < -700 ? 0 : x / (1 + exp(-x));
    case QKV_ACT_TANH: return tanh(x);
    case QKV_ACT_QUICK_GELU: return x < -400 ? 0 : x / (1 + exp(-1.702 * x));
    case QKV_ACT_RELU2: return x < 0 ? 0 : x * x;
    case QKV_ACT_RELU6: return x < 0 ? 0 : fmin(x, 6);
    case QKV_ACT_MISH: return x < -700 ? 0 : x * tanh(log1p(exp(fmin(x, 700))));
    }
    return x;
}

// Returns the distance of adjacent floats at v; it is constant below the normal numbers.
static double ulp(double v)
{
    return v == 0 ? 0x1p-149 : fmax(ldexp(1, ilogb(v) - 23), 0x1p-149);
}

// Returns the error bound: 4 ulp, as documented in kernel/body/activation.h. The argument 2u of the
// tanh GELU has three roundings and two rounded constants, each of at most half an ulp, and exp
// turns a relative error e of its argument into |2u| e; that of the quick GELU has one of each.
static double bound(double x, double y, enum qkv_activation act)
{
    double units = 4;
    if (act == QKV_ACT_GELU_TANH && x < 0)
        units += 2.5 * fabs(1.5957691216057307118 * (x + 0.044715 * x * x * x));
    if (act == QKV_ACT_QUICK_GELU && x < 0) units += 2 * 1.702 * fabs(x);
    return units * ulp(y);
}

TEST(errors_stay_within_four_units_over_all_sizes_of_float)
{
    enum { BLOCK = 4099 }; // odd, so that a block ends inside a vector
    static float x[BLOCK], y[BLOCK];
    EACH_ISA(k) EACH(act, all)
    {
        for (uint64_t bits = 0; bits < UINT64_C(1) << 32;) {
            int n = 0;
            for (; n < BLOCK && bits < UINT64_C(1) << 32; bits += STEP) {
                const uint32_t pattern = (uint32_t)bits;
                memcpy(&x[n], &pattern, sizeof x[n]);
                n += isfinite(x[n]) && fabsf(x[n]) < 1e30f;
            }
            k->activation(y, x, QKV_REAL, n, *act);
            for (int i = 0; i < n; i++) {
                const double want = exact((double)x[i], *act);
                if (want > (double)FLT_MAX && isinf(y[i])) continue; // the square of a large number
                if (!(fabs((double)y[i] - want) <= bound((double)x[i], want, *act)))
                    fail_msg("%s, activation %d of %.9g: %.9g, expected %.12g (%.2f units)", k->isa,
                             (int)*act, (double)x[i], (double)y[i], want,
                             ((double)y[i] - want) / ulp(want));
            }
        }
    }
}

TEST(errors_stay_within_four_units_where_models_live)
{
    enum { N = MANY };
    static float x[N], y[N];
    for (int i = 0; i < N; i++) x[i] = (float)(16.0 * check_random());
    EACH_ISA(k) EACH(act, all)
    {
        k->activation(y, x, QKV_REAL, N, *act);
        for (int i = 0; i < N; i++) {
            const double want = exact((double)x[i], *act);
            CHECK_NEAR((double)y[i], want, bound((double)x[i], want, *act));
        }
    }
}

TEST(infinities_give_limits_and_nan_stays)
{
    EACH_ISA(k) EACH(act, all)
    {
        const float x[] = { INFINITY, -INFINITY, NAN, FLT_MAX, -FLT_MAX, 0, -0.0f };
        float y[7];
        k->activation(y, x, QKV_REAL, 7, *act);
        const float up = *act == QKV_ACT_TANH ? 1 : *act == QKV_ACT_RELU6 ? 6 : INFINITY;
        const float down = *act == QKV_ACT_NONE ? -INFINITY : *act == QKV_ACT_TANH ? -1 : 0;
        if (y[0] != up || y[1] != down || !isnan(y[2]))
            fail_msg("%s, activation %d: %g %g %g", k->isa, (int)*act, (double)y[0], (double)y[1],
                     (double)y[2]);
        CHECK(y[3] == (*act == QKV_ACT_RELU2 || up < 7 ? up : FLT_MAX));
        CHECK(*act == QKV_ACT_NONE ? y[4] == -FLT_MAX : y[4] == (*act == QKV_ACT_TANH ? -1.0f : 0));
        CHECK(y[5] == 0 && y[6] == 0);
    }
}

TEST(a_number_has_the_same_bits_at_every_place)
{
    EACH_ISA(k) EACH(act, all)
    {
        for (int64_t n = 0; n <= 3 * 16 + 3; n++) {
            float *x = fenced_random(n), *y = fenced((size_t)n * sizeof *y), one;
            k->activation(y, x, QKV_REAL, n, *act);
            for (int64_t i = 0; i < n; i++) {
                k->activation(&one, x + i, QKV_REAL, 1, *act);
                CHECK_BITS(&one, &y[i], sizeof one);
            }
            k->activation(x, x, QKV_REAL, n, *act); // in place: allowed by kernel.h
            CHECK_BITS(x, y, (size_t)n * sizeof *x);
            fence_free();
        }
    }
}

CHECK_MAIN(CASE(errors_stay_within_four_units_over_all_sizes_of_float),
           CASE(errors_stay_within_four_units_where_models_live),
           CASE(infinities_give_limits_and_nan_stays),
           CASE(a_number_has_the_same_bits_at_every_place))
#endif
