// SPDX-License-Identifier: MIT
// linear_work.h: declares the internal parts of the linear layer: products whose weights are packed
// during the call.
#ifndef QKV_LINEAR_WORK_H
#define QKV_LINEAR_WORK_H

#include "layer/layer.h"

enum { QKV_LINEAR_K_BITS = 40 }; // limit of K, 2^40: below it the bytes of a panel fit into 64 bits

// Returns the operations after a product for the block of the result that starts at row r and column
// n: the bias b, a->residual and a->before from that row and column on. N is the number of columns
// of the whole result.
struct qkv_linear_tail qkv_linear_tail_at(int64_t N, const real *b, const struct qkv_after *a,
                                          int64_t r, int64_t n);

// The arguments of a product y[R][N] = after(x[R][K] w^T + b); element k of column n of w is w[n
// ldn + k ldk].
struct qkv_linear_pass {
    void *y;
    const void *x, *w;
    qkv_dtype type; // type of the weights w
    const real *b;  // bias, [N]; NULL: none
    int64_t ldy, ldx, ldn, ldk, R, K, N;
    const struct qkv_after *after; // operations on the result; NULL: no operations
    const struct qkv_linear_kernel *kernel;
    int threads;
    void *scratch; // workspace for `threads` threads
};
size_t qkv_linear_pass_scratch(const struct qkv_linear_kernel *kernel, int threads, int64_t K,
                               int64_t N);
void qkv_linear_pass(const struct qkv_linear_pass *p);
#endif
