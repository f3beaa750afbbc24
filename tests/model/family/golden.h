// SPDX-License-Identifier: MIT
// golden.h: compares a run with the files that tools/golden.py writes. That script describes how
// sums and samples are computed, and why they detect any wrong number.
#ifndef QKV_GOLDEN_H
#define QKV_GOLDEN_H
#include "check.h"
#include <qkv/model.h>
#include <stdlib.h>

#define GOLDEN "tests/golden/"
// Maximum differences from transformers in f32 that the project allows.
static const double golden_hidden_tolerance = 1e-4, golden_attention_tolerance = 1e-5;

static inline const struct qkv_tensor *golden_find(const qkv_tensors *t, const char *text,
                                                   const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", text ? text : "", text ? "." : "", what);
    return qkv_tensors_find(t, name);
}
// Returns a tensor that must exist with this type and number of elements.
static inline const void *golden_get(const qkv_tensors *t, const char *text, const char *what,
                                     qkv_dtype dtype, int64_t count)
{
    const struct qkv_tensor *x = golden_find(t, text, what);
    if (!x) fail_msg("no %s.%s among the golden tensors", text ? text : "", what);
    CHECK_EQ(x->dtype, dtype);
    if (count >= 0) CHECK_EQ(qkv_tensor_count(x), count);
    return x->data;
}

// Returns s(r, c) = +-1, as sign() of golden.py.
static inline double golden_sign(int64_t r, int64_t c)
{
    uint32_t x = (uint32_t)r * 0x9E3779B1u ^ (uint32_t)c * 0x85EBCA77u;
    x ^= x >> 15;
    x *= 0x2C1B3C6Du;
    x ^= x >> 12;
    x *= 0x297A2D39u;
    x ^= x >> 15;
    return x & 1 ? -1 : 1;
}
// Compares x[rows][columns] with matrix number `matrix` of sums[][rows] and samples[][n].
static inline void golden_check_compact(const char *label, int64_t matrix, const float *x,
                                        int64_t rows, int64_t columns, const float *sums,
                                        double sum_tolerance, const float *samples, int64_t n,
                                        double tolerance)
{
    for (int64_t r = 0; r < rows; r++) {
        double sum = 0;
        for (int64_t c = 0; c < columns; c++) sum += golden_sign(r, c) * (double)x[r * columns + c];
        const double want = (double)sums[matrix * rows + r];
        if (!(fabs(sum - want) <= sum_tolerance))
            fail_msg("%s, matrix %lld: sum of row %lld is %.9g, expected %.9g within %g", label,
                     (long long)matrix, (long long)r, sum, want, sum_tolerance);
    }
    for (int64_t i = 0; i < n; i++) {
        const uint64_t at =
            ((uint64_t)matrix * 2654435761u + (uint64_t)i * 40503u * 65599u + 12345u) %
            (uint64_t)(rows * columns);
        const double want = (double)samples[matrix * n + i], got = (double)x[at];
        if (!(fabs(got - want) <= tolerance))
            fail_msg("%s, matrix %lld: number %lld is %.9g, expected %.9g within %g", label,
                     (long long)matrix, (long long)at, got, want, tolerance);
    }
}
static inline void golden_check_full(const char *label, const float *x, const float *want,
                                     int64_t n, double tolerance)
{
    for (int64_t i = 0; i < n; i++)
        if (!(fabs((double)x[i] - (double)want[i]) <= tolerance))
            fail_msg("%s: number %lld is %.9g, expected %.9g within %g", label, (long long)i,
                     (double)x[i], (double)want[i], tolerance);
}
static inline double golden_worst(const float *x, const float *want, int64_t n)
{
    double worst = 0;
    for (int64_t i = 0; i < n; i++) worst = fmax(worst, fabs((double)x[i] - (double)want[i]));
    return worst;
}

// Everything that an observer receives, copied: hidden[L + 1][R][D], weights[L][H][R][S] of the
// only stack or of the decoder; the encoder's arrays are in `source`, cross-attention in
// cross[L][H][R][source S].
struct golden_stack {
    int64_t layers, R, S;
    int64_t calls;
    float *hidden, *weights;
};
struct golden_seen {
    int64_t layers, R, D, S; // layers: number of observed layers, including the embeddings
    struct qkv_model_info info;
    float *hidden, *weights, *last;
    struct golden_stack source;
    float *cross;
    int64_t crossed;
};
static inline void golden_keep_cross(struct golden_seen *k, const struct qkv_layer_output *seen)
{
    const size_t n = (size_t)(k->info.heads * k->R * k->source.S);
    CHECK(!seen->hidden);
    CHECK_EQ(seen->S, k->source.R);
    CHECK_EQ(seen->layer, k->crossed);
    k->crossed++;
    if (seen->weights) memcpy(k->cross + (size_t)seen->layer * n, seen->weights, n * sizeof(float));
}
static inline int golden_keep(void *user, const struct qkv_layer_output *seen)
{
    struct golden_seen *k = user;
    const bool source = seen->part == QKV_PART_ENCODER;
    if (seen->part == QKV_PART_CROSS) {
        golden_keep_cross(k, seen);
        return 0;
    }
    const int64_t R = source ? k->source.R : k->R, S = source ? k->source.S : k->S;
    const size_t RD = (size_t)(R * k->D), HRS = (size_t)(k->info.heads * R * S);
    float *hidden = source ? k->source.hidden : k->hidden;
    float *weights = source ? k->source.weights : k->weights;
    CHECK_EQ(seen->R, R);
    memcpy(hidden + (size_t)(seen->layer + 1) * RD, seen->hidden, RD * sizeof(float));
    if (seen->layer >= 0 && seen->weights)
        memcpy(weights + (size_t)seen->layer * HRS, seen->weights, HRS * sizeof(float));
    if (source)
        k->source.calls++;
    else
        k->layers++;
    return 0;
}
static inline int64_t golden_longest(const struct qkv_model_input *in)
{
    int64_t most = 0;
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        if (n > most) most = n;
    }
    return most;
}
// Returns the number of layers of the stack that computes `hidden`.
static inline int64_t golden_layers(const struct qkv_model_info *info)
{
    return info->kind == QKV_KIND_ENCODER_DECODER ? info->decoder_layers : info->layers;
}
static inline float *golden_floats(int64_t n)
{
    float *x = calloc((size_t)n + 1, sizeof *x);
    CHECK(x != NULL);
    return x;
}
// Runs a model and copies all observed arrays; `last` is the last hidden state.
static inline struct golden_seen golden_run(const qkv_model *m, const struct qkv_model_input *in)
{
    struct golden_seen k = { .info = qkv_model_info(m), .R = in->offsets[in->sequences] };
    const int64_t H = k.info.heads, layers = golden_layers(&k.info);
    k.D = k.info.width;
    k.S = golden_longest(in);
    k.hidden = golden_floats((layers + 1) * k.R * k.D);
    k.weights = golden_floats(layers * H * k.R * k.S);
    k.last = golden_floats(k.R * k.D);
    if (in->source) {
        k.source = (struct golden_stack){ .layers = k.info.layers,
                                          .R = in->source->offsets[in->sequences],
                                          .S = golden_longest(in->source) };
        k.source.hidden = golden_floats((k.info.layers + 1) * k.source.R * k.D);
        k.source.weights = golden_floats(k.info.layers * H * k.source.R * k.source.S);
        k.cross = golden_floats(layers * H * k.R * k.source.S);
    }
    const struct qkv_observer observer = { .layer = golden_keep, .user = &k, .weights = true };
    qkv_error err = { 0 };
    if (qkv_model_run(m, k.last, in, &observer, &err)) fail_msg("run: %s", err.text);
    CHECK_EQ(k.layers, layers + 1);
    if (in->source) CHECK_EQ(k.source.calls, k.info.layers + 1);
    if (in->source) CHECK_EQ(k.crossed, layers);
    CHECK_BITS(k.last, k.hidden + layers * k.R * k.D, (size_t)(k.R * k.D) * sizeof(float));
    return k;
}
static inline void golden_free(struct golden_seen *k)
{
    free(k->hidden);
    free(k->weights);
    free(k->last);
    free(k->source.hidden);
    free(k->source.weights);
    free(k->cross);
}
static inline void golden_unused(void)
{
    (void)golden_sign;
    (void)golden_check_compact;
    (void)golden_check_full;
    (void)golden_worst;
    (void)golden_free;
    (void)golden_run;
    (void)golden_get;
    (void)golden_unused;
}
#endif
