// SPDX-License-Identifier: MIT
// check_nets.c: whole models of two layers of every architecture, in each objective, with
// recomputation and dropout.
#include "gradcheck.h"
#include "model/model.h"
#include <math.h>

enum { V = 11, SOURCES = 4, IN_ROWS = 12, SOURCE_ROWS = 10, MOST_LABELS = 3 };

struct whole {
    qkv_net *n;
    struct qkv_net_batch batch;
    bool drops;
};

// The loss as training has it: dropout belongs to runs with gradients, which are added 0 times
// here.
static double loss(void *ctx)
{
    struct whole *j = ctx;
    struct qkv_loss sum = { 0 };
    if (qkv_net_run(j->n, &sum, &j->batch, j->drops, 0, 7, 3, NULL)) return NAN;
    return sum.sum;
}

static void backward(void *ctx)
{
    struct whole *j = ctx;
    struct qkv_loss sum = { 0 };
    qkv_net_zero_gradients(j->n);
    if (qkv_net_run(j->n, &sum, &j->batch, true, 1, 7, 3, NULL)) qkv_net_zero_gradients(j->n);
}

static struct qkv_net_shape small(const char *arch)
{
    struct qkv_net_shape s;
    qkv_net_shape_default(&s, arch);
    s.layers = 2;
    s.heads = 2;
    s.width = 8;
    s.inner = 6;
    s.vocab = V;
    s.positions = 8;
    return s;
}

static void check(struct gradcheck *g, const struct qkv_net_shape *shape,
                  enum qkv_objective objective, const struct qkv_net_options *o)
{
    static const int64_t in[] = { 0, 3, 4, 7, IN_ROWS }, from[] = { 0, 4, 5, 7, SOURCE_ROWS };
    int32_t ids[IN_ROWS], types[IN_ROWS], targets[IN_ROWS], source[SOURCE_ROWS];
    struct whole j = { NULL,
                       { .objective = objective,
                         .in = { SOURCES, in, ids, shape->types ? types : NULL },
                         .source = { SOURCES, from, source, NULL },
                         .targets = targets },
                       o->dropout > 0 };
    for (int i = 0; i < SOURCE_ROWS; i++) source[i] = (int32_t)gradcheck_pick(g, V);
    for (int i = 0; i < IN_ROWS; i++) {
        ids[i] = (int32_t)gradcheck_pick(g, V);
        types[i] = (int32_t)gradcheck_pick(g, 2);
        targets[i] = (int32_t)gradcheck_pick(g, shape->labels ? shape->labels : V);
        if (i % 4 == 3 && !shape->labels) targets[i] = -1;
    }
    if (qkv_net_new(&j.n, shape, o, 1, NULL)) {
        gradcheck_fail(g, "no net");
        return;
    }
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(j.n, &count);
    // Larger than they begin, and nowhere 0, so that no gradient is nothing.  Vectors side by side
    // are one array: the bias of keys cancels in the softmax, its gradient is rounding beside that
    // of its neighbours.
    for (int64_t i = 0, next; i < count; i = next) {
        int64_t n = p[i].count;
        for (next = i + 1; p[i].rank == 1 && next < count && p[next].rank == 1; next++)
            n += p[next].count;
        real *noise = gradcheck_random(g, n, .3);
        for (int64_t k = 0; k < n; k++) p[i].value[k] += noise[k];
        gradcheck_watch(g, p[i].name, p[i].value, p[i].grad, n);
    }
    gradcheck_run(g, loss, backward, &j);
    gradcheck_end(g);
    qkv_net_free(j.n);
}

static const struct qkv_net_options plain,
    warm = { .temperature = (real).5 }, again = { .recompute = true },
    drops = { .dropout = (real).3 },
    all = { .recompute = true, .dropout = (real).3, .smoothing = (real).1 };

void check_gpt(struct gradcheck *g)
{
    struct qkv_net_shape s = small("gpt");
    check(g, &s, QKV_OBJECTIVE_CAUSAL, &plain);
    check(g, &s, QKV_OBJECTIVE_CAUSAL, &all);
    s.norm = QKV_NORM_BOTH;
    s.tied = 0;
    check(g, &s, QKV_OBJECTIVE_CAUSAL, &again);
}

void check_llama(struct gradcheck *g)
{
    struct qkv_net_shape s = small("llama");
    s.kv_heads = 1;
    check(g, &s, QKV_OBJECTIVE_CAUSAL, &plain);
    s.d_k = 6;
    s.d_v = 5;
    s.norm = QKV_NORM_POST;
    check(g, &s, QKV_OBJECTIVE_CAUSAL, &all);
}

void check_bert(struct gradcheck *g)
{
    struct qkv_net_shape s = small("bert");
    check(g, &s, QKV_OBJECTIVE_MASKED, &plain);
    check(g, &s, QKV_OBJECTIVE_CONTRASTIVE, &warm);
    check(g, &s, QKV_OBJECTIVE_MASKED, &all);
    s.norm = QKV_NORM_PRE;
    s.labels = MOST_LABELS;
    check(g, &s, QKV_OBJECTIVE_CLASSIFY, &drops);
}

void check_vaswani(struct gradcheck *g)
{
    struct qkv_net_shape s = small("vaswani");
    s.act = QKV_ACT_GELU; // ReLU has no slope at 0, which differences may straddle
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &plain);
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &all);
    s.norm = QKV_NORM_PRE;
    s.d_k = 3;
    s.d_v = 5;
    s.decoder_layers = 1;
    s.act = QKV_ACT_RELU;
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &again);
}
