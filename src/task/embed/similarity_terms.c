// SPDX-License-Identifier: MIT
// similarity_terms.c: splits the cosine of two texts into a sum of terms, one per pair of their
// tokens. The vectors of the texts are weighted sums of hidden states, except for their lengths.
//
// The dot product of two sums is a sum over pairs of tokens, and the lengths of the two sums are
// constants, so the terms add up to the cosine exactly. Sums are computed in double.
#include "task/embed/embed_internal.h"
#include <qkv/ablate.h>
#include <math.h>
#include <string.h>

// The rows of one text: row r of the sum is weight(r) rows[r].
struct side {
    const float *rows; // [n][whole], of which the first `width` elements count
    int64_t n;
};

struct terms {
    double *to;
    struct side a, b;
    struct qkv_sum sum;
    int64_t width;
    double factor;
};

static double weight(const struct terms *t, int64_t r)
{
    return r < t->sum.skip ? 0 : qkv_pool_weight(t->sum.pool, r);
}

// Returns the length of the weighted sum of the rows.
static double sum_length(const struct terms *t, const struct side *s)
{
    double square = 0;
    for (int64_t d = 0; d < t->width; d++) {
        double sum = 0;
        for (int64_t r = 0; r < s->n; r++)
            sum += weight(t, r) * (double)s->rows[r * t->sum.whole + d];
        square += sum * sum;
    }
    return sqrt(square);
}

static void row(void *ctx, int64_t i, int thread)
{
    const struct terms *t = ctx;
    const float *a = t->a.rows + i * t->sum.whole;
    (void)thread;
    for (int64_t j = 0; j < t->b.n; j++) {
        const float *b = t->b.rows + j * t->sum.whole;
        double dot = 0;
        for (int64_t d = 0; d < t->width; d++) dot += (double)a[d] * (double)b[d];
        t->to[i * t->b.n + j] = weight(t, i) * weight(t, j) * dot * t->factor;
    }
}

// Computes all terms. rows[w->rows + w->columns][sum->whole] has the rows of the first text, then
// of the second.
static void split(struct qkv_why *w, const float *rows, const struct qkv_sum *sum, int64_t width)
{
    struct terms t = { .to = w->terms,
                       .a = { rows, w->rows },
                       .b = { rows + w->rows * sum->whole, w->columns },
                       .sum = *sum,
                       .width = width };
    const int64_t n = w->rows * w->columns;
    const double length = n ? sum_length(&t, &t.a) * sum_length(&t, &t.b) : 0;
    if (length > 0) t.factor = 1 / length;
    if (length > 0) // if the length is 0, every term is 0; if it is NaN, every term is NaN
        qkv_parallel_for(w->rows, row, &t);
    else
        for (int64_t i = 0; i < n; i++) w->terms[i] = length == 0 ? 0 : length;
    for (int64_t i = 0; i < n; i++) w->cosine += w->terms[i];
}

// Runs the model on both texts, packed in one batch, and computes the terms.
static qkv_status run(struct qkv_why *w, const qkv_embedder *e, const struct qkv_sum *sum,
                      qkv_error *err)
{
    const qkv_model *m = qkv_embedder_model(e);
    const int64_t R = w->rows + w->columns;
    const int64_t offsets[] = { 0, w->rows, R };
    size_t cells;
    qkv_status status = QKV_OK;
    if (!qkv_mul_size(&cells, (size_t)w->rows, (size_t)w->columns))
        return qkv_fail_memory(err, NULL);
    float *hidden = qkv_alloc((size_t)R + 1, (size_t)sum->widest * sizeof *hidden);
    float *other = qkv_alloc((size_t)R + 1, (size_t)sum->widest * sizeof *other);
    int32_t *ids = qkv_alloc(2 * (size_t)R + 1, sizeof *ids), *types = ids ? ids + R : NULL;
    w->terms = qkv_alloc(cells + 1, sizeof *w->terms);
    if (!hidden || !other || !ids || !w->terms) {
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
    if (!status && qkv_embedder_map(e, &hidden, &other, R)) status = qkv_fail_memory(err, NULL);
    if (!status) split(w, hidden, sum, qkv_embedder_width(e));
done:
    qkv_free(hidden);
    qkv_free(other);
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
    struct qkv_sum sum;
    qkv_status status = qkv_embedder_sum(e, &sum, err);
    if (!status) status = qkv_embedder_encode(e, &out->text[0], a, a_bytes, err);
    if (!status) status = qkv_embedder_encode(e, &out->text[1], b, b_bytes, err);
    out->rows = out->text[0].count;
    out->columns = out->text[1].count;
    if (!status) status = run(out, e, &sum, err);
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
