// SPDX-License-Identifier: MIT
// json_write.c: writes a tree of jansson to a file, completely or not at all.
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"

// %.*g writes a number of at most FEWEST_DIGITS digits without trailing zeros; MOST_DIGITS digits
// read back as the same double.
enum { FEWEST_DIGITS = 15, MOST_DIGITS = 17 };

struct sink {
    struct qkv_output out;
    qkv_status status;
    qkv_error *err;
};

// Writes text; returns 0, or -1 after an error, as jansson expects of its callback.
static int write_part(const char *text, size_t bytes, void *ctx)
{
    struct sink *s = ctx;
    s->status = qkv_output_write(&s->out, text, bytes, s->err);
    return s->status ? -1 : 0;
}

// Writes the end of a line and the spaces before the next one.
static bool write_line(struct sink *s, int depth)
{
    bool ok = write_part("\n", 1, s) == 0;
    for (int i = 0; i < depth && ok; i++) ok = write_part("  ", 2, s) == 0;
    return ok;
}

// Returns the fewest digits, at least FEWEST_DIGITS, with which x reads back.
static size_t digits_of(double x)
{
    char text[64];
    int digits = FEWEST_DIGITS;
    for (; digits < MOST_DIGITS; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, x);
        if (strtod(text, NULL) == x) break;
    }
    return (size_t)digits;
}

// Writes a value that has no lines, or an empty object or array.
static bool write_short(struct sink *s, const json_t *v)
{
    const size_t digits = json_is_real(v) ? digits_of(json_real_value(v)) : 0;
    return json_dump_callback(v, write_part, s, JSON_ENCODE_ANY | JSON_REAL_PRECISION(digits)) == 0;
}

static bool write_key(struct sink *s, const char *key)
{
    json_t *text = json_string(key);
    const bool ok = text && write_short(s, text) && write_part(": ", 2, s) == 0;
    json_decref(text);
    return ok;
}

static bool write_value(struct sink *s, json_t *v, int depth)
{
    const bool object = json_is_object(v);
    bool ok = true, first = true;
    if (json_object_size(v) + json_array_size(v) == 0) return write_short(s, v);
    ok = write_part(object ? "{" : "[", 1, s) == 0;
    for (void *i = json_object_iter(v); i && ok; i = json_object_iter_next(v, i)) {
        ok = (first || write_part(",", 1, s) == 0) && write_line(s, depth + 1) &&
             write_key(s, json_object_iter_key(i)) &&
             write_value(s, json_object_iter_value(i), depth + 1);
        first = false;
    }
    for (size_t i = 0; i < json_array_size(v) && ok; i++)
        ok = (!i || write_part(",", 1, s) == 0) && write_line(s, depth + 1) &&
             write_value(s, json_array_get(v, i), depth + 1);
    return ok && write_line(s, depth) && write_part(object ? "}" : "]", 1, s) == 0;
}

qkv_status qkv_json_write(const char *path, json_t *root, bool force, qkv_error *err)
{
    struct sink s = { .err = err };
    if (!root) return qkv_fail_memory(err, path);
    s.status = qkv_output_open(&s.out, path, force, err);
    if (s.status) return s.status;
    if (!write_value(&s, root, 0) && !s.status) s.status = qkv_fail_memory(err, path);
    if (!s.status) s.status = qkv_output_write(&s.out, "\n", 1, err);
    if (!s.status) return qkv_output_commit(&s.out, err);
    qkv_output_abort(&s.out);
    return s.status;
}
