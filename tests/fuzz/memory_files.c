// SPDX-License-Identifier: MIT
// memory_files.c: files in memory for fuzz targets.
//
// The linker sends the system calls of the library and of the target to the functions __wrap_NAME
// (option --wrap, for each of them: CMakeLists.txt reads their names here), and the name
// __real_NAME to the system.  Paths below /memory are files in memory; every other path, and every
// descriptor that is not theirs, goes to the system.
#include "fuzz/memory_files.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DESCRIPTORS = 16, FIRST_DESCRIPTOR = 1 << 20, FOLDERS_OPEN = 4, PERMISSIONS = 0644 };

static struct file {
    char path[MEMORY_PATH]; // "": the slot is free
    bool folder;
    uint8_t *data;
    size_t size, capacity;
} files[MEMORY_FILES];
static int files_end; // the slots from here on are free
static size_t read_most = SIZE_MAX;

static struct descriptor {
    struct file *file; // NULL: closed; a removed file stays until its descriptor is closed
    size_t at;
    int flags;
} descriptors[DESCRIPTORS];

static struct folder {
    char path[MEMORY_PATH]; // "": not open
    int next;               // index of the next file
    struct dirent entry;
} folders[FOLDERS_OPEN];

static bool in_memory(const char *path)
{
    const size_t n = sizeof MEMORY_FOLDER - 1;
    return !strncmp(path, MEMORY_FOLDER, n) && (path[n] == '/' || !path[n]);
}

// Copies path without double and trailing slashes.  Returns false if it is too long.
static bool clean_path(char out[MEMORY_PATH], const char *path)
{
    size_t n = 0;
    for (; *path && n < MEMORY_PATH; path++)
        if (*path != '/' || !n || out[n - 1] != '/') out[n++] = *path;
    while (n > 1 && out[n - 1] == '/') n--;
    if (n < MEMORY_PATH) out[n] = 0;
    return n < MEMORY_PATH;
}

static struct file *find(const char *path)
{
    static struct file root = { .path = MEMORY_FOLDER, .folder = true };
    char name[MEMORY_PATH];
    if (!clean_path(name, path)) {
        errno = ENAMETOOLONG;
        return NULL;
    }
    if (!strcmp(name, MEMORY_FOLDER)) return &root;
    for (int i = 0; i < files_end; i++)
        if (!strcmp(files[i].path, name)) return &files[i];
    errno = ENOENT;
    return NULL;
}

static struct file *make(const char *path)
{
    struct file *f = find(path);
    if (f) return f;
    for (int i = 0; i < MEMORY_FILES; i++) {
        if (files[i].path[0]) continue;
        if (!clean_path(files[i].path, path)) return NULL;
        if (i >= files_end) files_end = i + 1;
        files[i].folder = false;
        files[i].size = 0; // the memory of an earlier file is used again
        return &files[i];
    }
    errno = ENOSPC;
    return NULL;
}

static bool put(struct file *f, size_t at, const void *data, size_t size)
{
    if (at > MEMORY_BYTES || size > MEMORY_BYTES - at) return false;
    if (at + size > f->capacity) {
        const size_t more = 2 * (at + size) + 64;
        uint8_t *p = realloc(f->data, more);
        if (!p) return false;
        f->data = p;
        f->capacity = more;
    }
    if (at > f->size) memset(f->data + f->size, 0, at - f->size);
    if (size) memcpy(f->data + at, data, size);
    if (at + size > f->size) f->size = at + size;
    return true;
}

void memory_file(const char *path, const void *data, size_t size)
{
    struct file *f = make(path);
    if (f) f->size = 0;
    if (f && put(f, 0, data, size)) return;
    fprintf(stderr, "%s: cannot be a file in memory\n", path);
    abort();
}

void memory_folder(const char *path)
{
    struct file *f = make(path);
    if (f) f->folder = true;
}

static bool is_below(const char *path, const char *folder, size_t n)
{
    return !strncmp(path, folder, n) && path[n] == '/';
}

void memory_remove(const char *path)
{
    const size_t n = strlen(path);
    for (int i = 0; i < files_end; i++)
        if (!strcmp(files[i].path, path) || is_below(files[i].path, path, n)) files[i].path[0] = 0;
    while (files_end && !files[files_end - 1].path[0]) files_end--;
}

const uint8_t *memory_contents(const char *path, size_t *size)
{
    const struct file *f = find(path);
    if (!f || f->folder) return NULL;
    *size = f->size;
    return f->data ? f->data : (const uint8_t *)"";
}

void memory_read_most(size_t bytes)
{
    read_most = bytes;
}

// ---- the calls of the system --------------------------------------------------------------------
// The linker makes the names: no header declares them.
#define WRAP(type, name, arguments)                                                                \
    type __real_##name arguments;                                                                  \
    type __wrap_##name arguments;                                                                  \
    type __wrap_##name arguments

static struct descriptor *descriptor_of(int fd)
{
    const int i = fd - FIRST_DESCRIPTOR;
    return i >= 0 && i < DESCRIPTORS && descriptors[i].file ? &descriptors[i] : NULL;
}

static int fail(int code)
{
    errno = code;
    return -1;
}

static void describe(struct stat *st, const struct file *f)
{
    memset(st, 0, sizeof *st);
    st->st_mode = (f->folder ? S_IFDIR : S_IFREG) | PERMISSIONS;
    st->st_ino = (ino_t)(uintptr_t)f;
    st->st_size = (off_t)f->size;
    st->st_nlink = 1;
}

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...)
{
    va_list list;
    va_start(list, flags);
    const int mode = flags & O_CREAT ? va_arg(list, int) : 0;
    va_end(list);
    if (!in_memory(path)) return __real_open(path, flags, mode);
    struct file *f = find(path);
    if (f && flags & O_EXCL) return fail(EEXIST);
    if (!f && flags & O_CREAT) f = make(path);
    if (!f) return -1;
    if (flags & O_DIRECTORY && !f->folder) return fail(ENOTDIR);
    if (flags & O_TRUNC) f->size = 0;
    for (int i = 0; i < DESCRIPTORS; i++) {
        if (descriptors[i].file) continue;
        descriptors[i] = (struct descriptor){ f, 0, flags };
        return FIRST_DESCRIPTOR + i;
    }
    return fail(EMFILE);
}

WRAP(int, close, (int fd))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_close(fd);
    d->file = NULL;
    return 0;
}

WRAP(ssize_t, read, (int fd, void *to, size_t bytes))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_read(fd, to, bytes);
    if (d->at >= d->file->size) return 0;
    if (bytes > d->file->size - d->at) bytes = d->file->size - d->at;
    if (bytes > read_most) bytes = read_most;
    if (bytes) memcpy(to, d->file->data + d->at, bytes);
    d->at += bytes;
    return (ssize_t)bytes;
}

WRAP(off_t, lseek, (int fd, off_t at, int from))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_lseek(fd, at, from);
    const size_t base = from == SEEK_SET ? 0 : from == SEEK_CUR ? d->at : d->file->size;
    if (at < 0 && (size_t)-at > base) return fail(EINVAL);
    d->at = base + (size_t)at;
    return (off_t)d->at;
}

WRAP(ssize_t, pread, (int fd, void *to, size_t bytes, off_t at))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_pread(fd, to, bytes, at);
    if ((size_t)at >= d->file->size) return 0;
    if (bytes > d->file->size - (size_t)at) bytes = d->file->size - (size_t)at;
    memcpy(to, d->file->data + at, bytes);
    return (ssize_t)bytes;
}

WRAP(ssize_t, write, (int fd, const void *from, size_t bytes))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_write(fd, from, bytes);
    if (d->flags & O_APPEND) d->at = d->file->size;
    if (!put(d->file, d->at, from, bytes)) return fail(ENOSPC);
    d->at += bytes;
    return (ssize_t)bytes;
}

WRAP(ssize_t, pwrite, (int fd, const void *from, size_t bytes, off_t at))
{
    struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_pwrite(fd, from, bytes, at);
    return put(d->file, (size_t)at, from, bytes) ? (ssize_t)bytes : fail(ENOSPC);
}

// A file in memory is always ready.
WRAP(int, poll, (struct pollfd * p, nfds_t n, int milliseconds))
{
    if (n != 1 || !descriptor_of(p->fd)) return __real_poll(p, n, milliseconds);
    p->revents = p->events;
    return 1;
}

WRAP(int, fsync, (int fd))
{
    return descriptor_of(fd) ? 0 : __real_fsync(fd);
}

WRAP(int, fchmod, (int fd, mode_t mode))
{
    return descriptor_of(fd) ? 0 : __real_fchmod(fd, mode);
}

WRAP(int, fstat, (int fd, struct stat *st))
{
    const struct descriptor *d = descriptor_of(fd);
    if (!d) return __real_fstat(fd, st);
    describe(st, d->file);
    return 0;
}

WRAP(int, stat, (const char *path, struct stat *st))
{
    if (!in_memory(path)) return __real_stat(path, st);
    const struct file *f = find(path);
    if (f) describe(st, f);
    return f ? 0 : -1;
}

WRAP(int, lstat, (const char *path, struct stat *st))
{
    return in_memory(path) ? __wrap_stat(path, st) : __real_lstat(path, st);
}

// A file in memory is not mapped: the library then reads it into memory of the exact size, in which
// AddressSanitizer sees each access past the end.
WRAP(void *, mmap, (void *at, size_t bytes, int protection, int flags, int fd, off_t offset))
{
    if (!descriptor_of(fd)) return __real_mmap(at, bytes, protection, flags, fd, offset);
    errno = ENODEV;
    return MAP_FAILED;
}

WRAP(int, rename, (const char *from, const char *to))
{
    if (!in_memory(from)) return __real_rename(from, to);
    struct file *f = find(from), *old = f ? find(to) : NULL;
    if (!f || !in_memory(to)) return f ? fail(EXDEV) : -1;
    if (old == f) return 0;
    if (old) memory_remove(old->path);
    return clean_path(f->path, to) ? 0 : fail(ENAMETOOLONG);
}

// The library renames a file if the system has no links.
WRAP(int, link, (const char *from, const char *to))
{
    return in_memory(from) ? fail(EPERM) : __real_link(from, to);
}

WRAP(int, unlink, (const char *path))
{
    if (!in_memory(path)) return __real_unlink(path);
    struct file *f = find(path);
    if (f) memory_remove(f->path);
    return f ? 0 : -1;
}

WRAP(int, mkdir, (const char *path, mode_t mode))
{
    if (!in_memory(path)) return __real_mkdir(path, mode);
    if (find(path)) return fail(EEXIST);
    memory_folder(path);
    return 0;
}

WRAP(DIR *, opendir, (const char *path))
{
    if (!in_memory(path)) return __real_opendir(path);
    const struct file *f = find(path);
    if (!f) return NULL;
    for (int i = 0; i < FOLDERS_OPEN && f->folder; i++) {
        if (folders[i].path[0]) continue;
        snprintf(folders[i].path, sizeof folders[i].path, "%s", f->path);
        folders[i].next = 0;
        return (DIR *)(void *)&folders[i];
    }
    errno = f->folder ? EMFILE : ENOTDIR;
    return NULL;
}

static struct folder *folder_of(DIR *d)
{
    for (int i = 0; i < FOLDERS_OPEN; i++)
        if ((void *)d == &folders[i]) return &folders[i];
    return NULL;
}

WRAP(struct dirent *, readdir, (DIR * d))
{
    struct folder *o = folder_of(d);
    if (!o) return __real_readdir(d);
    const size_t n = strlen(o->path);
    while (o->next < files_end) {
        const char *path = files[o->next++].path;
        if (!is_below(path, o->path, n) || strchr(path + n + 1, '/')) continue;
        snprintf(o->entry.d_name, sizeof o->entry.d_name, "%s", path + n + 1);
        return &o->entry;
    }
    return NULL;
}

WRAP(int, closedir, (DIR * d))
{
    struct folder *o = folder_of(d);
    if (!o) return __real_closedir(d);
    o->path[0] = 0;
    return 0;
}
