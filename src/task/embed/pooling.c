// SPDX-License-Identifier: MIT
// pooling.c: pools the hidden states of a text to one vector, and scales vectors to length 1.
#include "task/embed/embed_internal.h"
#include <math.h>
#include <string.h>

double qkv_pool_weight(enum qkv_pool pool, int64_t row)
{
    return pool == QKV_POOL_WEIGHTED ? (double)(row + 1) : 1;
}

// Computes the sum of rows skip .. n-1, each times its weight, over the denominator of the pooling.
// Sums are in double, so that the result does not depend on how rows are grouped.
static void mean(float *out, const float *hidden, int64_t skip, int64_t n, int64_t D,
                 enum qkv_pool pool)
{
    // The columns are summed in blocks of 64: rows are read in order, and the sums of a block stay
    // in the CPU cache.
    enum { BLOCK = 64 };
    double whole = 0;
    for (int64_t r = skip; r < n; r++) whole += qkv_pool_weight(pool, r);
    if (pool == QKV_POOL_MEAN_SQRT) whole = sqrt(whole);
    for (int64_t at = 0; at < D; at += BLOCK) {
        const int64_t width = qkv_min64(BLOCK, D - at);
        double sum[BLOCK] = { 0 };
        for (int64_t r = skip; r < n; r++) {
            const double weight = qkv_pool_weight(pool, r);
            for (int64_t d = 0; d < width; d++) sum[d] += weight * (double)hidden[r * D + at + d];
        }
        for (int64_t d = 0; d < width; d++) out[at + d] = (float)(sum[d] / whole);
    }
}

void qkv_pool_rows(float *out, const float *hidden, int64_t skip, int64_t n, int64_t D,
                   enum qkv_pool pool)
{
    const size_t bytes = (size_t)D * sizeof *out;
    if (skip >= n && pool != QKV_POOL_CLS) { // no row is left
        memset(out, 0, bytes);
        return;
    }
    switch (pool) {
    case QKV_POOL_FILE: // the caller has already replaced QKV_POOL_FILE
    case QKV_POOL_MEAN:
    case QKV_POOL_MEAN_SQRT:
    case QKV_POOL_WEIGHTED: mean(out, hidden, skip, n, D, pool); break;
    case QKV_POOL_CLS: memcpy(out, hidden + (skip < n ? skip : 0) * D, bytes); break;
    case QKV_POOL_LAST: memcpy(out, hidden + (n - 1) * D, bytes); break;
    case QKV_POOL_MAX:
        memcpy(out, hidden + skip * D, bytes);
        for (int64_t r = skip + 1; r < n; r++)
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
