// SPDX-License-Identifier: MIT
/** layer.h: the layers of a Transformer on plain arrays.
 *
 *  R rows (tokens), D width.  Weights are row-major [out][in], as checkpoints store them:
 *  y = x w^T + b.
 */
#ifndef QKV_LAYER_H
#define QKV_LAYER_H

#include <qkv/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/** y[R][N] = x[R][K] w^T + b;  w[N][K], b[N] or NULL.  y overlaps nothing.
 *  Memory:   takes a block to pack w into, piece by piece; bounded by threads and K
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, a missing array); QKV_ERR_LIMIT: nothing written
 *  Edge:     K = 0: y = b.  R = 0 or N = 0: nothing to do.
 *  Repeats:  a row's bits do not depend on R or the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear(float *y, const float *x, const float *w,
                                             const float *b, int64_t R, int64_t K, int64_t N);

/** y[R][D] = (x - mean) / sqrt(var + eps) * w + b, mean and var of each row.
 *  w[D], NULL: 1;  b[D], NULL: 0.  In place allowed.  R < 1 or D < 1: nothing to do.
 *  Source: Ba, Kiros, Hinton 2016 (arXiv 1607.06450). */
QKV_API void qkv_layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                            int64_t R, int64_t D);

/** What a score of query x_i and key x_j is. */
enum qkv_score {
    QKV_SCORE_DOT = 0,  /**< q.k, scaled by 1/sqrt(d_k) unless told otherwise */
    QKV_SCORE_BILINEAR, /**< q W_s k^T, not scaled (Luong et al. 2015, "general") */
    QKV_SCORE_ADDITIVE  /**< w . tanh(W_q q + W_k k), not scaled (Bahdanau et al. 2015) */
};

/** Self- or cross-attention with its projections; every width is free.
 *
 *  q = x W_q^T (+ b_q),  k = c W_k^T (+ b_k),  v = c W_v^T (+ b_v)
 *  out = concat(heads) W_o^T (+ b_o)
 *
 *  A NULL w_q, w_k or w_v leaves the input as it is (then its width is heads * head width);
 *  a NULL w_o: the heads themselves are the output.
 */
struct qkv_multi_head {
    int64_t H, G;      /**< query heads; key/value heads, 0: H */
    int64_t d_q, d_kv; /**< width of the input x and of the context c; d_kv 0: d_q */
    int64_t d_k, d_v;  /**< width of a query/key head, of a value head */
    int64_t d_out;     /**< width of the output (with w_o) */
    enum qkv_score score;
    const float *w_q, *w_k, *w_v;       /**< [H*d_k][d_q], [G*d_k][d_kv], [G*d_v][d_kv] */
    const float *w_o;                   /**< [d_out][H*d_v] */
    const float *b_q, *b_k, *b_v, *b_o; /**< biases or NULL */
    const float *w_s;                   /**< bilinear: [H][d_k][d_k] */
    int64_t d_a;                        /**< additive: width of the hidden layer */
    const float *w_aq, *w_ak, *w_a;     /**< additive: [H][d_a][d_k], [H][d_a][d_k], [H][d_a] */
};

/** Arrays of the caller that take what the layer computes on its way, for backward or for a reader;
 *  NULL members are not kept. */
struct qkv_multi_head_keep {
    float *q, *k, *v; /**< [B][T][H][d_k], [B][S][G][d_k], [B][S][G][d_v] */
    float *heads;     /**< [B][T][H][d_v] before W_o */
    float *lse;       /**< [B][H][T] */
    float *weights;   /**< [B][H][T][S] dense: asked for, costs T*S */
};

/** What qkv_multi_head_forward would do: as qkv_attention_plan, with the scratch and the products of
 *  the whole layer.  An additive score counts 4 operations for each of its d_a hidden units. */
QKV_API struct qkv_attention_plan qkv_multi_head_plan(const struct qkv_multi_head *m,
                                                      const struct qkv_attention *a);

/** The layer.
 *
 *  Out:      out[B][T][d_out], H*d_v wide without w_o
 *            keep (NULL: nothing is kept): lse and weights as the operator has them; q and k as W_q
 *            and W_k leave them, before W_s or the hidden layer of additive scores
 *  In:       x[B][T][d_q];  c[B][S][d_kv], NULL: x
 *            a: B, T, S, masks, bias, scale, ...; its H, G, E, F and strides come from m.
 *            Bilinear and additive scores take every mask of a, and no scale unless a->scale is set
 *  Scratch:  qkv_multi_head_plan(m, a).scratch bytes, 64-byte aligned, planned with the same number
 *            of threads; linear in T + S for every score
 *  Returns:  as qkv_attention_forward; QKV_ERR_USAGE also for widths that do not fit together
 *  Source:   Vaswani et al. 2017 (arXiv 1706.03762) section 3.2.2; Luong et al. 2015
 *            (arXiv 1508.04025); Bahdanau et al. 2015 (arXiv 1409.0473)
 */
QKV_API QKV_MUST_CHECK qkv_status qkv_multi_head_forward(
    float *out, const struct qkv_multi_head_keep *keep, const float *x, const float *c,
    const struct qkv_multi_head *m, const struct qkv_attention *a, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
