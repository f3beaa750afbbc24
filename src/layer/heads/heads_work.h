// SPDX-License-Identifier: MIT
// heads_work.h: declares the steps that attention over packed tokens and attention to a KV cache
// share: preparing q and k, and processing the outputs of the heads.
#ifndef QKV_LAYER_HEADS_WORK_H
#define QKV_LAYER_HEADS_WORK_H

#include "layer/attention/attention_work.h"
#include "layer/layer_internal.h"

// The rows of q, k and v of a call: row r of q begins at q + r q_ld. They are separate arrays, or
// columns of the rows that one product wrote.
struct qkv_heads_arrays {
    void *q, *k, *v;
    int64_t q_ld, k_ld, v_ld; // distances of rows, in elements
};
// Validates attention with the sizes of m, over q, k and v with these distances of rows; `at` NULL:
// separate arrays. Returns QKV_OK or the reason for which the call is refused.
qkv_status qkv_heads_resolve(struct qkv_attention_work *w, const struct qkv_heads *m,
                             const struct qkv_attention *a, const struct qkv_heads_arrays *at);
// Returns *a with the sizes of m and the distances of rows of `at`.
struct qkv_attention qkv_heads_attention(const struct qkv_heads *m, const struct qkv_attention *a,
                                         const struct qkv_heads_arrays *at);
// Returns where the projections write q, k and v on a tape, or, with the arrays of a gradient of the
// same shape, where backward writes their gradients. type: element type of the arrays.
struct qkv_heads_arrays qkv_heads_joined(void *in, void *kv, qkv_dtype type,
                                         const struct qkv_heads *m);
// Returns true if q or k has a norm, so that a tape stores both before and after the norm.
static inline bool qkv_heads_normed(const struct qkv_heads *m)
{
    return m->norm_q || m->norm_k;
}
// Copies n columns of R rows. The types are equal, or one of them is QKV_REAL. Rows are to_ld and
// from_ld elements apart.
void qkv_heads_copy(void *to, qkv_dtype to_type, int64_t to_ld, const void *from,
                    qkv_dtype from_type, int64_t from_ld, int64_t n, int64_t R);
// Prepares rows x[R][H][E] of type t (queries or keys) for the scores: applies `norm` to each head,
// then rotates by the positions of m. Rows of x are ld elements apart. to: x itself, or an array
// [R][H][E] that receives the result. norm NULL: without a norm. wide: space for R H E reals,
// needed if there is a norm and t is not real or `to` is not x.
void qkv_heads_ready(void *to, void *x, int64_t ld, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m);
// Returns the number of reals that `wide` needs for R rows of q and S rows of k, prepared in place;
// 0: `wide` may be NULL.
static inline size_t qkv_heads_wide(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S)
{
    const size_t q = m->norm_q ? (size_t)(R * m->H * m->E) : 0;
    const size_t k = m->norm_k ? (size_t)(S * m->G * m->E) : 0;
    return t == QKV_REAL ? 0 : q > k ? q : k;
}
// Applies the output projection W_o to heads[R][H][F] of type t: y[R][D] = norm(heads W_o^T + bias
// + residual), with y, norm and residual of `rows`.
void qkv_heads_output(const struct qkv_sublayer_rows *rows, const void *heads, qkv_dtype t,
                      int64_t R, const struct qkv_heads *m);
// Head ablation (heads_ablate.c); sequence i of n consists of rows offsets[i] .. offsets[i+1]-1. If
// m has no ablation, both functions do nothing. qkv_heads_quiet sets q[R][H][E] of type t to 0 for
// UNIFORM heads. qkv_heads_replace replaces heads[R][H][F] of type t by zeros or means. sums NULL:
// each sequence is complete; otherwise rows continue sequences in a KV cache.
void qkv_heads_quiet(void *q, qkv_dtype t, const int64_t *offsets, int64_t n,
                     const struct qkv_heads *m);
void qkv_heads_replace(void *heads, qkv_dtype t, const int64_t *offsets, int64_t n,
                       const struct qkv_heads *m, const struct qkv_heads_sums *sums);
#endif
