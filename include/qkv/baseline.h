// SPDX-License-Identifier: MIT
/** baseline.h: baseline layers to compare with exact attention: convolution, recurrence, and
 *  sparse, linear, random-feature and low-rank attention.
 *
 *  Sizes are named as in attention.h.  Arrays are floats in the default order: q[B][T][H][E],
 *  k[B][S][G][E], v[B][S][G][F], out[B][T][H][F].  Query head h uses key head h / (H/G); G = 0
 *  means H, F = 0 means E.
 *  Windowed attention is the exact operator with a window (attention.h).
 *
 *  Each layer has a plan function and a forward function, which allocates nothing:
 *    Scratch:  the plan's scratch bytes, 64-byte aligned, planned with the same number of threads
 *    Returns:  QKV_OK; QKV_ERR_USAGE (an invalid size; an array that is missing, misaligned or
 *              overlaps an output), QKV_ERR_LIMIT (sizes beyond any memory), as in the plan.  After
 *              an error nothing is written
 *    Edge:     B = 0 or T = 0: nothing to do
 *    Repeats:  bit-identical for any number of threads and other batch items, on one ISA
 *  docs/numerics.md, "Baseline layers", states the error of each layer against the same formula in
 *  f64.
 */
#ifndef QKV_BASELINE_H
#define QKV_BASELINE_H

#include <qkv/layer.h>

QKV_BEGIN_DECLS

/** The properties of a call of a baseline layer, computed before it runs; valid for the current
 *  number of threads and instruction set. */
struct qkv_baseline_plan {
    qkv_status status; /**< QKV_OK, or the error that forward would return */
    char reason[192];  /**< the reason of a refusal, "" when status is QKV_OK */
    size_t scratch;    /**< bytes of scratch, a multiple of 64 */
    double flops;      /**< number of multiplications and additions in the matrix products */
};

/** A convolution along the tokens with "same" length and stride 1.
 *
 *  y[b][t] = act(sum_{i < width} w[.][i] x[b][t + i - left] + b),   x outside of 0 .. T-1 is 0
 *  left = width - 1 if causal, otherwise (width - 1) / 2
 *
 *  w is [D_out][width][D_in]: PyTorch's Conv1d weight with its last two axes exchanged, so that the
 *  inputs of one token are contiguous.  The bias b[D_out] may be NULL. */
struct qkv_convolution {
    int64_t B, T, D_in, D_out, width;
    bool causal;
    enum qkv_activation act;
    const float *w, *b;
};
QKV_API struct qkv_baseline_plan qkv_convolution_plan(const struct qkv_convolution *c);
/** Computes y[B][T][D_out] from x[B][T][D_in]. */
QKV_API QKV_MUST_CHECK qkv_status qkv_convolution_forward(float *y, const float *x,
                                                          const struct qkv_convolution *c,
                                                          void *scratch);

enum qkv_cell { QKV_CELL_ELMAN = 0, QKV_CELL_GRU };
/** A recurrent layer: T sequential steps, computed for all batch items together.
 *
 *  Elman:  h_t = tanh(W_i x_t + b_i + W_h h_{t-1} + b_h)         (Elman 1990, Cognitive Science 14)
 *  GRU:    as torch.nn.GRU, rows of weights in the order r, z, n (Cho et al. 2014, arXiv 1406.1078)
 *
 *  The weights are w_i[N][D_in] and w_h[N][D], with N = D (Elman) or 3 D (GRU); the biases b_i[N]
 *  and b_h[N] may be NULL. */
struct qkv_recurrence {
    int64_t B, T, D_in, D;
    enum qkv_cell cell;
    const float *w_i, *w_h, *b_i, *b_h;
};
QKV_API struct qkv_baseline_plan qkv_recurrence_plan(const struct qkv_recurrence *r);
/** Computes h[B][T][D] from x[B][T][D_in].  first[B][D] is the state before the first step; NULL
 *  means a state of 0. */
QKV_API QKV_MUST_CHECK qkv_status qkv_recurrence_forward(float *h, const float *x,
                                                         const float *first,
                                                         const struct qkv_recurrence *r,
                                                         void *scratch);

/** Block-sparse softmax attention: exact softmax over the keys of selected blocks.
 *
 *  Tokens are divided into blocks of `block` tokens (the last block may be shorter).  The queries
 *  of a block attend to their own block and `window` blocks on each side of it; to the first
 *  `global` blocks; and to `random` more blocks, which differ between key heads.  The queries of
 *  the first `global` blocks attend to all blocks.  With `causal`, query i attends only to the keys
 *  j <= i of these blocks.
 *  Source: Zaheer et al. 2020 (arXiv 2007.14062); Beltagy et al. 2020 (arXiv 2004.05150) */
struct qkv_block_sparse {
    int64_t B, T, H, G, E, F; /**< S = T */
    float scale;              /**< factor of q.k; 0 means 1/sqrt(E); 1 means no scaling */
    bool causal;
    int64_t block, window, global, random; /**< block >= 1, the others >= 0 */
    uint64_t seed;                         /**< seed of the random blocks (Philox4x32-10) */
};
QKV_API struct qkv_baseline_plan qkv_block_sparse_plan(const struct qkv_block_sparse *s);
/** Writes the key blocks of query block i and key head g, ascending and distinct, to
 *  blocks[ceil(T/block)].
 *  Returns the number of blocks written; 0 if s is invalid or g or i does not exist. */
QKV_API int64_t qkv_block_sparse_row(int64_t *blocks, const struct qkv_block_sparse *s, int64_t g,
                                     int64_t i);
/** Computes out and lse[B][H][T] (NULL: not stored), as qkv_attention_forward defines them.  A row
 *  does not read the keys outside its blocks, so NaN in these keys has no effect on it. */
QKV_API QKV_MUST_CHECK qkv_status qkv_block_sparse_forward(float *out, float *lse, const float *q,
                                                           const float *k, const float *v,
                                                           const struct qkv_block_sparse *s,
                                                           void *scratch);

enum qkv_feature_map { QKV_MAP_ELU = 0, QKV_MAP_RANDOM };
/** Linear attention: the keys and values are summed once, and every query is multiplied by the sum.
 *
 *  out_i = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j)),
 *  causal: over j <= i (S = T)
 *
 *  QKV_MAP_ELU     phi(x) = elu(x) + 1, E features    (Katharopoulos et al. 2020, arXiv 2006.16236)
 *  QKV_MAP_RANDOM  phi(x) = exp(w x' - |x'|^2/2), x' = sqrt(scale) x, for `features` rows w:
 *                  positive random features whose mean is exp(scale q.k), the Performer's FAVOR+
 *                  (Choromanski et al. 2021, arXiv 2009.14794).  A factor common to all keys is
 *                  omitted, so that no exponential overflows.
 *  The output of a row whose features are all 0, or that attends to no key, is 0 (its norm is 0).
 *  Threads divide the pairs of batch item and key head; if there are fewer pairs than threads, some
 *  threads are idle. */
struct qkv_linear_attention {
    int64_t B, T, S, H, G, E, F;
    bool causal;
    /** [B] number n of keys of each batch item: its keys 0 .. n-1 are used; NULL: all S keys */
    const int64_t *k_lengths;
    enum qkv_feature_map map;
    int64_t features;    /**< number M of random features, the rows of random; ignored for ELU */
    const float *random; /**< [M][E] rows w, from qkv_random_features; ignored for ELU */
    float scale;         /**< factor of q.k for RANDOM, 0 means 1/sqrt(E); ignored for ELU */
};
QKV_API struct qkv_baseline_plan qkv_linear_attention_plan(const struct qkv_linear_attention *a);
/** Computes out, and the denominators norm[B][H][T], which backward needs (NULL: not stored).
 *  With ELU a prefix of a causal run is bit-identical to a run of the prefix; NaN in a key or
 *  value that a row does not attend to has no effect on the row. */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear_attention_forward(float *out, float *norm,
                                                               const float *q, const float *k,
                                                               const float *v,
                                                               const struct qkv_linear_attention *a,
                                                               void *scratch);
/** Plans qkv_linear_attention_backward, which needs scratch of another size than forward.  With
 *  QKV_MAP_RANDOM the status is QKV_ERR_UNSUPPORTED. */
QKV_API struct qkv_baseline_plan
qkv_linear_attention_backward_plan(const struct qkv_linear_attention *a);
/** Computes dq, dk, dv with the layout of q, k, v from dout with the layout of out; out and norm
 *  are the outputs of forward.
 *
 *  g_i = dout_i / norm_i,   c_i = -(g_i . out_i),   M_ij = g_i . v_j + c_i
 *  dphi(q_i) = sum_j M_ij phi(k_j),   dphi(k_j) = sum_i M_ij phi(q_i),
 *  dv_j = sum_i (phi(q_i) . phi(k_j)) g_i
 *
 *  All gradients are computed from running sums of phi(k) (v, 1)^T and phi(q) (g, c)^T.
 *
 *  Rows with norm 0 and keys past k_lengths have gradient 0. */
QKV_API QKV_MUST_CHECK qkv_status
qkv_linear_attention_backward(float *dq, float *dk, float *dv, const float *dout, const float *q,
                              const float *k, const float *v, const float *out, const float *norm,
                              const struct qkv_linear_attention *a, void *scratch);
/** Writes w[M][E]: normally distributed rows, orthogonal within each group of E rows (which gives a
 *  lower variance than independent rows).  The random numbers are generated by Philox4x32-10 from
 *  seed and are equal on every machine.  Nothing to do if M < 1, E < 1 or w is NULL.  Costs E^2 M
 *  operations. */
QKV_API void qkv_random_features(float *w, int64_t M, int64_t E, uint64_t seed);

/** Linformer: exact attention on keys and values that are projected along the tokens from S to
 *  `rank` rows.
 *
 *  out = softmax(scale q (P_k k)^T) (P_v v)
 *
 *  The projections P_k and P_v, [rank][S], are shared by heads and batch items; a NULL p_v means
 *  P_v = P_k.  There is no mask, because every projected row is a combination of all tokens.
 *  Source: Wang et al. 2020 (arXiv 2006.04768) */
struct qkv_linformer {
    int64_t B, T, S, H, G, E, F;
    int64_t rank;
    float scale; /**< factor of q.k; 0 means 1/sqrt(E) */
    const float *p_k, *p_v;
};
QKV_API struct qkv_baseline_plan qkv_linformer_plan(const struct qkv_linformer *l);
QKV_API QKV_MUST_CHECK qkv_status qkv_linformer_forward(float *out, const float *q, const float *k,
                                                        const float *v,
                                                        const struct qkv_linformer *l,
                                                        void *scratch);
/** Writes p[rank][S], in which each row computes the mean of one of `rank` equal segments: a
 *  projection for an untrained layer.
 *  Nothing to do if rank < 1, S < rank or p is NULL. */
QKV_API void qkv_segment_means(float *p, int64_t rank, int64_t S);

/** Nystrom attention: approximates attention by L landmark queries q~ and L landmark keys k~, the
 *  means of L equal segments of the T queries and of the S keys.
 *
 *  out = softmax(scale q k~^T) pinv(A) softmax(scale q~ k^T) v,
 *  A = softmax(scale q~ k~^T)  [L][L]
 *
 *  The exact attention operator computes the first and the last factor; the pseudoinverse pinv uses
 *  `iterations` steps of
 *  Z <- Z (13 - AZ (15 - AZ (7 - AZ))) / 4 from Z = A^T / (|A|_1 |A|_inf).  There is no mask.
 *  Source: Xiong et al. 2021 (arXiv 2102.03902); Razavi et al. 2014 for the iteration */
struct qkv_nystrom {
    int64_t B, T, S, H, G, E, F;
    int64_t landmarks;  /**< number L of landmarks, at most T and at most S */
    int64_t iterations; /**< number of iterations that compute pinv; 0 means 6 */
    float scale;        /**< factor of q.k; 0 means 1/sqrt(E) */
};
QKV_API struct qkv_baseline_plan qkv_nystrom_plan(const struct qkv_nystrom *n);
QKV_API QKV_MUST_CHECK qkv_status qkv_nystrom_forward(float *out, const float *q, const float *k,
                                                      const float *v, const struct qkv_nystrom *n,
                                                      void *scratch);

QKV_END_DECLS
#endif
