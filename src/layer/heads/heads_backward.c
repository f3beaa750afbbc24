// SPDX-License-Identifier: MIT
// heads_backward.c: computes the gradients of the attention of a model from the tape of forward.
//   d heads = dy W_o,   dq, dk, dv = backward of attention,   dx = [dq, dk, dv] W,
//   d memory = [dk, dv] W_kv for cross-attention
// Queries and keys after their norms are recomputed, since layers share those arrays.
#include "layer/heads/heads_work.h"

size_t qkv_heads_train_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status)
{
    const struct qkv_heads_arrays shape = qkv_heads_joined(NULL, NULL, QKV_REAL, m);
    const struct qkv_attention whole = qkv_heads_attention(m, a, &shape);
    const int64_t R = a->B * a->T, S = a->B * a->S;
    size_t bytes[5] = { 0 }, most = 0;
    bytes[0] = qkv_attention_real_scratch(&whole, back, status);
    if (*status) return SIZE_MAX;
    const qkv_dtype type = qkv_attention_family(&whole)->type;
    bytes[1] = qkv_linear_train_scratch(&m->in, type, R, back);
    bytes[2] = qkv_linear_train_scratch(&m->out, type, R, back);
    if (m->kv.K) bytes[3] = qkv_linear_train_scratch(&m->kv, type, S, back);
    if (back && m->norm_q) bytes[4] = qkv_norm_backward_scratch(R * m->H, m->E);
    if (back && m->norm_k) {
        const size_t keys = qkv_norm_backward_scratch(S * m->G, m->E);
        if (keys > bytes[4]) bytes[4] = keys;
    }
    for (int i = 0; i < 5; i++)
        if (bytes[i] > most) most = bytes[i];
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}

// Queries or keys of a call: before norm and rotation in rows of `x`, and their gradients.
struct side {
    const void *x; // what the projection wrote
    void *d_x, *d; // its gradient; the gradient after norm and rotation
    int64_t ld, R, H;
    const struct qkv_norm *norm;
};

// Computes the gradient s->d_x of queries or keys before norm and rotation from s->d, which is
// overwritten.
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
        qkv_heads_copy(tape->wide, QKV_REAL, width, s->x, t, s->ld, width, s->R);
        qkv_norm_kind_forward(NULL, 0, &keep, tape->wide, s->R * s->H, s->norm, QKV_NORM_RMS);
        qkv_norm_backward(b->d_wide, NULL, s->norm->dw, NULL, s->d, type, tape->wide, &keep,
                          s->R * s->H, s->norm, QKV_NORM_RMS, scratch);
        d = b->d_wide;
        d_type = QKV_REAL;
    }
    if (d != s->d_x) qkv_heads_copy(s->d_x, t, s->ld, d, d_type, width, width, s->R);
}

qkv_status qkv_heads_backward(const struct qkv_sublayer_back *rows, const struct qkv_heads_back *b,
                              const struct qkv_heads_tape *tape, const struct qkv_heads *m,
                              const struct qkv_attention *a, void *scratch)
{
    const int64_t R = a->B * a->T, S = a->B * a->S;
    const struct qkv_heads_arrays shape = qkv_heads_joined(NULL, NULL, QKV_REAL, m);
    const struct qkv_attention whole = qkv_heads_attention(m, a, &shape);
    const qkv_dtype t = qkv_attention_family(&whole)->type;
    const qkv_dtype type = t == QKV_REAL ? (qkv_dtype)0 : t;
    const struct qkv_heads_arrays at = qkv_heads_joined(tape->in, tape->kv, t, m);
    const struct qkv_heads_arrays d = qkv_heads_joined(b->d_in, b->d_kv, t, m);
    const bool normed = qkv_heads_normed(m);
    const struct side sides[] = {
        { at.q, d.q, normed ? b->d_q : d.q, at.q_ld, R, m->H, m->norm_q },
        { at.k, d.k, normed ? b->d_k : d.k, at.k_ld, S, m->G, m->norm_k },
    };
    qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = b->d_heads,
                                                         .dy = rows->dy,
                                                         .dy_type = rows->dy_type,
                                                         .x = tape->heads,
                                                         .x_type = type },
                              R, &m->out);
    if (normed) {
        qkv_heads_ready(tape->q, at.q, at.q_ld, t, tape->wide, R, m->H, m->norm_q, m);
        qkv_heads_ready(tape->k, at.k, at.k_ld, t, tape->wide, S, m->G, m->norm_k, m);
    }
    const qkv_status status = qkv_attention_real_backward(
        sides[0].d, sides[1].d, d.v, b->d_relative, b->d_heads, normed ? tape->q : at.q,
        normed ? tape->k : at.k, at.v, tape->heads, tape->lse, &whole, scratch);
    if (status) return status;
    for (int i = 0; i < 2; i++) unready(&sides[i], t, b, tape, m, scratch);
    if (m->kv.K)
        qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = b->d_memory,
                                                             .dx_real = true,
                                                             .dx_add = b->d_memory,
                                                             .dy = b->d_kv,
                                                             .dy_type = type,
                                                             .x = m->memory },
                                  S, &m->kv);
    qkv_linear_layer_backward(&(struct qkv_linear_rows){ .dx = rows->dx,
                                                         .dx_real = rows->dx_real,
                                                         .dx_add = rows->dx_add,
                                                         .dy = b->d_in,
                                                         .dy_type = type,
                                                         .x = rows->x,
                                                         .x_type = rows->x_type },
                              R, &m->in);
    return QKV_OK;
}
