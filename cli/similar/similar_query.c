// SPDX-License-Identifier: MIT
// similar_query.c: finds the texts or the rows of a .npy file that are nearest to one text.
#include "similar/similar_query.h"
#include "frame/tokens.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

struct query {
    struct qkv_vectors v;
    qkv_tensors *file;
    float *own;  // vectors of length 1 that are not in the file; NULL: they are
    float *unit; // [width] the vector of the query, of length 1
};

// Scales a vector to length 1; a vector of length 0 stays.
static void normalise(float *to, const float *from, int64_t width)
{
    double square = 0;
    for (int64_t i = 0; i < width; i++) square += (double)from[i] * (double)from[i];
    const double by = square > 0 ? 1 / sqrt(square) : 0;
    for (int64_t i = 0; i < width; i++) to[i] = (float)((double)from[i] * by);
}

// Returns true if each vector has length 1, except for the rounding of its numbers.
static bool are_unit(const float *x, int64_t n, int64_t width)
{
    for (int64_t r = 0; r < n; r++, x += width) {
        double square = 0;
        for (int64_t i = 0; i < width; i++) square += (double)x[i] * (double)x[i];
        // 2^-20: twice the error of a length whose numbers are rounded to float, with a margin
        if (!(fabs(square - 1) <= 0x1p-20)) return false;
    }
    return true;
}

// Opens the vectors of a .npy file; vectors that do not have length 1 are copied.
static qkv_status open_vectors(struct query *q, const char *path, int64_t width, qkv_error *err)
{
    char found[SHAPE_TEXT];
    // the shape is checked before an array in another order is copied
    const struct qkv_tensors_options how = { .shapes_only = true };
    qkv_status status = qkv_tensors_open(&q->file, path, &how, err);
    if (status) return status;
    const struct qkv_tensor *t = qkv_tensors_at(q->file, 0);
    if (!t || t->rank != 2 || t->shape[1] != width)
        return cmd_error(err, QKV_ERR_USAGE, path,
                         "expected an array of vectors, n x %lld as the model makes, found %s",
                         (long long)width, t ? array_shape(found, t->rank, t->shape) : "none");
    if ((status = qkv_tensors_convert(q->file, err)) != QKV_OK) return status;
    const int64_t n = t->shape[0];
    q->v = (struct qkv_vectors){ .count = n, .width = width, .type = QKV_F32, .rows = t->data };
    if (t->dtype == QKV_F32 && (uintptr_t)t->data % sizeof(float) == 0 &&
        are_unit(t->data, n, width))
        return QKV_OK;
    if (n > INT64_MAX / width / (int64_t)sizeof(float))
        return cmd_error(err, QKV_ERR_LIMIT, path, "too many vectors");
    q->v.rows = q->own = cmd_grow(NULL, (size_t)(n * width) + 1, sizeof *q->own);
    qkv_tensor_to_f32(q->own, t);
    for (int64_t i = 0; i < n * width; i++)
        if (!isfinite(q->own[i]))
            return cmd_error(err, QKV_ERR_FORMAT, path,
                             "row %lld is not finite, expected finite numbers, found %s",
                             (long long)(i / width), isnan(q->own[i]) ? "NaN" : "infinity");
    for (int64_t r = 0; r < n; r++) normalise(q->own + r * width, q->own + r * width, width);
    return QKV_OK;
}

// Prints the matches. Texts are counted from 1, as lines are, rows of an array from 0.
static void print(const struct cmd_texts *t, const char *query, const struct qkv_match *m,
                  int64_t n)
{
    const int first = t->count ? 1 : 0;
    if (common.json) {
        putchar('{');
        cmd_json_computed(stdout);
        fputs(",\"query\":", stdout);
        cmd_json_text(stdout, query, strlen(query));
        fputs(",\"nearest\":[", stdout);
        for (int64_t i = 0; i < n; i++) {
            printf("%s{\"%s\":%lld,\"cosine\":", i ? "," : "", t->count ? "number" : "row",
                   (long long)m[i].row + first);
            cmd_json_float(stdout, m[i].score);
            if (t->count) fputs(",\"text\":", stdout);
            if (t->count) cmd_json_text(stdout, t->text[m[i].row], t->bytes[m[i].row]);
            putchar('}');
        }
        puts("]}");
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        printf("%6.3f %7lld", (double)m[i].score, (long long)m[i].row + first);
        if (t->count) {
            fputs("  ", stdout);
            cmd_print_cell(stdout, t->text[m[i].row], t->bytes[m[i].row], 0, cmd_columns() - 17);
        }
        putchar('\n');
    }
}

// Embeds the query and the texts, all of length 1.
static qkv_status embed(struct query *q, const qkv_embedder *e, const struct cmd_texts *t,
                        const char *query, qkv_error *err)
{
    const int64_t width = qkv_embedder_width(e), all = t->count + 1;
    struct qkv_embed_report report = { 0 };
    const char **texts = cmd_grow(NULL, (size_t)all, sizeof *texts);
    size_t *bytes = cmd_grow(NULL, (size_t)all, sizeof *bytes);
    float *v = cmd_grow(NULL, (size_t)all * (size_t)width, sizeof *v);
    for (int64_t i = 0; i < t->count; i++) {
        texts[i] = t->text[i];
        bytes[i] = t->bytes[i];
    }
    texts[t->count] = query;
    bytes[t->count] = strlen(query);
    qkv_status status = qkv_embed(e, v, texts, bytes, all, &report, err);
    if (!status) status = cmd_check_finite(v, all * width, "vector of a text", err);
    if (status) cmd_text_place(err, 0, t->operands, t->file);
    cmd_progress_end();
    if (!status) tokens_notes(&report, all, qkv_embedder_max_length(e));
    for (int64_t i = 0; i < all && !status; i++) normalise(v + i * width, v + i * width, width);
    q->own = v;
    q->unit = v + t->count * width;
    q->v = (struct qkv_vectors){ .count = t->count, .width = width, .type = QKV_F32, .rows = v };
    free(texts);
    free(bytes);
    return status;
}

qkv_status similar_query(const struct cmd_texts *t, const char *vectors, const char *query,
                         int64_t k, const char *dir, bool truncate, qkv_error *err)
{
    qkv_embedder *e = NULL;
    struct query q = { .file = NULL }, stored = { .file = NULL };
    const struct qkv_embedder_options how = { .model = cmd_model_options(),
                                              .truncate = truncate,
                                              .progress = cmd_progress_begin("texts") };
    struct qkv_match *m = NULL;
    int64_t found = 0;
    qkv_status status = qkv_embedder_open(&e, dir, &how, err);
    if (!status) status = embed(&q, e, t, query, err);
    if (!status && vectors) status = open_vectors(&stored, vectors, q.v.width, err);
    const struct qkv_vectors *v = vectors ? &stored.v : &q.v;
    if (k > v->count) k = v->count ? v->count : 1;
    m = cmd_grow(NULL, (size_t)k, sizeof *m);
    if (!status) status = qkv_search(m, &found, v, q.unit, 1, k, err);
    if (!status) print(t, query, m, found);
    cmd_progress_end();
    free(m);
    free(q.own);
    free(stored.own);
    qkv_tensors_close(stored.file);
    qkv_embedder_close(e);
    return status;
}
