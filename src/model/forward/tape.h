// SPDX-License-Identifier: MIT
// tape.h: declares the arrays that a block stores for backward, and the backward pass of a
// sublayer.
#ifndef QKV_MODEL_TAPE_H
#define QKV_MODEL_TAPE_H

#include "model/forward/stream.h"

// Arrays of one sublayer that forward fills and backward reads.
struct qkv_tape {
    int64_t number; // index of the sublayer in its stack, which selects its random streams
    // true: forward stops before the last projection, whose result is already stored
    bool partial;
    // [R][D] argument of the norm after the sublayer; without this norm, the same array as `value`
    real *sum;
    real *value;                  // [R][D] the stream after the sublayer
    struct qkv_norm_keep in, out; // [R] mean and rstd of the norms before and after the sublayer
    struct qkv_heads_tape heads;  // attention
    struct qkv_mlp_tape mlp;      // feed-forward
};

// ---- pieces of a block that backward repeats (block.c) -----------------------------------------
// Returns the dropout of a stack with random stream `place`. Place 4 n is dropout after sublayer n,
// place 4 n + 1 dropout of the attention weights of sublayer n.
struct qkv_dropout qkv_stream_dropout(const struct qkv_stream *s, int64_t place);
// Apply dropout and its gradient to rows of the stream, each of `width` numbers (layer/layer.h). A
// row has the same random numbers on every rank.
void qkv_stream_drop(const struct qkv_stream *s, real *y, const real *residual, const void *x,
                     qkv_dtype t, int64_t width, const struct qkv_dropout *drop);
void qkv_stream_drop_backward(const struct qkv_stream *s, void *dx, qkv_dtype t, const real *dy,
                              int64_t width, const struct qkv_dropout *drop);
// Returns the input of a sublayer, and its element type in *type. If the sublayer has a norm before
// it, the function writes the norm of x to s->normed and returns s->normed; otherwise it returns x.
const void *qkv_sublayer_input(struct qkv_stream *s, const struct qkv_block *b, int sublayer,
                               const real *x, const struct qkv_tape *t, qkv_dtype *type);
// Return the heads and the attention of a sublayer, with the positions, encoder output and dropout
// of this run.
struct qkv_heads qkv_sublayer_heads(const struct qkv_stream *s, const struct qkv_block *b,
                                    int sublayer);
struct qkv_attention qkv_sublayer_attention(const struct qkv_stream *s, const struct qkv_block *b,
                                            int sublayer, const struct qkv_tape *t);
// Recomputes sum[R][D], the input x of an attention sublayer f plus the result of f (with dropout
// and residual_scale, as in block.c). The outputs of its heads are read from the tape t, so only
// the last projection, the dropout and the sum are computed.
void qkv_sublayer_sum(struct qkv_stream *s, const struct qkv_block *b, int sublayer, const real *x,
                      const struct qkv_tape *t, real *sum);

// ---- backward (block_backward.c) ---------------------------------------------------------------
// Scratch arrays of backward, which all sublayers share.
struct qkv_stream_back {
    real *d;        // [R][D] gradient of the residual stream
    real *d_spare;  // [R][D] swapped with d
    void *d_normed; // [R][D] gradient of the output of the norm before a sublayer
    // d_in: gradients of q, k and v, or, in cross-attention, of q; d_kv: gradients of k and v in
    // cross-attention
    void *d_in, *d_kv;
    void *d_up; // gradient of the first projection of feed-forward
    // heads.d_heads is also the scratch for the gradient of the inner rows of feed-forward.
    // heads.d_memory receives the gradient of the encoder's output, heads.d_relative the gradient
    // of the stack's relative positions
    struct qkv_heads_back heads;
};
// Exchanges d and d_spare.
static inline void qkv_stream_back_swap(struct qkv_stream_back *back)
{
    real *d = back->d;
    back->d = back->d_spare;
    back->d_spare = d;
}
// Runs backward of one sublayer: replaces back->d, the gradient of the stream after the sublayer,
// by the gradient of x, the stream before the sublayer, and adds the gradients of the sublayer's
// weights. up_again: the tape of a feed-forward lacks the output of its first projection, which is
// computed again.
qkv_status qkv_sublayer_backward(struct qkv_stream *s, struct qkv_stream_back *back,
                                 const struct qkv_block *b, int sublayer, const struct qkv_tape *t,
                                 const real *x, bool up_again);
// Returns the bytes of scratch that suffice for forward of every sublayer of a stack with a tape
// and, if `back` is true, also for backward. SIZE_MAX: a sublayer was refused, and *status is the
// reason.
size_t qkv_stack_train_scratch(const struct qkv_stack *stack, const struct qkv_stream *s, bool back,
                               qkv_status *status);
#endif
