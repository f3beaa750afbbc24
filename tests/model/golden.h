// SPDX-License-Identifier: MIT
// golden.h: what tools/golden.py left, compared with a run.  How sums and samples are made, and why no
// wrong number passes them, stands there.
#ifndef QKV_GOLDEN_H
#define QKV_GOLDEN_H
#include "check.h"
#include <qkv/model.h>
#include <stdlib.h>

#define GOLDEN "tests/golden/"
// What the project promises beside transformers in f32, for each number.
static const double golden_hidden_tolerance = 1e-4, golden_attention_tolerance = 1e-5;

static inline const struct qkv_tensor *golden_find(const qkv_tensors *t, const char *text,
                                                   const char *what)
{
    char name[128];
    snprintf(name, sizeof name, "%s%s%s", text ? text : "", text ? "." : "", what);
    return qkv_tensors_find(t, name);
}
// A tensor that must be there with this many numbers of this type.
static inline const void *golden_get(const qkv_tensors *t, const char *text, const char *what,
                                     qkv_dtype dtype, int64_t count)
{
    const struct qkv_tensor *x = golden_find(t, text, what);
    if (!x) fail_msg("no %s.%s among the golden tensors", text ? text : "", what);
    CHECK_EQ(x->dtype, dtype);
    if (count >= 0) CHECK_EQ(qkv_tensor_count(x), count);
    return x->data;
}

// s(r, c) = +-1, as golden.py's sign().
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
// Matrix number `matrix` of sums[][rows] and samples[][n] against x[rows][columns].
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

// Everything that a run shows, kept: hidden[L + 1][R][D], weights[L][H][R][S].
struct golden_seen {
    int64_t layers, R, D, S;
    struct qkv_model_info info;
    float *hidden, *weights, *last;
};
static inline int golden_keep(void *user, const struct qkv_layer_seen *seen)
{
    struct golden_seen *k = user;
    const size_t RD = (size_t)(k->R * k->D), HRS = (size_t)(k->info.heads * k->R * k->S);
    memcpy(k->hidden + (size_t)(seen->layer + 1) * RD, seen->hidden, RD * sizeof(float));
    if (seen->layer >= 0 && seen->weights)
        memcpy(k->weights + (size_t)seen->layer * HRS, seen->weights, HRS * sizeof(float));
    k->layers++;
    return 0;
}
// Runs and keeps; the last hidden state that the run returns is `last`.
static inline struct golden_seen golden_run(const qkv_model *m, const struct qkv_model_input *in)
{
    struct golden_seen k = { .info = qkv_model_info(m), .R = in->offsets[in->sequences] };
    k.D = k.info.width;
    for (int64_t i = 0; i < in->sequences; i++) {
        const int64_t n = in->offsets[i + 1] - in->offsets[i];
        if (n > k.S) k.S = n;
    }
    const size_t RD = (size_t)(k.R * k.D), HRS = (size_t)(k.info.heads * k.R * k.S);
    k.hidden = calloc((size_t)(k.info.layers + 1) * RD, sizeof(float));
    k.weights = calloc((size_t)k.info.layers * HRS, sizeof(float));
    k.last = calloc(RD, sizeof(float));
    CHECK(k.hidden && k.weights && k.last);
    const struct qkv_watch watch = { .layer = golden_keep, .user = &k, .weights = true };
    qkv_error err = { 0 };
    if (qkv_model_run(m, k.last, in, &watch, &err)) fail_msg("run: %s", err.text);
    CHECK_EQ(k.layers, k.info.layers + 1);
    CHECK_BITS(k.last, k.hidden + (size_t)k.info.layers * RD, RD * sizeof(float));
    return k;
}
static inline void golden_free(struct golden_seen *k)
{
    free(k->hidden);
    free(k->weights);
    free(k->last);
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
