// SPDX-License-Identifier: MIT
// pooling.c: pools the hidden states of a text to one vector, and scales vectors to length 1.
#include "task/embed/embed_internal.h"
#include <math.h>
#include <string.h>

// Computes the mean of n rows. Sums are in double, so that the result does not depend on how rows
// are grouped.
static void mean(float *out, const float *hidden, int64_t n, int64_t D)
{
    // The columns are summed in blocks of 64: rows are read in order, and the sums of a block stay
    // in the CPU cache.
    enum { BLOCK = 64 };
    for (int64_t at = 0; at < D; at += BLOCK) {
        const int64_t width = qkv_min64(BLOCK, D - at);
        double sum[BLOCK] = { 0 };
        for (int64_t r = 0; r < n; r++)
            for (int64_t d = 0; d < width; d++) sum[d] += (double)hidden[r * D + at + d];
        for (int64_t d = 0; d < width; d++) out[at + d] = (float)(sum[d] / (double)n);
    }
}

void qkv_pool_rows(float *out, const float *hidden, int64_t n, int64_t D, enum qkv_pool pool)
{
    switch (pool) {
    case QKV_POOL_FILE: // the caller has already replaced QKV_POOL_FILE
    case QKV_POOL_MEAN: mean(out, hidden, n, D); break;
    case QKV_POOL_CLS: memcpy(out, hidden, (size_t)D * sizeof *out); break;
    case QKV_POOL_LAST: memcpy(out, hidden + (n - 1) * D, (size_t)D * sizeof *out); break;
    case QKV_POOL_MAX:
        memcpy(out, hidden, (size_t)D * sizeof *out);
        for (int64_t r = 1; r < n; r++)
            // a NaN stays the maximum, because comparisons with NaN are false
            for (int64_t d = 0; d < D; d++)
                if (hidden[r * D + d] > out[d] || isnan(hidden[r * D + d]))
                    out[d] = hidden[r * D + d];
        break;
    }
}

void qkv_unit_length(float *x, int64_t D)
{
    double square = 0;
    for (int64_t d = 0; d < D; d++) square += (double)x[d] * (double)x[d];
    if (square == 0) return;
    const double factor = 1 / sqrt(square);
    for (int64_t d = 0; d < D; d++) x[d] = (float)((double)x[d] * factor);
}

float qkv_cosine(const float *a, const float *b, int64_t n)
{
    double ab = 0, aa = 0, bb = 0;
    for (int64_t i = 0; i < n; i++) {
        ab += (double)a[i] * (double)b[i];
        aa += (double)a[i] * (double)a[i];
        bb += (double)b[i] * (double)b[i];
    }
    if (aa == 0 || bb == 0) return 0;
    return (float)(ab / sqrt(aa) / sqrt(bb));
}
