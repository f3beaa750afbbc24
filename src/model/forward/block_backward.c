// SPDX-License-Identifier: MIT
// block_backward.c: computes the gradients of one sublayer of a block (block.c) from its tape.
#include "model/forward/tape.h"

// Computes the gradients of a norm over the rows of the stream.
static void norm_backward(const struct qkv_stream *s, const struct qkv_norm_back *rows,
                          const struct qkv_norm *norm)
{
    struct qkv_norm_back own = *rows;
    own.scratch = s->scratch;
    qkv_norm_sums_backward(&own, s->R, norm, s->is->norm_kind, s->sums, 1);
}

// Sets rows->dy, the gradient of the last projection's result, from back->d, the gradient of the
// stream after the sublayer. Afterwards back->d is the gradient of x through the residual
// connection alone.
static void sublayer_end_backward(struct qkv_sublayer_back *rows, struct qkv_stream *s,
                                  struct qkv_stream_back *back, const struct qkv_norm *norm,
                                  const struct qkv_tape *t)
{
    const bool inside = s->is->norm == QKV_NORM_INSIDE;
    const struct qkv_dropout drop = qkv_stream_dropout(s, 4 * t->number);
    if (norm->D && !inside) {
        norm_backward(s,
                      &(struct qkv_norm_back){
                          .dx = back->d_spare, .dy = back->d, .x = t->sum, .keep = t->out },
                      norm);
        qkv_stream_back_swap(back);
    }
    const real m = (real)s->is->residual_scale;
    const int64_t n = s->R * s->D;
    real *dy = m ? back->d_spare : back->d;
    for (int64_t i = 0; m && i < n; i++) dy[i] = m * back->d[i];
    rows->dy = dy;
    rows->dy_type = 0;
    if (drop.p > 0) {
        qkv_stream_drop_backward(s, s->branch, s->type, dy, s->D, &drop);
        rows->dy = s->branch;
        rows->dy_type = s->type;
    }
    if (inside) {
        norm_backward(s,
                      &(struct qkv_norm_back){ .dx = back->d_spare,
                                               .dy = rows->dy,
                                               .type = rows->dy_type,
                                               .x = t->sum,
                                               .keep = t->out },
                      norm);
        rows->dy = back->d_spare;
        rows->dy_type = 0;
    }
}

qkv_status qkv_sublayer_backward(struct qkv_stream *s, struct qkv_stream_back *back,
                                 const struct qkv_block *b, int sublayer, const struct qkv_tape *t,
                                 const real *x, bool up_again)
{
    const struct qkv_norm *in = &b->in[sublayer];
    struct qkv_sublayer_back rows = { 0 };
    sublayer_end_backward(&rows, s, back, &b->out[sublayer], t);
    rows.x = qkv_sublayer_input(s, b, sublayer, x, t, &rows.x_type);
    if (in->D) {
        rows.dx = back->d_normed;
    } else {
        rows.dx = back->d;
        rows.dx_real = true;
        // a bare feed-forward network has no residual connection: back->d is only its dy
        const bool bare = s->is->mlp_bare && sublayer == QKV_SUBLAYER_FEED_FORWARD;
        rows.dx_add = bare ? NULL : back->d;
    }
    if (sublayer == QKV_SUBLAYER_FEED_FORWARD) {
        if (up_again)
            qkv_mlp_forward(&(struct qkv_sublayer_rows){ .x = rows.x, .x_type = rows.x_type },
                            &t->mlp, s->R, &b->mlp, NULL);
        qkv_mlp_backward(&rows, back->heads.d_heads, back->d_up, &t->mlp, s->R, &b->mlp);
    } else {
        const struct qkv_heads heads = qkv_sublayer_heads(s, b, sublayer);
        const struct qkv_attention a = qkv_sublayer_attention(s, b, sublayer, t);
        struct qkv_heads_back own = back->heads;
        own.d = qkv_heads_joined(back->d_in, back->d_kv, s->type ? s->type : QKV_REAL, &heads);
        if (sublayer == QKV_SUBLAYER_CROSS) own.d_relative = NULL;
        const qkv_status status =
            qkv_heads_backward(&rows, &own, &t->heads, &heads, &a, s->scratch);
        if (status) return status;
    }
    if (in->D)
        norm_backward(s,
                      &(struct qkv_norm_back){ .dx = back->d,
                                               .dx_add = back->d,
                                               .dy = back->d_normed,
                                               .type = s->type,
                                               .x = x,
                                               .keep = t->in },
                      in);
    return QKV_OK;
}

size_t qkv_stack_train_scratch(const struct qkv_stack *stack, const struct qkv_stream *s, bool back,
                               qkv_status *status)
{
    const struct qkv_tape first = { 0 }; // qkv_sublayer_attention reads only its number
    size_t most = back ? qkv_norm_backward_scratch(s->R, s->D) : 0;
    *status = QKV_OK;
    for (int64_t i = 0; i < stack->blocks; i++) {
        const struct qkv_block *b = &stack->block[i];
        for (int k = 0; k < QKV_SUBLAYERS; k++) {
            size_t bytes = 0;
            if (!qkv_block_has(b, k)) continue;
            if (k == QKV_SUBLAYER_FEED_FORWARD) {
                bytes = qkv_mlp_train_scratch(&b->mlp, s->R, back);
            } else {
                const struct qkv_heads heads = qkv_sublayer_heads(s, b, k);
                const struct qkv_attention a = qkv_sublayer_attention(s, b, k, &first);
                bytes = qkv_heads_train_scratch(&heads, &a, back, status);
                if (*status) return SIZE_MAX;
            }
            if (bytes > most) most = bytes;
        }
    }
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}
