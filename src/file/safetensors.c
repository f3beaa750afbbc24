// SPDX-License-Identifier: MIT
// safetensors.c: reads one .safetensors file, which consists of N as 8 little-endian bytes, N bytes
// of JSON, and the data.
// Source: the format section of the safetensors README; docs/formats.md lists where qkv is
//         stricter.
//
// Every range is checked against the file before a pointer is computed or memory is read.
#include "file/set.h"
#include <inttypes.h>
#include <string.h>

struct header {
    struct qkv_tensors *t;
    struct qkv_source *src;
    struct qkv_scan s;
    qkv_error *err;
    uint32_t *where; // offset of the name of each tensor, in the header
    char *text;      // the next free byte of src->text
    uint64_t data;   // bytes after the header
    bool has_meta;
};

// The fields of one tensor in the header.
struct entry {
    const char *name;
    size_t at; // offset of the name, in the header
    qkv_dtype dtype;
    int rank;
    int64_t shape[QKV_RANK_MAX];
    uint64_t begin, end;
    bool has_dtype, has_shape, has_offsets;
};

static struct qkv_location place(const struct header *h, size_t at)
{
    return (struct qkv_location){ .file = h->src->map.path,
                                  .has_offset = true,
                                  .offset = 8 + (int64_t)at };
}
#define FAIL(h, status, at, ...)                                                                   \
    qkv_fail((h)->err, status, (struct qkv_location[1]){ place(h, at) }, __VA_ARGS__)

// Reports the syntax error at which the scan stopped.
static qkv_status malformed(struct header *h)
{
    char found[16];
    qkv_scan_found(found, &h->s);
    return FAIL(h, QKV_ERR_FORMAT, h->s.at, "%s, expected %s, found %s",
                strcmp(h->s.want, QKV_SCAN_TOO_DEEP) ? "malformed header"
                                                     : "header nested too deep",
                h->s.want, found);
}

// Decodes a JSON string and appends it to src->text, which has space for all strings of the header.
static const char *keep(struct header *h, const struct qkv_span *raw)
{
    char *text = h->text;
    size_t n = raw->bytes;
    if (raw->escaped)
        n = qkv_span_decode(text, raw);
    else if (n)
        memcpy(text, raw->at, n);
    text[n] = 0;
    h->text += n + 1;
    return text;
}

static qkv_status read_dtype(struct header *h, struct entry *e)
{
    struct qkv_span raw;
    qkv_scan_space(&h->s);
    const size_t at = h->s.at;
    if (!qkv_scan_string(&h->s, &raw)) return malformed(h);
    for (int d = 0; d < QKV_DTYPE_COUNT; d++)
        if (qkv_span_is(&raw, qkv_dtype_name((qkv_dtype)d))) {
            e->dtype = (qkv_dtype)d;
            return QKV_OK;
        }
    static const char *const known[] = { "F4",      "F6_E2M3", "F6_E3M2",     "F8_E4M3",
                                         "F8_E5M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ",
                                         "C64",     "C128" };
    qkv_status status = QKV_ERR_FORMAT;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (qkv_span_is(&raw, known[i])) status = QKV_ERR_UNSUPPORTED;
    return FAIL(h, status, at,
                "unsupported dtype of tensor \"%.80s\", expected F64, F32, F16, BF16, I64..I8, "
                "U64..U8 or BOOL, found \"%.*s\"",
                e->name, raw.bytes > 32 ? 32 : (int)raw.bytes, raw.at);
}

static qkv_status read_shape(struct header *h, struct entry *e)
{
    if (!qkv_scan_need(&h->s, '[', "the [ of a shape")) return malformed(h);
    if (qkv_scan_take(&h->s, ']')) return QKV_OK;
    do {
        uint64_t n;
        qkv_scan_space(&h->s);
        const size_t at = h->s.at;
        if (!qkv_scan_size(&h->s, &n, "a whole number >= 0 below 2^64")) return malformed(h);
        if (n > QKV_DIM_MAX)
            return FAIL(
                h, QKV_ERR_FORMAT, at,
                "shape of tensor \"%.80s\" is too large, expected sizes up to 2^48, found %" PRIu64,
                e->name, n);
        if (e->rank == QKV_RANK_MAX)
            return FAIL(
                h, QKV_ERR_LIMIT, at,
                "rank of tensor \"%.80s\" is too large, expected at most %d axes, found more",
                e->name, QKV_RANK_MAX);
        e->shape[e->rank++] = (int64_t)n;
    } while (qkv_scan_take(&h->s, ','));
    return qkv_scan_need(&h->s, ']', "',' or ']'") ? QKV_OK : malformed(h);
}

static qkv_status read_offsets(struct header *h, struct entry *e)
{
    static const char want[] = "two whole numbers >= 0 below 2^64";
    struct qkv_scan *s = &h->s;
    if (!qkv_scan_need(s, '[', "the [ of data_offsets") || !qkv_scan_size(s, &e->begin, want) ||
        !qkv_scan_need(s, ',', want) || !qkv_scan_size(s, &e->end, want) ||
        !qkv_scan_need(s, ']', "a ] after two numbers"))
        return malformed(h);
    return QKV_OK;
}

// Reads { "dtype": .., "shape": .., "data_offsets": .. }, whose members may be in any order.
static qkv_status read_fields(struct header *h, struct entry *e)
{
    if (!qkv_scan_need(&h->s, '{', "the { of a tensor")) return malformed(h);
    if (!qkv_scan_take(&h->s, '}')) {
        do {
            struct qkv_span raw;
            qkv_scan_space(&h->s);
            const size_t at = h->s.at;
            if (!qkv_scan_string(&h->s, &raw) || !qkv_scan_need(&h->s, ':', "a colon after a key"))
                return malformed(h);
            const bool dtype = qkv_span_is(&raw, "dtype"), shape = qkv_span_is(&raw, "shape"),
                       offsets = qkv_span_is(&raw, "data_offsets");
            const int shown = raw.bytes > 64 ? 64 : (int)raw.bytes;
            if (!dtype && !shape && !offsets)
                return FAIL(h, QKV_ERR_FORMAT, at,
                            "unknown field of tensor \"%.80s\", expected dtype, shape or "
                            "data_offsets, found \"%.*s\"",
                            e->name, shown, raw.at);
            bool *seen = dtype ? &e->has_dtype : shape ? &e->has_shape : &e->has_offsets;
            if (*seen)
                return FAIL(h, QKV_ERR_FORMAT, at,
                            "duplicate field of tensor \"%.80s\", expected each field once, found "
                            "%.*s twice",
                            e->name, shown, raw.at);
            *seen = true;
            const qkv_status status = dtype   ? read_dtype(h, e)
                                      : shape ? read_shape(h, e)
                                              : read_offsets(h, e);
            if (status) return status;
        } while (qkv_scan_take(&h->s, ','));
        if (!qkv_scan_need(&h->s, '}', "',' or '}'")) return malformed(h);
    }
    if (!e->has_dtype || !e->has_shape || !e->has_offsets)
        return FAIL(h, QKV_ERR_FORMAT, e->at,
                    "missing field of tensor \"%.80s\", expected dtype, shape and data_offsets, "
                    "found no %s",
                    e->name,
                    !e->has_dtype   ? "dtype"
                    : !e->has_shape ? "shape"
                                    : "data_offsets");
    return QKV_OK;
}

// Checks that the byte range of a tensor is inside the file and has the size that its shape
// requires.
static qkv_status check_range(struct header *h, const struct entry *e)
{
    size_t bytes;
    if (e->end < e->begin)
        return FAIL(h, QKV_ERR_FORMAT, e->at,
                    "invalid data_offsets of tensor \"%.80s\", expected an end of at least %" PRIu64
                    ", found %" PRIu64,
                    e->name, e->begin, e->end);
    if (e->end > h->data)
        return FAIL(h, QKV_ERR_FORMAT, e->at,
                    "data of tensor \"%.80s\" is truncated, expected bytes %" PRIu64 "..%" PRIu64
                    ", found the end of the file at %" PRIu64,
                    e->name, e->begin, e->end, h->data);
    if (!qkv_shape_bytes(&bytes, e->dtype, e->rank, e->shape))
        return FAIL(
            h, QKV_ERR_FORMAT, e->at,
            "shape of tensor \"%.80s\" is too large, expected less than 2^63 bytes, found more",
            e->name);
    if (bytes != e->end - e->begin)
        return FAIL(h, QKV_ERR_FORMAT, e->at,
                    "size of tensor \"%.80s\" is wrong, expected %zu bytes for its dtype and "
                    "shape, found %" PRIu64,
                    e->name, bytes, e->end - e->begin);
    return QKV_OK;
}

static qkv_status read_tensor(struct header *h, const struct qkv_span *raw, size_t at)
{
    if (raw->bytes > QKV_NAME_MAX)
        return FAIL(h, QKV_ERR_LIMIT, at,
                    "name of a tensor is too long, expected at most %d bytes, found %zu",
                    QKV_NAME_MAX, raw->bytes);
    if (h->t->n == QKV_TENSORS_MAX)
        return FAIL(h, QKV_ERR_LIMIT, at, "too many tensors, expected at most %d, found more",
                    QKV_TENSORS_MAX);
    struct entry e = { .name = keep(h, raw), .at = at };
    if (strcmp(e.name, "__metadata__") == 0) // __metadata__ written with escapes
        return FAIL(h, QKV_ERR_FORMAT, at,
                    "reserved name of a tensor, expected another name, found __metadata__");
    qkv_status status = read_fields(h, &e);
    if (!status) status = check_range(h, &e);
    if (status) return status;
    const int64_t i = h->t->n++;
    struct qkv_tensor *x = &h->t->all[i];
    *x = (struct qkv_tensor){
        .name = e.name, .dtype = e.dtype, .rank = e.rank, .bytes = e.end - e.begin
    };
    memcpy(x->shape, e.shape, sizeof x->shape);
    x->data = h->src->map.data + (h->src->map.size - h->data) + e.begin;
    h->where[h->src->n++] = (uint32_t)at;
    return QKV_OK;
}

static int by_key(const void *ctx, uint32_t a, uint32_t b)
{
    const struct qkv_meta *meta = ctx;
    return strcmp(meta[a].key, meta[b].key);
}

// Checks that no key of the metadata occurs twice; it sorts the keys, because there may be many.
static qkv_status check_metadata(struct header *h, int64_t first, size_t at)
{
    const int64_t n = h->t->n_meta - first;
    const struct qkv_meta *meta = h->t->meta + first;
    if (n < 2) return QKV_OK;
    struct qkv_order *order = qkv_alloc((size_t)n, sizeof *order);
    if (!order) return qkv_fail_memory(h->err, h->src->map.path);
    for (int64_t i = 0; i < n; i++)
        order[i] = (struct qkv_order){ qkv_order_key(meta[i].key), (uint32_t)i };
    qkv_status status = QKV_OK;
    if (!qkv_order_sort(order, n, by_key, meta)) status = qkv_fail_memory(h->err, h->src->map.path);
    for (int64_t i = 1; i < n && !status; i++)
        if (strcmp(meta[order[i].item].key, meta[order[i - 1].item].key) == 0)
            status =
                FAIL(h, QKV_ERR_FORMAT, at,
                     "duplicate key in __metadata__, expected each key once, found \"%.80s\" twice",
                     meta[order[i].item].key);
    qkv_free(order);
    return status;
}

static qkv_status read_metadata(struct header *h, size_t at)
{
    if (h->has_meta)
        return FAIL(h, QKV_ERR_FORMAT, at,
                    "duplicate __metadata__, expected it once, found it twice");
    h->has_meta = true;
    const int64_t first = h->t->n_meta;
    if (!qkv_scan_need(&h->s, '{', "a { before the metadata")) return malformed(h);
    if (qkv_scan_take(&h->s, '}')) return QKV_OK;
    do {
        struct qkv_span key, value;
        if (!qkv_scan_string(&h->s, &key) || !qkv_scan_need(&h->s, ':', "a colon after a key") ||
            !qkv_scan_string(&h->s, &value))
            return malformed(h);
        if (h->t->n_meta == QKV_META_MAX)
            return FAIL(h, QKV_ERR_LIMIT, at,
                        "too many keys in __metadata__, expected at most %d keys, found more",
                        QKV_META_MAX);
        if (!qkv_reserve((void **)&h->t->meta, &h->t->meta_capacity, h->t->n_meta + 1,
                         sizeof *h->t->meta))
            return qkv_fail_memory(h->err, h->src->map.path);
        struct qkv_meta *m = &h->t->meta[h->t->n_meta++];
        m->key = keep(h, &key);
        m->value = keep(h, &value);
    } while (qkv_scan_take(&h->s, ','));
    if (!qkv_scan_need(&h->s, '}', "',' or '}'")) return malformed(h);
    return check_metadata(h, first, at);
}

static qkv_status read_header(struct header *h)
{
    if (h->s.size == 0 || h->s.data[0] != '{') { // the format allows no white space before it
        h->s.want = "'{'";
        return malformed(h);
    }
    h->s.at = 1;
    if (!qkv_scan_take(&h->s, '}')) {
        do {
            struct qkv_span raw;
            qkv_scan_space(&h->s);
            const size_t at = h->s.at;
            if (!qkv_scan_string(&h->s, &raw) || !qkv_scan_need(&h->s, ':', "a colon after a name"))
                return malformed(h);
            const qkv_status status =
                qkv_span_is(&raw, "__metadata__") ? read_metadata(h, at) : read_tensor(h, &raw, at);
            if (status) return status;
        } while (qkv_scan_take(&h->s, ','));
        if (!qkv_scan_need(&h->s, '}', "',' or '}'")) return malformed(h);
    }
    qkv_scan_space(&h->s);
    if (h->s.at < h->s.size) {
        h->s.want = "nothing but white space after the header";
        return malformed(h);
    }
    return QKV_OK;
}

static int as_written(const void *ctx, uint32_t a,
                      uint32_t b) // of two with the same begin the empty one first
{
    const struct qkv_tensor *x = ctx;
    return x[a].bytes < x[b].bytes ? -1 : x[a].bytes > x[b].bytes;
}

// Checks that the tensors cover all data of the file without gaps or overlaps.
static qkv_status check_layout(struct header *h)
{
    const int64_t n = h->src->n;
    const struct qkv_tensor *x = h->t->all + h->src->first;
    const uint8_t *data = h->src->map.data + (h->src->map.size - h->data);
    struct qkv_order *order = qkv_alloc((size_t)n, sizeof *order);
    if (!order) return qkv_fail_memory(h->err, h->src->map.path);
    for (int64_t i = 0; i < n; i++)
        order[i] = (struct qkv_order){ (uint64_t)((const uint8_t *)x[i].data - data), (uint32_t)i };
    qkv_status status = QKV_OK;
    if (!qkv_order_sort(order, n, as_written, x))
        status = qkv_fail_memory(h->err, h->src->map.path);
    uint64_t end = 0;
    for (int64_t i = 0; i < n && !status; i++) {
        const struct qkv_tensor *now = &x[order[i].item];
        const size_t at = h->where[order[i].item];
        if (order[i].key > end)
            status = FAIL(h, QKV_ERR_FORMAT, at,
                          "unused bytes before tensor \"%.80s\", expected it at data byte %" PRIu64
                          ", found it at %" PRIu64,
                          now->name, end, order[i].key);
        else if (order[i].key < end)
            status = FAIL(h, QKV_ERR_FORMAT, at,
                          "tensors \"%.80s\" and \"%.80s\" overlap, expected data byte %" PRIu64
                          " or later, found %" PRIu64,
                          x[order[i - 1].item].name, now->name, end, order[i].key);
        end = order[i].key + now->bytes;
    }
    qkv_free(order);
    if (!status && end != h->data)
        status = qkv_fail(
            h->err, QKV_ERR_FORMAT,
            &(struct qkv_location){ .file = h->src->map.path,
                                    .has_offset = true,
                                    .offset = (int64_t)(h->src->map.size - h->data + end) },
            "bytes after the last tensor, expected the end of the file, found %" PRIu64
            " more bytes",
            h->data - end);
    return status;
}

qkv_status qkv_safetensors_read(struct qkv_tensors *t, struct qkv_source *src, qkv_error *err)
{
    const struct qkv_map *m = &src->map;
    const struct qkv_location start = { .file = m->path, .has_offset = true };
    uint64_t size = 0;
    if (m->size < 8)
        return qkv_fail(err, QKV_ERR_FORMAT, &start,
                        "file too short, expected 8 bytes of header size, found %zu", m->size);
    for (int i = 7; i >= 0; i--) size = size << 8 | m->data[i];
    if (size > m->size - 8)
        return qkv_fail(err, QKV_ERR_FORMAT, &start,
                        "header too large, expected at most %zu bytes, found %" PRIu64, m->size - 8,
                        size);
    if (size > QKV_HEADER_MAX)
        return qkv_fail(err, QKV_ERR_LIMIT, &start,
                        "header too large, expected at most %d bytes, found %" PRIu64,
                        QKV_HEADER_MAX, size);
    struct header h = { .t = t, .src = src, .err = err, .data = m->size - 8 - size };
    h.s = (struct qkv_scan){ .data = (const char *)m->data + 8, .size = size };

    // The description of a tensor has at least 48 bytes:
    // {"":{"dtype":"U8","shape":[],"data_offsets":[0,0]}}.  The copies of all texts fit into `size`
    // bytes, because the NUL of a copy takes less space than the two quotes in the header.
    const int64_t most = qkv_min64((int64_t)size / 48, QKV_TENSORS_MAX - t->n) + 1;
    qkv_status status = QKV_OK;
    src->first = t->n;
    src->text = qkv_alloc(size + 1, 1);
    h.text = src->text;
    h.where = qkv_alloc((size_t)most, sizeof *h.where);
    if (!src->text || !h.where ||
        !qkv_reserve((void **)&t->all, &t->capacity, t->n + most, sizeof *t->all))
        status = qkv_fail_memory(err, m->path);
    if (!status) status = read_header(&h);
    if (!status) status = check_layout(&h);
    qkv_free(h.where);
    return status;
}

int64_t qkv_safetensors_where(const struct qkv_source *src, int64_t i)
{
    struct qkv_scan s = { .data = (const char *)src->map.data + 8,
                          .size = src->map.size - 8,
                          .at = 1 };
    for (;;) {
        struct qkv_span raw;
        qkv_scan_space(&s);
        const int64_t at = 8 + (int64_t)s.at;
        if (!qkv_scan_string(&s, &raw) || !qkv_scan_need(&s, ':', "':'")) return -1;
        if (!qkv_span_is(&raw, "__metadata__") && i-- == 0) return at;
        if (!qkv_scan_value(&s) || !qkv_scan_take(&s, ',')) return -1;
    }
}
