// SPDX-License-Identifier: MIT
/** probe.h: collects statistics of attention weights without storing the T*S weights, by a second
 *  pass over the scores.
 *
 *  P are the attention weights of attention.h before dropout: P[t][s] = exp(score(t, s) - lse[t]),
 *  and 0 for masked keys.  With an attention sink a row of P sums to less than 1.
 *  Source: Clark et al. 2019 (arXiv 1906.04341) for entropy; Vig and Belinkov 2019 (arXiv
 *  1906.04284) for distance
 */
#ifndef QKV_PROBE_H
#define QKV_PROBE_H

#include <qkv/attention.h>

QKV_BEGIN_DECLS

/** The statistics to collect.  The caller owns the arrays; each array is written completely, or not
 *  computed if it is NULL.  B, H, T, S, i and j have the meaning of attention.h.  With packed
 *  sequences, t is the index of a packed row; keys in top_key and row_weights are counted from the
 *  first key of their sequence, keys in received and in tiles over all sequences. */
struct qkv_probe {
    int64_t top_k; /**< number of keys per row of top_weight and top_key, 0 .. S */
    /** [B][H][T][top_k] largest weights of each row in descending order, then 0 */
    float *top_weight;
    /** [B][H][T][top_k] keys of the weights in top_weight; of equal weights the smaller key is
     *  first; -1 after the last key with a weight above 0 */
    int32_t *top_key;

    int64_t rows; /**< number of rows to store completely: costs B*H*rows*S floats */
    /** [rows] indices of the rows to store completely, ascending, 0 .. T-1; with packed sequences,
     *  indices of packed rows */
    const int64_t *row;
    float *row_weights; /**< [B][H][rows][S] all weights of the rows in row[] */

    float *received; /**< [B][H][S] sum_t P[t][s]: the attention that each key receives */
    float *entropy;  /**< [B][H][T] entropy of each row: -sum_s P ln P, in nats */
    float *distance; /**< [B][H][T] mean distance of each row: sum_s P |i - j| */

    int64_t reach; /**< largest distance of the array offsets, >= 0 */
    /** [B][H][2 reach + 1] sum of P for each distance j - i = -reach .. reach; larger distances
     *  count in the first and the last element */
    float *offsets;

    /** number of tiles per side, >= 1, into which the matrix of weights is divided: row t is in
     *  tile row t*side/T, key s is in tile column s*side/S */
    int64_t side;
    /** [B][H][side][side] largest weight of each tile; 0 if all its pairs are masked */
    float *tile_max;
    float *tile_mean; /**< [B][H][side][side] mean weight of each tile; masked pairs count as 0 */
};

/** Plans qkv_attention_probe.  The member flops counts 2 E operations for each pair of query and
 *  key that is not masked.  The status is QKV_ERR_USAGE, with the reason, if a or p is NULL, top_k
 *  is above S, the rows do not ascend, or a->no_softmax is set. */
QKV_API struct qkv_attention_plan qkv_attention_probe_plan(const struct qkv_attention *a,
                                                           const struct qkv_probe *p);

/** Collects the statistics of an attention call that has run, from its lse.
 *
 *  qkv_attention_forward with a->probe = p does the same as its last step; this function ignores
 *  a->probe.
 *
 *  Out:      the arrays of p
 *  In:       q, k, lse and a of forward (with a->diagonal, masks and bias)
 *  Scratch:  qkv_attention_probe_plan(a, p).scratch bytes, 64-byte aligned; linear in T + S
 *            (side*side for tiles)
 *  Returns:  QKV_OK; the status of the plan; QKV_ERR_USAGE for an array that is missing or
 *            misaligned.  After an error nothing is written
 *  Edge:     a row that attends to no key has no top key, and its entropy and distance are 0.  If a
 *            weight of a row is not finite, the entropy and distance of the row and all sums that
 *            include the weight are NaN, and the top keys of the row are -1 with the weight NaN.
 *            Contents of masked keys have no effect.
 *  Repeats:  bit-identical for any number of threads, on one ISA.  The error bounds
 *            are in docs/numerics.md */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_probe(const struct qkv_probe *p, const void *q,
                                                      const void *k, const float *lse,
                                                      const struct qkv_attention *a, void *scratch);

/** The statistics that a run collects in every layer for an observer (model.h); a zeroed struct
 *  requests no statistics. */
struct qkv_probe_request {
    int64_t top_k; /**< number of largest weights per row; limited to the number of keys */
    int64_t rows;  /**< number of rows to store completely */
    /** [rows] indices of the rows to store completely, as in struct qkv_probe */
    const int64_t *row;
    bool received, entropy, distance;
    bool offsets;
    int64_t reach; /**< largest distance of the array offsets */
    int64_t side;  /**< number of tiles per side in tile_max and tile_mean; 0: no tiles */
};

QKV_END_DECLS
#endif
