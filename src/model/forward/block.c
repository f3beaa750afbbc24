// SPDX-License-Identifier: MIT
// block.c: runs one layer of a stack. For each of its sublayers f (self-attention, cross-attention,
// feed-forward):
//
//   x = norm_out(x + f(norm_in(x)))      a norm that the description leaves out is the identity
//   x = x + norm_out(f(norm_in(x)))      norms inside (QKV_NORM_INSIDE)
#include "model/forward/stream.h"
#include <string.h>

// Returns the input of a sublayer: the residual stream, or its norm.
static const float *input(struct qkv_stream *s, const struct qkv_norm *norm)
{
    if (!norm->D) return s->x;
    qkv_norm_kind_forward(s->normed, 0, NULL, s->x, s->R, norm, s->norm);
    return s->normed;
}

// Returns the norm that the output projection can apply row by row; NULL: the sublayer has no norm
// after it, or a kind that the projection cannot apply.
static const struct qkv_norm *along(const struct qkv_stream *s, const struct qkv_norm *norm)
{
    return norm->D && s->norm == QKV_NORM_LAYER ? norm : NULL;
}

// Returns the residual that the output projection adds to its result; NULL: the residual must be
// added after the norm.
static const float *residual(const struct qkv_stream *s)
{
    return s->place == QKV_NORM_INSIDE ? NULL : s->x;
}

// Makes the result of the sublayer the new stream, after the norm and the residual that the output
// projection did not apply.
static void leave(struct qkv_stream *s, const struct qkv_norm *norm)
{
    float *x = s->x;
    s->x = s->spare;
    s->spare = x;
    if (norm->D && s->norm != QKV_NORM_LAYER)
        qkv_norm_kind_forward(s->x, 0, NULL, s->x, s->R, norm, s->norm);
    if (s->place == QKV_NORM_INSIDE) {
        static const struct qkv_dropout all = { 0 };
        const int64_t n = s->R * norm->D;
        qkv_dropout_forward(s->x, x, s->x, 0, 0, n, &all);
    }
}

// Copies the stream after a sublayer for an observer.
static void copy_stream(struct qkv_stream *s, int sublayer)
{
    struct qkv_sublayer_streams *to = s->sublayers;
    if (!to) return;
    for (int64_t r = 0; r < s->R; r++)
        memcpy(to->at[sublayer] + (to->place ? to->place[r] : r) * to->width, s->x + r * to->width,
               (size_t)to->width * sizeof(float));
    to->stored |= 1u << sublayer;
}

static qkv_status attend(struct qkv_stream *s, const struct qkv_block *b)
{
    struct qkv_heads heads = b->heads; // a copy with the rotary table and positions of this run
    const struct qkv_rope *turn = &s->places->turn[b->local];
    const struct qkv_attention a = qkv_block_attention(b, b->local ? s->local : s->attention);
    const float *x = input(s, &b->heads_in);
    if (turn->table) heads.rope = turn;
    heads.positions = s->positions;
    const struct qkv_norm *norm = along(s, &b->heads_out);
    const qkv_status status =
        s->cache
            ? qkv_heads_cached(s->spare, x, residual(s), norm, &heads, &a, s->cache, s->scratch)
            : qkv_heads_forward(s->spare, s->keep, x, residual(s), norm, &heads, &a, s->scratch);
    if (status) return status;
    leave(s, &b->heads_out);
    copy_stream(s, QKV_SUBLAYER_ATTENTION);
    return QKV_OK;
}

static qkv_status attend_across(struct qkv_stream *s, const struct qkv_block *b)
{
    struct qkv_heads heads = b->cross;
    const float *x = input(s, &b->cross_in);
    const struct qkv_norm *norm = along(s, &b->cross_out);
    heads.memory = s->memory;
    const qkv_status status = s->cross_cache
                                  ? qkv_heads_cached(s->spare, x, residual(s), norm, &heads,
                                                     s->across, s->cross_cache, s->scratch)
                                  : qkv_heads_forward(s->spare, s->keep_cross, x, residual(s), norm,
                                                      &heads, s->across, s->scratch);
    if (status) return status;
    leave(s, &b->cross_out);
    copy_stream(s, QKV_SUBLAYER_CROSS);
    return QKV_OK;
}

qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b)
{
    qkv_status status = QKV_OK;
    if (b->heads.H) status = attend(s, b);
    if (!status && b->cross.H) status = attend_across(s, b);
    if (!status && b->mlp.up.K) {
        const float *x = input(s, &b->mlp_in);
        qkv_mlp_forward(s->spare, NULL, x, residual(s), along(s, &b->mlp_out), s->R, &b->mlp,
                        s->scratch);
        leave(s, &b->mlp_out);
        copy_stream(s, QKV_SUBLAYER_FEED_FORWARD);
    }
    return status;
}

size_t qkv_block_scratch(const struct qkv_stack *stack, const struct qkv_attention *a,
                         const struct qkv_attention *across, qkv_status *status)
{
    size_t most = 0;
    *status = QKV_OK;
    for (int64_t i = 0; i < stack->blocks; i++) {
        const struct qkv_block *b = &stack->block[i];
        size_t bytes[3] = { 0 };
        if (b->heads.H) bytes[0] = qkv_heads_scratch(&b->heads, a, status);
        if (!*status && b->cross.H) bytes[1] = qkv_heads_scratch(&b->cross, across, status);
        if (*status) return SIZE_MAX;
        if (b->mlp.up.K) bytes[2] = qkv_mlp_scratch(&b->mlp, a->T);
        for (int k = 0; k < 3; k++)
            if (bytes[k] > most) most = bytes[k];
    }
    if (most == SIZE_MAX) *status = QKV_ERR_LIMIT;
    return most;
}

int64_t qkv_stack_parts(const struct qkv_stack *s)
{
    int64_t n = 0;
    for (int64_t i = 0; i < s->blocks; i++) {
        const struct qkv_block *b = &s->block[i];
        n += (b->heads.H > 0) + (b->cross.H > 0) + (b->mlp.up.K > 0);
    }
    return n;
}

// ---- attention as the description defines it ---------------------------------------------------
struct qkv_attention qkv_stack_attention(const struct qkv_model *m, int stack, bool local)
{
    const struct qkv_stack *s = &m->stack[stack];
    struct qkv_attention a = qkv_described_attention(&m->is, s->causal, local);
    a.precision = qkv_precision_attention(m->precision);
    a.relative.at = s->relative;
    a.relative.reach = s->reach;
    return a;
}

struct qkv_attention qkv_cross_attention(const struct qkv_model *m)
{
    struct qkv_attention a = qkv_described_cross_attention(&m->is);
    a.precision = qkv_precision_attention(m->precision);
    return a;
}

struct qkv_attention qkv_block_attention(const struct qkv_block *b, const struct qkv_attention *a)
{
    struct qkv_attention own = *a;
    if (b->relative) own.relative.at = b->relative;
    return own;
}
