// SPDX-License-Identifier: MIT
// disk.c: wraps the system calls that change the disk, so that a test can interrupt the program
// before each of them.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int (*test_hook)(void *ctx, struct qkv_disk_call *call);
static void *test_hook_ctx;

void qkv_disk_hook(int (*before)(void *ctx, struct qkv_disk_call *call), void *ctx)
{
    test_hook = before;
    test_hook_ctx = ctx;
}

// Calls the hook of a test, which may reduce *bytes, the number of bytes to write.  Returns false,
// with errno set, if the system call must fail.
static bool allowed(const char *name, const char *path, const char *to, size_t *bytes)
{
    if (!test_hook) return true;
    struct qkv_disk_call call = { name, path, to, bytes ? *bytes : 0 };
    const int code = test_hook(test_hook_ctx, &call);
    if (code) errno = code;
    if (bytes && call.bytes < *bytes) *bytes = call.bytes;
    return code == 0;
}

int qkv_disk_open(const char *path, int flags, unsigned mode)
{
    return allowed("open", path, NULL, NULL) ? open(path, flags | O_CLOEXEC, (mode_t)mode) : -1;
}
ptrdiff_t qkv_disk_write(int fd, const char *path, const void *data, size_t bytes)
{
    return allowed("write", path, NULL, &bytes) ? write(fd, data, bytes) : -1;
}
int qkv_disk_sync(int fd, const char *path)
{
    return allowed("fsync", path, NULL, NULL) ? fsync(fd) : -1;
}
int qkv_disk_truncate(int fd, const char *path, int64_t bytes)
{
    return allowed("ftruncate", path, NULL, NULL) ? ftruncate(fd, bytes) : -1;
}
int qkv_disk_rename(const char *from, const char *to)
{
    return allowed("rename", from, to, NULL) ? rename(from, to) : -1;
}
int qkv_disk_link(const char *from, const char *to)
{
    return allowed("link", from, to, NULL) ? link(from, to) : -1;
}
int qkv_disk_symlink(const char *target, const char *path)
{
    return allowed("symlink", path, target, NULL) ? symlink(target, path) : -1;
}
int qkv_disk_unlink(const char *path)
{
    return allowed("unlink", path, NULL, NULL) ? unlink(path) : -1;
}
int qkv_disk_mkdir(const char *path)
{
    return allowed("mkdir", path, NULL, NULL) ? mkdir(path, 0777) : -1;
}
int qkv_disk_rmdir(const char *path)
{
    return allowed("rmdir", path, NULL, NULL) ? rmdir(path) : -1;
}

int qkv_disk_sync_folder(const char *dir)
{
    const int fd = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return -1;
    int rc = qkv_disk_sync(fd, dir);
    if (rc && errno == EINVAL) rc = 0; // this file system needs no sync
    const int code = errno;
    close(fd);
    errno = code;
    return rc;
}

bool qkv_disk_remove_folder(const char *dir)
{
    DIR *d = opendir(dir);
    char path[QKV_PATH];
    if (!d) return errno == ENOENT;
    bool all = true;
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            all = !qkv_path_join(path, dir, e->d_name, NULL) && qkv_disk_unlink(path) == 0 && all;
    closedir(d);
    return all && qkv_disk_rmdir(dir) == 0;
}
