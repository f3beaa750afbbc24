// SPDX-License-Identifier: MIT
// check_nets.c: checks the gradients of whole models, with two layers: every architecture with each
// of its objectives, with recomputation, and with dropout.
#include "check_nets.h"
#include <math.h>
#include <string.h>

enum { V = GRADCHECK_VOCAB, SOURCES = 4, IN_ROWS = 12, SOURCE_ROWS = 10, MOST_LABELS = 3 };

struct whole {
    qkv_net *n;
    struct qkv_net_batch batch;
    bool drops;
};

// Returns the loss as training computes it. Dropout is only applied when gradients are computed, so
// with dropout this function computes them too, scaled by 0.
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

void gradcheck_net(struct gradcheck *g, qkv_net *n, enum qkv_objective objective, bool drops)
{
    const struct qkv_net_shape *shape = qkv_net_shape(n);
    static const int64_t in[] = { 0, 3, 4, 7, IN_ROWS }, from[] = { 0, 4, 5, 7, SOURCE_ROWS };
    int32_t ids[IN_ROWS], types[IN_ROWS], targets[IN_ROWS], source[SOURCE_ROWS];
    struct whole j = { n,
                       { .objective = objective,
                         .in = { SOURCES, in, ids, shape->types ? types : NULL },
                         .source = { SOURCES, from, source, NULL },
                         .targets = targets },
                       drops };
    for (int i = 0; i < SOURCE_ROWS; i++) source[i] = (int32_t)gradcheck_pick(g, V);
    for (int i = 0; i < IN_ROWS; i++) {
        ids[i] = (int32_t)gradcheck_pick(g, V);
        types[i] = (int32_t)gradcheck_pick(g, 2);
        targets[i] = (int32_t)gradcheck_pick(g, shape->labels ? shape->labels : V);
        if (i % 4 == 3 && !shape->labels) targets[i] = -1;
    }
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(n, &count);
    // Add noise, so that no parameter is 0 and no gradient vanishes. Adjacent vectors are compared
    // as one array: the gradient of the key bias is 0 (it cancels in the softmax), so only rounding
    // errors are left, which must be compared with the gradients of its neighbors.
    for (int64_t i = 0, next; i < count; i = next) {
        int64_t numbers = p[i].count;
        for (next = i + 1; p[i].rank == 1 && next < count && p[next].rank == 1; next++)
            numbers += p[next].count;
        real *noise = gradcheck_random(g, numbers, .3);
        for (int64_t k = 0; k < numbers; k++) p[i].value[k] += noise[k];
        // a table of attention, which stores floats and not doubles
        if (strstr(p[i].name, "relative"))
            gradcheck_observe_floats(g, p[i].name, p[i].value, p[i].grad, numbers);
        else
            gradcheck_observe(g, p[i].name, p[i].value, p[i].grad, numbers);
    }
    gradcheck_run(g, loss, backward, &j);
    gradcheck_end(g);
}

static void check(struct gradcheck *g, const struct qkv_net_shape *shape,
                  enum qkv_objective objective, const struct qkv_net_options *o)
{
    qkv_net *n = NULL;
    if (qkv_net_new(&n, shape, o, 1, NULL))
        gradcheck_fail(g, "cannot create a trainable model");
    else
        gradcheck_net(g, n, objective, o->dropout > 0);
    qkv_net_free(n);
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
    // GELU, because ReLU has no derivative at 0, where the points of a finite difference may be on
    // both sides
    s.act = QKV_ACT_GELU;
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &plain);
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &all);
    s.norm = QKV_NORM_PRE;
    s.d_k = 3;
    s.d_v = 5;
    s.decoder_layers = 1;
    s.act = QKV_ACT_RELU;
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &again);
    s = small("bare-transformer");
    s.act = QKV_ACT_GELU;
    check(g, &s, QKV_OBJECTIVE_SEQ2SEQ, &plain);
}
