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

/** y[R][N] = x[R][K] w^T + b in floats, for weights that are used once;  w[N][K], b[N] or NULL.
 *  y overlaps nothing.
 *  Memory:   takes a block to pack w into, piece by piece; bounded by threads and K
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or lies on y);
 *            QKV_ERR_LIMIT: nothing written
 *  Edge:     K = 0: y = b.  R = 0 or N = 0: nothing to do.
 *  Repeats:  a row's bits do not depend on R or the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear(float *y, const float *x, const float *w,
                                             const float *b, int64_t R, int64_t K, int64_t N);

/** Gradients of y = x w^T + b from dy[R][N]:  dx = dy w,   dw += dy^T x,   db += sum_r dy.
 *  Out:      dx[R][K] is written; dw[N][K] and db[N] are added to; NULL: not wanted
 *  In:       x and w as forward saw them; x NULL without dw, w NULL without dx.  Nothing that is
 *            written overlaps anything else
 *  Memory:   takes a block for turned rows of dy and packed pieces; bounded by threads, K and N
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or lies on
 *            another); QKV_ERR_LIMIT: nothing written
 *  Edge:     R = 0: nothing to do, dx included.  N = 0: dx = 0
 *  Repeats:  no bit depends on the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear_backward(float *dx, float *dw, float *db,
                                                      const float *dy, const float *x,
                                                      const float *w, int64_t R, int64_t K,
                                                      int64_t N);

/** Functions of one number.  GELU: x Phi(x), by erf; GELU_TANH: its tanh approximation, Hendrycks
 *  and Gimpel 2016 (arXiv 1606.08415); SILU: x / (1 + exp(-x)). */
enum qkv_activation {
    QKV_ACT_NONE = 0,
    QKV_ACT_RELU,
    QKV_ACT_GELU,
    QKV_ACT_GELU_TANH,
    QKV_ACT_SILU,
    QKV_ACT_TANH
};

/** Weights packed once, for products with any number of rows.  Several threads may use one at
 *  once. */
typedef struct qkv_packed qkv_packed;

/** Packs w[N][K] and b[N] (NULL: none) for a precision on the present qkv_isa().
 *  F32, F32_STRICT, F32_FAST: floats.  BF16, F16: w rounded to nearest even.  INT8: whole numbers
 *  -127 .. 127 with a scale for each row of w, |w - scale q| <= scale / 2.
 *  Memory:   qkv_packed_info().bytes, until close; nothing of w or b is needed afterwards
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, a missing or misaligned array, no such
 *            precision); QKV_ERR_LIMIT;
 *            QKV_ERR_UNSUPPORTED (no kernel of this precision): *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_packed_open(qkv_packed **out, const float *w, const float *b,
                                                  int64_t K, int64_t N, qkv_precision precision);
QKV_API void qkv_packed_close(qkv_packed *p); /**< NULL is fine */

/** What a handle is, and how it computes; all zero for NULL. */
struct qkv_packed_info {
    int64_t K, N;
    qkv_precision precision;
    const char *isa; /**< of the kernel: qkv_isa() or a weaker one */
    const char
        *arithmetic; /**< how a product is formed: "float", "bf16 pairs", "bf16 as float", ... */
    size_t bytes;    /**< of packed weights: what every run reads at least once */
};
QKV_API struct qkv_packed_info qkv_packed_info(const qkv_packed *p);

/** Arrays and steps around a product; zero is the default. */
struct qkv_packed_call {
    qkv_dtype x, y;   /**< types of the arrays: QKV_F32, QKV_BF16 or QKV_F16 */
    int64_t x_stride; /**< elements from row to row, 0: K */
    int64_t y_stride; /**< 0: N */
    float scale;      /**< of the product, 0: 1 */
    enum qkv_activation act;
    const float *residual;   /**< [R][N], added last; NULL: none */
    int64_t residual_stride; /**< 0: N */
};

/** y[R][N] = act(scale x w^T + b) + residual, one pass.
 *
 *  Out:      y[R][N] of type c->y; 16 bits are rounded to nearest even
 *  In:       x[R][K] of type c->x, in any precision: BF16 and F16 round it to their type (too large
 *            for F16: infinite), INT8 to whole numbers with a scale for each row
 *            (where BF16 is native, arithmetic "bf16 pairs" or "bf16 tiles", below 2^-126 is 0)
 *            c (NULL: all default)
 *            y overlaps nothing but the residual, and that only as the same float array
 *  Memory:   none; no scratch
 *  Returns:  QKV_OK; QKV_ERR_USAGE (R < 0, an array missing or misaligned, a stride below its row,
 *            types, arrays that overlap, a scale that is not finite); QKV_ERR_LIMIT (sizes no
 *            memory has): nothing is written
 *  Edge:     K = 0: the product is 0.  R = 0 or N = 0: nothing to do.  What is not finite stays in
 *            its row; INT8: all of such a row is NaN, and a row below 2^-100 in all its numbers
 *            counts as 0
 *  Error:    docs/numerics.md, "Linear"
 *  Repeats:  a row's bits depend on that row alone: not on R, its neighbours or the number of
 *            threads
 *  Source:   Goto and van de Geijn 2008 (ACM TOMS 34, 12) for panels; Jacob et al. 2018
 *            (arXiv 1712.05877) for products of whole numbers */
QKV_API QKV_MUST_CHECK qkv_status qkv_packed_linear(void *y, const void *x, int64_t R,
                                                    const qkv_packed *p,
                                                    const struct qkv_packed_call *c);

/** y[R][D] = (x - mean) / sqrt(var + eps) * w + b, mean and var of each row.
 *  w[D], NULL: 1;  b[D], NULL: 0.  In place allowed; arrays lie where floats may.
 *  R < 1 or D < 1: nothing to do.
 *  Source: Ba, Kiros, Hinton 2016 (arXiv 1607.06450). */
QKV_API void qkv_layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                            int64_t R, int64_t D);

/** Gradients of qkv_layer_norm from dy[R][D]; with n = (x - mean) / sqrt(var + eps) and dn = w dy:
 *  dx = (dn - mean(dn) - n mean(dn n)) / sqrt(var + eps),   dw += sum_r dy n,   db += sum_r dy.
 *  Out:      dx[R][D] is written; dw[D] and db[D] are added to; NULL: not wanted
 *  In:       x, w (NULL: 1) and eps as forward saw them; mean and var are computed once more.
 *            Nothing that is written overlaps anything else
 *  Memory:   takes 2 R numbers and up to 32 D for sums
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or lies on
 *            another); QKV_ERR_LIMIT: nothing written
 *  Repeats:  no bit depends on the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_layer_norm_backward(float *dx, float *dw, float *db,
                                                          const float *dy, const float *x,
                                                          const float *w, float eps, int64_t R,
                                                          int64_t D);

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

/** What qkv_multi_head_forward would do: as qkv_attention_plan, with the scratch and the products
 *  of the whole layer.  An additive score counts 4 operations for each of its d_a hidden units.  It
 *  belongs to the number of threads and the instruction set of now, as every plan. */
QKV_API struct qkv_attention_plan qkv_multi_head_plan(const struct qkv_multi_head *m,
                                                      const struct qkv_attention *a);

/** The layer.
 *
 *  Out:      out[B][T][d_out], H*d_v wide without w_o
 *            keep (NULL: nothing is kept): lse and weights as the operator has them; q and k as W_q
 *            and W_k leave them, before W_s or the hidden layer of additive scores
 *  In:       x[B][T][d_q];  c[B][S][d_kv], NULL: x
 *            a: B, T, S, masks, bias, scale, ...; its H, G, E, F and strides come from m.
 *            a->precision is that of every product; q, k, v and heads are stored inside as it
 *            stores them, out and keep are float.  Additive scores are computed in floats: BF16,
 *            F16 and INT8 are QKV_ERR_UNSUPPORTED with them
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

/** What backward gives beside dx and dc: each += what its namesake in struct qkv_multi_head has for
 *  a gradient, of the same shape; NULL: not wanted. */
struct qkv_multi_head_gradients {
    float *w_q, *w_k, *w_v, *w_o;
    float *b_q, *b_k, *b_v, *b_o;
    float *w_s;
    float *w_aq, *w_ak, *w_a;
    struct qkv_attention_gradients attention; /**< of bias, relative positions, slopes, sinks */
};

/** What qkv_multi_head_backward would do; g (NULL: none) says which gradients beside dx and dc. */
QKV_API struct qkv_attention_plan
qkv_multi_head_backward_plan(const struct qkv_multi_head *m, const struct qkv_attention *a,
                             const struct qkv_multi_head_gradients *g);

/** Backward of qkv_multi_head_forward, from what it kept: scores and weights are formed anew, tile
 *  by tile, for every score.
 *
 *  additive:  t = tanh(W_q q + W_k k),   dw += dS t,   d(W_q q) += dS w (1 - t^2), as much to W_k k
 *
 *  Out:      dx[B][T][d_q], dc[B][S][d_kv], written; NULL: not wanted.  Without c (self-attention)
 *            dc is NULL and dx has the sum of both
 *            g (NULL: none): gradients that accumulate
 *  In:       dout[B][T][d_out] (H*d_v wide without w_o);  keep: q, k, v, heads and lse as forward
 *            left them;  x, c, m, a: the same as forward's
 *  Scratch:  qkv_multi_head_backward_plan(m, a, g).scratch bytes, 64-byte aligned; linear in T + S
 *  Returns:  as qkv_multi_head_forward, and as qkv_attention_backward; QKV_ERR_USAGE also where
 *            keep lacks one of its five
 *  Repeats:  same bits for any number of threads, on one ISA
 *  Source:   Dao et al. 2022 (arXiv 2205.14135) algorithm 4, for every score */
QKV_API QKV_MUST_CHECK qkv_status qkv_multi_head_backward(
    float *dx, float *dc, const struct qkv_multi_head_gradients *g, const float *dout,
    const struct qkv_multi_head_keep *keep, const float *x, const float *c,
    const struct qkv_multi_head *m, const struct qkv_attention *a, void *scratch);

#ifdef __cplusplus
}
#endif
#endif
