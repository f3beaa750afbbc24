// SPDX-License-Identifier: MIT
// weights.c: tensors of a checkpoint taken, checked and packed.
//
// Taking checks name, shape and type and touches no large tensor: matrices are packed by the first
// run that needs them, piece by piece out of the file, embedding rows are read where they lie.
#include "model/weights.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static qkv_status fail(const struct qkv_model *m, qkv_error *err, qkv_status status,
                       const char *name, const char *text, const char *want, const char *found)
{
    return qkv_fail(err, status, &(struct qkv_place){ .file = m->dir, .path = name },
                    "%s, expected %s, found %s", text, want, found);
}

const struct qkv_tensor *qkv_take_find(const struct qkv_model *m, struct qkv_stem at,
                                       const char *suffix)
{
    char name[QKV_TENSOR_NAME];
    qkv_tensor_name(name, at.prefix, at.name, at.layer, suffix);
    return qkv_tensor_named(m->file, name);
}

// Weights of 8 bits have a float for each of their outputs beside them (docs/formats.md).
static bool eight_bits(const struct qkv_model *m, struct qkv_stem at, const char *suffix)
{
    char scale[32];
    snprintf(scale, sizeof scale, "%s" QKV_EIGHT_SCALE, suffix);
    return qkv_take_find(m, at, scale) != NULL;
}

// The tensor of a name with this shape (columns 0: a vector of rows) as floats of any kind.
static qkv_status take(struct qkv_model *m, const struct qkv_tensor **out, struct qkv_stem at,
                       const char *suffix, int64_t rows, int64_t columns, qkv_error *err)
{
    char name[QKV_TENSOR_NAME], want[160], found[160];
    const int64_t shape[2] = { rows, columns };
    const int rank = columns ? 2 : 1;
    qkv_tensor_name(name, at.prefix, at.name, at.layer, suffix);
    qkv_shape_text(want, shape, rank);
    const struct qkv_tensor *t = qkv_tensor_named(m->file, name);
    if (!t) return fail(m, err, QKV_ERR_FORMAT, name, "no tensor of this name", want, "none");
    qkv_shape_text(found, t->shape, t->rank);
    // A vector may lie as one row.
    const bool flat = !columns && t->rank == 2 && t->shape[0] == 1 && t->shape[1] == rows;
    if (!flat && (t->rank != rank || t->shape[0] != rows || (columns && t->shape[1] != columns)))
        return fail(m, err, QKV_ERR_FORMAT, name, "shape differs from config.json", want, found);
    const bool eight = t->dtype == QKV_I8 && eight_bits(m, at, suffix);
    if (!eight && t->dtype != QKV_F32 && t->dtype != QKV_F16 && t->dtype != QKV_BF16 &&
        t->dtype != QKV_F64)
        return fail(m, err, QKV_ERR_UNSUPPORTED, name, "weights of this type",
                    "F32, F16, BF16 or F64", qkv_dtype_name(t->dtype));
    m->used++;
    *out = t;
    return QKV_OK;
}

// The tensor's own memory as floats; NULL: it must be converted.
static const float *floats(const struct qkv_tensor *t)
{
    return t->dtype == QKV_F32 && (uintptr_t)t->data % sizeof(float) == 0 ? t->data : NULL;
}

qkv_status qkv_take_table(struct qkv_model *m, struct qkv_table *out, struct qkv_stem at,
                          int64_t rows, int64_t columns, qkv_error *err)
{
    const qkv_status s = take(m, &out->tensor, at, "", rows, columns, err);
    if (s) return s;
    if (out->tensor->dtype == QKV_I8)
        return fail(m, err, QKV_ERR_UNSUPPORTED, out->tensor->name, "embeddings of this type",
                    "F32, F16, BF16 or F64", "I8");
    out->rows = floats(out->tensor);
    return QKV_OK;
}

float *qkv_take_memory(struct qkv_model *m, int64_t n, qkv_error *err)
{
    float *memory = NULL;
    if (qkv_reserve((void **)&m->own, &m->own_capacity, m->owned + 1, sizeof *m->own))
        memory = qkv_alloc((size_t)qkv_max64(n, 1), sizeof *memory);
    if (memory)
        m->own[m->owned++] = memory;
    else
        qkv_fail_memory(err, m->dir);
    return memory;
}

// *out = numbers at .. at+n-1 of a vector of `all`.
static qkv_status take_part(struct qkv_model *m, const float **out, const struct qkv_tensor *t,
                            int64_t at, int64_t all, qkv_error *err)
{
    *out = floats(t);
    if (!*out) {
        float *copy = qkv_take_memory(m, all, err);
        if (!copy) return QKV_ERR_LIMIT;
        qkv_tensor_to_f32(copy, t);
        *out = copy;
    }
    *out += at;
    return QKV_OK;
}

qkv_status qkv_take_vector(struct qkv_model *m, const float **out, struct qkv_stem at,
                           const char *suffix, int64_t n, qkv_error *err)
{
    const struct qkv_tensor *t = NULL;
    const qkv_status s = take(m, &t, at, suffix, n, 0, err);
    return s ? s : take_part(m, out, t, 0, n, err);
}

qkv_status qkv_take_norm(struct qkv_model *m, struct qkv_norm *out, struct qkv_stem at, int64_t D,
                         enum qkv_norm_kind kind, qkv_error *err)
{
    const float offset = kind == QKV_NORM_RMS ? (float)m->is.norm_offset : 0;
    qkv_status s = qkv_take_vector(m, &out->w, at, ".weight", D, err);
    if (!s && kind == QKV_NORM_LAYER && !m->is.norm_unbiased)
        s = qkv_take_vector(m, &out->b, at, ".bias", D, err);
    if (s) return s;
    if (offset != 0) {
        float *moved = qkv_take_memory(m, D, err);
        if (!moved) return QKV_ERR_LIMIT;
        for (int64_t i = 0; i < D; i++) moved[i] = out->w[i] + offset;
        out->w = moved;
    }
    out->D = D;
    out->eps = (float)m->is.size.eps;
    return QKV_OK;
}

static struct qkv_linear_source *next_source(struct qkv_model *m, struct qkv_linear *out,
                                             enum qkv_pack_group group, bool transposed)
{
    struct qkv_linear_source *source = &m->source[m->sources];
    *source = (struct qkv_linear_source){ .to = out, .group = group, .transposed = transposed };
    out->precision = m->precision;
    return source;
}

qkv_status qkv_take_linear(struct qkv_model *m, struct qkv_linear *out,
                           const struct qkv_linear_want *want, const char *prefix, int64_t layer,
                           qkv_error *err)
{
    struct qkv_linear_source *source = next_source(m, out, want->group, want->transposed);
    const struct qkv_tensor *w = NULL, *b = NULL, *scale = NULL;
    const bool turned = want->transposed;
    out->K = want->K;
    out->parts = want->parts;
    for (int p = 0, n; p < want->parts; p += n) {
        const struct qkv_stem at = { prefix, want->stems[p], layer };
        int64_t all = want->N[p], row = 0;
        for (n = 1; p + n < want->parts && strcmp(want->stems[p + n], at.name) == 0; n++)
            all += want->N[p + n];
        qkv_status s =
            take(m, &w, at, ".weight", turned ? want->K : all, turned ? all : want->K, err);
        if (!s && w->dtype == QKV_I8)
            s = take(m, &scale, at, ".weight" QKV_EIGHT_SCALE, all, 0, err);
        if (!s && want->bias) s = take(m, &b, at, ".bias", all, 0, err);
        for (int k = p; !s && k < p + n; k++) {
            out->part[k].N = want->N[k];
            source->from[k] = w;
            source->at[k] = row;
            if (w->dtype == QKV_I8) s = take_part(m, &source->scale[k], scale, row, all, err);
            if (!s && want->bias) s = take_part(m, &out->part[k].b, b, row, all, err);
            row += want->N[k];
        }
        if (s) return s;
    }
    m->sources++;
    return QKV_OK;
}

void qkv_take_tied(struct qkv_model *m, struct qkv_linear *out, const struct qkv_table *table,
                   enum qkv_pack_group group)
{
    struct qkv_linear_source *source = next_source(m, out, group, false);
    out->K = table->tensor->shape[1];
    out->parts = 1;
    out->part[0].N = table->tensor->shape[0];
    source->from[0] = table->tensor;
    m->sources++;
}

qkv_status qkv_take_projection(struct qkv_model *m, struct qkv_linear *out, struct qkv_stem at,
                               int64_t rows, int64_t columns, enum qkv_pack_group group,
                               qkv_error *err)
{
    struct qkv_table table = { NULL, NULL };
    const struct qkv_tensor *scale = NULL;
    qkv_status s = take(m, &table.tensor, at, "", rows, columns, err);
    if (s) return s;
    qkv_take_tied(m, out, &table, group);
    if (table.tensor->dtype != QKV_I8) return QKV_OK;
    s = take(m, &scale, at, QKV_EIGHT_SCALE, rows, 0, err);
    return s ? s : take_part(m, &m->source[m->sources - 1].scale[0], scale, 0, rows, err);
}

// ---- packing -----------------------------------------------------------------------------------
// Pieces of every part of every layer of a group, side by side.
struct packing {
    struct qkv_model *model;
    enum qkv_pack_group group;
    const int64_t *to; // [sources] pieces up to and with each
    atomic_int status;
};

static bool to_pack(const struct packing *job, int64_t i)
{
    return job->model->source[i].group == job->group;
}

static int64_t pieces(const struct qkv_linear *l, int p)
{
    return qkv_ceil_div(l->part[p].N, qkv_linear_piece(l));
}

// Rows n .. n+N-1 of part p out of whole numbers of 8 bits: the floats that they stand for.
static bool pack_eights(const struct qkv_linear_source *source, int p, int64_t n, int64_t N)
{
    struct qkv_linear *l = source->to;
    const struct qkv_tensor *t = source->from[p];
    const int64_t row = source->at[p] + n, ld = t->shape[1];
    const int8_t *q = t->data;
    real *own = qkv_alloc((size_t)qkv_max64(N * l->K, 1), sizeof *own);
    bool ok = own != NULL;
    for (int64_t i = 0; ok && i < N; i++)
        qkv_quantised_row(own + i * l->K, source->transposed ? q + row + i : q + (row + i) * ld,
                          source->scale[p][n + i], l->K, source->transposed ? ld : 1);
    ok = ok && qkv_linear_pack_piece(l, p, n, N, own, QKV_REAL, l->K, 1);
    qkv_free(own);
    return ok;
}

static void pack_piece(void *ctx, int64_t i, int thread)
{
    struct packing *job = ctx;
    int64_t at = 0, low = 0, high = job->model->sources - 1;
    int p = 0;
    (void)thread;
    while (low < high) { // the first source that ends behind i
        const int64_t middle = (low + high) / 2;
        if (job->to[middle] > i)
            high = middle;
        else
            low = middle + 1;
    }
    at = i - (low ? job->to[low - 1] : 0);
    const struct qkv_linear_source *source = &job->model->source[low];
    struct qkv_linear *l = source->to;
    while (at >= pieces(l, p)) at -= pieces(l, p++);
    const struct qkv_tensor *t = source->from[p];
    const int64_t n = at * qkv_linear_piece(l),
                  N = qkv_min64(qkv_linear_piece(l), l->part[p].N - n);
    const int64_t row = source->at[p] + n, ld = t->shape[1];
    const int64_t first = source->transposed ? row : row * ld;
    if (t->dtype == QKV_I8) {
        if (!pack_eights(source, p, n, N)) atomic_store(&job->status, (int)QKV_ERR_LIMIT);
        return;
    }
    if (!qkv_linear_pack_piece(l, p, n, N,
                               (const char *)t->data + (size_t)first * qkv_dtype_size(t->dtype),
                               t->dtype, source->transposed ? 1 : ld, source->transposed ? ld : 1))
        atomic_store(&job->status, (int)QKV_ERR_LIMIT);
}

// Bytes of all layers of the group, each from a cache line on, and, where memory is given, their
// places in it; to[] is filled.  false: no memory can hold them.
static bool place_layers(const struct packing *job, int64_t *to, char *memory, size_t *bytes)
{
    int64_t count = 0;
    *bytes = 0;
    for (int64_t i = 0; i < job->model->sources; i++) {
        struct qkv_linear *l = job->model->source[i].to;
        if (to_pack(job, i)) {
            const size_t own = qkv_linear_pack_bytes(l);
            if (memory) l->packed = memory + *bytes;
            if (own > SIZE_MAX - 64 || !qkv_add_size(bytes, *bytes, qkv_round_up(own, 64)))
                return false;
            for (int p = 0; p < l->parts; p++) count += pieces(l, p);
        }
        to[i] = count;
    }
    return true;
}

// Room for every layer of the group, side by side: each alone would be too small for large pages,
// and a token reads all of them.
static bool make_room(const struct packing *job, int64_t *to)
{
    char **memory = &job->model->weights[job->group];
    size_t bytes;
    if (!place_layers(job, to, NULL, &bytes)) return false;
    if (!*memory) *memory = qkv_alloc(bytes ? bytes : 1, 1);
    return *memory && place_layers(job, to, *memory, &bytes);
}

static qkv_status pack_group(struct packing *job)
{
    struct qkv_model *m = job->model;
    int64_t *to = qkv_alloc((size_t)m->sources + 1, sizeof *to);
    if (!to) return QKV_ERR_LIMIT;
    job->to = to;
    if (!make_room(job, to))
        atomic_store(&job->status, (int)QKV_ERR_LIMIT);
    else if (m->sources)
        qkv_parallel_for(to[m->sources - 1], pack_piece, job);
    qkv_free(to);
    return (qkv_status)atomic_load(&job->status);
}

qkv_status qkv_model_pack(struct qkv_model *m, enum qkv_pack_group group)
{
    qkv_status s = QKV_OK;
    if (atomic_load_explicit(&m->packed[group], memory_order_acquire)) return QKV_OK;
    struct packing job = { .model = m, .group = group };
    atomic_init(&job.status, QKV_OK);
    pthread_mutex_lock(&m->lock);
    if (!atomic_load_explicit(&m->packed[group], memory_order_relaxed)) {
        s = pack_group(&job);
        if (!s) atomic_store_explicit(&m->packed[group], true, memory_order_release);
    }
    pthread_mutex_unlock(&m->lock);
    return s;
}

void qkv_table_row(float *out, const struct qkv_table *t, int64_t row, int64_t D)
{
    if (t->rows) {
        memcpy(out, t->rows + row * D, (size_t)D * sizeof *out);
        return;
    }
    struct qkv_tensor one = *t->tensor;
    one.rank = 1;
    one.shape[0] = D;
    one.bytes = (size_t)D * qkv_dtype_size(one.dtype);
    one.data = (const char *)t->tensor->data + (size_t)row * one.bytes;
    qkv_tensor_to_f32(out, &one);
}
