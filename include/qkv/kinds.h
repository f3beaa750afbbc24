// SPDX-License-Identifier: MIT
/** kinds.h: what is used beside, or in place of, exact attention: convolution, recurrence, and
 *  attention that is sparse, linear, by random features, or of low rank.
 *
 *  Letters as in attention.h; arrays are floats in the default order, q[B][T][H][E], k[B][S][G][E],
 *  v[B][S][G][F], out[B][T][H][F]; query head h reads key head h / (H/G); G = 0 means H, F = 0
 *  means E.
 *  Windowed attention is the exact operator with a window (attention.h).
 *
 *  Every call here is planned, then runs and allocates nothing:
 *    Scratch:  its plan's scratch bytes, 64-byte aligned, planned with the same number of threads
 *    Returns:  QKV_OK; QKV_ERR_USAGE (a size, an array that is missing, misaligned or lies on what
 *              is written), QKV_ERR_LIMIT (sizes no memory has), as the plan says: nothing is
 *              written
 *    Edge:     B = 0 or T = 0: nothing to do
 *    Repeats:  same bits for any number of threads and batch neighbours, on one ISA
 *  Errors against the same formula in f64: docs/numerics.md, "Other kinds".
 */
#ifndef QKV_KINDS_H
#define QKV_KINDS_H

#include <qkv/layer.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a call would do; it belongs to the number of threads and the instruction set of now. */
struct qkv_kind_plan {
    qkv_status status; /**< QKV_OK, or why forward would refuse */
    char reason[192];  /**< the reason in words, "" when OK */
    size_t scratch;    /**< bytes, a multiple of 64 */
    double flops;      /**< multiplications and additions of its products */
};

/** A convolution along the tokens, "same" length, stride 1.
 *
 *  y[b][t] = act(sum_{i < width} w[.][i] x[b][t + i - left] + b),   x outside of 0 .. T-1 is 0
 *  left = width - 1 where causal, else (width - 1) / 2
 *
 *  w is [D_out][width][D_in]: PyTorch's Conv1d weight with its last two axes exchanged, which makes
 *  all that a token reads one row of numbers.  b[D_out] or NULL. */
struct qkv_convolution {
    int64_t B, T, D_in, D_out, width;
    bool causal;
    enum qkv_activation act;
    const float *w, *b;
};
QKV_API struct qkv_kind_plan qkv_convolution_plan(const struct qkv_convolution *c);
/** y[B][T][D_out] from x[B][T][D_in]. */
QKV_API QKV_MUST_CHECK qkv_status qkv_convolution_forward(float *y, const float *x,
                                                          const struct qkv_convolution *c,
                                                          void *scratch);

/** A recurrent layer: T steps, one after the other; batch items side by side.
 *
 *  Elman:  h_t = tanh(W_i x_t + b_i + W_h h_{t-1} + b_h)         (Elman 1990, Cognitive Science 14)
 *  GRU:    as torch.nn.GRU has it, rows of weights r, z, n       (Cho et al. 2014, arXiv 1406.1078)
 *
 *  w_i[N][D_in], w_h[N][D], b_i[N] and b_h[N] or NULL; N = D (Elman) or 3 D (GRU). */
enum qkv_cell { QKV_CELL_ELMAN = 0, QKV_CELL_GRU };
struct qkv_recurrence {
    int64_t B, T, D_in, D;
    enum qkv_cell cell;
    const float *w_i, *w_h, *b_i, *b_h;
};
QKV_API struct qkv_kind_plan qkv_recurrence_plan(const struct qkv_recurrence *r);
/** h[B][T][D] from x[B][T][D_in]; first[B][D]: the state before the first step, NULL: 0. */
QKV_API QKV_MUST_CHECK qkv_status qkv_recurrence_forward(float *h, const float *x,
                                                         const float *first,
                                                         const struct qkv_recurrence *r,
                                                         void *scratch);

/** Softmax attention on a pattern of blocks, exact on it: a query sees all keys of some blocks.
 *
 *  Tokens are cut into blocks of `block` (the last may be shorter).  A block of queries sees its
 *  own block and `window` blocks on each side; the first `global` blocks, which see all blocks
 *  themselves; and `random` more, others for every key head.  causal: of these, keys j <= i.
 *  Source: Zaheer et al. 2020 (arXiv 2007.14062); Beltagy et al. 2020 (arXiv 2004.05150) */
struct qkv_block_sparse {
    int64_t B, T, H, G, E, F; /**< S = T */
    float scale;              /**< 0: 1/sqrt(E);  1: none */
    bool causal;
    int64_t block, window, global, random; /**< block >= 1, the others >= 0 */
    uint64_t seed;                         /**< of the random blocks (Philox4x32-10) */
};
QKV_API struct qkv_kind_plan qkv_block_sparse_plan(const struct qkv_block_sparse *s);
/** Key blocks that query block i sees with key head g, ascending, to blocks[ceil(T/block)].
 *  Returns how many; 0 where s or the place is none.  No two are the same. */
QKV_API int64_t qkv_block_sparse_row(int64_t *blocks, const struct qkv_block_sparse *s, int64_t g,
                                     int64_t i);
/** Out: out, lse[B][H][T] (NULL: not wanted) as qkv_attention_forward has them.  Keys that no
 *  pattern lets a row see are not read for it: NaN there is never seen. */
QKV_API QKV_MUST_CHECK qkv_status qkv_block_sparse_forward(float *out, float *lse, const float *q,
                                                           const float *k, const float *v,
                                                           const struct qkv_block_sparse *s,
                                                           void *scratch);

/** Attention without a softmax over pairs: the keys are summed once, and every query reads the sum.
 *
 *  out_i = phi(q_i) sum_j phi(k_j) v_j^T / (phi(q_i) . sum_j phi(k_j)),
 *  causal: over j <= i (S = T)
 *
 *  QKV_MAP_ELU     phi(x) = elu(x) + 1, E features    (Katharopoulos et al. 2020, arXiv 2006.16236)
 *  QKV_MAP_RANDOM  phi(x) = exp(w x' - |x'|^2/2), x' = sqrt(scale) x, `features` rows of w:
 *                  positive random features whose mean is exp(scale q.k), the Performer's FAVOR+
 *                  (Choromanski et al. 2021, arXiv 2009.14794).  A factor that all keys share is
 *                  kept out, so that no exponential overflows.
 *  A row whose features all vanish, or that sees no key, gives 0 (norm 0).
 *  Threads share out batch items and key heads: with fewer of these some threads have nothing to
 *  do. */
enum qkv_feature_map { QKV_MAP_ELU = 0, QKV_MAP_RANDOM };
struct qkv_linear_attention {
    int64_t B, T, S, H, G, E, F;
    bool causal;
    const int64_t *k_lengths; /**< [B] keys 0 .. length-1 exist; NULL: all */
    enum qkv_feature_map map;
    int64_t features;    /**< M: rows of random; ELU: not read */
    const float *random; /**< [M][E], as qkv_random_features makes them; ELU: not read */
    float scale;         /**< RANDOM: of q.k, 0: 1/sqrt(E); ELU: not read */
};
QKV_API struct qkv_kind_plan qkv_linear_attention_plan(const struct qkv_linear_attention *a);
/** Out: out;  norm[B][H][T] the denominators, wanted by backward (ELU); NULL: not wanted.
 *  A prefix of a causal run with ELU is the run of the prefix, to the bit; NaN of a key or value
 *  that a row does not see is never seen. */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear_attention_forward(float *out, float *norm,
                                                               const float *q, const float *k,
                                                               const float *v,
                                                               const struct qkv_linear_attention *a,
                                                               void *scratch);
/** Backward needs another scratch.  RANDOM: QKV_ERR_UNSUPPORTED. */
QKV_API struct qkv_kind_plan
qkv_linear_attention_backward_plan(const struct qkv_linear_attention *a);
/** dq, dk, dv are written, laid out as q, k, v; dout as out; out and norm as forward left them.
 *
 *  g_i = dout_i / norm_i,   c_i = -(g_i . out_i),   M_ij = g_i . v_j + c_i
 *  dphi(q_i) = sum_j M_ij phi(k_j),   dphi(k_j) = sum_i M_ij phi(q_i),
 *  dv_j = sum_i (phi(q_i) . phi(k_j)) g_i,   all from sums of phi(k) (v, 1)^T and phi(q) (g, c)^T
 *
 *  A row with norm 0, and keys that do not exist, have gradients 0. */
QKV_API QKV_MUST_CHECK qkv_status
qkv_linear_attention_backward(float *dq, float *dk, float *dv, const float *dout, const float *q,
                              const float *k, const float *v, const float *out, const float *norm,
                              const struct qkv_linear_attention *a, void *scratch);
/** w[M][E]: rows normally distributed, orthogonal within each E of them (a variance below that of
 *  independent ones), by Philox4x32-10 from seed: the same anywhere.  M < 1, E < 1, NULL: nothing
 *  to do.  Takes E^2 M operations. */
QKV_API void qkv_random_features(float *w, int64_t M, int64_t E, uint64_t seed);

/** Exact attention on keys and values that were projected along the tokens, S to `rank` rows.
 *
 *  out = softmax(scale q (P_k k)^T) (P_v v),   P_k, P_v [rank][S], shared by heads and batch items;
 *  P_v NULL: P_k.  A trained layer brings its own; no mask, for every row is made of all tokens.
 *  Source: Wang et al. 2020 (arXiv 2006.04768) */
struct qkv_linformer {
    int64_t B, T, S, H, G, E, F;
    int64_t rank;
    float scale; /**< 0: 1/sqrt(E) */
    const float *p_k, *p_v;
};
QKV_API struct qkv_kind_plan qkv_linformer_plan(const struct qkv_linformer *l);
QKV_API QKV_MUST_CHECK qkv_status qkv_linformer_forward(float *out, const float *q, const float *k,
                                                        const float *v,
                                                        const struct qkv_linformer *l,
                                                        void *scratch);
/** p[rank][S]: each row the mean of one of `rank` even segments, as an untrained layer may begin.
 *  rank < 1, S < rank, NULL: nothing to do. */
QKV_API void qkv_segment_means(float *p, int64_t rank, int64_t S);

/** Attention through landmarks: means of even segments of queries (L of T) and keys (L of S).
 *
 *  out = softmax(scale q k~^T) pinv(A) softmax(scale q~ k^T) v,
 *  A = softmax(scale q~ k~^T)  [L][L]
 *
 *  The two large factors are the exact operator; pinv by `iterations` of
 *  Z <- Z (13 - AZ (15 - AZ (7 - AZ))) / 4 from Z = A^T / (|A|_1 |A|_inf).  No mask.
 *  Source: Xiong et al. 2021 (arXiv 2102.03902); Razavi et al. 2014 for the iteration */
struct qkv_nystrom {
    int64_t B, T, S, H, G, E, F;
    int64_t landmarks;  /**< L, at most T and S */
    int64_t iterations; /**< 0: 6 */
    float scale;        /**< 0: 1/sqrt(E) */
};
QKV_API struct qkv_kind_plan qkv_nystrom_plan(const struct qkv_nystrom *n);
QKV_API QKV_MUST_CHECK qkv_status qkv_nystrom_forward(float *out, const float *q, const float *k,
                                                      const float *v, const struct qkv_nystrom *n,
                                                      void *scratch);

#ifdef __cplusplus
}
#endif
#endif
