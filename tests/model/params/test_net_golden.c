// SPDX-License-Identifier: MIT
// test_net_golden.c: compares losses, gradients and training steps with torch's autograd on the
// models of transformers (tools/golden_net.py).
//
// The reference is f64. A gradient of these nets is a sum of at most some hundred products of
// numbers of size 1, through about 40 layers of sums: f32 has an error of about 40 sqrt(100) 2^-24
// relative to the largest of its tensor, 3e-5; the bound is 1e-4 relative.
#include "net_golden.h"

static double torch_gradient(const struct qkv_tensor *t, const struct qkv_parameter_row *row,
                             const struct qkv_parameter *p, int64_t at, int64_t rows, int64_t i)
{
    const float *g = t->data;
    const int64_t K = p->rank == 2 ? p->shape[1] : 1, n = i / K, k = i % K;
    return row->transposed ? (double)g[k * rows + at + n] : (double)g[(at + n) * K + k];
}

// Compares every parameter with the tensor of torch; returns the number of parameters.
static int64_t check_gradients(const struct net_golden *g)
{
    const qkv_net *n = g->net;
    for (int64_t i = 0; i < n->parameters; i++) {
        const struct qkv_parameter *p = &n->parameter[i];
        char name[300];
        double most = 0, worst = 0;
        int64_t rows = 0, at = 0, first = i;
        while (n->row[first].joined) first--;
        for (int64_t k = first; k < i; k++) at += n->parameter[k].shape[0];
        for (int64_t k = first; k == first || (k < n->parameters && n->row[k].joined); k++)
            rows += n->parameter[k].shape[0];
        snprintf(name, sizeof name, "grad.%s", p->name);
        const struct qkv_tensor *t = net_golden_find(g, name);
        if (!t) fail_msg("%s: torch has no %s", g->name, name);
        for (int64_t k = 0; k < p->count; k++) {
            const double want = torch_gradient(t, &n->row[i], p, at, rows, k);
            most = fmax(most, fabs(want));
            worst = fmax(worst, fabs((double)p->grad[k] - want));
        }
        // Biases of keys cancel in the softmax: their exact gradients are 0.
        if (!(worst <= 1e-4 * most + 2e-6))
            fail_msg("%s: gradient of %s (%lld) is off by %.3g, the largest is %.3g", g->name,
                     p->name, (long long)i, worst, most);
    }
    return n->parameters;
}

TEST(losses_and_gradients_are_torch_s)
{
    for (int i = 0; i < NET_GOLDENS; i++) {
        struct net_golden g = net_golden_open(net_goldens[i].name, net_goldens[i].objective, NULL);
        const bool pairs = g.batch.objective == QKV_OBJECTIVE_CONTRASTIVE;
        const double *want = net_golden_get(&g, pairs ? "pairs.loss" : "loss");
        CHECK_NEAR(net_golden_run(&g, false), want[0], 1e-5 * want[0]);
        CHECK_NEAR(net_golden_run(&g, true), want[0], 1e-5 * want[0]);
        if (!pairs) CHECK(check_gradients(&g) > 10);
        net_golden_close(&g);
    }
}

// Each step follows the steepest gradient, so the error of one step grows in the next.
TEST(twenty_steps_of_sgd_lose_what_torch_loses)
{
    for (int i = 0; i < NET_GOLDENS; i++) {
        struct net_golden g = net_golden_open(net_goldens[i].name, net_goldens[i].objective, NULL);
        const bool pairs = g.batch.objective == QKV_OBJECTIVE_CONTRASTIVE;
        const double *want = net_golden_get(&g, pairs ? "pairs.steps" : "steps");
        const double rows = (double)g.rows;
        int64_t count;
        struct qkv_parameter *p = qkv_net_parameters(g.net, &count);
        for (int step = 0; step <= 20; step++) {
            CHECK_NEAR(net_golden_run(&g, true) / rows, want[step], 1e-3 * want[step]);
            for (int64_t k = 0; k < count; k++)
                for (int64_t j = 0; j < p[k].count; j++) p[k].value[j] -= (real).1 * p[k].grad[j];
        }
        net_golden_close(&g);
    }
}

CHECK_MAIN(CASE(losses_and_gradients_are_torch_s), CASE(twenty_steps_of_sgd_lose_what_torch_loses))
