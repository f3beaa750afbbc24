// SPDX-License-Identifier: MIT
// multi_head.c: provides the public multi-head layer: validates the arguments, and calls the
// attention of models (heads.c) with projections of any widths and one of three score functions.
//
//   q = x W_q^T + b_q,  k = c W_k^T + b_k,  v = c W_v^T + b_v,  out = concat(heads) W_o^T + b_o
#include "layer/heads/multi_head_work.h"
#include <stdio.h>

// largest width of a head, an input or an output; the same limit as in attention
enum { WIDTH_MAX = 1 << 20 };

qkv_status qkv_multi_head_check(const struct qkv_multi_head *m, const struct qkv_attention *a)
{
    const int64_t widths[] = { m->H, m->G, m->d_q, m->d_kv, m->d_k, m->d_v };
    for (size_t i = 0; i < sizeof widths / sizeof *widths; i++) {
        if (widths[i] < 1) return QKV_ERR_USAGE;
        if (widths[i] > WIDTH_MAX) return QKV_ERR_LIMIT;
    }
    if (m->H % m->G || a->B < 0 || a->T < 0 || a->S < 0) return QKV_ERR_USAGE;
    if (a->first_row || a->all_rows) return QKV_ERR_USAGE; // whole calls only
    if (m->w_o && m->d_out < 1) return QKV_ERR_USAGE;
    if (m->w_o && m->d_out > WIDTH_MAX) return QKV_ERR_LIMIT;
    if (!m->w_q && m->d_q != m->H * m->d_k) return QKV_ERR_USAGE;
    if (!m->w_k && m->d_kv != m->G * m->d_k) return QKV_ERR_USAGE;
    if (!m->w_v && m->d_kv != m->G * m->d_v) return QKV_ERR_USAGE;
    switch (m->score) {
    case QKV_SCORE_DOT: return QKV_OK;
    case QKV_SCORE_BILINEAR: return m->w_s ? QKV_OK : QKV_ERR_USAGE;
    case QKV_SCORE_ADDITIVE:
        if (!m->w_aq || !m->w_ak || !m->w_a || m->d_a < 1) return QKV_ERR_USAGE;
        return m->d_a > WIDTH_MAX / 2 ? QKV_ERR_LIMIT : QKV_OK;
    }
    return QKV_ERR_USAGE;
}

struct qkv_multi_head qkv_multi_head_defaults(const struct qkv_multi_head *m)
{
    struct qkv_multi_head own = *m;
    if (!own.G) own.G = own.H;
    if (!own.d_kv) own.d_kv = own.d_q;
    return own;
}

static struct qkv_linear_part part_of(int64_t N, const float *w, const float *b)
{
    return (struct qkv_linear_part){ .N = N, .w = qkv_reals(w), .b = qkv_reals(b) };
}

void qkv_multi_head_layer(struct qkv_multi_head_layer *l, const struct qkv_multi_head *m,
                          const float *context, qkv_precision precision)
{
    const struct qkv_linear_part q = part_of(m->H * m->d_k, m->w_q, m->b_q);
    const struct qkv_linear_part k = part_of(m->G * m->d_k, m->w_k, m->b_k);
    const struct qkv_linear_part v = part_of(m->G * m->d_v, m->w_v, m->b_v);
    const struct qkv_linear_part o = part_of(m->d_out, m->w_o, m->b_o);
    struct qkv_heads *heads = &l->heads;
    *l = (struct qkv_multi_head_layer){ .once = { .precision = precision,
                                                  .threads = qkv_threads() } };
    l->scores = (struct qkv_scores){ .kind = m->score,
                                     .d_a = m->d_a,
                                     .w_s = qkv_reals(m->w_s),
                                     .w_aq = qkv_reals(m->w_aq),
                                     .w_ak = qkv_reals(m->w_ak),
                                     .w_a = qkv_reals(m->w_a),
                                     .once = &l->once };
    *heads = (struct qkv_heads){ .H = m->H, .G = m->G, .E = m->d_k, .F = m->d_v };
    heads->in = (struct qkv_linear){ .K = m->d_q, .parts = 1, .part = { q }, .once = &l->once };
    if (context) {
        heads->memory = qkv_reals(context);
        heads->kv =
            (struct qkv_linear){ .K = m->d_kv, .parts = 2, .part = { k, v }, .once = &l->once };
    } else {
        heads->in.parts = 3;
        heads->in.part[1] = k;
        heads->in.part[2] = v;
    }
    if (m->w_o)
        heads->out =
            (struct qkv_linear){ .K = m->H * m->d_v, .parts = 1, .part = { o }, .once = &l->once };
    if (m->score != QKV_SCORE_DOT) heads->scores = &l->scores;
}

// Checks a call of the layer and fills *w and *l. If attention refuses the call, reason[size]
// receives the cause; size 0: not requested.
static qkv_status resolve(struct qkv_attention_work *w, struct qkv_multi_head_layer *l,
                          const struct qkv_multi_head *m, const float *context,
                          const struct qkv_attention *a, char *reason, size_t size)
{
    qkv_status status = qkv_multi_head_check(m, a);
    if (status) return status;
    qkv_multi_head_layer(l, m, context, a->precision);
    status = qkv_heads_resolve(w, &l->heads, a, NULL, reason, size);
    if (status == QKV_ERR_UNSUPPORTED && m->score == QKV_SCORE_ADDITIVE &&
        !qkv_score_additive(a->precision))
        snprintf(reason, size, "additive scores are not supported in precision %s, expected f32",
                 qkv_precision_name(a->precision));
    if (!status && !qkv_kernel()->linear[a->precision]) return QKV_ERR_UNSUPPORTED;
    return status;
}

// Divides `scratch` into the scratch of the products, l->once.scratch, and the scratch of
// qkv_heads_forward, *own. Returns the bytes of both; SIZE_MAX: too large.
static size_t place(struct qkv_multi_head_layer *l, const struct qkv_attention *a, void *scratch,
                    void **own)
{
    const struct qkv_heads *m = &l->heads;
    const int64_t R = a->B * a->T, S = a->B * a->S;
    qkv_status status;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    const size_t layer = qkv_heads_scratch(m, a, &status);
    l->once.scratch =
        qkv_arena_alloc(&arena, 1, qkv_heads_product_scratch(m, QKV_REAL, R, S, false));
    *own = qkv_arena_alloc(&arena, 1, layer);
    return status || qkv_arena_full(&arena) || arena.used > INT64_MAX ? SIZE_MAX : arena.used;
}

double qkv_multi_head_flops(const struct qkv_multi_head *m, const struct qkv_attention *a,
                            double projections, double scores)
{
    const double rows = (double)(a->B * a->T), keys = (double)(a->B * a->S), H = (double)m->H;
    const double q = (double)(m->H * m->d_k), k = (double)(m->G * m->d_k);
    const double v = (double)(m->G * m->d_v), o = (double)(m->H * m->d_v);
    double sum = 0;
    if (m->w_q) sum += rows * (double)m->d_q * q * projections;
    if (m->w_k) sum += keys * (double)m->d_kv * k * projections;
    if (m->w_v) sum += keys * (double)m->d_kv * v * projections;
    if (m->w_o) sum += rows * o * (double)m->d_out * projections;
    if (m->score == QKV_SCORE_BILINEAR) sum += H * rows * (double)m->d_k * (double)m->d_k * scores;
    if (m->score == QKV_SCORE_ADDITIVE)
        sum += H * (rows + keys) * (double)m->d_k * (double)m->d_a * scores;
    return sum;
}

void qkv_multi_head_reason(struct qkv_attention_plan *p)
{
    if (!p->status || p->reason[0]) return;
    if (p->status == QKV_ERR_LIMIT)
        snprintf(p->reason, sizeof p->reason,
                 "a width of the layer exceeds %d (d_a: %d), or its scratch exceeds the address "
                 "space",
                 WIDTH_MAX, WIDTH_MAX / 2);
    else
        snprintf(p->reason, sizeof p->reason, "%s",
                 "widths and weights of the layer do not match each other");
}

QKV_API struct qkv_attention_plan qkv_multi_head_plan(const struct qkv_multi_head *given,
                                                      const struct qkv_attention *a)
{
    struct qkv_attention_plan p = { .status = QKV_ERR_USAGE };
    struct qkv_attention_work w;
    struct qkv_multi_head_layer l;
    struct qkv_multi_head m;
    void *own;
    size_t bytes = 0;
    if (given && a) {
        m = qkv_multi_head_defaults(given);
        const float any = 0, *context = m.d_kv != m.d_q || a->S != a->T ? &any : NULL;
        p.status = resolve(&w, &l, &m, context, a, p.reason, sizeof p.reason);
        if (!p.status) bytes = place(&l, a, NULL, &own);
        if (bytes == SIZE_MAX) p.status = QKV_ERR_LIMIT;
    }
    qkv_multi_head_reason(&p);
    if (p.status) return p;
    qkv_attention_describe(&p, &w);
    p.scratch = (size_t)qkv_max64((int64_t)bytes, 64);
    p.flops += qkv_multi_head_flops(&m, a, 2, 2);
    return p;
}

// Returns whether all arrays of the caller are aligned for floats.
static bool aligned(const struct qkv_multi_head *m, const struct qkv_multi_head_keep *keep,
                    const float *out, const float *x, const float *context)
{
    static const struct qkv_multi_head_keep none;
    if (!keep) keep = &none;
    const float *const floats[] = { out,    x,       context, m->w_q,  m->w_k,     m->w_v,  m->w_o,
                                    m->b_q, m->b_k,  m->b_v,  m->b_o,  m->w_s,     m->w_aq, m->w_ak,
                                    m->w_a, keep->q, keep->k, keep->v, keep->heads };
    return qkv_floats_aligned(floats, sizeof floats / sizeof *floats);
}

QKV_API qkv_status qkv_multi_head_forward(float *out, const struct qkv_multi_head_keep *keep,
                                          const float *x, const float *context,
                                          const struct qkv_multi_head *given,
                                          const struct qkv_attention *a, void *scratch)
{
    if (!given || !a) return QKV_ERR_USAGE;
    const struct qkv_multi_head m = qkv_multi_head_defaults(given);
    struct qkv_attention_work w;
    struct qkv_multi_head_layer l;
    void *own;
    const qkv_status status = resolve(&w, &l, &m, context, a, NULL, 0);
    if (status) return status;
    if (!context && (m.d_kv != m.d_q || a->S != a->T)) return QKV_ERR_USAGE;
    if (!scratch || (uintptr_t)scratch % 64 || (a->B > 0 && a->T > 0 && (!out || !x)))
        return QKV_ERR_USAGE;
    if (!aligned(&m, keep, out, x, context)) return QKV_ERR_USAGE;
    if (place(&l, a, scratch, &own) == SIZE_MAX) return QKV_ERR_LIMIT;
    struct qkv_heads_keep kept = { 0 };
    if (keep)
        kept = (struct qkv_heads_keep){ .q = qkv_reals(keep->q),
                                        .k = qkv_reals(keep->k),
                                        .v = qkv_reals(keep->v),
                                        .heads = qkv_reals(keep->heads),
                                        .lse = qkv_reals(keep->lse),
                                        .weights = qkv_reals(keep->weights) };
    return qkv_heads_forward(&(struct qkv_sublayer_rows){ .x = x, .y = out }, &kept, NULL, &l.heads,
                             a, own);
}
