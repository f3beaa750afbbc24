// SPDX-License-Identifier: MIT
// record.c: records the system calls that change the disk, with their data, for power.py.
//
// A record is a header, the path of the call (of the descriptor, if the call has one), and its
// second path or the bytes that were written.
#define _GNU_SOURCE
#include "shim.h"
#include <fcntl.h>
#include <limits.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

struct header {
    int32_t call, flags;   // flags of open and renameat2
    int64_t at;            // offset of a write; size of a truncated file
    int32_t first, second; // bytes of the two parts that follow
};

// The places of the arguments of a call that names files: a path, and a second path
static const struct named {
    int call, folder, path, folder2, path2, flags; // -1: none
} named[] = {
    { SYS_open, -1, 0, -1, -1, 1 },     { SYS_creat, -1, 0, -1, -1, -1 },
    { SYS_openat, 0, 1, -1, -1, 2 },    { SYS_truncate, -1, 0, -1, -1, -1 },
    { SYS_rename, -1, 0, -1, 1, -1 },   { SYS_renameat, 0, 1, 2, 3, -1 },
    { SYS_renameat2, 0, 1, 2, 3, 4 },   { SYS_link, -1, 0, -1, 1, -1 },
    { SYS_linkat, 0, 1, 2, 3, -1 },     { SYS_symlink, -1, 1, -1, 0, -1 },
    { SYS_symlinkat, 1, 2, -1, 0, -1 }, { SYS_unlink, -1, 0, -1, -1, -1 },
    { SYS_unlinkat, 0, 1, -1, -1, 2 },  { SYS_rmdir, -1, 0, -1, -1, -1 },
    { SYS_mkdir, -1, 0, -1, -1, -1 },   { SYS_mkdirat, 0, 1, -1, -1, -1 },
};
// The calls whose first argument is the descriptor that they change
static const int written[] = { SYS_write,     SYS_pwrite64,  SYS_writev,   SYS_fsync,
                               SYS_fdatasync, SYS_ftruncate, SYS_fallocate };

static const struct named *find_named(int call)
{
    for (size_t i = 0; i < sizeof named / sizeof *named; i++)
        if (named[i].call == call) return &named[i];
    return NULL;
}

static bool is_written(int call)
{
    for (size_t i = 0; i < sizeof written / sizeof *written; i++)
        if (written[i] == call) return true;
    return false;
}

// Returns true if the descriptor is a file or folder, other than the record and the standard
// descriptors.
static bool on_disk(long fd)
{
    struct stat st;
    return fd > 2 && fd != SHIM_RECORD && shim_call(SYS_fstat, fd, (long)&st, 0, 0, 0, 0) == 0 &&
           (S_ISREG(st.st_mode) || S_ISDIR(st.st_mode));
}

bool shim_changes(int call, const long *a)
{
    const struct named *n = find_named(call);
    if (call == SYS_open || call == SYS_openat)
        return (a[n->flags] & (O_CREAT | O_TRUNC)) != 0 && (a[n->flags] & O_TMPFILE) != O_TMPFILE;
    if (n) return true;
    if (call == SYS_mmap) // a change of a mapped file, which no record can show
        return (a[2] & PROT_WRITE) && (a[3] & MAP_SHARED) && !(a[3] & MAP_ANONYMOUS);
    if (call == SYS_copy_file_range) return on_disk(a[2]);
    if (call == SYS_sendfile) return on_disk(a[0]);
    return is_written(call) && on_disk(a[0]);
}

long shim_record_begin(int call, const long *a)
{
    if (call == SYS_pwrite64) return a[3];
    if (call == SYS_ftruncate || call == SYS_truncate) return a[1];
    if (call != SYS_write && call != SYS_writev) return 0;
    if (shim_call(SYS_fcntl, a[0], F_GETFL, 0, 0, 0, 0) & O_APPEND) return -1;
    return shim_call(SYS_lseek, a[0], 0, SEEK_CUR, 0, 0, 0);
}

static void put(const void *data, size_t bytes)
{
    for (const char *p = data; bytes;) {
        const long n = shim_call(SYS_write, SHIM_RECORD, (long)p, (long)bytes, 0, 0, 0);
        if (n <= 0) _exit(98);
        p += n;
        bytes -= (size_t)n;
    }
}

// Writes the path of the descriptor fd to out; returns its bytes.
static size_t path_of(char out[PATH_MAX], long fd)
{
    char name[40];
    snprintf(name, sizeof name, "/proc/self/fd/%ld", fd);
    const long n = shim_call(SYS_readlink, (long)name, (long)out, PATH_MAX - 1, 0, 0, 0);
    return n > 0 ? (size_t)n : 0;
}

// Writes the path of a call to out; returns its bytes.
static size_t full_path(char out[PATH_MAX], long folder, long path)
{
    const char *name = (const char *)path;
    size_t n = 0;
    if (folder != AT_FDCWD && *name != '/') {
        n = path_of(out, folder);
        out[n++] = '/';
    }
    const size_t bytes = strnlen(name, PATH_MAX - n);
    memcpy(out + n, name, bytes);
    return n + bytes;
}

static void put_written(struct header *h, const char *path, const long *a, size_t bytes)
{
    const struct iovec one = { (void *)a[1], bytes };
    const struct iovec *part = h->call == SYS_writev ? (const struct iovec *)a[1] : &one;
    h->second = (int32_t)bytes;
    put(h, sizeof *h);
    put(path, (size_t)h->first);
    for (; bytes; part++) {
        const size_t n = part->iov_len < bytes ? part->iov_len : bytes;
        put(part->iov_base, n);
        bytes -= n;
    }
}

void shim_record(int call, const long *a, long at, long result)
{
    char path[PATH_MAX], second[PATH_MAX];
    struct header h = { .call = call, .at = at };
    const struct named *n = find_named(call);
    if (result < 0) return;
    if (!n) {
        const bool data = call == SYS_write || call == SYS_pwrite64 || call == SYS_writev;
        h.first = (int32_t)path_of(path, a[0]);
        put_written(&h, path, a, data ? (size_t)result : 0);
        return;
    }
    h.first = (int32_t)full_path(path, n->folder < 0 ? AT_FDCWD : (int)a[n->folder], a[n->path]);
    if (n->path2 >= 0)
        h.second =
            (int32_t)full_path(second, n->folder2 < 0 ? AT_FDCWD : (int)a[n->folder2], a[n->path2]);
    h.flags = n->flags < 0 ? 0 : (int32_t)a[n->flags];
    if (call == SYS_creat) h.flags = O_CREAT | O_TRUNC;
    put(&h, sizeof h);
    put(path, (size_t)h.first);
    put(second, (size_t)h.second);
}
