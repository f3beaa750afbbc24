// SPDX-License-Identifier: MIT
/** attention.h: computes exact softmax attention with any mask, forward and backward, in memory
 *  linear in T + S.
 *
 *  B batch, T query tokens, S key tokens, H query heads, G key/value heads (H a multiple of G),
 *  E width of a query and key head, F width of a value head.
 */
#ifndef QKV_ATTENTION_H
#define QKV_ATTENTION_H

#include <qkv/base.h>

QKV_BEGIN_DECLS

/** The strides of an array of q, k, v or out: the number of elements from one batch item (b), token
 *  (t) or head (h) to the next.  All 0 means the default order [B][T][H][E]; the order [B][H][T][E]
 *  has the strides { H*T*E, E, T*E }.  The last axis is always contiguous. */
struct qkv_strides {
    int64_t b, t, h;
};

/** The index i of query t that `causal`, `window` and ALiBi compare with the key index j.
 *  TOP_LEFT: i = t.  BOTTOM_RIGHT: i = t + S - T, where T and S are the lengths of the sequence. */
enum qkv_diagonal { QKV_TOP_LEFT = 0, QKV_BOTTOM_RIGHT };

struct qkv_probe;

/** Describes one attention call by sizes, masks and options.  Zero is the default of every member
 *  after F; G = 0 means H, F = 0 means E.
 *
 *  The score of query i and key j is s = scale * q.k; a softcap c replaces it by c tanh(s/c); then
 *  bias and relative are added and alibi[h] |i - j| is subtracted.  The softmax of a query runs
 *  over the scores of the keys that every mask allows.
 *  i and j are counted from the first query and key of the sequence: i = t, or t + S - T with
 *  QKV_BOTTOM_RIGHT; T here is the number of queries of the longer call (all_rows). */
struct qkv_attention {
    int64_t B, T, S, H, G, E, F;
    /** A call may be a part of a longer call, such as the part of one rank.  Its T queries are then
     *  the queries first_row .. first_row + T - 1 of the all_rows queries of each batch item (or of
     *  the packed rows); q, out, lse, weights, bias and mask have the rows of these T queries only.
     *  Masks, distances, q_offsets and dropout count queries as the longer call does, so that out
     *  and lse are bit-identical to its rows.  all_rows 0: first_row + T */
    int64_t first_row, all_rows;
    qkv_precision precision; /**< precision of the computation, and type of q, k, v and out */
    float scale;             /**< factor of q.k; 0 means 1/sqrt(E); 1 means no scaling */
    float softcap;           /**< cap c of the scores, c tanh(s/c); 0: no cap */
    bool causal;             /**< attend only to keys j <= i */
    enum qkv_diagonal diagonal;
    struct {
        bool on;
        /** attend only to keys i-left .. i+right, both included; -1: unlimited */
        int64_t left, right;
    } window;
    /** [B], or with packed sequences [sequences]: number of keys that exist in each batch item or
     *  sequence; NULL: all keys exist */
    const int64_t *k_lengths;
    /** number of packed sequences; 0: not packed.  If it is > 0, B is 1, T and S are totals over
     *  the sequences, and q_offsets is required; a row outside every sequence attends to no key. */
    int64_t sequences;
    /** [sequences + 1] index of the first query of each sequence, 0 .. all_rows, not
     *  decreasing */
    const int64_t *q_offsets;
    /** [sequences + 1] index of the first key of each sequence, 0 .. S; NULL: same as q_offsets */
    const int64_t *k_offsets;
    /** A bias that is added to the scores.  With packed sequences, t is the stride from one packed
     *  row to the next, and keys are counted from the first key of their sequence. */
    struct {
        const float *at; /**< bias, added to the scores; -INFINITY masks; NULL: no bias */
        int64_t b, h, t; /**< strides in elements; 0: same for all; keys are contiguous */
    } bias;
    struct {
        const uint8_t *at; /**< mask: 0 masks a key, other values allow it; NULL: no mask */
        int64_t b, h, t;
    } mask;
    /** A relative position bias: one number per head and distance j - i.  For T5 the caller expands
     *  its buckets to distances. */
    struct {
        /** [H][2 reach + 1] numbers added to the scores: element d + reach is the number for the
         *  distance d = j - i, which is clipped to -reach .. reach; NULL: no relative bias */
        const float *at;
        int64_t reach; /**< largest distance |j - i| that `at` has a number for, >= 0 */
    } relative;
    const float *alibi; /**< [H] ALiBi slopes; NULL: no ALiBi */
    /** [H] attention sinks: one more logit per head, which is added to the softmax sum but has no
     *  value vector; NULL: no sinks */
    const float *sinks;
    /** Dropout of attention weights.  The random number of a weight depends only on seed, site and
     *  the position [b][h][t][s] of the weight (Philox4x32-10). */
    struct {
        /** probability of dropping a weight, 0 <= p < 1; other weights are multiplied by
         *  1/(1 - p) */
        float p;
        uint64_t seed, site;
    } dropout;
    struct qkv_strides q_strides, k_strides, v_strides, out_strides;
    /** omit the softmax: out is the sum of score * v over the keys that are not masked; lse is not
     *  written */
    bool no_softmax;
    /** what happens to a precision for which this CPU has no instructions.  true: the call is
     *  QKV_ERR_UNSUPPORTED, and the plan's reason names the precisions that the CPU has; false:
     *  numbers are converted to float */
    bool native;
    /** Statistics that forward collects (probe.h) in a second pass over the scores; out and lse do
     *  not change.  NULL: no statistics. */
    const struct qkv_probe *probe;
};

/** The properties of an attention call, computed before the call from sizes, lengths and offsets;
 *  the contents of mask and bias are not read. */
struct qkv_attention_plan {
    qkv_status status; /**< QKV_OK, or the error that forward would return */
    char reason[192];  /**< the reason of a refusal, "" when status is QKV_OK */
    /** the name of the kernel: "fused"; "fused additive" (qkv_multi_head_plan); "cached"
     *  (qkv_cache_plan); NULL unless status is QKV_OK */
    const char *kernel;
    const char *isa; /**< instruction set of the kernels: qkv_isa() or a weaker set */
    /** How products are computed: "float", "six bf16 products", "three bf16 products", "bf16
     *  pairs", "bf16 tiles"; 8-bit keys and values as "int16 pairs" or "int16 dot" (one instruction
     *  per pair); if the operands are first converted to float: "bf16 as float", "f16 as float",
     *  "int8 as float". */
    const char *arithmetic;
    size_t scratch; /**< bytes that forward needs for qkv_threads() threads: a multiple of 64 */
    size_t scratch_thread;        /**< bytes of scratch per thread */
    int64_t tile_rows, tile_keys; /**< number of rows (queries) and of keys in a tile */
    /** number of tiles of all batch items and heads: total, computed, and skipped because causal,
     *  window or lengths mask all their pairs.  Forward also skips the tiles in which the arrays
     *  mask and bias mask all pairs; these count as computed */
    int64_t tiles, visited, skipped;
    double flops; /**< 2 (E + F) operations for each pair that causal, window and lengths allow */
};

/** Plans this call for the current number of threads and instruction set.  The plan, and scratch of
 *  the planned size, are valid only for these; plan again after qkv_threads_set or qkv_isa_set.
 *  Allocates nothing.  If a is NULL, the status is QKV_ERR_USAGE. */
QKV_API struct qkv_attention_plan qkv_attention_plan(const struct qkv_attention *a);

/** Computes exact softmax attention.
 *
 *  out[b][t][h] = sum_s P[s] v[b][s][g],   P = softmax_s(score(t, s)),   g = h / (H/G)
 *
 *  Types:    q, k, v and out have the type that a->precision stores: bfloat16, half, or float for
 *            the F32 precisions and INT8, which quantises k and v to 8 bits, each key and value of
 *            a head with its own scale
 *  Out:      out     [B][T][H][F], or by out_strides
 *            lse     [B][H][T]     ln of the softmax sum (with sink); NULL: not stored
 *            weights [B][H][T][S]  the dense P, 0 where masked; NULL (the default): not computed
 *                    with packed sequences, each row of width S begins with the keys of its own
 *                    sequence, followed by 0
 *  In:       q [B][T][H][E];  k [B][S][G][E];  v [B][S][G][F], or any strides
 *  Scratch:  qkv_attention_plan(a).scratch bytes, 64-byte aligned, planned with the same number of
 *            threads; its size does not depend on T*S
 *  Memory:   each array is aligned to its type; q, k, v may be the same array; out, lse, weights
 *            and scratch overlap no other array
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED, QKV_ERR_LIMIT as qkv_attention_plan
 *            reports them; QKV_ERR_USAGE for an array that is missing, misaligned or overlaps an
 *            output (checked by address range; strided arrays may interleave).  After an error
 *            nothing is written.
 *  Edge:     a row with every key masked (or every score -INFINITY): out 0, lse -INFINITY
 *            (with a sink: out 0, lse = sink).
 *            NaN or Inf in a masked key, value or bias has no effect; an attended one propagates.
 *            T = 0 or B = 0: nothing to do.  S = 0: every row counts as a row with every key
 *            masked.
 *  Repeats:  bit-identical for any number of threads, other batch items, padding or packing, on one
 *            ISA; the outputs of a prefix of a causal run equal a run of the prefix alone.  The
 *            error bounds are in docs/numerics.md
 *  Source:   Vaswani et al. 2017 (arXiv 1706.03762) eq. 1; Rabe & Staats 2021 (arXiv 2112.05682)
 */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_forward(void *out, float *lse, float *weights,
                                                        const void *q, const void *k, const void *v,
                                                        const struct qkv_attention *a,
                                                        void *scratch);

/** Gradients that backward accumulates (+=) in addition to dq, dk and dv.  A NULL gradient is not
 *  computed. */
struct qkv_attention_gradients {
    struct {
        /** gradient of the bias, with the strides of a->bias.  Along an axis with stride 0 the
         *  gradients are summed, so that the gradient has the size of the bias */
        float *at;
    } bias;
    float *relative; /**< [H][2 reach + 1] gradient of a->relative */
    float *alibi;    /**< [H] gradient of the ALiBi slopes */
    float *sinks;    /**< [H] gradient of the sinks */
};

/** Plans qkv_attention_backward.  g, which may be NULL, selects gradients in addition to dq, dk,
 *  dv.  The member flops counts 2 (3 E + 2 F) operations for each pair of query and key that is not
 *  masked. */
QKV_API struct qkv_attention_plan
qkv_attention_backward_plan(const struct qkv_attention *a, const struct qkv_attention_gradients *g);

/** Computes the gradients of qkv_attention_forward from its out and lse; the weights are recomputed
 *  tile by tile.
 *
 *  P = exp(score - lse),  dP = dout v^T (with the dropout of P),  dS = P (dP - dout . out)
 *  dv = P^T dout,  dq = scale dS k,  dk = scale dS^T q   (dS times 1 - (s/c)^2 with a softcap c)
 *
 *  Out:      dq, dk, dv are written with the strides and type of q, k, v; the gradient of a key
 *            head is the sum over its query heads; it is 0 for rows outside every sequence and for
 *            keys that no row attends to
 *            g (may be NULL): float arrays to which gradients are added
 *  In:       dout with the layout of out;  q, k, v, out, lse and a of forward
 *  Scratch:  qkv_attention_backward_plan(a, g).scratch bytes, 64-byte aligned; linear in T + S
 *  Returns:  as qkv_attention_forward; QKV_ERR_UNSUPPORTED for INT8 and for no_softmax;
 *            QKV_ERR_USAGE for a gradient of a member that a does not use, and for strides that
 *            make rows of a gradient overlap
 *  Edge:     a row with every key masked has gradient 0, and its dout is not read; NaN in a masked
 *            key or value has no effect
 *  Repeats:  bit-identical for any number of threads, on one ISA
 *  Source:   Dao et al. 2022 (arXiv 2205.14135) algorithm 4 */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_backward(
    void *dq, void *dk, void *dv, const struct qkv_attention_gradients *g, const void *dout,
    const void *q, const void *k, const void *v, const void *out, const float *lse,
    const struct qkv_attention *a, void *scratch);

/** Computes y[r] = softmax(x[r]) over n columns, with row strides ldx and ldy; x and y are aligned
 *  to float and may be the same array.
 *  Numerically stable, because the maximum of the row is subtracted.  A row of only -INFINITY gives
 *  0; a row with +INFINITY or NaN gives NaN.  Nothing to do if rows < 1, n < 1, or y or x is
 *  NULL. */
QKV_API void qkv_softmax_rows(float *y, const float *x, int64_t rows, int64_t n, int64_t ldy,
                              int64_t ldx);

/** Writes the ALiBi slopes of H heads: 2^(-8(h+1)/H) for powers of two; for any other H,
 *  interleaved as in Press et al. 2022 (arXiv 2108.12409).  Out: slopes[H].  Nothing to do if H < 1
 *  or slopes is NULL. */
QKV_API void qkv_alibi_slopes(float *slopes, int64_t H);

QKV_END_DECLS
#endif
