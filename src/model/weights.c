// SPDX-License-Identifier: MIT
// weights.c: the tensors of a checkpoint bound to the layers that a description asks for, and
// packed.
//
// Binding checks names, shapes and types and touches no large tensor: matrices are packed by the
// first run, embedding rows are read where they lie.
#include "model/model.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static qkv_status fail(const struct qkv_model *m, qkv_error *err, qkv_status status,
                       const char *name, const char *text, const char *want, const char *found)
{
    return qkv_fail(err, status, &(struct qkv_place){ .file = m->dir, .path = name },
                    "%s, expected %s, found %s", text, want, found);
}

// The tensor of a name with this shape (columns 0: a vector of rows) as floats of any kind.
static qkv_status take(struct qkv_model *m, const struct qkv_tensor **out, const char *stem,
                       int64_t layer, const char *suffix, int64_t rows, int64_t columns,
                       qkv_error *err)
{
    char name[QKV_TENSOR_NAME], want[160], found[160];
    const int64_t shape[2] = { rows, columns };
    const int rank = columns ? 2 : 1;
    qkv_tensor_name(name, m->prefix, stem, layer, suffix);
    qkv_shape_text(want, shape, rank);
    const struct qkv_tensor *t = qkv_tensor_named(m->file, name);
    if (!t) return fail(m, err, QKV_ERR_FORMAT, name, "no tensor of this name", want, "none");
    qkv_shape_text(found, t->shape, t->rank);
    if (t->rank != rank || t->shape[0] != rows || (columns && t->shape[1] != columns))
        return fail(m, err, QKV_ERR_FORMAT, name, "shape differs from config.json", want, found);
    if (t->dtype != QKV_F32 && t->dtype != QKV_F16 && t->dtype != QKV_BF16 && t->dtype != QKV_F64)
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

static qkv_status take_table(struct qkv_model *m, struct qkv_table *out, const char *name,
                             int64_t rows, qkv_error *err)
{
    const qkv_status s = take(m, &out->tensor, name, 0, "", rows, m->is.size.width, err);
    if (!s) out->rows = floats(out->tensor);
    return s;
}

// *out = numbers at .. at+n-1 of a vector of `all`.
static qkv_status take_part(struct qkv_model *m, const float **out, const struct qkv_tensor *t,
                            int64_t at, int64_t all, qkv_error *err)
{
    *out = floats(t);
    if (!*out) {
        if (!qkv_reserve((void **)&m->own, &m->own_capacity, m->owned + 1, sizeof *m->own))
            return qkv_fail_memory(err, m->dir);
        float *copy = qkv_alloc((size_t)all, sizeof *copy);
        if (!copy) return qkv_fail_memory(err, m->dir);
        m->own[m->owned++] = copy;
        qkv_tensor_to_f32(copy, t);
        *out = copy;
    }
    *out += at;
    return QKV_OK;
}

static qkv_status take_vector(struct qkv_model *m, const float **out, const char *stem,
                              int64_t layer, const char *suffix, int64_t n, qkv_error *err)
{
    const struct qkv_tensor *t = NULL;
    const qkv_status s = take(m, &t, stem, layer, suffix, n, 0, err);
    return s ? s : take_part(m, out, t, 0, n, err);
}

static qkv_status take_norm(struct qkv_model *m, struct qkv_norm *out, const char *stem,
                            int64_t layer, qkv_error *err)
{
    const int64_t D = m->is.size.width;
    qkv_status s = take_vector(m, &out->w, stem, layer, ".weight", D, err);
    if (!s && m->is.norm_kind == QKV_NORM_LAYER)
        s = take_vector(m, &out->b, stem, layer, ".bias", D, err);
    if (s) return s;
    out->D = D;
    out->eps = (float)m->is.size.eps;
    return QKV_OK;
}

// Up to three weights that read the same K columns; N[p] rows each.  Parts of one name are rows of
// one tensor, one behind the other.
static qkv_status take_linear(struct qkv_model *m, struct qkv_linear *out, const char *const *stems,
                              const int64_t *N, int parts, int64_t layer, int64_t K, qkv_error *err)
{
    struct qkv_linear_source *source = &m->source[m->sources];
    const bool turned = m->family->names->conv1d;
    const struct qkv_tensor *w = NULL, *b = NULL;
    *source = (struct qkv_linear_source){ .to = out, .transposed = turned };
    out->K = K;
    out->precision = m->precision;
    out->parts = parts;
    for (int p = 0, n; p < parts; p += n) {
        int64_t all = N[p], at = 0;
        for (n = 1; p + n < parts && strcmp(stems[p + n], stems[p]) == 0; n++) all += N[p + n];
        qkv_status s =
            take(m, &w, stems[p], layer, ".weight", turned ? K : all, turned ? all : K, err);
        if (!s && m->is.bias) s = take(m, &b, stems[p], layer, ".bias", all, 0, err);
        for (int k = p; !s && k < p + n; k++) {
            out->part[k].N = N[k];
            source->from[k] = w;
            source->at[k] = at;
            if (m->is.bias) s = take_part(m, &out->part[k].b, b, at, all, err);
            at += N[k];
        }
        if (s) return s;
    }
    m->sources++;
    return QKV_OK;
}

static qkv_status take_heads(struct qkv_model *m, struct qkv_block *b,
                             const struct qkv_heads_names *name, int64_t layer, qkv_error *err)
{
    const struct qkv_config_sizes *size = &m->is.size;
    const int64_t H = size->heads, G = size->kv_heads, D = size->width;
    const int64_t E = qkv_head_keys(&m->is), F = qkv_head_values(&m->is);
    const char *const in[] = { name->q, name->k, name->v };
    const int64_t N[] = { H * E, G * E, G * F };
    qkv_status s = take_linear(m, &b->heads.in, in, N, 3, layer, D, err);
    if (!s) s = take_linear(m, &b->heads.out, &name->o, &D, 1, layer, H * F, err);
    if (!s && m->is.norm != QKV_NORM_POST)
        s = take_norm(m, &b->heads_in, name->norm_in, layer, err);
    if (!s && m->is.norm != QKV_NORM_PRE)
        s = take_norm(m, &b->heads_out, name->norm_out, layer, err);
    b->heads.H = H;
    b->heads.G = G;
    b->heads.E = E;
    b->heads.F = F;
    return s;
}

static qkv_status take_mlp(struct qkv_model *m, struct qkv_block *b,
                           const struct qkv_mlp_names *name, int64_t layer, qkv_error *err)
{
    const int64_t D = m->is.size.width, M = m->is.size.inner, N[] = { M, M };
    const char *const up[] = { m->is.gated ? name->gate : name->up, name->up };
    b->mlp.act = m->is.act;
    b->mlp.gated = m->is.gated;
    qkv_status s = take_linear(m, &b->mlp.up, up, N, 1 + m->is.gated, layer, D, err);
    if (!s) s = take_linear(m, &b->mlp.down, &name->down, &D, 1, layer, M, err);
    if (!s && m->is.norm != QKV_NORM_POST) s = take_norm(m, &b->mlp_in, name->norm_in, layer, err);
    if (!s && m->is.norm != QKV_NORM_PRE) s = take_norm(m, &b->mlp_out, name->norm_out, layer, err);
    return s;
}

qkv_status qkv_model_bind(struct qkv_model *m, qkv_error *err)
{
    const struct qkv_description *d = &m->is;
    const struct qkv_names *tables = m->family->names;
    const struct qkv_names *name =
        d->kind == QKV_NET_DECODER && tables->decoder ? tables->decoder : tables;
    const int64_t layers = d->size.layers;
    m->prefix = qkv_tensor_prefix(m->file, m->family);
    m->blocks = layers + d->mlp_once;
    m->block = qkv_alloc_zero((size_t)m->blocks + 1, sizeof *m->block);
    m->source = qkv_alloc_zero((size_t)m->blocks * 4, sizeof *m->source);
    if (!m->block || !m->source) return qkv_fail_memory(err, m->dir);
    qkv_status s = take_table(m, &m->word, tables->word, d->size.vocab, err);
    if (!s && d->position == QKV_POSITION_LEARNED)
        s = take_table(m, &m->position, name->position, d->size.positions, err);
    if (!s && d->size.types) s = take_table(m, &m->type, tables->type, d->size.types, err);
    if (!s && d->embedding_norm) s = take_norm(m, &m->embedding_norm, name->embedding_norm, 0, err);
    for (int64_t i = 0; !s && i < layers; i++) {
        s = take_heads(m, &m->block[i], &name->heads, i, err);
        if (!s && !d->mlp_once) s = take_mlp(m, &m->block[i], &name->mlp, i, err);
    }
    if (!s && d->mlp_once) s = take_mlp(m, &m->block[layers], &name->last_mlp, 0, err);
    if (!s && d->final_norm) s = take_norm(m, &m->final_norm, name->final_norm, 0, err);
    return s;
}

void qkv_model_unbind(struct qkv_model *m)
{
    for (int64_t i = 0; i < m->sources; i++) qkv_linear_free(m->source[i].to);
    for (int64_t i = 0; i < m->owned; i++) qkv_free(m->own[i]);
    for (struct qkv_rows_made *made = atomic_load(&m->made), *older; made; made = older) {
        older = made->older;
        qkv_free(made->at);
        qkv_free(made);
    }
    qkv_free(m->own);
    qkv_free(m->source);
    qkv_free(m->block);
}

struct packing {
    struct qkv_model *model;
    atomic_int status;
};

// rows[N][K] of a part, out of a tensor that lies transposed.
static void turn(float *rows, const float *all, int64_t N, int64_t K, int64_t at, int64_t ld)
{
    for (int64_t n = 0; n < N; n++)
        for (int64_t k = 0; k < K; k++) rows[n * K + k] = all[k * ld + at + n];
}

// Where part p lies as [N][K] floats: in the file, or in *own, which packing makes superfluous.
static const float *rows_of(const struct qkv_linear_source *source, int p, float **own)
{
    const struct qkv_tensor *t = source->from[p];
    const int64_t K = source->to->K, N = source->to->part[p].N, at = source->at[p];
    const float *all = floats(t);
    float *wide = NULL;
    if (all && !source->transposed) return all + at * K;
    if (!all) {
        wide = qkv_alloc((size_t)qkv_tensor_count(t), sizeof *wide);
        if (!wide) return NULL;
        qkv_tensor_to_f32(wide, t);
        all = wide;
    }
    if (!source->transposed) {
        *own = wide;
        return wide + at * K;
    }
    *own = qkv_alloc((size_t)(N * K), sizeof **own);
    if (*own) turn(*own, all, N, K, at, t->shape[1]);
    qkv_free(wide);
    return *own;
}

static void pack_one(void *ctx, int64_t i, int thread)
{
    struct packing *job = ctx;
    const struct qkv_linear_source *source = &job->model->source[i];
    struct qkv_linear *l = source->to;
    float *own[QKV_LINEAR_PARTS] = { NULL };
    qkv_status s = QKV_OK;
    (void)thread;
    if (l->packed) return;
    for (int p = 0; !s && p < l->parts; p++) {
        l->part[p].w = rows_of(source, p, &own[p]);
        if (!l->part[p].w) s = QKV_ERR_LIMIT;
    }
    if (!s) s = qkv_linear_pack(l);
    for (int p = 0; p < l->parts; p++) {
        if (own[p]) l->part[p].w = NULL;
        qkv_free(own[p]);
    }
    if (s) atomic_store(&job->status, (int)s);
}

qkv_status qkv_model_pack(struct qkv_model *m)
{
    if (atomic_load_explicit(&m->packed, memory_order_acquire)) return QKV_OK;
    struct packing job = { .model = m };
    atomic_init(&job.status, QKV_OK);
    pthread_mutex_lock(&m->lock);
    if (!atomic_load_explicit(&m->packed, memory_order_relaxed)) {
        qkv_parallel_for(m->sources, pack_one, &job);
        if (atomic_load(&job.status) == QKV_OK)
            atomic_store_explicit(&m->packed, true, memory_order_release);
    }
    pthread_mutex_unlock(&m->lock);
    return (qkv_status)atomic_load(&job.status);
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
