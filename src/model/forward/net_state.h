// SPDX-License-Identifier: MIT
// net_state.h: declares the state of one run of a trainable Transformer.
//
// Each block runs with a tape (tape.h): of each sublayer f the arrays that backward reads. These
// are the argument of the norm after it, mean and rstd of its norms, the output of its first
// projection and, of attention, the outputs of the heads and lse. Backward recomputes everything
// else: the norm of x, and the inner rows of feed-forward. Two of these arrays are also recomputed,
// by a matrix product, which halves the memory that autograd would need: the sum between attention
// and feed-forward if no norm follows it (one product of D x D), and, in every third layer (every
// second layer if norms follow the sublayers), the output of feed-forward's first projection, the
// widest array.
#ifndef QKV_MODEL_NET_STATE_H
#define QKV_MODEL_NET_STATE_H
#include "model/forward/tape.h"
#include "model/params/net_layers.h"

// The arrays that a run stores.
enum qkv_net_keeping {
    QKV_KEEP_ALL = 0, // everything that backward needs
    QKV_KEEP_INPUTS,  // the input of each layer; the layer runs again in backward
    QKV_KEEP_NOTHING  // forward only
};

// One sublayer of a stack during a run.
struct qkv_net_sublayer {
    const struct qkv_block *block;
    int kind;      // QKV_SUBLAYER_*
    int64_t layer; // with mlp_once, the last feed-forward belongs to the last layer
    struct qkv_tape tape;
};

// One stack during a run.
struct qkv_net_side {
    const struct qkv_net_stack *stack; // NULL: the stack does not run
    const struct qkv_sequences *in;
    int64_t R;
    int32_t *positions; // [R] row of the position table for each token
    real *embedded;     // [R][D] sum of the embeddings, if the stack has a norm after it
    struct qkv_norm_keep embedded_keep;
    real *x;                           // [R][D] input of the first sublayer
    struct qkv_net_sublayer *sublayer; // [sublayers] in the order in which they run; owned
    int64_t sublayers;
    // [R][D] output of the stack: the norm of the last value, of type final_type; if the stack has
    // no final norm, the last value itself, of type real
    void *final;
    qkv_dtype final_type;
    struct qkv_norm_keep final_keep;
    struct qkv_places places;
    struct qkv_attention attention, local, across;
    struct qkv_stream stream;
};

struct qkv_net_state {
    qkv_net *n;
    struct qkv_net_layers *body;
    enum qkv_net_keeping keeping;
    bool drops; // dropout is on
    uint64_t seed, step;
    qkv_dtype type; // element type of the arrays between matrix products; 0: real
    size_t bytes;   // bytes of one element of this type
    struct qkv_net_side encoder, decoder;
    // Scratch arrays that all sublayers share:
    real *workspace[2]; // [R][D] outputs of sublayers that are not stored
    void *up;           // [R][N] output of feed-forward's first projection that backward recomputes
    real *again;        // [R][D] output of a sublayer that backward recomputed
    struct qkv_stream_back back;
    size_t scratch_bytes;
    void
        *scratch; // of the layers, and of the output heads between the stacks' forward and backward
    const struct qkv_probe *probe; // statistics that each attention collects; NULL: none
    // Callback after each layer of forward; may be NULL.
    qkv_status (*layer_done)(struct qkv_net_state *f, struct qkv_net_side *s, int64_t layer);
    void *ctx; // data of the callback
};

// The sequences and the memory of a run. The caller of qkv_net_begin also sets the members keeping,
// drops, seed, step, probe, layer_done and ctx of struct qkv_net_state.
struct qkv_net_plan {
    const struct qkv_sequences *encoder, *decoder; // NULL: that stack does not run
    qkv_dtype final_type;                          // element type of the last stack's output
    // Returns the bytes of scratch that the caller's own layers need; NULL: none.
    size_t (*scratch)(void *ctx);
    // Allocates the caller's own arrays from the arena; called twice, first only to count the
    // bytes. NULL: the caller needs no arrays.
    void (*more)(void *ctx, struct qkv_arena *arena);
    void *ctx; // data of the callbacks
};
// Counts the bytes of a run and allocates its arrays; qkv_net_end must be called in any case.
// Returns QKV_OK, QKV_ERR_LIMIT, or the reason why the attention operator refused a sublayer
// (net_memory.c).
qkv_status qkv_net_begin(struct qkv_net_state *f, const struct qkv_net_plan *plan, qkv_error *err);
void qkv_net_end(struct qkv_net_state *f);
// Returns true if backward recomputes the output of a feed-forward's first projection, or the sum
// of sublayer i.
bool qkv_net_up_again(const struct qkv_net_state *f, const struct qkv_net_sublayer *sub);
bool qkv_net_sum_again(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i);
// Returns true if the value of sublayer i has an array of its own: the last value of the stack, and
// the values that backward reads without recomputing them.
bool qkv_net_value_kept(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i);
// Returns the embeddings of a stack.
struct qkv_embed qkv_net_embedding(const struct qkv_net_state *f, const struct qkv_net_stack *s);

// Runs a stack from its tokens to its output s->final (net_stack.c).
qkv_status qkv_net_side_forward(struct qkv_net_state *f, struct qkv_net_side *s);
// Adds the gradients of a stack's weights, given the gradient d of s->final, whose type is
// final_type. Without a final norm, d may be f->back.d.
qkv_status qkv_net_side_backward(struct qkv_net_state *f, struct qkv_net_side *s, const void *d);
#endif
