// SPDX-License-Identifier: MIT
// multi_head_work.h: declares functions that the forward and backward passes of the public
// multi-head layer share.
//
// The public structures declare floats. In the build that checks gradients the arrays contain
// doubles, and qkv_reals converts the pointers.
#ifndef QKV_LAYER_MULTI_HEAD_WORK_H
#define QKV_LAYER_MULTI_HEAD_WORK_H

#include "layer/attention/attention_work.h"
#include "layer/layer_internal.h"

static inline real *qkv_reals(const float *p)
{
    return (real *)(uintptr_t)p;
}

// Returns QKV_OK if the widths, with defaults filled in, are consistent.
qkv_status qkv_multi_head_check(const struct qkv_multi_head *m, const struct qkv_attention *a);
// Returns true if additive scores support precision p; their kernels exist only for floats.
bool qkv_multi_head_additive(qkv_precision p);
// Sets the attention's sizes, strides and scale for dot-product scores.
void qkv_multi_head_shape(struct qkv_attention *a, const struct qkv_multi_head *m);
#endif
