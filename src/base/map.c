// SPDX-License-Identifier: MIT
// map.c: maps files or reads them into memory, and finds the file to which an address belongs.
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

// Table of mapped files for qkv_mapped_file.  A file claims a slot by storing its address in `at`;
// the slot is valid once `size` is set.  Signal handlers read the table without a lock.  Linux lets
// a process have 65,530 mappings; pages of the table are only used as far as files are open.
enum { SLOTS = 1 << 16 };
static struct {
    _Atomic uintptr_t at;
    _Atomic size_t size;
    _Atomic(const char *) path;
} slots[SLOTS];
static _Atomic int lowest, used; // slots below `lowest` are taken; from `used` on none ever was

static int slot_take(const struct qkv_map *m)
{
    int first = atomic_load(&lowest), most = atomic_load(&used);
    for (int i = first; i < SLOTS; i++) {
        uintptr_t none = 0;
        if (atomic_load(&slots[i].at) ||
            !atomic_compare_exchange_strong(&slots[i].at, &none, (uintptr_t)m->data))
            continue;
        while (most <= i && !atomic_compare_exchange_weak(&used, &most, i + 1)) continue;
        atomic_compare_exchange_strong(&lowest, &first, i + 1); // unless a slot was released since
        atomic_store(&slots[i].path, m->path);
        atomic_store(&slots[i].size, m->size);
        return i;
    }
    return -1; // the table is full: the file stays mapped, and qkv_mapped_file does not find it
}

const char *qkv_mapped_file(const void *address)
{
    for (int i = 0, end = atomic_load(&used); i < end; i++) {
        const uintptr_t at = atomic_load(&slots[i].at);
        if (at && (uintptr_t)address - at < atomic_load(&slots[i].size))
            return atomic_load(&slots[i].path);
    }
    return NULL;
}

QKV_INITIAL_EXEC static _Thread_local struct qkv_text_buffer
    *record; // NULL: paths are not recorded

void qkv_map_record(struct qkv_text_buffer *paths)
{
    record = paths;
}

// Reads m->size bytes from fd into new memory, m->data.
static qkv_status read_whole(struct qkv_map *m, int fd, qkv_error *err)
{
    uint8_t *p = qkv_alloc(m->size, 1);
    if (!p) return qkv_fail_memory(err, m->path);
    size_t got = 0;
    while (got < m->size) {
        const ssize_t n = read(fd, p + got, m->size - got);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            const int code = errno;
            qkv_free(p);
            if (n < 0) return qkv_fail_errno(err, m->path, "cannot read", code);
            return qkv_fail(err, QKV_ERR_IO,
                            &(struct qkv_location){
                                .file = m->path, .has_offset = true, .offset = (int64_t)got },
                            "file shrank while it was read, expected %zu bytes, found %zu", m->size,
                            got);
        }
        got += (size_t)n;
    }
    m->data = p;
    return QKV_OK;
}

static qkv_status open_file(struct qkv_map *m, const char *path, bool no_mmap, size_t max,
                            qkv_error *err)
{
    const int saved = errno;
    memset(m, 0, sizeof *m);
    m->slot = -1;
    qkv_status status = QKV_OK;
    const int fd =
        open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); // opening a FIFO must not block
    if (fd < 0) return qkv_fail_errno(err, path, "cannot open", errno);
    struct stat st;
    const struct qkv_location at = { .file = path };
    if (fstat(fd, &st) != 0) {
        status = qkv_fail_errno(err, path, "cannot stat", errno);
    } else if (!S_ISREG(st.st_mode)) {
        status = qkv_fail(err, QKV_ERR_IO, &at, "%s, expected a regular file",
                          S_ISDIR(st.st_mode)    ? "is a directory"
                          : S_ISFIFO(st.st_mode) ? "is a FIFO"
                                                 : "is a device");
    } else if (st.st_size > PTRDIFF_MAX) {
        status = qkv_fail(err, QKV_ERR_LIMIT, &at,
                          "file too large, expected at most %td bytes, found %lld",
                          (ptrdiff_t)PTRDIFF_MAX, (long long)st.st_size);
    } else if ((size_t)st.st_size > max) {
        status = qkv_fail(err, QKV_ERR_LIMIT, &at,
                          "file too large, expected at most %zu bytes, found %zu", max,
                          (size_t)st.st_size);
    } else if ((m->path = qkv_copy_text(path, strlen(path))) == NULL) {
        status = qkv_fail_memory(err, path);
    } else if ((m->size = (size_t)st.st_size) > 0) {
        void *p = no_mmap ? MAP_FAILED : mmap(NULL, m->size, PROT_READ, MAP_PRIVATE, fd, 0);
        if (p != MAP_FAILED) {
            m->data = p;
            m->mapped = true;
            m->slot = slot_take(m);
        } else {
            status = read_whole(m, fd, err);
        }
    }
    close(fd);
    if (status != QKV_OK) {
        qkv_free(m->path);
        memset(m, 0, sizeof *m);
    } else if (record) {
        qkv_text_append(record, path, strlen(path) + 1);
    }
    errno = saved;
    return status;
}

qkv_status qkv_map_open(struct qkv_map *m, const char *path, bool no_mmap, qkv_error *err)
{
    return open_file(m, path, no_mmap, PTRDIFF_MAX, err);
}

qkv_status qkv_map_read(struct qkv_map *m, const char *path, size_t max, qkv_error *err)
{
    return open_file(m, path, true, max, err);
}

void qkv_map_close(struct qkv_map *m)
{
    if (m->mapped) {
        if (m->slot >= 0) {
            atomic_store(&slots[m->slot].size, 0);
            atomic_store(&slots[m->slot].path, NULL);
            atomic_store(&slots[m->slot].at, 0);
            int old = atomic_load(&lowest);
            while (old > m->slot && !atomic_compare_exchange_weak(&lowest, &old, m->slot)) continue;
        }
        munmap((void *)(uintptr_t)m->data, m->size);
    } else {
        qkv_free((void *)(uintptr_t)m->data);
    }
    qkv_free(m->path);
    memset(m, 0, sizeof *m);
}

qkv_status qkv_path_join(char out[QKV_PATH], const char *dir, const char *name, qkv_error *err)
{
    const size_t n = strlen(dir);
    const int need =
        snprintf(out, QKV_PATH, "%s%s%s", dir, n && dir[n - 1] != '/' ? "/" : "", name);
    if (need >= 0 && need < QKV_PATH) return QKV_OK;
    return qkv_fail_errno(err, dir, name, ENAMETOOLONG);
}

const char *qkv_path_above(char above[QKV_PATH], const char *path)
{
    const char *slash = strrchr(path, '/');
    const size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
    if (n >= QKV_PATH) return NULL;
    memcpy(above, slash ? path : ".", n);
    above[n] = 0;
    return slash ? slash + 1 : path;
}

bool qkv_ends_with(const char *text, const char *end)
{
    const size_t n = strlen(text), k = strlen(end);
    return n >= k && strcmp(text + n - k, end) == 0;
}

bool qkv_path_exists(const char *path)
{
    struct stat st;
    return stat(path, &st) == 0;
}

bool qkv_is_absent(int code)
{
    return code == ENOENT || code == ENOTDIR;
}

bool qkv_path_may_exist(const char *path)
{
    return qkv_path_exists(path) || !qkv_is_absent(errno);
}

qkv_status qkv_path_find(bool *there, const char *path, qkv_error *err)
{
    *there = qkv_path_exists(path);
    return *there || qkv_is_absent(errno) ? QKV_OK
                                          : qkv_fail_errno(err, path, "cannot open", errno);
}
