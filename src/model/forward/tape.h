// SPDX-License-Identifier: MIT
// tape.h: declares what a block stores for backward, and the backward pass of a sublayer.
#ifndef QKV_MODEL_TAPE_H
#define QKV_MODEL_TAPE_H

#include "model/forward/stream.h"

// Arrays of one sublayer that forward fills and backward reads.
struct qkv_tape {
    int64_t number; // index of the sublayer in its stack, which selects its random streams
    bool partial;   // forward stops before the last projection, whose result exists
    real *sum;      // [R][D] the argument of the norm after the sublayer; `value` if it has none
    real *value;    // [R][D] the stream after the sublayer; may be `sum` if backward reads only one
    struct qkv_norm_keep in, out; // [R] mean and rstd of the norms before and after the sublayer
    struct qkv_heads_tape heads;  // attention
    struct qkv_mlp_tape mlp;      // feed-forward
};

// ---- pieces of a block that backward repeats (block.c) -----------------------------------------
// Returns the dropout with the random stream `place` of the stack: 4 n after sublayer n, 4 n + 1 of
// its attention weights.
struct qkv_dropout qkv_stream_dropout(const struct qkv_stream *s, int64_t place);
// Returns the input of a sublayer: x, or the norm of x, which it writes to s->normed. *type: its
// element type.
const void *qkv_sublayer_input(struct qkv_stream *s, const struct qkv_block *b, int sublayer,
                               const real *x, const struct qkv_tape *t, qkv_dtype *type);
// Returns the heads and the attention of a sublayer with the positions, memory and dropout of this
// run.
struct qkv_heads qkv_sublayer_heads(const struct qkv_stream *s, const struct qkv_block *b,
                                    int sublayer);
struct qkv_attention qkv_sublayer_attention(const struct qkv_stream *s, const struct qkv_block *b,
                                            int sublayer, const struct qkv_tape *t);
// Computes only sum[R][D] = x + drop(f) of a sublayer of attention, whose heads are on the tape.
void qkv_sublayer_sum(struct qkv_stream *s, const struct qkv_block *b, int sublayer, const real *x,
                      const struct qkv_tape *t, real *sum);

// ---- backward (block_backward.c) ---------------------------------------------------------------
// Scratch arrays of backward, which all sublayers share.
struct qkv_stream_back {
    real *d;        // [R][D] gradient of the residual stream
    real *d_spare;  // [R][D] swapped with d
    void *d_normed; // [R][D] gradient of the output of the norm before a sublayer
    // gradients of the outputs of the projections: q, k and v; k and v of cross-attention
    void *d_in, *d_kv;
    void *d_up; // gradient of the first projection of feed-forward
    // heads.d_heads is also the gradient of the inner rows of feed-forward. heads.d_memory receives
    // the gradient of the encoder's output, heads.d_relative of the stack's relative positions
    struct qkv_heads_back heads;
};
// Replaces back->d, the gradient of the stream after a sublayer, by the gradient of x, the stream
// before it, and adds the gradients of its weights. With up_again, the first projection of
// feed-forward is not on the tape and is computed again.
qkv_status qkv_sublayer_backward(struct qkv_stream *s, struct qkv_stream_back *back,
                                 const struct qkv_block *b, int sublayer, const struct qkv_tape *t,
                                 const real *x, bool up_again);
// Returns the bytes of scratch for every sublayer of a stack with a tape, of forward and, with
// `back`, of backward; SIZE_MAX if a sublayer was refused, with the reason in *status.
size_t qkv_stack_train_scratch(const struct qkv_stack *stack, const struct qkv_stream *s, bool back,
                               qkv_status *status);
#endif
