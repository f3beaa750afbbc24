// SPDX-License-Identifier: MIT
// heads_work.h: declares the steps of attention with projections: score functions, checks,
// preparation of q and k, output projection, ablation. Attention over packed tokens, attention to a
// KV cache and the public layer share them.
#ifndef QKV_LAYER_HEADS_WORK_H
#define QKV_LAYER_HEADS_WORK_H

#include "layer/attention/attention_work.h"
#include "layer/layer_internal.h"

// A score function other than the dot product, with its weights (qkv/layer.h, struct
// qkv_multi_head).
struct qkv_scores {
    enum qkv_score kind; // QKV_SCORE_BILINEAR or QKV_SCORE_ADDITIVE
    int64_t d_a;
    const real *w_s, *w_aq, *w_ak, *w_a;
    // gradients of the weights, to which backward adds; NULL: not computed
    real *dw_s, *dw_aq, *dw_ak, *dw_a;
    const struct qkv_linear_once *once; // how the products with these weights pack them
};
static inline bool qkv_heads_additive(const struct qkv_heads *m)
{
    return m->scores && m->scores->kind == QKV_SCORE_ADDITIVE;
}
// The arrays that attention reads in place of q, k and v if the score is not a dot product. A
// member that is NULL is not replaced: attention reads q, k or v itself.
//   bilinear  q: [R][H][E] q W_s
//   additive  q: [R][H][2 d_a] W_q q followed by w;  k: [S][H][key_width] W_k k in the first d_a
//             columns;  v: [S][H][F] values repeated for each query head
struct qkv_score_arrays {
    void *q, *k, *v;
    int64_t key_width; // d_a in forward, 2 d_a in backward
};
// Allocates the arrays of s; s->v only if `repeated`: the values are repeated for each query head.
void qkv_score_take(struct qkv_score_arrays *s, struct qkv_arena *arena, const struct qkv_heads *m,
                    int64_t R, int64_t S, size_t size, bool repeated);
// Sets the sizes and strides of *a for additive scores over the arrays of struct qkv_score_arrays.
// Returns QKV_OK, QKV_ERR_UNSUPPORTED if the precision does not store floats, or QKV_ERR_LIMIT.
qkv_status qkv_score_shape(struct qkv_attention *a, const struct qkv_heads *m);
// Returns true if additive scores support precision p; their kernels exist only for floats.
bool qkv_score_additive(qkv_precision p);
// Returns the bytes that m->scores->once->scratch must have for the products of the score function
// in forward and, if `back` is true, also in backward.
size_t qkv_score_scratch(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S, bool back);
// Fills the arrays of s from q, k and v, which are separate arrays of type t.
void qkv_score_fill(const struct qkv_score_arrays *s, const void *q, const void *k, const void *v,
                    qkv_dtype t, int64_t R, int64_t S, const struct qkv_heads *m);
// Computes the gradients of q, k and v into the arrays of d, and adds the gradients of the score
// function's weights (scores_backward.c). `from` has the gradients of the arrays that
// qkv_score_fill fills.
void qkv_score_backward(const struct qkv_heads_arrays *d, const struct qkv_score_arrays *from,
                        const void *q, const void *k, qkv_dtype t, int64_t R, int64_t S,
                        const struct qkv_heads *m);

// Validates attention with the sizes of m and fills *w. `at` gives the distances of the rows of q,
// k and v; `at` NULL: q, k and v are separate arrays. Returns QKV_OK, or the status with which the
// call is refused; reason[size] receives the cause as text (size 0: not requested).
qkv_status qkv_heads_resolve(struct qkv_attention_work *w, const struct qkv_heads *m,
                             const struct qkv_attention *a, const struct qkv_heads_arrays *at,
                             char *reason, size_t size);
// Returns *a with the sizes of m, and with the distances of rows in `at` as strides.
struct qkv_attention qkv_heads_attention(const struct qkv_heads *m, const struct qkv_attention *a,
                                         const struct qkv_heads_arrays *at);
// Returns the bytes of scratch for the matrix products of a call (its projections and its score
// function) with R rows, S keys and arrays of type t. The products run one at a time, so it is the
// most that one of them needs. back true: backward's products are included.
size_t qkv_heads_product_scratch(const struct qkv_heads *m, qkv_dtype t, int64_t R, int64_t S,
                                 bool back);
struct qkv_attention_back;
struct qkv_attention_tables;
// Validates the backward pass of attention with the sizes of m and fills *back; `at`, reason and
// the result are as for qkv_heads_resolve. tables: gradients that backward computes in addition to
// the gradients of q, k and v.
qkv_status qkv_heads_back_resolve(struct qkv_attention_back *back, const struct qkv_heads *m,
                                  const struct qkv_attention *a, const struct qkv_heads_arrays *at,
                                  const struct qkv_attention_tables *tables, char *reason,
                                  size_t size);
// Returns true if q or k has a norm. Then q and k before and after the norm are different arrays of
// the tape.
static inline bool qkv_heads_normed(const struct qkv_heads *m)
{
    return m->norm_q || m->norm_k;
}
// Prepares rows x[R][H][E] of type t (queries or keys) for the scores: applies `norm` to each head,
// then rotates by the positions of m if m->rope is set. Rows of x are ld elements apart. to: x
// itself, or an array [R][H][E] that receives the result. norm NULL: no norm is applied. wide:
// space for R H E reals, needed only if there is a norm, and t is not real or `to` is not x.
void qkv_heads_ready(void *to, void *x, int64_t ld, qkv_dtype t, real *wide, int64_t R, int64_t H,
                     const struct qkv_norm *norm, const struct qkv_heads *m);
// Returns the number of reals in the array `wide` with which qkv_heads_ready prepares R rows of q
// or S rows of k in place; 0: `wide` may be NULL.
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
// UNIFORM heads. qkv_heads_replace replaces the outputs of ZERO and MEAN heads in heads[R][H][F] of
// type t. sums NULL: the rows are complete sequences; otherwise the rows continue sequences in a KV
// cache.
void qkv_heads_quiet(void *q, qkv_dtype t, const int64_t *offsets, int64_t n,
                     const struct qkv_heads *m);
void qkv_heads_replace(void *heads, qkv_dtype t, const int64_t *offsets, int64_t n,
                       const struct qkv_heads *m, const struct qkv_heads_sums *sums);

// Returns the rows of a call that this process has.
static inline int64_t qkv_heads_rows(const struct qkv_heads *m, const struct qkv_attention *a)
{
    return m->ranks ? m->ranks->rows : a->B * a->T;
}

// ---- rows that ranks share (heads_ranks.c) -----------------------------------------------------
// q, k and v after norm and rotation, and the outputs of the heads, or the gradients of all four.
struct qkv_heads_ranks_rows {
    struct qkv_heads_arrays at;
    void *heads;
};
// Returns the rows with q and k, which are separate arrays if they have norms.
static inline struct qkv_heads_ranks_rows qkv_heads_ranks_of(const struct qkv_heads_arrays *at,
                                                             void *q, void *k, void *heads,
                                                             const struct qkv_heads *m)
{
    const bool normed = m->norm_q || m->norm_k;
    struct qkv_heads_ranks_rows x = { *at, heads };
    x.at.q = q;
    x.at.k = k;
    if (normed) x.at.q_ld = m->H * m->E;
    if (normed) x.at.k_ld = m->G * m->E;
    return x;
}
size_t qkv_heads_ranks_scratch(const struct qkv_heads *m, const struct qkv_attention *a, bool back,
                               qkv_status *status);
// Computes x->heads and lse.
qkv_status qkv_heads_ranks_forward(const struct qkv_heads_ranks_rows *x, real *lse,
                                   const struct qkv_heads *m, const struct qkv_attention *a,
                                   void *scratch);
// Computes d->at from d->heads.
qkv_status qkv_heads_ranks_backward(const struct qkv_heads_ranks_rows *x,
                                    const struct qkv_heads_ranks_rows *d, const real *lse,
                                    const struct qkv_heads *m, const struct qkv_attention *a,
                                    void *scratch);
#endif
