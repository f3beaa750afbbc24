// SPDX-License-Identifier: MIT
// disk.c: wraps the system calls that change the disk, so that a test can interrupt the program
// before each of them, and removes folders without allocating memory.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdalign.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#if defined(__linux__)
#include <sys/syscall.h>
#endif

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
    int rc;
    do rc = allowed("fsync", path, NULL, NULL) ? fsync(fd) : -1;
    while (rc != 0 && errno == EINTR);
    return rc;
}
int qkv_disk_truncate(int fd, const char *path, int64_t bytes)
{
    return allowed("ftruncate", path, NULL, NULL) ? ftruncate(fd, bytes) : -1;
}
int qkv_disk_rename(const char *from, const char *to)
{
    return allowed("rename", from, to, NULL) ? rename(from, to) : -1;
}
int qkv_disk_exchange(const char *a, const char *b)
{
    if (!allowed("exchange", a, b, NULL)) return -1;
#if defined(SYS_renameat2)
    enum { EXCHANGE = 2 }; // RENAME_EXCHANGE
    return (int)syscall(SYS_renameat2, AT_FDCWD, a, AT_FDCWD, b, EXCHANGE);
#else
    errno = ENOSYS;
    return -1;
#endif
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
int qkv_disk_mkdir(const char *path, unsigned mode)
{
    return allowed("mkdir", path, NULL, NULL) ? mkdir(path, (mode_t)mode) : -1;
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

int qkv_disk_sync_above(const char *path)
{
    char above[QKV_PATH];
    if (qkv_path_above(above, path)) return qkv_disk_sync_folder(above);
    errno = ENAMETOOLONG;
    return -1;
}

const struct dirent *qkv_disk_entry(DIR *d, const char *dir, qkv_status *status, qkv_error *err)
{
    const int saved = errno;
    errno = 0;
    const struct dirent *e = readdir(d);
    if (!e && errno)
        *status = qkv_fail_errno(err, dir, "cannot read the folder", errno);
    else
        errno = saved;
    return e;
}

// ---- folders -----------------------------------------------------------------------------------
// The functions below may run in a signal handler and when memory is exhausted: on Linux they call
// only the system, and allocate nothing.
enum { DEPTH = 32, ENTRIES = 4096 };

// The path that is being removed.
struct place {
    char path[QKV_PATH];
    size_t used;
};

// What has a name, without following links.
enum entry { NO_ENTRY, FOLDER, NO_FOLDER };

static enum entry entry_at(const char *path)
{
    struct stat st;
    if (lstat(path, &st) == 0) return S_ISDIR(st.st_mode) ? FOLDER : NO_FOLDER;
    if (errno == ENOENT) return NO_ENTRY;
    // the call can fail by itself: something must be removed all the same
    const int fd = open(path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return NO_FOLDER;
    close(fd);
    return FOLDER;
}

static bool remove_inside(struct place *at, int depth, bool *changed);

// Removes the entry `name` of the folder at->path: a file or a link or, if depth > 0, a folder.
static bool remove_entry(struct place *at, const char *name, int depth, bool *changed)
{
    const size_t used = at->used, bytes = strlen(name);
    if (!strcmp(name, ".") || !strcmp(name, "..")) return true;
    if (used + 1 + bytes >= sizeof at->path) {
        errno = ENAMETOOLONG;
        return false;
    }
    at->path[used] = '/';
    memcpy(at->path + used + 1, name, bytes + 1);
    at->used = used + 1 + bytes;
    const enum entry entry = entry_at(at->path);
    bool done = entry == NO_ENTRY; // another thread removed it
    if (entry == FOLDER && depth > 0)
        done = remove_inside(at, depth - 1, changed) && qkv_disk_rmdir(at->path) == 0;
    else if (!done)
        done = qkv_disk_unlink(at->path) == 0;
    *changed |= done;
    at->used = used;
    at->path[used] = 0;
    return done;
}

#if defined(SYS_getdents64)
// Removes the entries of an open folder.  The system writes records to `block`: the number of the
// file and an offset of 8 bytes each, the bytes of the record (2), the kind of the file (1), and
// its name.
static bool remove_entries(struct place *at, int fd, int depth, bool *changed)
{
    alignas(16) char block[ENTRIES];
    bool all = true;
    for (long got; (got = syscall(SYS_getdents64, fd, block, sizeof block)) != 0;) {
        if (got < 0) return false;
        QKV_WRITTEN(block, (size_t)got);
        uint16_t bytes;
        for (long i = 0; i < got; i += bytes) {
            memcpy(&bytes, block + i + 16, sizeof bytes);
            all = remove_entry(at, block + i + 19, depth, changed) && all;
        }
    }
    return all;
}
#else
static bool remove_entries(struct place *at, int fd, int depth, bool *changed)
{
    const int own = dup(fd); // closedir() closes the descriptor
    DIR *d = own < 0 ? NULL : fdopendir(own);
    bool all = d != NULL;
    errno = 0;
    for (const struct dirent *e; d && (e = readdir(d)) != NULL; errno = 0)
        all = remove_entry(at, e->d_name, depth, changed) && all;
    all = all && !errno;
    if (d) closedir(d);
    return all;
}
#endif

// Removes the entries of the folder at->path.
static bool remove_inside(struct place *at, int depth, bool *changed)
{
    const int fd = open(at->path, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
    if (fd < 0) return false;
    const bool all = remove_entries(at, fd, depth, changed);
    const int code = errno;
    close(fd);
    errno = code;
    return all;
}

static bool remove_folder(const char *dir, int depth)
{
    struct place at;
    at.used = strlen(dir);
    if (at.used >= sizeof at.path) {
        errno = ENAMETOOLONG;
        return false;
    }
    memcpy(at.path, dir, at.used + 1);
    // some file systems skip entries while others are removed, and a call may fail once: read the
    // folder again as long as that removes something, and once more
    int left = 2;
    for (bool changed = false; left > 0; changed = false) {
        if (remove_inside(&at, depth, &changed) && qkv_disk_rmdir(dir) == 0) return true;
        if (errno == ENOENT && !qkv_path_exists(dir)) return true;
        if (!changed) left--;
    }
    return false;
}

bool qkv_disk_remove_folder(const char *dir)
{
    return remove_folder(dir, 0);
}

bool qkv_disk_remove_tree(const char *path)
{
    switch (entry_at(path)) {
    case NO_ENTRY: return true;
    case FOLDER: return remove_folder(path, DEPTH);
    default: return qkv_disk_unlink(path) == 0;
    }
}
