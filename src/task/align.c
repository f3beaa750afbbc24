// SPDX-License-Identifier: MIT
// align.c: where the tokens of a translation looked: cross-attention of one layer, its heads
// averaged.
//
//   a[t][s] = 1/H sum_h exp(scale q[t][h] . k[s][g] - lse[h][t]),   g = h / (H/G)
//
// The kernel keeps no weights: they are formed again from what the run shows of a layer.
// Bahdanau, Cho, Bengio 2015 (arXiv 1409.0473): weights of attention as an alignment.
#include "task/speaker.h"
#include <math.h>
#include <string.h>

struct aligning {
    float *weights; // [rows][n]
    int64_t layer, n;
    const struct qkv_layer_seen *seen;
    bool found;
};

static void align_row(void *ctx, int64_t t, int thread)
{
    const struct aligning *a = ctx;
    const struct qkv_layer_seen *s = a->seen;
    (void)thread;
    for (int64_t j = 0; j < a->n; j++) {
        double sum = 0;
        for (int64_t h = 0; h < s->H; h++) {
            const float *q = s->q + (t * s->H + h) * s->E;
            const float *k = s->k + (j * s->G + h / (s->H / s->G)) * s->E;
            double dot = 0;
            for (int64_t e = 0; e < s->E; e++) dot += (double)q[e] * (double)k[e];
            dot *= (double)s->scale;
            if (s->softcap > 0) dot = (double)s->softcap * tanh(dot / (double)s->softcap);
            sum += exp(dot - (double)s->lse[h * s->R + t]);
        }
        a->weights[t * a->n + j] = (float)(sum / (double)s->H);
    }
}

static int see(void *user, const struct qkv_layer_seen *seen)
{
    struct aligning *a = user;
    if (seen->part != QKV_SEEN_CROSS || seen->layer != a->layer || seen->S != a->n) return 0;
    a->seen = seen;
    a->found = true;
    qkv_parallel_for(seen->R, align_row, a);
    return 0;
}

qkv_status qkv_align(const qkv_model *m, float **weights, const int32_t *ids, int64_t rows,
                     const int32_t *source, int64_t n, int64_t layer, qkv_error *err)
{
    const int64_t source_offsets[] = { 0, n }, offsets[] = { 0, rows };
    const struct qkv_model_input from = { .sequences = 1,
                                          .offsets = source_offsets,
                                          .ids = source };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = ids, .source = &from
    };
    struct aligning a = { .layer = layer, .n = n };
    const struct qkv_watch watch = { .layer = see, .user = &a };
    size_t count;
    if (qkv_mul_size(&count, (size_t)rows, (size_t)n))
        a.weights = qkv_alloc(count, sizeof *a.weights);
    if (!a.weights) return qkv_fail_memory(err, NULL);
    qkv_status s = qkv_model_run(m, NULL, &in, &watch, err);
    if (!s && !a.found) s = qkv_fail(err, QKV_ERR_INTERNAL, NULL, "no cross-attention was seen");
    if (s)
        qkv_free(a.weights);
    else
        *weights = a.weights;
    return s;
}
