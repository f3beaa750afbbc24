// SPDX-License-Identifier: MIT
// bench_encoder.c: implements `qkv bench encoder`: measures how fast a model computes vectors of
// random token ids.
#include <stdlib.h>
#include "bench/bench.h"

// number of sequences whose vectors are compared with a run in precision f32-strict
enum { COMPARED = 32 };

struct job {
    qkv_embedder *embedder;
    int64_t n;
    int64_t *offsets;
    int32_t *ids;
    float *out;
    // instruction set and arithmetic of the linear layers, which take nearly all of the time
    const char *isa, *arithmetic;
    qkv_error err;
};

static qkv_status embed(void *ctx)
{
    struct job *j = ctx;
    return qkv_embed_ids(j->embedder, j->out, j->ids, j->offsets, j->n, NULL, &j->err);
}

static double peak(void *ctx)
{
    const struct job *j = ctx;
    return qkv_measure_peak(j->arithmetic, 0.004);
}

static void inputs_free(struct job *j)
{
    free(j->offsets);
    free(j->ids);
    free(j->out);
    j->offsets = NULL;
    j->ids = NULL;
    j->out = NULL;
}

static qkv_status inputs(struct job *j, const struct bench_shape *shape,
                         const struct qkv_model_info *info, qkv_error *err)
{
    uint64_t seed = 3;
    j->n = shape->B ? shape->B : 1;
    if (shape->N_most > info->positions)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "%s: a sequence is too long for the model, expected at most %lld tokens, "
                         "found %lld",
                         shape->name, (long long)info->positions, (long long)shape->N_most);
    const double tokens = (double)j->n * (double)shape->N_most;
    const qkv_status status =
        bench_fits(shape->name, 12.0 * tokens + 4.0 * (double)j->n * (double)info->width, err);
    if (status) return status;
    j->offsets = cmd_alloc((size_t)j->n + 1, sizeof *j->offsets);
    j->offsets[0] = 0;
    for (int64_t i = 0; i < j->n; i++) j->offsets[i + 1] = j->offsets[i] + bench_length(shape, i);
    const int64_t R = j->offsets[j->n];
    j->ids = cmd_alloc((size_t)R, sizeof *j->ids);
    for (int64_t i = 0; i < R; i++) j->ids[i] = (int32_t)bench_below(&seed, info->vocab);
    j->out = cmd_alloc((size_t)j->n * (size_t)info->width, sizeof *j->out);
    return QKV_OK;
}

// Finds out which kernel computes products in this precision. It is the same for every model.
static qkv_status kernel(struct job *j, qkv_error *err)
{
    const float one = 1;
    qkv_packed *p = NULL;
    const qkv_status status = qkv_packed_open(&p, &one, NULL, 1, 1, common.precision);
    if (status)
        return cmd_error(err, status, NULL, "products in %s cannot run: %s",
                         qkv_precision_name(common.precision), qkv_status_name(status));
    const struct qkv_packed_info info = qkv_packed_info(p);
    j->isa = info.isa;
    j->arithmetic = info.arithmetic;
    qkv_packed_close(p);
    return QKV_OK;
}

// Compares vectors with a run in precision f32-strict: computes 1 - the smallest cosine between the
// two vectors of a sequence.
static qkv_status compare(double *error, struct job *j, const char *dir, int64_t width,
                          qkv_error *err)
{
    const struct qkv_embedder_options how = { .model.precision = QKV_PRECISION_F32_STRICT,
                                              .no_tokenizer = true };
    qkv_embedder *strict = NULL;
    const int64_t n = j->n < COMPARED ? j->n : COMPARED;
    float *exact = cmd_alloc((size_t)(n * width), sizeof *exact);
    qkv_status status = qkv_embedder_open(&strict, dir, &how, err);
    if (!status) status = qkv_embed_ids(strict, exact, j->ids, j->offsets, n, NULL, err);
    *error = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        const double away = 1 - (double)qkv_cosine(exact + i * width, j->out + i * width, width);
        if (!(away <= *error)) *error = away;
    }
    qkv_embedder_close(strict);
    free(exact);
    return status;
}

static qkv_status measure_encoder(struct bench_table *table, struct job *j, const char *dir,
                                  const struct bench_shape *shape, double seconds, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(qkv_embedder_model(j->embedder));
    struct bench_result r = { .shape = shape };
    qkv_status status = inputs(j, shape, &info, err);
    if (status) return status;
    r.isa = j->isa;
    r.arithmetic = j->arithmetic;
    r.tokens = (double)j->offsets[j->n];
    r.flops = r.tokens * info.flops_token;
    for (int64_t i = 0; i < j->n; i++) {
        const double n = (double)(j->offsets[i + 1] - j->offsets[i]);
        r.flops += 4 * n * n * (double)(info.heads * info.head_width * info.layers);
    }
    r.bytes = info.flops_token / 2 *
              (common.precision == QKV_PRECISION_INT8 ? 1.0 : (double)bench_size(common.precision));
    const struct bench_work work = { embed, peak, j, r.flops };
    if ((status = qkv_embed_ids(j->embedder, j->out, j->ids, j->offsets, 1, NULL,
                                // the first run also packs the weights, so it is not measured
                                err)))
        return status;
    if ((status = bench_rounds(&r.times, &work, seconds))) {
        *err = j->err;
        return status;
    }
    if ((status = compare(&r.error, j, dir, qkv_embedder_width(j->embedder), err))) return status;
    return bench_row(table, &r, err);
}

static qkv_status run_encoder(const struct bench_shape *shapes, int count, double seconds,
                              qkv_error *err)
{
    char dir[CMD_PATH];
    const struct qkv_embedder_options how = { .model.precision = common.precision,
                                              .no_tokenizer = true };
    struct bench_table table = {
        .topic = "encoder",
        .rate = BENCH_TOKENS,
        .error = "1 - the smallest cosine to a vector in f32-strict, over 32 sequences",
        .moved = "bytes of the weights of all linear layers"
    };
    struct job j = { .n = 0 };
    qkv_status status = cmd_model_find(dir, err);
    if (!status) status = kernel(&j, err);
    if (!status) status = qkv_embedder_open(&j.embedder, dir, &how, err);
    if (status) return status;
    const struct qkv_model_info info = qkv_model_info(qkv_embedder_model(j.embedder));
    for (int i = 0; i < count && !status; i++) {
        // checks the shape, before the table has a row for it
        status = inputs(&j, &shapes[i], &info, err);
        inputs_free(&j);
    }
    if (status) {
        qkv_embedder_close(j.embedder);
        return status;
    }
    bench_open(&table, shapes, count);
    for (int i = 0; i < count && !status; i++) {
        status = measure_encoder(&table, &j, dir, &shapes[i], seconds, err);
        inputs_free(&j);
    }
    qkv_embedder_close(j.embedder);
    if (!status) bench_close(&table);
    return status;
}

const struct bench_topic bench_encoder = {
    .name = "encoder",
    .grammar = { "BN", "N", "", true },
    .shapes = "B128,N20-54 B16,N128 N35",
    .run = run_encoder,
};
