// SPDX-License-Identifier: MIT
// heads_work.h: declares the steps that attention over packed tokens and attention to a KV cache
// share: preparing q and k, and processing the outputs of the heads.
#ifndef QKV_LAYER_HEADS_WORK_H
#define QKV_LAYER_HEADS_WORK_H

#include "layer/layer_internal.h"

// Prepares rows x[R][H][E] of type t (queries or keys) for the scores: applies `norm` to each head,
// then rotates by the positions of m. norm NULL: without a norm. wide: space for R H E reals,
// needed if t is not real and there is a norm.
void qkv_heads_ready(void *x, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m);
// Returns the number of reals that `wide` needs for R rows of q and S rows of k; 0: `wide` may be
// NULL.
static inline size_t qkv_heads_wide(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S)
{
    const size_t q = m->norm_q ? (size_t)(R * m->H * m->E) : 0;
    const size_t k = m->norm_k ? (size_t)(S * m->G * m->E) : 0;
    return t == QKV_REAL ? 0 : q > k ? q : k;
}
// Applies the output projection W_o to heads[R][H][F] of type t: y[R][D] = norm(heads W_o^T + bias
// + residual).
void qkv_heads_output(real *y, const void *heads, qkv_dtype t, const real *residual,
                      const struct qkv_norm *norm, int64_t R, const struct qkv_heads *m);
// Head ablation (heads_ablate.c); sequence i of n consists of rows offsets[i] .. offsets[i+1]-1. If
// m has no ablation, both functions do nothing. qkv_heads_quiet sets q[R][H][E] of type t to 0 for
// UNIFORM heads. qkv_heads_replace replaces heads[R][H][F] of type t by zeros or means. sums NULL:
// each sequence is complete; otherwise rows continue sequences in a KV cache.
void qkv_heads_quiet(void *q, qkv_dtype t, const int64_t *offsets, int64_t n,
                     const struct qkv_heads *m);
void qkv_heads_replace(void *heads, qkv_dtype t, const int64_t *offsets, int64_t n,
                       const struct qkv_heads *m, const struct qkv_heads_sums *sums);
#endif
