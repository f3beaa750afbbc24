// SPDX-License-Identifier: MIT
// norm.c: computes layer norm over the last axis. Ba, Kiros, Hinton 2016 (arXiv 1607.06450).
//   n = (s - mean) * rstd,   rstd = 1/sqrt(var + eps),   y = w*n + b,   s = x + residual
#include "layer/layer_internal.h"

enum { ROWS = 32 }; // rows per task

struct job {
    real *y, *sum;
    const struct qkv_norm_keep *keep;
    const real *x, *residual;
    int64_t R;
    const struct qkv_norm *p;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const int64_t r = i * ROWS, at = r * j->p->D;
    const struct qkv_norm_keep none = { NULL, NULL }, *keep = j->keep ? j->keep : &none;
    qkv_kernel()->norm_rows(j->y + at, j->sum ? j->sum + at : NULL,
                            keep->mean ? keep->mean + r : NULL, keep->rstd ? keep->rstd + r : NULL,
                            j->x + at, j->residual ? j->residual + at : NULL, j->p->w, j->p->b,
                            j->p->eps, qkv_min64(ROWS, j->R - r), j->p->D);
}

void qkv_norm_forward(real *y, real *sum, const struct qkv_norm_keep *keep, const real *x,
                      const real *residual, int64_t R, const struct qkv_norm *p)
{
    struct job j = { y, sum, keep, x, residual, R, p };
    qkv_parallel_for(qkv_ceil_div(R, ROWS), task, &j);
}
