// SPDX-License-Identifier: MIT
// fixtures.h: makes files for one case in a temporary folder that is removed afterwards.
#ifndef QKV_FIXTURES_H
#define QKV_FIXTURES_H
#include "check.h"
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <qkv/tensor.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

static char fixture_dir[256];

static inline int fixture_remove_one(const char *path, const struct stat *st, int kind,
                                     struct FTW *ftw)
{
    (void)st;
    (void)kind;
    (void)ftw;
    return remove(path);
}
static inline void fixture_clean(void)
{
    if (fixture_dir[0]) nftw(fixture_dir, fixture_remove_one, 16, FTW_DEPTH | FTW_PHYS);
}
// The path of a name in the folder; four of them live at once.
static inline const char *fixture(const char *name)
{
    static char paths[4][1024];
    static int next;
    if (!fixture_dir[0]) {
        const char *base = getenv("TMPDIR");
        snprintf(fixture_dir, sizeof fixture_dir, "%s/qkv-test-XXXXXX", base ? base : "/tmp");
        if (!mkdtemp(fixture_dir)) fail_msg("no folder for fixtures");
        atexit(fixture_clean);
    }
    char *p = paths[next++ % 4];
    snprintf(p, sizeof paths[0], "%s/%s", fixture_dir, name);
    return p;
}
static inline const char *fixture_file(const char *name, const void *data, size_t bytes)
{
    const char *path = fixture(name);
    unlink(path);
    const int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0644);
    if (fd < 0) fail_msg("cannot create %s", path);
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(fd, (const char *)data + done, bytes - done);
        if (n <= 0) fail_msg("cannot write %s", path);
        done += (size_t)n;
    }
    close(fd);
    return path;
}
// A .safetensors of this header, followed by `data` bytes 1, 2, 3...
static inline const char *fixture_safetensors(const char *name, const char *header,
                                              size_t header_bytes, size_t data)
{
    uint8_t *all = malloc(8 + header_bytes + data);
    if (!all) fail_msg("no memory");
    for (int i = 0; i < 8; i++) all[i] = (uint8_t)((uint64_t)header_bytes >> 8 * i);
    memcpy(all + 8, header, header_bytes);
    for (size_t i = 0; i < data; i++) all[8 + header_bytes + i] = (uint8_t)(i + 1);
    const char *path = fixture_file(name, all, 8 + header_bytes + data);
    free(all);
    return path;
}

// Reads every byte of every tensor: a sanitizer detects invalid ones.
static inline uint64_t fixture_walk(const qkv_tensors *t)
{
    uint64_t sum = 0;
    for (int64_t i = 0; i < qkv_tensors_count(t); i++) {
        const struct qkv_tensor *x = qkv_tensors_at(t, i);
        const uint8_t *p = x->data;
        for (size_t k = 0; k < x->bytes; k++) sum = sum * 31 + p[k];
        if (qkv_tensors_find(t, x->name) != x)
            fail_msg("tensor %s is not found by its name", x->name);
        if ((uint64_t)qkv_tensor_count(x) * qkv_dtype_size(x->dtype) != x->bytes)
            fail_msg("tensor %s: shape and bytes differ", x->name);
    }
    return sum;
}

// Opens the file mapped and read; both must return status, location and text.  text NULL: not
// compared.  offset < 0: no offset.  errno must not change.
static inline void fixture_refused(const char *path, qkv_status status, int64_t offset,
                                   const char *place, const char *text)
{
    for (int no_mmap = 0; no_mmap < 2; no_mmap++) {
        const struct qkv_tensors_options how = { .no_mmap = no_mmap != 0 };
        qkv_tensors *t = NULL;
        qkv_error err = { 0 };
        const qkv_status s = qkv_tensors_open(&t, path, &how, &err);
        qkv_tensors_close(t);
        if (s != status || err.status != status || (s == QKV_OK) != (t != NULL))
            fail_msg("%s: status %s (%s), expected %s", path, qkv_status_name(s), err.text,
                     qkv_status_name(status));
        if (err.has_offset != (offset >= 0) || (offset >= 0 && err.offset != offset))
            fail_msg("%s: at byte %lld, expected %lld (%s)", path,
                     err.has_offset ? (long long)err.offset : -1LL, (long long)offset, err.text);
        if (strcmp(err.path, place) != 0)
            fail_msg("%s: at '%s', expected '%s' (%s)", path, err.path, place, err.text);
        if (text && strcmp(err.text, text) != 0)
            fail_msg("%s: says\n  %s\nexpected\n  %s", path, err.text, text);
        if (status == QKV_ERR_FORMAT &&
            (!strstr(err.text, ", expected ") || !strstr(err.text, ", found ")))
            fail_msg("%s: no WHAT, expected X, found Y: %s", path, err.text);
    }
}
static inline qkv_tensors *fixture_open(const char *path, bool no_mmap)
{
    const struct qkv_tensors_options how = { .no_mmap = no_mmap };
    qkv_tensors *t = NULL;
    qkv_error err = { 0 };
    errno = 4242;
    if (qkv_tensors_open(&t, path, &how, &err) != QKV_OK) fail_msg("%s: %s", path, err.text);
    if (errno != 4242) fail_msg("%s: errno changed to %d on success", path, errno);
    return t;
}
#endif
