// SPDX-License-Identifier: MIT
// layer_internal.h: declares functions that only the files of module layer and its tests call.
#ifndef QKV_LAYER_INTERNAL_H
#define QKV_LAYER_INTERNAL_H

#include "layer/layer.h"

// ---- layer norm (norm.c) -----------------------------------------------------------------------
// Applies layer norm: s = x + residual (NULL: x); y[R][D] = (s - mean s) / sqrt(var s + eps) * w +
// b. sum receives s, for a residual stream or for backward (NULL: not stored). y, sum, x and
// residual may coincide.
void qkv_norm_forward(real *y, real *sum, const struct qkv_norm_keep *keep, const real *x,
                      const real *residual, int64_t R, const struct qkv_norm *p);

// ---- blocks of rows through several layers (lanes.c) -------------------------------------------
// Calls body(ctx, r, rows, lane) for blocks r .. r+rows-1 that cover all R rows, with lane <
// QKV_LANES. The blocks of one lane run one after the other, so each lane may have its own
// workspace. If lane 0 is the only one, its blocks may have QKV_LANES * QKV_LANE_ROWS rows.
enum { QKV_LANES = 8, QKV_LANE_ROWS = 128 };
typedef void qkv_lane_body(void *ctx, int64_t r, int64_t rows, int lane);
void qkv_lanes(int64_t R, qkv_lane_body *body, void *ctx);

#ifndef QKV_DOUBLE
// ---- probes over a KV cache (cache_probe.c) ----------------------------------------------------
// Collects attention statistics of queries q[T][H][E], T = a->T, which are the last tokens of a
// cache item and whose lse is known. Returns QKV_OK, QKV_ERR_LIMIT, or the error with which the
// attention is refused.
qkv_status qkv_cache_probe(const struct qkv_probe *p, const void *q, const real *lse,
                           const qkv_cache *cache, int64_t item, const struct qkv_attention *a);
#endif
#endif
