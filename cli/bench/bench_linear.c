// SPDX-License-Identifier: MIT
// bench_linear.c: implements `qkv bench linear`: measures the speed of y = act(x w^T + b), and
// compares it with the peak arithmetic speed of the machine.  If x has few rows, as in decoding,
// reading the weights from memory takes most of the time. Then the work is compared with plainly
// reading as many bytes, and uses so many layers in turn that no CPU cache contains them all.
#include <math.h>
#include <stdlib.h>
#include "bench/bench.h"

enum { SAMPLES = 512 }; // number of elements of y that are compared with a computation in double
// FEW: a shape with at most so many rows is compared with memory reads; COLD: more bytes than any
// CPU cache has; LAYERS: maximum number of layers
enum { FEW = 8, COLD = 1 << 28, LAYERS = 1024 };

struct job {
    // R: rows of x; K, N: inputs and outputs; n_*: number of elements
    int64_t R, K, N, n_x, n_w, n_y;
    qkv_packed **packed; // [layers] packed weights; all layers have the same weights
    int64_t layers;
    // bytes of the weights of all layers; the plain read has as many bytes
    size_t bytes;
    struct qkv_packed_call how;
    void *x, *y; // input and output, as the precision stores them
    float *w, *b;
    void *plain;
};

static qkv_status product(void *ctx)
{
    const struct job *j = ctx;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < j->layers && !status; i++)
        status = qkv_packed_linear(j->y, j->x, j->R, j->packed[i], &j->how);
    return status;
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    if (j->plain) return bench_read(j->plain, j->bytes);
    return qkv_measure_peak(qkv_packed_info(j->packed[0]).arithmetic, 0.004);
}

static double error_of(const struct job *j)
{
    double worst = 0;
    uint64_t seed = 5;
    for (int i = 0; i < SAMPLES; i++) {
        const int64_t r = bench_below(&seed, j->R), n = bench_below(&seed, j->N);
        double sum = (double)j->b[n];
        for (int64_t k = 0; k < j->K; k++)
            sum += bench_at(j->x, common.precision, r * j->K + k) * (double)j->w[n * j->K + k];
        if (j->how.act == QKV_ACT_GELU) sum *= 0.5 * erfc(-sum * 0.70710678118654752440);
        const double away = fabs(bench_at(j->y, common.precision, r * j->N + n) - sum);
        if (!(away <= worst)) worst = away;
    }
    return worst;
}

static void job_free(struct job *j)
{
    for (int64_t i = 0; j->packed && i < j->layers; i++) qkv_packed_close(j->packed[i]);
    free(j->packed);
    free(j->plain);
    free(j->x);
    free(j->w);
    free(j->b);
    free(j->y);
}

static qkv_status prepare(struct job *j, const struct bench_shape *shape, qkv_error *err)
{
    const qkv_precision p = common.precision;
    *j = (struct job){ .R = shape->R, .K = shape->K, .N = shape->N };
    j->how.x = j->how.y = qkv_precision_type(p);
    j->how.act = shape->gelu ? QKV_ACT_GELU : QKV_ACT_NONE;
    if (!bench_count(&j->n_x, j->R, j->K, 1) || !bench_count(&j->n_w, j->N, j->K, 1) ||
        !bench_count(&j->n_y, j->R, j->N, 1))
        return cmd_error(err, QKV_ERR_LIMIT, NULL,
                         "%s: the shape has too many numbers for an array, expected less than 2^59",
                         shape->name);
    return bench_fits(shape->name,
                      (double)bench_size(p) * ((double)j->n_x + (double)j->n_y) +
                          9.0 * (double)j->n_w + (j->R <= FEW ? 2.2 * COLD : 0),
                      err);
}

// Makes one layer or, for few rows, so many layers that no CPU cache contains them all.
static qkv_status pack(struct job *j, const char *name, qkv_error *err)
{
    const qkv_precision p = common.precision;
    int64_t want = 1;
    j->packed = cmd_alloc(1, sizeof *j->packed);
    for (j->layers = 0; j->layers < want; j->layers++) {
        const qkv_status status = qkv_packed_open(&j->packed[j->layers], j->w, j->b, j->K, j->N, p);
        if (status)
            return cmd_error(err, status, NULL, "%s: weights in %s cannot be packed: %s", name,
                             qkv_precision_name(p), qkv_status_name(status));
        j->bytes += qkv_packed_info(j->packed[j->layers]).bytes;
        if (j->layers || j->R > FEW || !j->bytes) continue;
        want = (int64_t)((COLD + j->bytes - 1) / j->bytes);
        if (want > LAYERS) want = LAYERS;
        qkv_packed *const first = j->packed[0];
        free(j->packed);
        j->packed = cmd_alloc((size_t)want, sizeof *j->packed);
        j->packed[0] = first;
    }
    if (j->R <= FEW && j->bytes) j->plain = bench_plain(j->bytes);
    return QKV_OK;
}

static qkv_status measure_linear(struct bench_table *table, const struct bench_shape *shape,
                                 double seconds, qkv_error *err)
{
    const qkv_precision p = common.precision;
    struct bench_result r = { .shape = shape };
    struct job j;
    qkv_status status = prepare(&j, shape, err);
    if (status) return status;
    j.x = bench_random(j.n_x, p, 1);
    j.w = bench_random(j.n_w, QKV_PRECISION_F32, 1 / sqrt((double)j.K));
    j.b = bench_random(j.N, QKV_PRECISION_F32, 1);
    j.y = bench_random(j.n_y, p, 1);
    // Round the weights to the precision first, so that the comparison in double uses the same
    // weights.
    for (int64_t i = 0; i < j.n_w; i++) {
        float stored;
        qkv_from_f32(&stored, j.how.x, &j.w[i], 1);
        qkv_to_f32(&j.w[i], &stored, j.how.x, 1);
    }
    if ((status = pack(&j, shape->name, err))) goto done;
    const struct qkv_packed_info info = qkv_packed_info(j.packed[0]);
    r.isa = info.isa;
    r.arithmetic = info.arithmetic;
    r.flops = 2 * (double)j.n_x * (double)j.N;
    r.read = j.plain != NULL;
    r.bytes = (double)info.bytes;
    if (!r.read) r.bytes += (double)bench_size(p) * ((double)j.n_x + (double)j.n_y);
    const struct bench_work work = { product, peak, &j,
                                     r.read ? (double)j.bytes : r.flops * (double)j.layers };
    if ((status = bench_rounds(&r.times, &work, seconds))) {
        cmd_error(err, status, NULL, "%s: this product cannot run: %s", shape->name,
                  qkv_status_name(status));
        goto done;
    }
    r.times.best /= (double)j.layers;
    r.times.median /= (double)j.layers;
    r.error = error_of(&j);
    status = bench_row(table, &r, err);
done:
    job_free(&j);
    return status;
}

static qkv_status check_linear(const struct bench_shape *shape, qkv_error *err)
{
    struct job j;
    return prepare(&j, shape, err);
}

static qkv_status run_linear(const struct bench_shape *shapes, int count, double seconds,
                             qkv_error *err)
{
    struct bench_table table = {
        .topic = "linear",
        .error = "largest error relative to the formula in double precision, on 512 numbers",
        .moved = "bytes of x, packed weights and y; up to 8 rows: bytes of weights read from memory"
    };
    return bench_all(&table, shapes, count, seconds, err, check_linear, measure_linear);
}

const struct bench_topic bench_linear = {
    .name = "linear",
    .grammar = { "RKN", "RKN", "gelu", false },
    .shapes = "1024x384x1536 1024x1536x384 1024x384x1536,gelu 37x384x1536 37x384x1536,gelu "
              "1x768x2304 4x768x2304 1x768x50257 1x2048x8192 4x2048x8192",
    .run = run_linear,
};
