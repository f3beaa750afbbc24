// SPDX-License-Identifier: MIT
// files.c: finds model folders, and reads files and lines of text.
#include "frame/cmd.h"
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "frame/signals.h"

qkv_status cmd_model_find(char dir[CMD_PATH], qkv_error *err)
{
    return cmd_model_find_named(dir, NULL, err);
}

qkv_status cmd_model_find_named(char dir[CMD_PATH], const char *model, qkv_error *err)
{
    if (!model) model = common.model;
    char why[512];
    qkv_error met = { 0 };
    const qkv_status status = qkv_model_find(dir, CMD_PATH, why, sizeof why, model, &met);
    // say which option names a model: the library does not know the options of commands
    if (status && !model)
        return cmd_error(
            err, status, NULL,
            "%s; choose a model with --model DIR or QKV_MODEL, or download one with 'make demo'",
            met.text);
    if (status) *err = met;
    return status ? status : cmd_input_add(dir, err);
}

qkv_status cmd_model_find_for(enum qkv_job job, char dir[CMD_PATH], const char *model,
                              qkv_error *err)
{
    const qkv_status status =
        qkv_model_find_for(job, dir, CMD_PATH, NULL, 0, model ? model : common.model, err);
    return status ? status : cmd_input_add(dir, err);
}

// ---- lines -------------------------------------------------------------------------------------
// Returns true if the file is a device without an end, such as /dev/zero: a character device that
// is readable and no terminal.
static bool endless(FILE *from, const struct stat *st)
{
    return S_ISCHR(st->st_mode) && !isatty(fileno(from)) && getc(from) != EOF;
}

qkv_status cmd_lines_open(struct cmd_lines *l, const char *path, qkv_error *err)
{
    const bool standard = !strcmp(path, "-");
    *l = (struct cmd_lines){ .path = standard ? "standard input" : path, .size = -1 };
    l->from = standard ? stdin : fopen(path, "rbe");
    if (!l->from)
        return cmd_error(err, cmd_io_status(errno), path, "cannot open: %s", strerror(errno));
    struct stat st;
    const char *wrong = NULL;
    const int flags = fcntl(fileno(l->from), F_GETFL);
    // cmd_signals_init() opens a closed standard input for writing only
    if (standard && flags >= 0 && (flags & O_ACCMODE) == O_WRONLY)
        return cmd_error(err, QKV_ERR_IO, l->path,
                         "standard input is closed, expected a text, a file or a pipe");
    if (fstat(fileno(l->from), &st) == 0) {
        if (S_ISDIR(st.st_mode)) wrong = "the input is a directory, expected a text file";
        if (endless(l->from, &st))
            wrong = "the input is a device without an end of file, expected a text file";
        if (S_ISREG(st.st_mode) && !standard) l->size = st.st_size;
    }
    if (!wrong) return QKV_OK;
    const qkv_status status = cmd_error(err, QKV_ERR_IO, l->path, "%s", wrong);
    cmd_lines_close(l);
    return status;
}

qkv_status cmd_lines_next(struct cmd_lines *l, int64_t *bytes, qkv_error *err)
{
    errno = 0;
    ssize_t n = getline(&l->line, &l->capacity, l->from);
    *bytes = -1;
    if (n < 0) {
        if (cmd_interrupted()) return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        if (errno == ENOMEM)
            return cmd_error(err, QKV_ERR_LIMIT, l->path, "out of memory while reading line %lld",
                             (long long)l->number + 1);
        if (ferror(l->from))
            return cmd_error(err, cmd_io_status(errno), l->path, "cannot read: %s",
                             strerror(errno));
        return QKV_OK;
    }
    l->number++;
    l->done += n;
    if (n && l->line[n - 1] == '\n') l->line[--n] = 0;
    if (n && l->line[n - 1] == '\r') l->line[--n] = 0;
    *bytes = n;
    return QKV_OK;
}

void cmd_lines_close(struct cmd_lines *l)
{
    if (l->from && l->from != stdin) fclose(l->from);
    free(l->line);
    *l = (struct cmd_lines){ .size = -1 };
}

void cmd_texts_add(struct cmd_texts *t, const char *text, size_t bytes)
{
    if (t->count == t->capacity) {
        t->capacity = t->capacity ? 2 * t->capacity : 16;
        t->text = cmd_grow(t->text, (size_t)t->capacity, sizeof *t->text);
        t->bytes = cmd_grow(t->bytes, (size_t)t->capacity, sizeof *t->bytes);
    }
    char *copy = cmd_alloc(bytes + 1, 1);
    memcpy(copy, text, bytes);
    copy[bytes] = 0;
    t->text[t->count] = copy;
    t->bytes[t->count++] = bytes;
}

qkv_status cmd_read_file(char **text, size_t *bytes, const char *path, qkv_error *err)
{
    struct cmd_lines l;
    size_t capacity = 1 << 16;
    // cmd_lines_open() refuses folders and endless devices
    qkv_status status = cmd_lines_open(&l, path, err);
    *text = NULL;
    *bytes = 0;
    if (status) return status;
    if (l.size > 0) capacity = (size_t)l.size + 2;
    *text = cmd_grow(NULL, capacity, 1);
    errno = 0;
    for (size_t n; (n = fread(*text + *bytes, 1, capacity - *bytes - 1, l.from)) > 0;) {
        *bytes += n;
        if (*bytes + 1 < capacity) continue;
        capacity *= 2;
        *text = cmd_grow(*text, capacity, 1);
    }
    if (ferror(l.from))
        status = cmd_error(err, cmd_io_status(errno), l.path, "cannot read: %s", strerror(errno));
    (*text)[*bytes] = 0;
    cmd_lines_close(&l);
    return status;
}

qkv_status cmd_texts_read(struct cmd_texts *t, int argc, char **argv, const char *file,
                          qkv_error *err)
{
    struct cmd_lines lines = { .size = -1 };
    qkv_status status = QKV_OK;
    *t = (struct cmd_texts){ .operands = argc, .file = file };
    for (int i = 0; i < argc; i++) cmd_texts_add(t, argv[i], strlen(argv[i]));
    if (!file) return QKV_OK;
    status = cmd_lines_open(&lines, file, err);
    for (int64_t bytes = 0;
         !status && !(status = cmd_lines_next(&lines, &bytes, err)) && bytes >= 0;)
        cmd_texts_add(t, lines.line, (size_t)bytes);
    cmd_lines_close(&lines);
    if (status) cmd_texts_free(t);
    return status;
}

void cmd_text_place(qkv_error *err, int64_t before, int64_t operands, const char *file)
{
    long long n = 1;
    const bool named =
        sscanf(err->path, "text %lld", &n) == 1 || sscanf(err->path, "prompt %lld", &n) == 1;
    // An error without a place is about the only text of the call, if it is about a text.
    const bool text = before || err->status == QKV_ERR_FORMAT;
    if (err->file[0] || (!named && (err->path[0] || !text))) return;
    n += before;
    if (!file || n <= operands) {
        if (before) snprintf(err->path, sizeof err->path, "text %lld", n);
        return;
    }
    qkv_escape(err->file, sizeof err->file, strcmp(file, "-") ? file : "standard input");
    snprintf(err->path, sizeof err->path, "line %lld", n - operands);
}

void cmd_texts_free(struct cmd_texts *t)
{
    for (int64_t i = 0; i < t->count; i++) free(t->text[i]);
    free(t->text);
    free(t->bytes);
    *t = (struct cmd_texts){ 0 };
}
