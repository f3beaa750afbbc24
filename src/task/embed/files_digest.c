// SPDX-License-Identifier: MIT
// files_digest.c: computes one SHA-256 of all files that determine the vectors of a model.
#include "task/embed/embed_internal.h"
#include <string.h>

// Returns the name of a file: its path from the folder `dir`, or its last component.
static const char *name_in(const char *dir, const char *path)
{
    size_t n = strlen(dir);
    const char *slash = strrchr(path, '/');
    while (n && dir[n - 1] == '/') n--;
    if (!strncmp(path, dir, n) && path[n] == '/') return path + n + strspn(path + n, "/");
    return slash ? slash + 1 : path;
}

static int compare_names(const void *ctx, const void *a, const void *b)
{
    return strcmp(name_in(ctx, *(const char *const *)a), name_in(ctx, *(const char *const *)b));
}

// Adds the line of a file to the sum.
static qkv_status add_file(struct qkv_sha256 *sum, const char *name, const char *path,
                           qkv_error *err)
{
    struct qkv_map m;
    char hex[QKV_SHA256_TEXT];
    const qkv_status status = qkv_map_open(&m, path, false, err);
    if (status) return status;
    qkv_sha256(hex, m.data, m.size);
    qkv_map_close(&m);
    qkv_sha256_add(sum, hex, strlen(hex));
    qkv_sha256_add(sum, "  ", 2);
    qkv_sha256_add(sum, name, strlen(name));
    qkv_sha256_add(sum, "\n", 1);
    return QKV_OK;
}

qkv_status qkv_files_digest(char hex[QKV_SHA256_TEXT], const char *dir,
                            const struct qkv_text_buffer *paths, qkv_error *err)
{
    int64_t count = 0, n = 0;
    struct qkv_sha256 sum;
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < paths->count; i++) count += !paths->bytes[i];
    const char **sorted = paths->failed ? NULL : qkv_alloc((size_t)count + 1, sizeof *sorted);
    if (!sorted) return qkv_fail_memory(err, dir);
    for (int64_t at = 0; n < count; n++, at += (int64_t)strlen(paths->bytes + at) + 1)
        sorted[n] = paths->bytes + at;
    if (!qkv_sort(sorted, count, sizeof *sorted, compare_names, dir))
        status = qkv_fail_memory(err, dir);
    qkv_sha256_begin(&sum);
    for (int64_t i = 0; i < count && !status; i++) // a file may have been read more than once
        if (!i || compare_names(dir, &sorted[i - 1], &sorted[i]) != 0)
            status = add_file(&sum, name_in(dir, sorted[i]), sorted[i], err);
    qkv_sha256_end(&sum, hex);
    qkv_free(sorted);
    return status;
}
