// SPDX-License-Identifier: MIT
// attention_probe_plan.c: validates a request for attention probes and computes its slices and
// scratch.
#include "layer/attention/attention_probe_work.h"
#include <string.h>

// number of units to aim for: enough for an even distribution, few copies of sums
enum { UNITS = 32 };
enum { SIDE_MAX = 1 << 16 }; // limit of `side`; its products with a size fit into 64 bits

// Returns whether an array of rows * n numbers fits into the address space.
static bool fits(int64_t rows, int64_t n)
{
    int64_t all;
    return !__builtin_mul_overflow(rows, n, &all) && all <= PTRDIFF_MAX / (int64_t)sizeof(float);
}

static qkv_status check_rows(const struct qkv_probe *p, int64_t T,
                             const struct qkv_attention_reason *say)
{
    if (p->rows < 0 || p->rows > T)
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "number of complete rows is %lld, expected 0 .. T = %lld",
                                    (long long)p->rows, (long long)T);
    if (p->rows && (!p->row || !p->row_weights))
        return qkv_attention_refuse(
            say, QKV_ERR_USAGE,
            "complete rows require the arrays row and row_weights, found NULL in %s",
            p->row ? "row_weights" : "row");
    for (int64_t i = 0; i < p->rows; i++)
        if (p->row[i] < (i ? p->row[i - 1] + 1 : 0) || p->row[i] >= T)
            return qkv_attention_refuse(
                say, QKV_ERR_USAGE,
                "complete rows are invalid, expected ascending numbers of 0 .. %lld, found %lld",
                (long long)T - 1, (long long)p->row[i]);
    return QKV_OK;
}

static qkv_status check(const struct qkv_attention *a, const struct qkv_probe *p,
                        const struct qkv_attention_reason *say)
{
    const int64_t heads = a->B * a->H, rows = heads * a->T;
    if (a->no_softmax)
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "attention statistics are not supported without softmax");
    if (p->top_k < 0 || p->top_k > a->S)
        return qkv_attention_refuse(say, QKV_ERR_USAGE, "top_k is %lld, expected 0 .. S = %lld",
                                    (long long)p->top_k, (long long)a->S);
    if (!p->top_weight != !p->top_key)
        return qkv_attention_refuse(
            say, QKV_ERR_USAGE,
            "the largest weights require the arrays top_weight and top_key, found NULL in %s",
            p->top_key ? "top_weight" : "top_key");
    if (p->offsets && (p->reach < 0 || p->reach > INT64_C(1) << 32))
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "reach of the offsets is %lld, expected 0 .. 2^32",
                                    (long long)p->reach);
    if ((p->tile_max || p->tile_mean) && (p->side < 1 || p->side > SIDE_MAX))
        return qkv_attention_refuse(say, QKV_ERR_USAGE,
                                    "number of tiles per side is %lld, expected 1 .. %d",
                                    (long long)p->side, SIDE_MAX);
    const qkv_status status = check_rows(p, a->T, say);
    if (status) return status;
    if ((p->top_weight && !fits(rows, p->top_k)) || !fits(heads * p->rows, a->S) ||
        (p->offsets && !fits(heads, 2 * p->reach + 1)) ||
        ((p->tile_max || p->tile_mean) && !fits(heads, p->side * p->side)))
        return qkv_attention_refuse(say, QKV_ERR_LIMIT,
                                    "results of the attention statistics do not fit into memory");
    return QKV_OK;
}

bool qkv_probe_memory(struct qkv_probe_memory *m, size_t *bytes, const struct qkv_probe_work *x,
                      char *at)
{
    const struct qkv_attention_work *w = &x->w;
    const struct qkv_attention_kernels *k = w->kernel;
    const size_t block = (size_t)w->block, rows = (size_t)k->rows, one = sizeof(real);
    struct qkv_arena a = { at, SIZE_MAX, 0 };
    m->row_bytes = k->pack_query ? k->query_bytes(w->a.E) : (size_t)w->a.E * w->size;
    m->keys = qkv_arena_alloc(&a, (size_t)w->chunk, k->key_bytes(w->a.E));
    m->queries = qkv_arena_alloc(&a, block + rows, m->row_bytes);
    m->s = qkv_arena_alloc(&a, rows * QKV_CHUNK, one);
    m->base = qkv_arena_alloc(&a, block, one);
    m->rest = qkv_arena_alloc(&a, block, one);
    m->least = qkv_arena_alloc(&a, block, one);
    m->entropy = qkv_arena_alloc(&a, block, one);
    m->distance = qkv_arena_alloc(&a, block, one);
    m->sum = qkv_arena_alloc(&a, QKV_CHUNK, one);
    m->most = qkv_arena_alloc(&a, QKV_CHUNK, one);
    m->diagonal = qkv_arena_alloc(&a, block + QKV_CHUNK, one);
    m->top = qkv_arena_alloc(&a, block * sizeof *m->top, (size_t)x->p.top_k);
    m->above = qkv_arena_alloc(&a, rows * QKV_CHUNK / 32, sizeof *m->above);
    *bytes = qkv_round_up(a.used, 64);
    return !qkv_arena_full(&a);
}

// The lengths of the arrays of sums for one batch item and head; length 0: the array is not
// requested.
struct counts {
    int64_t received, offsets, tile_max, tile_sum;
};
static struct counts counts_of(const struct qkv_attention *a, const struct qkv_probe *p)
{
    return (struct counts){ .received = p->received ? a->S : 0,
                            .offsets = p->offsets ? 2 * p->reach + 1 : 0,
                            .tile_max = p->tile_max ? p->side * p->side : 0,
                            .tile_sum = p->tile_mean ? p->side * p->side : 0 };
}

// Returns the number of row blocks of a batch item, or of all items if sequences are packed.
static int64_t blocks_of(const struct qkv_attention_work *w)
{
    int64_t blocks = 0;
    if (!w->a.sequences) return qkv_ceil_div(w->a.T, w->block);
    for (int64_t n = 0; n < w->items; n++)
        blocks += qkv_ceil_div(qkv_attention_item(w, n).T, w->block);
    return blocks;
}

qkv_status qkv_probe_resolve(struct qkv_probe_work *x, const struct qkv_attention_work *w,
                             const struct qkv_probe *p, const struct qkv_attention_reason *say)
{
    struct qkv_probe_memory memory;
    const qkv_status status = check(&w->a, p, say);
    if (status) return status;
    *x = (struct qkv_probe_work){ .w = *w, .p = *p, .shared = w->heads };
    if (!p->top_weight) x->p.top_k = 0;
    if (!p->offsets) x->p.reach = 0;
    if (!p->tile_max && !p->tile_mean) x->p.side = 0;
    const struct qkv_attention *a = &x->w.a;
    const int64_t pairs = a->B * a->H;
    x->w.heads = 1;
    x->slices = qkv_max64(1, qkv_min64(UNITS / qkv_max64(1, pairs), blocks_of(&x->w)));
    x->copies = sizeof(real) == sizeof(float) ? x->slices - 1 : x->slices;
    const struct counts n = counts_of(a, p);
    x->sums = (size_t)(n.received + n.offsets + n.tile_max + n.tile_sum);
    const size_t threads = (size_t)qkv_max64(1, qkv_min64(x->w.threads, pairs * x->slices));
    if (!qkv_probe_memory(&memory, &x->scratch_thread, x, NULL) ||
        !qkv_mul_size(&x->partial, x->sums * sizeof(real), (size_t)(pairs * x->copies)) ||
        x->partial > SIZE_MAX / 2 || !qkv_mul_size(&x->scratch, threads, x->scratch_thread) ||
        !qkv_add_size(&x->scratch, x->scratch, qkv_round_up(x->partial, 64)))
        return qkv_attention_refuse(say, QKV_ERR_LIMIT, "scratch does not fit into memory");
    return QKV_OK;
}

struct qkv_probe_sums qkv_probe_sums_at(const struct qkv_probe_work *x, char *copies, int64_t b,
                                        int64_t h, int64_t slice)
{
    const struct qkv_probe *p = &x->p;
    const struct counts n = counts_of(&x->w.a, p);
    const int64_t pair = b * x->w.a.H + h, copy = slice - (x->slices - x->copies);
    struct qkv_probe_sums to = { 0 };
    // the first slice adds directly to the caller's arrays, which is possible because real is float
    if (copy < 0) {
        if (n.received) to.received = (real *)(void *)(p->received + pair * n.received);
        if (n.offsets) to.offsets = (real *)(void *)(p->offsets + pair * n.offsets);
        if (n.tile_max) to.tile_max = (real *)(void *)(p->tile_max + pair * n.tile_max);
        if (n.tile_sum) to.tile_sum = (real *)(void *)(p->tile_mean + pair * n.tile_sum);
        return to;
    }
    real *at = (real *)(void *)copies + (size_t)(pair * x->copies + copy) * x->sums;
    if (n.received) to.received = at;
    if (n.offsets) to.offsets = at + n.received;
    if (n.tile_max) to.tile_max = at + n.received + n.offsets;
    if (n.tile_sum) to.tile_sum = at + n.received + n.offsets + n.tile_max;
    return to;
}

#ifndef QKV_DOUBLE
qkv_status qkv_probe_resolve_call(struct qkv_probe_work *x, const struct qkv_attention *a,
                                  const struct qkv_probe *p, char *reason, size_t size)
{
    const struct qkv_attention_reason say = { reason, size };
    struct qkv_attention_work w;
    struct qkv_attention alone;
    if (!a || !p)
        return qkv_attention_refuse(&say, QKV_ERR_USAGE, "the attention or the probe is NULL");
    alone = *a;
    alone.probe = NULL;
    const qkv_status status =
        qkv_attention_resolve(&w, qkv_attention_kernel_table(a), &alone, reason, size);
    return status ? status : qkv_probe_resolve(x, &w, p, &say);
}

QKV_API struct qkv_attention_plan qkv_attention_probe_plan(const struct qkv_attention *a,
                                                           const struct qkv_probe *p)
{
    struct qkv_attention_plan plan = { 0 };
    char reason[sizeof plan.reason] = "";
    struct qkv_probe_work x;
    const qkv_status status = qkv_probe_resolve_call(&x, a, p, reason, sizeof reason);
    if (!status) {
        plan.kernel = "probe";
        plan.isa = x.w.kernel->isa;
        plan.arithmetic = x.w.kernel->arithmetic;
        plan.scratch = x.scratch;
        plan.scratch_thread = x.scratch_thread;
        x.w.heads = x.shared; // counts tiles as forward does, over all heads that share keys
        qkv_attention_count(&plan, &x.w,
                            &(struct qkv_attention_tiling){
                                .block = x.w.block,
                                .rows = x.w.kernel->rows,
                                .keys = x.w.kernel->keys,
                                .flops = 2.0 * (double)x.w.a.E,
                            });
    }
    plan.status = status;
    memcpy(plan.reason, reason, sizeof reason);
    return plan;
}

QKV_API qkv_status qkv_attention_probe(const struct qkv_probe *p, const void *q, const void *k,
                                       const float *lse, const struct qkv_attention *a,
                                       void *scratch)
{
    struct qkv_probe_work x;
    qkv_status status = qkv_probe_resolve_call(&x, a, p, NULL, 0);
    if (!status) status = qkv_probe_check(&x, q, k, lse, scratch);
    return status ? status : qkv_probe_run(&x, q, k, lse, scratch);
}
#endif
