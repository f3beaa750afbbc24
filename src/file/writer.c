// SPDX-License-Identifier: MIT
// writer.c: writes a .safetensors file in pieces: first the header, then the data in order.
#include "file/set.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct qkv_safetensors_writer {
    struct qkv_output out;
    uint64_t data, appended; // bytes of all tensors; bytes written so far
    qkv_status broken;       // status of a failed write: later calls are refused
    bool finished;
};

static void append_name(struct qkv_text_buffer *header, const char *name)
{
    qkv_text_append_json(header, name, strlen(name), QKV_JSON_PLAIN);
}

static bool is_utf8(const char *s)
{
    for (size_t left = strlen(s); left > 0;) {
        const size_t n = qkv_utf8_bytes(s, left);
        if (!n) return false;
        s += n;
        left -= n;
    }
    return true;
}

static int by_key(const void *ctx, uint32_t a, uint32_t b)
{
    const char *const *pairs = ctx;
    return strcmp(pairs[2 * a], pairs[2 * b]);
}

// Checks that the texts text(ctx, i), i < n, are all different, with the function `compare`; if two
// are equal, returns QKV_ERR_USAGE.
static qkv_status check_once(const char *path, const void *ctx, int64_t n,
                             const char *(*text)(const void *, int64_t),
                             int (*compare)(const void *, uint32_t, uint32_t), qkv_error *err)
{
    struct qkv_order *order = qkv_alloc((size_t)n, sizeof *order);
    if (!order) return qkv_fail_memory(err, path);
    for (int64_t i = 0; i < n; i++)
        order[i] = (struct qkv_order){ qkv_order_key(text(ctx, i)), (uint32_t)i };
    qkv_status status = QKV_OK;
    if (!qkv_order_sort(order, n, compare, ctx)) status = qkv_fail_memory(err, path);
    for (int64_t i = 1; i < n && !status; i++)
        if (order[i].key == order[i - 1].key && compare(ctx, order[i - 1].item, order[i].item) == 0)
            status =
                qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = path },
                         "duplicate tensor name, expected each name once, found \"%.80s\" twice",
                         text(ctx, order[i].item));
    qkv_free(order);
    return status;
}
static const char *name_of(const void *ctx, int64_t i)
{
    return ((const struct qkv_tensor *)ctx)[i].name;
}
static const char *key_of(const void *ctx, int64_t i)
{
    return ((const char *const *)ctx)[2 * i];
}

static qkv_status check_tensor(const struct qkv_tensor *t, uint64_t *end, const char *path,
                               qkv_error *err)
{
    const struct qkv_location at = { .file = path };
    size_t bytes;
    if (!t->name || strcmp(t->name, "__metadata__") == 0 || strlen(t->name) > QKV_NAME_MAX ||
        !is_utf8(t->name))
        return qkv_fail(
            err, QKV_ERR_USAGE, &at,
            "invalid name of a tensor, expected UTF-8 of at most %d bytes, found \"%.80s\"",
            QKV_NAME_MAX, t->name ? t->name : "");
    if ((unsigned)t->dtype >= QKV_DTYPE_COUNT || t->rank < 0 || t->rank > QKV_RANK_MAX ||
        !qkv_shape_bytes(&bytes, t->dtype, t->rank, t->shape) ||
        __builtin_add_overflow(*end, bytes, end) || *end > INT64_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "tensor \"%.80s\" cannot be written, expected a dtype, a rank of 0..%d and "
                        "sizes of 0..2^48 whose product fits, found others",
                        t->name, QKV_RANK_MAX);
    for (int i = 0; i < t->rank; i++)
        if ((uint64_t)t->shape[i] > QKV_DIM_MAX)
            return qkv_fail(
                err, QKV_ERR_USAGE, &at,
                "tensor \"%.80s\" cannot be written, expected sizes of 0..2^48, found %" PRId64,
                t->name, t->shape[i]);
    return QKV_OK;
}

static qkv_status check_tensors(const char *path, const struct qkv_tensor *t, int64_t n,
                                const char *const *metadata, int64_t *pairs, uint64_t *data,
                                qkv_error *err)
{
    const struct qkv_location at = { .file = path };
    if (n < 0 || (n > 0 && !t))
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "invalid number of tensors to write, expected n >= 0, found %" PRId64, n);
    if (n > QKV_TENSORS_MAX)
        return qkv_fail(err, QKV_ERR_LIMIT, &at,
                        "too many tensors to write, expected at most %d, found %" PRId64,
                        QKV_TENSORS_MAX, n);
    for (int64_t i = 0; i < n; i++) {
        const qkv_status status = check_tensor(&t[i], data, path, err);
        if (status) return status;
    }
    qkv_status status = check_once(path, t, n, name_of, qkv_order_tensors, err);
    if (status || !metadata) return status;
    for (; metadata[2 * *pairs]; ++*pairs)
        if (!metadata[2 * *pairs + 1] || !is_utf8(metadata[2 * *pairs]) ||
            !is_utf8(metadata[2 * *pairs + 1]))
            return qkv_fail(err, QKV_ERR_USAGE, &at,
                            "invalid metadata to write, expected pairs of UTF-8 texts, found "
                            "invalid UTF-8 or a key without a value");
    return check_once(path, metadata, *pairs, key_of, by_key, err);
}

// Writes the size of the header and the header, padded with spaces so that the data starts at a
// multiple of 8 bytes.
static void write_header(struct qkv_text_buffer *h, const struct qkv_tensor *t, int64_t n,
                         const char *const *metadata, int64_t pairs)
{
    uint64_t end = 0;
    qkv_text_append(h, "\0\0\0\0\0\0\0\0{", 9);
    if (metadata) {
        qkv_text_append_string(h, "\"__metadata__\":{");
        for (int64_t i = 0; i < pairs; i++) {
            if (i) qkv_text_append_string(h, ",");
            append_name(h, metadata[2 * i]);
            qkv_text_append_string(h, ":");
            append_name(h, metadata[2 * i + 1]);
        }
        qkv_text_append_string(h, n ? "}," : "}");
    }
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 0;
        if (i) qkv_text_append_string(h, ",");
        append_name(h, t[i].name);
        qkv_text_append_string(h, ":{\"dtype\":");
        append_name(h, qkv_dtype_name(t[i].dtype));
        qkv_text_append_string(h, ",\"shape\":[");
        for (int k = 0; k < t[i].rank; k++)
            qkv_text_append_format(h, "%s%" PRId64, k ? "," : "", t[i].shape[k]);
        qkv_shape_bytes(&bytes, t[i].dtype, t[i].rank, t[i].shape);
        qkv_text_append_format(h, "],\"data_offsets\":[%" PRIu64 ",%" PRIu64 "]}", end,
                               end + bytes);
        end += bytes;
    }
    qkv_text_append_string(h, "}");
    while (!h->failed && h->count % 8 != 0) qkv_text_append_string(h, " ");
    for (int i = 0; i < 8 && !h->failed; i++)
        h->bytes[i] = (char)((uint64_t)(h->count - 8) >> 8 * i & 255);
}

qkv_status qkv_safetensors_create(qkv_safetensors_writer **out, const char *path,
                                  const struct qkv_tensor *t, int64_t n,
                                  const char *const *metadata, bool force, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_safetensors_create: expected pointers for the writer and the path, found NULL");
    struct qkv_safetensors_writer *w = NULL;
    struct qkv_text_buffer header = { 0 };
    uint64_t data = 0;
    int64_t pairs = 0;
    qkv_status status = check_tensors(path, t, n, metadata, &pairs, &data, err);
    if (status) return status;
    write_header(&header, t, n, metadata, pairs);
    w = qkv_alloc_zero(1, sizeof *w);
    if (header.failed || !w) {
        status = qkv_fail_memory(err, path);
        goto done;
    }
    w->data = data;
    if (header.count - 8 > QKV_HEADER_MAX) {
        status = qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = path },
                          "header to write is too large, expected at most %d bytes, found %" PRId64,
                          QKV_HEADER_MAX, header.count - 8);
        goto done;
    }
    if ((status = qkv_output_open(&w->out, path, force, err)) != QKV_OK) goto done;
    if ((status = qkv_output_write(&w->out, header.bytes, (size_t)header.count, err)) != QKV_OK) {
        qkv_output_abort(&w->out);
        goto done;
    }
    *out = w;
    w = NULL;
done:
    qkv_text_buffer_free(&header);
    qkv_free(w);
    return status;
}

static qkv_status closed(const struct qkv_safetensors_writer *w, const char *call, qkv_error *err)
{
    return qkv_fail(err, w && w->broken ? w->broken : QKV_ERR_USAGE, NULL,
                    "%s: expected an open writer, found %s", call,
                    !w            ? "NULL"
                    : w->finished ? "a finished one"
                                  : "a writer with an earlier error");
}

qkv_status qkv_safetensors_append(qkv_safetensors_writer *w, const void *data, size_t bytes,
                                  qkv_error *err)
{
    if (!w || w->finished || w->broken) return closed(w, "qkv_safetensors_append", err);
    const struct qkv_location at = { .file = w->out.path };
    if (bytes && !data)
        return qkv_fail(err, QKV_ERR_USAGE, &at, "no bytes to append, expected data, found NULL");
    if (bytes > w->data - w->appended)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "too many bytes to append, expected at most %" PRIu64 " more, found %zu",
                        w->data - w->appended, bytes);
    w->broken = qkv_output_write(&w->out, data, bytes, err);
    if (!w->broken) w->appended += bytes;
    return w->broken;
}

qkv_status qkv_safetensors_finish(qkv_safetensors_writer *w, qkv_error *err)
{
    if (!w || w->finished || w->broken) return closed(w, "qkv_safetensors_finish", err);
    if (w->appended != w->data)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_location){ .file = w->out.path },
                        "too little data to finish the file, expected %" PRIu64
                        " bytes, found %" PRIu64,
                        w->data, w->appended);
    w->finished = true;
    return w->broken = qkv_output_commit(&w->out, err);
}

void qkv_safetensors_close(qkv_safetensors_writer *w)
{
    if (!w) return;
    if (!w->finished) qkv_output_abort(&w->out);
    qkv_free(w);
}
