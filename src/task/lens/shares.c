// SPDX-License-Identifier: MIT
// shares.c: splits the vector of a text into one summand per token, and computes the share of each
// summand in the squared length of the vector. Sums are computed in double.
#include "task/embed/embed_internal.h"
#include <qkv/lens.h>
#include <math.h>
#include <string.h>

// Replaces the hidden states rows[n][D] by the summands of the pooled vector, one per token, except
// for a factor that all summands share (that of a mean), which no share depends on.
static void summands(float *rows, int64_t n, int64_t D, enum qkv_pool pool)
{
    for (int64_t d = 0; d < D && pool == QKV_POOL_MAX; d++) {
        int64_t best = 0;
        for (int64_t r = 1; r < n; r++) // a NaN stays the maximum, as in pooling.c
            if (rows[r * D + d] > rows[best * D + d] ||
                (isnan(rows[r * D + d]) && !isnan(rows[best * D + d])))
                best = r;
        for (int64_t r = 0; r < n; r++)
            if (r != best) rows[r * D + d] = 0;
    }
    for (int64_t r = 0; r < n; r++) {
        const bool chosen = pool == QKV_POOL_CLS    ? r == 0
                            : pool == QKV_POOL_LAST ? r == n - 1
                                                    : true;
        const float weight = (float)qkv_pool_weight(pool, r);
        for (int64_t d = 0; d < D; d++) rows[r * D + d] = chosen ? weight * rows[r * D + d] : 0;
    }
}

// Returns the factor of the pooling that summands() leaves out.
static double factor(enum qkv_pool pool, int64_t n)
{
    switch (pool) {
    case QKV_POOL_FILE:
    case QKV_POOL_MEAN: return 1 / (double)n;
    case QKV_POOL_MEAN_SQRT: return 1 / sqrt((double)n);
    case QKV_POOL_WEIGHTED: return 2 / ((double)n * (double)(n + 1));
    case QKV_POOL_CLS:
    case QKV_POOL_MAX:
    case QKV_POOL_LAST: break;
    }
    return 1;
}

// Writes share[n] from the summands rows[n][whole], of which the first `width` elements count.
// Returns the length of the sum; v[width] is scratch.
static double split(double *share, double *v, const float *rows, int64_t n, int64_t whole,
                    int64_t width)
{
    double square = 0;
    memset(v, 0, (size_t)width * sizeof *v);
    for (int64_t r = 0; r < n; r++)
        for (int64_t d = 0; d < width; d++) v[d] += (double)rows[r * whole + d];
    for (int64_t d = 0; d < width; d++) square += v[d] * v[d];
    for (int64_t r = 0; r < n; r++) {
        double dot = 0;
        for (int64_t d = 0; d < width; d++) dot += (double)rows[r * whole + d] * v[d];
        share[r] = square == 0 ? 0 : dot / square;
    }
    return sqrt(square);
}

// Computes the shares of n tokens from their last hidden states; if hidden is NULL, it first runs
// the model on `in`.
static qkv_status shares(double *share, double *length, const qkv_embedder *e,
                         const struct qkv_model_input *in, const float *hidden, int64_t n,
                         qkv_error *err)
{
    struct qkv_sum sum;
    qkv_status status = qkv_embedder_parts(e, &sum, err);
    if (status || !n) return status;
    const qkv_model *m = qkv_embedder_model(e);
    const int64_t width = qkv_embedder_width(e), D = qkv_model_info(m).width;
    float *rows = qkv_alloc((size_t)n, (size_t)sum.widest * sizeof *rows);
    float *other = qkv_alloc((size_t)n, (size_t)sum.widest * sizeof *other);
    double *v = qkv_alloc((size_t)width, sizeof *v);
    if (!rows || !other || !v)
        status = qkv_fail_memory(err, NULL);
    else if (hidden)
        memcpy(rows, hidden, (size_t)(n * D) * sizeof *rows);
    else
        status = qkv_model_run(m, rows, in, NULL, err);
    if (!status) {
        summands(rows, n, D, sum.pool);
        if (qkv_embedder_map(e, &rows, &other, n)) status = qkv_fail_memory(err, NULL);
    }
    if (!status) {
        const double whole = split(share, v, rows, n, sum.whole, width);
        if (length) *length = whole * factor(sum.pool, n);
    }
    qkv_free(rows);
    qkv_free(other);
    qkv_free(v);
    return status;
}

qkv_status qkv_shares(double *share, double *length, const qkv_embedder *e, const int32_t *ids,
                      const int32_t *types, int64_t n, qkv_error *err)
{
    if (length) *length = 0;
    if (!e || n < 0 || (n && (!share || !ids)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_shares: expected an embedder, ids and an output array, found NULL");
    const int64_t offsets[] = { 0, n };
    const struct qkv_model_input in = {
        .sequences = 1, .offsets = offsets, .ids = ids, .types = types
    };
    return shares(share, length, e, &in, NULL, n, err);
}

qkv_status qkv_shares_hidden(double *share, double *length, const qkv_embedder *e,
                             const float *hidden, int64_t n, qkv_error *err)
{
    if (length) *length = 0;
    if (!e || n < 0 || (n && (!share || !hidden)))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_shares_hidden: expected an embedder, hidden states and an output "
                        "array, found NULL");
    return shares(share, length, e, NULL, hidden, n, err);
}
