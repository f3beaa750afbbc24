// SPDX-License-Identifier: MIT
// similarity_terms.c: splits the cosine of two texts into a sum of terms, one per pair of their
// tokens. The vectors of the texts are means of hidden states.
//
// The dot product of two means is a sum over pairs of tokens, and the lengths of the two means are
// constants, so the terms add up to the cosine exactly. Sums are computed in double.
#include "task/embed/embed_internal.h"
#include <qkv/ablate.h>
#include <math.h>
#include <string.h>

static const char *pool_name(enum qkv_pool p)
{
    static const char *const names[] = { "as in its file", "mean", "cls", "max", "last" };
    return names[p];
}

// Returns the length of the mean of rows[n][D].
static double mean_length(const float *rows, int64_t n, int64_t D)
{
    double square = 0;
    for (int64_t d = 0; d < D; d++) {
        double sum = 0;
        for (int64_t r = 0; r < n; r++) sum += (double)rows[r * D + d];
        square += sum / (double)n * (sum / (double)n);
    }
    return sqrt(square);
}

struct terms {
    double *to;
    const float *a, *b;
    int64_t columns, D;
    double factor;
};

static void row(void *ctx, int64_t i, int thread)
{
    const struct terms *t = ctx;
    const float *a = t->a + i * t->D;
    (void)thread;
    for (int64_t j = 0; j < t->columns; j++) {
        const float *b = t->b + j * t->D;
        double dot = 0;
        for (int64_t d = 0; d < t->D; d++) dot += (double)a[d] * (double)b[d];
        t->to[i * t->columns + j] = dot * t->factor;
    }
}

// Computes all terms. hidden[rows + columns][D] has the hidden states of the first text, then of
// the second.
static void split(struct qkv_why *w, const float *hidden, int64_t D)
{
    struct terms t = { w->terms, hidden, hidden + w->rows * D, w->columns, D, 0 };
    const int64_t n = w->rows * w->columns;
    const double length = n ? mean_length(t.a, w->rows, D) * mean_length(t.b, w->columns, D) : 0;
    if (length > 0) t.factor = 1 / (length * (double)w->rows * (double)w->columns);
    if (length > 0) // if the length is 0, every term is 0; if it is NaN, every term is NaN
        qkv_parallel_for(w->rows, row, &t);
    else
        for (int64_t i = 0; i < n; i++) w->terms[i] = length == 0 ? 0 : length;
    for (int64_t i = 0; i < n; i++) w->cosine += w->terms[i];
}

// Runs the model on both texts, packed in one batch, and computes the terms.
static qkv_status run(struct qkv_why *w, const qkv_embedder *e, qkv_error *err)
{
    const qkv_model *m = qkv_embedder_model(e);
    const int64_t D = qkv_embedder_width(e), R = w->rows + w->columns;
    const int64_t offsets[] = { 0, w->rows, R };
    size_t cells;
    qkv_status status = QKV_OK;
    if (!qkv_mul_size(&cells, (size_t)w->rows, (size_t)w->columns))
        return qkv_fail_memory(err, NULL);
    float *hidden = qkv_alloc((size_t)R + 1, (size_t)D * sizeof *hidden);
    int32_t *ids = qkv_alloc(2 * (size_t)R + 1, sizeof *ids), *types = ids ? ids + R : NULL;
    w->terms = qkv_alloc(cells + 1, sizeof *w->terms);
    if (!hidden || !ids || !w->terms) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int k = 0; k < 2; k++) {
        const size_t bytes = (size_t)w->text[k].count * sizeof *ids;
        if (!bytes) continue;
        memcpy(ids + offsets[k], w->text[k].ids, bytes);
        memcpy(types + offsets[k], w->text[k].types, bytes);
    }
    const struct qkv_model_input in = {
        .sequences = 2, .offsets = offsets, .ids = ids, .types = types
    };
    status = qkv_model_run(m, hidden, &in, NULL, err);
    if (!status) split(w, hidden, D);
done:
    qkv_free(hidden);
    qkv_free(ids);
    return status;
}

qkv_status qkv_why(struct qkv_why *out, const qkv_embedder *e, const char *a, size_t a_bytes,
                   const char *b, size_t b_bytes, qkv_error *err)
{
    if (out) *out = (struct qkv_why){ 0 };
    if (!out || !e || !a || !b || !qkv_embedder_tokenizer(e))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_why: expected an embedder with a tokenizer and two texts, found NULL");
    if (qkv_embedder_pool(e) != QKV_POOL_MEAN)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, NULL,
                        "splitting a cosine by tokens requires mean pooling, found pooling '%s'",
                        pool_name(qkv_embedder_pool(e)));
    qkv_status status = qkv_embedder_encode(e, &out->text[0], a, a_bytes, err);
    if (!status) status = qkv_embedder_encode(e, &out->text[1], b, b_bytes, err);
    out->rows = out->text[0].count;
    out->columns = out->text[1].count;
    if (!status) status = run(out, e, err);
    if (status) qkv_why_free(out);
    return status;
}

void qkv_why_free(struct qkv_why *w)
{
    if (!w) return;
    qkv_encoding_free(&w->text[0]);
    qkv_encoding_free(&w->text[1]);
    qkv_free(w->terms);
    *w = (struct qkv_why){ 0 };
}
