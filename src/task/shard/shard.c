// SPDX-License-Identifier: MIT
// shard.c: splits the lines of a file into shards, and finds the lines of a shard in one pass.
#include "base/base.h"
#include <errno.h>
#include <fcntl.h>
#include <qkv/shard.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

// BLOCK: bytes of a read; MARKS: lines whose offsets are stored, so that the memory does not depend
// on the number of lines.
enum { BLOCK = 1 << 18, MARKS = 1 << 12 };

static bool is_shard(const struct qkv_shard *s)
{
    return s && s->count >= 1 && s->count <= QKV_SHARD_COUNT_MAX && s->index >= 0 &&
           s->index < s->count;
}

qkv_status qkv_shard_range(int64_t *first, int64_t *rows, const struct qkv_shard *s, int64_t total)
{
    if (!first || !rows || !is_shard(s) || total < 0) return QKV_ERR_USAGE;
    const int64_t each = total / s->count, more = total % s->count;
    *first = each * s->index + qkv_min64(s->index, more);
    *rows = each + (s->index < more);
    return QKV_OK;
}

// A scan of a file.
struct scan {
    int fd;
    const char *path;
    char *block;     // [BLOCK]
    int64_t *offset; // [MARKS] the bytes at which the lines 0, step, 2 step, ... begin
    int64_t marks, step;
    struct qkv_sha256 sum;
};

// Stores that line `number` begins at byte `at`.
static void add_mark(struct scan *s, int64_t number, int64_t at)
{
    if (number % s->step) return;
    if (s->marks == MARKS) { // twice the step: every second mark stays
        for (int i = 0; i < MARKS / 2; i++) s->offset[i] = s->offset[2 * i];
        s->marks /= 2;
        s->step *= 2;
        if (number % s->step) return;
    }
    s->offset[s->marks++] = at;
}

// Reads at most BLOCK bytes at an offset; *bytes is 0 at the end of the file.
static qkv_status read_block(struct scan *s, int64_t at, ptrdiff_t *bytes, qkv_error *err)
{
    do *bytes = pread(s->fd, s->block, BLOCK, at);
    while (*bytes < 0 && errno == EINTR);
    return *bytes < 0 ? qkv_fail_errno(err, s->path, "cannot read", errno) : QKV_OK;
}

// Counts the lines of the file and computes its sum.
static qkv_status count_lines(struct scan *s, struct qkv_shard_input *out, int64_t size,
                              const struct qkv_progress *progress, qkv_error *err)
{
    bool begins = true; // the next byte begins a line
    for (ptrdiff_t n;;) {
        if (progress && progress->step && progress->step(progress->user, "scan", out->bytes, size))
            return qkv_fail(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
        const qkv_status status = read_block(s, out->bytes, &n, err);
        if (status || !n) return status;
        qkv_sha256_add(&s->sum, s->block, (size_t)n);
        for (const char *p = s->block, *end = p + n; p < end;) {
            if (begins) add_mark(s, out->lines++, out->bytes + (p - s->block));
            const char *line_end = memchr(p, '\n', (size_t)(end - p));
            begins = line_end != NULL;
            p = line_end ? line_end + 1 : end;
        }
        out->bytes += n;
    }
}

// Finds the byte at which line out->first begins, from the nearest mark before it.
static qkv_status find_first(struct scan *s, struct qkv_shard_input *out, qkv_error *err)
{
    if (out->first >= out->lines) {
        out->offset = out->bytes;
        return QKV_OK;
    }
    int64_t left = out->first % s->step, at = s->offset[out->first / s->step];
    for (ptrdiff_t n; left > 0; at += n) {
        const qkv_status status = read_block(s, at, &n, err);
        if (status) return status;
        if (!n)
            return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = s->path },
                            "the file was truncated while it was read");
        for (const char *p = s->block; left > 0 && p < s->block + n; p++)
            if (*p == '\n' && --left == 0) n = p + 1 - s->block;
    }
    out->offset = at;
    return QKV_OK;
}

static qkv_status scan_file(struct scan *s, struct qkv_shard_input *out,
                            const struct qkv_shard *shard, const struct qkv_progress *progress,
                            qkv_error *err)
{
    struct stat st;
    s->fd = open(s->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (s->fd < 0) return qkv_fail_errno(err, s->path, "cannot open", errno);
    if (fstat(s->fd, &st) != 0) return qkv_fail_errno(err, s->path, "cannot stat", errno);
    if (!S_ISREG(st.st_mode))
        return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = s->path },
                        "the input of a shard is read twice, expected a regular file, found a %s",
                        S_ISDIR(st.st_mode) ? "directory" : "pipe or a device");
    s->block = qkv_alloc(BLOCK, 1);
    s->offset = qkv_alloc(MARKS, sizeof *s->offset);
    if (!s->block || !s->offset) return qkv_fail_memory(err, s->path);
    qkv_sha256_begin(&s->sum);
    qkv_status status = count_lines(s, out, st.st_size, progress, err);
    qkv_sha256_end(&s->sum, out->sha256);
    if (!status) status = qkv_shard_range(&out->first, &out->rows, shard, out->lines);
    return status ? status : find_first(s, out, err);
}

qkv_status qkv_shard_scan(struct qkv_shard_input *out, const struct qkv_shard *s, const char *path,
                          const struct qkv_progress *progress, qkv_error *err)
{
    if (!out || !path || !is_shard(s))
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_shard_scan: expected an input, a path and a shard, found NULL or an "
                        "index that is not below the number of shards");
    const int saved = errno;
    struct scan scan = { .fd = -1, .path = path, .step = 1 };
    memset(out, 0, sizeof *out);
    const qkv_status status = scan_file(&scan, out, s, progress, err);
    if (scan.fd >= 0) close(scan.fd);
    qkv_free(scan.block);
    qkv_free(scan.offset);
    errno = saved;
    return status;
}
