// SPDX-License-Identifier: MIT
// double_library.c: exports attention of the modules compiled with real as double, by the names of
// libqkv, so that the Python package runs on it and torch.autograd.gradcheck can check its
// gradients.  lse and the gradients of bias and sinks are arrays of double; bias and sinks are
// floats.
#include "layer/attention/attention_back_work.h"
#include "layer/layer.h"
#include <qkv/attention.h>

static real *real_array(const float *p)
{
    return (real *)(void *)p;
}

static struct qkv_attention_tables tables_of(const struct qkv_attention_gradients *g)
{
    return (struct qkv_attention_tables){ real_array(g->bias.at), real_array(g->relative),
                                          real_array(g->alibi), real_array(g->sinks) };
}

QKV_API qkv_status qkv_attention_forward(void *out, float *lse, float *weights, const void *q,
                                         const void *k, const void *v,
                                         const struct qkv_attention *a, void *scratch)
{
    return qkv_attention_real(out, real_array(lse), real_array(weights), q, k, v, a, scratch);
}

QKV_API struct qkv_attention_plan
qkv_attention_backward_plan(const struct qkv_attention *a, const struct qkv_attention_gradients *g)
{
    struct qkv_attention_plan p = { 0 };
    struct qkv_attention_back b;
    const struct qkv_attention_tables t = tables_of(g);
    p.status = qkv_attention_back_resolve(&b, a, &t, p.reason, sizeof p.reason);
    if (!p.status) p.scratch = b.scratch;
    return p;
}

QKV_API qkv_status qkv_attention_backward(void *dq, void *dk, void *dv,
                                          const struct qkv_attention_gradients *g, const void *dout,
                                          const void *q, const void *k, const void *v,
                                          const void *out, const float *lse,
                                          const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_back b;
    const struct qkv_attention_tables t = tables_of(g);
    const qkv_status status = qkv_attention_back_resolve(&b, a, &t, NULL, 0);
    const struct qkv_attention_back_given given = { dq, dk, dv,  dout,    q,
                                                    k,  v,  out, scratch, real_array(lse) };
    return status ? status : qkv_attention_back_run(&b, &t, &given);
}
