// SPDX-License-Identifier: MIT
// index_files.c: finds the files that an index is made of.
#include "index/index.h"
#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { DEPTH = 64 };

static void add(struct index_files *f, const char *name, bool folder)
{
    if (!(f->count & (f->count - 1))) // the capacity is a power of two
        f->at = cmd_grow(f->at, f->count ? 2 * (size_t)f->count : 1, sizeof *f->at);
    char *copy = strcpy(cmd_alloc(strlen(name) + 1, 1), name);
    const bool json = cmd_ends_with(name, ".jsonl") || cmd_ends_with(name, ".ndjson");
    f->at[f->count++] = (struct index_file){ copy, json, folder };
}

qkv_status index_files_add(struct index_files *f, const char *dir, int depth, qkv_error *err)
{
    char path[CMD_PATH];
    DIR *d = opendir(dir);
    if (!d) return cmd_error(err, cmd_io_status(errno), dir, "cannot open: %s", strerror(errno));
    qkv_status status = QKV_OK;
    const struct dirent *e;
    const char *between = dir[strlen(dir) - 1] == '/' ? "" : "/";
    while (!status && (errno = 0, e = readdir(d)) != NULL) {
        struct stat st;
        if (e->d_name[0] == '.') continue;
        const int n = snprintf(path, sizeof path, "%s%s%s", dir, between, e->d_name);
        if (n < 0 || n >= CMD_PATH) {
            status = cmd_error(err, QKV_ERR_IO, dir, "the path of a file is too long");
        } else if (lstat(path, &st) != 0) {
            if (errno != ENOENT) // removed meanwhile
                status =
                    cmd_error(err, cmd_io_status(errno), path, "cannot read: %s", strerror(errno));
        } else if (S_ISDIR(st.st_mode)) {
            if (depth > 0)
                status = index_files_add(f, path, depth - 1, err);
            else
                status = cmd_error(err, QKV_ERR_LIMIT, path, "folders are nested too deeply");
        } else if (S_ISREG(st.st_mode)) {
            add(f, path, true);
        }
    }
    if (!status && errno)
        status = cmd_error(err, cmd_io_status(errno), dir, "cannot read: %s", strerror(errno));
    closedir(d);
    return status;
}

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct index_file *)a)->name, ((const struct index_file *)b)->name);
}

void index_files_sort(struct index_files *f)
{
    if (f->count > 1) qsort(f->at, (size_t)f->count, sizeof *f->at, by_name);
}

// Returns true if the file is an index, its graph, or a temporary file of one.
static bool is_index(const char *name)
{
    const char *slash = strrchr(name, '/');
    const char *base = slash ? slash + 1 : name;
    return cmd_ends_with(base, ".qkvi") || cmd_ends_with(base, ".qkvi.hnsw") ||
           strstr(base, ".qkvi.tmp.") || strstr(base, ".qkvi.hnsw.tmp.");
}

qkv_status index_files_find(struct index_files *f, int argc, char **argv, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int i = 0; i < argc && !status; i++) {
        struct stat st;
        if (stat(argv[i], &st) != 0)
            status =
                cmd_error(err, cmd_io_status(errno), argv[i], "cannot open: %s", strerror(errno));
        else if (S_ISDIR(st.st_mode))
            status = index_files_add(f, argv[i], DEPTH, err);
        else if (S_ISREG(st.st_mode))
            add(f, argv[i], false);
        else
            status = cmd_error(err, QKV_ERR_IO, argv[i],
                               "expected a file or a folder, found a device or a pipe");
    }
    index_files_sort(f);
    int64_t kept = 0;
    for (int64_t i = 0; i < f->count; i++) {
        const bool twice = kept && !strcmp(f->at[kept - 1].name, f->at[i].name);
        if (twice || (f->at[i].folder && is_index(f->at[i].name))) {
            if (twice && !f->at[i].folder) f->at[kept - 1].folder = false; // it was named itself
            free(f->at[i].name);
        } else {
            f->at[kept++] = f->at[i];
        }
    }
    f->count = kept;
    return status;
}

void index_files_free(struct index_files *f)
{
    for (int64_t i = 0; i < f->count; i++) free(f->at[i].name);
    free(f->at);
    *f = (struct index_files){ NULL, 0 };
}
