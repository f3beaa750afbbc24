// SPDX-License-Identifier: MIT
// cache_probe.c: collects attention statistics of new tokens over the packed keys of a KV cache.
#include "layer/attention/attention_probe_work.h"
#include "layer/layer_internal.h"

#ifndef QKV_DOUBLE
qkv_status qkv_cache_probe(const struct qkv_probe *p, const void *q, const real *lse,
                           const qkv_cache *cache, int64_t item, const struct qkv_attention *a)
{
    const struct qkv_attention_reason silent = { NULL, 0 };
    struct qkv_cache_job j;
    struct qkv_probe_work x;
    char reason[1];
    qkv_status status = qkv_cache_resolve(&j, cache, &item, 1, a, reason, sizeof reason);
    if (!status) status = qkv_probe_resolve(&x, &j.w, p, &silent);
    if (status) return status;
    x.cache = cache;
    x.item = item;
    void *scratch = qkv_alloc(x.scratch, 1);
    if (!scratch) return QKV_ERR_LIMIT;
    status = qkv_probe_run(&x, q, NULL, lse, scratch);
    qkv_free(scratch);
    return status;
}
#endif
