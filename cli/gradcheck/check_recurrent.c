// SPDX-License-Identifier: MIT
// check_recurrent.c: checks the gradients of the losses, of the gated recurrent unit (GRU), and of
// the encoder-decoder that is built from it.
#include "gradcheck.h"
#include "model/model.h"
#include <math.h>

// ---- losses ------------------------------------------------------------------------------------
struct words {
    int64_t R;
    struct qkv_cross_entropy p;
    int32_t *targets;
    real *x, *dx, *w, *dw, *b, *db;
};

static double words_loss(void *ctx)
{
    const struct words *j = ctx;
    struct qkv_loss loss = { 0 };
    qkv_cross_entropy(&loss, NULL, NULL, NULL, NULL, j->x, j->targets, j->R, 1, &j->p);
    return loss.sum;
}

static void words_backward(void *ctx)
{
    const struct words *j = ctx;
    struct qkv_loss loss = { 0 };
    qkv_cross_entropy(&loss, j->dx, j->dw, j->db, NULL, j->x, j->targets, j->R, 1, &j->p);
}

void check_cross_entropy(struct gradcheck *g)
{
    for (int more = 0; more < 3; more++) {
        struct words j = {
            .R = 11, .p = { .V = 150, .K = 9, .smoothing = more ? (real)0.2 : 0, .threads = 1 }
        };
        if (more == 2) {
            j.p.times = (real)0.4;
            j.p.softcap = (real)1.5;
        }
        j.x = gradcheck_numbers(g, "x", j.R * j.p.K, 1, &j.dx);
        j.p.w = j.w = gradcheck_numbers(g, "w", j.p.V * j.p.K, 1, &j.dw);
        j.p.b = j.b = gradcheck_numbers(g, "b", j.p.V, 1, &j.db);
        j.targets = gradcheck_memory(g, (size_t)j.R * sizeof *j.targets);
        for (int64_t r = 0; r < j.R; r++)
            j.targets[r] = r % 4 == 3 ? -1 : (int32_t)gradcheck_pick(g, j.p.V);
        j.p.scratch = gradcheck_memory(g, qkv_cross_entropy_scratch(&j.p, j.R));
        gradcheck_run(g, words_loss, words_backward, &j);
        gradcheck_end(g);
    }
}

struct pairs {
    int64_t n, D;
    struct qkv_contrastive p;
    real *a, *da, *b, *db;
};

static double pairs_loss(void *ctx)
{
    const struct pairs *j = ctx;
    struct qkv_loss loss = { 0 };
    qkv_contrastive(&loss, NULL, NULL, j->a, j->b, j->n, j->D, 1, &j->p);
    return loss.sum;
}

static void pairs_backward(void *ctx)
{
    const struct pairs *j = ctx;
    struct qkv_loss loss = { 0 };
    qkv_contrastive(&loss, j->da, j->db, j->a, j->b, j->n, j->D, 1, &j->p);
}

void check_contrastive(struct gradcheck *g)
{
    for (int rows_only = 0; rows_only < 2; rows_only++) {
        struct pairs j = {
            7,    5,    { .temperature = (real)0.3, .rows_only = rows_only, .threads = 1 },
            NULL, NULL, NULL,
            NULL
        };
        j.a = gradcheck_numbers(g, "a", j.n * j.D, 1, &j.da);
        j.b = gradcheck_numbers(g, "b", j.n * j.D, 1, &j.db);
        j.p.scratch = gradcheck_memory(g, qkv_contrastive_scratch(&j.p, j.n, j.D));
        gradcheck_run(g, pairs_loss, pairs_backward, &j);
        gradcheck_end(g);
    }
}

// ---- gated recurrent unit ----------------------------------------------------------------------
static const int64_t offsets[] = { 0, 3, 3, 4, 9 };
enum { SEQUENCES = 4, ROWS = 9 };

struct recurrent {
    struct qkv_gru p;
    struct qkv_gru_grad g;
    real *x, *dx, *first, *dfirst, *h, *gates, *weight;
};

static double gru_loss(void *ctx)
{
    const struct recurrent *j = ctx;
    double sum = 0;
    qkv_gru_forward(j->h, j->gates, j->x, j->first, offsets, SEQUENCES, &j->p);
    for (int64_t i = 0; i < ROWS * j->p.D; i++) sum += (double)(j->h[i] * j->weight[i]);
    return sum;
}

static void gru_backward(void *ctx)
{
    const struct recurrent *j = ctx;
    gru_loss(ctx);
    qkv_gru_backward(j->dx, j->dfirst, &j->g, j->weight, j->h, j->gates, j->x, j->first, offsets,
                     SEQUENCES, &j->p);
}

void check_gru(struct gradcheck *g)
{
    for (int reverse = 0; reverse < 2; reverse++) {
        struct recurrent j = { .p = { .D_in = 5, .D = 7, .reverse = reverse, .threads = 1 } };
        const int64_t D = j.p.D;
        j.x = gradcheck_numbers(g, "x", ROWS * j.p.D_in, 1, &j.dx);
        j.first = gradcheck_numbers(g, "first", SEQUENCES * D, 1, &j.dfirst);
        j.p.w_i = gradcheck_numbers(g, "w_i", 3 * D * j.p.D_in, 0.5, &j.g.w_i);
        j.p.w_h = gradcheck_numbers(g, "w_h", 3 * D * D, 0.5, &j.g.w_h);
        j.p.b_i = gradcheck_numbers(g, "b_i", 3 * D, 0.5, &j.g.b_i);
        j.p.b_h = gradcheck_numbers(g, "b_h", 3 * D, 0.5, &j.g.b_h);
        j.h = gradcheck_random(g, ROWS * D, 1);
        j.gates = gradcheck_random(g, ROWS * 4 * D, 1);
        j.weight = gradcheck_random(g, ROWS * D, 1);
        j.p.scratch = gradcheck_memory(g, qkv_gru_scratch(&j.p, ROWS, SEQUENCES));
        gradcheck_run(g, gru_loss, gru_backward, &j);
        gradcheck_end(g);
    }
}

// ---- the whole encoder-decoder -----------------------------------------------------------------
struct whole {
    qkv_net *n;
    struct qkv_net_batch batch;
};

static double run(const struct whole *j, bool gradients)
{
    struct qkv_loss loss = { 0 };
    if (qkv_net_run(j->n, &loss, &j->batch, gradients, 1, 0, 0, NULL)) return NAN;
    return loss.sum;
}

static double whole_loss(void *ctx)
{
    return run(ctx, false);
}

static void whole_backward(void *ctx)
{
    qkv_net_zero_gradients(((struct whole *)ctx)->n);
    run(ctx, true);
}

static void check_whole(struct gradcheck *g, bool tied)
{
    static const int64_t from[] = { 0, 4, 5, 7, 8 }, to[] = { 0, 2, 6, 7, 9 };
    int32_t source[8], in[9], targets[9];
    struct qkv_net_shape shape;
    qkv_net_shape_default(&shape, "gru-attention");
    shape.layers = 2;
    shape.width = 6;
    shape.inner = 5;
    shape.vocab = 11;
    shape.tied = tied;
    struct whole j = { NULL,
                       { .objective = QKV_OBJECTIVE_SEQ2SEQ,
                         .in = { 4, to, in, NULL },
                         .source = { 4, from, source, NULL },
                         .targets = targets } };
    const struct qkv_net_options options = { .smoothing = (real)0.1 };
    for (int i = 0; i < 8; i++) source[i] = (int32_t)gradcheck_pick(g, 11);
    for (int i = 0; i < 9; i++) in[i] = (int32_t)gradcheck_pick(g, 11);
    for (int i = 0; i < 9; i++) targets[i] = i == 4 ? -1 : (int32_t)gradcheck_pick(g, 11);
    if (qkv_net_new(&j.n, &shape, &options, 1, NULL)) {
        gradcheck_fail(g, "cannot create a trainable model");
        return;
    }
    int64_t count;
    struct qkv_parameter *p = qkv_net_parameters(j.n, &count);
    for (int64_t i = 0; i < count; i++) {
        // Double the initial weights. With small weights, all scores are near 0 and so are their
        // gradients; then the check would test nothing.
        for (int64_t k = 0; k < p[i].count; k++) p[i].value[k] *= 2;
        gradcheck_observe(g, p[i].name, p[i].value, p[i].grad, p[i].count);
    }
    gradcheck_run(g, whole_loss, whole_backward, &j);
    gradcheck_end(g);
    qkv_net_free(j.n);
}

void check_gru_attention(struct gradcheck *g)
{
    check_whole(g, false);
    check_whole(g, true);
}
