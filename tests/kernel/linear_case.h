// SPDX-License-Identifier: MIT
// linear_case.h: creates a product for the tests of linear kernels: random numbers, packed weights,
// and the numbers as a precision rounds them.
#ifndef QKV_LINEAR_CASE_H
#define QKV_LINEAR_CASE_H
#include "check.h"
#include "kernel/kernel.h"
#include <float.h>

static const qkv_precision linear_precisions[] = { QKV_PRECISION_F32,      QKV_PRECISION_F32_STRICT,
                                                   QKV_PRECISION_F32_FAST, QKV_PRECISION_BF16,
                                                   QKV_PRECISION_F16,      QKV_PRECISION_INT8 };

struct product {
    const struct qkv_linear_kernel *kernel;
    qkv_precision precision;
    float *x, *w, *b, *y;
    void *panels;
    int64_t rows, K, N;
};

// Allocates each array in a block that ends at a guard page, so that an access past its end stops
// the test.
static inline struct product product(const struct qkv_kernels *k, qkv_precision precision,
                                     int64_t rows, int64_t K, int64_t N)
{
    const struct qkv_linear_kernel *kernel = k->linear[precision];
    struct product p = { .kernel = kernel,
                         .precision = precision,
                         .x = fenced_random(rows * K),
                         .w = fenced_random(N * K),
                         .b = fenced_random(N),
                         .rows = rows,
                         .K = K,
                         .N = N };
    const int64_t panels = (N + kernel->panel - 1) / kernel->panel;
    p.panels = fenced((size_t)panels * kernel->panel_bytes(K));
    p.y = fenced((size_t)(rows * N) * sizeof(float));
    kernel->pack(p.panels, p.w, QKV_REAL, K, N, K, 1);
    return p;
}

static inline void product_run(const struct product *p, struct qkv_linear_tail tail)
{
    p->kernel->rows(p->y, p->N, p->x, p->K, p->panels, p->rows, p->K, p->N, &tail);
}

// Returns a number as the precision multiplies it; linear_quantised handles INT8.
static inline float linear_number(float x, qkv_precision p)
{
    if (p == QKV_PRECISION_BF16) return qkv_bf16_to_f32(qkv_f32_to_bf16(x));
    if (p == QKV_PRECISION_F16) return qkv_f16_to_f32(qkv_f32_to_f16(x));
    return x;
}

// Quantises x[n] to q[n] and returns the scale.
static inline float linear_quantised(int32_t *q, const float *x, int64_t n)
{
    float highest = 0;
    for (int64_t i = 0; i < n; i++) highest = fmaxf(highest, fabsf(x[i]));
    const float inverse = highest > 0 ? 127 / highest : 0;
    for (int64_t i = 0; i < n; i++) q[i] = (int32_t)lrintf(x[i] * inverse);
    return highest / 127;
}

// Error bound: |error| <= gamma_n sum |x||w|, where n is the number of roundings of a product: the
// chain of its chunk (twice that without fma), the sums of the chunks, scale and bias. Higham 2002,
// Accuracy and Stability, 3.1.
static inline double linear_gamma(int64_t K)
{
    const double chain = 2 * (double)(K < QKV_LINEAR_CHUNK ? K : QKV_LINEAR_CHUNK);
    const double n = chain + (double)(K / QKV_LINEAR_CHUNK) + 3, u = FLT_EPSILON / 2;
    return n * u / (1 - n * u);
}
#endif
