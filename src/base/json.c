// SPDX-License-Identifier: MIT
// json.c: parses JSON into a tree of jansson more strictly than jansson: it limits the depth,
// checks the first byte, refuses duplicate keys and locates errors.  Source: RFC 8259.
#include "base/base_internal.h"
#include <errno.h>
#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// Returns the location of data[at] for an error: the byte offset base + at if base >= 0 (data is
// part of a file and begins at byte `base`), otherwise line:column, written to text.
static struct qkv_location place(char text[48], const char *data, size_t at, const char *file,
                                 int64_t base)
{
    struct qkv_location p = { .file = file };
    if (base >= 0) {
        p.has_offset = true;
        p.offset = base + (int64_t)at;
        return p;
    }
    size_t line = 1, column = 1;
    for (size_t i = 0; i < at; i++) {
        column = data[i] == '\n' ? 1 : column + 1;
        line += data[i] == '\n';
    }
    snprintf(text, 48, "%zu:%zu", line, column);
    p.path = text;
    return p;
}

// ---- text to tree ------------------------------------------------------------------------------
// scan.c implements the grammar, and jansson implements the tree.  The parser of jansson is not
// used, because when its buffer cannot grow, it drops a byte and continues, so that a failed
// allocation would result in a wrong text.

struct builder {
    struct qkv_scan s;
    char *scratch; // buffer for one text or number, NUL-terminated
    int64_t capacity;
    bool wide; // an integer of more than 64 bits is a real
    bool no_memory;
    const char *what; // an error other than bad syntax; the message quotes the bytes start .. s.at
    size_t start;
};

static bool no_memory(struct builder *b)
{
    b->no_memory = true;
    return false;
}

// Copies the bytes of a number or the decoded text of a string to b->scratch, NUL-terminated.
static bool copy_scratch(struct builder *b, const char *p, size_t n)
{
    if (!qkv_reserve((void **)&b->scratch, &b->capacity, (int64_t)n + 1, 1)) return no_memory(b);
    memcpy(b->scratch, p, n);
    b->scratch[n] = 0;
    return true;
}
static bool copy_text(struct builder *b, const struct qkv_span *raw, size_t *n)
{
    *n = raw->bytes;
    if (!raw->escaped) return copy_scratch(b, raw->at, raw->bytes);
    if (!qkv_reserve((void **)&b->scratch, &b->capacity, (int64_t)raw->bytes + 1, 1))
        return no_memory(b);
    *n = qkv_span_decode(b->scratch, raw);
    b->scratch[*n] = 0;
    return true;
}

static bool too_large(struct builder *b, size_t start)
{
    b->what = "number too large for JSON, expected an integer of at most 64 bits";
    b->start = start;
    return false;
}

static bool read_integer(const char *p, size_t n, int64_t *value)
{
    const bool minus = *p == '-';
    for (size_t i = minus; i < n; i++) {
        const int64_t digit = p[i] - '0';
        if (__builtin_mul_overflow(*value, 10, value) ||
            __builtin_add_overflow(*value, minus ? -digit : digit, value))
            return false;
    }
    return true;
}

static bool build_number(struct builder *b, json_t **out)
{
    bool integer = false;
    const size_t start = b->s.at;
    if (!qkv_scan_number(&b->s, &integer)) return false;
    const char *p = b->s.data + start;
    const size_t n = b->s.at - start;
    int64_t value = 0;
    if (integer && read_integer(p, n, &value)) {
        *out = json_integer(value);
    } else if (integer && !b->wide) {
        return too_large(b, start);
    } else {
        // strtod expects the decimal point of the current locale.
        const char *point = localeconv()->decimal_point;
        const size_t k = strlen(point);
        if (!qkv_reserve((void **)&b->scratch, &b->capacity, (int64_t)(n + k) + 1, 1))
            return no_memory(b);
        size_t m = 0;
        for (size_t i = 0; i < n; i++) {
            if (p[i] == '.')
                memcpy(b->scratch + m, point, k);
            else
                b->scratch[m] = p[i];
            m += p[i] == '.' ? k : 1;
        }
        b->scratch[m] = 0;
        const double real = strtod(b->scratch, NULL);
        if (!isfinite(real)) return too_large(b, start);
        *out = json_real(real);
    }
    return *out || no_memory(b);
}

static bool build_value(struct builder *b, json_t **out, int depth);

static bool build_member(struct builder *b, json_t *object, int depth)
{
    struct qkv_span raw;
    json_t *value = NULL;
    size_t n;
    qkv_scan_space(&b->s);
    const size_t start = b->s.at;
    if (!qkv_scan_string(&b->s, &raw) || !copy_text(b, &raw, &n)) return false;
    if (json_object_get(object, b->scratch)) {
        b->what = "duplicate key in a JSON object, expected each key once";
        b->start = start;
        return false;
    }
    if (!qkv_scan_need(&b->s, ':', "a colon after a key") || !build_value(b, &value, depth))
        return false;
    if (!copy_text(b, &raw, &n)) { // reading the value has overwritten the key in scratch
        json_decref(value);
        return false;
    }
    return json_object_set_new_nocheck(object, b->scratch, value) == 0 || no_memory(b);
}

static bool build_list(struct builder *b, json_t **out, int depth, bool object)
{
    if (depth == QKV_JSON_DEPTH) {
        b->s.want = QKV_SCAN_TOO_DEEP;
        return false;
    }
    b->s.at++;
    json_t *list = object ? json_object() : json_array();
    if (!list) return no_memory(b);
    bool ok = true;
    if (!qkv_scan_take(&b->s, object ? '}' : ']')) {
        do {
            json_t *item = NULL;
            ok = object ? build_member(b, list, depth + 1) : build_value(b, &item, depth + 1);
            if (ok && !object && json_array_append_new(list, item) != 0) ok = no_memory(b);
        } while (ok && qkv_scan_take(&b->s, ','));
        ok = ok && qkv_scan_need(&b->s, object ? '}' : ']', object ? "',' or '}'" : "',' or ']'");
    }
    if (ok)
        *out = list;
    else
        json_decref(list);
    return ok;
}

// Builds the tree of one value; it is recursive, with at most QKV_JSON_DEPTH levels.
static bool build_value(struct builder *b, json_t **out, int depth)
{
    qkv_scan_space(&b->s);
    const char c = b->s.at < b->s.size ? b->s.data[b->s.at] : 0;
    if (c == '{' || c == '[') return build_list(b, out, depth, c == '{');
    if (c == '-' || (c >= '0' && c <= '9')) return build_number(b, out);
    if (c == '"') {
        struct qkv_span raw;
        size_t n;
        if (!qkv_scan_string(&b->s, &raw) || !copy_text(b, &raw, &n)) return false;
        *out = json_stringn_nocheck(b->scratch, n);
        return *out || no_memory(b);
    }
    if (!qkv_scan_value(&b->s)) return false; // true, false, null
    *out = c == 'n' ? json_null() : json_boolean(c == 't');
    return true;
}

// Parses a complete JSON text.  `first` is the byte with which the text must begin: '{' requires an
// object as root, '[' an array.  wide: see struct builder.
static qkv_status parse_root(json_t **out, char first, bool wide, const char *data, size_t size,
                             const char *file, int64_t base, qkv_error *err)
{
    char text[48], found[16];
    const int saved = errno; // strtod sets it
    struct builder b = { .s = { .data = data, .size = size }, .wide = wide };
    const char *what = first == '{' ? "not a JSON object" : "not a JSON array";
    qkv_status status = QKV_OK;
    json_t *root = NULL;
    *out = NULL;
    if (size == 0 || data[0] != first) {
        b.s.want = first == '{' ? "'{'" : "'['";
    } else if (build_value(&b, &root, 0)) {
        what = first == '{' ? "bytes after the JSON object" : "bytes after the JSON array";
        qkv_scan_space(&b.s);
        if (b.s.at < size) b.s.want = "the end";
    } else if (b.s.want) {
        what = strcmp(b.s.want, QKV_SCAN_TOO_DEEP) ? "malformed JSON" : "JSON nested too deep";
    }
    if (b.no_memory) {
        status = qkv_fail_memory(err, file);
    } else if (b.what) {
        const struct qkv_location p = place(text, data, b.start, file, base);
        const size_t n = b.s.at - b.start;
        status = qkv_fail(err, QKV_ERR_FORMAT, &p, "%s, found %.*s", b.what, n > 64 ? 64 : (int)n,
                          data + b.start);
    } else if (b.s.want) {
        const struct qkv_location p = place(text, data, b.s.at, file, base);
        qkv_scan_found(found, &b.s);
        status =
            qkv_fail(err, QKV_ERR_FORMAT, &p, "%s, expected %s, found %s", what, b.s.want, found);
    }
    if (status)
        json_decref(root);
    else
        *out = root;
    qkv_free(b.scratch);
    errno = saved;
    return status;
}

qkv_status qkv_json_parse(json_t **out, const char *data, size_t size, const char *file,
                          int64_t base, qkv_error *err)
{
    return parse_root(out, '{', false, data, size, file, base < 0 ? 0 : base, err);
}

qkv_status qkv_json_parse_any(json_t **out, const char *data, size_t size, int64_t base,
                              qkv_error *err)
{
    return parse_root(out, size && *data == '[' ? '[' : '{', false, data, size, NULL, base, err);
}

static qkv_status parse_file(json_t **out, char first, bool wide, const char *path,
                             size_t max_bytes, qkv_error *err)
{
    *out = NULL;
    struct qkv_map m;
    qkv_status status = qkv_map_read(&m, path, max_bytes, err);
    if (status) return status;
    status = parse_root(out, first, wide, (const char *)m.data, m.size, path, -1, err);
    qkv_map_close(&m);
    return status;
}

qkv_status qkv_json_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err)
{
    return parse_file(out, '{', false, path, max_bytes, err);
}

qkv_status qkv_json_wide_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err)
{
    return parse_file(out, '{', true, path, max_bytes, err);
}

qkv_status qkv_json_list_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err)
{
    return parse_file(out, '[', false, path, max_bytes, err);
}

const char *qkv_json_type_name(const json_t *v)
{
    switch (json_typeof(v)) {
    case JSON_OBJECT: return "an object";
    case JSON_ARRAY: return "an array";
    case JSON_STRING: return "a text";
    case JSON_INTEGER: return "an integer";
    case JSON_REAL: return "a real number";
    case JSON_TRUE: return "true";
    case JSON_FALSE: return "false";
    case JSON_NULL: return "null";
    }
    return "?";
}

// Returns the member `key`, or NULL if it is missing or null; *ok becomes false if `need` is true
// and the member is missing.
static const json_t *find_member(const struct qkv_json_at *at, const char *key, bool need,
                                 char path[256], bool *ok)
{
    snprintf(path, 256, "%s.%s", at->path, key);
    const json_t *v = json_object_get(at->object, key);
    if (json_is_null(v)) v = NULL;
    *ok = true;
    if (!v && need) {
        *ok = false;
        qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = path },
                 "required member is missing, expected a value, found none");
    }
    return v;
}

static bool fail_type(const struct qkv_json_at *at, const char *path, const char *want,
                      const json_t *v)
{
    qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = path },
             "value of the wrong type, expected %s, found %s", want, qkv_json_type_name(v));
    return false;
}

// Reads an integer; `above` is the status of a number that is larger than max.
static bool read_int(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                     int64_t min, int64_t max, qkv_status above)
{
    char path[256];
    bool ok;
    const json_t *v = find_member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_integer(v)) return fail_type(at, path, "an integer", v);
    const int64_t n = json_integer_value(v);
    if (n < min || n > max) {
        qkv_fail(at->err, n > max ? above : QKV_ERR_FORMAT,
                 &(struct qkv_location){ .file = at->file, .path = path },
                 "number out of range, expected %" PRId64 " .. %" PRId64 ", found %" PRId64, min,
                 max, n);
        return false;
    }
    *out = n;
    return true;
}

bool qkv_json_int(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                  int64_t min, int64_t max)
{
    return read_int(at, key, need, out, min, max, QKV_ERR_FORMAT);
}

bool qkv_json_limited(const struct qkv_json_at *at, const char *key, bool need, int64_t *out,
                      int64_t min, int64_t limit)
{
    return read_int(at, key, need, out, min, limit, QKV_ERR_LIMIT);
}

bool qkv_json_real(const struct qkv_json_at *at, const char *key, bool need, double *out)
{
    char path[256];
    bool ok;
    const json_t *v = find_member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_number(v)) return fail_type(at, path, "a number", v);
    *out = json_number_value(v);
    return true;
}

bool qkv_json_bool(const struct qkv_json_at *at, const char *key, bool need, bool *out)
{
    char path[256];
    bool ok;
    const json_t *v = find_member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_boolean(v)) return fail_type(at, path, "true or false", v);
    *out = json_is_true(v);
    return true;
}

bool qkv_json_text(const struct qkv_json_at *at, const char *key, bool need, const char **out)
{
    char path[256];
    bool ok;
    const json_t *v = find_member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_string(v)) return fail_type(at, path, "a text", v);
    *out = json_string_value(v);
    return true;
}
