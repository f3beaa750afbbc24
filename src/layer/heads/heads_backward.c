// SPDX-License-Identifier: MIT
// heads_backward.c: computes the gradients of attention with its projections from the tape of
// forward.
//   d heads = dy W_o,   dq, dk, dv = backward of attention,   dx = [dq, dk, dv] W,
//   d memory = [dk, dv] W_kv for cross-attention
// Backward computes again what layers store in shared arrays: the queries and keys after their
// norms, and the inputs of bilinear and additive scores.
#include "layer/attention/attention_back_work.h"
#include "layer/heads/heads_work.h"

qkv_status qkv_heads_back_resolve(struct qkv_attention_back *back, const struct qkv_heads *m,
                                  const struct qkv_attention *a, const struct qkv_heads_arrays *at,
                                  const struct qkv_attention_tables *tables, char *reason,
                                  size_t size)
{
    struct qkv_attention whole = qkv_heads_attention(m, a, at);
    if (m->scores && whole.scale == 0) whole.scale = 1;
    if (!qkv_heads_additive(m))
        return qkv_attention_back_resolve(back, &whole, tables, reason, size);
    const struct qkv_strides natural = { 0, 0, 0 };
    whole.E = 2 * m->scores->d_a;
    whole.G = m->H;
    whole.q_strides = whole.k_strides = whole.v_strides = natural;
    return qkv_attention_back_additive(back, &whole, tables, reason, size);
}

size_t qkv_heads_product_scratch(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S,
                                 bool back)
{
    const size_t bytes[] = { qkv_linear_train_scratch(&m->in, t, R, back),
                             qkv_linear_train_scratch(&m->kv, t, S, back),
                             qkv_linear_train_scratch(&m->out, t, R, back),
                             m->scores ? qkv_score_scratch(m, t, R, S, back) : 0 };
    size_t most = 0;
    for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++)
        if (bytes[i] > most) most = bytes[i];
    return most;
}

size_t qkv_heads_train_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status)
{
    const struct qkv_heads_arrays shape = qkv_heads_joined(NULL, NULL, QKV_REAL, m);
    const struct qkv_attention whole = qkv_heads_attention(m, a, &shape);
    const int64_t R = qkv_heads_rows(m, a), S = m->ranks ? R : a->B * a->S;
    size_t bytes[4] = { 0 }, most = 0;
    bytes[0] = m->ranks ? qkv_heads_ranks_scratch(m, a, back, status)
                        : qkv_attention_real_scratch(&whole, back, status);
    if (*status) return SIZE_MAX;
    const qkv_dtype type = qkv_attention_kernel_table(&whole)->type;
    bytes[1] = qkv_heads_product_scratch(m, type, R, S, back);
    if (back && m->norm_q)
        bytes[2] = qkv_norm_backward_scratch(R * m->H * m->E / m->norm_q->D, m->norm_q->D);
    if (back && m->norm_k)
        bytes[3] = qkv_norm_backward_scratch(S * m->G * m->E / m->norm_k->D, m->norm_k->D);
    for (int i = 0; i < 4; i++)
        if (bytes[i] > most) most = bytes[i];
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}

// The queries or the keys of a call, and their gradients.
struct side {
    const void *x; // queries or keys before norm and rotation, as the projection wrote them
    void *d_x, *d; // d_x: gradient of x; d: gradient of the queries or keys after norm and rotation
    int64_t ld, R, H;
    const struct qkv_norm *norm;
};

// Computes s->d_x, the gradient of queries or keys before norm and rotation, from s->d, which it
// overwrites.
static void unready(const struct side *s, qkv_dtype t, const struct qkv_heads_back *b,
                    const struct qkv_heads_tape *tape, const struct qkv_heads *m, void *scratch)
{
    const qkv_dtype type = t == QKV_REAL ? (qkv_dtype)0 : t;
    const int64_t width = s->H * m->E;
    const void *d = s->d;
    qkv_dtype d_type = t;
    if (m->rope) {
        struct qkv_rope rope = *m->rope;
        rope.backward = true;
        rope.ldx = s->d == s->d_x ? s->ld : 0;
        qkv_rope_apply(s->d, type, m->positions, s->R, s->H, m->E, &rope);
    }
    if (s->norm) {
        const struct qkv_norm_keep keep = { .rstd = b->rstd };
        qkv_copy_rows(tape->wide, QKV_REAL, width, s->x, t, s->ld, width, s->R);
        qkv_norm_kind_forward(NULL, 0, &keep, tape->wide, s->R * width / s->norm->D, s->norm,
                              QKV_NORM_RMS);
        qkv_norm_sums_backward(&(struct qkv_norm_back){ .dx = b->d_wide,
                                                        .dy = s->d,
                                                        .type = type,
                                                        .x = tape->wide,
                                                        .keep = keep,
                                                        .scratch = scratch },
                               s->R * width / s->norm->D, s->norm, QKV_NORM_RMS, m->in.once->sums,
                               width / s->norm->D);
        d = b->d_wide;
        d_type = QKV_REAL;
    }
    if (d != s->d_x) qkv_copy_rows(s->d_x, t, s->ld, d, d_type, width, width, s->R);
}

// Computes b->d_heads, the gradient of the outputs of the heads, from rows->dy, the gradient of the
// last projection's result.
static void out_backward(const struct qkv_sublayer_back *rows, const struct qkv_heads_back *b,
                         const struct qkv_heads_tape *tape, qkv_dtype t, int64_t R,
                         const struct qkv_heads *m)
{
    const int64_t width = m->H * m->F;
    const qkv_dtype dy_type = rows->dy_type ? rows->dy_type : QKV_REAL;
    if (m->out.K)
        qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = b->d_heads,
                                                             .dy = { rows->dy },
                                                             .dy_type = rows->dy_type,
                                                             .x = tape->heads,
                                                             .x_type = t },
                                  R, &m->out);
    else
        qkv_copy_rows(b->d_heads, t, width, rows->dy, dy_type, width, width, R);
}

// Computes the gradients of the inputs of the projections to q, k and v, and adds the gradients of
// their weights.
static void in_backward(const struct qkv_sublayer_back *rows, const struct qkv_heads_back *b,
                        qkv_dtype t, int64_t R, int64_t S, const struct qkv_heads *m)
{
    const struct qkv_heads_arrays *d = &b->d;
    if (m->kv.K)
        qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = b->d_memory,
                                                             .dx_real = true,
                                                             .dx_add = b->memory_add,
                                                             .dy = { d->k, d->v },
                                                             .lddy = { d->k_ld, d->v_ld },
                                                             .dy_type = t,
                                                             .x = m->memory },
                                  S, &m->kv);
    qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = rows->dx,
                                                         .dx_real = rows->dx_real,
                                                         .dx_add = rows->dx_add,
                                                         .dy = { d->q, d->k, d->v },
                                                         .lddy = { d->q_ld, d->k_ld, d->v_ld },
                                                         .dy_type = t,
                                                         .x = rows->x,
                                                         .x_type = rows->x_type },
                              R, &m->in);
}

qkv_status qkv_heads_backward(const struct qkv_sublayer_back *rows, const struct qkv_heads_back *b,
                              const struct qkv_heads_tape *tape, const struct qkv_heads *m,
                              const struct qkv_attention *a, void *scratch)
{
    const int64_t R = qkv_heads_rows(m, a), S = m->ranks ? R : a->B * a->S;
    const struct qkv_attention_tables relative = { .relative = b->d_relative };
    const struct qkv_attention_tables *tables = b->tables ? b->tables : &relative;
    const struct qkv_heads_arrays *at = &tape->at, *d = &b->d;
    const struct qkv_score_arrays none = { 0 }, *in = m->scores ? b->scores : &none,
                                  *d_in = m->scores ? b->d_scores : &none;
    const bool normed = qkv_heads_normed(m);
    struct qkv_attention_back back;
    qkv_status status = qkv_heads_back_resolve(&back, m, a, at, tables, NULL, 0);
    if (status) return status;
    const qkv_dtype t = back.kernel->type;
    const struct side sides[] = {
        { at->q, d->q, normed ? b->d_q : d->q, at->q_ld, R, m->H, m->norm_q },
        { at->k, d->k, normed ? b->d_k : d->k, at->k_ld, S, m->G, m->norm_k },
    };
    const void *q = normed ? tape->q : at->q, *k = normed ? tape->k : at->k;
    out_backward(rows, b, tape, t, R, m);
    if (normed) {
        qkv_heads_ready(tape->q, at->q, at->q_ld, t, tape->wide, R, m->H, m->norm_q, m);
        qkv_heads_ready(tape->k, at->k, at->k_ld, t, tape->wide, S, m->G, m->norm_k, m);
    }
    if (m->scores) qkv_score_fill(in, q, k, at->v, t, R, S, m);
    if (m->ranks) {
        const struct qkv_heads_ranks_rows x =
            qkv_heads_ranks_of(at, (void *)(uintptr_t)q, (void *)(uintptr_t)k, tape->heads, m);
        const struct qkv_heads_ranks_rows dx =
            qkv_heads_ranks_of(d, sides[0].d, sides[1].d, b->d_heads, m);
        status = qkv_heads_ranks_backward(&x, &dx, tape->lse, m, a, scratch);
    } else {
        status = qkv_attention_back_run(
            &back, tables,
            &(struct qkv_attention_back_given){ .dq = d_in->q ? d_in->q : sides[0].d,
                                                .dk = d_in->k ? d_in->k : sides[1].d,
                                                .dv = d_in->v ? d_in->v : d->v,
                                                .dout = b->d_heads,
                                                .q = in->q ? in->q : q,
                                                .k = in->k ? in->k : k,
                                                .v = in->v ? in->v : at->v,
                                                .out = tape->heads,
                                                .lse = tape->lse,
                                                .scratch = scratch });
    }
    if (status) return status;
    if (m->scores) qkv_score_backward(d, d_in, q, k, t, R, S, m);
    for (int i = 0; i < 2; i++) unready(&sides[i], t, b, tape, m, scratch);
    in_backward(rows, b, t, R, S, m);
    return QKV_OK;
}
