// SPDX-License-Identifier: MIT
// net_look.c: what a net makes of sequences, for evaluation and probes: vectors, labels, attention.
#include "model/net_body.h"
#include <inttypes.h>
#include <string.h>

static qkv_status not_for(const qkv_net *n, const char *what, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_USAGE, NULL, "expected %s, found a %s", what, n->model_type);
}

// Tokens through the stacks, nothing kept; source NULL: one stack alone.
static qkv_status forward(struct qkv_net_flow *f, const struct qkv_sequences *in,
                          const struct qkv_sequences *source,
                          void (*more)(void *, struct qkv_arena *), void *ctx, size_t scratch,
                          qkv_error *err)
{
    const bool decoder = source || f->n->kind == QKV_NET_DECODER;
    const struct qkv_net_flow_plan plan = { .encoder = decoder ? source : in,
                                            .decoder = decoder ? in : NULL,
                                            .scratch = scratch,
                                            .more = more,
                                            .ctx = ctx };
    f->keeping = QKV_KEEP_NOTHING;
    qkv_status s = qkv_net_check_sequences(f->n, in, err);
    if (!s && source) s = qkv_net_check_sequences(f->n, source, err);
    if (!s) s = qkv_net_flow_begin(f, &plan, err);
    if (s) return s;
    if (f->encoder.stack) s = qkv_net_side_forward(f, &f->encoder);
    if (!s && f->decoder.stack) s = qkv_net_side_forward(f, &f->decoder);
    return s ? qkv_fail(err, s, NULL, "a layer was refused") : QKV_OK;
}

struct ends {
    const qkv_net *n;
    int64_t rows;
    real *length, *picked, *dense;
};
static void take_ends(void *ctx, struct qkv_arena *a)
{
    struct ends *e = ctx;
    const size_t D = (size_t)e->n->shape.width, rows = (size_t)e->rows;
    e->length = qkv_arena_take(a, rows, sizeof(real));
    e->picked = qkv_arena_take(a, rows, D * sizeof(real));
    e->dense = qkv_arena_take(a, rows, D * sizeof(real));
}

qkv_status qkv_net_vectors(qkv_net *n, real *v, const struct qkv_sequences *in, qkv_error *err)
{
    if (n->kind != QKV_NET_ENCODER) return not_for(n, "an encoder", err);
    struct qkv_net_flow f = { .n = n };
    struct ends e = { .n = n, .rows = in->n };
    const qkv_status s = forward(&f, in, NULL, take_ends, &e, 0, err);
    if (!s)
        qkv_mean_pool_forward(v, e.length, f.encoder.final, in->offsets, in->n, n->shape.width,
                              true);
    return s;
}

qkv_status qkv_net_classify(qkv_net *n, real *logits, const struct qkv_sequences *in,
                            qkv_error *err)
{
    if (!n->shape.labels) return not_for(n, "an encoder with a head for labels", err);
    struct qkv_net_flow f = { .n = n, .threads = qkv_threads() };
    struct ends e = { .n = n, .rows = in->n };
    const struct qkv_net_body *body = n->body;
    const int64_t D = n->shape.width;
    const size_t dense = qkv_net_product_scratch(&f, in->n, &body->classify.dense, false);
    const size_t out = qkv_net_product_scratch(&f, in->n, &body->classify.out, false);
    const qkv_status s = forward(&f, in, NULL, take_ends, &e, dense > out ? dense : out, err);
    if (s) return s;
    const real *x = f.encoder.final;
    for (int64_t i = 0; i < in->n; i++)
        memcpy(e.picked + i * D, x + in->offsets[i] * D, (size_t)D * sizeof *x);
    qkv_net_product(&f, e.dense, 0, e.picked, 0, in->n, &body->classify.dense, NULL);
    qkv_activation_forward(e.dense, e.dense, 0, in->n * D, n->is.classify_act);
    qkv_net_product(&f, logits, 0, e.dense, 0, in->n, &body->classify.out, NULL);
    return QKV_OK;
}

// ---- attention ---------------------------------------------------------------------------------
// Dense weights of parts of one kind, each formed anew from what its products left.
struct look {
    enum qkv_net_part_kind kind;
    int64_t layer; // -1: every one, one behind the other
    real *weights;
};
static qkv_status seen(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct look *l = f->ctx;
    const struct qkv_net_part *p = &s->stack->part[part];
    const struct qkv_net_keep *k = &s->keep[part];
    if (p->kind != l->kind || (l->layer >= 0 && p->layer != l->layer)) return QKV_OK;
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory);
    const int64_t matrix = l->layer >= 0 ? 0 : p->layer * a.H * a.T * a.S;
    return qkv_attention_real(k->heads, k->lse, l->weights + matrix, at.q, at.k, at.v, &a,
                              f->scratch);
}

qkv_status qkv_net_attention(qkv_net *n, real *weights, const struct qkv_sequences *in,
                             qkv_error *err)
{
    if (n->kind == QKV_NET_GRU_ATTENTION || in->n != 1)
        return not_for(n, "a Transformer and one sequence", err);
    struct look l = { QKV_NET_SELF, -1, weights };
    struct qkv_net_flow f = { .n = n, .seen = seen, .ctx = &l };
    return forward(&f, in, NULL, NULL, NULL, 0, err);
}

// Probes of self-attention, layer by layer, into arrays that they share.
struct probing {
    struct qkv_probe p;
    void (*layer)(void *user, int64_t layer, const struct qkv_probe *p);
    void *user;
};
static qkv_status probe_seen(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part)
{
    const struct probing *l = f->ctx;
    const struct qkv_net_part *p = &s->stack->part[part];
    const struct qkv_net_keep *k = &s->keep[part];
    if (p->kind != QKV_NET_SELF) return QKV_OK;
    const struct qkv_attention a = qkv_net_attention_of(f, s, part);
    const struct qkv_net_attention_arrays at = qkv_net_attention_at(f, p, k->first, k->memory);
    const qkv_status status = qkv_attention_real_probe(&l->p, at.q, at.k, k->lse, &a);
    if (!status) l->layer(l->user, p->layer, &l->p);
    return status;
}

qkv_status qkv_net_probe(qkv_net *n, const struct qkv_probe_wish *w,
                         void (*layer)(void *user, int64_t layer, const struct qkv_probe *p),
                         void *user, const struct qkv_sequences *in, qkv_error *err)
{
    struct probing l = { .layer = layer, .user = user };
    struct qkv_net_flow f = { .n = n, .seen = probe_seen, .ctx = &l };
    struct qkv_arena count = { .size = SIZE_MAX };
    if (n->kind == QKV_NET_GRU_ATTENTION || in->n != 1)
        return not_for(n, "a Transformer and one sequence", err);
    qkv_status s = qkv_probe_wish_check(w, err);
    if (!s) s = qkv_net_check_sequences(n, in, err);
    if (s) return s;
    const int64_t H = n->is.size.heads, T = in->offsets[1];
    l.p.row = w->row;
    while (l.p.rows < w->rows && w->row[l.p.rows] < T) l.p.rows++;
    qkv_probe_take(&l.p, &count, w, H, T, T);
    void *memory = qkv_arena_full(&count) ? NULL : qkv_alloc(count.used, 1);
    if (!memory) return qkv_fail_memory(err, NULL);
    struct qkv_arena arena = { memory, count.used, 0 };
    qkv_probe_take(&l.p, &arena, w, H, T, T);
    s = forward(&f, in, NULL, NULL, NULL, 0, err);
    qkv_free(memory);
    return s;
}

qkv_status qkv_net_alignment(qkv_net *n, real *weights, int64_t layer,
                             const struct qkv_sequences *in, const struct qkv_sequences *source,
                             qkv_error *err)
{
    const int64_t layers = n->kind == QKV_NET_GRU_ATTENTION ? 1 : n->shape.decoder_layers;
    if (n->kind != QKV_NET_ENCODER_DECODER && n->kind != QKV_NET_GRU_ATTENTION)
        return not_for(n, "an encoder and a decoder", err);
    if (layer < 0) layer += layers;
    if (layer < 0 || layer >= layers || in->n != 1 || source->n != 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "alignment of one pair, expected a layer below %" PRId64 ", found %" PRId64,
                        layers, layer);
    qkv_status s = qkv_net_check_sequences(n, in, err);
    if (!s) s = qkv_net_check_sequences(n, source, err);
    return s ? s : n->methods->align(n, weights, layer, in, source, err);
}

qkv_status qkv_net_transformer_align(qkv_net *n, real *weights, int64_t layer,
                                     const struct qkv_sequences *in,
                                     const struct qkv_sequences *source, qkv_error *err)
{
    struct look l = { QKV_NET_CROSS, layer, weights };
    struct qkv_net_flow f = { .n = n, .seen = seen, .ctx = &l };
    return forward(&f, in, source, NULL, NULL, 0, err);
}
