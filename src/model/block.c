// SPDX-License-Identifier: MIT
// block.c: one layer of a stack.  For each of its parts f (attention, feed-forward):
//
//   x = norm_out(x + f(norm_in(x)))      a norm that the description leaves out is the identity
#include "model/model.h"

// What a part reads: the stream, or its norm.
static const float *input(struct qkv_stream *s, const struct qkv_norm *norm)
{
    if (!norm->D) return s->x;
    qkv_norm_kind_forward(s->normed, 0, NULL, s->x, s->R, norm, s->norm);
    return s->normed;
}

// The norm that a layer can take along, row by row.
static const struct qkv_norm *along(const struct qkv_stream *s, const struct qkv_norm *norm)
{
    return norm->D && s->norm == QKV_NORM_LAYER ? norm : NULL;
}

// The part's result becomes the stream, with the norm that was not taken along.
static void leave(struct qkv_stream *s, const struct qkv_norm *norm)
{
    float *x = s->x;
    s->x = s->spare;
    s->spare = x;
    if (norm->D && s->norm != QKV_NORM_LAYER)
        qkv_norm_kind_forward(s->x, 0, NULL, s->x, s->R, norm, s->norm);
}

qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b)
{
    if (b->heads.H) {
        struct qkv_heads heads = b->heads; // what it borrows, with the positions of this run
        const float *x = input(s, &b->heads_in);
        heads.rope = s->rope;
        heads.positions = s->positions;
        const qkv_status status = qkv_heads_forward(
            s->spare, s->keep, x, s->x, along(s, &b->heads_out), &heads, s->attention, s->scratch);
        if (status) return status;
        leave(s, &b->heads_out);
    }
    if (b->mlp.up.K) {
        const float *x = input(s, &b->mlp_in);
        qkv_mlp_forward(s->spare, NULL, x, s->x, along(s, &b->mlp_out), s->R, &b->mlp, s->scratch);
        leave(s, &b->mlp_out);
    }
    return QKV_OK;
}

size_t qkv_block_scratch(const struct qkv_model *m, const struct qkv_attention *a,
                         qkv_status *status)
{
    size_t most = 0;
    *status = QKV_OK;
    for (int64_t i = 0; i < m->blocks; i++) {
        const struct qkv_block *b = &m->block[i];
        size_t bytes = 0;
        if (b->heads.H) bytes = qkv_heads_scratch(&b->heads, a, status);
        if (*status) return SIZE_MAX;
        if (bytes > most) most = bytes;
        if (b->mlp.up.K) bytes = qkv_mlp_scratch(&b->mlp, a->T);
        if (bytes > most) most = bytes;
    }
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}
