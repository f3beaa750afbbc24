// SPDX-License-Identifier: MIT
// baseline_check.c: checks sizes, arrays and scratch for all baseline layers, and multiplies small
// matrices with the linear kernels.
#include "layer/baseline/baseline_work.h"
#include <math.h>
#include <stdio.h>

// limits: a size is less than 2^31, an array has less than 2^48 numbers
enum { SIZE_BITS = 31, ARRAY_BITS = 48 };

void qkv_baseline_refuse(struct qkv_baseline_plan *p, qkv_status status, const char *format, ...)
{
    va_list more;
    if (p->status) return;
    p->status = status;
    p->scratch = 0;
    va_start(more, format);
    vsnprintf(p->reason, sizeof p->reason, format, more);
    va_end(more);
}

void qkv_baseline_size(struct qkv_baseline_plan *p, const char *name, int64_t value, int64_t least)
{
    if (value < least)
        qkv_baseline_refuse(p, QKV_ERR_USAGE, "size %s is %lld, expected %lld or more", name,
                            (long long)value, (long long)least);
    else if (value >> SIZE_BITS)
        qkv_baseline_refuse(p, QKV_ERR_LIMIT, "size %s is %lld, expected less than 2^%d", name,
                            (long long)value, SIZE_BITS);
}

int64_t qkv_baseline_count(struct qkv_baseline_plan *p, int64_t a, int64_t b, int64_t c, int64_t d)
{
    int64_t n;
    if (p->status) return 0;
    if (!__builtin_mul_overflow(a, b, &n) && !__builtin_mul_overflow(n, c, &n) &&
        !__builtin_mul_overflow(n, d, &n) && !(n >> ARRAY_BITS))
        return n;
    qkv_baseline_refuse(p, QKV_ERR_LIMIT,
                        "an array has %lld x %lld x %lld x %lld numbers, expected less than 2^%d",
                        (long long)a, (long long)b, (long long)c, (long long)d, ARRAY_BITS);
    return 0;
}

void qkv_baseline_heads(struct qkv_baseline_heads *h, struct qkv_baseline_plan *p)
{
    if (!h->G) h->G = h->H;
    if (!h->F) h->F = h->E;
    qkv_baseline_size(p, "B", h->B, 0);
    qkv_baseline_size(p, "T", h->T, 0);
    qkv_baseline_size(p, "S", h->S, 0);
    qkv_baseline_size(p, "H", h->H, 1);
    qkv_baseline_size(p, "G", h->G, 1);
    qkv_baseline_size(p, "E", h->E, 1);
    qkv_baseline_size(p, "F", h->F, 1);
    if (!p->status && h->H % h->G)
        qkv_baseline_refuse(p, QKV_ERR_USAGE,
                            "number of query heads H is %lld, expected a multiple of G, %lld",
                            (long long)h->H, (long long)h->G);
    h->q = qkv_baseline_count(p, h->B, h->T, h->H, h->E);
    h->out = qkv_baseline_count(p, h->B, h->T, h->H, h->F);
    h->k = qkv_baseline_count(p, h->B, h->S, h->G, h->E);
    h->v = qkv_baseline_count(p, h->B, h->S, h->G, h->F);
}

float qkv_baseline_scale(struct qkv_baseline_plan *p, float scale, int64_t E)
{
    if (!isfinite(scale))
        qkv_baseline_refuse(p, QKV_ERR_USAGE, "scale is not finite, expected a finite number");
    return scale != 0 || E < 1 ? scale : (float)(1 / sqrt((double)E));
}

void qkv_baseline_scratch(struct qkv_baseline_plan *p, const struct qkv_arena *a)
{
    if (p->status) return;
    if (qkv_arena_full(a))
        qkv_baseline_refuse(p, QKV_ERR_LIMIT, "scratch does not fit into memory");
    else
        p->scratch = qkv_round_up(a->used, 64);
}

struct qkv_attention qkv_baseline_exact(const struct qkv_baseline_heads *h, int64_t T, int64_t S,
                                        int64_t G, float scale)
{
    return (struct qkv_attention){
        .B = h->B, .T = T, .S = S, .H = h->H, .G = G, .E = h->E, .F = h->F, .scale = scale
    };
}

#ifndef QKV_DOUBLE
size_t qkv_baseline_exact_scratch(struct qkv_baseline_plan *p, const struct qkv_attention *a)
{
    const struct qkv_attention_plan plan = qkv_attention_plan(a);
    if (plan.status) qkv_baseline_refuse(p, plan.status, "%s", plan.reason);
    p->flops += plan.flops;
    return plan.scratch;
}
#endif

static bool meet(const struct qkv_baseline_array *a, const void *at, size_t bytes)
{
    const uintptr_t x = (uintptr_t)a->at, y = (uintptr_t)at;
    return a->n && bytes && x < y + bytes && y < x + (uintptr_t)a->n * sizeof(real);
}

bool qkv_baseline_arrays(const struct qkv_baseline_array *a, int written, int count,
                         const void *scratch, size_t bytes)
{
    if (bytes && (!scratch || (uintptr_t)scratch % 64)) return false;
    for (int i = 0; i < count; i++) {
        if (!a[i].n) continue;
        if (!a[i].at || (uintptr_t)a[i].at % sizeof(float) || meet(&a[i], scratch, bytes))
            return false;
        for (int j = 0; j < i && j < written; j++)
            if (a[j].n && meet(&a[i], a[j].at, (size_t)a[j].n * sizeof(real))) return false;
    }
    return true;
}

// ---- products ----------------------------------------------------------------------------------
static const struct qkv_linear_kernel *products(void)
{
    return qkv_kernel()->linear[QKV_PRECISION_F32];
}

size_t qkv_baseline_panels(int64_t K, int64_t N)
{
    size_t bytes;
    return qkv_mul_size(&bytes, (size_t)qkv_ceil_div(N, products()->panel),
                        products()->panel_bytes(K))
               ? bytes
               : SIZE_MAX;
}

void qkv_baseline_pack(void *panels, const real *w, int64_t K, int64_t N, int64_t ldn, int64_t ldk)
{
    products()->pack(panels, w, QKV_REAL, K, N, ldn, ldk);
}

void qkv_baseline_rows(const struct qkv_baseline_product *p)
{
    const struct qkv_linear_tail tail = { .x = QKV_REAL,
                                          .y = QKV_REAL,
                                          .scale = p->scale != 0 ? p->scale : 1,
                                          .residual = p->add ? p->y : NULL,
                                          .residual_ld = p->ldy };
    products()->rows(p->y, p->ldy, p->x, p->ldx, p->panels, p->R, p->K, p->N, &tail);
}
