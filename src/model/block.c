// SPDX-License-Identifier: MIT
// block.c: one layer of an encoder.  For each of its parts f (attention, feed-forward):
//
//   x = norm_out(x + f(norm_in(x)))      a norm that the description leaves out is the identity
#include "model/model.h"

// What a part reads: the stream, or its norm.
static const float *input(struct qkv_stream *s, const struct qkv_norm *norm)
{
    if (!norm->D) return s->x;
    qkv_norm_forward(s->normed, NULL, NULL, s->x, NULL, s->R, norm);
    return s->normed;
}

static void swap(struct qkv_stream *s)
{
    float *x = s->x;
    s->x = s->spare;
    s->spare = x;
}

qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b)
{
    if (b->heads.H) {
        const float *x = input(s, &b->heads_in);
        const qkv_status status =
            qkv_heads_forward(s->spare, s->keep, x, s->x, b->heads_out.D ? &b->heads_out : NULL,
                              &b->heads, s->attention, s->scratch);
        if (status) return status;
        swap(s);
    }
    if (b->mlp.up.K) {
        const float *x = input(s, &b->mlp_in);
        qkv_mlp_forward(s->spare, NULL, x, s->x, b->mlp_out.D ? &b->mlp_out : NULL, s->R, &b->mlp,
                        s->scratch);
        swap(s);
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
