// SPDX-License-Identifier: MIT
// bench_decode.c: implements `qkv bench decode`: measures attention from a few new tokens to a long
// KV cache, and compares it with plainly reading as many bytes as the cache has.
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

struct job {
    struct qkv_attention a; // S, G, E, F and precision describe the cache
    struct qkv_attention_plan plan;
    int64_t n_q, n_k, n_v, n_out; // number of elements of q, k, v, out
    size_t bytes;                 // bytes of the keys and values, as the cache stores them
    qkv_cache *cache;
    void *q, *k, *v, *out, *scratch, *plain;
};

static qkv_status decode(void *ctx)
{
    const struct job *j = ctx;
    const struct qkv_attention a = { .T = j->a.T, .H = j->a.H, .causal = true };
    return qkv_cache_forward(j->out, NULL, NULL, j->q, j->cache, &a, j->scratch);
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    return bench_read(j->plain, j->bytes);
}

static void job_free(struct job *j)
{
    qkv_cache_free(j->cache);
    free(j->q);
    free(j->k);
    free(j->v);
    free(j->out);
    free(j->scratch);
    free(j->plain);
}

// Makes an empty cache and the plan of the attention.  If the shape cannot run, fails before
// anything is printed.
static qkv_status prepare(struct job *j, const struct bench_shape *s, qkv_error *err)
{
    const qkv_precision p = common.precision;
    struct qkv_attention *const a = &j->a;
    *a = (struct qkv_attention){ .B = s->B ? s->B : 1,
                                 .T = s->T ? s->T : 1,
                                 .S = s->S,
                                 .H = s->H ? s->H : 1,
                                 .G = s->G   ? s->G
                                      : s->H ? s->H
                                             : 1,
                                 .E = s->E ? s->E : 64,
                                 .F = s->F   ? s->F
                                      : s->E ? s->E
                                             : 64,
                                 .precision = p,
                                 .causal = true,
                                 .diagonal = QKV_BOTTOM_RIGHT };
    if (a->T > a->S)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s: there are more new tokens than keys in the cache, expected T of at "
                         "most %lld, found "
                         "%lld",
                         s->name, (long long)a->S, (long long)a->T);
    const struct qkv_attention_plan whole = qkv_attention_plan(a);
    if (whole.status) return cmd_error(err, whole.status, NULL, "%s: %s", s->name, whole.reason);
    if (!bench_count(&j->n_q, a->B * a->T, a->H, a->E) ||
        !bench_count(&j->n_k, a->B * a->S, a->G, a->E) ||
        !bench_count(&j->n_v, a->B * a->S, a->G, a->F) ||
        !bench_count(&j->n_out, a->B * a->T, a->H, a->F))
        return cmd_error(err, QKV_ERR_LIMIT, NULL,
                         "%s: the shape has too many numbers for an array, expected less than 2^59",
                         s->name);
    j->bytes = (size_t)(j->n_k + j->n_v) * (p == QKV_PRECISION_INT8 ? 1 : bench_size(p));
    const double arrays = (double)bench_size(p) *
                          ((double)j->n_q + (double)j->n_k + (double)j->n_v + (double)j->n_out);
    qkv_status status = bench_fits(s->name, arrays + 2.2 * (double)j->bytes, err);
    if (status) return status;
    const struct qkv_cache_shape shape = {
        .B = a->B, .G = a->G, .E = a->E, .F = a->F, .precision = p, .parts = s->P
    };
    return qkv_cache_new(&j->cache, &shape, err);
}

static qkv_status measure_decode(struct bench_table *table, const struct bench_shape *shape,
                                 double seconds, qkv_error *err)
{
    struct job j = { .cache = NULL };
    struct bench_result r = { .shape = shape };
    const struct qkv_attention *const a = &j.a;
    qkv_status status = prepare(&j, shape, err);
    if (status) goto done;
    j.q = bench_random(j.n_q, a->precision, 1);
    j.k = bench_random(j.n_k, a->precision, 1);
    j.v = bench_random(j.n_v, a->precision, 1);
    j.out = bench_random(j.n_out, a->precision, 1);
    j.plain = bench_plain(j.bytes);
    if ((status = qkv_cache_append(j.cache, QKV_CACHE_ALL, j.k, j.v, a->S, NULL, NULL, err)))
        goto done;
    const struct qkv_attention new = { .T = a->T, .H = a->H, .causal = true };
    j.plan = qkv_cache_plan(j.cache, &new);
    if ((status = j.plan.status)) {
        cmd_error(err, status, NULL, "%s: %s", shape->name, j.plan.reason);
        goto done;
    }
    j.scratch = cmd_alloc(j.plan.scratch, 1);
    const struct bench_work work = { decode, peak, &j, (double)j.bytes };
    if ((status = bench_rounds(&r.times, &work, seconds))) {
        cmd_error(err, status, NULL, "%s: this attention cannot run: %s", shape->name,
                  qkv_status_name(status));
        goto done;
    }
    r.isa = j.plan.isa;
    r.arithmetic = j.plan.arithmetic;
    r.flops = j.plan.flops;
    r.bytes = (double)j.bytes;
    r.tokens = (double)a->B * (double)a->T;
    r.error = bench_attention_error(a, j.out, j.q, j.k, j.v);
    status = bench_row(table, &r, err);
done:
    job_free(&j);
    return status;
}

static qkv_status check_decode(const struct bench_shape *shape, qkv_error *err)
{
    struct job j = { .cache = NULL };
    const qkv_status status = prepare(&j, shape, err);
    job_free(&j);
    return status;
}

static qkv_status run_decode(const struct bench_shape *shapes, int count, double seconds,
                             qkv_error *err)
{
    struct bench_table table = {
        .topic = "decode",
        .rate = BENCH_GBYTES,
        .read = true,
        .error = "largest error relative to the formula in double precision, on 64 rows",
        .moved = "bytes of the keys and values in the cache"
    };
    return bench_all(&table, shapes, count, seconds, err, check_decode, measure_decode);
}

const struct bench_topic bench_decode = {
    .name = "decode",
    .grammar = { "BTSHGEFP", "S", "", false },
    .shapes = "H32,G8,S16384,E128 H32,G8,S16384,E128,T4 H12,S2048,E64",
    .run = run_decode,
};
