// SPDX-License-Identifier: MIT
// output_writer.c: lends the descriptor of an output file to the host program, which writes it.
#include "base/base.h"

struct qkv_writer {
    struct qkv_output output;
};

qkv_status qkv_writer_open(qkv_writer **out, const char *path, bool force, qkv_error *err)
{
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_writer_open: expected a writer and a path, found NULL");
    qkv_writer *w = qkv_alloc_zero(1, sizeof *w);
    if (!w) return qkv_fail_memory(err, path);
    const qkv_status status = qkv_output_open(&w->output, path, force, err);
    if (status)
        qkv_free(w);
    else
        *out = w;
    return status;
}

int qkv_writer_descriptor(const qkv_writer *w)
{
    return w ? w->output.fd : -1;
}

qkv_status qkv_writer_commit(qkv_writer *w, qkv_error *err)
{
    if (!w)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_writer_commit: expected a writer, found NULL");
    const qkv_status status = qkv_output_commit(&w->output, err);
    qkv_free(w);
    return status;
}

void qkv_writer_abort(qkv_writer *w)
{
    if (!w) return;
    qkv_output_abort(&w->output);
    qkv_free(w);
}
