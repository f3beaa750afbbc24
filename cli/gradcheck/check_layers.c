// SPDX-License-Identifier: MIT
// check_layers.c: checks the gradients of single layers: linear, norms, activations, dropout,
// positions, embeddings and mean pooling.
#include "gradcheck.h"
#include <string.h>

// The loss of every check in this file: the sum of the outputs, each times a random weight.
static double weighed(const real *y, const real *weight, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += (double)y[i] * (double)weight[i];
    return sum;
}

// ---- linear ------------------------------------------------------------------------------------
struct linear {
    int64_t R, K, N;
    struct qkv_linear_part part;
    struct qkv_linear_back back;
    struct qkv_linear_once once;
    real *x, *w, *b, *y, *weight, *dx, *dw, *db, *add;
};

static double linear_loss(void *ctx)
{
    const struct linear *l = ctx;
    qkv_linear_once(l->y, l->N, l->x, l->K, l->R, l->K, &l->part, NULL, &l->once);
    double sum = weighed(l->y, l->weight, l->R * l->N);
    for (int64_t i = 0; i < l->R * l->K; i++) sum += (double)(l->x[i] * l->add[i]);
    return sum;
}

// Computes the gradients of linear_loss(). The loss also contains sum(x * add), a second use of x.
// The gradient of this term is `add`, which the layer adds to dx (dx_add).
static void linear_backward(void *ctx)
{
    const struct linear *l = ctx;
    qkv_linear_once_backward(l->dx, l->dw, l->db, l->weight, l->x, l->R, l->K, &l->part, &l->back);
}

void check_linear(struct gradcheck *g)
{
    static const int64_t sizes[][3] = { { 5, 7, 9 }, { 33, 20, 3 }, { 1, 1, 1 }, { 1700, 3, 2 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        for (int transposed = 0; transposed < 2; transposed++) {
            struct linear l = { .R = sizes[i][0], .K = sizes[i][1], .N = sizes[i][2] };
            l.x = gradcheck_numbers(g, "x", l.R * l.K, 1, &l.dx);
            l.w = gradcheck_numbers(g, "w", l.N * l.K, 1, &l.dw);
            l.b = gradcheck_numbers(g, "b", l.N, 1, &l.db);
            l.add = gradcheck_random(g, l.R * l.K, 1);
            l.weight = gradcheck_random(g, l.R * l.N, 1);
            l.y = gradcheck_random(g, l.R * l.N, 1);
            l.part = (struct qkv_linear_part){ l.N, l.w, l.b, transposed };
            l.once.threads = l.back.threads = qkv_threads();
            l.once.scratch = gradcheck_memory(g, qkv_linear_once_scratch(&l.once, l.K, l.N));
            l.back.dx_add = l.add;
            l.back.scratch =
                gradcheck_memory(g, qkv_linear_once_backward_scratch(&l.back, l.R, l.K, l.N));
            gradcheck_run(g, linear_loss, linear_backward, &l);
            gradcheck_end(g);
        }
}

// ---- norms -------------------------------------------------------------------------------------
struct norm {
    int64_t R, D;
    enum qkv_norm_kind kind;
    struct qkv_norm p;
    struct qkv_norm_keep keep;
    real *x, *y, *weight, *dx, *dw, *db;
    void *scratch;
};

static double norm_loss(void *ctx)
{
    const struct norm *n = ctx;
    qkv_norm_kind_forward(n->y, 0, &n->keep, n->x, n->R, &n->p, n->kind);
    return weighed(n->y, n->weight, n->R * n->D);
}

static void norm_backward(void *ctx)
{
    const struct norm *n = ctx;
    norm_loss(ctx);
    qkv_norm_backward(n->dx, NULL, n->dw, n->db, n->weight, 0, n->x, &n->keep, n->R, &n->p, n->kind,
                      n->scratch);
}

static void norms(struct gradcheck *g, enum qkv_norm_kind kind)
{
    static const int64_t sizes[][2] = { { 4, 7 }, { 70, 5 }, { 3, 40 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        struct norm n = { .R = sizes[i][0], .D = sizes[i][1], .kind = kind };
        n.p = (struct qkv_norm){ .D = n.D, .eps = (real)1e-5 };
        n.x = gradcheck_numbers(g, "x", n.R * n.D, 1, &n.dx);
        n.p.w = gradcheck_numbers(g, "w", n.D, 1, &n.dw);
        n.p.b = gradcheck_numbers(g, "b", n.D, 1, &n.db);
        n.weight = gradcheck_random(g, n.R * n.D, 1);
        n.y = gradcheck_random(g, n.R * n.D, 1);
        n.keep.mean = gradcheck_random(g, n.R, 1);
        n.keep.rstd = gradcheck_random(g, n.R, 1);
        n.scratch = gradcheck_memory(g, qkv_norm_backward_scratch(n.R, n.D));
        gradcheck_run(g, norm_loss, norm_backward, &n);
        gradcheck_end(g);
    }
}

void check_norm(struct gradcheck *g)
{
    norms(g, QKV_NORM_LAYER);
}

void check_norm_rms(struct gradcheck *g)
{
    norms(g, QKV_NORM_RMS);
}

// ---- activations -------------------------------------------------------------------------------
struct act {
    int64_t n;
    enum qkv_activation act;
    real *x, *u, *y, *weight, *dx, *du;
};

static double act_loss(void *ctx)
{
    const struct act *a = ctx;
    if (a->u)
        qkv_gated_forward(a->y, a->x, a->u, 0, a->n, a->act);
    else
        qkv_activation_forward(a->y, a->x, 0, a->n, a->act);
    return weighed(a->y, a->weight, a->n);
}

static void act_backward(void *ctx)
{
    const struct act *a = ctx;
    if (a->u)
        qkv_gated_backward(a->dx, a->du, a->weight, a->x, a->u, 0, a->n, a->act);
    else
        qkv_activation_backward(a->dx, a->weight, a->x, 0, a->n, a->act);
}

static void acts(struct gradcheck *g, bool gated)
{
    for (int act = QKV_ACT_NONE; act <= QKV_ACT_LAST; act++) {
        struct act a = { .n = 60, .act = (enum qkv_activation)act };
        a.x = gradcheck_numbers(g, "x", a.n, 2, &a.dx);
        if (gated) a.u = gradcheck_numbers(g, "u", a.n, 1, &a.du);
        a.y = gradcheck_random(g, a.n, 1);
        a.weight = gradcheck_random(g, a.n, 1);
        gradcheck_run(g, act_loss, act_backward, &a);
        gradcheck_end(g);
    }
}

void check_activation(struct gradcheck *g)
{
    acts(g, false);
}

void check_gated(struct gradcheck *g)
{
    acts(g, true);
}

// ---- dropout -----------------------------------------------------------------------------------
struct drop {
    int64_t n;
    struct qkv_dropout p;
    real *x, *residual, *y, *weight, *dx, *dresidual;
};

static double drop_loss(void *ctx)
{
    const struct drop *d = ctx;
    qkv_dropout_forward(d->y, d->residual, d->x, 0, 3, d->n, &d->p);
    return weighed(d->y, d->weight, d->n);
}

static void drop_backward(void *ctx)
{
    const struct drop *d = ctx;
    qkv_dropout_backward(d->dx, 0, d->weight, 3, d->n, &d->p);
    memcpy(d->dresidual, d->weight, (size_t)d->n * sizeof *d->weight);
}

void check_dropout(struct gradcheck *g)
{
    for (int share = 0; share < 2; share++) {
        struct drop d = { .n = 90, .p = { (real)(0.3 * share), 7, 11 } };
        d.x = gradcheck_numbers(g, "x", d.n, 1, &d.dx);
        d.residual = gradcheck_numbers(g, "residual", d.n, 1, &d.dresidual);
        d.y = gradcheck_random(g, d.n, 1);
        d.weight = gradcheck_random(g, d.n, 1);
        gradcheck_run(g, drop_loss, drop_backward, &d);
        gradcheck_end(g);
    }
}

// ---- rotary positions --------------------------------------------------------------------------
struct rope {
    int64_t R, H, E;
    struct qkv_rope p;
    int32_t *positions;
    real *x, *y, *weight, *dx;
};

static double rope_loss(void *ctx)
{
    struct rope *r = ctx;
    r->p.backward = false;
    memcpy(r->y, r->x, (size_t)(r->R * r->H * r->E) * sizeof *r->y);
    qkv_rope_apply(r->y, 0, r->positions, r->R, r->H, r->E, &r->p);
    return weighed(r->y, r->weight, r->R * r->H * r->E);
}

static void rope_backward(void *ctx)
{
    struct rope *r = ctx;
    r->p.backward = true;
    memcpy(r->dx, r->weight, (size_t)(r->R * r->H * r->E) * sizeof *r->dx);
    qkv_rope_apply(r->dx, 0, r->positions, r->R, r->H, r->E, &r->p);
}

void check_rope(struct gradcheck *g)
{
    for (int variant = 0; variant < 4; variant++) {
        struct rope r = { .R = 5, .H = 3, .E = 6, .p.interleaved = variant & 1 };
        if (variant & 2) {
            real *table = gradcheck_memory(g, (size_t)(50 * r.E) * sizeof *table);
            qkv_rope_table(table, 50, r.E, 0);
            r.p.table = table;
        }
        const int64_t n = r.R * r.H * r.E;
        r.positions = gradcheck_memory(g, (size_t)r.R * sizeof *r.positions);
        for (int64_t i = 0; i < r.R; i++) r.positions[i] = (int32_t)gradcheck_pick(g, 50);
        r.x = gradcheck_numbers(g, "x", n, 1, &r.dx);
        r.y = gradcheck_random(g, n, 1);
        r.weight = gradcheck_random(g, n, 1);
        gradcheck_run(g, rope_loss, rope_backward, &r);
        gradcheck_end(g);
    }
}

// ---- embeddings --------------------------------------------------------------------------------
struct embed {
    int64_t R;
    struct qkv_embed p;
    int32_t *ids, *types, *positions;
    real *y, *weight, *dtoken, *dposition, *dtype;
    void *scratch;
};

static double embed_loss(void *ctx)
{
    const struct embed *e = ctx;
    qkv_embed_forward(e->y, e->ids, e->types, e->positions, e->R, &e->p);
    return weighed(e->y, e->weight, e->R * e->p.D);
}

static void embed_backward(void *ctx)
{
    const struct embed *e = ctx;
    qkv_embed_backward(e->dtoken, e->dposition, e->dtype, e->weight, e->ids, e->types, e->positions,
                       e->R, &e->p, e->scratch);
}

void check_embed(struct gradcheck *g)
{
    struct embed e = { .R = 40, .p = { .V = 12, .P = 9, .Y = 2, .D = 5, .scale = 3 } };
    e.ids = gradcheck_memory(g, (size_t)e.R * sizeof *e.ids);
    e.types = gradcheck_memory(g, (size_t)e.R * sizeof *e.ids);
    e.positions = gradcheck_memory(g, (size_t)e.R * sizeof *e.ids);
    for (int64_t i = 0; i < e.R; i++) {
        e.ids[i] = (int32_t)gradcheck_pick(g, e.p.V);
        e.types[i] = (int32_t)gradcheck_pick(g, e.p.Y);
        e.positions[i] = (int32_t)gradcheck_pick(g, e.p.P);
    }
    e.p.token = gradcheck_numbers(g, "token", e.p.V * e.p.D, 1, &e.dtoken);
    e.p.position = gradcheck_numbers(g, "position", e.p.P * e.p.D, 1, &e.dposition);
    e.p.type = gradcheck_numbers(g, "type", e.p.Y * e.p.D, 1, &e.dtype);
    e.y = gradcheck_random(g, e.R * e.p.D, 1);
    e.weight = gradcheck_random(g, e.R * e.p.D, 1);
    e.scratch = gradcheck_memory(g, qkv_embed_backward_scratch(e.R, &e.p));
    gradcheck_run(g, embed_loss, embed_backward, &e);
}

// ---- mean pooling of rows ----------------------------------------------------------------------
struct pool {
    int64_t n, D;
    bool unit;
    const int64_t *offsets;
    real *x, *v, *norm, *weight, *dx;
};

static double pool_loss(void *ctx)
{
    const struct pool *p = ctx;
    qkv_mean_pool_forward(p->v, p->norm, p->x, p->offsets, p->n, p->D, p->unit);
    return weighed(p->v, p->weight, p->n * p->D);
}

static void pool_backward(void *ctx)
{
    const struct pool *p = ctx;
    pool_loss(ctx);
    qkv_mean_pool_backward(p->dx, p->weight, p->v, p->norm, p->offsets, p->n, p->D, p->unit);
}

void check_mean_pool(struct gradcheck *g)
{
    static const int64_t offsets[] = { 0, 3, 3, 4, 9 };
    for (int unit = 0; unit < 2; unit++) {
        struct pool p = { .n = 4, .D = 6, .unit = unit, .offsets = offsets };
        p.x = gradcheck_numbers(g, "x", offsets[4] * p.D, 1, &p.dx);
        p.v = gradcheck_random(g, p.n * p.D, 1);
        p.norm = gradcheck_random(g, p.n, 1);
        p.weight = gradcheck_random(g, p.n * p.D, 1);
        gradcheck_run(g, pool_loss, pool_backward, &p);
        gradcheck_end(g);
    }
}
