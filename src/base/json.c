// SPDX-License-Identifier: MIT
// json.c: jansson made strict: depth, first byte, duplicates, places in messages.  RFC 8259.
#include "base/base.h"
#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

// Where the caller wants places: a byte (base >= 0) or line:column.
static struct qkv_place place(char text[48], const char *data, size_t at, const char *file, int64_t base)
{
    struct qkv_place p = { .file = file };
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

// jansson refused what is JSON by grammar: a key twice, a number that does not fit, or no memory.
static qkv_status refused(const json_error_t *why, const char *data, size_t size, const char *file,
                          int64_t base, qkv_error *err)
{
    char text[48];
    size_t end = why->position > 0 ? (size_t)why->position : 0, at; // behind the token
    if (end > size) end = size;
    at = end;
    switch (json_error_code(why)) {
    case json_error_duplicate_key: {
        if (at > 0) at--; // its closing quote
        for (bool found = false; at > 0 && !found; ) {
            size_t backslashes = 0;
            at--;
            while (backslashes < at && data[at - 1 - backslashes] == '\\') backslashes++;
            found = data[at] == '"' && backslashes % 2 == 0;
        }
        const struct qkv_place p = place(text, data, at, file, base);
        return qkv_fail(err, QKV_ERR_FORMAT, &p, "duplicate key, expected each once, found %.*s twice",
                        end - at > 64 ? 64 : (int)(end - at), data + at);
    }
    case json_error_numeric_overflow: {
        while (at > 0 && data[at - 1] != 0 && strchr("+-.0123456789eE", data[at - 1])) at--;
        const struct qkv_place p = place(text, data, at, file, base);
        return qkv_fail(err, QKV_ERR_FORMAT, &p, "number too large, expected one of 64 bits, found %.*s",
                        end - at > 64 ? 64 : (int)(end - at), data + at);
    }
    default: return qkv_fail_memory(err, file);
    }
}

static qkv_status parse(json_t **out, const char *data, size_t size, const char *file, int64_t base,
                        qkv_error *err)
{
    char text[48], found[16];
    *out = NULL;
    struct qkv_scan s = { .data = data, .size = size };
    const char *what = "not a JSON object";
    if (size == 0 || data[0] != '{') {
        s.want = "'{'";
    } else if (qkv_scan_value(&s)) {
        what = "bytes behind the JSON object";
        qkv_scan_space(&s);
        if (s.at < size) s.want = "the end";
    } else {
        what = strcmp(s.want, QKV_SCAN_TOO_DEEP) ? "malformed JSON" : "JSON nested too deep";
    }
    if (s.want) {
        const struct qkv_place p = place(text, data, s.at, file, base);
        qkv_scan_found(found, &s);
        return qkv_fail(err, QKV_ERR_FORMAT, &p, "%s, expected %s, found %s", what, s.want, found);
    }
    const int saved = errno; // jansson's numbers set it
    json_error_t why;
    *out = json_loadb(data, size, JSON_REJECT_DUPLICATES, &why);
    errno = saved;
    return *out ? QKV_OK : refused(&why, data, size, file, base, err);
}

qkv_status qkv_json_parse(json_t **out, const char *data, size_t size, const char *file, int64_t base,
                          qkv_error *err)
{
    return parse(out, data, size, file, base < 0 ? 0 : base, err);
}

qkv_status qkv_json_file(json_t **out, const char *path, size_t max_bytes, qkv_error *err)
{
    *out = NULL;
    struct qkv_map m;
    qkv_status s = qkv_map_open(&m, path, true, err); // read: these are small, and must not shrink
    if (s) return s;
    if (m.size > max_bytes)
        s = qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_place){ .file = path },
                     "file too large, expected at most %zu bytes, found %zu", max_bytes, m.size);
    else
        s = parse(out, (const char *)m.data, m.size, path, -1, err);
    qkv_map_close(&m);
    return s;
}

static const char *kind_name(const json_t *v)
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

// The member, or NULL: *status tells a missing one that was needed from one that was not.
static const json_t *member(const struct qkv_json_at *at, const char *key, bool need, char path[256], bool *ok)
{
    snprintf(path, 256, "%s.%s", at->path, key);
    const json_t *v = json_object_get(at->object, key);
    if (json_is_null(v)) v = NULL;
    *ok = true;
    if (!v && need) {
        *ok = false;
        qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = at->file, .path = path },
                 "missing, expected a value, found none");
    }
    return v;
}

static bool wrong(const struct qkv_json_at *at, const char *path, const char *want, const json_t *v)
{
    qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_place){ .file = at->file, .path = path },
             "wrong type, expected %s, found %s", want, kind_name(v));
    return false;
}

bool qkv_json_int(const struct qkv_json_at *at, const char *key, bool need, int64_t *out, int64_t min,
                  int64_t max)
{
    char path[256];
    bool ok;
    const json_t *v = member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_integer(v)) return wrong(at, path, "an integer", v);
    const int64_t n = json_integer_value(v);
    if (n < min || n > max) {
        const qkv_status s = n > max && min <= max ? QKV_ERR_LIMIT : QKV_ERR_FORMAT;
        qkv_fail(at->err, s, &(struct qkv_place){ .file = at->file, .path = path },
                 "out of range, expected %" PRId64 " .. %" PRId64 ", found %" PRId64, min, max, n);
        return false;
    }
    *out = n;
    return true;
}

bool qkv_json_real(const struct qkv_json_at *at, const char *key, bool need, double *out)
{
    char path[256];
    bool ok;
    const json_t *v = member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_number(v)) return wrong(at, path, "a number", v);
    *out = json_number_value(v);
    return true;
}

bool qkv_json_bool(const struct qkv_json_at *at, const char *key, bool need, bool *out)
{
    char path[256];
    bool ok;
    const json_t *v = member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_boolean(v)) return wrong(at, path, "true or false", v);
    *out = json_is_true(v);
    return true;
}

bool qkv_json_text(const struct qkv_json_at *at, const char *key, bool need, const char **out)
{
    char path[256];
    bool ok;
    const json_t *v = member(at, key, need, path, &ok);
    if (!v) return ok;
    if (!json_is_string(v)) return wrong(at, path, "a text", v);
    *out = json_string_value(v);
    return true;
}
