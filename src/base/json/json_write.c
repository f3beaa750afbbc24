// SPDX-License-Identifier: MIT
// json_write.c: writes a tree of jansson to a file, completely or not at all.
#include <stdio.h>
#include <stdlib.h>
#include "base/base.h"

// The digits after which %.*g drops trailing zeros of every number that was written with as many,
// and the digits with which every double reads back.
enum { FEWEST_DIGITS = 15, MOST_DIGITS = 17 };

struct sink {
    struct qkv_output out;
    qkv_status status;
    qkv_error *err;
};

static int write_part(const char *text, size_t bytes, void *ctx)
{
    struct sink *s = ctx;
    s->status = qkv_output_write(&s->out, text, bytes, s->err);
    return s->status ? -1 : 0;
}

// Returns the fewest digits, at least `digits`, with which all reals of a tree read back.
static int digits_of(json_t *v, int digits)
{
    char text[64];
    if (json_is_real(v)) {
        const double x = json_real_value(v);
        for (; digits < MOST_DIGITS; digits++) {
            snprintf(text, sizeof text, "%.*g", digits, x);
            if (strtod(text, NULL) == x) break;
        }
    } else if (json_is_object(v)) {
        for (void *i = json_object_iter(v); i; i = json_object_iter_next(v, i))
            digits = digits_of(json_object_iter_value(i), digits);
    } else
        for (size_t i = 0; i < json_array_size(v); i++)
            digits = digits_of(json_array_get(v, i), digits);
    return digits;
}

qkv_status qkv_json_write(const char *path, json_t *root, bool force, qkv_error *err)
{
    struct sink s = { .err = err };
    if (!root) return qkv_fail_memory(err, path);
    s.status = qkv_output_open(&s.out, path, force, err);
    if (s.status) return s.status;
    const size_t flags =
        JSON_INDENT(2) | JSON_REAL_PRECISION((size_t)digits_of(root, FEWEST_DIGITS));
    const bool whole = json_dump_callback(root, write_part, &s, flags) == 0;
    if (!whole && !s.status) s.status = qkv_fail_memory(err, path);
    if (!s.status) s.status = qkv_output_write(&s.out, "\n", 1, err);
    if (!s.status) return qkv_output_commit(&s.out, err);
    qkv_output_abort(&s.out);
    return s.status;
}
