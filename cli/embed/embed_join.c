// SPDX-License-Identifier: MIT
// embed_join.c: implements `qkv embed --join`: concatenates the parts of an output.
#include "embed/embed.h"
#include <string.h>

// Where the bytes of a part are written.
struct joined {
    FILE *to;
    int64_t bytes;
};

static int write_bytes(void *user, const void *data, size_t bytes)
{
    struct joined *j = user;
    j->bytes += (int64_t)bytes;
    return fwrite(data, 1, bytes, j->to) != bytes || cmd_interrupted();
}

// Appends part i to the output.
static qkv_status join_part(struct embed_sink *sink, const qkv_parts *p, int64_t i, qkv_error *err)
{
    struct joined j = { .to = sink->to };
    int64_t rows = 0, bytes;
    const bool npy = sink->form == FORM_NPY;
    const qkv_status status = qkv_parts_read(p, i, npy ? NPY_HEAD : 0, write_bytes, &j, &rows, err);
    qkv_error written = { 0 };
    if (cmd_written(sink->to, sink->path, &written)) *err = written;
    if (status || err->status) return err->status;
    if (npy && (__builtin_mul_overflow(rows, 4 * sink->width, &bytes) || bytes != j.bytes))
        return cmd_error(err, QKV_ERR_FORMAT, sink->path,
                         "part %lld has the wrong size, expected %lld rows of %lld numbers, found "
                         "%lld bytes",
                         (long long)i, (long long)rows, (long long)sink->width, (long long)j.bytes);
    sink->rows += rows;
    return QKV_OK;
}

// Checks that the parts are vectors in the form of the output, and sets the width.
static qkv_status check_form(const struct embed_sink *sink, const qkv_parts *p, int64_t *width,
                             qkv_error *err)
{
    const char *form = qkv_parts_member(p, "output"), *text = qkv_parts_member(p, "width");
    if (!form || !text || strcmp(form, embed_form_name(sink->form)) != 0 ||
        !cmd_parse_int(text, width) || *width < 1 || *width > INT32_MAX)
        return cmd_error(err, QKV_ERR_FORMAT, sink->path,
                         "the parts are no vectors of this form, expected output %s and a width, "
                         "found %s and %s",
                         embed_form_name(sink->form), form ? form : "none", text ? text : "none");
    return QKV_OK;
}

qkv_status embed_join(const char *output, qkv_error *err)
{
    struct embed_sink sink = { .path = output };
    qkv_parts *p = NULL;
    int64_t width = 0;
    if (cmd_output_direct(output) || !strcmp(output, "-"))
        return cmd_error(err, QKV_ERR_USAGE, output,
                         "--join: expected the name of an output file, found a pipe or a device");
    qkv_status status = embed_form_of(&sink.form, output, err);
    if (!status) status = cmd_output_check(output, err);
    if (!status) status = qkv_parts_open(&p, output, err);
    if (!status) status = check_form(&sink, p, &width, err);
    if (!status) status = embed_sink_open(&sink, width, err);
    cmd_progress_begin("parts");
    for (int64_t i = 0; i < qkv_parts_count(p) && !status; i++)
        status = join_part(&sink, p, i, err);
    if (!status) status = embed_sink_close(&sink, err);
    cmd_progress_end();
    embed_sink_abort(&sink);
    qkv_parts_close(p);
    return status;
}
