// SPDX-License-Identifier: MIT
/** attention.h: the operator: exact softmax attention with any mask, memory linear in T + S.
 *
 *  B batch, T query tokens, S key tokens, H query heads, G key/value heads (H a multiple of G),
 *  E width of a query and key head, F width of a value head.
 */
#ifndef QKV_ATTENTION_H
#define QKV_ATTENTION_H

#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Elements from one batch item, token, head to the next; all 0: the default order [B][T][H][E].
 *  The last axis is contiguous.  [B][H][T][E]: { H*T*E, E, T*E }. */
struct qkv_strides {
    int64_t b, t, h;
};

/** Which diagonal "causal", "window" and ALiBi count from: i = t, or i = t + S - T
 *  (per sequence, with the lengths of that sequence). */
enum qkv_diagonal { QKV_TOP_LEFT = 0, QKV_BOTTOM_RIGHT };

struct qkv_probe;

/** One attention.  Zero is the default of every member after F; G = 0 means H, F = 0 means E.
 *
 *  score:  s = scale * q.k;  softcap c: s = c tanh(s/c);  + bias;  + relative;  - alibi[h] |i - j|;
 *  masks;  softmax.  A key counts only if all masks given let it through.  i and j count from the
 *  first query and key of the sequence, i on the diagonal: i = t, or t + S - T with
 *  QKV_BOTTOM_RIGHT. */
struct qkv_attention {
    int64_t B, T, S, H, G, E, F;
    qkv_precision precision; /**< also the type of q, k, v and out */
    float scale;             /**< 0: 1/sqrt(E);  1: none */
    float softcap;           /**< 0: off */
    bool causal;             /**< keys j <= i */
    enum qkv_diagonal diagonal;
    struct {
        bool on;
        int64_t left, right; /**< keys i-left .. i+right, both included; -1: unlimited */
    } window;
    const int64_t *k_lengths; /**< [B] (packed: [sequences]) keys 0..length-1 exist; NULL: all */
    int64_t sequences;        /**< > 0: packed: B = 1, T and S are totals, offsets are needed;
                                      rows of no sequence see nothing */
    const int64_t *q_offsets; /**< [sequences + 1], 0 .. T, not decreasing */
    const int64_t *k_offsets; /**< [sequences + 1], 0 .. S; NULL: as q_offsets */
    struct {
        const float *at; /**< added to the scores; -INFINITY masks.  NULL: none */
        int64_t b, h, t; /**< strides in elements, 0: the same for all; keys contiguous */
    } bias;              /**< packed: t counts the packed row, keys from their sequence's */
    struct {
        const uint8_t *at; /**< other than 0: attend.  NULL: none */
        int64_t b, h, t;
    } mask;
    struct {
        const float
            *at; /**< [H][2 reach + 1] added by distance j - i, cut to -reach .. reach: relative
                              positions at the cost of their table (T5: its buckets spread out).
                              NULL: none */
        int64_t reach; /**< >= 0 */
    } relative;
    const float *alibi; /**< [H] slopes; NULL: none */
    const float *sinks; /**< [H] a logit that joins the sum and has no value; NULL: none */
    struct {
        float p; /**< share of the weights that is dropped, 0 <= p < 1; the rest / (1 - p) */
        uint64_t
            seed; /**< with site: which random numbers (Philox4x32-10, counted by the weight's */
        uint64_t site; /**< place [b][h][t][s], so that they depend on nothing else) */
    } dropout;
    struct qkv_strides q_strides, k_strides, v_strides, out_strides;
    bool no_softmax; /**< out = sum_s score * v: a masked key counts 0, no lse */
    bool native; /**< refuse a precision that this CPU has no products for, instead of running it by
                          conversion: QKV_ERR_UNSUPPORTED, and the plan's reason names what it
                          has */
    const struct qkv_probe
        *probe; /**< what forward finds out beside (probe.h), by one more pass over
                                        the scores; out and lse keep their bits.  NULL: nothing */
};

/** What a call would do, before it runs: lengths and offsets are read, mask and bias are not. */
struct qkv_attention_plan {
    qkv_status status;  /**< QKV_OK, or why forward would refuse */
    char reason[192];   /**< the reason in words, "" when OK */
    const char *kernel; /**< "fused"; "fused additive" (qkv_multi_head_plan); "cached"
                                (qkv_cache_plan); NULL where status is not QKV_OK */
    const char *isa;    /**< whose kernels run: a row of qkv_isa_supported, qkv_isa() or weaker */
    /** How products are formed: "float", "six bf16 products", "three bf16 products", "bf16 pairs",
     *  "bf16 tiles"; of numbers that are converted first: "bf16 as float", "f16 as float",
     *  "int8 as float". */
    const char *arithmetic;
    size_t scratch;        /**< bytes forward needs now, for qkv_threads(): a multiple of 64 */
    size_t scratch_thread; /**< of these, bytes a thread */
    int64_t tile_rows, tile_keys;    /**< size of a tile */
    int64_t tiles, visited, skipped; /**< over all batch items and heads; skipped: closed by causal,
                                          window, lengths (forward skips by mask and bias, too) */
    double flops; /**< 2 (E + F) for each pair causal, window, lengths let meet */
};

/** The plan of this call with the present number of threads and instruction set, to which it and
 *  scratch of its size belong: after qkv_threads_set or qkv_isa_set plan anew.  Takes no memory.
 *  A NULL a is QKV_ERR_USAGE. */
QKV_API struct qkv_attention_plan qkv_attention_plan(const struct qkv_attention *a);

/** Exact softmax attention.
 *
 *  out[b][t][h] = sum_s P[s] v[b][s][g],   P = softmax_s(score(t, s)),   g = h / (H/G)
 *
 *  Types:    q, k, v and out hold what a->precision stores: bfloat16, halves, or float for the F32
 *            precisions and INT8, which makes whole numbers of 8 bits of k and v, each key and
 *            value of a head with a scale of its own
 *  Out:      out     [B][T][H][F], or as out_strides say
 *            lse     [B][H][T]     ln of the softmax sum (with sink); NULL: not wanted
 *            weights [B][H][T][S]  the dense P, 0 where masked; NULL (the default): never formed
 *                    packed: rows of width S hold the keys of their own sequence first, then 0
 *  In:       q [B][T][H][E];  k [B][S][G][E];  v [B][S][G][F], or any strides
 *  Scratch:  qkv_attention_plan(a).scratch bytes, 64-byte aligned, planned with the same number of
 *            threads; never grows with T*S
 *  Memory:   each array aligned as its type; q, k, v may be the same array; out, lse, weights,
 *            scratch overlap nothing
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED, QKV_ERR_LIMIT as the plan says,
 *            QKV_ERR_USAGE for an array that is missing, misaligned or lies on what is written
 *            (told by addresses; arrays with gaps may lie in each other's): nothing written
 *  Edge:     a row with every key masked (or every score -INFINITY): out 0, lse -INFINITY
 *            (with a sink: out 0, lse = sink).
 *            NaN or Inf of a masked key, value, bias is never seen; an attended one propagates.
 *            T = 0 or B = 0: nothing to do.  S = 0: every row is masked.
 *  Repeats:  same bits for any number of threads, batch neighbours, padding or packing, on one ISA;
 *            a prefix of a causal run is the run of the prefix.  Errors: docs/numerics.md
 *  Source:   Vaswani et al. 2017 (arXiv 1706.03762) eq. 1; Rabe & Staats 2021 (arXiv 2112.05682)
 */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_forward(void *out, float *lse, float *weights,
                                                        const void *q, const void *k, const void *v,
                                                        const struct qkv_attention *a,
                                                        void *scratch);

/** What backward gives beside dq, dk and dv; all zero: nothing. */
struct qkv_attention_gradients {
    struct {
        float
            *at; /**< += d of the bias, laid out and broadcast as a->bias (an axis with stride 0 is
                        summed inside the pass: a table costs its own size).  NULL: not wanted */
    } bias;
    float *relative; /**< += [H][2 reach + 1] d of a->relative; NULL: not wanted */
    float *alibi;    /**< += [H] d of the slopes; NULL */
    float *sinks;    /**< += [H] d of the sinks; NULL */
};

/** What qkv_attention_backward would do; g (NULL: none) says which gradients beside dq, dk, dv.
 *  flops: 2 (3 E + 2 F) for each pair that meets. */
QKV_API struct qkv_attention_plan
qkv_attention_backward_plan(const struct qkv_attention *a, const struct qkv_attention_gradients *g);

/** Backward of qkv_attention_forward, from its out and lse; the weights are formed anew, tile by
 *  tile.
 *
 *  P = exp(score - lse),  dP = dout v^T (dropped and scaled as P was),  dS = P (dP - dout . out)
 *  dv = P^T dout,  dq = scale dS k,  dk = scale dS^T q   (dS times 1 - (s/c)^2 with a softcap c)
 *
 *  Out:      dq, dk, dv as q, k, v are laid out (their strides and type), written; key heads sum
 *            their query heads; rows of no sequence and keys that no row sees: 0
 *            g (NULL: none): gradients that accumulate, float
 *  In:       dout as out is laid out;  q, k, v, out, lse as forward had them;  a: the same
 *  Scratch:  qkv_attention_backward_plan(a, g).scratch bytes, 64-byte aligned; linear in T + S
 *  Returns:  as qkv_attention_forward; QKV_ERR_UNSUPPORTED for INT8 and for no_softmax;
 *            QKV_ERR_USAGE for a gradient of what is not there, for strides that put rows of a
 *            gradient on each other
 *  Edge:     a row with every key masked: gradients 0 (its dout is not read); NaN behind a mask is
 *            never seen
 *  Repeats:  same bits for any number of threads, on one ISA
 *  Source:   Dao et al. 2022 (arXiv 2205.14135) algorithm 4 */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_backward(
    void *dq, void *dk, void *dv, const struct qkv_attention_gradients *g, const void *dout,
    const void *q, const void *k, const void *v, const void *out, const float *lse,
    const struct qkv_attention *a, void *scratch);

/** y[r] = softmax(x[r]) over n columns, rows ldx and ldy apart; in place allowed; x and y lie
 *  where floats may.
 *  Stable (the maximum is taken out); a row of -INFINITY gives 0.  +INFINITY or NaN gives NaN.
 *  rows < 1, n < 1, a NULL y or x: nothing to do. */
QKV_API void qkv_softmax_rows(float *y, const float *x, int64_t rows, int64_t n, int64_t ldy,
                              int64_t ldx);

/** Slopes of ALiBi for H heads: 2^(-8(h+1)/H) for powers of two, else as Press et al. 2022 fill in
 *  (arXiv 2108.12409).  Out: slopes[H].  H < 1 or a NULL: nothing to do. */
QKV_API void qkv_alibi_slopes(float *slopes, int64_t H);

#ifdef __cplusplus
}
#endif
#endif
