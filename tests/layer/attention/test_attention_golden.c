// SPDX-License-Identifier: MIT
// test_attention_golden.c: compares attention and all its gradients with PyTorch's autograd.
#include "layer/differences.h"
#include "golden_attention.h"
#include "layer/attention/attention_back_work.h"
#include <stdlib.h>

enum { B = 2, T = 4, S = 6, H = 4, G = 2, E = 3, F = 2, REACH = 2, LINE = 2 * REACH + 1 };

// The arrays of the script, in its order.
struct golden_case {
    struct qkv_attention a;
    real *q, *k, *v, *dout;
    float *bias, *relative, *alibi, *sinks;
};

static float *made_table(int64_t *count, int64_t n)
{
    float *x = fenced((size_t)n * sizeof *x);
    for (int64_t i = 0; i < n; i++) x[i] = (float)golden_made((*count)++, 1);
    return x;
}

static struct golden_case made_case(void)
{
    int64_t count = 0;
    struct golden_case c = { .a = { .B = B,
                                    .T = T,
                                    .S = S,
                                    .H = H,
                                    .G = G,
                                    .E = E,
                                    .F = F,
                                    .scale = .5f,
                                    .diagonal = QKV_BOTTOM_RIGHT } };
    c.q = made(&count, B * T * H * E, 4);
    c.k = made(&count, B * S * G * E, 4);
    c.v = made(&count, B * S * G * F, 4);
    c.dout = made(&count, B * T * H * F, 2);
    c.bias = made_table(&count, H * T * S);
    c.relative = made_table(&count, H * LINE);
    c.alibi = made_table(&count, H);
    c.sinks = made_table(&count, H);
    return c;
}

// Error bound: a sum of about ten products of numbers below 4, through an exponential whose
// argument is below 8, has about two hundred roundings, each of at most one ulp of the largest
// number.
enum { UNITS = 240 };

static void check_case(const struct golden_case *c, const double *golden)
{
    const struct qkv_attention *a = &c->a;
    struct qkv_attention_work w;
    struct qkv_attention_back b;
    const struct qkv_attention_tables g = { a->bias.at ? zeros(H * T * S) : NULL,
                                            a->relative.at ? zeros(H * LINE) : NULL,
                                            a->alibi ? zeros(H) : NULL,
                                            a->sinks ? zeros(H) : NULL };
    real *out = zeros(B * T * H * F), *lse = zeros(B * T * H), *dq = zeros(B * T * H * E),
         *dk = zeros(B * S * G * E), *dv = zeros(B * S * G * F);
    CHECK_EQ(qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, NULL, 0), QKV_OK);
    CHECK_EQ(qkv_attention_back_resolve(&b, a, &g, NULL, 0), QKV_OK);
    void *scratch = NULL;
    CHECK(!posix_memalign(&scratch, 64, w.scratch + b.scratch));
    CHECK_EQ(qkv_attention_run(out, lse, NULL, c->q, c->k, c->v, &w, scratch), QKV_OK);
    const struct qkv_attention_back_given given = { .dq = dq,
                                                    .dk = dk,
                                                    .dv = dv,
                                                    .dout = c->dout,
                                                    .q = c->q,
                                                    .k = c->k,
                                                    .v = c->v,
                                                    .out = out,
                                                    .lse = lse,
                                                    .scratch = scratch };
    CHECK_EQ(qkv_attention_back_run(&b, &g, &given), QKV_OK);
    check_golden(out, &golden, B * T * H * F, UNITS);
    check_golden(dq, &golden, B * T * H * E, UNITS);
    check_golden(dk, &golden, B * S * G * E, UNITS);
    check_golden(dv, &golden, B * S * G * F, UNITS);
    if (g.bias) check_golden(g.bias, &golden, H * T * S, UNITS);
    if (g.relative) check_golden(g.relative, &golden, H * LINE, UNITS);
    if (g.alibi) check_golden(g.alibi, &golden, H, UNITS);
    if (g.sinks) check_golden(g.sinks, &golden, H, UNITS);
    free(scratch);
}

TEST(groups_of_heads_have_the_gradients_of_torch)
{
    EACH_ISA(isa)
    {
        const struct golden_case c = made_case();
        check_case(&c, golden_attention_plain);
        fence_free();
    }
}

TEST(causal_capped_biased_attention_has_the_gradients_of_torch)
{
    EACH_ISA(isa)
    {
        struct golden_case c = made_case();
        c.a.causal = true;
        c.a.softcap = 1.5f;
        c.a.bias.at = c.bias;
        c.a.bias.h = T * S;
        c.a.bias.t = S;
        check_case(&c, golden_attention_causal);
        fence_free();
    }
}

TEST(windows_with_relative_positions_slopes_and_sinks_have_the_gradients_of_torch)
{
    EACH_ISA(isa)
    {
        struct golden_case c = made_case();
        c.a.window.on = true;
        c.a.window.left = 2;
        c.a.window.right = 1;
        c.a.relative.at = c.relative;
        c.a.relative.reach = REACH;
        c.a.alibi = c.alibi;
        c.a.sinks = c.sinks;
        check_case(&c, golden_attention_window);
        fence_free();
    }
}

CHECK_MAIN(CASE(groups_of_heads_have_the_gradients_of_torch),
           CASE(causal_capped_biased_attention_has_the_gradients_of_torch),
           CASE(windows_with_relative_positions_slopes_and_sinks_have_the_gradients_of_torch))
