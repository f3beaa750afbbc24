// SPDX-License-Identifier: MIT
// npy.c: reads and writes one array in a .npy file, which consists of magic, version, a Python dict
// of three keys, and the data.
// Source: NEP 1 and numpy/lib/format.py (versions 1.0, 2.0, 3.0).
//
// The dict is parsed by a small grammar and never evaluated as Python.  Little-endian data in C
// order is used in place; big-endian data and Fortran order are converted to a copy, unless only
// the shape is wanted.
#include "file/set.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

enum { MAGIC = 6, ALIGN = 64 };

struct npy {
    const char *file;
    const char *text; // the header
    size_t size, at;  // of the header; the next byte to read
    int64_t base;     // offset of the header in the file
    qkv_error *err;
    qkv_dtype dtype;
    bool swap, fortran;
    bool has_descr, has_order, has_shape;
    int rank;
    int64_t shape[QKV_RANK_MAX];
};

static qkv_status fail_at(const struct npy *p, qkv_status status, size_t at, const char *what,
                          const char *want)
{
    const struct qkv_location where = { .file = p->file,
                                        .has_offset = true,
                                        .offset = p->base + (int64_t)at };
    const struct qkv_scan there = { .data = p->text, .size = p->size, .at = at };
    char found[16];
    qkv_scan_found(found, &there);
    return qkv_fail(p->err, status, &where, "%s, expected %s, found %s", what, want, found);
}

static void skip_space(struct npy *p)
{
    while (p->at < p->size && strchr(" \t\n\r\f", p->text[p->at]) && p->text[p->at]) p->at++;
}

static bool accept_char(struct npy *p, char c)
{
    skip_space(p);
    if (p->at >= p->size || p->text[p->at] != c) return false;
    p->at++;
    return true;
}

// Reads a Python string in single or double quotes, without escapes.
static bool read_string(struct npy *p, struct qkv_span *out)
{
    skip_space(p);
    if (p->at >= p->size) return false;
    const char quote = p->text[p->at];
    if (quote != '\'' && quote != '"') return false;
    const size_t start = p->at + 1;
    for (size_t i = start; i < p->size && p->text[i] != '\\' && p->text[i] != '\n'; i++) {
        if (p->text[i] != quote) continue;
        *out = (struct qkv_span){ .at = p->text + start, .bytes = i - start };
        p->at = i + 1;
        return true;
    }
    return false;
}

// Reads a type such as '<f4', '|u1' or '>i8', which consists of byte order, kind and size in bytes.
static qkv_status read_descr(struct npy *p)
{
    static const struct {
        const char *code;
        qkv_dtype dtype;
    } codes[] = { { "f4", QKV_F32 }, { "f8", QKV_F64 }, { "f2", QKV_F16 }, { "i8", QKV_I64 },
                  { "i4", QKV_I32 }, { "i2", QKV_I16 }, { "i1", QKV_I8 },  { "u8", QKV_U64 },
                  { "u4", QKV_U32 }, { "u2", QKV_U16 }, { "u1", QKV_U8 },  { "b1", QKV_BOOL } };
    static const char want[] = "one of f2 f4 f8 i1..i8 u1..u8 b1";
    struct qkv_span raw;
    skip_space(p);
    const size_t at = p->at;
    const struct qkv_location where = { .file = p->file,
                                        .has_offset = true,
                                        .offset = p->base + (int64_t)at };
    if (at < p->size && p->text[at] == '[')
        return qkv_fail(p->err, QKV_ERR_UNSUPPORTED, &where,
                        "unsupported dtype of the array, expected %s, found a structure", want);
    if (!read_string(p, &raw))
        return fail_at(p, QKV_ERR_FORMAT, at, "malformed dtype", "a text in quotes");
    struct qkv_span code = raw;
    char order = '=';
    if (code.bytes && strchr("<>=|", code.at[0])) {
        order = *code.at++;
        code.bytes--;
    }
    for (size_t i = 0; i < sizeof codes / sizeof *codes; i++) {
        if (!qkv_span_is(&code, codes[i].code)) continue;
        p->dtype = codes[i].dtype;
        p->swap = order == '>' && qkv_dtype_size(p->dtype) > 1;
        return QKV_OK;
    }
    const int shown = raw.bytes > 32 ? 32 : (int)raw.bytes;
    if (code.bytes && code.at[0] == 'O')
        return qkv_fail(p->err, QKV_ERR_UNSUPPORTED, &where,
                        "unsupported dtype of the array (pickle is never loaded), expected %s, "
                        "found objects \"%.*s\"",
                        want, shown, raw.at);
    // The letter of a type of numpy followed by digits is a valid type that qkv does not support;
    // any other text is malformed.
    bool known = code.bytes > 1 && strchr("fciubSUVMma", code.at[0]) != NULL;
    for (size_t i = 1; known && i < code.bytes && code.at[i] != '['; i++)
        known = code.at[i] >= '0' && code.at[i] <= '9';
    return qkv_fail(p->err, known ? QKV_ERR_UNSUPPORTED : QKV_ERR_FORMAT, &where,
                    "unsupported dtype of the array, expected %s, found \"%.*s\"", want, shown,
                    raw.at);
}

static qkv_status read_order(struct npy *p)
{
    skip_space(p);
    const size_t left = p->size - p->at;
    if (left >= 4 && memcmp(p->text + p->at, "True", 4) == 0) {
        p->fortran = true;
        p->at += 4;
    } else if (left >= 5 && memcmp(p->text + p->at, "False", 5) == 0) {
        p->at += 5;
    } else {
        return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed fortran_order", "True or False");
    }
    return QKV_OK;
}

// Reads one size of the shape: digits, which may be followed by the L of a Python 2 integer.
static qkv_status read_size(struct npy *p, int64_t *out)
{
    skip_space(p);
    const size_t at = p->at;
    uint64_t n = 0;
    for (; p->at < p->size && p->text[p->at] >= '0' && p->text[p->at] <= '9'; p->at++)
        if (n <= QKV_DIM_MAX) n = n * 10 + (uint64_t)(p->text[p->at] - '0');
    if (p->at == at)
        return fail_at(p, QKV_ERR_FORMAT, at, "malformed shape", "a whole number >= 0");
    if (n > QKV_DIM_MAX) {
        const struct qkv_location where = { .file = p->file,
                                            .has_offset = true,
                                            .offset = p->base + (int64_t)at };
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "invalid shape of the array, expected sizes up to 2^48, found %.*s",
                        p->at - at > 32 ? 32 : (int)(p->at - at), p->text + at);
    }
    if (p->at < p->size && p->text[p->at] == 'L') p->at++;
    *out = (int64_t)n;
    return QKV_OK;
}

static qkv_status read_shape(struct npy *p)
{
    if (!accept_char(p, '('))
        return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed shape", "'(' of a tuple");
    while (!accept_char(p, ')')) {
        skip_space(p);
        if (p->rank == QKV_RANK_MAX)
            return fail_at(p, QKV_ERR_LIMIT, p->at, "rank too large", "at most 8 axes");
        const qkv_status status = read_size(p, &p->shape[p->rank]);
        if (status) return status;
        p->rank++;
        const bool comma = accept_char(p, ',');
        skip_space(p);
        const bool last = p->at < p->size && p->text[p->at] == ')';
        if (!comma && (!last || p->rank == 1)) // (3) is a number in Python, (3,) a tuple
            return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed shape", "','");
    }
    return QKV_OK;
}

static qkv_status read_pair(struct npy *p)
{
    struct qkv_span key;
    skip_space(p);
    const size_t at = p->at;
    if (!read_string(p, &key))
        return fail_at(p, QKV_ERR_FORMAT, at, "malformed header", "a key in quotes");
    const bool descr = qkv_span_is(&key, "descr"), order = qkv_span_is(&key, "fortran_order"),
               shape = qkv_span_is(&key, "shape");
    const struct qkv_location where = { .file = p->file,
                                        .has_offset = true,
                                        .offset = p->base + (int64_t)at };
    bool *seen = descr ? &p->has_descr : order ? &p->has_order : &p->has_shape;
    if ((!descr && !order && !shape) || *seen)
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "unknown key in the header, expected descr, fortran_order and shape, each "
                        "once, found \"%.*s\"",
                        key.bytes > 64 ? 64 : (int)key.bytes, key.at);
    *seen = true;
    if (!accept_char(p, ':'))
        return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed header", "a colon after a key");
    return descr ? read_descr(p) : order ? read_order(p) : read_shape(p);
}

static qkv_status read_dict(struct npy *p)
{
    if (!accept_char(p, '{'))
        return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed header", "'{' of a dict");
    while (!accept_char(p, '}')) {
        const qkv_status status = read_pair(p);
        if (status) return status;
        if (accept_char(p, ',')) continue;
        skip_space(p);
        if (p->at >= p->size || p->text[p->at] != '}')
            return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed header", "',' or '}'");
    }
    if (!p->has_descr || !p->has_order || !p->has_shape) {
        const struct qkv_location where = { .file = p->file,
                                            .has_offset = true,
                                            .offset = p->base };
        return qkv_fail(
            p->err, QKV_ERR_FORMAT, &where,
            "missing key of the header, expected descr, fortran_order and shape, found no %s",
            !p->has_descr   ? "descr"
            : !p->has_order ? "fortran_order"
                            : "shape");
    }
    skip_space(p);
    if (p->at < p->size)
        return fail_at(p, QKV_ERR_FORMAT, p->at, "malformed header", "white space after the dict");
    return QKV_OK;
}

// Reads magic, version and header length; p->text becomes the header, and *data becomes the offset
// of the byte after the header.
static qkv_status read_start(struct npy *p, const struct qkv_map *m, size_t *data)
{
    struct qkv_location where = { .file = p->file, .has_offset = true };
    if (m->size < MAGIC + 2)
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "file too short, expected 8 bytes of magic and version, found %zu",
                        m->size);
    if (memcmp(m->data, "\x93NUMPY", MAGIC) != 0)
        return qkv_fail(
            p->err, QKV_ERR_FORMAT, &where,
            "file is not a .npy file, expected \\x93NUMPY at its start, found other bytes");
    const unsigned major = m->data[6], minor = m->data[7];
    where.offset = MAGIC;
    if (major < 1 || major > 3 || minor != 0)
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "unsupported version of .npy, expected 1.0, 2.0 or 3.0, found %u.%u", major,
                        minor);
    const size_t width = major == 1 ? 2 : 4, start = MAGIC + 2 + width;
    where.offset = MAGIC + 2;
    if (m->size < start)
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "file too short, expected %zu bytes of header size, found %zu", width,
                        m->size - MAGIC - 2);
    size_t size = 0;
    for (size_t i = width; i > 0; i--) size = size << 8 | m->data[MAGIC + 1 + i];
    if (size == 0 || size > m->size - start)
        return qkv_fail(p->err, QKV_ERR_FORMAT, &where,
                        "invalid size of the header, expected 1..%zu bytes, found %zu",
                        m->size - start, size);
    if (size > QKV_NPY_HEADER_MAX)
        return qkv_fail(p->err, QKV_ERR_LIMIT, &where,
                        "header too large, expected at most %d bytes, found %zu",
                        QKV_NPY_HEADER_MAX, size);
    p->text = (const char *)m->data + start;
    p->size = size;
    p->base = (int64_t)start;
    *data = start + size;
    return QKV_OK;
}

// Copies n elements of `size` bytes with reversed byte order.
static void swap_bytes(uint8_t *p, int64_t n, size_t size)
{
    for (int64_t i = 0; i < n; i++, p += size)
        for (size_t a = 0, b = size - 1; a < b; a++, b--) {
            const uint8_t x = p[a];
            p[a] = p[b];
            p[b] = x;
        }
}

// Writes a row-major copy of a column-major array.  It writes the copy in order and reads the array
// with strides.
static void transpose(uint8_t *out, const uint8_t *in, const struct qkv_tensor *p, int64_t n,
                      size_t size)
{
    int64_t at[QKV_RANK_MAX] = { 0 }, stride[QKV_RANK_MAX], from = 0, step = 1;
    for (int i = 0; i < p->rank; i++) {
        stride[i] = step;
        step *= p->shape[i];
    }
    for (int64_t i = 0; i < n; i++) {
        memcpy(out + (size_t)i * size, in + (size_t)from * size, size);
        for (int a = p->rank - 1; a >= 0; a--) {
            from += stride[a];
            if (++at[a] < p->shape[a]) break;
            from -= stride[a] * p->shape[a];
            at[a] = 0;
        }
    }
}

qkv_status qkv_npy_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err)
{
    const struct qkv_map *m = &s->map;
    struct npy p = { .file = m->path, .err = err };
    size_t data = 0, bytes;
    qkv_status status = read_start(&p, m, &data);
    if (!status) status = read_dict(&p);
    if (status) return status;
    const struct qkv_location header = { .file = m->path, .has_offset = true, .offset = p.base };
    if (!qkv_shape_bytes(&bytes, p.dtype, p.rank, p.shape))
        return qkv_fail(err, QKV_ERR_FORMAT, &header,
                        "array too large, expected a shape of less than 2^63 bytes, found more");
    const struct qkv_location end = { .file = m->path,
                                      .has_offset = true,
                                      .offset = (int64_t)(m->size - data < bytes ? m->size
                                                                                 : data + bytes) };
    if (m->size - data != bytes)
        return qkv_fail(err, QKV_ERR_FORMAT, &end, "%s, expected %zu bytes, found %zu",
                        m->size - data < bytes ? "truncated data of the array"
                                               : "bytes after the data of the array",
                        bytes, m->size - data);
    if (!qkv_reserve((void **)&t->all, &t->capacity, t->n + 1, sizeof *t->all))
        return qkv_fail_memory(err, m->path);
    struct qkv_tensor *x = &t->all[t->n];
    *x = (struct qkv_tensor){
        .name = "", .dtype = p.dtype, .rank = p.rank, .bytes = bytes, .data = m->data + data
    };
    memcpy(x->shape, p.shape, sizeof x->shape);
    const struct qkv_npy_data raw = { x->data, p.fortran && p.rank > 1, p.swap };
    if (bytes && (raw.fortran || raw.swap)) {
        s->raw = raw;
        x->data = NULL;
    }
    s->first = t->n++;
    s->n = 1;
    return QKV_OK;
}

qkv_status qkv_npy_convert(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err)
{
    if (!s->raw.data) return QKV_OK;
    struct qkv_tensor *x = &t->all[s->first];
    const int64_t n = qkv_tensor_count(x);
    const size_t size = qkv_dtype_size(x->dtype);
    s->copy = qkv_alloc(x->bytes, 1);
    if (!s->copy) return qkv_fail_memory(err, s->map.path);
    if (s->raw.fortran)
        transpose(s->copy, s->raw.data, x, n, size);
    else
        memcpy(s->copy, s->raw.data, x->bytes);
    if (s->raw.swap) swap_bytes(s->copy, n, size);
    x->data = s->copy;
    s->raw.data = NULL;
    return QKV_OK;
}

// Writes the header for t as numpy.save does, padded so that the data starts at a multiple of 64
// bytes.
static size_t npy_header(char out[512], const struct qkv_tensor *t, const char *descr)
{
    char shape[256];
    size_t n = 0;
    for (int i = 0; i < t->rank; i++)
        n +=
            (size_t)snprintf(shape + n, sizeof shape - n, "%s%" PRId64, i ? ", " : "", t->shape[i]);
    if (t->rank == 1) shape[n++] = ',';
    shape[n] = 0;
    const int used =
        snprintf(out + MAGIC + 4, 512 - MAGIC - 4,
                 "{'descr': '%s', 'fortran_order': False, 'shape': (%s), }", descr, shape);
    const size_t bare = MAGIC + 4 + (size_t)used, whole = qkv_round_up(bare + 1, ALIGN);
    memset(out + bare, ' ', whole - bare - 1);
    out[whole - 1] = '\n';
    memcpy(out, "\x93NUMPY\1\0", MAGIC + 2);
    out[MAGIC + 2] = (char)((whole - MAGIC - 4) & 255);
    out[MAGIC + 3] = (char)((whole - MAGIC - 4) >> 8);
    return whole;
}

qkv_status qkv_npy_write(const char *path, const struct qkv_tensor *t, bool force, qkv_error *err)
{
    static const char *const descr[QKV_DTYPE_COUNT] = {
        [QKV_F32] = "<f4", [QKV_F64] = "<f8", [QKV_F16] = "<f2", [QKV_I64] = "<i8",
        [QKV_I32] = "<i4", [QKV_I16] = "<i2", [QKV_I8] = "|i1",  [QKV_U64] = "<u8",
        [QKV_U32] = "<u4", [QKV_U16] = "<u2", [QKV_U8] = "|u1",  [QKV_BOOL] = "|b1",
    };
    if (!path || !t)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_npy_write: expected path and tensor, found NULL");
    const struct qkv_location at = { .file = path };
    size_t bytes;
    if ((unsigned)t->dtype >= QKV_DTYPE_COUNT || t->rank < 0 || t->rank > QKV_RANK_MAX ||
        !qkv_shape_bytes(&bytes, t->dtype, t->rank, t->shape))
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "tensor to write is invalid, expected a dtype of 0..%d, a rank of 0..%d "
                        "and sizes >= 0 of less than 2^63 bytes in total, found dtype %d, rank %d "
                        "or such sizes",
                        QKV_DTYPE_COUNT - 1, QKV_RANK_MAX, (int)t->dtype, t->rank);
    if (bytes && !t->data)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "tensor to write has no data, expected a pointer, found NULL");
    if (!descr[t->dtype])
        return qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &at,
            "unsupported dtype of the tensor to write, expected a dtype of .npy files, found %s",
            qkv_dtype_name(t->dtype));
    char header[512];
    const size_t n = npy_header(header, t, descr[t->dtype]);
    struct qkv_output o;
    qkv_status status = qkv_output_open(&o, path, force, err);
    if (status) return status;
    if ((status = qkv_output_write(&o, header, n, err)) == QKV_OK &&
        (status = qkv_output_write(&o, t->data, bytes, err)) == QKV_OK)
        return qkv_output_commit(&o, err);
    qkv_output_abort(&o);
    return status;
}
