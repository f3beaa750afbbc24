// SPDX-License-Identifier: MIT
// net_body.h: declares a trainable Transformer as stacks of sublayers, and the state of one run.
//
// A sublayer ("part" in names) f is self-attention, cross-attention or feed-forward:
//   sum = x + drop(f(norm_in(x))),   value = norm_out(sum)        a missing norm is the identity
//   sum = f(norm_in(x)),   value = x + drop(norm_out(sum))        norms inside (QKV_NORM_INSIDE)
// The value of one sublayer is the x of the next. For backward, a run stores of each sublayer its
// sum, the mean and rstd of its norms, the output of its first matrix product and, of attention,
// the output of the heads and lse. Backward recomputes everything else: the norm of x, and the
// inner rows of feed-forward from the argument of their activation. Two of the stored arrays are
// also recomputed, by a matrix product, which halves the memory that autograd would need: the sum
// between attention and feed-forward if no norm follows it (one product of D x D), and, in every
// third layer (every second layer if norms follow the sublayers), the output of feed-forward's
// first product, the widest array.
#ifndef QKV_MODEL_NET_BODY_H
#define QKV_MODEL_NET_BODY_H
#include "model/forward/observe.h"
#include "model/forward/stream.h"
#include "model/params/trainable.h"

enum qkv_net_part_kind { QKV_NET_SELF = 0, QKV_NET_CROSS, QKV_NET_MLP };
enum { QKV_NET_LAYER_PARTS = 3 }; // maximum number of sublayers in a layer

struct qkv_net_part {
    enum qkv_net_part_kind kind;
    int64_t layer;
    bool local; // SELF: attends only to the keys in its window
    struct qkv_net_norm in, out;
    struct qkv_net_norm norm_q, norm_k; // norms of the query and key heads
    // The first matrix product. SELF: q, k and v in one product. CROSS: q. MLP: up; in a gated
    // model gate and up in one product.
    struct qkv_net_linear first;
    struct qkv_net_linear memory; // CROSS: computes k and v from the rows of the encoder
    struct qkv_net_linear last;   // SELF, CROSS: output projection. MLP: down
};

struct qkv_net_stack {
    bool causal;
    int64_t layers, parts; // numbers of layers and of sublayers; 0: the model lacks this stack
    struct qkv_net_part *part;
    struct qkv_weight position; // table of learned positions
    struct qkv_weight relative; // [buckets][H] biases of relative positions
    // [H][2 reach + 1] `relative` expanded to one bias per distance, and its gradient; owned; NULL:
    // the stack has no relative positions
    float *distances;
    real *d_distances;
    struct qkv_net_norm embedding_norm, final_norm;
};

struct qkv_net_body {
    struct qkv_weight words[2]; // token embeddings; [1]: of the decoder, if it has its own table
    struct qkv_weight type;
    struct qkv_net_stack encoder, decoder;
    struct qkv_weight logits; // output projection, unless it is tied to a table in `words`
    struct qkv_weight logits_bias;
    struct {
        struct qkv_net_linear dense;
        struct qkv_net_norm norm;
    } masked;
    struct {
        struct qkv_net_linear dense, out;
        struct qkv_net_norm norm;
    } classify;
    // Tables of fixed positions, owned: sinusoids [rows][D], or cosines and sines of rotary
    // positions [rows][2 pairs]. table[1]: for local layers, if they have another base. The tables
    // grow to the largest number of rows that a run needed.
    real *table[2];
    int64_t table_rows;
    real *shifted; // owned; norm weights plus norm_offset, to which `shifted` of the norms points
};

// Returns the table of token embeddings that a stack uses.
static inline const struct qkv_weight *qkv_net_words(const struct qkv_net_body *body,
                                                     const struct qkv_net_stack *s)
{
    return &body->words[s == &body->decoder && body->words[1].value];
}

// Extends the tables of fixed positions, if the model has any, to at least `rows` rows. Returns
// QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_net_positions(const qkv_net *n, int64_t rows);
// Recomputes the arrays that depend on the parameters' current values: `shifted` of norms and
// `distances` of stacks. Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_net_derive(const qkv_net *n);

// Runs a batch through a Transformer, as qkv_net_run describes (net_run.c).
qkv_status qkv_net_transformer_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                                   bool gradients, real scale, uint64_t seed, uint64_t step,
                                   qkv_error *err);

// ---- one run (net_flow.c) ----------------------------------------------------------------------
// Arrays of one sublayer that are stored for backward. R: rows of the stack, S: of the encoder.
struct qkv_net_keep {
    real *sum;                    // [R][D] the argument of the norm after the sublayer
    struct qkv_norm_keep in, out; // [R] mean and rstd of the norms before and after the sublayer
    void *first;                  // [R][first.N] output of the first product
    void *memory;                 // [S][memory.N] keys and values of cross-attention
    void *heads;                  // [R][H F] output of the attention heads
    real *lse;                    // [H][R] log-sum-exp of the attention scores
};

// The arrays that a run stores.
enum qkv_net_keeping {
    QKV_KEEP_ALL = 0, // everything that backward needs
    QKV_KEEP_INPUTS,  // the input of each layer; the layer runs again in backward
    QKV_KEEP_NOTHING  // forward only
};

// One stack during a run.
struct qkv_net_side {
    const struct qkv_net_stack *stack;
    const struct qkv_sequences *in;
    int64_t R;
    int32_t *positions; // [R] row of the position table for each token
    real *embedded;     // [R][D] sum of the embeddings, if the stack has a norm after it
    struct qkv_norm_keep embedded_keep;
    real *x;                   // [R][D] input of the first sublayer
    real **value;              // [parts] output [R][D] of each sublayer
    struct qkv_net_keep *keep; // [parts] arrays stored for backward
    // [R][D] output of the stack: the norm of the last value, of type final_type; if the stack has
    // no final norm, the last value itself, of type real
    void *final;
    qkv_dtype final_type;
    struct qkv_norm_keep final_keep;
};

struct qkv_net_flow {
    qkv_net *n;
    struct qkv_net_body *body;
    enum qkv_net_keeping keeping;
    bool drops;               // dropout is on
    struct qkv_net_work work; // its scratch is shared: one layer runs at a time
    uint64_t seed, step;
    qkv_dtype type; // element type of the arrays between matrix products; 0: real
    size_t bytes;   // bytes of one element of this type
    struct qkv_net_side encoder, decoder;
    // Scratch arrays that all sublayers share:
    real *workspace[2]; // [R][D] outputs of sublayers that are not stored
    void *wide;         // [R][first.N] output of a first product that backward recomputes
    real *again;        // [R][D] output of a sublayer that backward recomputed
    void *normed;       // [R][D] output of the norm before a sublayer
    void *branch;       // [R][D] output of a sublayer before dropout, or its gradient
    void *inner;        // [R][M] inner rows of feed-forward
    real *d;            // [R][D] gradient of the residual stream
    real *d_spare;      // [R][D] swapped with d
    void *d_first;      // [R][first.N] gradient of the first product's output
    void *d_inner;      // [R][max(M, H F)] gradient of the last product's input
    void *d_memory;     // [S][memory.N] gradient of cross-attention's keys and values
    void *d_normed;     // [R][D] gradient of `normed`
    real *d_encoded;    // [S][D] gradient of the encoder's output
    // If heads have norms: queries [R][H E] and keys [R][G E] after norm and rotation, and their
    // gradients
    void *queries, *keys, *d_queries, *d_keys;
    // If heads have norms: one of queries and keys before the norm, as real [R][max(H, G)][E]; its
    // gradient; rstd [R * max(H, G)] of its norm
    real *head_rows, *d_head_rows, *head_rstd;
    size_t scratch_bytes;
    // Callback after each sublayer of forward; may be NULL.
    qkv_status (*seen)(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part);
    void *ctx; // data of the callback `seen`
};

// The sequences and the memory of a run. The caller of qkv_net_flow_begin also sets the members
// keeping, drops, seed and step of struct qkv_net_flow.
struct qkv_net_flow_plan {
    const struct qkv_sequences *encoder, *decoder; // NULL: that stack does not run
    qkv_dtype final_type;                          // element type of the last stack's output
    size_t scratch; // bytes of scratch that the caller's own layers need
    // Allocates the caller's own arrays from the arena; called twice, first only to count the
    // bytes. NULL: the caller needs no arrays.
    void (*more)(void *ctx, struct qkv_arena *arena);
    void *ctx; // data of the callback `more`
};
// Counts the bytes of a run and allocates its arrays. Returns QKV_OK, QKV_ERR_LIMIT, or the reason
// why the attention operator refused a sublayer.
qkv_status qkv_net_flow_begin(struct qkv_net_flow *f, const struct qkv_net_flow_plan *plan,
                              qkv_error *err);
// Runs a stack from its tokens to its output s->final.
qkv_status qkv_net_side_forward(struct qkv_net_flow *f, struct qkv_net_side *s);
// Adds the gradients of a stack's weights, given the gradient d of s->final, whose type is
// final_type. Without a final norm, d may be f->d.
qkv_status qkv_net_side_backward(struct qkv_net_flow *f, struct qkv_net_side *s, const void *d);

// ---- one part (net_part.c) ---------------------------------------------------------------------
// Computes the value of a sublayer from x and stores the arrays of s->keep[part]. inner_only: skips
// the last product, whose result already exists.
qkv_status qkv_net_part_forward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                const real *x, bool inner_only);
// Computes sum[R][D] = x + drop(f) by the last product of a sublayer. core: input of that product,
// the output of the heads or the inner rows of feed-forward.
void qkv_net_part_sum(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part, const real *x,
                      const void *core, real *sum);
// Replaces f->d, the gradient of the sublayer's value, by the gradient of x, and adds the gradients
// of its weights.
qkv_status qkv_net_part_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                 const real *x);
// Returns the attention of a sublayer: sizes, offsets, strides of its arrays, and dropout.
struct qkv_attention qkv_net_attention_of(const struct qkv_net_flow *f,
                                          const struct qkv_net_side *s, int64_t part);
struct qkv_net_attention_arrays {
    const void *q, *k, *v;
};
struct qkv_net_attention_arrays qkv_net_attention_at(const struct qkv_net_flow *f,
                                                     const struct qkv_net_part *p,
                                                     const void *first, const void *memory);
// Returns true if the heads of a sublayer have norms. Attention then reads f->queries and f->keys,
// and the output `first` of the product remains unchanged (net_heads.c).
static inline bool qkv_net_heads_normed(const struct qkv_net_part *p)
{
    return p->norm_q.D || p->norm_k.D;
}
// Applies norms and rotary positions to the queries and keys in `first`.
void qkv_net_heads_ready(struct qkv_net_flow *f, const struct qkv_net_side *s,
                         const struct qkv_net_part *p, void *first);
// Writes the gradient of queries and keys before norms and rotation to f->d_first, from the
// gradients that backward of attention wrote.
void qkv_net_heads_back(struct qkv_net_flow *f, const struct qkv_net_side *s,
                        const struct qkv_net_part *p, const void *first);
// Returns the bytes of scratch that a sublayer needs; SIZE_MAX if it was refused, with the reason
// in *status.
size_t qkv_net_part_scratch(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                            int64_t part, qkv_status *status);

struct qkv_norm qkv_net_norm_of(const struct qkv_net_norm *l);
struct qkv_dropout qkv_net_dropout(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                                   int64_t place);
#endif
