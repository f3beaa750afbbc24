// SPDX-License-Identifier: MIT
// index_files.c: finds the files that an index is made of.
#include "index/index.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 64, MODEL_DEPTH = 4 };

// A search for files: an operand and its path without links.
struct walk {
    struct index_files *files;
    const char *name;
    const char *real; // NULL: the folder of a model
};
static void add(const struct walk *w, const char *name, bool folder)
{
    struct index_files *f = w->files;
    char *real = NULL;
    if (!(f->count & (f->count - 1))) // the capacity is a power of two
        f->at = cmd_grow(f->at, f->count ? 2 * (size_t)f->count : 1, sizeof *f->at);
    if (w->real) {
        const char *rest = name + strlen(w->name);
        const size_t bytes = strlen(w->real) + strlen(rest) + 2;
        real = cmd_alloc(bytes, 1);
        while (*rest == '/') rest++;
        snprintf(real, bytes, "%s%s%s", w->real, *rest && strcmp(w->real, "/") ? "/" : "", rest);
    }
    char *copy = strcpy(cmd_alloc(strlen(name) + 1, 1), name);
    const bool json = cmd_ends_with(name, ".jsonl") || cmd_ends_with(name, ".ndjson");
    f->at[f->count++] = (struct index_file){ copy, real, json, folder };
}

// Writes the path of a file in a folder.  Returns false if it is too long.
static bool join(char path[CMD_PATH], const char *dir, const char *name)
{
    const char *between = dir[strlen(dir) - 1] == '/' ? "" : "/";
    const int n = snprintf(path, CMD_PATH, "%s%s%s", dir, between, name);
    return n >= 0 && n < CMD_PATH;
}

// Adds the files of a folder, with at most `depth` levels of folders below it.
static qkv_status add_folder(const struct walk *w, const char *dir, int depth, qkv_error *err);

// Adds a file of a folder, or the files of a folder in it.
static qkv_status add_entry(const struct walk *w, const char *dir, int depth, const char *name,
                            qkv_error *err)
{
    char path[CMD_PATH];
    struct stat st;
    if (!join(path, dir, name))
        return cmd_error(err, QKV_ERR_IO, dir, "the path of a file is too long");
    int found = lstat(path, &st);
    if (!found && S_ISLNK(st.st_mode)) { // followed to files, and only in the folder of a model
        if (w->real) return QKV_OK;
        found = stat(path, &st);
        if (!found && !S_ISREG(st.st_mode)) return QKV_OK;
    }
    if (found)
        return errno == ENOENT || errno == ELOOP // removed meanwhile, or a link to nothing
                   ? QKV_OK
                   : cmd_error(err, cmd_io_status(errno), path, "cannot read: %s", strerror(errno));
    if (S_ISREG(st.st_mode)) add(w, path, true);
    if (!S_ISDIR(st.st_mode)) return QKV_OK;
    if (!depth) return cmd_error(err, QKV_ERR_LIMIT, path, "folders are nested too deeply");
    return add_folder(w, path, depth - 1, err);
}

static qkv_status add_folder(const struct walk *w, const char *dir, int depth, qkv_error *err)
{
    DIR *d = opendir(dir);
    if (!d) return cmd_error(err, cmd_io_status(errno), dir, "cannot open: %s", strerror(errno));
    qkv_status status = QKV_OK;
    const struct dirent *e;
    while (!status && (errno = 0, e = readdir(d)) != NULL)
        if (e->d_name[0] != '.') status = add_entry(w, dir, depth, e->d_name, err);
    if (!status && errno)
        status = cmd_error(err, cmd_io_status(errno), dir, "cannot read: %s", strerror(errno));
    closedir(d);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct index_file *)a)->name, ((const struct index_file *)b)->name);
}

// Compares by the file; of its names, that of an operand comes first.
static int by_file(const void *a, const void *b)
{
    const struct index_file *x = a, *y = b;
    const int order = strcmp(x->real, y->real);
    if (order) return order;
    return x->folder != y->folder ? x->folder - y->folder : strcmp(x->name, y->name);
}

static void sort(struct index_files *f, int (*compare)(const void *, const void *))
{
    if (f->count > 1) qsort(f->at, (size_t)f->count, sizeof *f->at, compare);
}

qkv_status index_files_model(struct index_files *f, const char *dir, qkv_error *err)
{
    struct stat st;
    if (stat(dir, &st) != 0)
        return cmd_error(err, cmd_io_status(errno), dir, "cannot open: %s", strerror(errno));
    const struct walk w = { f, dir, NULL };
    const qkv_status status = add_folder(&w, dir, MODEL_DEPTH, err);
    sort(f, by_name);
    return status;
}

// Returns true if the file is an index, its graph, or a temporary file of one.
static bool is_index(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    return cmd_ends_with(base, ".qkvi") || cmd_ends_with(base, ".qkvi.hnsw") ||
           strstr(base, ".qkvi.tmp.") || strstr(base, ".qkvi.hnsw.tmp.");
}

static void free_file(struct index_file *f)
{
    free(f->name);
    free(f->real);
}

static qkv_status add_operand(struct index_files *f, const char *name, qkv_error *err)
{
    struct stat st;
    char *real = NULL;
    if (!strcmp(name, "-")) // passages name their file
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "standard input cannot be indexed, expected a file or a folder");
    if (stat(name, &st) != 0 || !(real = realpath(name, NULL)))
        return cmd_error(err, cmd_io_status(errno), name, "cannot open: %s", strerror(errno));
    qkv_status status = QKV_OK;
    const struct walk w = { f, name, real };
    if (S_ISDIR(st.st_mode))
        status = add_folder(&w, name, DEPTH, err);
    else if (S_ISREG(st.st_mode))
        add(&w, name, false);
    else
        status = cmd_error(err, QKV_ERR_IO, name,
                           "expected a file or a folder, found a device or a pipe");
    free(real);
    return status;
}

qkv_status index_files_find(struct index_files *f, int argc, char **argv, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int i = 0; i < argc && !status; i++) status = add_operand(f, argv[i], err);
    sort(f, by_file);
    int64_t kept = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const bool twice = kept && !strcmp(f->at[kept - 1].real, f->at[i].real);
        if (twice || (f->at[i].folder && is_index(f->at[i].name)))
            free_file(&f->at[i]);
        else
            f->at[kept++] = f->at[i];
    }
    f->count = kept;
    sort(f, by_name);
    return status;
}

void index_files_free(struct index_files *f)
{
    for (int64_t i = 0; i < f->count; i++) free_file(&f->at[i]);
    free(f->at);
    *f = (struct index_files){ NULL, 0 };
}
