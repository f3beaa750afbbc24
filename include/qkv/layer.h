// SPDX-License-Identifier: MIT
/** layer.h: the layers of a Transformer on plain arrays.
 *
 *  R rows (tokens), D width.  Weights are row-major [out][in], as checkpoints store them: y = x w^T + b.
 */
#ifndef QKV_LAYER_H
#define QKV_LAYER_H

#include <qkv/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/** y[R][N] = x[R][K] w^T + b;  w[N][K], b[N] or NULL.  Memory: packs a block of w at a time.
 *  Returns QKV_OK or QKV_ERR_LIMIT.  A row's bits do not depend on R. */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear(float *y, const float *x, const float *w, const float *b,
                                             int64_t R, int64_t K, int64_t N);

/** y[R][D] = (x - mean) / sqrt(var + eps) * w + b.  Ba, Kiros, Hinton 2016 (arXiv 1607.06450). */
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
 *  q = x W_q^T (+ b_q),  k = c W_k^T (+ b_k),  v = c W_v^T (+ b_v),  out = concat(heads) W_O^T (+ b_O)
 *
 *  A NULL w_q, w_k or w_v leaves the input as it is (then d_in = heads * width); NULL w_o: no projection.
 */
struct qkv_multi_head {
    int64_t H, G;                  /**< query heads; key/value heads, 0: H */
    int64_t d_q, d_kv;             /**< width of the input x and of the context c; d_kv 0: d_q */
    int64_t d_k, d_v, d_out;       /**< width of a query/key head, a value head, the output (with w_o) */
    enum qkv_score score;
    const float *w_q, *w_k, *w_v, *w_o; /**< [H*d_k][d_q] [G*d_k][d_kv] [G*d_v][d_kv] [d_out][H*d_v] */
    const float *b_q, *b_k, *b_v, *b_o; /**< biases or NULL */
    const float *w_s;              /**< bilinear: [H][d_k][d_k] */
    int64_t d_a;                   /**< additive: width of the hidden layer */
    const float *w_aq, *w_ak, *w_a; /**< additive: [H][d_a][d_k], [H][d_a][d_k], [H][d_a] */
};

/** What the layer leaves for backward or for a reader; NULL members are not kept. */
struct qkv_multi_head_keep {
    float *q, *k, *v;              /**< [B][T][H][d_k] [B][S][G][d_k] [B][S][G][d_v] */
    float *heads;                  /**< [B][T][H][d_v] before W_O */
    float *lse;                    /**< [B][H][T] */
    float *weights;                /**< [B][H][T][S] dense: asked for, costs T*S */
};

/** Bytes of scratch for qkv_multi_head_forward; 0 with *status other than QKV_OK: refused. */
QKV_API size_t qkv_multi_head_scratch(const struct qkv_multi_head *m, const struct qkv_attention *a,
                                      qkv_status *status);
/** Out: out[B][T][d_out] (H*d_v without w_o).  In: x[B][T][d_q], c[B][S][d_kv] (NULL: x).
 *  a: B, T, S, masks, bias, scale, ...; its H, G, E, F, strides are set by m.
 *  Additive and bilinear scores take every mask of a, and have no scale unless a->scale is given.
 *  lse and weights of keep are those of the operator; keep->q and k are what W_q and W_k leave, before W_s
 *  or the hidden layer.  Memory is linear in T + S for every score.
 *  Scratch: 64-byte aligned, the number of threads as it was when asked.  Returns as qkv_attention_forward;
 *  QKV_ERR_USAGE also for widths that do not fit together. */
QKV_API QKV_MUST_CHECK qkv_status qkv_multi_head_forward(
    float *out, const struct qkv_multi_head_keep *keep, const float *x, const float *c,
    const struct qkv_multi_head *m, const struct qkv_attention *a, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
