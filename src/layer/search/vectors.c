// SPDX-License-Identifier: MIT
// vectors.c: converts vectors to the types that a search reads, and maps vectors of a file.
#include "kernel/kernel.h"
#include <qkv/search.h>
#include <string.h>

enum { ALIGNED = 64 };
_Static_assert(QKV_VECTOR_WIDTH_MAX == QKV_SEARCH_WIDTH_MAX,
               "sums of INT8 products must not overflow");

static bool is_stored(qkv_dtype type)
{
    return type == QKV_F32 || type == QKV_BF16 || type == QKV_I8;
}

QKV_API qkv_status qkv_vectors_bytes(int64_t *bytes, int64_t *scales, qkv_dtype type, int64_t count,
                                     int64_t width)
{
    int64_t rows, all;
    if (!bytes || !is_stored(type) || count < 0 || width < 1 || width > QKV_VECTOR_WIDTH_MAX)
        return QKV_ERR_USAGE;
    if (__builtin_mul_overflow(count, width * (int64_t)qkv_dtype_size(type), &rows) ||
        rows > INT64_MAX - ALIGNED)
        return QKV_ERR_LIMIT;
    all = type == QKV_I8 ? (int64_t)qkv_round_up((size_t)rows, ALIGNED) : rows;
    if (scales) *scales = all;
    if (type == QKV_I8 && __builtin_add_overflow(all, count * (int64_t)sizeof(float), &all))
        return QKV_ERR_LIMIT;
    *bytes = all;
    return QKV_OK;
}

QKV_API qkv_status qkv_vectors_convert(void *rows, float *scales, qkv_dtype type, const float *x,
                                       int64_t n, int64_t width)
{
    int64_t bytes;
    const qkv_status status = qkv_vectors_bytes(&bytes, NULL, type, n, width);
    if (status) return QKV_ERR_USAGE;
    if (n && (!rows || !x || (type == QKV_I8 && !scales))) return QKV_ERR_USAGE;
    for (int64_t i = 0; i < n && type == QKV_I8; i++)
        qkv_quantise_row((int8_t *)rows + i * width, &scales[i], x + i * width, width, 1);
    if (type != QKV_I8) (void)qkv_from_f32(rows, type, x, n * width);
    return QKV_OK;
}

QKV_API qkv_status qkv_vectors_open(struct qkv_vectors *v, const char *path, int64_t offset,
                                    qkv_error *err)
{
    int64_t bytes = 0, scales = 0;
    if (v) {
        v->rows = v->file = NULL;
        v->scales = NULL;
    }
    if (!v || !path || offset < 0 || offset % ALIGNED ||
        qkv_vectors_bytes(&bytes, &scales, v->type, v->count, v->width))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_vectors_open: expected vectors, a path and an offset, found NULL or a "
                        "number out of range");
    struct qkv_map *m = qkv_alloc_zero(1, sizeof *m);
    if (!m) return qkv_fail_memory(err, path);
    qkv_status status = qkv_map_open(m, path, false, err);
    if (!status && (m->size < (size_t)offset || m->size - (size_t)offset != (size_t)bytes))
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                          "vectors have another size, expected %lld bytes from byte %lld on, found "
                          "a file of %lld bytes",
                          (long long)bytes, (long long)offset, (long long)m->size);
    if (status) {
        qkv_map_close(m);
        qkv_free(m);
        return status;
    }
    v->file = m;
    v->rows = m->data ? m->data + offset : NULL;
    if (v->type == QKV_I8 && v->rows)
        v->scales = (const float *)(const void *)((const char *)v->rows + scales);
    return QKV_OK;
}

QKV_API void qkv_vectors_close(struct qkv_vectors *v)
{
    if (!v) return;
    if (v->file) qkv_map_close(v->file);
    qkv_free(v->file);
    v->rows = v->file = NULL;
    v->scales = NULL;
}
