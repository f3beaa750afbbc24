// SPDX-License-Identifier: MIT
// json_write.c: writes a tree of jansson to a file, completely or not at all.
#include "base/base.h"

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

qkv_status qkv_json_write(const char *path, const json_t *root, bool force, qkv_error *err)
{
    struct sink s = { .err = err };
    if (!root) return qkv_fail_memory(err, path);
    s.status = qkv_output_open(&s.out, path, force, err);
    if (s.status) return s.status;
    // With 17 digits, parsing a double returns the same value.
    const bool whole =
        json_dump_callback(root, write_part, &s, JSON_INDENT(2) | JSON_REAL_PRECISION(17)) == 0;
    if (!whole && !s.status) s.status = qkv_fail_memory(err, path);
    if (!s.status) s.status = qkv_output_write(&s.out, "\n", 1, err);
    if (!s.status) return qkv_output_commit(&s.out, err);
    qkv_output_abort(&s.out);
    return s.status;
}
