// SPDX-License-Identifier: MIT
// verify_dense.c: tests layer norm and softmax of rows. docs/numerics.md derives their bounds.
#include "verify/verify.h"
#include <stdlib.h>
#include <string.h>

enum { FULL, QUICK };

static const struct {
    int64_t D;
    int when;
} widths[] = {
#define VERIFY_ROW(D, WHEN) { D, WHEN },
#include "verify/verify_grid.def"
#undef VERIFY_ROW
};

static float *normals(int64_t n, double mean, double spread, struct verify_random *r)
{
    float *x = cmd_alloc((size_t)n, sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)(mean + spread * verify_normal(r));
    return x;
}

static struct verify_row *row_of(const char *kernel)
{
    return verify_row(kernel, qkv_isa(), "f32", "float", QKV_F32, 1.5);
}

// ---- layer norm --------------------------------------------------------------------------------
enum { NORM_ROWS = 64 };

static void plain_norm(float *y, const float *x, const float *w, const float *b, float eps,
                       int64_t D)
{
    float mean = 0, squares = 0;
    for (int64_t i = 0; i < D; i++) mean += x[i];
    mean /= (float)D;
    for (int64_t i = 0; i < D; i++) squares += (x[i] - mean) * (x[i] - mean);
    const float rstd = 1 / sqrtf(squares / (float)D + eps);
    for (int64_t i = 0; i < D; i++) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
}

static void norm(int64_t D, double mean, double spread, const struct verify_options *o)
{
    struct verify_random r = { o->seed ^ (uint64_t)D << 20 };
    struct verify_measure m = { 0 };
    char name[96];
    const float eps = 1e-5f;
    float *x = normals(NORM_ROWS * D, mean, spread, &r), *w = normals(D, 1, 0.3, &r),
          *b = normals(D, 0, 1, &r), *y = cmd_alloc((size_t)(NORM_ROWS * D), sizeof *y),
          *plain = cmd_alloc((size_t)D, sizeof *plain);
    snprintf(name, sizeof name, "D %lld: mean %g, spread %g", (long long)D, mean, spread);
    qkv_layer_norm(y, x, w, b, eps, NORM_ROWS, D);
    for (int64_t row = 0; row < NORM_ROWS; row++) {
        const float *xr = x + row * D;
        double sum = 0, squares = 0;
        for (int64_t i = 0; i < D; i++) sum += (double)xr[i];
        const double middle = sum / (double)D;
        for (int64_t i = 0; i < D; i++)
            squares += ((double)xr[i] - middle) * ((double)xr[i] - middle);
        const double rstd = 1 / sqrt(squares / (double)D + (double)eps);
        plain_norm(plain, xr, w, b, eps, D);
        for (int64_t i = 0; i < D; i++) {
            const double n = ((double)xr[i] - middle) * rstd,
                         exact = n * (double)w[i] + (double)b[i];
            const double bound = VERIFY_U_F32 * ((((double)D + 8) * (1 + fabs(n)) + 8 * fabs(n)) *
                                                     fabs((double)w[i]) +
                                                 2 * fabs((double)b[i]));
            verify_one(&m, (double)y[row * D + i], exact, bound);
            m.plain = fmax(m.plain, fabs((double)plain[i] - exact));
        }
    }
    free(x), free(w), free(b), free(y), free(plain);
    m.in_order = m.plain;
    verify_add(row_of("layer norm"), name, &m, o);
}

// ---- softmax -----------------------------------------------------------------------------------
enum { SOFTMAX_ROWS = 64 };

// Compares a softmax row y with the exact values. With u the relative error of one rounding, the
// bound is the sum of: |x - max| u for the rounding of x - max; 2 ulp for exp; n u for the sum; u
// for the quotient. The errors of the terms contribute their weighted mean to the sum. A result
// below 2^-126 may be 0.
static void softmax_row(struct verify_measure *m, const float *y, const float *x, int64_t n)
{
    double top = -INFINITY, sum = 0, moved = 0;
    float most = -INFINITY, total = 0;
    for (int64_t i = 0; i < n; i++) top = fmax(top, (double)x[i]);
    for (int64_t i = 0; i < n; i++) {
        const double p = exp((double)x[i] - top);
        sum += p;
        moved += p * (top - (double)x[i]);
    }
    most = (float)top;
    for (int64_t i = 0; i < n; i++) total += expf(x[i] - most);
    for (int64_t i = 0; i < n; i++) {
        const double far = top - (double)x[i], exact = exp(-far) / sum;
        const double bound = VERIFY_U_F32 * (far + moved / sum + (double)n + 16) * exact + 0x1p-125;
        verify_one(m, (double)y[i], exact, bound);
        m->plain = fmax(m->plain, fabs((double)(expf(x[i] - most) / total) - exact));
    }
}

static void softmax(int64_t n, double spread, const struct verify_options *o)
{
    struct verify_random r = { o->seed ^ (uint64_t)n << 40 };
    struct verify_measure m = { 0 };
    char name[96];
    float *x = normals(SOFTMAX_ROWS * n, 0, spread, &r),
          *y = cmd_alloc((size_t)(SOFTMAX_ROWS * n), sizeof *y);
    for (int64_t row = 0; row < SOFTMAX_ROWS && n > 3;
         row++) // some scores near the maximum, so that they compete even if the spread is large
        for (int64_t i = 0; i < 4; i++)
            x[row * n + verify_pick(&r, n)] = (float)(4 * spread + verify_normal(&r));
    snprintf(name, sizeof name, "n %lld: scores x%g", (long long)n, spread);
    qkv_softmax_rows(y, x, SOFTMAX_ROWS, n, n, n);
    for (int64_t row = 0; row < SOFTMAX_ROWS; row++) softmax_row(&m, y + row * n, x + row * n, n);
    free(x), free(y);
    m.in_order = m.plain;
    verify_add(row_of("softmax"), name, &m, o);
}

static void run_all(const struct verify_options *o)
{
    static const struct {
        double mean, spread;
    } rows[] = { { 0, 1 }, { 3, 0.2 }, { 1e4, 0.01 } };
    static const double spreads[] = { 1, 30, 1000 };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (o->quick && widths[i].when != QUICK) continue;
        for (size_t n = 0; n < 3; n++) norm(widths[i].D, rows[n].mean, rows[n].spread, o);
        for (size_t n = 0; n < 3; n++) softmax(widths[i].D, spreads[n], o);
    }
}

qkv_status verify_dense(const struct verify_options *o)
{
    // these kernels have no other precision than float
    if (o->precision > QKV_PRECISION_F32_STRICT) return QKV_OK;
    for (int i = 0; qkv_isa_supported(i); i++) {
        if (o->isa && strcmp(o->isa, qkv_isa_supported(i)) != 0) continue;
        const qkv_status status = qkv_isa_set(qkv_isa_supported(i));
        if (status) return status;
        run_all(o);
    }
    return QKV_OK;
}
