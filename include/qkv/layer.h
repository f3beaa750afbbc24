// SPDX-License-Identifier: MIT
/** layer.h: computes the layers of a Transformer on plain arrays.
 *
 *  R is the number of rows (tokens), D their width.  Weights are row-major [out][in], as in
 *  checkpoints, so a linear layer is y = x w^T + b.
 */
#ifndef QKV_LAYER_H
#define QKV_LAYER_H

#include <qkv/attention.h>

QKV_BEGIN_DECLS

/** Computes y[R][N] = x[R][K] w^T + b in floats, for weights that are used only once: w[N][K];
 *  b[N], or NULL for no bias.
 *  y overlaps no other array.
 *  Memory:   allocates one block, in which it packs w piece by piece; its size is bounded by the
 *            number of threads and K
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or overlaps
 *            y); QKV_ERR_LIMIT.  After an error nothing is written
 *  Edge:     K = 0: y = b.  R = 0 or N = 0: nothing to do.
 *  Repeats:  the bits of a row do not depend on R or the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear(float *y, const float *x, const float *w,
                                             const float *b, int64_t R, int64_t K, int64_t N);

/** Computes the gradients of y = x w^T + b from dy[R][N]:  dx = dy w,   dw += dy^T x,   db += sum_r
 *  dy.
 *  Out:      dx[R][K] is written; dw[N][K] and db[N] are accumulated; NULL: not computed
 *  In:       x and w of forward; x may be NULL if dw is NULL, and w may be NULL if dx is NULL.  No
 *            output overlaps another array
 *  Memory:   allocates one block for transposed rows of dy and packed pieces of weights; its size
 *            is bounded by the number of threads, K and N
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or overlaps
 *            another); QKV_ERR_LIMIT.  After an error nothing is written
 *  Edge:     R = 0: nothing to do, also for dx.  N = 0: dx = 0
 *  Repeats:  no bit depends on the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_linear_backward(float *dx, float *dw, float *db,
                                                      const float *dy, const float *x,
                                                      const float *w, int64_t R, int64_t K,
                                                      int64_t N);

/** The activation functions.  GELU is x Phi(x), computed with erf; GELU_TANH approximates it with
 *  tanh, QUICK_GELU by x / (1 + exp(-1.702 x)), Hendrycks and Gimpel 2016 (arXiv 1606.08415); SILU
 *  is x / (1 + exp(-x)); RELU2 is the square of RELU; RELU6 is min(RELU, 6); MISH is
 *  x tanh(ln(1 + exp(x))), Misra 2019 (arXiv 1908.08681). */
enum qkv_activation {
    QKV_ACT_NONE = 0,
    QKV_ACT_RELU,
    QKV_ACT_GELU,
    QKV_ACT_GELU_TANH,
    QKV_ACT_SILU,
    QKV_ACT_TANH,
    QKV_ACT_QUICK_GELU,
    QKV_ACT_RELU2,
    QKV_ACT_RELU6,
    QKV_ACT_MISH,
    QKV_ACT_LAST = QKV_ACT_MISH
};

/** The weights of a linear layer, packed once for products with any number of input rows.  Threads
 *  may share them. */
typedef struct qkv_packed qkv_packed;

/** Packs w[N][K] and b[N] (NULL: no bias) for a precision on the current qkv_isa().
 *  F32, F32_STRICT and F32_FAST store floats; BF16 and F16 store w rounded to nearest even; INT8
 *  stores integers q, -127 .. 127, with a scale for each row of w: |w - scale q| <= scale / 2.
 *  Memory:   qkv_packed_info().bytes, until close; w and b are not referenced after the call
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, a missing or misaligned array, no such precision);
 *            QKV_ERR_LIMIT; QKV_ERR_UNSUPPORTED (no kernel of this precision).  After an error *out
 *            is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_packed_open(qkv_packed **out, const float *w, const float *b,
                                                  int64_t K, int64_t N, qkv_precision precision);
QKV_API void qkv_packed_close(qkv_packed *p); /**< NULL is fine */

/** The properties of packed weights.  qkv_packed_info(NULL) returns all zeros. */
struct qkv_packed_info {
    int64_t K, N;
    qkv_precision precision;
    const char *isa; /**< instruction set of the kernel: qkv_isa() or a weaker set */
    /** how products are computed: "float", "bf16 pairs", "bf16 as float", ... */
    const char *arithmetic;
    size_t bytes; /**< bytes of packed weights, which every run reads at least once */
};
QKV_API struct qkv_packed_info qkv_packed_info(const qkv_packed *p);

/** Array types and additional steps of qkv_packed_linear; zero is the default. */
struct qkv_packed_call {
    qkv_dtype x, y;   /**< types of the arrays: QKV_F32, QKV_BF16 or QKV_F16 */
    int64_t x_stride; /**< elements from one row of x to the next; 0 means K */
    int64_t y_stride; /**< elements from one row of y to the next; 0 means N */
    float scale;      /**< factor of the product; 0 means 1 */
    enum qkv_activation act;
    /** [R][N] array that is added after the activation; NULL: nothing is added */
    const float *residual;
    int64_t residual_stride; /**< elements from one row of residual to the next; 0 means N */
};

/** Computes y[R][N] = act(scale x w^T + b) + residual in one pass.
 *
 *  Out:      y[R][N] of type c->y; 16-bit types are rounded to nearest even
 *  In:       x[R][K] of type c->x, for weights of any precision.  BF16 and F16 round x to their
 *            type; numbers above the range of F16 become infinite.  INT8 rounds x to integers with
 *            a scale for each row.  With the arithmetic "bf16 pairs" or "bf16 tiles", magnitudes
 *            below 2^-126 count as 0, and become 0 in y of type BF16 (on AMX with any arithmetic)
 *            c may be NULL, which means that all its members are 0.  y may be the same float array
 *            as the residual; it overlaps no other array
 *  Memory:   none; no scratch
 *  Returns:  QKV_OK; QKV_ERR_USAGE (R < 0, an array missing or misaligned, a stride below its row
 *            length, types, arrays that overlap, a scale that is not finite); QKV_ERR_LIMIT (sizes
 *            beyond any memory).  After an error nothing is written
 *  Edge:     K = 0: the product is 0.  R = 0 or N = 0: nothing to do.  NaN and Inf affect only
 *            their own row; with INT8 they make the whole row NaN, and a row whose numbers are all
 *            below 2^-100 counts as 0
 *  Error:    docs/numerics.md, "Linear", has the bounds
 *  Repeats:  the bits of a row depend on that row alone: not on R, other rows or the number of
 *            threads
 *  Source:   Goto and van de Geijn 2008 (ACM TOMS 34, 12) for panels; Jacob et al. 2018 (arXiv
 *            1712.05877) for integer products */
QKV_API QKV_MUST_CHECK qkv_status qkv_packed_linear(void *y, const void *x, int64_t R,
                                                    const qkv_packed *p,
                                                    const struct qkv_packed_call *c);

/** Computes y[R][D] = (x - mean) / sqrt(var + eps) * w + b, with mean and var of each row.
 *  A NULL w[D] means 1, a NULL b[D] means 0.  y may be x; arrays have the alignment of float.
 *  R < 1 or D < 1: nothing to do.
 *  Source: Ba, Kiros, Hinton 2016 (arXiv 1607.06450). */
QKV_API void qkv_layer_norm(float *y, const float *x, const float *w, const float *b, float eps,
                            int64_t R, int64_t D);

/** Computes the gradients of qkv_layer_norm from dy[R][D]:
 *
 *  dx = (dn - mean(dn) - n mean(dn n)) / sqrt(var + eps),   dw += sum_r dy n,   db += sum_r dy,
 *  where n = (x - mean) / sqrt(var + eps) and dn = w dy
 *
 *  Out:      dx[R][D] is written; dw[D] and db[D] are accumulated; NULL: not computed
 *  In:       x, w (NULL means 1) and eps of forward; mean and var are recomputed.  No output
 *            overlaps another array
 *  Memory:   allocates 2 R numbers for mean and var, and up to 32 D numbers for sums
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an array that is missing, misaligned or overlaps
 *            another); QKV_ERR_LIMIT.  After an error nothing is written
 *  Repeats:  no bit depends on the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_layer_norm_backward(float *dx, float *dw, float *db,
                                                          const float *dy, const float *x,
                                                          const float *w, float eps, int64_t R,
                                                          int64_t D);

/** The formula of the attention score of a query q and a key k, both of width d_k. */
enum qkv_score {
    QKV_SCORE_DOT = 0,  /**< q.k, scaled by 1/sqrt(d_k) unless a->scale is set */
    QKV_SCORE_BILINEAR, /**< q W_s k^T, not scaled (Luong et al. 2015, "general") */
    QKV_SCORE_ADDITIVE  /**< w . tanh(W_q q + W_k k), not scaled (Bahdanau et al. 2015) */
};

/** Multi-head self- or cross-attention with its projections, which may have any width.  x are the
 *  input rows from which queries are computed, c the input rows from which keys and values are
 *  computed (self-attention: c = x).
 *
 *  q = x W_q^T (+ b_q),  k = c W_k^T (+ b_k),  v = c W_v^T (+ b_v)
 *  out = concat(heads) W_o^T (+ b_o)
 *
 *  A NULL w_q, w_k or w_v uses the input without projection (its width is then heads * head
 *  width); with a NULL w_o the concatenated heads are the output.
 */
struct qkv_multi_head {
    int64_t H, G;      /**< number of query heads; number of key/value heads, 0 means H */
    int64_t d_q, d_kv; /**< width of the input x; width of the context c, 0 means d_q */
    int64_t d_k, d_v;  /**< width of a query or key head; width of a value head */
    int64_t d_out;     /**< width of the output; used with w_o */
    enum qkv_score score;
    const float *w_q, *w_k, *w_v; /**< [H*d_k][d_q], [G*d_k][d_kv], [G*d_v][d_kv] projections */
    const float *w_o;             /**< [d_out][H*d_v] output projection; NULL: no projection */
    const float *b_q, *b_k, *b_v, *b_o; /**< biases or NULL */
    const float *w_s;                   /**< weights W_s of bilinear scores, [H][d_k][d_k] */
    int64_t d_a;                        /**< width of the hidden layer of additive scores */
    /** weights of additive scores: W_q [H][d_a][d_k], W_k [H][d_a][d_k] and w [H][d_a] */
    const float *w_aq, *w_ak, *w_a;
};

/** Arrays of the caller in which forward stores intermediate results, for backward or for
 *  inspection.  The result of a NULL member is not stored. */
struct qkv_multi_head_keep {
    float *q, *k, *v; /**< queries [B][T][H][d_k], keys [B][S][G][d_k], values [B][S][G][d_v] */
    float *heads;     /**< [B][T][H][d_v] outputs of the heads before W_o */
    float *lse;       /**< [B][H][T] ln of the softmax sums */
    float *weights;   /**< [B][H][T][S] dense attention weights: costs T*S floats per head */
};

/** Plans qkv_multi_head_forward as qkv_attention_plan plans attention; scratch and flops include
 *  the projections.  An additive score counts 4 operations for each of its d_a hidden units.  The
 *  plan is valid for the current number of threads and instruction set. */
QKV_API struct qkv_attention_plan qkv_multi_head_plan(const struct qkv_multi_head *m,
                                                      const struct qkv_attention *a);

/** Computes multi-head attention with its projections.
 *
 *  Out:      out[B][T][d_out]; without w_o its width is H*d_v
 *            keep (may be NULL): lse and weights as in qkv_attention_forward; q and k after W_q and
 *            W_k, before W_s or the hidden layer of additive scores
 *  In:       x[B][T][d_q];  c[B][S][d_kv]; a NULL c means x
 *            a has B, T, S, masks, bias, scale and so on; the members of m replace its H, G, E, F
 *            and strides.  a->precision applies to every product; q, k, v and heads are stored
 *            internally in its type, out and keep are float.  Additive scores are computed in
 *            floats: with BF16, F16 and INT8 they are QKV_ERR_UNSUPPORTED.  Bilinear and additive
 *            scores support every mask of a; they are not scaled unless a->scale is set
 *  Scratch:  qkv_multi_head_plan(m, a).scratch bytes, 64-byte aligned, planned with the same number
 *            of threads; linear in T + S for every score
 *  Returns:  as qkv_attention_forward; also QKV_ERR_USAGE if widths do not match
 *  Source:   Vaswani et al. 2017 (arXiv 1706.03762) section 3.2.2; Luong et al. 2015 (arXiv
 *            1508.04025); Bahdanau et al. 2015 (arXiv 1409.0473)
 */
QKV_API QKV_MUST_CHECK qkv_status qkv_multi_head_forward(
    float *out, const struct qkv_multi_head_keep *keep, const float *x, const float *c,
    const struct qkv_multi_head *m, const struct qkv_attention *a, void *scratch);

/** The gradients that qkv_multi_head_backward computes in addition to dx and dc.  Each member
 *  accumulates (+=) the gradient of the member of the same name and shape in struct qkv_multi_head;
 *  a NULL member is not computed. */
struct qkv_multi_head_gradients {
    float *w_q, *w_k, *w_v, *w_o;
    float *b_q, *b_k, *b_v, *b_o;
    float *w_s;
    float *w_aq, *w_ak, *w_a;
    /** gradients of bias, relative position bias, ALiBi slopes and sinks */
    struct qkv_attention_gradients attention;
};

/** Plans qkv_multi_head_backward.  g, which may be NULL, selects gradients in addition to dx and
 *  dc. */
QKV_API struct qkv_attention_plan
qkv_multi_head_backward_plan(const struct qkv_multi_head *m, const struct qkv_attention *a,
                             const struct qkv_multi_head_gradients *g);

/** Computes the gradients of qkv_multi_head_forward from the arrays in keep; the attention weights
 *  are recomputed tile by tile, whatever the score function is.
 *
 *  With additive scores, t = tanh(W_q q + W_k k) and dS is the gradient of the score:
 *  dw += dS t,   d(W_q q) += dS w (1 - t^2),   d(W_k k) += dS w (1 - t^2)
 *
 *  Out:      dx[B][T][d_q] and dc[B][S][d_kv] are written; a NULL array is not computed.  Without c
 *            (self-attention) dc is NULL, and dx is the sum of the gradients of queries, keys and
 *            values
 *            g (may be NULL): arrays to which gradients are added
 *  In:       dout[B][T][d_out] (width H*d_v without w_o);  keep with the arrays q, k, v, heads and
 *            lse that forward stored; x, c, m and a as in forward
 *  Scratch:  qkv_multi_head_backward_plan(m, a, g).scratch bytes, 64-byte aligned; linear in T + S
 *  Returns:  as qkv_multi_head_forward and qkv_attention_backward; also QKV_ERR_USAGE if keep lacks
 *            one of these five arrays
 *  Repeats:  bit-identical for any number of threads, on one ISA
 *  Source:   Dao et al. 2022 (arXiv 2205.14135) algorithm 4, for every score */
QKV_API QKV_MUST_CHECK qkv_status qkv_multi_head_backward(
    float *dx, float *dc, const struct qkv_multi_head_gradients *g, const float *dout,
    const struct qkv_multi_head_keep *keep, const float *x, const float *c,
    const struct qkv_multi_head *m, const struct qkv_attention *a, void *scratch);

/** Writes sinusoidal positions: row p of table[P][D] has, for each pair i < D/2,
 *      table[p][2i] = sin(p / 10000^(2i/D)),   table[p][2i+1] = cos(p / 10000^(2i/D)).
 *  Angles are computed in double.  The dot product of two rows depends only on their distance.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, table NULL or misaligned); QKV_ERR_LIMIT
 *  Edge:     an odd D has one sine more than cosines.  P = 0 or D = 0: nothing to do
 *  Source:   Vaswani et al. 2017 (arXiv 1706.03762), section 3.5 */
QKV_API QKV_MUST_CHECK qkv_status qkv_sinusoids(float *table, int64_t P, int64_t D);

/** Applies rotary positions to x[R][H][E] in place: rotates pair i of each head of row r by the
 *  angle positions[r] / theta^(2i/E), i < E/2.  After it, the dot product of a query and a key
 *  depends only on the distance of their positions.
 *  theta        base of the angles; 0: 10000
 *  interleaved  pair i is the elements 2i and 2i+1; otherwise i and i + E/2, as in transformers
 *  inverse      rotates by the negative angle, which is also the gradient
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a size < 0, an odd E, theta < 0, a position < 0, an array that
 *            is missing or misaligned); QKV_ERR_LIMIT.  After an error x is unchanged
 *  Repeats:  no bit depends on the number of threads
 *  Source:   Su et al. 2021 (arXiv 2104.09864) */
QKV_API QKV_MUST_CHECK qkv_status qkv_rotate(float *x, const int32_t *positions, int64_t R,
                                             int64_t H, int64_t E, float theta, bool interleaved,
                                             bool inverse);

QKV_END_DECLS
#endif
