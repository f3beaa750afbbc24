// SPDX-License-Identifier: MIT
// bench_attention_backward.c: implements `qkv bench attention-backward`: measures the speed of
// computing the gradients of q, k and v, and compares it with the peak arithmetic speed of the
// machine.
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "bench/bench.h"

enum { SAMPLES = 64 }; // number of rows of dq that are compared with a computation in double

struct job {
    struct qkv_attention a;
    struct qkv_attention_plan forward, plan;
    int64_t *offsets;
    struct bench_numbers n;
    void *q, *k, *v, *out, *dout, *dq, *dk, *dv, *scratch;
    float *lse;
    bool both; // true: forward and backward are measured together; false: only backward
};

static qkv_status forward(const struct job *j)
{
    return qkv_attention_forward(j->out, j->lse, NULL, j->q, j->k, j->v, &j->a, j->scratch);
}

static qkv_status turn(void *ctx)
{
    const struct job *j = ctx;
    const qkv_status status = j->both ? forward(j) : QKV_OK;
    return status ? status
                  : qkv_attention_backward(j->dq, j->dk, j->dv, NULL, j->dout, j->q, j->k, j->v,
                                           j->out, j->lse, &j->a, j->scratch);
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    return qkv_measure_peak(j->plan.arithmetic, 0.004);
}

// Returns the largest error |dq - exact| in a row of dq; p and dp are scratch for the scores of the
// row.
static double row_error(const struct job *j, const struct bench_query *r, double *p, double *dp)
{
    const struct qkv_attention *const a = &j->a;
    const qkv_precision type = a->precision;
    const int64_t g = r->h / (a->H / a->G), row = (r->b * a->T + r->t) * a->H + r->h;
    double top = -INFINITY, sum = 0, d = 0, worst = 0;
    for (int64_t i = r->from; i < r->to; i++) {
        const int64_t key = (r->b * a->S + i) * a->G + g;
        double dot = 0, slope = 0;
        for (int64_t e = 0; e < a->E; e++)
            dot += bench_at(j->q, type, row * a->E + e) * bench_at(j->k, type, key * a->E + e);
        for (int64_t f = 0; f < a->F; f++)
            slope += bench_at(j->dout, type, row * a->F + f) * bench_at(j->v, type, key * a->F + f);
        p[i - r->from] = dot /= sqrt((double)a->E);
        dp[i - r->from] = slope;
        if (dot > top) top = dot;
    }
    for (int64_t i = 0; i < r->to - r->from; i++) {
        sum += p[i] = exp(p[i] - top);
        d += p[i] * dp[i];
    }
    for (int64_t e = 0; e < a->E; e++) {
        double dq = 0;
        for (int64_t i = 0; i < r->to - r->from; i++) {
            const int64_t key = (r->b * a->S + r->from + i) * a->G + g;
            dq += p[i] * (dp[i] - d / sum) * bench_at(j->k, type, key * a->E + e);
        }
        const double exact = sum > 0 ? dq / sum / sqrt((double)a->E) : 0;
        const double away = fabs(bench_at(j->dq, type, row * a->E + e) - exact);
        if (!(away <= worst)) worst = away; // a NaN counts as the worst error
    }
    return worst;
}

static double error(const struct job *j)
{
    const struct qkv_attention *const a = &j->a;
    double *p = cmd_alloc((size_t)a->S, 2 * sizeof *p), worst = 0;
    uint64_t seed = 7;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t b = bench_below(&seed, a->B), t = bench_below(&seed, a->T);
        const struct bench_query r = bench_query_of(a, b, t, bench_below(&seed, a->H));
        const double away = row_error(j, &r, p, p + a->S);
        if (!(away <= worst)) worst = away;
    }
    free(p);
    return worst;
}

static void job_free(struct job *j)
{
    void *const all[] = { j->offsets, j->q,  j->k,  j->v,       j->out, j->dout,
                          j->dq,      j->dk, j->dv, j->scratch, j->lse };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

// Checks that the attention of a shape can run, before anything is measured or printed. Sets *bytes
// to the size of its arrays.
static qkv_status prepare(struct job *j, double *bytes, const struct bench_shape *shape,
                          qkv_error *err)
{
    const struct qkv_attention *const a = &j->a;
    qkv_status status = bench_attention_of(&j->a, &j->offsets, shape, err);
    if (status) return status;
    j->both = shape->forward;
    j->forward = qkv_attention_plan(a);
    j->plan = qkv_attention_backward_plan(a, NULL);
    if (j->plan.status)
        return cmd_error(err, j->plan.status, NULL, "%s: %s", shape->name, j->plan.reason);
    if ((status = bench_attention_numbers(&j->n, a, shape->name, err))) return status;
    *bytes = 2 * j->n.bytes;
    return bench_fits(shape->name, *bytes + (double)j->plan.scratch + (double)j->forward.scratch,
                      err);
}

static qkv_status measure_attention_backward(struct bench_table *table,
                                             const struct bench_shape *shape, double seconds,
                                             qkv_error *err)
{
    struct job j = { .offsets = NULL };
    struct bench_result r = { .shape = shape };
    qkv_status status = prepare(&j, &r.bytes, shape, err);
    if (status) goto done;
    const struct qkv_attention *const a = &j.a;
    const qkv_precision p = a->precision;
    j.q = bench_random(j.n.q, p, 1);
    j.k = bench_random(j.n.k, p, 1);
    j.v = bench_random(j.n.v, p, 1);
    j.dout = bench_random(j.n.out, p, 1);
    j.out = bench_random(j.n.out, p, 1);
    j.dq = bench_random(j.n.q, p, 1);
    j.dk = bench_random(j.n.k, p, 1);
    j.dv = bench_random(j.n.v, p, 1);
    j.lse = cmd_alloc((size_t)(a->B * a->T * a->H), sizeof *j.lse);
    j.scratch =
        cmd_alloc(j.plan.scratch > j.forward.scratch ? j.plan.scratch : j.forward.scratch, 1);
    r.flops = j.plan.flops + (j.both ? j.forward.flops : 0);
    const struct bench_work work = { turn, peak, &j, r.flops };
    status = forward(&j);
    if (status || (status = bench_rounds(&r.times, &work, seconds))) {
        cmd_error(err, status, NULL, "%s: backward of this attention cannot run: %s", shape->name,
                  qkv_status_name(status));
        goto done;
    }
    r.tokens = (double)a->B * (double)a->T;
    r.arithmetic = j.plan.arithmetic;
    r.isa = j.plan.isa;
    r.error = error(&j);
    status = bench_row(table, &r, err);
done:
    job_free(&j);
    return status;
}

static qkv_status check_attention_backward(const struct bench_shape *shape, qkv_error *err)
{
    double bytes;
    struct job j = { .offsets = NULL };
    const qkv_status refused = prepare(&j, &bytes, shape, err);
    job_free(&j);
    return refused;
}

static qkv_status run_attention_backward(const struct bench_shape *shapes, int count,
                                         double seconds, qkv_error *err)
{
    struct bench_table table = {
        .topic = "attention-backward",
        .error = "largest error of dq relative to the formula in double precision, on 64 rows",
        .moved = "bytes of q, k, v, out and their gradients"
    };
    return bench_all(&table, shapes, count, seconds, err, check_attention_backward,
                     measure_attention_backward);
}

const struct bench_topic bench_attention_backward = {
    .name = "attention-backward",
    .grammar = { "BTSNHGEF", "", "causal window forward", true },
    .shapes = "B1,H8,N2048,E64 B1,H8,N2048,E64,causal B1,H8,N2048,E128 B1,H8,N2048,E128,causal "
              "B8,H12,N128,E64 B8,H12,N128,E64,causal B1,H8,N2048,E64,forward "
              "B8,H12,N128,E64,forward",
    .run = run_attention_backward,
};
