// SPDX-License-Identifier: MIT
// net_state.h: declares the state of one run of a trainable Transformer.
//
// Each block runs with a tape (tape.h), which contains, for each sublayer, the arrays that backward
// reads: the stream after the sublayer or the argument of the norm after it, mean and rstd of its
// norms, the output of its first projection and, for attention, the outputs of the heads and lse.
// Backward recomputes the results of norms and the inner rows of feed-forward. To halve the memory
// that autograd would need, it also recomputes two arrays by a matrix product each: the stream
// between attention and feed-forward if no norm follows attention (one product of D x D); and, in
// every third layer (every second layer if norms follow the sublayers), the output of the first
// projection of feed-forward, the widest array.
#ifndef QKV_MODEL_NET_STATE_H
#define QKV_MODEL_NET_STATE_H
#include "model/forward/tape.h"
#include "model/params/net_layers.h"
#include <qkv/ranks.h>

// Kinds of runs by the arrays that they store for backward.
enum qkv_net_keeping {
    QKV_KEEP_ALL = 0, // the arrays described above
    QKV_KEEP_INPUTS,  // only the input of each layer; backward runs the layer again
    QKV_KEEP_NOTHING  // no arrays: the run has no backward
};

// One sublayer of a stack during a run.
struct qkv_net_sublayer {
    const struct qkv_block *block;
    int kind; // QKV_SUBLAYER_*
    // index of the layer; the feed-forward network of mlp_once belongs to the last layer
    int64_t layer;
    struct qkv_tape tape;
};

// One stack during a run.
struct qkv_net_side {
    const struct qkv_net_stack *stack; // NULL: the stack does not run
    const struct qkv_sequences *in;
    int64_t R, all; // rows of this process, and of the batch; equal unless ranks share the batch
    // [R] of the rows of this process: token ids; token types, or NULL; rows of the position table
    const int32_t *ids, *types;
    int32_t *positions;
    // [R][W] sum of the embeddings, W wide; NULL: the stack has no norm after them
    real *embedded;
    struct qkv_norm_keep embedded_keep;
    // [R][W] embeddings before they are projected to the model's width; NULL: no projection
    real *narrow;
    real *x;                           // [R][D] input of the first sublayer
    struct qkv_net_sublayer *sublayer; // [sublayers] in the order in which they run; owned
    int64_t sublayers;
    // [R][D] output of the stack. With a final norm: the norm of the last sublayer's value, of type
    // final_type. Without: the value itself, of type real
    void *final;
    qkv_dtype final_type;
    struct qkv_norm_keep final_keep;
    struct qkv_places places;
    struct qkv_attention attention, local, across;
    struct qkv_stream stream;
};

// A node of the tree of sums that a rank has.
struct qkv_net_node {
    struct qkv_tree_node is;
    int64_t rank;
    int index; // among the nodes of the rank
};
// How the rows of a batch are added up, and shared by ranks (net_ranks.c).
struct qkv_net_share {
    const struct qkv_comm *comm; // NULL: this process has all rows
    struct qkv_comm own;         // comm with the edges below
    struct qkv_rank_rows rows;   // of this process
    struct qkv_heads_ranks heads;
    int64_t leaves, runs;         // blocks of the batch; runs of all ranks
    struct qkv_row_block *block;  // owned
    struct qkv_row_sums sums;     // over the rows of this process
    struct qkv_loss *loss;        // [leaves] of each block; owned
    int64_t *edge, *leaf;         // [runs + 1] first row and first block of each run; owned
    size_t *at;                   // [2 P] places and sizes of what is collected; owned
    int32_t *ids, *types;         // [R] of the rows of this rank
    int32_t *targets, *positions; // targets: [R]; positions: of all rows of the batch
    struct qkv_net_node *node;    // [most] the nodes of all ranks
    real *part;                   // [most][..] their sums of a part of the gradients
    int64_t most;
};

struct qkv_net_state {
    qkv_net *n;
    struct qkv_net_layers *body;
    enum qkv_net_keeping keeping;
    bool drops;  // dropout is on
    bool blocks; // sums over rows are trees of blocks, and share is set
    struct qkv_net_share share;
    uint64_t seed, step;
    qkv_dtype type; // element type of the arrays between matrix products; 0: real
    size_t bytes;   // bytes of one element of this type
    struct qkv_net_side encoder, decoder;
    // Scratch arrays that all sublayers share:
    real *workspace[2]; // [R][max(D, W)] values of sublayers that are not stored
    // [R][N] output of a feed-forward's first projection, if backward recomputes it
    void *up;
    real *again; // [R][D] value of a sublayer, if backward recomputes it
    struct qkv_stream_back back;
    size_t scratch_bytes;
    // scratch of the sublayers; between forward and backward of the stacks, of the output heads
    void *scratch;
    const struct qkv_probe *probe; // statistics that each attention collects; NULL: none
    // Callback after each layer of forward; may be NULL.
    qkv_status (*layer_done)(struct qkv_net_state *f, struct qkv_net_side *s, int64_t layer);
    void *ctx; // data of the callback
};

// The sequences of a run, and the memory that its caller needs. The caller of qkv_net_begin also
// sets the members n, keeping, drops, seed, step, probe, layer_done and ctx of struct
// qkv_net_state.
struct qkv_net_plan {
    const struct qkv_sequences *encoder, *decoder; // NULL: that stack does not run
    qkv_dtype final_type;                          // element type of the last stack's output
    // Returns the bytes of scratch that the caller's own layers need; NULL: they need no scratch.
    size_t (*scratch)(void *ctx);
    // Allocates the caller's own arrays from the arena; called twice, first only to count the
    // bytes. NULL: the caller needs no arrays.
    void (*more)(void *ctx, struct qkv_arena *arena);
    void *ctx; // data of the callbacks
};
// Counts the bytes of a run and allocates its arrays. The caller must call qkv_net_end even after
// an error. Returns QKV_OK, QKV_ERR_LIMIT, or the status with which the attention operator refused
// a sublayer (net_memory.c).
qkv_status qkv_net_begin(struct qkv_net_state *f, const struct qkv_net_plan *plan, qkv_error *err);
void qkv_net_end(struct qkv_net_state *f);
// qkv_net_up_again returns true if backward recomputes the output of the first projection of `sub`,
// a feed-forward. qkv_net_sum_again returns true if backward recomputes the value of sublayer i by
// the last projection of attention.
bool qkv_net_up_again(const struct qkv_net_state *f, const struct qkv_net_sublayer *sub);
bool qkv_net_sum_again(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i);
// Returns true if the value of sublayer i has an array of its own. This is the case for the last
// value of the stack, and for the values that backward does not recompute.
bool qkv_net_value_kept(const struct qkv_net_state *f, const struct qkv_net_side *s, int64_t i);
// Returns the embedding layer of a stack.
struct qkv_embed qkv_net_embedding(const struct qkv_net_state *f, const struct qkv_net_stack *s);

// ---- rows that ranks share (net_ranks.c) -------------------------------------------------------
// Divides the rows of a batch into blocks, and the blocks among the ranks of f->share.comm.
qkv_status qkv_net_share_begin(struct qkv_net_state *f, const struct qkv_sequences *in);
void qkv_net_share_end(struct qkv_net_state *f);
// Allocates the arrays of f->share; called as qkv_net_plan.more.
void qkv_net_share_take(struct qkv_net_state *f, struct qkv_arena *a);
// Returns the bytes of scratch of embed_backward with ranks.
size_t qkv_net_share_scratch(const struct qkv_net_state *f, const struct qkv_embed *e);
// Copies the numbers of the rows of this rank from an array of the batch; `to` may be NULL.
void qkv_net_share_pick(const struct qkv_net_share *x, int32_t *to, const int32_t *from);
// Returns the status of this rank, or if it is QKV_OK the largest status of all.
qkv_status qkv_net_share_agree(const struct qkv_net_share *x, qkv_status mine);
// Returns the loss of a block of this process. qkv_net_share_loss adds the losses of all blocks of
// the batch to *loss, in their order.
struct qkv_loss *qkv_net_share_block_loss(struct qkv_net_share *x, const struct qkv_row_block *b);
qkv_status qkv_net_share_loss(struct qkv_net_share *x, struct qkv_loss *loss);
// Collects all[rows of the batch][D] on every rank, from the rows own[R][D] of each.
qkv_status qkv_net_share_rows(const struct qkv_net_share *x, real *all, const real *own, int64_t D);
// Completes the gradients of the model on every rank.
qkv_status qkv_net_share_complete(struct qkv_net_share *x);

// Runs a stack from its tokens to its output s->final (net_stack.c).
qkv_status qkv_net_side_forward(struct qkv_net_state *f, struct qkv_net_side *s);
// Runs backward through a stack: adds the gradients of its weights, given d, the gradient of
// s->final, of type final_type. Without a final norm, d may be the array f->back.d.
qkv_status qkv_net_side_backward(struct qkv_net_state *f, struct qkv_net_side *s, const void *d);
#endif
