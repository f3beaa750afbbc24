// SPDX-License-Identifier: MIT
// check_attention.c: checks the gradients of attention with respect to q, k and v, with every
// option that changes a score. The gradients of its tables (bias, relative positions, slopes,
// sinks), which are floats, are checked in tests/layer/attention/test_attention_gradients.c.
#include "gradcheck.h"
#include <math.h>

struct attention {
    struct qkv_attention a;
    real *q, *k, *v, *dq, *dk, *dv, *out, *lse, *weight;
    void *scratch;
    int64_t n; // number of elements of out
};

static double attention_loss(void *ctx)
{
    const struct attention *x = ctx;
    double sum = 0;
    if (qkv_attention_real(x->out, x->lse, NULL, x->q, x->k, x->v, &x->a, x->scratch)) return NAN;
    for (int64_t i = 0; i < x->n; i++) sum += (double)(x->out[i] * x->weight[i]);
    return sum;
}

static void attention_backward(void *ctx)
{
    const struct attention *x = ctx;
    attention_loss(ctx);
    if (qkv_attention_real_backward(x->dq, x->dk, x->dv, NULL, x->weight, x->q, x->k, x->v, x->out,
                                    x->lse, &x->a, x->scratch))
        x->dq[0] = NAN;
}

static const float *table(struct gradcheck *g, int64_t n)
{
    const real *from = gradcheck_random(g, n, 1);
    float *to = gradcheck_memory(g, (size_t)n * sizeof *to);
    for (int64_t i = 0; i < n; i++) to[i] = (float)from[i];
    return to;
}

// Checks the gradients of one attention. The caller sets sizes, masks, precision and dropout in
// `a`; this function sets the other members.
static void run(struct gradcheck *g, struct qkv_attention a, bool biased)
{
    struct attention x = { .a = a };
    const int64_t rows = a.B * a.T * a.H;
    if (biased) {
        x.a.bias.at = table(g, a.H * a.T * a.S);
        x.a.bias.h = a.T * a.S;
        x.a.bias.t = a.S;
        x.a.relative.reach = 3;
        x.a.relative.at = table(g, a.H * 7);
        x.a.alibi = table(g, a.H);
        x.a.sinks = table(g, a.H);
    }
    x.n = rows * a.F;
    x.q = gradcheck_numbers(g, "q", rows * a.E, 1, &x.dq);
    x.k = gradcheck_numbers(g, "k", a.B * a.S * a.G * a.E, 1, &x.dk);
    x.v = gradcheck_numbers(g, "v", a.B * a.S * a.G * a.F, 1, &x.dv);
    x.weight = gradcheck_random(g, x.n, 1);
    x.out = gradcheck_random(g, x.n, 1);
    x.lse = gradcheck_random(g, rows, 1);
    qkv_status status;
    const size_t bytes = qkv_attention_real_scratch(&x.a, true, &status);
    if (status) {
        gradcheck_fail(g, "the attention kernel cannot compute this case");
        return;
    }
    x.scratch = gradcheck_memory(g, bytes);
    gradcheck_run(g, attention_loss, attention_backward, &x);
    gradcheck_end(g);
}

void check_attention(struct gradcheck *g)
{
    static const int64_t queries[] = { 0, 4, 4, 9 }, keys[] = { 1, 8, 9, 13 }, lengths[] = { 9, 4 };
    const struct qkv_attention plain = { .B = 2, .T = 7, .S = 9, .H = 4, .G = 2, .E = 5, .F = 3 };
    struct qkv_attention a = plain;
    run(g, a, false);
    a.causal = true;
    a.diagonal = QKV_BOTTOM_RIGHT;
    run(g, a, true);
    a = plain;
    a.window.on = true;
    a.window.left = 2;
    a.window.right = 1;
    a.softcap = 1.5f;
    a.k_lengths = lengths;
    run(g, a, true);
    a = plain;
    a.dropout.p = .3f;
    a.dropout.seed = 5;
    run(g, a, false);
    a.sequences = 3; // some tokens are in no sequence, and one sequence has no rows
    a.B = 1;
    a.T = 11;
    a.S = 14;
    a.q_offsets = queries;
    a.k_offsets = keys;
    run(g, a, true);
    a = (struct qkv_attention){ .B = 1, .T = 3, .S = 600, .H = 1, .G = 1, .E = 2, .F = 2 };
    a.causal = true;
    a.diagonal = QKV_BOTTOM_RIGHT;
    run(g, a, false); // so many keys are processed in several parts
}

// ---- linear ------------------------------------------------------------------------------------
struct linear {
    struct qkv_linear_attention a;
    real *q, *k, *v, *dq, *dk, *dv, *out, *norm, *weight;
    void *scratch;
    int64_t n; // number of elements of out
};

static double linear_loss(void *ctx)
{
    const struct linear *x = ctx;
    double sum = 0;
    if (qkv_linear_attention_real(x->out, x->norm, x->q, x->k, x->v, &x->a, x->scratch)) return NAN;
    for (int64_t i = 0; i < x->n; i++) sum += (double)(x->out[i] * x->weight[i]);
    return sum;
}

static void linear_backward(void *ctx)
{
    const struct linear *x = ctx;
    linear_loss(ctx);
    if (qkv_linear_attention_real_backward(x->dq, x->dk, x->dv, x->weight, x->q, x->k, x->v, x->out,
                                           x->norm, &x->a, x->scratch))
        x->dq[0] = NAN;
}

static void run_linear(struct gradcheck *g, struct qkv_linear_attention a)
{
    struct linear x = { .a = a, .n = a.B * a.T * a.H * a.F };
    qkv_status status[2];
    const size_t forward = qkv_linear_attention_real_scratch(&a, false, &status[0]);
    const size_t backward = qkv_linear_attention_real_scratch(&a, true, &status[1]);
    x.q = gradcheck_numbers(g, "q", a.B * a.T * a.H * a.E, 1, &x.dq);
    x.k = gradcheck_numbers(g, "k", a.B * a.S * a.G * a.E, 1, &x.dk);
    x.v = gradcheck_numbers(g, "v", a.B * a.S * a.G * a.F, 1, &x.dv);
    x.weight = gradcheck_random(g, x.n, 1);
    x.out = gradcheck_random(g, x.n, 1);
    x.norm = gradcheck_random(g, a.B * a.T * a.H, 1);
    if (status[0] || status[1]) {
        gradcheck_fail(g, "the linear attention kernel cannot compute this case");
        return;
    }
    x.scratch = gradcheck_memory(g, forward > backward ? forward : backward);
    gradcheck_run(g, linear_loss, linear_backward, &x);
    gradcheck_end(g);
}

void check_linear_attention(struct gradcheck *g)
{
    static const int64_t lengths[] = { 4, 9, 0 };
    struct qkv_linear_attention a = { .B = 3, .T = 7, .S = 9, .H = 4, .G = 2, .E = 5, .F = 3 };
    run_linear(g, a);
    a.k_lengths = lengths;
    run_linear(g, a);
    a.causal = true;
    a.T = 9;
    run_linear(g, a);
    a = (struct qkv_linear_attention){ .B = 1, .T = 300, .H = 2, .G = 1, .E = 3, .F = 2 };
    a.S = a.T;
    run_linear(g, a); // so many keys are processed in several chunks
    a.causal = true;
    run_linear(g, a);
}
