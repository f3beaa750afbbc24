// SPDX-License-Identifier: MIT
// bench_attention.c: implements `qkv bench attention`: measures the speed of the attention
// operator, and compares it with the peak arithmetic speed of the machine.
#include <math.h>
#include <stdlib.h>
#include "bench/bench.h"

enum { SAMPLES = 64 }; // number of output rows that are compared with a computation in double

// ---- the attention of a shape ------------------------------------------------------------------
qkv_status bench_attention_of(struct qkv_attention *a, int64_t **offsets,
                              const struct bench_shape *s, qkv_error *err)
{
    const int64_t B = s->B ? s->B : 1, T = s->T ? s->T : s->N;
    *a = (struct qkv_attention){ .B = B,
                                 .T = T,
                                 .S = s->S ? s->S : T,
                                 .H = s->H ? s->H : 1,
                                 .G = s->G   ? s->G
                                      : s->H ? s->H
                                             : 1,
                                 .E = s->E ? s->E : 64,
                                 .F = s->F   ? s->F
                                      : s->E ? s->E
                                             : 64,
                                 .precision = common.precision,
                                 .causal = s->causal || s->window,
                                 // queries are the last tokens of the sequence
                                 .diagonal = QKV_BOTTOM_RIGHT };
    *offsets = NULL;
    if (s->window) {
        a->window.on = true;
        a->window.left = s->window - 1;
        a->window.right = 0;
    }
    if (s->N && (s->T || s->S))
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--shape: N cannot be combined with T or S, found '%s'", s->name);
    if (!T)
        return cmd_error(
            err, QKV_ERR_USAGE, NULL,
            "--shape: the number of tokens is missing, expected N, or T and S, found '%s'",
            s->name);
    if (s->N_most <= s->N) return QKV_OK;
    qkv_status status;
    if ((status = bench_fits(s->name, 8.0 * (double)B, err))) return status;
    int64_t *at = *offsets = cmd_alloc((size_t)B + 1, sizeof *at);
    at[0] = 0;
    for (int64_t i = 0; i < B; i++)
        if (__builtin_add_overflow(at[i], bench_length(s, i), &at[i + 1]))
            return cmd_error(err, QKV_ERR_LIMIT, NULL,
                             "%s: the shape has too many tokens, expected less than 2^63", s->name);
    a->B = 1;
    a->T = a->S = at[B];
    a->sequences = B;
    a->q_offsets = at;
    return QKV_OK;
}

// ---- the same computation in double ------------------------------------------------------------
// Finds the keys of a query: the keys of its sequence that the causal mask and the window allow.
struct bench_query bench_query_of(const struct qkv_attention *a, int64_t b, int64_t t, int64_t h)
{
    int64_t first = 0, queries = a->T, keys = a->S;
    for (int64_t i = 0; i < a->sequences; i++)
        if (t >= a->q_offsets[i] && t < a->q_offsets[i + 1]) {
            first = a->q_offsets[i];
            queries = keys = a->q_offsets[i + 1] - first;
        }
    const int64_t own = t - first + (a->diagonal == QKV_BOTTOM_RIGHT ? keys - queries : 0);
    const int64_t to = a->causal && own + 1 < keys ? own + 1 : keys;
    const int64_t from = a->window.on && own > a->window.left ? own - a->window.left : 0;
    return (struct bench_query){ b, t, h, first + from, first + (to > from ? to : from) };
}

// Returns the largest error |out - exact| in a row of the output; s is scratch for the scores of
// the row.
static double row_error(const struct bench_query *r, const struct qkv_attention *a, const void *out,
                        const void *q, const void *k, const void *v, double *s)
{
    const qkv_precision p = a->precision;
    const int64_t g = r->h / (a->H / a->G), query = (r->b * a->T + r->t) * a->H + r->h;
    double top = -INFINITY, sum = 0, worst = 0;
    for (int64_t j = r->from; j < r->to; j++) {
        const int64_t key = ((r->b * a->S + j) * a->G + g) * a->E;
        double dot = 0;
        for (int64_t e = 0; e < a->E; e++)
            dot += bench_at(q, p, query * a->E + e) * bench_at(k, p, key + e);
        s[j - r->from] = dot /= sqrt((double)a->E);
        if (dot > top) top = dot;
    }
    for (int64_t j = 0; j < r->to - r->from; j++) sum += s[j] = exp(s[j] - top);
    for (int64_t f = 0; f < a->F; f++) {
        double o = 0;
        for (int64_t j = r->from; j < r->to; j++)
            o += s[j - r->from] * bench_at(v, p, ((r->b * a->S + j) * a->G + g) * a->F + f);
        const double away = fabs(bench_at(out, p, query * a->F + f) - (sum > 0 ? o / sum : 0));
        if (!(away <= worst)) worst = away; // a NaN counts as the worst error
    }
    return worst;
}

double bench_attention_error(const struct qkv_attention *a, const void *out, const void *q,
                             const void *k, const void *v)
{
    double *s = cmd_alloc((size_t)a->S, sizeof *s), worst = 0;
    uint64_t seed = 7;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t b = bench_below(&seed, a->B), t = bench_below(&seed, a->T);
        const struct bench_query r = bench_query_of(a, b, t, bench_below(&seed, a->H));
        const double away = row_error(&r, a, out, q, k, v, s);
        if (!(away <= worst)) worst = away;
    }
    free(s);
    return worst;
}

// ---- one shape ---------------------------------------------------------------------------------
qkv_status bench_attention_numbers(struct bench_numbers *n, const struct qkv_attention *a,
                                   const char *name, qkv_error *err)
{
    if (bench_count(&n->q, a->B * a->T, a->H, a->E) &&
        bench_count(&n->k, a->B * a->S, a->G, a->E) &&
        bench_count(&n->v, a->B * a->S, a->G, a->F) &&
        bench_count(&n->out, a->B * a->T, a->H, a->F)) {
        n->bytes = (double)bench_size(a->precision) *
                   ((double)n->q + (double)n->k + (double)n->v + (double)n->out);
        return QKV_OK;
    }
    return cmd_error(err, QKV_ERR_LIMIT, NULL,
                     "%s: the shape has too many numbers for an array, expected less than 2^59",
                     name);
}

struct job {
    struct qkv_attention a;
    struct qkv_attention_plan plan;
    int64_t *offsets;
    struct bench_numbers n;
    void *q, *k, *v, *out, *scratch;
};

static qkv_status forward(void *ctx)
{
    const struct job *j = ctx;
    return qkv_attention_forward(j->out, NULL, NULL, j->q, j->k, j->v, &j->a, j->scratch);
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    return qkv_measure_peak(j->plan.arithmetic, 0.004);
}

static void job_free(struct job *j)
{
    free(j->offsets);
    free(j->q);
    free(j->k);
    free(j->v);
    free(j->out);
    free(j->scratch);
}

// Checks that the attention of a shape can run, before anything is measured or printed. Sets *bytes
// to the size of its arrays.
static qkv_status prepare(struct job *j, double *bytes, const struct bench_shape *shape,
                          qkv_error *err)
{
    const struct qkv_attention *const a = &j->a;
    qkv_status status = bench_attention_of(&j->a, &j->offsets, shape, err);
    if (status) return status;
    j->plan = qkv_attention_plan(a);
    if (j->plan.status)
        return cmd_error(err, j->plan.status, NULL, "%s: %s", shape->name, j->plan.reason);
    if ((status = bench_attention_numbers(&j->n, a, shape->name, err))) return status;
    *bytes = j->n.bytes;
    return bench_fits(shape->name, *bytes + (double)j->plan.scratch, err);
}

static qkv_status measure_attention(struct bench_table *table, const struct bench_shape *shape,
                                    double seconds, qkv_error *err)
{
    struct job j = { .offsets = NULL };
    struct bench_result r = { .shape = shape };
    qkv_status status = prepare(&j, &r.bytes, shape, err);
    if (status) goto done;
    const struct qkv_attention *const a = &j.a;
    j.q = bench_random(j.n.q, a->precision, 1);
    j.k = bench_random(j.n.k, a->precision, 1);
    j.v = bench_random(j.n.v, a->precision, 1);
    j.out = bench_random(j.n.out, a->precision, 1);
    j.scratch = cmd_alloc(j.plan.scratch, 1);
    const struct bench_work work = { forward, peak, &j, j.plan.flops };
    if ((status = bench_rounds(&r.times, &work, seconds))) {
        cmd_error(err, status, NULL, "%s: this attention cannot run: %s", shape->name,
                  qkv_status_name(status));
        goto done;
    }
    r.isa = j.plan.isa;
    r.arithmetic = j.plan.arithmetic;
    r.flops = j.plan.flops;
    r.tokens = (double)a->B * (double)a->T;
    r.error = bench_attention_error(a, j.out, j.q, j.k, j.v);
    status = bench_row(table, &r, err);
done:
    job_free(&j);
    return status;
}

static qkv_status check_attention(const struct bench_shape *shape, qkv_error *err)
{
    struct job j = { .offsets = NULL };
    double bytes;
    const qkv_status status = prepare(&j, &bytes, shape, err);
    job_free(&j);
    return status;
}

static qkv_status run_attention(const struct bench_shape *shapes, int count, double seconds,
                                qkv_error *err)
{
    struct bench_table table = {
        .topic = "attention",
        .error = "largest error relative to the formula in double precision, on 64 rows",
        .moved = "bytes of q, k, v and out"
    };
    return bench_all(&table, shapes, count, seconds, err, check_attention, measure_attention);
}

const struct bench_topic bench_attention = {
    .name = "attention",
    .grammar = { "BTSNHGEF", "", "causal window", true },
    .shapes = "B1,H8,N2048,E64 B1,H8,N2048,E64,causal B1,H8,N2048,E128 B1,H8,N2048,E128,causal "
              "B8,H12,N128,E64 B8,H12,N128,E64,causal B64,H12,N20-54,E64",
    .run = run_attention,
};
