// SPDX-License-Identifier: MIT
// backward.h: layers in pairs, forward and backward, for training.  Part of the door layer.h.
//
//   Activations and their gradients are written (=), gradients of weights accumulate (+=); a NULL gradient
//   is not wanted.  `keep` is what forward leaves for backward.
//   Arrays named void * hold numbers of one type t: 0 is real, QKV_BF16 or QKV_F16 what a 16-bit precision
//   stores; rounded to nearest even when written.  All sums are real.
//   Sums over rows are cut by shape, added in order: no bit depends on the number of threads.
//   Scratch: 64-byte aligned, as many bytes as *_scratch says; SIZE_MAX: more than memory can have.
#ifndef QKV_LAYER_BACKWARD_H
#define QKV_LAYER_BACKWARD_H

// ---- linear (linear_backward.c) ----------------------------------------------------------------
// Forward is qkv_linear_once (weights change each step: they are packed on their way).
//   y = x w^T + b:   dx = dy w (+ dx_add),   dw += dy^T x,   db += sum_r dy
struct qkv_linear_back {
    qkv_precision precision;
    int threads;        // scratch is for so many
    qkv_dtype x, y;     // types of x and of dy; dx has that of x unless dx_real
    bool dx_real;       // dx is real
    int64_t ldx, lddy;  // rows so far apart; 0: K, N.  dx: as x
    const real *dx_add; // added to dx, rows as dx (may be dx itself, real); NULL: none
    void *scratch;
};
size_t qkv_linear_once_backward_scratch(const struct qkv_linear_back *how, int64_t R, int64_t K,
                                        int64_t N);
// part as in forward (w [N][K], or [K][N] transposed); dw has the layout of w; db[N].  x may be
// NULL when dw is; dx may be x (where types agree).
void qkv_linear_once_backward(void *dx, real *dw, real *db, const void *dy, const void *x,
                              int64_t R, int64_t K, const struct qkv_linear_part *part,
                              const struct qkv_linear_back *how);

// ---- norm (norm_backward.c) --------------------------------------------------------------------
// Layer norm, or RMS norm (Zhang and Sennrich 2019, arXiv 1910.07467): y = x / sqrt(mean x^2 +
// eps) * w.
enum qkv_norm_kind { QKV_NORM_LAYER = 0, QKV_NORM_RMS };
// y[R][D] of type t = norm(x); keep: mean (RMS: not touched) and rstd.  x and y may coincide (t
// real);
// y NULL: keep alone.
void qkv_norm_kind_forward(void *y, qkv_dtype t, const struct qkv_norm_keep *keep, const real *x,
                           int64_t R, const struct qkv_norm *p, enum qkv_norm_kind kind);
// dx[R][D] = backward of dy (type t), plus dx_add[R][D] (NULL: none; may be dx);  dw[D], db[D] += .
// x: what forward saw.
size_t qkv_norm_backward_scratch(int64_t R, int64_t D);
void qkv_norm_backward(real *dx, const real *dx_add, real *dw, real *db, const void *dy,
                       qkv_dtype t, const real *x, const struct qkv_norm_keep *keep, int64_t R,
                       const struct qkv_norm *p, enum qkv_norm_kind kind, void *scratch);

// ---- activations (activation.c) ----------------------------------------------------------------
// y[n] = act(a);  da = dy act'(a).  In place allowed, also of the gated forms.
void qkv_activation_forward(void *y, const void *a, qkv_dtype t, int64_t n,
                            enum qkv_activation act);
void qkv_activation_backward(void *da, const void *dy, const void *a, qkv_dtype t, int64_t n,
                             enum qkv_activation act);
// Gated (SwiGLU with SILU; Shazeer 2020, arXiv 2002.05202):  y = act(g) u;  rows of g and u may lie
// in one array.
void qkv_gated_forward(void *y, const void *g, const void *u, qkv_dtype t, int64_t n,
                       enum qkv_activation act);
void qkv_gated_backward(void *dg, void *du, const void *dy, const void *g, const void *u,
                        qkv_dtype t, int64_t n, enum qkv_activation act);

// ---- dropout and residual (dropout.c) ----------------------------------------------------------
// Philox4x32-10 (Salmon et al. 2011, SC11): number `index` of stream (seed, site), the same
// anywhere.
struct qkv_dropout {
    real p;        // share that is dropped, 0 <= p < 1; 0: none.  What stays is divided by 1 - p
    uint64_t seed; // of the run
    uint64_t site; // of this use: step and place, so that no two uses share numbers
};
// y[n] (real) = residual[n] (NULL: 0) + drop(x[n] of type t); y may be residual.  first: index of
// element 0.
void qkv_dropout_forward(real *y, const real *residual, const void *x, qkv_dtype t, int64_t first,
                         int64_t n, const struct qkv_dropout *d);
// dx[n] of type t = drop(dy[n], real).
void qkv_dropout_backward(void *dx, qkv_dtype t, const real *dy, int64_t first, int64_t n,
                          const struct qkv_dropout *d);
// The words of the stream: qkv_philox, qkv_dropout_threshold (base.h).

// ---- positions (rope.c) ------------------------------------------------------------------------
// Rotary positions (Su et al. 2021, arXiv 2104.09864) in place on x[R][H][E] of type t: with angle
// positions[r] / theta^(2i/E), pairs (i, i + E/2) as Llama has them, or (2i, 2i + 1) interleaved.
// backward: by the negative angle, which is its transpose.
struct qkv_rope {
    real theta; // 0: 10000
    bool interleaved, backward;
    const real
        *table;  // of qkv_rope_table, for all positions there are; NULL: sines are taken on the way
    int64_t ldx; // rows of x so far apart; 0: H E
    int64_t turned; // the first so many numbers of a head are turned (even); 0: E
};
// table[P][E]: cosines and sines of positions 0 .. P-1 (E / 2 of each), for any number of calls.
void qkv_rope_table(real *table, int64_t P, int64_t E, real theta);
// The same for angles position * step[i] of `pairs` pairs, every cosine and sine times gain.
// qkv_rope_steps: 1 / theta^(i/pairs), the steps of qkv_rope_table.
void qkv_rope_table_of(real *table, int64_t P, int64_t pairs, const double *step, double gain);
void qkv_rope_steps(double *step, int64_t pairs, double theta);
void qkv_rope_apply(void *x, qkv_dtype t, const int32_t *positions, int64_t R, int64_t H, int64_t E,
                    const struct qkv_rope *p);

// ---- embeddings (embed_backward.c) -------------------------------------------------------------
// As qkv_embed_forward reads: d token[V][D], d position[P][D], d type[Y][D] += rows of dy, each
// row's sum in the order of r; rows that no id names are not touched.  Scratch sorts ids.
size_t qkv_embed_backward_scratch(int64_t R, const struct qkv_embed *p);
void qkv_embed_backward(real *dtoken, real *dposition, real *dtype, const real *dy,
                        const int32_t *ids, const int32_t *types, const int32_t *positions,
                        int64_t R, const struct qkv_embed *p, void *scratch);

// ---- losses (cross_entropy.c, contrastive.c) ---------------------------------------------------
// Softmax cross-entropy fused with the vocabulary projection: logits = x w^T + b live in blocks
// only.
//   loss = sum over rows with target >= 0 of  (1 - e) (lse - logit[target]) + e (lse - mean logit)
struct qkv_cross_entropy {
    int64_t V, K;
    const real *w, *b; // [V][K]; [V] or NULL
    real smoothing;    // e
    qkv_precision precision;
    qkv_dtype x; // type of x and dx
    int threads;
    void *scratch;
};
struct qkv_loss {
    double sum;    // of the losses of rows that have a target
    int64_t rows;  // how many these are
    int64_t right; // of these, with the target as the (first) largest logit
};
size_t qkv_cross_entropy_scratch(const struct qkv_cross_entropy *p, int64_t R);
// Adds to *loss.  dx[R][K] = scale d loss (0 in rows without a target), dw[V][K], db[V] += scale d
// loss; NULL: not wanted, all three NULL: the loss alone.  losses[R] (NULL: not wanted) takes each
// row's loss, 0 without a target.  Rows without a target cost nothing.
void qkv_cross_entropy(struct qkv_loss *loss, void *dx, real *dw, real *db, real *losses,
                       const void *x, const int32_t *targets, int64_t R, real scale,
                       const struct qkv_cross_entropy *p);
// logits[R][V] of few rows, for generation; dense.  Scratch of the same p and R.
void qkv_logits(real *logits, const void *x, int64_t R, const struct qkv_cross_entropy *p);

// In-batch contrastive loss (InfoNCE; Henderson et al. 2017, arXiv 1705.00652) of unit vectors
// a[n][D], b[n][D]:
// cross-entropy of row i of a b^T / temperature with target i, and of its transpose, halved
// (symmetric), or rows only.  da[n][D], db[n][D] = scale d loss; both NULL: the loss alone.  right
// counts rows alone.
struct qkv_contrastive {
    real temperature; // 0: .05
    bool rows_only;
    int threads;
    void *scratch; // not read by qkv_contrastive_scratch
};
size_t qkv_contrastive_scratch(const struct qkv_contrastive *p, int64_t n, int64_t D);
void qkv_contrastive(struct qkv_loss *loss, real *da, real *db, const real *a, const real *b,
                     int64_t n, int64_t D, real scale, const struct qkv_contrastive *p);

// ---- pooling (pool_rows.c) ---------------------------------------------------------------------
// v[n][D] = mean of the rows of each sequence, divided by its length where unit (norm[n] is kept).
void qkv_mean_pool_forward(real *v, real *norm, const real *x, const int64_t *offsets, int64_t n,
                           int64_t D, bool unit);
// dx[R][D] =
void qkv_mean_pool_backward(real *dx, const real *dv, const real *v, const real *norm,
                            const int64_t *offsets, int64_t n, int64_t D, bool unit);

// ---- gated recurrent unit (gru.c) --------------------------------------------------------------
// Cho et al. 2014 (arXiv 1406.1078), gates as torch.nn.GRU has them, [3D] in the order r, z, n:
//   r = sigmoid(W_ir x + b_ir + W_hr h + b_hr),  z likewise,  n = tanh(W_in x + b_in + r (W_hn h + b_hn))
//   h' = (1 - z) n + z h
// Sequences are packed; those of one batch go step by step side by side; reverse: from the last
// row.
struct qkv_gru {
    int64_t D_in, D;
    const real *w_i, *w_h; // [3D][D_in], [3D][D]
    const real *b_i, *b_h; // [3D] or NULL
    bool reverse;
    qkv_precision precision; // of the products; arrays are real
    int threads;
    void *scratch; // not read by qkv_gru_scratch
};
struct qkv_gru_grad {
    real *w_i, *w_h, *b_i, *b_h; // += ; NULL: not wanted
};
// Keep: gates[R][4D]: r, z, n, and W_hn h + b_hn.
size_t qkv_gru_scratch(const struct qkv_gru *p, int64_t R, int64_t sequences);
// h[R][D]; first[sequences][D]: state before each sequence's first step, NULL: 0.
void qkv_gru_forward(real *h, real *gates, const real *x, const real *first, const int64_t *offsets,
                     int64_t sequences, const struct qkv_gru *p);
// dx[R][D_in] = (NULL: not wanted), dfirst[sequences][D] = (NULL), dh[R][D] given.
void qkv_gru_backward(real *dx, real *dfirst, const struct qkv_gru_grad *g, const real *dh,
                      const real *h, const real *gates, const real *x, const real *first,
                      const int64_t *offsets, int64_t sequences, const struct qkv_gru *p);
#endif
