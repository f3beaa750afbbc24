// SPDX-License-Identifier: MIT
// heads_work.h: what attention over packed tokens and attention to a cache have in common: what
// happens to q and k before it, and to the heads behind it.
#ifndef QKV_LAYER_HEADS_WORK_H
#define QKV_LAYER_HEADS_WORK_H

#include "layer/layer.h"

// Rows x[R][H][E] of type t as scores read them: each head through its norm (NULL: none), then
// turned by the positions of m.  wide: room for R H E reals, where t is not real and there is a
// norm.
void qkv_heads_ready(void *x, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m);
// Reals that `wide` needs in all for R rows of q and S of k; 0: none.
static inline size_t qkv_heads_wide(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S)
{
    const size_t q = m->norm_q ? (size_t)(R * m->H * m->E) : 0;
    const size_t k = m->norm_k ? (size_t)(S * m->G * m->E) : 0;
    return t == QKV_REAL ? 0 : q > k ? q : k;
}
// y[R][D] = heads[R][H][F] of type t through the output projection, residual and norm.
void qkv_heads_output(real *y, const void *heads, qkv_dtype t, const real *residual,
                      const struct qkv_norm *norm, int64_t R, const struct qkv_heads *m);
// heads_ablate.c.  Rows offsets[i] .. offsets[i+1]-1 are sequence i of n; both do nothing without an
// ablation.  quiet: q[R][H][E] of type t of heads whose keys weigh the same = 0.  replace: heads
// [R][H][F] as they are given on; sums NULL: each sequence whole.
void qkv_heads_quiet(void *q, qkv_dtype t, const int64_t *offsets, int64_t n,
                     const struct qkv_heads *m);
void qkv_heads_replace(void *heads, qkv_dtype t, const int64_t *offsets, int64_t n,
                       const struct qkv_heads *m, const struct qkv_heads_sums *sums);
#endif
