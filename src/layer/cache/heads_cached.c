// SPDX-License-Identifier: MIT
// heads_cached.c: computes the attention of new tokens to a KV cache, with the projections to q, k
// and v and the output projection.
//
// Adjacent slots with the same number of new tokens attend to the cache in one call, so a decoding
// step of many sequences is one call.
#include "layer/layer_internal.h"
#include "layer/heads/heads_work.h"

#ifndef QKV_DOUBLE
struct inner {
    void *q, *k, *v, *heads;
    real *wide;
    void *own; // scratch of the attention to the cache
};

static qkv_dtype type_of(const struct qkv_attention *a)
{
    return qkv_precision_type(a->precision);
}

static bool place(struct inner *at, struct qkv_arena *arena, int64_t R, const struct qkv_heads *m,
                  qkv_dtype type, size_t cache_scratch)
{
    const size_t size = qkv_dtype_size(type), rows = (size_t)R;
    const bool own = !m->kv.K;
    at->q = qkv_arena_alloc(arena, rows, (size_t)(m->H * m->E) * size);
    at->k = own ? qkv_arena_alloc(arena, rows, (size_t)(m->G * m->E) * size) : NULL;
    at->v = own ? qkv_arena_alloc(arena, rows, (size_t)(m->G * m->F) * size) : NULL;
    at->heads = qkv_arena_alloc(arena, rows, (size_t)(m->H * m->F) * size);
    at->wide = qkv_arena_alloc(arena, qkv_heads_wide(m, type, R, R), sizeof(real));
    at->own = qkv_arena_alloc(arena, cache_scratch, 1);
    return !qkv_arena_full(arena);
}

size_t qkv_heads_cached_scratch(const struct qkv_heads *m, const struct qkv_attention *a,
                                const qkv_cache *cache, int64_t R, qkv_status *status)
{
    // all items of the cache with R new tokens each: an upper bound of every call
    struct qkv_attention all = *a;
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    struct inner at;
    all.H = m->H;
    all.T = R;
    const struct qkv_attention_plan p = qkv_cache_plan(cache, &all);
    *status = p.status;
    if (!*status && !place(&at, &arena, R, m, type_of(a), p.scratch)) *status = QKV_ERR_LIMIT;
    return *status ? SIZE_MAX : arena.used;
}

// Returns the end of the run of slots that begins with slot i and has the same number of new tokens
// in each slot. A slot with an observer is a run of its own.
static int64_t alike(const struct qkv_heads_cache *c, int64_t i)
{
    const int64_t T = c->offsets[i + 1] - c->offsets[i], alone = c->trace ? c->trace->place : -1;
    int64_t end = i + 1;
    while (i != alone && end != alone && end < c->n && c->offsets[end + 1] - c->offsets[end] == T)
        end++;
    return end;
}

qkv_status qkv_heads_cached(const struct qkv_sublayer_rows *rows, const struct qkv_heads *m,
                            const struct qkv_attention *a, const struct qkv_heads_cache *c,
                            void *scratch)
{
    const int64_t R = c->offsets[c->n];
    const qkv_dtype type = type_of(a);
    const size_t size = qkv_dtype_size(type);
    const struct qkv_after after = { .y = type };
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    struct inner at;
    if (!place(&at, &arena, R, m, type, 1)) return QKV_ERR_LIMIT;
    if (c->append)
        qkv_linear_forward((void *[]){ at.q, at.k, at.v }, NULL, rows->x, R, &m->in, &after);
    else
        qkv_linear_forward(&at.q, NULL, rows->x, R, &m->in, &after);
    qkv_heads_ready(at.q, at.q, m->H * m->E, type, at.wide, R, m->H, m->norm_q, m);
    qkv_heads_quiet(at.q, type, c->offsets, c->n, m);
    if (c->append) qkv_heads_ready(at.k, at.k, m->G * m->E, type, at.wide, R, m->G, m->norm_k, m);
    for (int64_t i = 0, end; i < c->n; i = end) {
        end = alike(c, i);
        struct qkv_attention step = *a;
        const size_t r = (size_t)c->offsets[i];
        const char *q = (const char *)at.q + r * (size_t)(m->H * m->E) * size;
        char *heads = (char *)at.heads + r * (size_t)(m->H * m->F) * size;
        qkv_status status = QKV_OK;
        step.H = m->H;
        step.T = c->offsets[i + 1] - c->offsets[i];
        if (c->append)
            status = qkv_cache_append_some(c->cache, c->items + i, end - i,
                                           (const char *)at.k + r * (size_t)(m->G * m->E) * size,
                                           (const char *)at.v + r * (size_t)(m->G * m->F) * size,
                                           step.T, NULL, NULL, NULL);
        const struct qkv_heads_trace *trace = c->trace && c->trace->place == i ? c->trace : NULL;
        if (!status)
            status = qkv_cache_forward_some(heads, trace ? trace->lse : NULL,
                                            trace ? trace->weights : NULL, q, c->cache,
                                            c->items + i, end - i, &step, at.own);
        if (!status && trace) (void)!qkv_to_f32(trace->q, q, type, step.T * m->H * m->E);
        if (!status && trace && trace->probe)
            status = qkv_cache_probe(trace->probe, q, trace->lse, c->cache, c->items[i], &step);
        if (status) return status;
    }
    qkv_heads_replace(at.heads, type, c->offsets, c->n, m, c->sums);
    qkv_heads_output(rows, at.heads, type, R, m);
    return QKV_OK;
}

static bool remember(void **k, void **v, struct qkv_arena *arena, const struct qkv_heads *m,
                     qkv_dtype type, int64_t R)
{
    *k = qkv_arena_alloc(arena, (size_t)R, (size_t)(m->G * m->E) * qkv_dtype_size(type));
    *v = qkv_arena_alloc(arena, (size_t)R, (size_t)(m->G * m->F) * qkv_dtype_size(type));
    return !qkv_arena_full(arena);
}

size_t qkv_heads_remember_scratch(const struct qkv_heads *m, qkv_dtype type, int64_t R)
{
    struct qkv_arena arena = { NULL, SIZE_MAX, 0 };
    void *k, *v;
    return remember(&k, &v, &arena, m, type, R) ? arena.used : SIZE_MAX;
}

qkv_status qkv_heads_remember(qkv_cache *cache, const int64_t *items, const int64_t *offsets,
                              int64_t n, const real *memory, const struct qkv_heads *m,
                              qkv_dtype type, void *scratch)
{
    const int64_t R = offsets[n];
    const size_t size = qkv_dtype_size(type);
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    void *k, *v;
    qkv_status status = QKV_OK;
    if (!remember(&k, &v, &arena, m, type, R)) return QKV_ERR_LIMIT;
    qkv_linear_forward((void *[]){ k, v }, NULL, memory, R, &m->kv,
                       &(struct qkv_after){ .y = type });
    for (int64_t i = 0; !status && i < n; i++)
        status = qkv_cache_append(cache, items[i],
                                  (const char *)k + (size_t)(offsets[i] * m->G * m->E) * size,
                                  (const char *)v + (size_t)(offsets[i] * m->G * m->F) * size,
                                  offsets[i + 1] - offsets[i], NULL, NULL, NULL);
    return status;
}
#endif
