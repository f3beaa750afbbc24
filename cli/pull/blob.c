// SPDX-License-Identifier: MIT
// blob.c: downloads one file: continues what an earlier call left, checks size and digest, and
// gives the file its name only then.
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "pull/pull.h"

enum { BUFFER = 1 << 16, BROKEN_MOST = 1000 };

// A file while it arrives.
struct arriving {
    const struct blob_request *request;
    struct pull_progress *progress;
    char path[CMD_PATH]; // of the incomplete file
    int fd;
    int64_t bytes;   // in the file, and in the digest
    int64_t reached; // most bytes before the current request
    bool fresh;      // the current response has begun
    struct qkv_digest digest;
};

static void show(void *context)
{
    const struct arriving *const a = context;
    const struct pull_progress *const p = a->progress;
    char line[400], left[40] = "";
    if (!cmd_progress_due()) return;
    const double seconds = cmd_seconds() - p->start, done = (double)(p->done + a->bytes),
                 rate = seconds > 0 ? (double)p->received / seconds : 0;
    if (rate > 0 && p->total > 0) {
        char time[32];
        const double rest = (double)p->total - done;
        cmd_duration(time, sizeof time, rest > 0 ? rest / rate : 0);
        snprintf(left, sizeof left, ", %s left", time);
    }
    snprintf(line, sizeof line, "%s: %.1f of %.1f MB, %.1f MB/s%s", p->name, done / 1e6,
             (double)p->total / 1e6, rate / 1e6, left);
    cmd_progress_line(line);
}

// Begins the digest: Git's has the size of the file before its contents.
static void begin_digest(struct qkv_digest *d, const struct blob_request *b)
{
    char head[40];
    const bool git = strlen(b->digest) == 40;
    qkv_digest_begin(d, git ? QKV_DIGEST_SHA1 : QKV_DIGEST_SHA256);
    if (!git) return;
    const int n = snprintf(head, sizeof head, "blob %lld", (long long)b->size);
    qkv_digest_add(d, head, (size_t)n + 1);
}

// Adds the bytes of a file to the digest, and their number to *bytes.
static qkv_status digest_file(struct qkv_digest *d, int64_t *bytes, int fd, const char *path,
                              qkv_error *err)
{
    char *const buffer = cmd_alloc(BUFFER, 1);
    ssize_t n = 1;
    while (!cmd_interrupted() && (n = read(fd, buffer, BUFFER)) > 0) {
        qkv_digest_add(d, buffer, (size_t)n);
        *bytes += n;
    }
    if (n < 0)
        pull_failed(err, path, "cannot read");
    else if (n > 0)
        cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
    free(buffer);
    return err->status;
}

bool blob_has(const struct blob_request *b, qkv_error *err)
{
    struct qkv_digest d;
    struct stat st;
    char hex[QKV_DIGEST_TEXT];
    int64_t bytes = 0;
    if (stat(b->path, &st) != 0 || !S_ISREG(st.st_mode) || st.st_size != b->size) return false;
    const int fd = open(b->path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
    if (fd < 0) return false;
    begin_digest(&d, b);
    const qkv_status status = digest_file(&d, &bytes, fd, b->path, err);
    close(fd);
    if (status) return false;
    qkv_digest_end(&d, hex);
    if (bytes == b->size && !strcmp(hex, b->digest)) return true;
    cmd_note("%s: the file of an earlier download has other contents; downloading it again",
             b->name);
    return false;
}

// Empties the incomplete file.
static qkv_status restart(struct arriving *a, qkv_error *err)
{
    a->bytes = 0;
    begin_digest(&a->digest, a->request);
    if (ftruncate(a->fd, 0) == 0 && lseek(a->fd, 0, SEEK_SET) == 0) return QKV_OK;
    return pull_failed(err, a->path, "cannot write");
}

// Opens the incomplete file and computes the digest of the bytes that it has.
static qkv_status resume(struct arriving *a, qkv_error *err)
{
    struct stat st;
    a->fd = open(a->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    if (a->fd < 0 || fstat(a->fd, &st) != 0) {
        pull_failed(err, a->path, "cannot open");
    } else if (!S_ISREG(st.st_mode)) {
        cmd_error(err, QKV_ERR_IO, a->path, "expected a file");
    } else {
        begin_digest(&a->digest, a->request);
        if (!digest_file(&a->digest, &a->bytes, a->fd, a->path, err) && a->request->size >= 0 &&
            a->bytes > a->request->size)
            (void)restart(a, err);
    }
    return err->status;
}

// Returns true if "bytes FROM-TO/SIZE" begins at `from` and has the size that is expected.
static bool right_range(const char *range, int64_t from, int64_t size)
{
    char first[24], last[24], whole[24];
    int64_t a, b;
    if (sscanf(range, "bytes %20[0-9]-%20[0-9]/%20[0-9*]", first, last, whole) != 3) return false;
    if (!cmd_parse_int(first, &a) || a != from) return false;
    return !strcmp(whole, "*") || size < 0 || (cmd_parse_int(whole, &b) && b == size);
}

static bool add(void *context, const struct http_headers *h, long status, const void *data,
                size_t bytes, qkv_error *err)
{
    struct arriving *const a = context;
    const struct blob_request *const b = a->request;
    const int64_t most = b->size >= 0 ? b->size : b->most;
    if (a->fresh) {
        a->fresh = false;
        if (status == 200 && a->bytes && restart(a, err)) return false; // the range was ignored
        if (status == 206 && !right_range(h->range, a->bytes, b->size)) {
            cmd_error(err, QKV_ERR_FORMAT, NULL, "%s: the server sent another range than was asked",
                      b->name);
            return false;
        }
    }
    if ((int64_t)bytes > most - a->bytes) {
        cmd_error(err, b->size >= 0 ? QKV_ERR_FORMAT : QKV_ERR_LIMIT, NULL,
                  "%s: the server sends more than %lld bytes", b->name, (long long)most);
        return false;
    }
    for (size_t done = 0; done < bytes;) {
        const ssize_t n = write(a->fd, (const char *)data + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) {
            pull_failed(err, a->path, "cannot write");
            return false;
        }
        done += (size_t)n;
    }
    qkv_digest_add(&a->digest, data, bytes);
    a->bytes += (int64_t)bytes;
    a->progress->received += (int64_t)bytes;
    show(a);
    return true;
}

// Judges a response that is not broken but brought too few bytes: r->broken, if another request
// may bring the others.
static qkv_status too_few(struct arriving *a, struct http_result *r, bool *restarted,
                          qkv_error *err)
{
    const struct blob_request *const b = a->request;
    const bool past_end = r->status == 416 && a->bytes > 0;
    if (past_end && !*restarted) { // what is there does not fit the file
        *restarted = true;
        a->reached = 0;
        r->broken = true;
        snprintf(r->text, sizeof r->text, "the server has fewer bytes than are there");
        return restart(a, err);
    }
    if (r->status != 200 && r->status != 206 && !past_end)
        return http_may_retry(r) ? QKV_OK : http_failed(r, b->name, err);
    if (r->status != 206) // the whole file
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "%s: the server's file ends after %lld bytes, expected %lld", b->name,
                         (long long)a->bytes, (long long)b->size);
    r->broken = true;
    snprintf(r->text, sizeof r->text, "it ends after %lld of %lld bytes", (long long)a->bytes,
             (long long)b->size);
    return QKV_OK;
}

// Requests the missing bytes until all have arrived.
static qkv_status receive(struct http *h, struct arriving *a, qkv_error *err)
{
    const struct blob_request *const b = a->request;
    struct http_result r;
    bool restarted = false;
    a->reached = a->bytes;
    for (int attempt = 1, broken = 0; b->size < 0 || a->bytes < b->size || !b->size;) {
        const struct http_call call = {
            .address = b->address, .range_from = a->bytes, .body = add, .shows = show, .context = a
        };
        a->fresh = true;
        if (http_call(h, &call, &r, err)) return err->status;
        if (!r.broken && (r.status == 200 || r.status == 206) &&
            (b->size < 0 || a->bytes == b->size))
            break;
        if (!r.broken && too_few(a, &r, &restarted, err)) return err->status;
        // a connection that breaks again and again but brings bytes is no failed attempt
        const bool progress = a->bytes > a->reached && ++broken < BROKEN_MOST;
        attempt = progress ? 1 : attempt + 1;
        if (progress) a->reached = a->bytes;
        if (attempt > HTTP_ATTEMPTS) return http_failed(&r, b->name, err);
        if (http_wait(&r, attempt, err)) return err->status;
    }
    return QKV_OK;
}

// Checks the digest and gives the file its name.
static qkv_status complete(struct arriving *a, qkv_error *err)
{
    const struct blob_request *const b = a->request;
    char hex[QKV_DIGEST_TEXT];
    struct qkv_digest copy = a->digest;
    qkv_digest_end(&copy, hex);
    if (strcmp(hex, b->digest) != 0) {
        (void)unlink(a->path);
        return cmd_error(err, QKV_ERR_FORMAT, NULL,
                         "%s: %s differs, expected %s, found %s; the file was removed", b->name,
                         strlen(b->digest) == 40 ? "SHA-1 of Git" : "SHA-256", b->digest, hex);
    }
    if (fsync(a->fd) != 0) return pull_failed(err, a->path, "cannot write");
    if (rename(a->path, b->path) != 0) return pull_failed(err, b->path, "cannot rename");
    return QKV_OK;
}

qkv_status blob_fetch(struct http *h, const struct blob_request *b, struct pull_progress *p,
                      qkv_error *err)
{
    struct arriving a = { .request = b, .progress = p, .fd = -1 };
    p->name = b->name;
    if (b->size > b->most)
        return cmd_error(err, QKV_ERR_LIMIT, NULL, "%s has %lld bytes, expected at most %lld",
                         b->name, (long long)b->size, (long long)b->most);
    if (cache_path(a.path, err, "%s.incomplete", b->path)) return err->status;
    if (!resume(&a, err)) {
        const bool resumed = a.bytes > 0;
        const int64_t before = a.bytes;
        if (!receive(h, &a, err) && complete(&a, err) == QKV_ERR_FORMAT && resumed) {
            // What an earlier call left may be broken: once more from the start.
            cmd_note("%s: the %lld bytes of an earlier download do not fit; downloading it again",
                     b->name, (long long)before);
            memset(err, 0, sizeof *err);
            close(a.fd);
            a.bytes = 0;
            if (!resume(&a, err) && !receive(h, &a, err)) (void)complete(&a, err);
        }
        p->done += a.bytes;
    }
    if (a.fd >= 0) close(a.fd);
    if (err->status == QKV_ERR_INTERRUPTED)
        cmd_note("%s: %lld bytes are kept; the same command continues there", b->name,
                 (long long)a.bytes);
    return err->status;
}
