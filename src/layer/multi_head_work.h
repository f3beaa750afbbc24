// SPDX-License-Identifier: MIT
// multi_head_work.h: what forward and backward of the public multi-head layer share.
//
// The public structures name floats.  In the build that checks gradients arrays hold double, and
// these pointers are taken for what they point to.
#ifndef QKV_LAYER_MULTI_HEAD_WORK_H
#define QKV_LAYER_MULTI_HEAD_WORK_H

#include "layer/attention_work.h"
#include "layer/layer.h"

static inline real *qkv_reals(const float *p)
{
    return (real *)(uintptr_t)p;
}

// Widths, their defaults filled in: do they fit together?
qkv_status qkv_multi_head_check(const struct qkv_multi_head *m, const struct qkv_attention *a);
// Additive scores have one family of kernels: floats in, products of floats.
bool qkv_multi_head_additive(qkv_precision p);
// The operator's sizes, strides and scale where scores are dot products.
void qkv_multi_head_shape(struct qkv_attention *a, const struct qkv_multi_head *m);
// to[n] of type = from[n].
void qkv_multi_head_narrow(void *to, qkv_dtype type, const real *from, int64_t n);
#endif
