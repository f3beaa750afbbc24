// SPDX-License-Identifier: MIT
// check_multi_head.c: checks the gradients of the public multi-head layer, with each score
// function. Its structs declare arrays of floats; in this program, which is compiled with double,
// they point to doubles.
#include "gradcheck.h"
#include <math.h>

#define F(p) ((float *)(void *)(p))

enum { B = 2, T = 4, S = 5, H = 4, G = 2, DQ = 6, DKV = 5, DK = 4, DV = 3, DOUT = 5, DA = 6 };

struct heads {
    struct qkv_multi_head m;
    struct qkv_multi_head_gradients g;
    struct qkv_multi_head_keep keep;
    struct qkv_attention a;
    real *x, *dx, *c, *dc, *out, *weight;
    void *scratch, *back;
};

static double heads_loss(void *ctx)
{
    const struct heads *j = ctx;
    double sum = 0;
    if (qkv_multi_head_forward(F(j->out), &j->keep, F(j->x), F(j->c), &j->m, &j->a, j->scratch))
        return NAN;
    for (int64_t i = 0; i < B * T * DOUT; i++) sum += (double)(j->out[i] * j->weight[i]);
    return sum;
}

static void heads_backward(void *ctx)
{
    const struct heads *j = ctx;
    heads_loss(ctx);
    if (qkv_multi_head_backward(F(j->dx), F(j->dc), &j->g, F(j->weight), &j->keep, F(j->x), F(j->c),
                                &j->m, &j->a, j->back))
        j->dx[0] = NAN;
}

static float *numbers(struct gradcheck *g, const char *name, int64_t n, float **gradient)
{
    real *d, *x = gradcheck_numbers(g, name, n, 0.7, &d);
    *gradient = F(d);
    return F(x);
}

static void check_score(struct gradcheck *g, enum qkv_score score)
{
    struct heads j = {
        .m = { .H = H,
               .G = G,
               .d_q = DQ,
               .d_kv = DKV,
               .d_k = DK,
               .d_v = DV,
               .d_out = DOUT,
               .d_a = DA,
               .score = score },
        .a = { .B = B, .T = T, .S = S, .causal = true, .diagonal = QKV_BOTTOM_RIGHT, .softcap = 4 }
    };
    j.x = gradcheck_numbers(g, "x", B * T * DQ, 1, &j.dx);
    j.c = gradcheck_numbers(g, "c", B * S * DKV, 1, &j.dc);
    j.m.w_q = numbers(g, "w_q", H * DK * DQ, &j.g.w_q);
    j.m.w_k = numbers(g, "w_k", G * DK * DKV, &j.g.w_k);
    j.m.w_v = numbers(g, "w_v", G * DV * DKV, &j.g.w_v);
    j.m.w_o = numbers(g, "w_o", DOUT * H * DV, &j.g.w_o);
    j.m.b_q = numbers(g, "b_q", H * DK, &j.g.b_q);
    j.m.b_v = numbers(g, "b_v", G * DV, &j.g.b_v);
    j.m.b_o = numbers(g, "b_o", DOUT, &j.g.b_o);
    if (score == QKV_SCORE_BILINEAR) j.m.w_s = numbers(g, "w_s", H * DK * DK, &j.g.w_s);
    if (score == QKV_SCORE_ADDITIVE) {
        j.m.w_aq = numbers(g, "w_aq", H * DA * DK, &j.g.w_aq);
        j.m.w_ak = numbers(g, "w_ak", H * DA * DK, &j.g.w_ak);
        j.m.w_a = numbers(g, "w_a", H * DA, &j.g.w_a);
    }
    j.keep.q = F(gradcheck_random(g, B * T * H * DK, 1));
    j.keep.k = F(gradcheck_random(g, B * S * G * DK, 1));
    j.keep.v = F(gradcheck_random(g, B * S * G * DV, 1));
    j.keep.heads = F(gradcheck_random(g, B * T * H * DV, 1));
    j.keep.lse = F(gradcheck_random(g, B * T * H, 1));
    j.out = gradcheck_random(g, B * T * DOUT, 1);
    j.weight = gradcheck_random(g, B * T * DOUT, 1);
    const struct qkv_attention_plan forward = qkv_multi_head_plan(&j.m, &j.a);
    const struct qkv_attention_plan back = qkv_multi_head_backward_plan(&j.m, &j.a, &j.g);
    if (forward.status || back.status) {
        gradcheck_fail(g, forward.status ? forward.reason : back.reason);
        return;
    }
    j.scratch = gradcheck_memory(g, forward.scratch);
    j.back = gradcheck_memory(g, back.scratch);
    gradcheck_run(g, heads_loss, heads_backward, &j);
    gradcheck_end(g);
}

void check_multi_head(struct gradcheck *g)
{
    check_score(g, QKV_SCORE_DOT);
    check_score(g, QKV_SCORE_BILINEAR);
}

void check_multi_head_additive(struct gradcheck *g)
{
    check_score(g, QKV_SCORE_ADDITIVE);
}
