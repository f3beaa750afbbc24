// SPDX-License-Identifier: MIT
/** probe.h: what an attention looked at, without its T*S weights: one more pass over the scores.
 *
 *  With P the weights, P[t][s] = exp(score(t, s) - lse[t]), 0 where masked, as attention.h has them
 *  (before any dropout; with a sink a row of P adds up to less than 1).
 *  Source: Clark et al. 2019 (arXiv 1906.04341) for entropy; Vig and Belinkov 2019 (arXiv
 *  1906.04284) for distance
 */
#ifndef QKV_PROBE_H
#define QKV_PROBE_H

#include <qkv/attention.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What to find; an array that is NULL is not wanted, zero is nothing.  Arrays are the caller's,
 *  written whole.  B, H, T, S: of the attention; i and j as there, on its diagonal.  Packed
 *  sequences: t counts packed rows; keys of top_key and row_weights count from their own sequence's
 *  first, those of received and of tiles are packed ones. */
struct qkv_probe {
    int64_t top_k;     /**< 0 .. S: of both arrays that follow, where they are wanted */
    float *top_weight; /**< [B][H][T][top_k] the largest weights of a row, falling; then 0 */
    int32_t *top_key;  /**< [B][H][T][top_k] their keys, of equal weights the smaller key first; -1
                            where no key is left that has a weight above 0 */

    int64_t rows;       /**< rows that are wanted whole: costs B*H*rows*S floats */
    const int64_t *row; /**< [rows] which, rising, 0 .. T-1; packed: of all rows */
    float *row_weights; /**< [B][H][rows][S] */

    float *received; /**< [B][H][S] sum_t P[t][s]: what each key is given by all rows */
    float *entropy;  /**< [B][H][T] -sum_s P ln P, in nats */
    float *distance; /**< [B][H][T] sum_s P |i - j| */

    int64_t reach;  /**< of offsets, >= 0 */
    float *offsets; /**< [B][H][2 reach + 1] sum of P by j - i = -reach .. reach; what is further is
                         in the first and the last number */

    int64_t side;     /**< of tiles, >= 1: row t lies in line t*side/T, key s in column s*side/S */
    float *tile_max;  /**< [B][H][side][side] largest weight of a tile; 0 where no pair lies */
    float *tile_mean; /**< [B][H][side][side] mean over all pairs of a tile, masked ones are 0 */
};

/** What qkv_attention_probe would do.  flops: 2 E for each pair that meets.  A NULL a or p, top_k
 *  over S, rows that do not rise, attention without softmax: QKV_ERR_USAGE, the reason says
 *  which. */
QKV_API struct qkv_attention_plan qkv_attention_probe_plan(const struct qkv_attention *a,
                                                           const struct qkv_probe *p);

/** The probes of an attention that ran: its lse says what each score is worth.
 *
 *  The same by qkv_attention_forward with a->probe = p, as its last step; a->probe is not looked at
 *  here.
 *
 *  Out:      what p asks for
 *  In:       q, k, lse, a as forward had them (a->diagonal, masks, bias and all)
 *  Scratch:  qkv_attention_probe_plan(a, p).scratch bytes, 64-byte aligned; linear in T + S
 *            (side*side for tiles)
 *  Returns:  QKV_OK; as the plan says; QKV_ERR_USAGE for an array that is missing or misaligned:
 *            nothing is written
 *  Edge:     a row that sees no key: no top key, entropy and distance 0.  A row with a weight that
 *            is not finite: its entropy, distance, sums that it takes part in are NaN, its top keys
 *            -1 with the weight NaN.  What a masked key holds is never seen.
 *  Repeats:  same bits for any number of threads, on one ISA.  Errors: docs/numerics.md */
QKV_API QKV_MUST_CHECK qkv_status qkv_attention_probe(const struct qkv_probe *p, const void *q,
                                                      const void *k, const float *lse,
                                                      const struct qkv_attention *a, void *scratch);

/** What a watched run (model.h) should probe in every layer that it shows; zero is nothing. */
struct qkv_probe_wish {
    int64_t top_k;      /**< 0: none; more than there are keys: as many as there are */
    int64_t rows;       /**< 0: none */
    const int64_t *row; /**< as in struct qkv_probe, of the rows that the layer has */
    bool received, entropy, distance;
    bool offsets;
    int64_t reach; /**< of offsets */
    int64_t side;  /**< 0: no tiles; else both arrays of tiles */
};

#ifdef __cplusplus
}
#endif
#endif
