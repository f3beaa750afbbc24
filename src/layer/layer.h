// SPDX-License-Identifier: MIT
// layer.h: the door of room layer: the layers a model is built of, forward now, ready for backward.
//
//   R rows (tokens of all sequences, one behind the other), D width, M inner width, H heads.
//   Weights are borrowed ([out][in], as checkpoints store them) and packed once at load; nothing
//   here allocates but *_pack.  Sizes were checked when the model was built, so most calls return
//   nothing.
//   A row's bits depend on that row alone: not on R, its neighbours or the number of threads.
//   `keep` is what forward leaves for backward or for a reader; NULL members are not kept.
//   Scratch: 64-byte aligned, as many bytes as *_scratch says for at least that R.
#ifndef QKV_ROOM_LAYER_H
#define QKV_ROOM_LAYER_H

#include "kernel/kernel.h"
#include <qkv/cache.h>
#include <qkv/kinds.h>
#include <qkv/layer.h>

// ---- embeddings (embed.c) ----------------------------------------------------------------------
struct qkv_embed {
    int64_t V, P, Y, D;   // rows of the tables below; width
    const real *token;    // [V][D]
    const real *position; // [P][D] or NULL
    const real *type;     // [Y][D] or NULL
    real scale;           // of the token row; 0: 1
};
// y[R][D] = scale token[ids[r]] + type[types[r]] + position[positions[r]], summed from the left.
// types NULL: 0.  Every index lies inside its table: the caller checked.
void qkv_embed_forward(real *y, const int32_t *ids, const int32_t *types, const int32_t *positions,
                       int64_t R, const struct qkv_embed *p);

// ---- positions (position.c) --------------------------------------------------------------------
// positions[r] = first + r - (start of its sequence); the
// sequences lie packed at offsets[0 .. sequences].
void qkv_positions(int32_t *positions, const int64_t *offsets, int64_t sequences, int32_t first);
// table[P][D]: sin and cos of p / 10000^(2i/D), side by side (interleaved) or sines first, then
// cosines.  Vaswani et al. 2017 (arXiv 1706.03762) section 3.5.
void qkv_position_sinusoid(real *table, int64_t P, int64_t D, bool interleaved);

// ---- linear (linear.c) -------------------------------------------------------------------------
enum { QKV_LINEAR_PARTS = 3 };
// One product for up to three weights that read the same rows (query, key, value in one pass).
//   y_p[R][N_p] = x[R][K] w_p^T + b_p
// Fill K, precision, parts and part[]; qkv_linear_pack makes `packed`; w stays borrowed for
// backward.
struct qkv_linear {
    int64_t K;
    qkv_precision precision; // of the packed weights and of their products
    int parts;
    struct qkv_linear_part {
        int64_t N;
        const real *w;   // [N][K], or [K][N] when transposed
        const real *b;   // [N] or NULL
        bool transposed; // as GPT-2 stores them
    } part[QKV_LINEAR_PARTS];
    const struct qkv_linear_kernel *kernel; // which packed it and which runs it
    char *packed;                           // owned
    size_t start[QKV_LINEAR_PARTS];         // of each part in packed, bytes
};
// QKV_OK, QKV_ERR_LIMIT, QKV_ERR_UNSUPPORTED (no kernel of this precision); a second call is
// harmless.
qkv_status qkv_linear_pack(struct qkv_linear *l);
// The same into memory of the caller's, 64-byte aligned, which qkv_linear_free is not for.  Bytes,
// known with K, precision and parts; SIZE_MAX: no kernel, or more than memory can have.  pack_at
// comes after pack_bytes.
size_t qkv_linear_pack_bytes(struct qkv_linear *l);
void qkv_linear_pack_at(struct qkv_linear *l, void *memory);
// Piece by piece, out of weights of any type as they lie (linear_pack.c); pieces may be packed side by
// side.  piece: columns of one; pack_piece: columns n .. n+N-1 of part p, n a multiple of piece, into
// `packed`, which is there; element k of column n+i lies at w[i ldn + k ldk].  false: no memory for what
// must be converted first.
int64_t qkv_linear_piece(const struct qkv_linear *l);
bool qkv_linear_pack_piece(struct qkv_linear *l, int p, int64_t n, int64_t N, const void *w,
                           qkv_dtype type, int64_t ldn, int64_t ldk);
void qkv_linear_free(struct qkv_linear *l); // gives packed back; a zeroed struct is fine

// What happens to a sum before it is stored:  y = act(scale (x w^T) + b) + residual.
struct qkv_after {
    qkv_dtype x,
        y; // types of the arrays; 0: real, else what the precision stores (QKV_BF16, QKV_F16)
    enum qkv_activation act;
    int64_t ldx;          // rows of x lie so far apart; 0: K
    real scale;           // 0: 1
    const real *residual; // [R][N] rows residual_ld apart (0: N); may be y itself
    int64_t residual_ld;
    real *before; // keep: [R][N] the argument of act; NULL: not kept
};
// Out: y[p] for each part, rows ld[p] elements apart (ld NULL or ld[p] 0: N_p).  after NULL: none;
// with more than one part: act and scale only.
void qkv_linear_forward(void *const *y, const int64_t *ld, const void *x, int64_t R,
                        const struct qkv_linear *l, const struct qkv_after *after);

// The same for weights that are used once, in any precision: packed piece by piece into scratch
// (bytes:
// qkv_linear_once_scratch, for the same precision and threads).  Rows of x lie ldx apart, rows of y
// ldy; types of x and y are those of `after`.  Same bits as with weights packed at load.
struct qkv_linear_once {
    qkv_precision precision;
    int threads;   // that scratch is for, and no more run
    void *scratch; // not read by qkv_linear_once_scratch
};
size_t qkv_linear_once_scratch(const struct qkv_linear_once *how, int64_t K, int64_t N);
void qkv_linear_once(void *y, int64_t ldy, const void *x, int64_t ldx, int64_t R, int64_t K,
                     const struct qkv_linear_part *part, const struct qkv_after *after,
                     const struct qkv_linear_once *how);

// ---- norm (norm.c) -----------------------------------------------------------------------------
struct qkv_norm {
    int64_t D;
    const real *w, *b; // [D]; NULL: ones, zeros
    real eps;
};
struct qkv_norm_keep {
    real *mean, *rstd; // [R]
};
// s = x + residual (NULL: x);  y[R][D] = (s - mean s) / sqrt(var s + eps) * w + b.
// sum: takes s, for a residual stream or backward; NULL: not kept.
// y, sum, x, residual may coincide.
void qkv_norm_forward(real *y, real *sum, const struct qkv_norm_keep *keep, const real *x,
                      const real *residual, int64_t R, const struct qkv_norm *p);

// ---- rows in blocks through several layers (lanes.c) -------------------------------------------
// body(ctx, r, rows, lane) for all rows r .. r+rows-1 of R in blocks, lane < QKV_LANES.  Blocks of
// one lane come one after the other.  Lane 0 may get blocks of QKV_LANES * QKV_LANE_ROWS rows, when
// it is the only one.
enum { QKV_LANES = 8, QKV_LANE_ROWS = 128 };
typedef void qkv_lane_body(void *ctx, int64_t r, int64_t rows, int lane);
void qkv_lanes(int64_t R, qkv_lane_body *body, void *ctx);

// ---- feed-forward (mlp.c) ----------------------------------------------------------------------
// y = down(act(up(x))) + residual
struct qkv_mlp {
    struct qkv_linear up, down; // [M][D], [D_out][M], one part each, of one precision
    enum qkv_activation act;
    bool gated; // up has two parts, gate and up:  y = down(act(gate(x)) up(x)) + residual
};
struct qkv_mlp_keep {
    real *before, *inner; // [R][M] before and after act; gated: inner alone
};
// Bytes, bounded for any R; SIZE_MAX: more than memory can have.
size_t qkv_mlp_scratch(const struct qkv_mlp *m, int64_t R);
// norm (NULL: none) is applied to the result, row by row while it is in the cache.
// y, x, residual may coincide.
void qkv_mlp_forward(real *y, const struct qkv_mlp_keep *keep, const real *x, const real *residual,
                     const struct qkv_norm *norm, int64_t R, const struct qkv_mlp *m,
                     void *scratch);

// ---- heads that give something else (heads_ablate.c) -------------------------------------------
// What a head gives: what it found; 0; the mean of that over the rows of its sequence; the mean of
// the values it sees (its queries are 0, so that every key it sees weighs the same).
enum qkv_heads_gives { QKV_HEADS_FOUND = 0, QKV_HEADS_ZERO, QKV_HEADS_MEAN, QKV_HEADS_UNIFORM };
struct qkv_heads_ablation {
    const unsigned char *gives; // [H]; with step H: [sequences][H], each sequence its own
    int64_t step;
    bool running;   // the mean is over the rows up to each, not over all
    int64_t column; // of a cache (step 0): where sums of heads with a mean begin in a token's row
};
// Sums that running means have come to: rows[i] of the first token of place i, those of the before[i]
// tokens of its sequence in front of it, `stride` apart.
struct qkv_heads_sums {
    double *const *rows;
    const int64_t *before;
    int64_t stride;
};

// ---- self-attention with packed projections (heads.c) ------------------------------------------
struct qkv_heads {
    int64_t H, G, E, F;    // query heads, key/value heads, widths; q is H*E wide, k G*E, v G*F
    struct qkv_linear in;  // parts: w_q, w_k, w_v; of heads that read other rows: w_q
    struct qkv_linear kv;  // ... then w_k, w_v of the rows they read
    struct qkv_linear out; // [D][H*F]; K = 0: no projection
    const struct qkv_norm *norm_q, *norm_k; // RMS, over each head of q and k [E]; NULL: none
    // Of a run: turns q and k by positions[R]; NULL: they are left.
    const struct qkv_rope *rope;
    const int32_t *positions;
    const real *memory; // [S][kv.K] the rows that are read; NULL: x, whose own k and v these are
    const struct qkv_heads_ablation *ablation; // NULL: none; else sequences are packed
};
// Where forward leaves what it computed; a NULL q, k, v or heads lives in scratch during the call.
struct qkv_heads_keep {
    real *q, *k, *v; // [R][H][E] [R][G][E] [R][G][F]
    real *heads;     // [R][H][F] before `out`
    real *lse;       // [H][R]
    real *weights;   // [H][R][S] dense, S = a->S: only when asked for
};
// a: B = 1, T = R, S = T (or rows of memory) with sequences and offsets (packed), or B*T = R; masks, scale, bias as in
// qkv/attention.h; H, G, E, F and strides are set by m.  a->precision says how q, k, v and heads
// are stored: qkv_precision_attention of the precision of `in` and `out`.  SIZE_MAX: refused
// (status says why).
size_t qkv_heads_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                         qkv_status *status);
// y[R][D] = out(attention(in(x))) + residual (with `out` only), then norm (NULL: none).
// y, x and residual may coincide.
qkv_status qkv_heads_forward(real *y, const struct qkv_heads_keep *keep, const real *x,
                             const real *residual, const struct qkv_norm *norm,
                             const struct qkv_heads *m, const struct qkv_attention *a,
                             void *scratch);

#ifndef QKV_DOUBLE
// ---- the same for rows behind those of a cache (heads_cached.c) --------------------------------
// Place i of n: rows offsets[i] .. offsets[i+1]-1 are the next tokens of items[i] (self-attention: no
// item twice, and they are appended), or read all of items[i] (append false, heads with kv: what
// qkv_heads_remember put there).
struct qkv_heads_seen { // what one place leaves: R rows, S keys that its item has by then
    int64_t place;
    float *q;                      // [R][H][E]
    real *lse;                     // [H][R]
    real *weights;                 // [H][R][S]; NULL: not formed
    const struct qkv_probe *probe; // NULL: none
};
struct qkv_heads_cache {
    qkv_cache *cache;
    int64_t n;
    const int64_t *items, *offsets;
    bool append;
    const struct qkv_heads_sums *sums; // of ablated heads with a mean; NULL: there are none
    const struct qkv_heads_seen *seen; // NULL: nobody looks
};
// Probes of the T = a->T tokens q[T][H][E] behind those of an item, whose lse is known.  QKV_OK, as
// the operator refuses, QKV_ERR_LIMIT.
qkv_status qkv_cache_probe(const struct qkv_probe *p, const void *q, const real *lse,
                           const qkv_cache *cache, int64_t item, const struct qkv_attention *a);
// Bytes for up to R rows of this cache.  SIZE_MAX: refused, *status says why.
size_t qkv_heads_cached_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                                const qkv_cache *cache, int64_t R, qkv_status *status);
// y, x, residual, norm: as qkv_heads_forward.  a: masks, scale and the like; sizes are the cache's.
// QKV_OK; QKV_ERR_LIMIT: some items may have the new tokens, y holds nothing.
qkv_status qkv_heads_cached(real *y, const real *x, const real *residual,
                            const struct qkv_norm *norm, const struct qkv_heads *m,
                            const struct qkv_attention *a, const struct qkv_heads_cache *c,
                            void *scratch);
// k and v of memory[R][kv.K], R = offsets[n], behind what items hold: rows offsets[i] .. offsets[i+1]-1
// those of items[i].  type: what the cache stores.
size_t qkv_heads_remember_scratch(const struct qkv_heads *m, qkv_dtype type, int64_t R);
qkv_status qkv_heads_remember(qkv_cache *cache, const int64_t *items, const int64_t *offsets,
                              int64_t n, const real *memory, const struct qkv_heads *m,
                              qkv_dtype type, void *scratch);
#endif

// What somebody keeps of an array of halves, as real; NULL, or an array that is real already (it
// was written where it is kept): nothing to do.
void qkv_widen(real *to, const void *from, qkv_dtype type, int64_t n);

// ---- the operator over real (attention_real.c) -------------------------------------------------
// qkv_attention_forward and qkv_attention_backward (qkv/attention.h) with lse and weights of real,
// for what is built on them; scratch: for forward, with `backward` for both, SIZE_MAX:
// refused, *status says why.
size_t qkv_attention_real_scratch(const struct qkv_attention *a, bool backward, qkv_status *status);
qkv_status qkv_attention_real(void *out, real *lse, real *weights, const void *q, const void *k,
                              const void *v, const struct qkv_attention *a, void *scratch);
// Probes (qkv/probe.h) of an attention that ran; takes its own memory.
qkv_status qkv_attention_real_probe(const struct qkv_probe *p, const void *q, const void *k,
                                    const real *lse, const struct qkv_attention *a);
qkv_status qkv_attention_real_backward(void *dq, void *dk, void *dv, const void *dout,
                                       const void *q, const void *k, const void *v, const void *out,
                                       const real *lse, const struct qkv_attention *a,
                                       void *scratch);

// ---- linear attention over real (kind_linear.c, kind_linear_backward.c) -------------------------
// qkv_linear_attention_forward and _backward (qkv/kinds.h) over real, so that their gradients can be
// checked in double.  Scratch for one or the other; SIZE_MAX: refused, *status says why.
size_t qkv_linear_attention_real_scratch(const struct qkv_linear_attention *a, bool backward,
                                         qkv_status *status);
qkv_status qkv_linear_attention_real(real *out, real *norm, const real *q, const real *k,
                                     const real *v, const struct qkv_linear_attention *a,
                                     void *scratch);
qkv_status qkv_linear_attention_real_backward(real *dq, real *dk, real *dv, const real *dout,
                                              const real *q, const real *k, const real *v,
                                              const real *out, const real *norm,
                                              const struct qkv_linear_attention *a, void *scratch);

// This CPU's table has all that layers of precision p need.
bool qkv_precision_runs(qkv_precision p);
const char *qkv_linear_arithmetic(qkv_precision p); // how this CPU forms their products

#include "layer/backward.h"
#endif
