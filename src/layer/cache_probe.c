// SPDX-License-Identifier: MIT
// cache_probe.c: what new tokens looked at among those of a cache: probes over its packed keys.
#include "layer/attention_probe_work.h"
#include "layer/layer.h"

#ifndef QKV_DOUBLE
qkv_status qkv_cache_probe(const struct qkv_probe *p, const void *q, const real *lse,
                           const qkv_cache *cache, int64_t item, const struct qkv_attention *a)
{
    const struct qkv_attention_reason silent = { NULL, 0 };
    struct qkv_cache_job j;
    struct qkv_probe_work x;
    char reason[1];
    qkv_status s = qkv_cache_resolve(&j, cache, &item, 1, a, reason, sizeof reason);
    if (!s) s = qkv_probe_resolve(&x, &j.w, p, &silent);
    if (s) return s;
    x.cache = cache;
    x.item = item;
    void *scratch = qkv_alloc(x.scratch, 1);
    if (!scratch) return QKV_ERR_LIMIT;
    s = qkv_probe_run(&x, q, NULL, lse, scratch);
    qkv_free(scratch);
    return s;
}
#endif
