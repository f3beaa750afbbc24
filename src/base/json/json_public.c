// SPDX-License-Identifier: MIT
// json_public.c: the JSON reader for host programs: an opaque value is a value of jansson.
#include "base/base_internal.h"
#include <qkv/json.h>

static const json_t *value(const qkv_json *v)
{
    return (const json_t *)v;
}

qkv_status qkv_json_read(qkv_json **out, const char *text, size_t bytes, qkv_error *err)
{
    json_t *root = NULL;
    if (out) *out = NULL;
    if (!out || !text)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_json_read: expected a text and a pointer, found NULL");
    struct qkv_scan s = { .data = text, .size = bytes };
    qkv_scan_space(&s);
    const qkv_status status =
        qkv_json_parse_any(&root, text + s.at, bytes - s.at, (int64_t)s.at, err);
    *out = (qkv_json *)root;
    return status;
}

qkv_status qkv_json_read_file(qkv_json **out, const char *path, size_t max_bytes, qkv_error *err)
{
    json_t *root = NULL;
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_json_read_file: expected a path and a pointer, found NULL");
    const qkv_status status = qkv_json_wide_file(&root, path, max_bytes, err);
    *out = (qkv_json *)root;
    return status;
}

void qkv_json_free(qkv_json *root)
{
    json_decref((json_t *)root);
}

enum qkv_json_kind qkv_json_kind_of(const qkv_json *v)
{
    if (!v) return QKV_JSON_NULL;
    switch (json_typeof(value(v))) {
    case JSON_OBJECT: return QKV_JSON_OBJECT;
    case JSON_ARRAY: return QKV_JSON_ARRAY;
    case JSON_STRING: return QKV_JSON_STRING;
    case JSON_INTEGER: return QKV_JSON_INTEGER;
    case JSON_REAL: return QKV_JSON_REAL;
    case JSON_TRUE:
    case JSON_FALSE: return QKV_JSON_BOOLEAN;
    case JSON_NULL: break;
    }
    return QKV_JSON_NULL;
}

const char *qkv_json_kind_name(const qkv_json *v)
{
    return v ? qkv_json_type_name(value(v)) : "null";
}

int64_t qkv_json_length(const qkv_json *v)
{
    const json_t *j = value(v);
    return (int64_t)(json_is_object(j) ? json_object_size(j) : json_array_size(j));
}

const qkv_json *qkv_json_element(const qkv_json *v, int64_t i)
{
    return i < 0 ? NULL : (const qkv_json *)json_array_get(value(v), (size_t)i);
}

const qkv_json *qkv_json_lookup(const qkv_json *v, const char *key)
{
    return key ? (const qkv_json *)json_object_get(value(v), key) : NULL;
}

const char *qkv_json_next_key(const qkv_json *v, const char *key)
{
    json_t *object = (json_t *)v; // an iterator of jansson may also write, which is not done here
    if (!json_is_object(object)) return NULL;
    if (!key) return json_object_iter_key(json_object_iter(object));
    void *at = json_object_iter_at(object, key);
    return at ? json_object_iter_key(json_object_iter_next(object, at)) : NULL;
}

const char *qkv_json_get_string(const qkv_json *v, size_t *bytes)
{
    if (!json_is_string(value(v))) return NULL;
    if (bytes) *bytes = json_string_length(value(v));
    return json_string_value(value(v));
}

bool qkv_json_get_integer(const qkv_json *v, int64_t *out)
{
    if (!out || !json_is_integer(value(v))) return false;
    *out = json_integer_value(value(v));
    return true;
}

bool qkv_json_get_number(const qkv_json *v, double *out)
{
    if (!out || !json_is_number(value(v))) return false;
    *out = json_number_value(value(v));
    return true;
}

bool qkv_json_get_boolean(const qkv_json *v, bool *out)
{
    if (!out || !json_is_boolean(value(v))) return false;
    *out = json_is_true(value(v));
    return true;
}
