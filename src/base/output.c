// SPDX-License-Identifier: MIT
// output.c: writes a file completely or not at all: NAME.tmp.PID.N in the same folder, fsync,
// rename.  The temporary file is locked until then; an output first removes the unlocked ones that
// killed processes left of the same target.
//
// Pipes, terminals and devices cannot be replaced and are written directly, as are names of open
// descriptors (/dev/stdout, /dev/fd/3).
#define _GNU_SOURCE
#include "base/base_internal.h"
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { BUFFER = 1 << 16, TEMP_TRIES = 100 };

static qkv_status fail_exists(const char *path, qkv_error *err)
{
    return qkv_fail(
        err, QKV_ERR_USAGE, &(struct qkv_location){ .file = path },
        "file exists already, expected a new name or permission to replace it, found a file");
}

// Returns the descriptor that a path such as /dev/stdout or /dev/fd/N names, or -1 if path is not
// the name of a descriptor.
static int descriptor(const char *path)
{
    static const char *const names[] = { "/dev/stdin", "/dev/stdout", "/dev/stderr" };
    static const char *const folders[] = { "/dev/fd/", "/proc/self/fd/" };
    for (int i = 0; i < 3; i++)
        if (!strcmp(path, names[i])) return i;
    for (int i = 0; i < 2; i++) {
        const char *digits = path + strlen(folders[i]);
        if (strncmp(path, folders[i], strlen(folders[i])) != 0 || !*digits) continue;
        int n = 0;
        while (*digits >= '0' && *digits <= '9' && n < 1 << 20) n = 10 * n + (*digits++ - '0');
        if (!*digits) return n;
    }
    return -1;
}

// Checks whether path may be written, and copies its name and the name of its target to o.  Out:
// *mode, the permissions of the existing file, 0 if there is no such file; *direct, whether the
// target is written directly.
static qkv_status examine_target(struct qkv_output *o, const char *path, mode_t *mode, bool *direct,
                                 qkv_error *err)
{
    char real[PATH_MAX];
    const char *target = path;
    struct stat link, st;
    *mode = 0;
    *direct = false;
    if (lstat(path, &link) == 0) {
        const bool there = stat(path, &st) == 0; // false for a dangling link
        if (!there && !qkv_is_absent(errno) && errno != ELOOP)
            return qkv_fail_errno(err, path, "cannot create", errno);
        if (there && S_ISDIR(st.st_mode))
            return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = path },
                            "path is a directory, expected a file, found a directory");
        *direct = there && (!S_ISREG(st.st_mode) || descriptor(path) >= 0);
        if (!*direct && !o->force) return fail_exists(path, err);
        if (there && !*direct) {
            *mode = st.st_mode & 0777;
            if (S_ISLNK(link.st_mode)) { // replace the file to which the link points, not the link
                if (!realpath(path, real)) return qkv_fail_errno(err, path, "cannot create", errno);
                target = real;
            }
        }
    } else if (!qkv_is_absent(errno)) {
        return qkv_fail_errno(err, path, "cannot create", errno);
    }
    o->path = qkv_copy_text(path, strlen(path));
    o->target = qkv_copy_text(target, strlen(target));
    o->buffer = qkv_alloc(BUFFER, 1);
    return o->path && o->target && o->buffer ? QKV_OK : qkv_fail_memory(err, path);
}

// Makes a new file in the folder of the target; it never opens an existing file or follows a link.
static qkv_status open_temp(struct qkv_output *o, mode_t mode, qkv_error *err)
{
    const size_t n = strlen(o->target) + 48;
    char *temp = qkv_alloc(n, 1);
    int code = EEXIST;
    if (!temp) return qkv_fail_memory(err, o->path);
    qkv_temporaries_clear(o->target);
    for (int i = 0; i < TEMP_TRIES && o->fd < 0 && code == EEXIST; i++) {
        qkv_temporary_name(temp, n, o->target);
        o->slot = qkv_temporary_add(temp);
        o->fd = qkv_disk_open(temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW, 0666);
        code = errno;
        if (o->fd >= 0 && !qkv_temporary_own(o->fd)) {
            close(o->fd);
            o->fd = -1;
            code = EEXIST; // another name
        }
        if (o->fd < 0) qkv_temporary_drop(o->slot);
    }
    if (o->fd < 0) {
        qkv_free(temp);
        return qkv_fail_errno(err, o->path, "cannot create", code);
    }
    o->temp = temp;
    if (mode && fchmod(o->fd, mode) != 0)
        return qkv_fail_errno(err, o->path, "cannot set the permissions of the file", errno);
    return QKV_OK;
}

// Opens a pipe or device.  A FIFO without a reader is an error, and opening it does not block.
static qkv_status open_direct(struct qkv_output *o, qkv_error *err)
{
    // an open descriptor is duplicated, because reopening its file would write from the start
    const int n = descriptor(o->path);
    o->fd = n >= 0 ? fcntl(n, F_DUPFD_CLOEXEC, 0)
                   : open(o->path, O_WRONLY | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    if (o->fd >= 0 && n >= 0) return QKV_OK;
    if (o->fd < 0) return qkv_fail_errno(err, o->path, "cannot open", errno);
    const int flags = fcntl(o->fd, F_GETFL);
    if (flags < 0 || fcntl(o->fd, F_SETFL, flags & ~O_NONBLOCK) < 0)
        return qkv_fail_errno(err, o->path, "cannot open", errno);
    return QKV_OK;
}

qkv_status qkv_output_open(struct qkv_output *o, const char *path, bool force, qkv_error *err)
{
    const int saved = errno;
    mode_t mode;
    bool direct;
    memset(o, 0, sizeof *o);
    o->fd = o->slot = -1;
    o->force = force;
    qkv_status status = examine_target(o, path, &mode, &direct, err);
    if (!status) status = direct ? open_direct(o, err) : open_temp(o, mode, err);
    if (status) qkv_output_abort(o);
    errno = saved;
    return status;
}

// Reports that the system could not read the bytes at p, which were to be written: a part of
// a mapped file that was truncated meanwhile, or of another invalid address.
static qkv_status fail_source(const struct qkv_output *o, const char *p, qkv_error *err)
{
    const char *source = qkv_mapped_file(p);
    if (!source) return qkv_fail_errno(err, o->path, "cannot write", EFAULT);
    return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = source },
                    "the file was truncated while it was read");
}

static qkv_status write_all(struct qkv_output *o, const char *p, size_t bytes, qkv_error *err)
{
    while (bytes) {
        const ptrdiff_t n = qkv_disk_write(o->fd, o->path, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0 && errno == EFAULT) return fail_source(o, p, err);
        if (n <= 0) return qkv_fail_errno(err, o->path, "cannot write", n < 0 ? errno : EIO);
        p += n;
        bytes -= (size_t)n;
        o->written += n;
    }
    return QKV_OK;
}

static qkv_status flush(struct qkv_output *o, qkv_error *err)
{
    const qkv_status status = write_all(o, o->buffer, o->used, err);
    o->used = 0;
    return status;
}

qkv_status qkv_output_write(struct qkv_output *o, const void *data, size_t bytes, qkv_error *err)
{
    const int saved = errno;
    const char *p = data;
    qkv_status status = QKV_OK;
    if (bytes >= BUFFER) { // large blocks are written directly, after the buffered bytes
        status = flush(o, err);
        if (!status) status = write_all(o, p, bytes, err);
        bytes = 0;
    }
    while (bytes && !status) {
        const size_t space = BUFFER - o->used, n = bytes < space ? bytes : space;
        memcpy(o->buffer + o->used, p, n);
        o->used += n;
        p += n;
        bytes -= n;
        if (o->used == BUFFER) status = flush(o, err);
    }
    errno = saved;
    return status;
}

// Gives the temporary file its final name.  Without force, a file that another program made
// meanwhile is not replaced, because link() fails if the name exists; on a file system without
// links the file is renamed.
static qkv_status into_place(struct qkv_output *o, qkv_error *err)
{
    if (!o->force) {
        // The link gave the file a second name: qkv_output_abort removes the first one, temp.
        if (qkv_disk_link(o->temp, o->target) == 0) return QKV_OK;
        if (errno == EEXIST) return fail_exists(o->path, err);
    }
    if (qkv_disk_rename(o->temp, o->target) != 0)
        return qkv_fail_errno(err, o->path, "cannot rename the finished file into place", errno);
    qkv_temporary_drop(o->slot);
    qkv_free(o->temp);
    o->temp = NULL;
    return QKV_OK;
}

qkv_status qkv_output_commit(struct qkv_output *o, qkv_error *err)
{
    const int saved = errno;
    qkv_status status = flush(o, err);
    if (!status && o->temp && qkv_disk_sync(o->fd, o->path) != 0 && errno != EINVAL)
        status = qkv_fail_errno(err, o->path, "cannot write", errno);
    // this copy keeps the temporary file locked until it has its name
    const int lock = o->temp ? fcntl(o->fd, F_DUPFD_CLOEXEC, 0) : -1;
    if (close(o->fd) != 0 && errno != EINTR && !status)
        status = qkv_fail_errno(err, o->path, "cannot close", errno);
    o->fd = -1;
    if (!status && o->temp) {
        status = into_place(o, err);
        // Syncs the folder so that the new name survives a loss of power.  Errors are ignored,
        // because some file systems do not support it.
        if (!status) qkv_disk_sync_above(o->target);
    }
    qkv_output_abort(o);
    if (lock >= 0) close(lock);
    errno = saved;
    return status;
}

void qkv_output_abort(struct qkv_output *o)
{
    const int saved = errno;
    // o->path is NULL in a zeroed struct, whose descriptor 0 is not a file of o
    if (o->path && o->fd >= 0) close(o->fd);
    if (o->temp) {
        qkv_disk_unlink(o->temp);
        qkv_temporary_drop(o->slot);
    }
    qkv_free(o->path);
    qkv_free(o->target);
    qkv_free(o->temp);
    qkv_free(o->buffer);
    memset(o, 0, sizeof *o);
    o->fd = o->slot = -1;
    errno = saved;
}
