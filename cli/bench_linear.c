// SPDX-License-Identifier: MIT
// bench_linear.c: `qkv bench linear`: y = act(x w^T + b) beside the peak of its arithmetic.
#include <math.h>
#include <stdlib.h>
#include "bench.h"

enum { SAMPLES = 512 }; // numbers of y that are computed again in double

struct job {
    int64_t R, K, N;
    float *x, *w, *b, *y;
};

static qkv_status product(void *ctx)
{
    const struct job *j = ctx;
    return qkv_linear(j->y, j->x, j->w, j->b, j->R, j->K, j->N);
}

static double peak(void *ctx)
{
    (void)ctx;
    return qkv_measure_peak("float", 0.004);
}

static double error_of(const struct job *j, bool gelu)
{
    double worst = 0;
    uint64_t seed = 5;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t r = bench_below(&seed, j->R), n = bench_below(&seed, j->N);
        double sum = 0;
        for (int64_t k = 0; k < j->K; k++)
            sum += (double)j->x[r * j->K + k] * (double)j->w[n * j->K + k];
        sum += (double)j->b[n];
        if (gelu) sum *= 0.5 * erfc(-sum * 0.70710678118654752440);
        const double away = fabs((double)j->y[r * j->N + n] - sum);
        if (!(away <= worst)) worst = away;
    }
    return worst;
}

static qkv_status one(struct bench_table *table, const struct bench_shape *shape, double seconds,
                      qkv_error *err)
{
    struct job j = { shape->R, shape->K, shape->N, NULL, NULL, NULL, NULL };
    struct bench_result r = { .shape = shape };
    int64_t n_x, n_w, n_y;
    if (!bench_count(&n_x, j.R, j.K, 1) || !bench_count(&n_w, j.N, j.K, 1) ||
        !bench_count(&n_y, j.R, j.N, 1))
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "%s: no array has so many numbers", shape->name);
    r.flops = 2 * (double)n_x * (double)j.N;
    r.bytes = 4 * ((double)n_x + (double)n_w + (double)n_y);
    r.isa = qkv_isa();
    r.arithmetic = "float";
    qkv_status s = bench_room(shape->name, 2 * r.bytes, err);
    if (s) return s;
    j.x = bench_random(n_x, QKV_PRECISION_F32, 1);
    j.w = bench_random(n_w, QKV_PRECISION_F32, 1 / sqrt((double)j.K));
    j.b = bench_random(j.N, QKV_PRECISION_F32, 1);
    j.y = bench_random(n_y, QKV_PRECISION_F32, 1);
    const struct bench_work work = { product, peak, &j, r.flops };
    if (!(s = bench_rounds(&r.times, &work, seconds))) {
        r.error = error_of(&j, shape->gelu);
        bench_row(table, &r);
    } else {
        cmd_error(err, s, NULL, "%s is refused: %s", shape->name, qkv_status_name(s));
    }
    free(j.x);
    free(j.w);
    free(j.b);
    free(j.y);
    return s;
}

static qkv_status run(const struct bench_shape *shapes, int count, double seconds, qkv_error *err)
{
    struct bench_table table = { .topic = "linear",
                                 .error = "largest distance from the formula in double, 512 numbers",
                                 .moved = "x, w and y once" };
    bench_open(&table, shapes, count);
    for (int i = 0; i < count; i++) {
        const qkv_status s = one(&table, &shapes[i], seconds, err);
        if (s) return s;
    }
    bench_close(&table);
    return QKV_OK;
}

const struct bench_topic bench_linear = {
    .name = "linear",
    .grammar = { "RKN", "RKN", "gelu", false },
    .shapes = "1024x384x1536 1024x1536x384 1024x384x1536,gelu 37x384x1536 37x384x1536,gelu "
              "1x384x1536 1x1536x384",
    .run = run,
};
