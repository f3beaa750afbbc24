// SPDX-License-Identifier: MIT
// multi_head_backward.c: computes the gradients of attention with its projections, for every score
// function.
//
//   d heads = dout W_o;   the attention backward pass returns dq, dk, dv of its own inputs
//   bilinear:  its inputs are q W_s and k:       dq = d W_s^T,  dW_s += q^T d
//   additive:  its inputs are W_q q (followed by w) and W_k k, separate for each query head
//   dx = dq W_q,  dc = dk W_k + dv W_v, and the gradients of these weights
#include "layer/attention/attention_back_work.h"
#include "layer/heads/multi_head_work.h"
#include <stdio.h>
#include <string.h>

// One validated call, and its arrays in scratch.
struct call {
    struct qkv_multi_head m;
    struct qkv_attention a; // the request that attention receives
    struct qkv_attention_back back;
    struct qkv_attention_tables tables;
    struct qkv_multi_head_gradients g;
    qkv_dtype type; // type of the arrays of the attention kernels
    size_t one;
    int64_t rows, keys;
    bool additive, bilinear, repeats; // repeats: v is repeated for each query head
    // copies of forward's arrays in the kernels' type; NULL: the arrays that forward stored are
    // used
    void *q, *k, *v, *heads;
    void *score_q, *score_k;     // inputs of the scores; NULL: q and k
    void *values;                // values repeated for each query head; NULL: v
    void *dheads, *dq, *dk, *dv; // gradients of the heads and of the projected q, k and v
    void *dscore_q, *dscore_k, *dvalues;
    real *wide; // [keys][d_kv] real copy of a gradient, for projections without weights
    struct qkv_linear_once once;
    struct qkv_linear_back linear;
    void *own;
    size_t bytes;
    double flops;
};

static struct qkv_attention_tables tables_of(const struct qkv_multi_head_gradients *g)
{
    return (struct qkv_attention_tables){ qkv_reals(g->attention.bias.at),
                                          qkv_reals(g->attention.relative),
                                          qkv_reals(g->attention.alibi),
                                          qkv_reals(g->attention.sinks) };
}

static qkv_status shape_operator(struct call *c, char *reason, size_t size)
{
    const struct qkv_multi_head *m = &c->m;
    struct qkv_attention *a = &c->a;
    qkv_multi_head_shape(a, m);
    if (!c->additive) return qkv_attention_back_resolve(&c->back, a, &c->tables, reason, size);
    if (!qkv_multi_head_additive(a->precision)) {
        const char *name = qkv_precision_name(a->precision);
        snprintf(reason, size, "additive scores are not supported in %s: f32 only",
                 name ? name : "an unknown precision");
        return name ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE;
    }
    a->E = 2 * m->d_a;
    a->G = m->H;
    return qkv_attention_back_additive(&c->back, a, &c->tables, reason, size);
}

// Allocates an array of rows * width elements, of `one` bytes each.
static void *array(struct qkv_arena *arena, int64_t rows, int64_t width, size_t one)
{
    size_t row;
    if (!qkv_mul_size(&row, (size_t)width, one)) row = SIZE_MAX;
    return qkv_arena_alloc(arena, (size_t)rows, row);
}

static void place_arrays(struct call *c, struct qkv_arena *arena)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t Q = m->H * m->d_k, K = m->G * m->d_k, V = m->G * m->d_v, O = m->H * m->d_v;
    const int64_t E = m->H * c->a.E;
    if (c->type != QKV_REAL) {
        c->q = array(arena, c->rows, Q, c->one);
        c->k = array(arena, c->keys, K, c->one);
        c->v = array(arena, c->keys, V, c->one);
        c->heads = array(arena, c->rows, O, c->one);
    }
    if (c->bilinear || c->additive) {
        c->score_q = array(arena, c->rows, E, c->one);
        c->dscore_q = array(arena, c->rows, E, c->one);
    }
    if (c->additive) {
        c->score_k = array(arena, c->keys, E, c->one);
        c->dscore_k = array(arena, c->keys, E, c->one);
    }
    if (c->repeats) {
        c->values = array(arena, c->keys, O, c->one);
        c->dvalues = array(arena, c->keys, O, c->one);
    }
    c->dheads = array(arena, c->rows, O, c->one);
    c->dq = array(arena, c->rows, Q, c->one);
    c->dk = array(arena, c->keys, K, c->one);
    c->dv = array(arena, c->keys, V, c->one);
    c->wide =
        array(arena, qkv_max64(c->rows, c->keys), qkv_max64(Q, qkv_max64(K, V)), sizeof(real));
}

static void count_products(struct call *c, struct qkv_arena *arena)
{
    const struct qkv_multi_head *m = &c->m;
    const double rows = (double)c->rows, keys = (double)c->keys, H = (double)m->H;
    const struct {
        bool is, forward;
        int64_t R, K, N;
        double times;
    } products[] = {
        { m->w_o, false, c->rows, m->H * m->d_v, m->d_out, rows },
        { m->w_q, false, c->rows, m->d_q, m->H * m->d_k, rows },
        { m->w_k, false, c->keys, m->d_kv, m->G * m->d_k, keys },
        { m->w_v, false, c->keys, m->d_kv, m->G * m->d_v, keys },
        { c->bilinear, true, c->rows, m->d_k, m->d_k, H * rows },
        { c->additive, true, qkv_max64(c->rows, c->keys), m->d_k, m->d_a, H * (rows + keys) },
    };
    size_t most = 0;
    for (size_t i = 0; i < sizeof products / sizeof *products; i++) {
        if (!products[i].is) continue;
        struct qkv_linear_back back = c->linear;
        for (int t = 0; t < 4; t++) {
            back.x = t & 1 ? c->type : 0;
            back.y = t & 2 ? c->type : 0;
            const size_t bytes = qkv_linear_once_backward_scratch(&back, products[i].R,
                                                                  products[i].K, products[i].N);
            if (bytes > most) most = bytes;
        }
        const size_t once = qkv_linear_once_scratch(&c->once, products[i].K, products[i].N);
        if (products[i].forward && once > most) most = once;
        c->flops += (products[i].forward ? 6 : 4) * products[i].times * (double)products[i].K *
                    (double)products[i].N;
    }
    c->once.scratch = c->linear.scratch = qkv_arena_alloc(arena, 1, most);
}

static qkv_status resolve(struct call *c, const struct qkv_multi_head *m,
                          const struct qkv_attention *a, const struct qkv_multi_head_gradients *g,
                          void *scratch, char *reason, size_t size)
{
    *c = (struct call){ .m = *m, .a = *a };
    if (g) c->g = *g;
    if (!c->m.G) c->m.G = m->H;
    if (!c->m.d_kv) c->m.d_kv = m->d_q;
    qkv_status status = qkv_multi_head_check(&c->m, a);
    if (status) return status;
    c->additive = m->score == QKV_SCORE_ADDITIVE;
    c->bilinear = m->score == QKV_SCORE_BILINEAR;
    c->repeats = c->additive && c->m.G < c->m.H;
    c->tables = tables_of(&c->g);
    status = shape_operator(c, reason, size);
    if (status) return status;
    if (!qkv_kernel()->linear[a->precision]) return QKV_ERR_UNSUPPORTED;
    c->type = c->back.kernel->type;
    c->one = qkv_dtype_size(c->type);
    c->rows = a->B * a->T;
    c->keys = a->B * a->S;
    c->once = (struct qkv_linear_once){ .precision = a->precision, .threads = c->back.w.threads };
    c->linear = (struct qkv_linear_back){ .precision = a->precision, .threads = c->back.w.threads };
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    place_arrays(c, &arena);
    count_products(c, &arena);
    c->own = qkv_arena_alloc(&arena, 1, c->back.scratch);
    c->bytes = arena.used;
    return qkv_arena_full(&arena) ? QKV_ERR_LIMIT : QKV_OK;
}

// ---- products ----------------------------------------------------------------------------------
// Gradients of y = x w^T + b. dx is real if dx_real is set, else of the kernels' type; x is of
// x_type.
struct product {
    void *dx;
    const real *dx_add;
    bool dx_real;
    float *dw, *db; // gradient arrays of the caller
    const void *dy, *x;
    qkv_dtype dy_type, x_type;
    int64_t R, K, N, ldx, lddy;
    const real *w;
    bool transposed;
};
static void back(const struct call *c, const struct product *p)
{
    struct qkv_linear_back how = c->linear;
    const struct qkv_linear_part part = { p->N, p->w, NULL, p->transposed };
    how.x = p->x_type;
    how.y = p->dy_type;
    how.dx_real = p->dx_real;
    how.dx_add = p->dx_add;
    how.ldx = p->ldx;
    how.lddy = p->lddy;
    qkv_linear_once_backward(p->dx, qkv_reals(p->dw), qkv_reals(p->db), p->dy, p->x, p->R, p->K,
                             &part, &how);
}

// Adds the gradient of one projection to its input: dx (+)= d w, or d itself without weights.
static void input(const struct call *c, real *dx, bool first, const void *d, const real *x,
                  int64_t R, int64_t K, int64_t N, const float *w, float *dw, float *db)
{
    if (w) {
        back(c, &(struct product){ .dx = dx,
                                   .dx_add = first ? NULL : dx,
                                   .dx_real = true,
                                   .dw = dw,
                                   .db = db,
                                   .dy = d,
                                   .x = x,
                                   .dy_type = c->type,
                                   .R = R,
                                   .K = K,
                                   .N = N,
                                   .w = qkv_reals(w) });
        return;
    }
    if (!dx || !R) return;
    const real *from = d;
    if (c->type != QKV_REAL) {
        qkv_widen(c->wide, d, c->type, R * N);
        from = c->wide;
    }
    if (first)
        memcpy(dx, from, (size_t)(R * N) * sizeof *dx);
    else
        qkv_kernel()->add_row(dx, from, 1, R * N);
}

// ---- bilinear and additive scores --------------------------------------------------------------
static const void *head_at(const struct call *c, const void *array, int64_t offset)
{
    return (const char *)array + (size_t)offset * c->one;
}

static void bilinear(const struct call *c, const void *q)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t d = m->d_k, ld = m->H * d;
    const struct qkv_after types = { .x = c->type, .y = c->type };
    for (int64_t h = 0; h < m->H; h++) {
        const struct qkv_linear_part part = { d, qkv_reals(m->w_s) + h * d * d, NULL, true };
        qkv_linear_once((void *)head_at(c, c->score_q, h * d), ld, head_at(c, q, h * d), ld,
                        c->rows, d, &part, &types, &c->once);
    }
}

static void bilinear_back(const struct call *c, const void *q)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t d = m->d_k, ld = m->H * d;
    for (int64_t h = 0; h < m->H; h++)
        back(c,
             &(struct product){ .dx = (void *)head_at(c, c->dq, h * d),
                                .dw = c->g.w_s ? (float *)(qkv_reals(c->g.w_s) + h * d * d) : NULL,
                                .dy = head_at(c, c->dscore_q, h * d),
                                .x = head_at(c, q, h * d),
                                .dy_type = c->type,
                                .x_type = c->type,
                                .R = c->rows,
                                .K = d,
                                .N = d,
                                .ldx = ld,
                                .lddy = ld,
                                .w = qkv_reals(m->w_s) + h * d * d,
                                .transposed = true });
}

static void additive(const struct call *c, const real *q, const real *k, const real *v)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t d = m->d_a, ld = m->H * 2 * d, shared = m->H / m->G, F = m->d_v;
    for (int64_t h = 0; h < m->H; h++) {
        const int64_t at = h * d * m->d_k;
        const struct qkv_linear_part wq = { d, qkv_reals(m->w_aq) + at, NULL, false };
        const struct qkv_linear_part wk = { d, qkv_reals(m->w_ak) + at, NULL, false };
        real *u = (real *)c->score_q + h * 2 * d;
        qkv_linear_once(u, ld, q + h * m->d_k, m->H * m->d_k, c->rows, m->d_k, &wq, NULL, &c->once);
        for (int64_t r = 0; r < c->rows; r++)
            memcpy(u + r * ld + d, qkv_reals(m->w_a) + h * d, (size_t)d * sizeof *u);
        qkv_linear_once((real *)c->score_k + h * 2 * d, ld, k + h / shared * m->d_k, m->G * m->d_k,
                        c->keys, m->d_k, &wk, NULL, &c->once);
    }
    for (int64_t r = 0; r < c->keys && c->repeats; r++)
        for (int64_t h = 0; h < m->H; h++)
            memcpy((real *)c->values + (r * m->H + h) * F, v + (r * m->G + h / shared) * F,
                   (size_t)F * sizeof *v);
}

static void additive_back(const struct call *c, const real *q, const real *k)
{
    const struct qkv_multi_head *m = &c->m;
    const struct qkv_kernels *kernel = qkv_kernel();
    const int64_t d = m->d_a, ld = m->H * 2 * d, shared = m->H / m->G, F = m->d_v, E = m->d_k;
    for (int64_t h = 0; h < m->H; h++) {
        const int64_t at = h * d * E;
        real *du = (real *)c->dscore_q + h * 2 * d, *dk = (real *)c->dk + h / shared * E;
        back(c, &(struct product){ .dx = (real *)c->dq + h * E,
                                   .dw = c->g.w_aq ? (float *)(qkv_reals(c->g.w_aq) + at) : NULL,
                                   .dy = du,
                                   .x = q + h * E,
                                   .R = c->rows,
                                   .K = E,
                                   .N = d,
                                   .ldx = m->H * E,
                                   .lddy = ld,
                                   .w = qkv_reals(m->w_aq) + at });
        back(c, &(struct product){ .dx = dk,
                                   .dx_add = h % shared ? dk : NULL,
                                   .dw = c->g.w_ak ? (float *)(qkv_reals(c->g.w_ak) + at) : NULL,
                                   .dy = (real *)c->dscore_k + h * 2 * d,
                                   .x = k + h / shared * E,
                                   .R = c->keys,
                                   .K = E,
                                   .N = d,
                                   .ldx = m->G * E,
                                   .lddy = ld,
                                   .w = qkv_reals(m->w_ak) + at });
        for (int64_t r = 0; r < c->rows && c->g.w_a; r++)
            kernel->add_row(qkv_reals(c->g.w_a) + h * d, du + r * ld + d, 1, d);
    }
    if (!c->repeats) return;
    memset(c->dv, 0, (size_t)(c->keys * m->G * F) * sizeof(real));
    for (int64_t r = 0; r < c->keys; r++)
        for (int64_t h = 0; h < m->H; h++)
            kernel->add_row((real *)c->dv + (r * m->G + h / shared) * F,
                            (real *)c->dvalues + (r * m->H + h) * F, 1, F);
}

// ---- the call ----------------------------------------------------------------------------------
// Returns an array of the caller in the type of the kernels: itself, or converted into `to`.
static const void *stored(const struct call *c, void *to, const real *from, int64_t n)
{
    if (!to) return from;
    qkv_narrow(to, c->type, from, n);
    return to;
}

static void heads_back(const struct call *c, const real *dout, const void *heads)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t O = m->H * m->d_v;
    if (m->w_o)
        back(c, &(struct product){ .dx = c->dheads,
                                   .dw = c->g.w_o,
                                   .db = c->g.b_o,
                                   .dy = dout,
                                   .x = heads,
                                   .x_type = c->type,
                                   .R = c->rows,
                                   .K = O,
                                   .N = m->d_out,
                                   .w = qkv_reals(m->w_o) });
    else
        qkv_narrow(c->dheads, c->type, dout, c->rows * O);
}

static bool aligned(const float *const *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uintptr_t)arrays[i] % sizeof(float)) return false;
    return true;
}

static qkv_status check_arrays(const struct call *c, const float *dx, const float *dc,
                               const float *dout, const struct qkv_multi_head_keep *keep,
                               const float *x, const float *context, const void *scratch)
{
    const struct qkv_multi_head *m = &c->m;
    const struct qkv_multi_head_gradients *g = &c->g;
    const float *const all[] = { dx,      dc,      dout,        x,         context, keep->q,
                                 keep->k, keep->v, keep->heads, keep->lse, m->w_q,  m->w_k,
                                 m->w_v,  m->w_o,  m->w_s,      m->w_aq,   m->w_ak, m->w_a,
                                 g->w_q,  g->w_k,  g->w_v,      g->w_o,    g->b_q,  g->b_k,
                                 g->b_v,  g->b_o,  g->w_s,      g->w_aq,   g->w_ak, g->w_a };
    if (!scratch || (uintptr_t)scratch % 64 || !aligned(all, sizeof all / sizeof *all))
        return QKV_ERR_USAGE;
    if (!context && (m->d_kv != m->d_q || c->a.S != c->a.T || dc)) return QKV_ERR_USAGE;
    if (c->rows && (!dout || !x || !keep->q || !keep->heads || !keep->lse)) return QKV_ERR_USAGE;
    if (c->keys && (!keep->k || !keep->v)) return QKV_ERR_USAGE;
    return QKV_OK;
}

static qkv_status operate(const struct call *c, const real *lse, const void *q, const void *k,
                          const void *v, const void *heads)
{
    const struct qkv_attention_back_given given = {
        .dq = c->dscore_q ? c->dscore_q : c->dq,
        .dk = c->dscore_k ? c->dscore_k : c->dk,
        .dv = c->dvalues ? c->dvalues : c->dv,
        .dout = c->dheads,
        .q = c->score_q ? c->score_q : q,
        .k = c->score_k ? c->score_k : k,
        .v = c->values ? c->values : v,
        .out = heads,
        .scratch = c->own,
        .lse = lse,
    };
    return qkv_attention_back_run(&c->back, &c->tables, &given);
}

QKV_API qkv_status qkv_multi_head_backward(float *dx, float *dc,
                                           const struct qkv_multi_head_gradients *g,
                                           const float *dout,
                                           const struct qkv_multi_head_keep *keep, const float *x,
                                           const float *context, const struct qkv_multi_head *given,
                                           const struct qkv_attention *a, void *scratch)
{
    if (!given || !a || !keep) return QKV_ERR_USAGE;
    struct call c;
    qkv_status status = resolve(&c, given, a, g, scratch, NULL, 0);
    if (!status) status = check_arrays(&c, dx, dc, dout, keep, x, context, scratch);
    if (status) return status;
    const struct qkv_multi_head *m = &c.m;
    const int64_t Q = m->H * m->d_k, K = m->G * m->d_k, V = m->G * m->d_v;
    const void *q = stored(&c, c.q, qkv_reals(keep->q), c.rows * Q);
    const void *k = stored(&c, c.k, qkv_reals(keep->k), c.keys * K);
    const void *v = stored(&c, c.v, qkv_reals(keep->v), c.keys * V);
    const void *heads = stored(&c, c.heads, qkv_reals(keep->heads), c.rows * m->H * m->d_v);
    heads_back(&c, qkv_reals(dout), heads);
    if (c.bilinear) bilinear(&c, q);
    if (c.additive) additive(&c, q, k, v);
    status = operate(&c, qkv_reals(keep->lse), q, k, v, heads);
    if (status) return status;
    if (c.bilinear) bilinear_back(&c, q);
    if (c.additive) additive_back(&c, q, k);
    const real *in = qkv_reals(x), *other = context ? qkv_reals(context) : in;
    real *to = qkv_reals(context ? dc : dx);
    input(&c, qkv_reals(dx), true, c.dq, in, c.rows, m->d_q, Q, m->w_q, c.g.w_q, c.g.b_q);
    input(&c, to, context != NULL, c.dk, other, c.keys, m->d_kv, K, m->w_k, c.g.w_k, c.g.b_k);
    input(&c, to, false, c.dv, other, c.keys, m->d_kv, V, m->w_v, c.g.w_v, c.g.b_v);
    return QKV_OK;
}

QKV_API struct qkv_attention_plan
qkv_multi_head_backward_plan(const struct qkv_multi_head *m, const struct qkv_attention *a,
                             const struct qkv_multi_head_gradients *g)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE };
    struct call c;
    if (m && a) p.status = resolve(&c, m, a, g, NULL, p.reason, sizeof p.reason);
    if (p.status && !p.reason[0])
        snprintf(p.reason, sizeof p.reason, "%s",
                 p.status == QKV_ERR_LIMIT ? "a width or the scratch is too large"
                                           : "widths and weights of the layer do not match");
    if (p.status) return p;
    p.kernel = c.additive ? "fused additive backward" : "fused backward";
    p.isa = c.back.kernel->isa;
    p.arithmetic = c.back.kernel->arithmetic;
    p.scratch = (size_t)qkv_max64((int64_t)c.bytes, 64);
    p.scratch_thread = c.back.scratch_thread;
    qkv_attention_count(&p, &c.back.w,
                        &(struct qkv_attention_tiling){
                            .block = c.back.kernel->rows,
                            .rows = c.back.kernel->rows,
                            .keys = c.back.kernel->keys,
                            .flops = 2.0 * (double)(3 * c.back.w.a.E + 2 * c.back.w.a.F),
                        });
    p.flops += c.flops;
    return p;
}
