// SPDX-License-Identifier: MIT
// linear_work.h: inside of the linear layer: products whose weights are packed on their way.
#ifndef QKV_LINEAR_WORK_H
#define QKV_LINEAR_WORK_H

#include "layer/layer.h"

enum {
    QKV_LINEAR_K_BITS = 40
}; // of a K that some memory might hold: below it no panel's bytes leave 64 bits

// The tail of a product whose columns begin at n of a part N wide, and whose rows at r.
struct qkv_linear_tail qkv_linear_tail_at(int64_t N, const real *b, const struct qkv_after *a,
                                          int64_t r, int64_t n);

// y[R][N] = after(x[R][K] w^T + b), column n of w at w[n ldn + k ldk].
struct qkv_linear_pass {
    void *y;
    const void *x, *w;
    qkv_dtype type; // of w
    const real *b;  // [N] or NULL
    int64_t ldy, ldx, ldn, ldk, R, K, N;
    const struct qkv_after *after; // NULL: none
    const struct qkv_linear_kernel *kernel;
    int threads;
    void *scratch; // of so many threads
};
size_t qkv_linear_pass_scratch(const struct qkv_linear_kernel *kernel, int threads, int64_t K,
                               int64_t N);
void qkv_linear_pass(const struct qkv_linear_pass *p);
#endif
