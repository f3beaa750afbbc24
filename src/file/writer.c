// SPDX-License-Identifier: MIT
// writer.c: a .safetensors file written piece by piece:
// the header first, then the data in its order.
#include "file/set.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct qkv_safetensors_writer {
    struct qkv_output out;
    uint64_t data, appended; // bytes that t[] asks for; bytes that came
    qkv_status broken;       // a write failed, or it is finished: nothing more is taken
    bool finished;
};

// A growing text; failed: there was no memory.
struct text {
    char *p;
    int64_t n, room;
    bool failed;
};

static void put(struct text *x, const char *s, size_t n)
{
    if (x->failed || !qkv_reserve((void **)&x->p, &x->room, x->n + (int64_t)n, 1)) {
        x->failed = true;
        return;
    }
    memcpy(x->p + x->n, s, n);
    x->n += (int64_t)n;
}

static void put_string(struct text *x, const char *s)
{
    put(x, "\"", 1);
    for (; *s; s++) {
        char escaped[8];
        const unsigned char c = (unsigned char)*s;
        if (c == '"' || c == '\\')
            snprintf(escaped, sizeof escaped, "\\%c", c);
        else if (c < 0x20)
            snprintf(escaped, sizeof escaped, "\\u%04x", c);
        else
            snprintf(escaped, sizeof escaped, "%c", c);
        put(x, escaped, strlen(escaped));
    }
    put(x, "\"", 1);
}

static void put_number(struct text *x, const char *before, uint64_t n)
{
    char digits[48];
    const int k = snprintf(digits, sizeof digits, "%s%" PRIu64, before, n);
    put(x, digits, (size_t)k);
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

static int by_name(const void *ctx, uint32_t a, uint32_t b)
{
    const struct qkv_tensor *t = ctx;
    return strcmp(t[a].name, t[b].name);
}
static int by_key(const void *ctx, uint32_t a, uint32_t b)
{
    const char *const *pairs = ctx;
    return strcmp(pairs[2 * a], pairs[2 * b]);
}

// QKV_ERR_USAGE when a text stands twice: names[i * step], i < n, compared by `compare` over ctx.
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
            status = qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = path },
                              "name to write, expected each once, found \"%.80s\" twice",
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
    const struct qkv_place at = { .file = path };
    size_t bytes;
    if (!t->name || strcmp(t->name, "__metadata__") == 0 || strlen(t->name) > QKV_NAME_MAX ||
        !is_utf8(t->name))
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "name to write, expected UTF-8 of at most %d bytes, found \"%.80s\"",
                        QKV_NAME_MAX, t->name ? t->name : "");
    if ((unsigned)t->dtype >= QKV_DTYPE_COUNT || t->rank < 0 || t->rank > QKV_RANK_MAX ||
        !qkv_shape_bytes(&bytes, t->dtype, t->rank, t->shape) ||
        __builtin_add_overflow(*end, bytes, end) || *end > INT64_MAX)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "tensor \"%.80s\" to write, expected a dtype, a rank of 0..%d and "
                        "sizes of 0..2^48 whose product fits, found others",
                        t->name, QKV_RANK_MAX);
    for (int i = 0; i < t->rank; i++)
        if ((uint64_t)t->shape[i] > QKV_DIM_MAX)
            return qkv_fail(err, QKV_ERR_USAGE, &at,
                            "tensor \"%.80s\" to write, expected sizes of 0..2^48, found %" PRId64,
                            t->name, t->shape[i]);
    return QKV_OK;
}

static qkv_status check(const char *path, const struct qkv_tensor *t, int64_t n,
                        const char *const *metadata, int64_t *pairs, uint64_t *data, qkv_error *err)
{
    const struct qkv_place at = { .file = path };
    if (n < 0 || (n > 0 && !t))
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "tensors to write, expected n >= 0 of them, found %" PRId64, n);
    if (n > QKV_TENSORS_MAX)
        return qkv_fail(err, QKV_ERR_LIMIT, &at,
                        "tensors to write, expected at most %d, found %" PRId64, QKV_TENSORS_MAX,
                        n);
    for (int64_t i = 0; i < n; i++) {
        const qkv_status status = check_tensor(&t[i], data, path, err);
        if (status) return status;
    }
    qkv_status status = check_once(path, t, n, name_of, by_name, err);
    if (status || !metadata) return status;
    for (; metadata[2 * *pairs]; ++*pairs)
        if (!metadata[2 * *pairs + 1] || !is_utf8(metadata[2 * *pairs]) ||
            !is_utf8(metadata[2 * *pairs + 1]))
            return qkv_fail(err, QKV_ERR_USAGE, &at,
                            "metadata to write, expected pairs of UTF-8, found another");
    return check_once(path, metadata, *pairs, key_of, by_key, err);
}

static void put_header(struct text *x, const struct qkv_tensor *t, int64_t n,
                       const char *const *metadata, int64_t pairs)
{
    uint64_t end = 0;
    put(x, "\0\0\0\0\0\0\0\0{", 9);
    if (metadata) {
        put(x, "\"__metadata__\":{", 16);
        for (int64_t i = 0; i < pairs; i++) {
            if (i) put(x, ",", 1);
            put_string(x, metadata[2 * i]);
            put(x, ":", 1);
            put_string(x, metadata[2 * i + 1]);
        }
        put(x, n ? "}," : "}", n ? 2 : 1);
    }
    for (int64_t i = 0; i < n; i++) {
        size_t bytes = 0;
        if (i) put(x, ",", 1);
        put_string(x, t[i].name);
        put(x, ":{\"dtype\":", 10);
        put_string(x, qkv_dtype_name(t[i].dtype));
        put(x, ",\"shape\":[", 10);
        for (int k = 0; k < t[i].rank; k++) put_number(x, k ? "," : "", (uint64_t)t[i].shape[k]);
        qkv_shape_bytes(&bytes, t[i].dtype, t[i].rank, t[i].shape);
        put_number(x, "],\"data_offsets\":[", end);
        put_number(x, ",", end += bytes);
        put(x, "]}", 2);
    }
    put(x, "}", 1);
    while (!x->failed && x->n % 8 != 0) put(x, " ", 1); // the data starts at a multiple of 8
    for (int i = 0; i < 8 && !x->failed; i++) x->p[i] = (char)((uint64_t)(x->n - 8) >> 8 * i & 255);
}

qkv_status qkv_safetensors_create(qkv_safetensors_writer **out, const char *path,
                                  const struct qkv_tensor *t, int64_t n,
                                  const char *const *metadata, bool force, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_safetensors_create, expected out and path, found NULL");
    struct qkv_safetensors_writer *w = NULL;
    struct text x = { NULL, 0, 0, false };
    uint64_t data = 0;
    int64_t pairs = 0;
    qkv_status status = check(path, t, n, metadata, &pairs, &data, err);
    if (status) return status;
    put_header(&x, t, n, metadata, pairs);
    w = qkv_alloc_zero(1, sizeof *w);
    if (x.failed || !w) {
        status = qkv_fail_memory(err, path);
        goto done;
    }
    w->data = data;
    if (x.n - 8 > QKV_HEADER_MAX) {
        status = qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_place){ .file = path },
                          "header to write, expected at most %d bytes, found %" PRId64,
                          QKV_HEADER_MAX, x.n - 8);
        goto done;
    }
    if ((status = qkv_output_open(&w->out, path, force, err)) != QKV_OK) goto done;
    if ((status = qkv_output_write(&w->out, x.p, (size_t)x.n, err)) != QKV_OK) {
        qkv_output_abort(&w->out);
        goto done;
    }
    *out = w;
    w = NULL;
done:
    qkv_free(x.p);
    qkv_free(w);
    return status;
}

static qkv_status closed(const struct qkv_safetensors_writer *w, const char *call, qkv_error *err)
{
    return qkv_fail(err, w && w->broken ? w->broken : QKV_ERR_USAGE, NULL,
                    "%s, expected an open writer, found %s", call,
                    !w            ? "NULL"
                    : w->finished ? "a finished one"
                                  : "one that failed before");
}

qkv_status qkv_safetensors_append(qkv_safetensors_writer *w, const void *data, size_t bytes,
                                  qkv_error *err)
{
    if (!w || w->finished || w->broken) return closed(w, "qkv_safetensors_append", err);
    const struct qkv_place at = { .file = w->out.path };
    if (bytes && !data)
        return qkv_fail(err, QKV_ERR_USAGE, &at, "bytes to append, expected data, found NULL");
    if (bytes > w->data - w->appended)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "bytes to append, expected at most %" PRIu64 " more, found %zu",
                        w->data - w->appended, bytes);
    w->broken = qkv_output_write(&w->out, data, bytes, err);
    if (!w->broken) w->appended += bytes;
    return w->broken;
}

qkv_status qkv_safetensors_finish(qkv_safetensors_writer *w, qkv_error *err)
{
    if (!w || w->finished || w->broken) return closed(w, "qkv_safetensors_finish", err);
    if (w->appended != w->data)
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = w->out.path },
                        "file to finish, expected %" PRIu64 " bytes of data, found %" PRIu64,
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
