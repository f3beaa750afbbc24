// SPDX-License-Identifier: MIT
// net_stack.c: runs a stack of a trainable Transformer forward and backward: the embeddings and all
// layers.
#include "model/forward/net_state.h"
#include <string.h>

// ---- forward -----------------------------------------------------------------------------------
// Number of the random stream for dropout of the embeddings. It is larger than the numbers of the
// streams of all sublayers.
enum { EMBEDDING_PLACE = 1 << 18 };

static void embed(struct qkv_net_state *f, struct qkv_net_side *s)
{
    const struct qkv_embed e = qkv_net_embedding(f, s->stack);
    const struct qkv_norm *norm = &s->stack->is.embedding_norm;
    const struct qkv_dropout drop = qkv_stream_dropout(&s->stream, EMBEDDING_PLACE);
    real *out = s->narrow ? s->narrow : s->x;
    real *after = drop.p > 0 ? f->workspace[0] : out; // embeddings before dropout
    real *sum = s->embedded ? s->embedded : after;
    int32_t *every = f->share.comm ? f->share.positions : s->positions;
    qkv_position_number(every, &f->n->is, s->in->ids, s->in->offsets, s->in->n, 0);
    if (every != s->positions) qkv_net_share_pick(&f->share, s->positions, every);
    qkv_embed_forward(sum, s->ids, s->types, s->positions, s->R, &e);
    if (s->embedded)
        qkv_norm_kind_forward(after, 0, &s->embedded_keep, sum, s->R, norm,
                              s->stream.is->norm_kind);
    if (drop.p > 0) qkv_stream_drop(&s->stream, out, NULL, after, 0, e.D, &drop);
    if (s->narrow)
        qkv_linear_forward((void *[]){ s->x }, NULL, out, s->R, &s->stack->is.embed_in, NULL);
}

// Runs sublayers first .. last, block by block, from their stored input: the value of the preceding
// sublayer, or the embeddings.
static qkv_status run_blocks(struct qkv_net_side *s, int64_t first, int64_t last)
{
    struct qkv_tape tape[QKV_SUBLAYERS];
    s->stream.x = first ? s->sublayer[first - 1].tape.value : s->x;
    for (int64_t i = first; i <= last;) {
        const struct qkv_block *b = s->sublayer[i].block;
        int64_t n = 0;
        for (; i + n <= last && s->sublayer[i + n].block == b; n++)
            tape[n] = s->sublayer[i + n].tape;
        const qkv_status status = qkv_block_forward(&s->stream, b, tape);
        if (status) return status;
        i += n;
    }
    return QKV_OK;
}

// Returns the index of the first sublayer of the layer to which sublayer i belongs.
static int64_t first_of_layer(const struct qkv_net_side *s, int64_t i)
{
    while (i > 0 && s->sublayer[i - 1].layer == s->sublayer[i].layer) i--;
    return i;
}

qkv_status qkv_net_side_forward(struct qkv_net_state *f, struct qkv_net_side *s)
{
    const struct qkv_norm *norm = &s->stack->is.final_norm;
    embed(f, s);
    for (int64_t first = 0, end; first < s->sublayers; first = end) {
        for (end = first + 1; end < s->sublayers && first_of_layer(s, end) == first;) end++;
        qkv_status status = run_blocks(s, first, end - 1);
        if (!status && f->layer_done) status = f->layer_done(f, s, s->sublayer[first].layer);
        if (status) return status;
    }
    if (norm->D)
        qkv_norm_kind_forward(s->final, s->final_type, &s->final_keep, s->stream.x, s->R, norm,
                              s->stream.is->norm_kind);
    return QKV_OK;
}

// ---- backward ----------------------------------------------------------------------------------
// Returns the input of sublayer i, the value of sublayer i - 1. If this value is not stored, it is
// recomputed: from the tape's heads and the input of sublayer i - 1 if qkv_net_sum_again, otherwise
// from the stored sum by the norm after it.
static const real *read_by(struct qkv_net_state *f, struct qkv_net_side *s, int64_t i)
{
    if (!i) return s->x;
    const struct qkv_net_sublayer *before = &s->sublayer[i - 1];
    if (qkv_net_sum_again(f, s, i - 1)) {
        const real *x = i > 1 ? before[-1].tape.value : s->x; // stored, since no norm follows
        qkv_sublayer_sum(&s->stream, before->block, before->kind, x, &before->tape, f->again);
        return f->again;
    }
    if (qkv_net_value_kept(f, s, i - 1) || f->keeping != QKV_KEEP_ALL) return before->tape.value;
    qkv_norm_kind_forward(f->again, 0, &before->tape.out, before->tape.sum, s->R,
                          &before->block->out[before->kind], s->stream.is->norm_kind);
    return f->again;
}

// Runs a layer, sublayers first .. last, again from its stored input, to fill the tapes that layers
// share.
static qkv_status run_again(struct qkv_net_side *s, int64_t first, int64_t last)
{
    struct qkv_net_sublayer *end = &s->sublayer[last];
    end->tape.partial = !end->block->out[end->kind].D; // without a norm its value is still stored
    const qkv_status status = run_blocks(s, first, last);
    end->tape.partial = false;
    return status;
}

static void norm_backward(const struct qkv_net_state *f, const struct qkv_net_side *s,
                          const struct qkv_norm_back *rows, const struct qkv_norm *norm)
{
    struct qkv_norm_back own = *rows;
    own.scratch = f->scratch;
    qkv_norm_sums_backward(&own, s->R, norm, s->stream.is->norm_kind, s->stream.sums, 1);
}

static qkv_status embed_backward(struct qkv_net_state *f, struct qkv_net_side *s)
{
    const struct qkv_embed e = qkv_net_embedding(f, s->stack);
    const struct qkv_norm *norm = &s->stack->is.embedding_norm;
    const struct qkv_dropout drop = qkv_stream_dropout(&s->stream, EMBEDDING_PLACE);
    struct qkv_stream_back *back = &f->back;
    if (s->narrow) {
        qkv_linear_layer_backward(
            &(struct qkv_linear_rows){ .dx = back->d_spare, .dy = { back->d }, .x = s->narrow },
            s->R, &s->stack->is.embed_in);
        qkv_stream_back_swap(back);
    }
    if (drop.p > 0) {
        qkv_stream_drop_backward(&s->stream, back->d_spare, 0, back->d, e.D, &drop);
        qkv_stream_back_swap(back);
    }
    if (s->embedded) {
        norm_backward(
            f, s,
            &(struct qkv_norm_back){
                .dx = back->d_spare, .dy = back->d, .x = s->embedded, .keep = s->embedded_keep },
            norm);
        qkv_stream_back_swap(back);
    }
    // The rows of a table are added up in the order of all rows of the batch, after the sums of the
    // layers, since a table may also be the output projection.
    const real *d = back->d;
    const int32_t *positions = s->positions;
    char *scratch = f->scratch;
    if (f->share.comm) {
        real *all = f->scratch;
        qkv_status status = qkv_net_share_complete(&f->share);
        if (!status) status = qkv_net_share_rows(&f->share, all, d, e.D);
        if (status) return status;
        d = all;
        positions = f->share.positions;
        scratch += qkv_round_up((size_t)(s->all * e.D) * sizeof *all, 64);
    }
    qkv_embed_backward(qkv_net_words(f->body, s->stack)->grad, s->stack->position.grad,
                       f->body->type.grad, d, s->in->ids, s->in->types, positions, s->all, &e,
                       scratch);
    return QKV_OK;
}

// Computes f->back.d, the gradient of the stream after the last layer, from d, the gradient of
// s->final.
static void final_backward(struct qkv_net_state *f, struct qkv_net_side *s, const void *d)
{
    const struct qkv_norm *norm = &s->stack->is.final_norm;
    real *to = f->back.d;
    if (norm->D)
        norm_backward(f, s,
                      &(struct qkv_norm_back){ .dx = to,
                                               .dy = d,
                                               .type = s->final_type,
                                               .x = s->sublayer[s->sublayers - 1].tape.value,
                                               .keep = s->final_keep },
                      norm);
    else if (d != to)
        memcpy(to, d, (size_t)(s->R * s->stream.D) * sizeof *to);
}

qkv_status qkv_net_side_backward(struct qkv_net_state *f, struct qkv_net_side *s, const void *d)
{
    const struct qkv_net_stack *stack = s->stack;
    const int64_t H = f->n->is.size.heads, row = 2 * stack->is.reach + 1;
    f->back.heads.d_relative = stack->d_relative;
    final_backward(f, s, d);
    if (stack->d_relative)
        memset(stack->d_relative, 0, (size_t)(H * row) * sizeof *stack->d_relative);
    for (int64_t last = s->sublayers - 1, first; last >= 0; last = first - 1) {
        qkv_status status = QKV_OK;
        first = first_of_layer(s, last);
        if (f->keeping == QKV_KEEP_INPUTS) status = run_again(s, first, last);
        for (int64_t i = last; !status && i >= first; i--) {
            const struct qkv_net_sublayer *sub = &s->sublayer[i];
            status = qkv_sublayer_backward(&s->stream, &f->back, sub->block, sub->kind, &sub->tape,
                                           read_by(f, s, i), qkv_net_up_again(f, sub));
        }
        if (status) return status;
    }
    if (stack->relative.grad)
        qkv_relative_backward(stack->relative.grad, stack->d_relative, H, &f->n->is.relative,
                              stack->is.causal);
    return embed_backward(f, s);
}
