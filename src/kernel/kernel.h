// SPDX-License-Identifier: MIT
// kernel.h: the door of room kernel: one table of functions a CPU, and what each must do.
//
// Contracts: void functions, sizes were checked above.  Pointers may be misaligned unless said
// otherwise; nothing outside the arguments is read or written.  Same inputs, same bits, on one ISA:
// a row's result never depends on the rows beside it.
#ifndef QKV_ROOM_KERNEL_H
#define QKV_ROOM_KERNEL_H

#include "base/base.h"

#ifdef QKV_DOUBLE
typedef double real; // the gradcheck build
#else
typedef float real;
#endif

// Functions of one number that layers apply.  GELU: x Phi(x) (erf); GELU_TANH: its tanh approximation,
// Hendrycks & Gimpel 2016 (arXiv 1606.08415); SiLU: x / (1 + exp(-x)).
enum qkv_activation {
    QKV_ACT_NONE = 0, QKV_ACT_RELU, QKV_ACT_GELU, QKV_ACT_GELU_TANH, QKV_ACT_SILU, QKV_ACT_TANH
};

// A linear product sums its inner axis in chunks of this many, each from 0 upwards, then adds the chunks
// left to right: the same for every number of rows and columns, so that a row's bits are its own.
enum { QKV_LINEAR_CHUNK = 384 };

// What happens to a sum s of column n before it is stored:  y = act(scale s + b) + residual.
struct qkv_linear_tail {
    const real *b;         // [N] or NULL
    real scale;            // 1: none
    enum qkv_activation act;
    const real *residual;  // [rows][N] residual_ld apart, NULL: none; may be y itself
    int64_t residual_ld;
    real *before;          // takes the argument of act, before_ld apart; NULL: not kept
    int64_t before_ld;
};
// The packing of weights and the product that reads it belong together: one slot.
struct qkv_linear_kernel {
    int64_t panel;         // columns that are packed side by side
    // panels[ceil(N / panel)][K][panel] = w[n ldn + k ldk], 0 past N.
    void (*pack)(real *panels, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk);
    // y[rows][N] = tail(x[rows][K] w^T); rows ldy, ldx apart; x and y apart.  K = 0: the sum is 0.
    void (*rows)(real *y, int64_t ldy, const real *x, int64_t ldx, const real *panels, int64_t rows,
                 int64_t K, int64_t N, const struct qkv_linear_tail *tail);
};

// One pointer a kernel and nothing else: select.c overlays it slot by slot.
struct qkv_kernels {
    const char *isa;

    // y[r][n] = softmax of x[r][n]; rows ldx, ldy apart; in place allowed.
    // A row of -INFINITY gives 0; NaN or +INFINITY gives NaN.
    void (*softmax_rows)(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx);

    const struct qkv_linear_kernel *linear;

    // y[i] = act(x[i]); in place allowed.
    void (*activation)(real *y, const real *x, int64_t n, enum qkv_activation act);
    // s = x + residual (NULL: x);  y = (s - mean) rstd w + b,  rstd = 1/sqrt(var + eps); w NULL: 1, b NULL: 0.
    // Passes over one row: the mean; what is left of it and its squares (the mean was rounded: what is left
    // is taken out too, so that a large mean costs nothing); the result.  sum takes s, mean (as rounded) and
    // rstd [rows]; NULL: not kept.  y, sum, x, residual are [rows][D] and may coincide.
    void (*norm_rows)(real *y, real *sum, real *mean, real *rstd, const real *x, const real *residual,
                      const real *w, const real *b, real eps, int64_t rows, int64_t D);
    // y[n] = scale a + b + c, from the left; b, c NULL: left out.
    void (*embed_row)(real *y, const real *a, real scale, const real *b, const real *c, int64_t n);
};

// The table in use: the scalar one overlaid with every supported row of isa.def, up to QKV_ISA.
const struct qkv_kernels *qkv_kernel(void);
// The table of the n-th supported ISA (0 scalar, weakest first) with all below it overlaid; NULL past the last.
const struct qkv_kernels *qkv_kernel_isa(int n);
// For tests and bench: qkv_kernel() answers this table until NULL is given.
void qkv_kernel_use(const struct qkv_kernels *k);
#endif
