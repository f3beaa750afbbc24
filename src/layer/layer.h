// SPDX-License-Identifier: MIT
// layer.h: declares the layers from which models are built: the forward passes and, through
// backward.h, the passes for training. This is the public header of module layer.
//
//   Sizes: R rows (the tokens of all sequences, packed), D width, M inner width, H heads.
//   Weights ([out][in], as checkpoints store them) belong to the caller and are packed once, when
//   the model is loaded; only the *_pack functions allocate. The model checks sizes when it is
//   built, so most functions return no status.
//   The bits of a row depend only on that row: not on R, on other rows or on the number of threads.
//   The `keep` arguments receive activations that backward or an observer needs; a NULL member is
//   not stored. A tape (struct qkv_*_tape) contains the arrays that forward of a trained layer
//   fills and its backward reads.
//   Scratch is 64-byte aligned and has at least the bytes that *_scratch returns for that R or a
//   larger one.
#ifndef QKV_MODULE_LAYER_H
#define QKV_MODULE_LAYER_H

#include "kernel/kernel.h"
#include <qkv/cache.h>
#include <qkv/baseline.h>
#include <qkv/layer.h>

// ---- embeddings (embed.c) ----------------------------------------------------------------------
struct qkv_embed {
    int64_t V, P, Y, D;   // numbers of rows of token, position and type; width of a row
    const real *token;    // token embeddings, [V][D]
    const real *position; // position embeddings, [P][D]; NULL: none
    const real *type;     // token-type (segment) embeddings, [Y][D]; NULL: none
    real scale;           // factor of the token embedding; 0 means 1
};
// Embeds tokens: y[R][D] = scale token[ids[r]] + type[types[r]] + position[positions[r]], added
// from left to right. types NULL: type 0 for all rows. The caller has checked that every index is
// inside its table.
void qkv_embed_forward(real *y, const int32_t *ids, const int32_t *types, const int32_t *positions,
                       int64_t R, const struct qkv_embed *p);

// ---- positions (position.c) --------------------------------------------------------------------
// Sets positions[r] = first + the index of row r in its sequence. Sequence i consists of rows
// offsets[i] .. offsets[i+1]-1.
void qkv_positions(int32_t *positions, const int64_t *offsets, int64_t sequences, int32_t first);
// Fills row p of table[P][D] with the sine and cosine of p / 10000^(2i/D) for each i < D/2.
// interleaved: each sine is followed by its cosine; otherwise: all sines precede all cosines.
// Vaswani et al. 2017 (arXiv 1706.03762) section 3.5.
void qkv_position_sinusoid(real *table, int64_t P, int64_t D, bool interleaved);

// ---- linear (linear.c) -------------------------------------------------------------------------
enum { QKV_LINEAR_PARTS = 3 };
struct qkv_linear_once;
// Up to three linear projections of the same rows in one product (query, key and value):
//   y_p[R][N_p] = x[R][K] w_p^T + b_p
// The caller sets K, precision, parts and part[]; qkv_linear_pack creates `packed`. A layer that is
// trained is not packed, since its weights change with every step: the caller sets `once`, and each
// call packs the weights. A part of such a layer may have no weights (w NULL, N = K): y = x.
struct qkv_linear {
    int64_t K;
    qkv_precision precision; // precision of the packed weights and their products
    int parts;
    struct qkv_linear_part {
        int64_t N;
        const real *w;   // weights, [N][K], or [K][N] if transposed
        const real *b;   // bias, [N]; NULL: none
        bool transposed; // true: w is stored [K][N], as in GPT-2
    } part[QKV_LINEAR_PARTS];
    // kernel that packed the weights, and which also multiplies with them
    const struct qkv_linear_kernel *kernel;
    // packed weights of all parts, which qkv_linear_free frees; NULL: each call packs the weights
    char *packed;
    size_t start[QKV_LINEAR_PARTS];     // byte offset of each part in packed
    const struct qkv_linear_once *once; // how a call packs the weights; unused if `packed` is set
    // gradients of w and b of each part, to which backward adds; NULL: not computed
    real *dw[QKV_LINEAR_PARTS], *db[QKV_LINEAR_PARTS];
};
// Packs the weights. Returns QKV_OK, QKV_ERR_LIMIT, or QKV_ERR_UNSUPPORTED if no kernel has this
// precision. A second call has no effect.
qkv_status qkv_linear_pack(struct qkv_linear *l);
// qkv_linear_pack_bytes returns the bytes of the packed weights, which depend only on K, precision
// and parts; SIZE_MAX: there is no kernel, or the size is too large. Call it before
// qkv_linear_pack_at, which packs into memory of that size that the caller owns (64-byte aligned).
// qkv_linear_free must not be called for such weights.
size_t qkv_linear_pack_bytes(struct qkv_linear *l);
void qkv_linear_pack_at(struct qkv_linear *l, void *memory);
// Packs weights in pieces, directly from a checkpoint of any type (linear_pack.c); threads may pack
// different pieces concurrently. A piece is a fixed number of columns (outputs of the layer), which
// qkv_linear_piece returns. qkv_linear_pack_piece packs columns n .. n+N-1 of part p into the
// memory l->packed, which the caller has allocated; n is a multiple of that number. Element k of
// column n+i is w[i ldn + k ldk]. Returns false if memory for a type conversion cannot be
// allocated.
int64_t qkv_linear_piece(const struct qkv_linear *l);
bool qkv_linear_pack_piece(struct qkv_linear *l, int p, int64_t n, int64_t N, const void *w,
                           qkv_dtype type, int64_t ldn, int64_t ldk);
void qkv_linear_free(struct qkv_linear *l); // Frees l->packed; a zeroed struct is allowed.

// Operations on the result of a linear projection before it is stored: y = act(scale (x w^T) + b) +
// residual.
struct qkv_after {
    // types of the arrays x and y; 0: real. Other values: the 16-bit type of the precision
    // (QKV_BF16 or QKV_F16)
    qkv_dtype x, y;
    enum qkv_activation act;
    int64_t ldx; // distance of rows of x in elements; 0 means K
    real scale;  // factor of the product; 0 means 1
    // added last: [R][N], rows residual_ld elements apart (0 means N); may be the same array as y
    const real *residual;
    int64_t residual_ld;
    real *before; // receives the argument of act, [R][N]; NULL: it is not stored
};
// Applies the projections: writes y[p] for each part p, with rows ld[p] elements apart. ld NULL or
// ld[p] 0: N_p elements apart. after NULL: y is the plain projection. With more than one part, only
// the members act and scale of `after` may be set.
void qkv_linear_forward(void *const *y, const int64_t *ld, const void *x, int64_t R,
                        const struct qkv_linear *l, const struct qkv_after *after);

// A linear projection whose weights are used only once, in any precision. The weights are packed
// piece by piece into scratch, which has qkv_linear_once_scratch bytes for the same precision and
// threads. Rows of x are ldx elements apart, rows of y ldy; `after` sets the types of x and y. The
// result is bit-identical to that of weights that were packed when the model was loaded.
struct qkv_linear_once {
    qkv_precision precision;
    int threads;   // number of threads that scratch has space for; the call uses no more
    void *scratch; // workspace; qkv_linear_once_scratch ignores it
    // order of the gradients' sums over rows; NULL: the order of the rows (backward.h)
    const struct qkv_row_sums *sums;
};
struct qkv_row_sums;
size_t qkv_linear_once_scratch(const struct qkv_linear_once *how, int64_t K, int64_t N);
void qkv_linear_once(void *y, int64_t ldy, const void *x, int64_t ldx, int64_t R, int64_t K,
                     const struct qkv_linear_part *part, const struct qkv_after *after,
                     const struct qkv_linear_once *how);

// ---- norm (norm.c) -----------------------------------------------------------------------------
struct qkv_norm {
    int64_t D;
    const real *w, *b; // weight and bias, [D]; w NULL: ones; b NULL: zeros
    real eps;
    real *dw, *db; // gradients of w and b, to which backward of a block adds; NULL: not computed
};
struct qkv_norm_keep {
    real *mean, *rstd; // mean and 1/sqrt(var + eps) of each row, [R]
};

// ---- sublayers ---------------------------------------------------------------------------------
// The rows that a sublayer f reads and writes: y[R][D] = norm(f(x) + residual). The arrays y, x and
// residual may be the same.
struct qkv_sublayer_rows {
    const void *x;
    void *y; // NULL: the sublayer stops before its last projection (only with a tape)
    qkv_dtype x_type, y_type;    // element types of x and y; 0: real
    const real *residual;        // added to the last projection, [R][D]; NULL: nothing is added
    const struct qkv_norm *norm; // layer norm of the sum; NULL: none
};
// The rows that backward of a sublayer reads and writes.
struct qkv_sublayer_back {
    // x: input of forward, [R][D]; dy: gradient of the last projection's result, [R][D]
    const void *x, *dy;
    qkv_dtype x_type, dy_type;
    // gradient of x, [R][D], plus dx_add unless that is NULL; its type is real if dx_real is true,
    // otherwise x_type
    void *dx;
    bool dx_real;
    const real *dx_add;
};

// ---- feed-forward (mlp.c) ----------------------------------------------------------------------
// A feed-forward network: y = down(act(up(x))) + residual.
struct qkv_mlp {
    // up: [M][D], down: [D_out][M]; one part each, of the same precision
    struct qkv_linear up, down;
    enum qkv_activation act;
    bool gated; // true: up has two parts, gate and up, and y = down(act(gate(x)) up(x)) + residual
};
// Arrays of forward that backward reads, of the type in which `down` reads its rows.
struct qkv_mlp_tape {
    void *up;    // [R][M] output of `up`; if gated [R][2 M], gate and up in one row
    void *inner; // [R][M] scratch that layers may share: input of `down`, which backward recomputes
};
// Returns the bytes of scratch of a call without a tape, which are bounded for any R; SIZE_MAX: too
// large for an address space.
size_t qkv_mlp_scratch(const struct qkv_mlp *m, int64_t R);
// Applies the network. Without a tape (tape NULL) the layers are packed, and blocks of rows run
// through both products and the norm while they are in the cache. With a tape the layers are not
// packed, `up` is one part also if gated, rows->norm is NULL, and each step runs over all rows.
void qkv_mlp_forward(const struct qkv_sublayer_rows *rows, const struct qkv_mlp_tape *tape,
                     int64_t R, const struct qkv_mlp *m, void *scratch);

// ---- head ablation (heads_ablate.c) ------------------------------------------------------------
// Output of a head under ablation. FOUND: its own output, unchanged. ZERO: zeros. MEAN: the mean of
// its output over the rows of the sequence. UNIFORM: the mean of the values that it sees (its
// queries become 0, so that every visible key has the same weight).
enum qkv_heads_gives { QKV_HEADS_FOUND = 0, QKV_HEADS_ZERO, QKV_HEADS_MEAN, QKV_HEADS_UNIFORM };
struct qkv_heads_ablation {
    // enum qkv_heads_gives of each head. step 0: [H], the same for all sequences; step H:
    // [sequences][H], one row per sequence
    const unsigned char *gives;
    int64_t step;
    // true: MEAN of a row averages this row and the rows before it; false: all rows of the sequence
    bool running;
    // for runs with a KV cache (step 0): index, in a token's row of qkv_heads_sums, at which the
    // sums of this layer's MEAN heads begin
    int64_t column;
};
// Running sums of the outputs of MEAN heads, for runs with a KV cache. rows[i] points to the row of
// sums of the first new token of slot i. The rows of the slot's before[i] earlier tokens precede it
// in memory; rows are `stride` numbers apart.
struct qkv_heads_sums {
    double *const *rows;
    const int64_t *before;
    int64_t stride;
};

// ---- self-attention with packed projections (heads.c) ------------------------------------------
struct qkv_scores;
struct qkv_comm;
// The ranks that share the rows of a batch in training (qkv/ranks.h).
struct qkv_heads_ranks {
    const struct qkv_comm *comm;
    int64_t rows; // of this rank
};
struct qkv_heads {
    // numbers of query heads and key/value heads, widths of keys and values; a row of q has H*E
    // numbers, a row of k G*E, a row of v G*F
    int64_t H, G, E, F;
    struct qkv_linear in;  // projections w_q, w_k, w_v; for cross-attention only w_q
    struct qkv_linear kv;  // cross-attention: projections w_k, w_v of memory; K = 0 otherwise
    struct qkv_linear out; // output projection, [D][H*F]; K = 0: none
    // RMS norms of q and k: of each head, D = E, or of all heads of a row, D = H E and G E; NULL:
    // none
    const struct qkv_norm *norm_q, *norm_k;
    // rotary positions of q and k; row r has the position positions[r]. rope NULL: without rotary
    // positions
    const struct qkv_rope *rope;
    const int32_t *positions;
    // cross-attention: rows from which keys and values are computed, [S][kv.K]; NULL: x,
    // self-attention
    const real *memory;
    // NULL: no ablation; otherwise sequences must be packed
    const struct qkv_heads_ablation *ablation;
    const struct qkv_scores *scores; // score function of the public layer; NULL: dot product
    // self-attention with a tape: the arrays have the rows of this rank, a->T counts the rows of all
    // ranks. NULL: this process has all rows
    const struct qkv_heads_ranks *ranks;
};
// The rows of q, k and v of a call: row r of q begins at q + r q_ld. They are separate arrays, or
// columns of the rows that one product wrote.
struct qkv_heads_arrays {
    void *q, *k, *v;
    int64_t q_ld, k_ld, v_ld; // distances of rows, in elements
};
// Copies of activations for an observer, as real; a NULL member is not written.
struct qkv_heads_keep {
    real *q, *k, *v; // q [R][H][E], k [R][G][E], v [R][G][F]
    real *heads;     // outputs of the heads before the output projection, [R][H][F]
    // log-sum-exp of the scores, [H][R]; with batch items [B][H][T]
    real *lse;
    // dense attention weights, [H][R][S] with S = a->S; with batch items [B][H][T][S]; NULL: not
    // computed
    real *weights;
};
// Arrays of forward that backward reads, of the type of the attention kernels. With a tape the
// linear layers are not packed. In a trained model the projections that read the same rows are one
// part of a linear layer, so that one product writes q, k and v as columns of one row
// (qkv_heads_joined).
struct qkv_heads_tape {
    struct qkv_heads_arrays at; // outputs of the projections, which attention reads
    void *heads;                // outputs of the heads, [R][H F]
    real *lse;                  // [H][R]
    // If q or k has a norm: q [R][H][E] and k [R][G][E] after norm and rotation. Layers may share
    // these arrays and `wide`, since backward recomputes them. If neither has a norm, q and k are
    // rotated in place, in the arrays at.q and at.k.
    void *q, *k;
    real *wide; // [R][max(H, G)][E] q or k as real, before its norm
};
// Returns the bytes of scratch; SIZE_MAX: the call is refused and *status is the reason. `a`
// describes the attention: sequences are either packed (B = 1, T = R, S = T or the rows of memory,
// sequences and offsets set) or batch items of equal length (B*T = R). Masks, scale and bias are as
// in qkv/attention.h; m sets H, G, E, F and the strides. a->precision is the type of q, k, v and
// heads: qkv_precision_attention of the precision of `in` and `out`.
size_t qkv_heads_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                         qkv_status *status);
// Computes attention with its projections: y[R][D] = norm(out(attention(in(x))) + residual), with
// rows = { x, y, residual, norm }. residual is added only if `out` exists. keep: may be NULL. tape:
// NULL, or the arrays that backward will read. With a tape, scratch has the bytes that
// qkv_heads_train_scratch returns, and rows->norm and m->ablation are NULL.
qkv_status qkv_heads_forward(const struct qkv_sublayer_rows *rows,
                             const struct qkv_heads_keep *keep, const struct qkv_heads_tape *tape,
                             const struct qkv_heads *m, const struct qkv_attention *a,
                             void *scratch);
// Returns the places of q, k and v in rows of type t that contain several of them: in
// self-attention q, k and v in in[R][H E + G E + G F]; in cross-attention q in in[R][H E], k and v
// in kv[S][G E + G F].
struct qkv_heads_arrays qkv_heads_joined(void *in, void *kv, qkv_dtype t,
                                         const struct qkv_heads *m);
// Computes only the last projection of a forward with a tape, from tape->heads.
void qkv_heads_out(const struct qkv_sublayer_rows *rows, const struct qkv_heads_tape *tape,
                   int64_t R, const struct qkv_heads *m, const struct qkv_attention *a);

#ifndef QKV_DOUBLE
// ---- attention of new tokens to a KV cache (heads_cached.c) ------------------------------------
// Arrays that receive the activations of slot `place` of a call. R is the number of rows of the
// slot, S the number of keys of its cache item after the call.
struct qkv_heads_trace {
    int64_t place;
    float *q;                      // queries, [R][H][E]
    real *lse;                     // log-sum-exp of the scores, [H][R]
    real *weights;                 // dense attention weights, [H][R][S]; NULL: not computed
    const struct qkv_probe *probe; // attention statistics to collect; NULL: none
};
// The rows of a call with a KV cache: n slots, each with the rows of one sequence. Slot i contains
// rows offsets[i] .. offsets[i+1]-1. Self-attention (append true): the rows are the next tokens of
// cache item items[i] and are appended to it; no item occurs twice. Cross-attention (append false,
// heads with kv): the rows attend to all keys of cache item items[i], which qkv_heads_remember
// stored.
struct qkv_heads_cache {
    qkv_cache *cache;
    int64_t n;
    const int64_t *items, *offsets;
    bool append;
    const struct qkv_heads_sums *sums; // running sums of MEAN heads; NULL: no head is MEAN
    // activations of one slot, for an observer; NULL: not recorded
    const struct qkv_heads_trace *trace;
};
// Returns the bytes of scratch for up to R rows of this cache; SIZE_MAX: the call is refused and
// *status is the reason.
size_t qkv_heads_cached_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                                const qkv_cache *cache, int64_t R, qkv_status *status);
// Computes the attention of new tokens to a KV cache. rows: as in qkv_heads_forward, x and y of
// type real. `a` sets masks, scale and other options; the cache determines the sizes.
// Returns QKV_OK or QKV_ERR_LIMIT. After QKV_ERR_LIMIT y is undefined, and some items may already
// contain the new tokens.
qkv_status qkv_heads_cached(const struct qkv_sublayer_rows *rows, const struct qkv_heads *m,
                            const struct qkv_attention *a, const struct qkv_heads_cache *c,
                            void *scratch);
size_t qkv_heads_remember_scratch(const struct qkv_heads *m, qkv_dtype type, int64_t R);
// Projects the encoder output memory[R][kv.K], R = offsets[n], to keys and values and appends them
// to the cache: rows offsets[i] .. offsets[i+1]-1 to cache item items[i]. type: element type of the
// keys and values in the cache.
qkv_status qkv_heads_remember(qkv_cache *cache, const int64_t *items, const int64_t *offsets,
                              int64_t n, const real *memory, const struct qkv_heads *m,
                              qkv_dtype type, void *scratch);
#endif

// ---- attention over real (attention_real.c) ----------------------------------------------------
// These functions are qkv_attention_forward and qkv_attention_backward (qkv/attention.h) whose lse
// and weights are arrays of real. qkv_attention_real_scratch returns the bytes for forward, or, if
// `backward` is true, for both passes; SIZE_MAX: the call is refused and *status is the reason.
size_t qkv_attention_real_scratch(const struct qkv_attention *a, bool backward, qkv_status *status);
qkv_status qkv_attention_real(void *out, real *lse, real *weights, const void *q, const void *k,
                              const void *v, const struct qkv_attention *a, void *scratch);
// Collects attention statistics (qkv/probe.h) after forward; allocates its own workspace.
qkv_status qkv_attention_real_probe(const struct qkv_probe *p, const void *q, const void *k,
                                    const real *lse, const struct qkv_attention *a);
// Computes the gradients of attention. drelative[H][2 reach + 1] is accumulated: it receives the
// gradient of a->relative; NULL: not computed.
qkv_status qkv_attention_real_backward(void *dq, void *dk, void *dv, real *drelative,
                                       const void *dout, const void *q, const void *k,
                                       const void *v, const void *out, const real *lse,
                                       const struct qkv_attention *a, void *scratch);

// ---- linear attention over real (baseline_linear.c, baseline_linear_backward.c) ----------------
// These functions are qkv_linear_attention_forward and _backward (qkv/baseline.h) over real, so
// that tests can check their gradients in double. The scratch is for one of the two passes;
// SIZE_MAX: refused, and *status says why.
size_t qkv_linear_attention_real_scratch(const struct qkv_linear_attention *a, bool backward,
                                         qkv_status *status);
qkv_status qkv_linear_attention_real(real *out, real *norm, const real *q, const real *k,
                                     const real *v, const struct qkv_linear_attention *a,
                                     void *scratch);
qkv_status qkv_linear_attention_real_backward(real *dq, real *dk, real *dv, const real *dout,
                                              const real *q, const real *k, const real *v,
                                              const real *out, const real *norm,
                                              const struct qkv_linear_attention *a, void *scratch);

// Returns true if this CPU has all kernels that layers of precision p need.
bool qkv_precision_runs(qkv_precision p);
// Returns the name of the method that this CPU uses for products of precision p.
const char *qkv_linear_arithmetic(qkv_precision p);

#include "layer/backward.h"
#endif
