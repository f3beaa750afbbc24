// SPDX-License-Identifier: MIT
// output.c: a file written whole or not at all: NAME.tmp.PID beside it, fsync, rename.
#define _GNU_SOURCE
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { BUFFER = 1 << 16 };

qkv_status qkv_output_open(struct qkv_output *o, const char *path, bool force, qkv_error *err)
{
    const int saved = errno;
    memset(o, 0, sizeof *o);
    o->fd = -1;
    if (!force && access(path, F_OK) == 0) {
        errno = saved;
        return qkv_fail(err, QKV_ERR_USAGE, &(struct qkv_place){ .file = path },
                        "exists already, expected a new name or leave to replace it");
    }
    const size_t n = strlen(path) + 32;
    o->path = qkv_copy_text(path, strlen(path));
    o->temp = qkv_alloc(n, 1);
    o->buffer = qkv_alloc(BUFFER, 1);
    if (!o->path || !o->temp || !o->buffer) {
        qkv_output_abort(o);
        return qkv_fail_memory(err, path);
    }
    snprintf(o->temp, n, "%s.tmp.%ld", path, (long)getpid());
    o->fd = open(o->temp, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (o->fd < 0) {
        const int code = errno;
        qkv_free(o->temp);
        o->temp = NULL; // nothing to remove
        qkv_output_abort(o);
        errno = saved;
        return qkv_fail_errno(err, path, "cannot create", code);
    }
    errno = saved;
    return QKV_OK;
}

static qkv_status put(struct qkv_output *o, const char *p, size_t bytes, qkv_error *err)
{
    while (bytes) {
        const ssize_t n = write(o->fd, p, bytes);
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) return qkv_fail_errno(err, o->path, "cannot write", errno);
        p += n;
        bytes -= (size_t)n;
        o->written += n;
    }
    return QKV_OK;
}

qkv_status qkv_output_write(struct qkv_output *o, const void *data, size_t bytes, qkv_error *err)
{
    const char *p = data;
    if (bytes >= BUFFER) { // large blocks go straight through, behind what waits
        const qkv_status s = put(o, o->buffer, o->used, err);
        if (s) return s;
        o->used = 0;
        return put(o, p, bytes, err);
    }
    while (bytes) {
        const size_t room = BUFFER - o->used, n = bytes < room ? bytes : room;
        memcpy(o->buffer + o->used, p, n);
        o->used += n;
        p += n;
        bytes -= n;
        if (o->used < BUFFER) continue;
        const qkv_status s = put(o, o->buffer, o->used, err);
        if (s) return s;
        o->used = 0;
    }
    return QKV_OK;
}

qkv_status qkv_output_commit(struct qkv_output *o, qkv_error *err)
{
    const int saved = errno;
    qkv_status s = put(o, o->buffer, o->used, err);
    if (!s && fsync(o->fd) != 0 && errno != EINVAL && errno != EROFS)
        s = qkv_fail_errno(err, o->path, "cannot write", errno);
    if (close(o->fd) != 0 && !s) s = qkv_fail_errno(err, o->path, "cannot close", errno);
    o->fd = -1;
    if (!s && rename(o->temp, o->path) != 0) s = qkv_fail_errno(err, o->path, "cannot rename into place", errno);
    if (!s) {
        qkv_free(o->temp);
        o->temp = NULL;
    }
    qkv_output_abort(o);
    if (!s) errno = saved;
    return s;
}

void qkv_output_abort(struct qkv_output *o)
{
    const int saved = errno;
    if (o->fd >= 0) close(o->fd);
    if (o->temp) unlink(o->temp);
    qkv_free(o->path);
    qkv_free(o->temp);
    qkv_free(o->buffer);
    memset(o, 0, sizeof *o);
    o->fd = -1;
    errno = saved;
}
