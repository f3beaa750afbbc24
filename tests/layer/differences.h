// SPDX-License-Identifier: MIT
// differences.h: provides helpers for gradient tests: the numbers of the golden scripts, comparison
// with golden results, and central differences for the build in double.
#ifndef QKV_DIFFERENCES_H
#define QKV_DIFFERENCES_H
#include "check.h"
#include "golden_layers.h"
#include "kernel/kernel.h"

#ifdef QKV_DOUBLE
#define U 0x1p-53
#else
#define U 0x1p-24
#endif

// Returns the next n input numbers of the golden script; *count is the index of the next number.
static inline real *made(int64_t *count, int64_t n, double size)
{
    real *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (real)golden_made((*count)++, size);
    return x;
}

static inline real *zeros(int64_t n)
{
    real *x = fenced((size_t)n * sizeof *x);
    memset(x, 0, (size_t)n * sizeof *x);
    return x;
}

// Checks that x[n] equals the next n numbers of *golden, within `units` ulp of the larger of 1 and
// their maximum.
static inline void check_golden(const real *x, const double **golden, int64_t n, double units)
{
    double top = 1;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs((*golden)[i]));
    for (int64_t i = 0; i < n; i++) CHECK_NEAR((double)x[i], (*golden)[i], units * U * top);
    *golden += n;
}

// Compares the computed gradient[n] with (value(x + h) - value(x - h)) / 2h for each element of x.
// In double, with h = 2^-17, the difference has an error of h^2 / 6 times the third derivative,
// 1e-11 of it, plus the rounding error of value divided by h, some 2^-53 2^17; the test requires
// 1e-6 of the largest gradient.
typedef double check_value(void *ctx);
static inline void check_differences(real *x, const real *gradient, int64_t n, check_value *value,
                                     void *ctx)
{
    const double h = 0x1p-17;
    double top = 0x1p-10;
    if (sizeof(real) != sizeof(double)) return;
    for (int64_t i = 0; i < n; i++) top = fmax(top, fabs((double)gradient[i]));
    for (int64_t i = 0; i < n; i++) {
        const real kept = x[i];
        x[i] = (real)((double)kept + h);
        const double above = value(ctx), width = (double)x[i];
        x[i] = (real)((double)kept - h);
        const double below = value(ctx);
        CHECK_NEAR((double)gradient[i], (above - below) / (width - (double)x[i]), 1e-6 * top);
        x[i] = kept;
    }
}
#endif
