// SPDX-License-Identifier: MIT
// layer_internal.h: declares functions that only the files of module layer and its tests call.
#ifndef QKV_LAYER_INTERNAL_H
#define QKV_LAYER_INTERNAL_H

#include "layer/layer.h"

// ---- layer norm (norm.c) -----------------------------------------------------------------------
// Applies layer norm to s = x + residual (residual NULL: s = x): y[R][D] = (s - mean s) / sqrt(var
// s + eps) * w + b. sum receives s, for a residual stream or for backward; sum NULL: not stored.
// The arrays y, sum, x and residual may be the same.
void qkv_norm_forward(real *y, real *sum, const struct qkv_norm_keep *keep, const real *x,
                      const real *residual, int64_t R, const struct qkv_norm *p);

// ---- blocks of rows through several layers (lanes.c) -------------------------------------------
// Calls body(ctx, r, rows, lane) for blocks r .. r+rows-1 that cover all R rows, with lane <
// QKV_LANES. The blocks of one lane run one after the other, so each lane may have its own
// workspace. If lane 0 is the only one, its blocks may have QKV_LANES * QKV_LANE_ROWS rows.
enum { QKV_LANES = 8, QKV_LANE_ROWS = 128 };
typedef void qkv_lane_body(void *ctx, int64_t r, int64_t rows, int lane);
void qkv_lanes(int64_t R, qkv_lane_body *body, void *ctx);

// ---- copies between real and 16-bit types (copy_rows.c) ----------------------------------------
// Copies n columns of R rows. The types are equal, or one of them is QKV_REAL. Rows are to_ld and
// from_ld elements apart.
void qkv_copy_rows(void *to, qkv_dtype to_type, int64_t to_ld, const void *from,
                   qkv_dtype from_type, int64_t from_ld, int64_t n, int64_t R);
// Converts from[n] of a 16-bit type to reals; does nothing if `to` is NULL or type is QKV_REAL.
void qkv_widen(real *to, const void *from, qkv_dtype type, int64_t n);
// Converts reals from[n] to `type`, rounded to nearest even.
void qkv_narrow(void *to, qkv_dtype type, const real *from, int64_t n);

// ---- activation of feed-forward over whole rows (mlp.c) ----------------------------------------
// Returns the element type of the arrays of a tape.
static inline qkv_dtype qkv_mlp_tape_type(const struct qkv_mlp *m)
{
    return qkv_stored_type(m->down.once->precision);
}
// If d_up is NULL, computes inner[R][M] = act(up) or, if m is gated, act(gate) * up, from the array
// `up` of struct qkv_mlp_tape. If d_up is set, inner is the gradient of that result, and the
// function writes d_up, the gradient of `up`.
void qkv_mlp_activate(void *inner, const void *up, void *d_up, int64_t R, const struct qkv_mlp *m);

#ifndef QKV_DOUBLE
// ---- probes over a KV cache (cache_probe.c) ----------------------------------------------------
// Collects the attention statistics of queries q[T][H][E], T = a->T: the last T tokens of a cache
// item, whose lse has been computed. Returns QKV_OK, QKV_ERR_LIMIT, or the error with which the
// attention is refused.
qkv_status qkv_cache_probe(const struct qkv_probe *p, const void *q, const real *lse,
                           const qkv_cache *cache, int64_t item, const struct qkv_attention *a);
#endif
#endif
