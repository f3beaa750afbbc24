// SPDX-License-Identifier: MIT
// embed_sink.c: writes vectors as lines of numbers, JSON lines or a .npy file.
#include "embed/embed.h"
#include <errno.h>
#include <string.h>

// Writes the header of a .npy file of rows x width floats.  It always has NPY_HEAD bytes, so that
// it can be overwritten when the number of rows is known.
static void npy_head(FILE *to, int64_t rows, int64_t width)
{
    const uint16_t one = 1;
    char head[NPY_HEAD + 64];
    memcpy(head, "\x93NUMPY\1\0\x76\0", 10);
    int n = 10 + snprintf(head + 10, sizeof head - 10,
                          "{'descr': '%cf4', 'fortran_order': False, 'shape': (%lld, %lld), }",
                          *(const char *)&one ? '<' : '>', (long long)rows, (long long)width);
    while (n < NPY_HEAD - 1) head[n++] = ' ';
    head[n] = '\n';
    fwrite(head, 1, NPY_HEAD, to);
}

qkv_status embed_sink_open(struct embed_sink *s, int64_t width, qkv_error *err)
{
    s->width = width;
    s->to = stdout;
    if (!s->path) return QKV_OK;
    const qkv_status status = cmd_file_open(&s->file, s->path, err);
    if (status) return status;
    s->to = s->file.to;
    s->spool = s->form == FORM_NPY && cmd_output_direct(s->path);
    if (s->spool && !(s->to = tmpfile()))
        return cmd_error(err, cmd_io_status(errno), s->path, "cannot create a temporary file: %s",
                         strerror(errno));
    if (s->form == FORM_NPY) npy_head(s->to, 0, width);
    return QKV_OK;
}

static void put_json(const struct embed_sink *s, const float *v, const char *text, size_t bytes)
{
    FILE *to = s->to;
    if (s->ids) {
        fprintf(to, "{\"ids\":[%s]", text);
    } else {
        fputs("{\"text\":", to);
        cmd_json_text(to, text, bytes);
    }
    fputs(",\"vector\":[", to);
    for (int64_t i = 0; i < s->width; i++) {
        if (i) fputc(',', to);
        cmd_json_float(to, v[i]);
    }
    fprintf(to, "],\"precision\":\"%s\"", qkv_precision_name(common.precision));
    cmd_json_ablated(to); // not the folder: shards of several machines write the bytes of one run
    fputs("}\n", to);
}

qkv_status embed_sink_put(struct embed_sink *s, const float *v, const struct cmd_texts *t,
                          qkv_error *err)
{
    if (s->form == FORM_NPY) {
        fwrite(v, sizeof *v, (size_t)(t->count * s->width), s->to);
    } else {
        for (int64_t n = 0; n < t->count; n++, v += s->width) {
            if (s->form == FORM_JSONL) {
                put_json(s, v, t->text[n], t->bytes[n]);
                continue;
            }
            for (int64_t i = 0; i < s->width; i++)
                fprintf(s->to, i ? " %.9g" : "%.9g", (double)v[i]);
            fputc('\n', s->to);
        }
    }
    s->rows += t->count;
    return cmd_written(s->to, s->path ? s->path : "standard output", err);
}

qkv_status embed_sink_head(struct embed_sink *s, qkv_error *err)
{
    if (s->form != FORM_NPY) return QKV_OK;
    if (fseek(s->to, 0, SEEK_SET) != 0)
        return cmd_error(err, cmd_io_status(errno), s->path, "cannot write the header: %s",
                         strerror(errno));
    npy_head(s->to, s->rows, s->width);
    return QKV_OK;
}

qkv_status embed_sink_close(struct embed_sink *s, qkv_error *err)
{
    if (!s->path) return QKV_OK;
    const qkv_status status = embed_sink_head(s, err); // now the number of rows is known
    if (status) return status;
    if (s->spool) {
        static char block[1 << 16];
        rewind(s->to);
        for (size_t n; (n = fread(block, 1, sizeof block, s->to)) > 0;)
            // cmd_file_commit() will report this failed write
            if (fwrite(block, 1, n, s->file.to) != n) break;
        const bool bad = ferror(s->to);
        fclose(s->to);
        s->to = NULL;
        if (bad) return cmd_error(err, QKV_ERR_IO, s->path, "temporary file cannot be read");
    }
    return cmd_file_commit(&s->file, err);
}

void embed_sink_abort(struct embed_sink *s)
{
    if (s->spool && s->to) fclose(s->to);
    s->to = NULL;
    cmd_file_abort(&s->file);
}

qkv_status embed_form_of(enum embed_form *form, const char *path, qkv_error *err)
{
    *form = common.json ? FORM_JSONL : FORM_LINES;
    const char *dot = path ? strrchr(path, '.') : NULL;
    if (dot && !strcmp(dot, ".npy"))
        *form = FORM_NPY;
    else if (dot && (!strcmp(dot, ".jsonl") || !strcmp(dot, ".json")))
        *form = FORM_JSONL;
    // a device or a pipe, to which vectors are written like to standard output
    else if (path && !cmd_output_direct(path))
        return cmd_error(
            err, QKV_ERR_USAGE, path,
            "unknown format of the output, expected a name that ends with .npy or .jsonl");
    return QKV_OK;
}

const char *embed_form_name(enum embed_form form)
{
    return form == FORM_NPY ? "npy" : "jsonl";
}
