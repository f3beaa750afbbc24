// SPDX-License-Identifier: MIT
// activation.c: a function of one number over an array, where no product stands before it.
#include "layer/layer.h"

enum { BLOCK = 16384 }; // numbers a task

struct job {
    real *y;
    const real *x;
    int64_t n;
    enum qkv_activation act;
};

static void task(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    const int64_t at = i * BLOCK;
    qkv_kernel()->activation(j->y + at, j->x + at, qkv_min64(BLOCK, j->n - at), j->act);
}

void qkv_activation_forward(real *y, const real *x, int64_t n, enum qkv_activation act)
{
    struct job j = { y, x, n, act };
    qkv_parallel_for(qkv_ceil_div(n, BLOCK), task, &j);
}
