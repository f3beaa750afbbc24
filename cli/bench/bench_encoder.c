// SPDX-License-Identifier: MIT
// bench_encoder.c: `qkv bench encoder`: a model on random token ids, from ids to vectors.
#include <stdlib.h>
#include "bench.h"

enum { COMPARED = 32 }; // sequences whose vectors are compared with those of f32-strict

struct job {
    qkv_embedder *embedder;
    int64_t n;
    int64_t *offsets;
    int32_t *ids;
    float *out;
    const char *isa, *arithmetic; // of the linear layers: nearly all of the work
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
                         "%s: the model has %lld positions, expected at most as many tokens",
                         shape->name, (long long)info->positions);
    const double tokens = (double)j->n * (double)shape->N_most;
    const qkv_status s =
        bench_room(shape->name, 12.0 * tokens + 4.0 * (double)j->n * (double)info->width, err);
    if (s) return s;
    j->offsets = cmd_alloc((size_t)j->n + 1, sizeof *j->offsets);
    j->offsets[0] = 0;
    for (int64_t i = 0; i < j->n; i++) j->offsets[i + 1] = j->offsets[i] + bench_length(shape, i);
    const int64_t R = j->offsets[j->n];
    j->ids = cmd_alloc((size_t)R, sizeof *j->ids);
    for (int64_t i = 0; i < R; i++) j->ids[i] = (int32_t)bench_below(&seed, info->vocab);
    j->out = cmd_alloc((size_t)j->n * (size_t)info->width, sizeof *j->out);
    return QKV_OK;
}

// The kernel that products of this precision have here: that of any handle.
static qkv_status kernel(struct job *j, qkv_error *err)
{
    const float one = 1;
    qkv_packed *p = NULL;
    const qkv_status s = qkv_packed_open(&p, &one, NULL, 1, 1, common.precision);
    if (s)
        return cmd_error(err, s, NULL, "products of %s are refused: %s",
                         qkv_precision_name(common.precision), qkv_status_name(s));
    const struct qkv_packed_info info = qkv_packed_info(p);
    j->isa = info.isa;
    j->arithmetic = info.arithmetic;
    qkv_packed_close(p);
    return QKV_OK;
}

// 1 - the smallest cosine to the vectors of the same sequences in f32-strict.
static qkv_status compare(double *error, struct job *j, const char *dir, int64_t width,
                          qkv_error *err)
{
    const struct qkv_embedder_options how = { .model.precision = QKV_PRECISION_F32_STRICT,
                                              .no_tokenizer = true };
    qkv_embedder *strict = NULL;
    const int64_t n = j->n < COMPARED ? j->n : COMPARED;
    float *exact = cmd_alloc((size_t)(n * width), sizeof *exact);
    qkv_status s = qkv_embedder_open(&strict, dir, &how, err);
    if (!s) s = qkv_embed_ids(strict, exact, j->ids, j->offsets, n, NULL, err);
    *error = 0;
    for (int64_t i = 0; i < n && !s; i++) {
        const double away = 1 - (double)qkv_cosine(exact + i * width, j->out + i * width, width);
        if (!(away <= *error)) *error = away;
    }
    qkv_embedder_close(strict);
    free(exact);
    return s;
}

static qkv_status one(struct bench_table *table, struct job *j, const char *dir,
                      const struct bench_shape *shape, double seconds, qkv_error *err)
{
    const struct qkv_model_info info = qkv_model_info(qkv_embedder_model(j->embedder));
    struct bench_result r = { .shape = shape };
    qkv_status s = inputs(j, shape, &info, err);
    if (s) return s;
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
    if ((s = qkv_embed_ids(j->embedder, j->out, j->ids, j->offsets, 1, NULL,
                           err))) // weights packed
        return s;
    if ((s = bench_rounds(&r.times, &work, seconds))) {
        *err = j->err;
        return s;
    }
    if ((s = compare(&r.error, j, dir, qkv_embedder_width(j->embedder), err))) return s;
    return bench_row(table, &r, err);
}

static qkv_status run(const struct bench_shape *shapes, int count, double seconds, qkv_error *err)
{
    char dir[CMD_PATH];
    const struct qkv_embedder_options how = { .model.precision = common.precision,
                                              .no_tokenizer = true };
    struct bench_table table = { .topic = "encoder",
                                 .rate = BENCH_TOKENS,
                                 .error = "1 - smallest cosine to f32-strict, 32 sequences",
                                 .moved = "weights of the linear layers once" };
    struct job j = { .n = 0 };
    qkv_status s = cmd_model_find(dir, err);
    if (!s) s = kernel(&j, err);
    if (!s) s = qkv_embedder_open(&j.embedder, dir, &how, err);
    if (s) return s;
    const struct qkv_model_info info = qkv_model_info(qkv_embedder_model(j.embedder));
    for (int i = 0; i < count && !s; i++) {
        s = inputs(&j, &shapes[i], &info, err); // what does not run is refused before it is printed
        inputs_free(&j);
    }
    if (s) {
        qkv_embedder_close(j.embedder);
        return s;
    }
    bench_open(&table, shapes, count);
    for (int i = 0; i < count && !s; i++) {
        s = one(&table, &j, dir, &shapes[i], seconds, err);
        inputs_free(&j);
    }
    qkv_embedder_close(j.embedder);
    if (!s) bench_close(&table);
    return s;
}

const struct bench_topic bench_encoder = {
    .name = "encoder",
    .grammar = { "BN", "N", "", true },
    .shapes = "B128,N20-54 B16,N128 N35",
    .run = run,
};
