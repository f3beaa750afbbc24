// SPDX-License-Identifier: MIT
// net_body.h: inside of a model that learns: a Transformer as stacks of parts, and one run of it.
//
// A part f is an attention (over its own rows, or over those of another stack) or a feed-forward:
//   sum = x + drop(f(norm_in(x))),   value = norm_out(sum)        norms that are not there: the identity
// and the value of one part is the x of the next.  What backward needs of a part is its sum, the
// mean and rstd of its norms, what its first product left, and of attention the heads and lse; all
// else is formed anew: normed rows from x, inner rows of the feed-forward from the argument of
// their activation.  Of what a product must form anew, so much is not kept that half of what
// autograd keeps is left: the sum between attention and feed-forward where no norm follows it (one
// product of D x D), and in every third layer (every second with norms behind parts) the widest
// rows, what the feed-forward's first product left.
#ifndef QKV_MODEL_NET_BODY_H
#define QKV_MODEL_NET_BODY_H
#include "model/net_parts.h"

enum qkv_net_part_kind { QKV_NET_SELF = 0, QKV_NET_CROSS, QKV_NET_MLP };
enum { QKV_NET_LAYER_PARTS = 3 }; // in a layer at most

struct qkv_net_part {
    enum qkv_net_part_kind kind;
    int64_t layer;
    struct qkv_net_norm in, out;
    // SELF: q, k and v together.  CROSS: q.  MLP: up; gated: gate and up together.
    struct qkv_net_linear first;
    struct qkv_net_linear memory; // CROSS: k and v, of the other stack's rows
    struct qkv_net_linear last;   // SELF, CROSS: output projection.  MLP: down
};

struct qkv_net_stack {
    bool causal;
    int64_t layers, parts; // 0: there is no such stack
    struct qkv_net_part *part;
    struct qkv_weight position; // learned
    struct qkv_net_norm embedding_norm, final_norm;
};

struct qkv_net_body {
    struct qkv_weight word, type;
    struct qkv_net_stack encoder, decoder;
    struct qkv_weight logits; // the output projection where it is not `word`
    struct qkv_weight logits_bias;
    real *logits_bias_fixed; // [V], owned
    struct {
        struct qkv_net_linear dense;
        struct qkv_net_norm norm;
    } masked;
    struct {
        struct qkv_net_linear dense, out;
    } classify;
    // Of fixed positions, owned: sinusoids [rows][D], turns [rows][E]; for as many as runs needed
    // so far.
    real *table;
    int64_t table_rows;
};

// Makes sure of `rows` rows of the table of fixed positions, where the net has one.  QKV_OK,
// QKV_ERR_LIMIT.
qkv_status qkv_net_positions(const qkv_net *n, int64_t rows);

// The methods that net_body.c lists beside its own: net_run.c, net_look.c, net_step.c.
qkv_status qkv_net_transformer_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                                   bool gradients, real scale, uint64_t seed, uint64_t step,
                                   qkv_error *err);
qkv_status qkv_net_transformer_align(qkv_net *n, real *weights, int64_t layer,
                                     const struct qkv_sequences *in,
                                     const struct qkv_sequences *source, qkv_error *err);
qkv_status qkv_net_transformer_begin(void **state, qkv_net *n, const struct qkv_sequences *source,
                                     int beam, int64_t most, qkv_error *err);
qkv_status qkv_net_transformer_step(void *state, real *logits, const int32_t *tokens, int64_t t,
                                    qkv_error *err);
void qkv_net_transformer_reorder(void *state, const int64_t *parent, int64_t t);
void qkv_net_transformer_end(void *state);

// ---- one run (net_flow.c) ----------------------------------------------------------------------
// What a part leaves; rows as the stack has them.
struct qkv_net_keep {
    real *sum;                    // [R][D]
    struct qkv_norm_keep in, out; // [R]
    void *first;                  // [R][first.N] of the net's type
    void *memory;                 // [S][memory.N]
    void *heads;                  // [R][H F]
    real *lse;                    // [H][R]
};

// How much is kept of a run.
enum qkv_net_keeping {
    QKV_KEEP_ALL = 0, // everything that backward needs
    QKV_KEEP_INPUTS,  // what each layer reads; the layer runs again in backward
    QKV_KEEP_NOTHING  // forward only
};

// One stack at work.
struct qkv_net_side {
    const struct qkv_net_stack *stack;
    const struct qkv_sequences *in;
    int64_t R;
    int32_t first;      // position of each sequence's first token
    int32_t *positions; // [R]
    real *embedded;     // [R][D] sum of the embeddings, where a norm follows
    struct qkv_norm_keep embedded_keep;
    real *x;                   // [R][D] what the first part reads
    real **value;              // [parts] what each part leaves for the next
    struct qkv_net_keep *keep; // [parts]
    // [R][D] norm of the last value, of final_type; where there is no such norm, that value (real).
    void *final;
    qkv_dtype final_type;
    struct qkv_norm_keep final_keep;
};

struct qkv_net_flow {
    qkv_net *n;
    struct qkv_net_body *body;
    enum qkv_net_keeping keeping;
    bool drops; // dropout is on
    int threads;
    uint64_t seed, step;
    qkv_dtype type; // of what lies between products
    size_t bytes;   // of one number of it
    struct qkv_net_side encoder, decoder;
    // Rooms that parts share.
    real *room[2];   // [R][D] values that are not kept
    void *wide;      // [R][first.N] of feed-forwards whose first product runs again
    real *again;     // [R][D] a value formed anew
    void *normed;    // [R][D]
    void *branch;    // [R][D] what a part adds, before dropout; or its gradient
    void *inner;     // [R][M] of the feed-forward
    real *d;         // [R][D] gradient of the stream
    real *d_spare;   // [R][D]
    void *d_first;   // [R][first.N]
    void *d_inner;   // [R][max(M, H F)]
    void *d_memory;  // [S][memory.N]
    void *d_normed;  // [R][D]
    real *d_encoded; // [S][D] gradient of what the encoder left
    void *scratch;   // of the layer that runs
    size_t scratch_bytes;
    // What stands in for the attention of a part (decoding: keys of earlier steps), and who sees
    // each part when it has run; NULL: nothing.
    qkv_status (*attend)(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part);
    qkv_status (*seen)(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part);
    void *ctx; // theirs
};

// What a run is made of, before its memory: keeping, drops, seed and step are the caller's.
struct qkv_net_flow_plan {
    const struct qkv_sequences *encoder, *decoder;    // NULL: that stack does not run
    qkv_dtype final_type;                             // wanted of the last stack
    size_t scratch;                                   // bytes that the caller's own layers need
    void (*more)(void *ctx, struct qkv_arena *arena); // takes what the caller needs beside, called
    void *ctx;                                        // twice (first only counting); NULL: nothing
};
// Counts and takes the arena.  QKV_OK, QKV_ERR_LIMIT, or why attention refused.
qkv_status qkv_net_flow_begin(struct qkv_net_flow *f, const struct qkv_net_flow_plan *plan,
                              qkv_error *err);
// Tokens to s->final.
qkv_status qkv_net_side_forward(struct qkv_net_flow *f, struct qkv_net_side *s);
// From the gradient of final to those of the weights (+=).  d: of final_type; without a final norm
// it may be f->d itself.
qkv_status qkv_net_side_backward(struct qkv_net_flow *f, struct qkv_net_side *s, const void *d);

// ---- one part (net_part.c) ---------------------------------------------------------------------
// x to value (and what keep says).  inner_only: what the last product would give is there already.
qkv_status qkv_net_part_forward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                const real *x, bool inner_only);
// sum[R][D] = x + drop(f): what a part adds to x, by its last product alone; core: heads or inner
// rows.
void qkv_net_part_sum(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part, const real *x,
                      const void *core, real *sum);
// f->d, the gradient of the part's value, becomes that of x.
qkv_status qkv_net_part_backward(struct qkv_net_flow *f, struct qkv_net_side *s, int64_t part,
                                 const real *x);
// The attention of a part, its arrays as products leave them.
struct qkv_attention qkv_net_attention_of(const struct qkv_net_flow *f,
                                          const struct qkv_net_side *s, int64_t part);
struct qkv_net_attention_arrays {
    const void *q, *k, *v;
};
struct qkv_net_attention_arrays qkv_net_attention_at(const struct qkv_net_flow *f,
                                                     const struct qkv_net_part *p,
                                                     const void *first, const void *memory);
// Positions into the queries and keys of rows, where they are rotary.
void qkv_net_rotate(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                    const struct qkv_net_part *p, void *first, bool backward);
// Bytes; SIZE_MAX: refused, *status says why.
size_t qkv_net_part_scratch(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                            int64_t part, qkv_status *status);

// y = x w^T + b (+ residual); types 0: real.
void qkv_net_product(struct qkv_net_flow *f, void *y, qkv_dtype y_type, const void *x,
                     qkv_dtype x_type, int64_t R, const struct qkv_net_linear *l,
                     const real *residual);
// dx of type x_type, or real where dx_real (+ dx_add); NULL: not wanted.
struct qkv_net_product_back {
    void *dx;
    bool dx_real;
    const real *dx_add;
    const void *dy;
    qkv_dtype dy_type;
    const void *x;
    qkv_dtype x_type;
};
void qkv_net_product_backward(struct qkv_net_flow *f, const struct qkv_net_product_back *a,
                              int64_t R, const struct qkv_net_linear *l);
size_t qkv_net_product_scratch(const struct qkv_net_flow *f, int64_t R,
                               const struct qkv_net_linear *l, bool back);
struct qkv_norm qkv_net_norm_of(const struct qkv_net_norm *l);
struct qkv_dropout qkv_net_dropout(const struct qkv_net_flow *f, const struct qkv_net_side *s,
                                   int64_t place);
#endif
