// SPDX-License-Identifier: MIT
// bench_search.c: measures the exact search over stored vectors, compared with a plain read of as
// many bytes in the same run.
#include "bench/bench.h"
#include <math.h>
#include <stdlib.h>

enum { BEST = 10 };

struct job {
    struct qkv_vectors v;
    void *rows, *plain;
    float *scales, *x, *queries;
    struct qkv_match *matches;
    int64_t *found, bytes, queries_count;
};

static void job_free(struct job *j)
{
    void *const all[] = { j->rows, j->plain, j->scales, j->x, j->queries, j->matches, j->found };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) free(all[i]);
}

static qkv_status search(void *ctx)
{
    const struct job *j = ctx;
    return qkv_search(j->matches, j->found, &j->v, j->queries, j->queries_count, BEST, NULL);
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    return bench_read(j->plain, (size_t)j->bytes);
}

static qkv_status check_search(const struct bench_shape *s, qkv_error *err)
{
    int64_t bytes, n;
    const qkv_precision p = common.precision;
    if (p != QKV_PRECISION_F32 && p != QKV_PRECISION_BF16 && p != QKV_PRECISION_INT8)
        return cmd_error(err, QKV_ERR_UNSUPPORTED, NULL,
                         "--precision: vectors are stored as f32, bf16 or int8, found %s",
                         qkv_precision_name(p));
    if (s->E > QKV_VECTOR_WIDTH_MAX || !bench_count(&n, s->N, s->E, 1) ||
        qkv_vectors_bytes(&bytes, NULL, QKV_F32, s->N, s->E))
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "%s: the shape has too many numbers", s->name);
    return bench_fits(s->name, 3.0 * (double)bytes, err);
}

static void prepare(struct job *j, const struct bench_shape *s)
{
    const qkv_precision p = common.precision;
    j->v = (struct qkv_vectors){ .count = s->N, .width = s->E };
    j->v.type = p == QKV_PRECISION_INT8 ? QKV_I8 : qkv_precision_type(p);
    j->queries_count = s->B ? s->B : 1;
    (void)!qkv_vectors_bytes(&j->bytes, NULL, j->v.type, s->N, s->E);
    j->x = bench_random(s->N * s->E, QKV_PRECISION_F32, 1);
    j->queries = bench_random(j->queries_count * s->E, QKV_PRECISION_F32, 1);
    j->plain = bench_plain((size_t)j->bytes);
    j->v.rows = j->rows = bench_plain((size_t)j->bytes);
    j->v.scales = j->scales = cmd_grow(NULL, (size_t)s->N, sizeof *j->scales);
    (void)!qkv_vectors_convert(j->rows, j->scales, j->v.type, j->x, s->N, s->E);
    j->matches = cmd_grow(NULL, (size_t)(j->queries_count * BEST), sizeof *j->matches);
    j->found = cmd_grow(NULL, (size_t)j->queries_count, sizeof *j->found);
}

// Returns the largest error of the scores of the first query, relative to the length of query times
// vector, of vectors that are not rounded.
static double error_of(const struct job *j)
{
    const int64_t width = j->v.width;
    double worst = 0;
    for (int64_t m = 0; m < j->found[0]; m++) {
        const float *x = j->x + j->matches[m].row * width;
        double sum = 0, a = 0, b = 0;
        for (int64_t i = 0; i < width; i++) {
            sum += (double)x[i] * (double)j->queries[i];
            a += (double)x[i] * (double)x[i];
            b += (double)j->queries[i] * (double)j->queries[i];
        }
        worst = fmax(worst, fabs((double)j->matches[m].score - sum) / sqrt(a * b));
    }
    return worst;
}

static qkv_status measure_search(struct bench_table *table, const struct bench_shape *shape,
                                 double seconds, qkv_error *err)
{
    struct job j = { .rows = NULL };
    struct bench_result r = { .shape = shape, .isa = qkv_isa(), .read = true };
    prepare(&j, shape);
    const struct bench_work work = { search, peak, &j, (double)j.bytes };
    qkv_status status = bench_rounds(&r.times, &work, seconds);
    if (status) {
        cmd_error(err, status, NULL, "%s: this search cannot run: %s", shape->name,
                  qkv_status_name(status));
    } else {
        r.arithmetic = j.v.type == QKV_I8     ? "int8"
                       : j.v.type == QKV_BF16 ? "bf16 as float"
                                              : "float";
        r.flops = 2 * (double)j.v.count * (double)j.v.width * (double)j.queries_count;
        r.bytes = (double)j.bytes;
        r.error = error_of(&j);
        status = bench_row(table, &r, err);
    }
    job_free(&j);
    return status;
}

static qkv_status run_search(const struct bench_shape *shapes, int count, double seconds,
                             qkv_error *err)
{
    struct bench_table table = { .topic = "search",
                                 .rate = BENCH_GBYTES,
                                 .read = true,
                                 .error = "largest error of the 10 best scores, relative to the "
                                          "lengths of query and vector",
                                 .moved = "bytes of the vectors" };
    return bench_all(&table, shapes, count, seconds, err, check_search, measure_search);
}

const struct bench_topic bench_search = {
    .name = "search",
    .grammar = { "BNE", "NE", "", false },
    .shapes = "N1000000,E384",
    .run = run_search,
};
