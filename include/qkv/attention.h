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

/** One attention.  Zero is the default of every member after F; G = 0 means H, F = 0 means E.
 *
 *  score:  s = scale * q.k;  softcap c: s = c tanh(s/c);  + bias;  - alibi[h] |i - j|;  masks;
 *  softmax.  A key counts only if all masks given let it through.  i and j count from the first
 *  query and key of the sequence, i on the diagonal: i = t, or t + S - T with QKV_BOTTOM_RIGHT. */
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
    const float *alibi; /**< [H] slopes; NULL: none */
    const float *sinks; /**< [H] a logit that joins the sum and has no value; NULL: none */
    struct qkv_strides q_strides, k_strides, v_strides, out_strides;
    bool no_softmax; /**< out = sum_s score * v: a masked key counts 0, no lse */
    bool native;     /**< refuse a precision that this CPU has no products for, instead of running it by
                          conversion: QKV_ERR_UNSUPPORTED, and the plan's reason names what it has */
};

/** What a call would do, before it runs: lengths and offsets are read, mask and bias are not. */
struct qkv_attention_plan {
    qkv_status status;     /**< QKV_OK, or why forward would refuse */
    char reason[192];      /**< the reason in words, "" when OK */
    const char *kernel;    /**< "fused"; "fused additive" (qkv_multi_head_plan); "cached"
                                (qkv_cache_plan); NULL where status is not QKV_OK */
    const char *isa;       /**< whose kernels run: a row of qkv_isa_supported, qkv_isa() or weaker */
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
 *            precisions and INT8, which makes whole numbers of 8 bits of k and v, each key and value
 *            of a head with a scale of its own
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
