// SPDX-License-Identifier: MIT
// stream.h: declares the residual stream of a run and the layers that change it.
#ifndef QKV_MODEL_STREAM_H
#define QKV_MODEL_STREAM_H

#include "model/position/position.h"
#include <qkv/ranks.h>

// These functions return attention as a description defines it: self-attention in normal or `local`
// layers, and cross-attention. The caller sets sizes, offsets, precision and relative positions.
static inline struct qkv_attention qkv_described_attention(const struct qkv_description *d,
                                                           bool causal, bool local)
{
    return (struct qkv_attention){ .causal = causal,
                                   .scale = (float)d->attention_scale,
                                   .softcap = (float)d->softcap,
                                   .window = { .on = local,
                                               .left = local ? d->window_left : 0,
                                               .right = !local   ? 0
                                                        : causal ? -1
                                                                 : d->window_right } };
}
static inline struct qkv_attention qkv_described_cross_attention(const struct qkv_description *d)
{
    return (struct qkv_attention){ .scale = (float)d->attention_scale };
}
// Returns *a with the sizes and offsets of n packed sequences, whose queries are R rows and whose
// keys are S rows.
static inline struct qkv_attention qkv_attention_packed(const struct qkv_attention *a, int64_t R,
                                                        int64_t S, int64_t n,
                                                        const int64_t *q_offsets,
                                                        const int64_t *k_offsets)
{
    struct qkv_attention own = *a;
    own.B = 1;
    own.T = R;
    own.S = S;
    own.sequences = n;
    own.q_offsets = q_offsets;
    own.k_offsets = k_offsets;
    return own;
}

// Copies of the stream after each sublayer of a layer, for an observer.
struct qkv_sublayer_streams {
    real *at[QKV_SUBLAYERS]; // each [caller's rows][width]; padding rows are 0
    // bit k: the stream after sublayer k has been copied since the last call of the observer
    unsigned stored;
    int64_t width;
    // [R] the caller's row of each computed row; NULL: no padding, row r is row r
    const int64_t *place;
};
// The residual stream x[R][D] of a run, and the settings and memory with which a block runs
// (block.c). Without a tape, each sublayer swaps x and spare.
struct qkv_stream {
    int64_t R, D;
    const struct qkv_description *is; // the model: its norms and factors
    const struct qkv_places *places;
    const int32_t *positions;
    real *x, *spare; // x: [R][D] the stream; spare: [R][D] array that the next sublayer writes
    // [R][D] output, of type `type`, of the norm before a sublayer; NULL: no such norm
    void *normed;
    // settings of self-attention in normal layers, of self-attention in local layers, and of
    // cross-attention
    const struct qkv_attention *attention, *local, *across;
    const real *memory; // encoder output that cross-attention reads
    // arrays that receive q, k, v and lse for an observer; NULL: not recorded
    const struct qkv_heads_keep *keep, *keep_cross;
    // KV caches of this layer; NULL: the rows are packed sequences without a cache
    struct qkv_heads_cache *cache, *cross_cache;
    struct qkv_sublayer_streams *sublayers; // copies of the stream for an observer; NULL: no copies
    void *scratch;
    // The following members are for training; they are 0 in a run without a tape.
    qkv_dtype type; // element type of normed and branch; 0: real
    // [R][D] output of the last projection of a sublayer, before dropout; NULL: no dropout
    void *branch;
    // dropout probability and seed; site is the first number of the random streams of this stack
    // and step (qkv_stream_dropout)
    struct qkv_dropout drop;
    // rows of this process in the batch, which ranks share; NULL: all rows
    const struct qkv_rank_rows *rows;
    const struct qkv_heads_ranks *ranks; // NULL: this process alone
    const struct qkv_row_sums *sums;     // order of sums over rows; NULL: the order of the rows
};
struct qkv_tape;
// Returns a stream of R rows of a model with description d; the caller sets x, spare, normed,
// positions, scratch and the other members that its run uses.
static inline struct qkv_stream qkv_stream_of(const struct qkv_description *d, int64_t R,
                                              const struct qkv_places *places,
                                              const struct qkv_attention *attention,
                                              const struct qkv_attention *local,
                                              const struct qkv_attention *across)
{
    return (struct qkv_stream){ .R = R,
                                .D = d->size.width,
                                .is = d,
                                .places = places,
                                .attention = attention,
                                .local = local,
                                .across = across };
}
// Runs one layer: replaces s->x by the stream after the layer. tape: NULL, or an array with one
// entry (tape.h) for each sublayer that the block has; the arrays of the entries receive the
// activations that backward reads. With a tape, s->x becomes the array `value` of the last entry.
qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b,
                             const struct qkv_tape *tape);
// qkv_stack_attention returns the self-attention of a stack, in its normal or its local layers;
// qkv_cross_attention returns the cross-attention of a model. The caller sets sizes and offsets.
struct qkv_attention qkv_stack_attention(const struct qkv_model *m, int stack, bool local);
struct qkv_attention qkv_cross_attention(const struct qkv_model *m);
// Returns *a, the attention of a stack. If the block has a relative-position table of its own, the
// result has this table.
static inline struct qkv_attention qkv_block_attention(const struct qkv_block *b,
                                                       const struct qkv_attention *a)
{
    struct qkv_attention own = *a;
    if (b->relative) own.relative.at = b->relative;
    return own;
}
// Returns the bytes of scratch that suffice for every block of a stack, without a tape. SIZE_MAX: a
// block was refused, and *status is the reason. a, across: settings of self-attention and
// cross-attention.
size_t qkv_stack_scratch(const struct qkv_stack *stack, const struct qkv_attention *a,
                         const struct qkv_attention *across, qkv_status *status);

// Runs only the encoder of an encoder-decoder and writes its output hidden[R][D] (forward.c).
qkv_status qkv_model_encode(const struct qkv_model *m, float *hidden,
                            const struct qkv_model_input *in, qkv_error *err);
// Packs the weights of the output head for tokens, unless an earlier call has done so. Returns
// QKV_OK; QKV_ERR_UNSUPPORTED if the model has no such head; QKV_ERR_LIMIT (output_heads.c).
qkv_status qkv_tokens_ready(const struct qkv_model *m, qkv_error *err);
// Computes logits as qkv_model_logits does; spare[R][N] is scratch, where N is the output width of
// m->tokens.dense (NULL if the head has no dense layer).
void qkv_tokens_forward(float *logits, const float *hidden, float *spare, int64_t R,
                        const struct qkv_model *m);
#endif
