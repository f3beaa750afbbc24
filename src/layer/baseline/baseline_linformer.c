// SPDX-License-Identifier: MIT
// baseline_linformer.c: computes Linformer attention: exact attention to keys and values that are
// projected along the token axis, from S tokens to `rank` rows.
//
// The keys of all heads are adjacent in the row of a token, so their projection is one product:
// P[rank][S] times k[S][G E]. The same is true of the values.
#include "layer/baseline/baseline_work.h"
#include <string.h>

#ifndef QKV_DOUBLE
struct linformer {
    struct qkv_baseline_heads h;
    struct qkv_attention a;
    float *k, *v; // projected keys [B][rank][G][E] and values [B][rank][G][F]
    char *once, *attention;
};

static struct qkv_baseline_plan linformer_plan(struct linformer *at, const struct qkv_linformer *l,
                                               struct qkv_arena *arena)
{
    struct qkv_baseline_plan p = { 0 };
    at->h = (struct qkv_baseline_heads){ l->B, l->T, l->S, l->H, l->G, l->E, l->F, 0, 0, 0, 0 };
    qkv_baseline_heads(&at->h, &p);
    qkv_baseline_size(&p, "rank", l->rank, 1);
    const struct qkv_baseline_heads *h = &at->h;
    const float scale = qkv_baseline_scale(&p, l->scale, h->E);
    const int64_t k = qkv_baseline_count(&p, h->B, l->rank, h->G, h->E);
    const int64_t v = qkv_baseline_count(&p, h->B, l->rank, h->G, h->F);
    qkv_baseline_count(&p, l->rank, h->S, 1, 1);
    if (p.status) return p;
    const struct qkv_linear_once once = qkv_baseline_once(NULL);
    const size_t one = qkv_linear_once_scratch(&once, h->S, h->G * h->E);
    const size_t two = qkv_linear_once_scratch(&once, h->S, h->G * h->F);
    at->a = qkv_baseline_exact(h, h->T, l->rank, h->G, scale);
    at->k = qkv_arena_alloc(arena, (size_t)k, sizeof(float));
    at->v = qkv_arena_alloc(arena, (size_t)v, sizeof(float));
    at->once = qkv_arena_alloc(arena, 1, one > two ? one : two);
    at->attention = qkv_arena_alloc(arena, 1, qkv_baseline_exact_scratch(&p, &at->a));
    qkv_baseline_scratch(&p, arena);
    p.flops += 2 * (double)l->rank * ((double)h->k + (double)h->v);
    return p;
}

QKV_API struct qkv_baseline_plan qkv_linformer_plan(const struct qkv_linformer *l)
{
    struct linformer at;
    struct qkv_arena count = { NULL, SIZE_MAX, 0 };
    struct qkv_baseline_plan none = { 0 };
    if (l) return linformer_plan(&at, l, &count);
    qkv_baseline_refuse(&none, QKV_ERR_USAGE, "the attention is NULL");
    return none;
}

// Projects along the tokens: to[b][rank][N] = p[rank][S] x[b][S][N].
static void project(float *to, const float *p, const float *x, const struct qkv_linformer *l,
                    int64_t N, char *scratch)
{
    const struct qkv_linear_once once = qkv_baseline_once(scratch);
    for (int64_t b = 0; b < l->B; b++) {
        const struct qkv_linear_part part = { N, x + b * l->S * N, NULL, true };
        qkv_linear_once(to + b * l->rank * N, N, p, l->S, l->rank, l->S, &part, NULL, &once);
    }
}

QKV_API qkv_status qkv_linformer_forward(float *out, const float *q, const float *k, const float *v,
                                         const struct qkv_linformer *l, void *scratch)
{
    struct linformer at;
    struct qkv_arena arena = { scratch, SIZE_MAX, 0 };
    if (!l) return QKV_ERR_USAGE;
    const struct qkv_baseline_plan p = linformer_plan(&at, l, &arena);
    const struct qkv_baseline_heads *h = &at.h;
    if (p.status || !h->out) return p.status;
    const float *const p_v = l->p_v ? l->p_v : l->p_k;
    const struct qkv_baseline_array arrays[] = {
        { out, h->out },        { q, h->q }, { k, h->k }, { v, h->v }, { l->p_k, l->rank * h->S },
        { p_v, l->rank * h->S }
    };
    if (!qkv_baseline_arrays(arrays, 1, 6, scratch, p.scratch)) return QKV_ERR_USAGE;
    project(at.k, l->p_k, k, l, h->G * h->E, at.once);
    project(at.v, p_v, v, l, h->G * h->F, at.once);
    return qkv_attention_forward(out, NULL, NULL, q, at.k, at.v, &at.a, at.attention);
}

QKV_API void qkv_segment_means(float *p, int64_t rank, int64_t S)
{
    if (!p || rank < 1 || S < rank) return;
    memset(p, 0, (size_t)rank * (size_t)S * sizeof *p);
    for (int64_t r = 0; r < rank; r++) {
        const struct qkv_baseline_segment x = qkv_baseline_segment(r, S, rank);
        for (int64_t s = x.from; s < x.to; s++) p[r * S + s] = 1 / (float)(x.to - x.from);
    }
}
#endif
