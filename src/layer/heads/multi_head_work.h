// SPDX-License-Identifier: MIT
// multi_head_work.h: declares functions that the forward and backward passes of the public
// multi-head layer share.
//
// The public structures declare floats. In the build that checks gradients the arrays contain
// doubles, and qkv_reals converts the pointers.
#ifndef QKV_LAYER_MULTI_HEAD_WORK_H
#define QKV_LAYER_MULTI_HEAD_WORK_H

#include "layer/heads/heads_work.h"

static inline real *qkv_reals(const float *p)
{
    return (real *)(uintptr_t)p;
}

// Returns true if each of n arrays is aligned for floats.
static inline bool qkv_floats_aligned(const float *const *arrays, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if ((uintptr_t)arrays[i] % sizeof(float)) return false;
    return true;
}

// Returns a copy of *m in which each size that is 0 has its default.
struct qkv_multi_head qkv_multi_head_defaults(const struct qkv_multi_head *m);
// Returns QKV_OK if the widths are consistent.
qkv_status qkv_multi_head_check(const struct qkv_multi_head *m, const struct qkv_attention *a);
// The public layer as the heads of a model. `heads` points to `scores` and `once`.
struct qkv_multi_head_layer {
    struct qkv_heads heads;
    struct qkv_scores scores;
    struct qkv_linear_once once;
};
// Fills *l from the public description *m. context: rows of the keys and values; NULL:
// self-attention.
void qkv_multi_head_layer(struct qkv_multi_head_layer *l, const struct qkv_multi_head *m,
                          const float *context, qkv_precision precision);
// Returns the number of operations of all products with weights. projections, scores: operations
// per multiply-add in a projection and in a product with the score function's weights (2 in
// forward, more with backward).
double qkv_multi_head_flops(const struct qkv_multi_head *m, const struct qkv_attention *a,
                            double projections, double scores);
// Fills in p->reason if the plan is refused and its reason is empty.
void qkv_multi_head_reason(struct qkv_attention_plan *p);
#endif
