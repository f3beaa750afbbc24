// SPDX-License-Identifier: MIT
// pack.c: packs the matrices of a model from its checkpoint into the layout that matrix products
// use.
//
// The first run that needs a group of layers packs the group, piece by piece, from the mapped file.
#include "model/model_internal.h"
#include <string.h>

// Packing of one group of linear layers. Each part of each layer is packed in pieces, which threads
// process in parallel.
struct packing {
    struct qkv_model *model;
    enum qkv_pack_group group;
    const int64_t *to; // [sources] number of pieces of all sources up to and including this one
    atomic_int status;
};

static bool in_group(const struct packing *job, int64_t i)
{
    return job->model->source[i].group == job->group;
}

static int64_t count_pieces(const struct qkv_linear *l, int p)
{
    return qkv_ceil_div(l->part[p].N, qkv_linear_piece(l));
}

// Packs outputs n .. n+N-1 of part p of a layer from int8 weights, which it converts to floats
// first.
static bool pack_eight_bits(const struct qkv_linear_source *source, int p, int64_t n, int64_t N)
{
    struct qkv_linear *l = source->to;
    const struct qkv_tensor *t = source->from[p];
    const int64_t row = source->at[p] + n, ld = t->shape[1];
    const int8_t *q = t->data;
    real *floats = qkv_alloc((size_t)qkv_max64(N * l->K, 1), sizeof *floats);
    bool ok = floats != NULL;
    for (int64_t i = 0; ok && i < N; i++)
        qkv_quantised_row(floats + i * l->K, source->transposed ? q + row + i : q + (row + i) * ld,
                          source->scale[p][n + i], l->K, source->transposed ? ld : 1);
    ok = ok && qkv_linear_pack_piece(l, p, n, N, floats, QKV_REAL, l->K, 1);
    qkv_free(floats);
    return ok;
}

static void pack_piece(void *ctx, int64_t i, int thread)
{
    struct packing *job = ctx;
    int64_t at = 0, low = 0, high = job->model->sources - 1;
    int p = 0;
    (void)thread;
    while (low < high) { // binary search: the first source whose pieces end after i
        const int64_t middle = (low + high) / 2;
        if (job->to[middle] > i)
            high = middle;
        else
            low = middle + 1;
    }
    at = i - (low ? job->to[low - 1] : 0);
    const struct qkv_linear_source *source = &job->model->source[low];
    struct qkv_linear *l = source->to;
    while (at >= count_pieces(l, p)) at -= count_pieces(l, p++);
    const struct qkv_tensor *t = source->from[p];
    const int64_t n = at * qkv_linear_piece(l),
                  N = qkv_min64(qkv_linear_piece(l), l->part[p].N - n);
    const int64_t row = source->at[p] + n, ld = t->shape[1];
    const int64_t first = source->transposed ? row : row * ld;
    if (t->dtype == QKV_I8) {
        if (!pack_eight_bits(source, p, n, N)) atomic_store(&job->status, (int)QKV_ERR_LIMIT);
        return;
    }
    if (!qkv_linear_pack_piece(l, p, n, N,
                               (const char *)t->data + (size_t)first * qkv_dtype_size(t->dtype),
                               t->dtype, source->transposed ? 1 : ld, source->transposed ? ld : 1))
        atomic_store(&job->status, (int)QKV_ERR_LIMIT);
}

// Counts the bytes of all layers of the group, each aligned to a cache line, and fills to[]. If
// memory is not NULL, also sets the address of each layer in it. Returns false if the size
// overflows.
static bool assign_memory(const struct packing *job, int64_t *to, char *memory, size_t *bytes)
{
    int64_t count = 0;
    *bytes = 0;
    for (int64_t i = 0; i < job->model->sources; i++) {
        struct qkv_linear *l = job->model->source[i].to;
        if (in_group(job, i)) {
            const size_t layer = qkv_linear_pack_bytes(l);
            if (memory) l->packed = memory + *bytes;
            if (layer > SIZE_MAX - 64 || !qkv_add_size(bytes, *bytes, qkv_round_up(layer, 64)))
                return false;
            for (int p = 0; p < l->parts; p++) count += count_pieces(l, p);
        }
        to[i] = count;
    }
    return true;
}

// Allocates one block of memory for all layers of the group. A single layer would be too small for
// large memory pages, which make reading faster, and every token reads all layers.
static bool alloc_group(const struct packing *job, int64_t *to)
{
    char **memory = &job->model->weights[job->group];
    size_t bytes;
    if (!assign_memory(job, to, NULL, &bytes)) return false;
    if (!*memory) *memory = qkv_alloc(bytes ? bytes : 1, 1);
    return *memory && assign_memory(job, to, *memory, &bytes);
}

static qkv_status pack_group(struct packing *job)
{
    struct qkv_model *m = job->model;
    int64_t *to = qkv_alloc((size_t)m->sources + 1, sizeof *to);
    if (!to) return QKV_ERR_LIMIT;
    job->to = to;
    if (!alloc_group(job, to))
        atomic_store(&job->status, (int)QKV_ERR_LIMIT);
    else if (m->sources)
        qkv_parallel_for(to[m->sources - 1], pack_piece, job);
    qkv_free(to);
    return (qkv_status)atomic_load(&job->status);
}

qkv_status qkv_model_pack(struct qkv_model *m, enum qkv_pack_group group)
{
    qkv_status status = QKV_OK;
    if (atomic_load_explicit(&m->packed[group], memory_order_acquire)) return QKV_OK;
    struct packing job = { .model = m, .group = group };
    atomic_init(&job.status, QKV_OK);
    pthread_mutex_lock(&m->lock);
    if (!atomic_load_explicit(&m->packed[group], memory_order_relaxed)) {
        status = pack_group(&job);
        // Only the weights of the body are in blocks; other groups must not write them, because
        // runs in other threads read them.
        for (int i = 0; !status && group == QKV_PACK_BODY && i < m->stacks; i++)
            qkv_stack_share(&m->stack[i], &m->is);
        if (!status) atomic_store_explicit(&m->packed[group], true, memory_order_release);
    }
    pthread_mutex_unlock(&m->lock);
    return status;
}

void qkv_table_row(float *out, const struct qkv_table *t, int64_t row, int64_t D)
{
    if (t->rows) {
        memcpy(out, t->rows + row * D, (size_t)D * sizeof *out);
        return;
    }
    struct qkv_tensor single = *t->tensor;
    single.rank = 1;
    single.shape[0] = D;
    single.bytes = (size_t)D * qkv_dtype_size(single.dtype);
    single.data = (const char *)t->tensor->data + (size_t)row * single.bytes;
    qkv_tensor_to_f32(out, &single);
}
