// SPDX-License-Identifier: MIT
// multi_head_backward.c: provides the backward pass of the public multi-head layer: places its
// arrays in scratch and calls the backward pass of models (heads_backward.c).
#include "layer/attention/attention_back_work.h"
#include "layer/heads/multi_head_work.h"
#include <stdio.h>

// One validated call, and its arrays in scratch.
struct call {
    struct qkv_multi_head m;
    struct qkv_multi_head_gradients g;
    const struct qkv_attention *a;
    struct qkv_multi_head_layer layer;
    struct qkv_attention_back back;
    struct qkv_attention_tables tables;
    qkv_dtype type; // type of the arrays of the attention kernels
    int64_t rows, keys;
    // copies of the arrays that forward stored, in the type of the attention kernels; NULL: the
    // arrays have this type
    struct qkv_heads_arrays converted;
    void *heads;
    struct qkv_score_arrays scores, d_scores;
    struct qkv_heads_back gradients;
    void *own;
    size_t bytes;
};

static struct qkv_attention_tables tables_of(const struct qkv_multi_head_gradients *g)
{
    return (struct qkv_attention_tables){ qkv_reals(g->attention.bias.at),
                                          qkv_reals(g->attention.relative),
                                          qkv_reals(g->attention.alibi),
                                          qkv_reals(g->attention.sinks) };
}

static struct qkv_heads_arrays take(struct qkv_arena *arena, const struct call *c)
{
    const struct qkv_multi_head *m = &c->m;
    const int64_t Q = m->H * m->d_k, K = m->G * m->d_k, V = m->G * m->d_v;
    const size_t one = qkv_dtype_size(c->type);
    struct qkv_heads_arrays at = { .q_ld = Q, .k_ld = K, .v_ld = V };
    at.q = qkv_arena_rows(arena, c->rows, Q, one);
    at.k = qkv_arena_rows(arena, c->keys, K, one);
    at.v = qkv_arena_rows(arena, c->keys, V, one);
    return at;
}

// Allocates all arrays of the call from the arena.
static void place(struct call *c, struct qkv_arena *arena)
{
    const struct qkv_heads *m = &c->layer.heads;
    const size_t one = qkv_dtype_size(c->type);
    const int64_t O = m->H * m->F;
    if (c->type != QKV_REAL) {
        c->converted = take(arena, c);
        c->heads = qkv_arena_rows(arena, c->rows, O, one);
    }
    if (m->scores) {
        struct qkv_score_arrays *const each[] = { &c->scores, &c->d_scores };
        for (int i = 0; i < 2; i++) {
            // backward kernels read keys as wide as queries
            if (qkv_heads_additive(m)) each[i]->key_width = 2 * m->scores->d_a;
            qkv_score_take(each[i], arena, m, c->rows, c->keys, one, m->G < m->H);
        }
    }
    c->gradients = (struct qkv_heads_back){ .d = take(arena, c), .tables = &c->tables };
    c->gradients.d_heads = qkv_arena_rows(arena, c->rows, O, one);
    c->layer.once.scratch =
        qkv_arena_alloc(arena, 1, qkv_heads_product_scratch(m, c->type, c->rows, c->keys, true));
    c->own = qkv_arena_alloc(arena, 1, c->back.scratch);
}

// Sets the pointers of the layer to the caller's arrays that receive gradients.
static void set_gradients(struct call *c)
{
    const struct qkv_multi_head_gradients *g = &c->g;
    struct qkv_heads *m = &c->layer.heads;
    struct qkv_linear *kv = m->kv.K ? &m->kv : &m->in;
    const int k = m->kv.K ? 0 : 1;
    m->in.dw[0] = qkv_reals(g->w_q);
    m->in.db[0] = qkv_reals(g->b_q);
    kv->dw[k] = qkv_reals(g->w_k);
    kv->db[k] = qkv_reals(g->b_k);
    kv->dw[k + 1] = qkv_reals(g->w_v);
    kv->db[k + 1] = qkv_reals(g->b_v);
    m->out.dw[0] = qkv_reals(g->w_o);
    m->out.db[0] = qkv_reals(g->b_o);
    c->layer.scores.dw_s = qkv_reals(g->w_s);
    c->layer.scores.dw_aq = qkv_reals(g->w_aq);
    c->layer.scores.dw_ak = qkv_reals(g->w_ak);
    c->layer.scores.dw_a = qkv_reals(g->w_a);
}

static qkv_status resolve(struct call *c, const struct qkv_multi_head *m, const float *context,
                          const struct qkv_attention *a, const struct qkv_multi_head_gradients *g,
                          void *scratch, char *reason, size_t size)
{
    *c = (struct call){ .m = qkv_multi_head_defaults(m), .a = a };
    if (g) c->g = *g;
    qkv_status status = qkv_multi_head_check(&c->m, a);
    if (status) return status;
    const char *name = qkv_precision_name(a->precision);
    if (m->score == QKV_SCORE_ADDITIVE && !qkv_score_additive(a->precision)) {
        if (name)
            snprintf(reason, size,
                     "additive scores are not supported in precision %s, expected f32", name);
        else
            snprintf(reason, size, "unknown precision %d, expected f32 for additive scores",
                     (int)a->precision);
        return name ? QKV_ERR_UNSUPPORTED : QKV_ERR_USAGE;
    }
    c->tables = tables_of(&c->g);
    qkv_multi_head_layer(&c->layer, &c->m, context, a->precision);
    status = qkv_heads_back_resolve(&c->back, &c->layer.heads, a, NULL, &c->tables, reason, size);
    if (status) return status;
    if (!qkv_kernel()->linear[a->precision]) return QKV_ERR_UNSUPPORTED;
    c->layer.once.threads = c->back.w.threads;
    c->type = c->back.kernel->type;
    c->rows = a->B * a->T;
    c->keys = a->B * a->S;
    set_gradients(c);
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    place(c, &arena);
    c->bytes = arena.used;
    return qkv_arena_full(&arena) || c->bytes > INT64_MAX ? QKV_ERR_LIMIT : QKV_OK;
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
    if (!scratch || (uintptr_t)scratch % 64 || !qkv_floats_aligned(all, sizeof all / sizeof *all))
        return QKV_ERR_USAGE;
    if (!context && (m->d_kv != m->d_q || c->a->S != c->a->T || dc)) return QKV_ERR_USAGE;
    if (c->rows && (!dout || !x || !keep->q || !keep->heads || !keep->lse)) return QKV_ERR_USAGE;
    if (c->keys && (!keep->k || !keep->v)) return QKV_ERR_USAGE;
    return QKV_OK;
}

// Returns the caller's array from[n] in the type of the attention kernels: `from` itself if `to` is
// NULL, otherwise its conversion, which it writes to `to`.
static void *stored(const struct call *c, void *to, const float *from, int64_t n)
{
    if (!to) return qkv_reals(from);
    qkv_narrow(to, c->type, qkv_reals(from), n);
    return to;
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
    qkv_status status = resolve(&c, given, context, a, g, scratch, NULL, 0);
    if (!status) status = check_arrays(&c, dx, dc, dout, keep, x, context, scratch);
    if (status) return status;
    struct qkv_heads_back *b = &c.gradients;
    const int64_t Q = b->d.q_ld, K = b->d.k_ld, V = b->d.v_ld, O = c.m.H * c.m.d_v;
    struct qkv_heads_tape tape = { .at = b->d, .lse = qkv_reals(keep->lse) };
    tape.at.q = stored(&c, c.converted.q, keep->q, c.rows * Q);
    tape.at.k = stored(&c, c.converted.k, keep->k, c.keys * K);
    tape.at.v = stored(&c, c.converted.v, keep->v, c.keys * V);
    tape.heads = stored(&c, c.heads, keep->heads, c.rows * O);
    b->tables = &c.tables;
    b->scores = &c.scores;
    b->d_scores = &c.d_scores;
    b->d_memory = qkv_reals(dc);
    return qkv_heads_backward(
        &(struct qkv_sublayer_back){ .x = x, .dy = dout, .dx = dx, .dx_real = true }, b, &tape,
        &c.layer.heads, a, c.own);
}

QKV_API struct qkv_attention_plan
qkv_multi_head_backward_plan(const struct qkv_multi_head *m, const struct qkv_attention *a,
                             const struct qkv_multi_head_gradients *g)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE };
    struct call c;
    const float any = 0;
    // The plan assumes cross-attention, whose products need at least as much scratch as the
    // products of self-attention.
    if (m && a) p.status = resolve(&c, m, &any, a, g, NULL, p.reason, sizeof p.reason);
    qkv_multi_head_reason(&p);
    if (p.status) return p;
    p.kernel = c.back.additive ? "fused additive backward" : "fused backward";
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
    p.flops += qkv_multi_head_flops(&c.m, a, 4, 6);
    return p;
}
