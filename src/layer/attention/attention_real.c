// SPDX-License-Identifier: MIT
// attention_real.c: provides attention and its backward pass with lse and weights of type real. In
// the build where real is double, tests check the gradients of layers and models in double
// precision.
#include "layer/attention/attention_back_work.h"
#include "layer/attention/attention_probe_work.h"
#include "layer/layer.h"

size_t qkv_attention_real_scratch(const struct qkv_attention *a, bool backward, qkv_status *status)
{
    struct qkv_attention_work w;
    struct qkv_attention_back b = { 0 }, more = { 0 };
    real wanted = 0;
    const struct qkv_attention_tables none = { 0 }, relative = { .relative = &wanted };
    *status = qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, NULL, 0);
    if (!*status && backward) *status = qkv_attention_back_resolve(&b, a, &none, NULL, 0);
    if (!*status && backward && a->relative.at)
        *status = qkv_attention_back_resolve(&more, a, &relative, NULL, 0);
    if (*status) return SIZE_MAX;
    const size_t back = more.scratch > b.scratch ? more.scratch : b.scratch;
    return w.scratch > back ? w.scratch : back;
}

qkv_status qkv_attention_real(void *out, real *lse, real *weights, const void *q, const void *k,
                              const void *v, const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_work w;
    const qkv_status status = qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, NULL, 0);
    return status ? status : qkv_attention_run(out, lse, weights, q, k, v, &w, scratch);
}

qkv_status qkv_attention_real_backward(void *dq, void *dk, void *dv, real *drelative,
                                       const void *dout, const void *q, const void *k,
                                       const void *v, const void *out, const real *lse,
                                       const struct qkv_attention *a, void *scratch)
{
    struct qkv_attention_back b;
    const struct qkv_attention_tables tables = { .relative = drelative };
    const struct qkv_attention_back_given given = { .dq = dq,
                                                    .dk = dk,
                                                    .dv = dv,
                                                    .dout = dout,
                                                    .q = q,
                                                    .k = k,
                                                    .v = v,
                                                    .out = out,
                                                    .lse = lse,
                                                    .scratch = scratch };
    const qkv_status status = qkv_attention_back_resolve(&b, a, &tables, NULL, 0);
    return status ? status : qkv_attention_back_run(&b, &tables, &given);
}

qkv_status qkv_attention_real_probe(const struct qkv_probe *p, const void *q, const void *k,
                                    const real *lse, const struct qkv_attention *a)
{
    const struct qkv_attention_reason silent = { NULL, 0 };
    struct qkv_attention_work w;
    struct qkv_probe_work x;
    qkv_status status = qkv_attention_resolve(&w, qkv_attention_kernel_table(a), a, NULL, 0);
    if (!status) status = qkv_probe_resolve(&x, &w, p, &silent);
    if (status) return status;
    void *scratch = qkv_alloc(x.scratch, 1);
    if (!scratch) return QKV_ERR_LIMIT;
    status = qkv_probe_check(&x, q, k, lse, scratch);
    if (!status) status = qkv_probe_run(&x, q, k, lse, scratch);
    qkv_free(scratch);
    return status;
}
