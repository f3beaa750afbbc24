// SPDX-License-Identifier: MIT
// source_alignment.c: computes the alignment of a translation: how much each of its tokens attends
// to each token of the source, as the cross-attention of one layer, averaged over the heads.
//
//   a[t][s] = 1/H sum_h exp(scale q[t][h] . k[s][g] - lse[h][t]),   g = h / (H/G)
//
// t: token of the translation; s: token of the source; h of H: head; g of G: its key head; lse: log
// of the sum of exp(scores) of a row. The attention kernel stores no weights, so they are
// recomputed from the q, k and lse that an observer of the run receives. Bahdanau, Cho, Bengio 2015
// (arXiv 1409.0473): attention weights as an alignment.
#include "task/generate/source_alignment.h"
#include <math.h>
#include <string.h>

struct layer_alignment {
    float *weights; // [rows][n]
    int64_t layer, n;
    const struct qkv_layer_output *layer_output;
    bool found;
};

static void align_row(void *ctx, int64_t t, int thread)
{
    const struct layer_alignment *a = ctx;
    const struct qkv_layer_output *s = a->layer_output;
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

static int align_layer(void *user, const struct qkv_layer_output *layer_output)
{
    struct layer_alignment *a = user;
    if (layer_output->part != QKV_PART_CROSS || layer_output->layer != a->layer ||
        layer_output->S != a->n)
        return 0;
    a->layer_output = layer_output;
    a->found = true;
    qkv_parallel_for(layer_output->R, align_row, a);
    return 0;
}

// ---- models that can only decode ---------------------------------------------------------------
struct decoder_alignment {
    float *weights; // [rows][n]
    int64_t rows, n;
};

// Observer of a GRU decoder: copies the attention weights of all new tokens, which the decoder
// reports in one call.
static int copy_weights(void *user, const struct qkv_layer_output *layer_output)
{
    const struct decoder_alignment *to = user;
    if (layer_output->part != QKV_PART_CROSS || layer_output->H != 1 ||
        layer_output->R != to->rows || layer_output->S != to->n)
        return 1;
    memcpy(to->weights, layer_output->weights, (size_t)(to->rows * to->n) * sizeof *to->weights);
    return 0;
}

qkv_status qkv_align_decoder(qkv_decoder *d, int64_t item, float **weights, const int32_t *ids,
                             int64_t rows, const int32_t *source, int64_t n, qkv_error *err)
{
    const int64_t source_offsets[] = { 0, n }, offsets[] = { 0, rows };
    const struct qkv_model_input from = { .sequences = 1,
                                          .offsets = source_offsets,
                                          .ids = source };
    const struct qkv_decoder_tokens tokens = {
        .n = 1, .items = &item, .offsets = offsets, .ids = ids
    };
    struct decoder_alignment to = { .rows = rows, .n = n };
    const struct qkv_observer observer = { .layer = copy_weights, .user = &to, .weights = true };
    size_t count;
    if (qkv_mul_size(&count, (size_t)rows, (size_t)n))
        to.weights = qkv_alloc(count, sizeof *to.weights);
    if (!to.weights) return qkv_fail_memory(err, NULL);
    qkv_status status = qkv_decoder_source(d, item, &from, err);
    if (!status) status = qkv_decoder_observe(d, &observer, item, err);
    if (!status) status = qkv_decoder_feed(d, NULL, &tokens, err);
    const qkv_status ended = qkv_decoder_observe(d, NULL, item, status ? NULL : err);
    if (!status) status = ended;
    if (status)
        qkv_free(to.weights);
    else
        *weights = to.weights;
    return status;
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
    struct layer_alignment a = { .layer = layer, .n = n };
    const struct qkv_observer observer = { .layer = align_layer, .user = &a };
    size_t count;
    if (qkv_mul_size(&count, (size_t)rows, (size_t)n))
        a.weights = qkv_alloc(count, sizeof *a.weights);
    if (!a.weights) return qkv_fail_memory(err, NULL);
    qkv_status status = qkv_model_run(m, NULL, &in, &observer, err);
    if (!status && !a.found)
        status = qkv_fail(err, QKV_ERR_INTERNAL, NULL,
                          "alignment cannot be computed: the decoder reported no cross-attention");
    if (status)
        qkv_free(a.weights);
    else
        *weights = a.weights;
    return status;
}
