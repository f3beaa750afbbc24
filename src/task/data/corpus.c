// SPDX-License-Identifier: MIT
// corpus.c: opens files of text: finds the files of a corpus and their formats.
//
// Text and TSV are read directly from the mapped file; only JSON strings are copied.
#include "task/data/corpus_internal.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { FOLDERS = 64, COLUMNS = 1 << 20, STDIN_PIECE = 1 << 16 };

// ---- which files -------------------------------------------------------------------------------
static qkv_status choose_format(enum corpus_format *out, const struct qkv_text_source *s,
                                const char *path, qkv_error *err)
{
    static const struct {
        const char *name, *end;
        enum corpus_format format;
    } rows[] = { { "text", ".txt", CORPUS_TEXT },
                 { "jsonl", ".jsonl", CORPUS_JSONL },
                 { "jsonl", ".ndjson", CORPUS_JSONL },
                 { "tsv", ".tsv", CORPUS_TSV } };
    *out = CORPUS_TEXT;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (s->format ? strcmp(s->format, rows[i].name) != 0 : !qkv_ends_with(path, rows[i].end))
            continue;
        *out = rows[i].format;
        return QKV_OK;
    }
    if (!s->format) return QKV_OK;
    return qkv_fail(err, QKV_ERR_USAGE, NULL,
                    "unknown format of the data, expected one of text, jsonl, tsv, found '%.40s'",
                    s->format);
}

// Parses a column number, counted from 1. Returns false if the text is not such a number.
static bool parse_column(int *out, const char *text)
{
    int n = 0;
    for (const char *p = text; *p; p++) {
        if (*p < '0' || *p > '9' || n > COLUMNS / 10) return false;
        n = 10 * n + (*p - '0');
    }
    *out = n - 1;
    return n > 0;
}

// Chooses which columns (TSV) or members (JSONL) of a file are the texts of an example.
static qkv_status choose_fields(struct corpus_file *f, const struct qkv_corpus *c,
                                const struct qkv_text_source *s, qkv_error *err)
{
    const struct qkv_location at = { .file = f->name };
    f->column[0] = 0;
    f->column[1] = 1;
    if (c->two && f->format == CORPUS_TEXT)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "plain text has one text per example, but this objective requires two, "
                        "expected .tsv or .jsonl (or the format set to one of them)");
    if (f->format != CORPUS_TSV) return QKV_OK;
    const char *const fields[2] = { s->field, s->field_b };
    for (int i = 0; i < 1 + c->two; i++)
        if (fields[i] && !parse_column(&f->column[i], fields[i]))
            return qkv_fail(err, QKV_ERR_USAGE, &at,
                            "invalid column of a TSV file, expected a number from 1, found '%.40s'",
                            fields[i]);
    return QKV_OK;
}

static struct corpus_file *file_new(struct qkv_corpus *c, const char *name, qkv_error *err)
{
    if (!qkv_reserve((void **)&c->files, &c->capacity, c->count + 1, sizeof *c->files)) {
        qkv_fail_memory(err, name);
        return NULL;
    }
    struct corpus_file *f = &c->files[c->count];
    memset(f, 0, sizeof *f);
    f->name = qkv_copy_text(name, strlen(name));
    if (!f->name) {
        qkv_fail_memory(err, name);
        return NULL;
    }
    c->count++;
    return f;
}

// Finds where the text of an opened file begins: after the byte order mark, if there is one.
static void file_ready(struct qkv_corpus *c, struct corpus_file *f)
{
    f->start = f->size >= 3 && !memcmp(f->data, "\xEF\xBB\xBF", 3) ? 3 : 0;
    c->bytes += (int64_t)f->size;
}

static qkv_status add_file(struct qkv_corpus *c, const char *path, const struct qkv_text_source *s,
                           qkv_error *err)
{
    struct corpus_file *f = file_new(c, path, err);
    if (!f) return QKV_ERR_LIMIT;
    qkv_status status = choose_format(&f->format, s, path, err);
    if (!status) status = choose_fields(f, c, s, err);
    if (!status) status = qkv_map_open(&f->map, path, false, err);
    if (status) return status;
    f->data = (const char *)f->map.data;
    f->size = f->map.size;
    file_ready(c, f);
    return QKV_OK;
}

// Reads standard input to its end.
static qkv_status add_stdin(struct qkv_corpus *c, const struct qkv_text_source *s, qkv_error *err)
{
    struct corpus_file *f = file_new(c, "standard input", err);
    int64_t capacity = 0, used = 0;
    if (!f) return QKV_ERR_LIMIT;
    qkv_status status = choose_format(&f->format, s, "", err);
    if (!status) status = choose_fields(f, c, s, err);
    if (status) return status;
    for (;;) {
        void *p = f->own;
        if (!qkv_reserve(&p, &capacity, used + STDIN_PIECE, 1))
            return qkv_fail_memory(err, f->name);
        f->own = p;
        const ssize_t n = read(STDIN_FILENO, f->own + used, STDIN_PIECE);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return qkv_fail_errno(err, f->name, "cannot read", errno);
        if (n == 0) break;
        used += n;
    }
    f->data = f->own;
    f->size = (size_t)used;
    file_ready(c, f);
    return QKV_OK;
}

// Lists the names in a folder that do not begin with a dot, sorted.
static qkv_status list_folder(char ***names, int64_t *count, const char *path, qkv_error *err)
{
    int64_t capacity = 0;
    qkv_status status = QKV_OK;
    DIR *d = opendir(path);
    if (!d) return qkv_fail_errno(err, path, "cannot open", errno);
    for (const struct dirent *e; (e = qkv_disk_entry(d, path, &status, err));) {
        if (e->d_name[0] == '.') continue;
        char *name = qkv_copy_text(e->d_name, strlen(e->d_name));
        if (!name || !qkv_reserve((void **)names, &capacity, *count + 1, sizeof **names)) {
            qkv_free(name);
            status = qkv_fail_memory(err, path);
            goto done;
        }
        (*names)[(*count)++] = name;
    }
    if (*count) qsort(*names, (size_t)*count, sizeof **names, qkv_compare_texts);
done:
    closedir(d);
    return status;
}

// Adds every file below a folder, depth first. Does not follow links to folders, which could form
// loops.
static qkv_status add_folder(struct qkv_corpus *c, const char *path, int depth,
                             const struct qkv_text_source *s, qkv_error *err)
{
    char **names = NULL;
    int64_t count = 0;
    if (depth > FOLDERS)
        return qkv_fail(err, QKV_ERR_LIMIT, &(struct qkv_location){ .file = path },
                        "folders are nested too deep, expected at most %d levels", FOLDERS);
    qkv_status status = list_folder(&names, &count, path, err);
    for (int64_t i = 0; i < count && !status; i++) {
        char below[QKV_PATH];
        struct stat st, link;
        status = qkv_path_join(below, path, names[i], err);
        if (status) break;
        if (stat(below, &st) || lstat(below, &link))
            status = qkv_fail_errno(err, below, "cannot stat", errno);
        else if (S_ISREG(st.st_mode))
            status = add_file(c, below, s, err);
        else if (S_ISDIR(link.st_mode))
            status = add_folder(c, below, depth + 1, s, err);
    }
    for (int64_t i = 0; i < count; i++) qkv_free(names[i]);
    qkv_free(names);
    return status;
}

static qkv_status add_path(struct qkv_corpus *c, const char *path, const struct qkv_text_source *s,
                           qkv_error *err)
{
    struct stat st;
    if (!path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "a path of the data is NULL, expected a path");
    if (strcmp(path, "-") == 0) return add_stdin(c, s, err);
    if (stat(path, &st)) return qkv_fail_errno(err, path, "cannot open", errno);
    return S_ISDIR(st.st_mode) ? add_folder(c, path, 1, s, err) : add_file(c, path, s, err);
}

qkv_status qkv_corpus_open(qkv_corpus **out, const struct qkv_text_source *s,
                           enum qkv_objective objective, qkv_error *err)
{
    *out = NULL;
    if (s->n < 1)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "no text given, expected files or folders");
    struct qkv_corpus *c = qkv_alloc_zero(1, sizeof *c);
    if (!c) return qkv_fail_memory(err, NULL);
    qkv_status status = QKV_OK;
    c->objective = objective;
    c->two = objective >= QKV_OBJECTIVE_SEQ2SEQ;
    c->per_line = s->per_line;
    const char *const fields[2] = { s->field ? s->field : "text",
                                    s->field_b                            ? s->field_b
                                    : objective == QKV_OBJECTIVE_CLASSIFY ? "label"
                                                                          : "text_b" };
    for (int i = 0; i < 2 && !status; i++) {
        c->field[i] = qkv_copy_text(fields[i], strlen(fields[i]));
        if (!c->field[i]) status = qkv_fail_memory(err, NULL);
    }
    for (int64_t i = 0; i < s->n && !status; i++) status = add_path(c, s->paths[i], s, err);
    if (!status && !c->count)
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = s->paths[0] },
                          "folder has no file, expected files with text, found none");
    if (status)
        qkv_corpus_close(c);
    else
        *out = c;
    return status;
}

void qkv_corpus_close(qkv_corpus *c)
{
    if (!c) return;
    for (int64_t i = 0; i < c->count; i++) {
        qkv_map_close(&c->files[i].map);
        qkv_free(c->files[i].own);
        qkv_free(c->files[i].name);
    }
    qkv_free(c->files);
    for (int i = 0; i < 2; i++) qkv_free(c->field[i]);
    qkv_free(c);
}

int64_t qkv_corpus_bytes(const qkv_corpus *c)
{
    return c->bytes;
}

void qkv_corpus_hash(const qkv_corpus *c, char hex[QKV_SHA256_TEXT])
{
    struct qkv_sha256 h;
    qkv_sha256_begin(&h);
    // The hash includes the size of each file, so that moving text between files changes the hash.
    for (int64_t i = 0; i < c->count; i++) {
        char size[32];
        const int n = snprintf(size, sizeof size, "%zu\n", c->files[i].size);
        qkv_sha256_add(&h, size, (size_t)n);
        qkv_sha256_add(&h, c->files[i].data, c->files[i].size);
    }
    qkv_sha256_end(&h, hex);
}
