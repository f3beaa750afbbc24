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

struct qkv_kernels {
    const char *isa;

    // y[r][n] = softmax of x[r][n]; rows ldx, ldy apart; in place allowed.
    // A row of -INFINITY gives 0; NaN or +INFINITY gives NaN.
    void (*softmax_rows)(real *y, const real *x, int64_t rows, int64_t n, int64_t ldy, int64_t ldx);
};

// The table in use: the scalar one overlaid with every supported row of isa.def, up to QKV_ISA.
const struct qkv_kernels *qkv_kernel(void);
// The table of the n-th supported ISA (0 scalar, weakest first) with all below it overlaid; NULL past the last.
const struct qkv_kernels *qkv_kernel_isa(int n);
// For tests and bench: qkv_kernel() answers this table until NULL is given.
void qkv_kernel_use(const struct qkv_kernels *k);
#endif
