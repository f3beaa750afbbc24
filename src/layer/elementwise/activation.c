// SPDX-License-Identifier: MIT
// activation.c: applies activation functions and their gated forms, with gradients for training.
//   y = act(a):    da = dy act'(a)
//   y = act(g) u:  dg = dy u act'(g),   du = dy act(g)
#include "layer/layer.h"

enum { BLOCK = 8192 }; // elements per task

// One call. `out` and `in` have the order of the kernel's arguments; NULL: the kernel has no such
// argument.
struct job {
    void *out[2];
    const void *in[3];
    qkv_dtype type;
    int64_t n;
    enum qkv_activation act;
};

static void *out(const struct job *j, int k, int64_t i)
{
    return (char *)j->out[k] + (size_t)(i * BLOCK) * qkv_dtype_size(j->type);
}
static const void *in(const struct job *j, int k, int64_t i)
{
    return (const char *)j->in[k] + (size_t)(i * BLOCK) * qkv_dtype_size(j->type);
}
static int64_t numbers(const struct job *j, int64_t i)
{
    return qkv_min64(BLOCK, j->n - i * BLOCK);
}

static void forward(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    qkv_kernel()->activation(out(j, 0, i), in(j, 0, i), j->type, numbers(j, i), j->act);
}

static void backward(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    qkv_kernel()->activation_backward(out(j, 0, i), in(j, 0, i), in(j, 1, i), j->type,
                                      numbers(j, i), j->act);
}

static void gated(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    qkv_kernel()->gated(out(j, 0, i), in(j, 0, i), in(j, 1, i), j->type, numbers(j, i), j->act);
}

static void gated_back(void *ctx, int64_t i, int thread)
{
    (void)thread;
    const struct job *j = ctx;
    qkv_kernel()->gated_backward(out(j, 0, i), out(j, 1, i), in(j, 0, i), in(j, 1, i), in(j, 2, i),
                                 j->type, numbers(j, i), j->act);
}

static void run(struct job j, void (*task)(void *ctx, int64_t i, int thread))
{
    if (!j.type) j.type = QKV_REAL;
    qkv_parallel_for(qkv_ceil_div(j.n, BLOCK), task, &j);
}

void qkv_activation_forward(void *y, const void *a, qkv_dtype t, int64_t n, enum qkv_activation act)
{
    run((struct job){ { y, NULL }, { a, NULL, NULL }, t, n, act }, forward);
}

void qkv_activation_backward(void *da, const void *dy, const void *a, qkv_dtype t, int64_t n,
                             enum qkv_activation act)
{
    run((struct job){ { da, NULL }, { dy, a, NULL }, t, n, act }, backward);
}

void qkv_gated_forward(void *y, const void *g, const void *u, qkv_dtype t, int64_t n,
                       enum qkv_activation act)
{
    run((struct job){ { y, NULL }, { g, u, NULL }, t, n, act }, gated);
}

void qkv_gated_backward(void *dg, void *du, const void *dy, const void *g, const void *u,
                        qkv_dtype t, int64_t n, enum qkv_activation act)
{
    run((struct job){ { dg, du }, { dy, g, u }, t, n, act }, gated_back);
}
