// SPDX-License-Identifier: MIT
// pull_cache.c: writes the cache of the Hugging Face Hub as huggingface_hub does: folders, links,
// refs and locks.
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>
#include "frame/signals.h"
#include "pull/pull.h"

qkv_status pull_failed(qkv_error *err, const char *path, const char *what)
{
    return cmd_error(err, cmd_io_status(errno), path, "%s: %s", what, strerror(errno));
}

qkv_status cache_path(char out[CMD_PATH], qkv_error *err, const char *format, ...)
{
    va_list list;
    va_start(list, format);
    const int n = vsnprintf(out, CMD_PATH, format, list);
    va_end(list);
    if (n > 0 && n < CMD_PATH) return QKV_OK;
    return cmd_error(err, QKV_ERR_IO, NULL, "path is too long, expected at most %d bytes",
                     CMD_PATH - 1);
}

// Makes the names in a folder durable. A folder that may not be read is not synced.
static bool sync_folder(const char *folder)
{
    const int fd = open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    int rc;
    if (fd < 0) return errno == EACCES;
    while ((rc = fsync(fd)) != 0 && errno == EINTR) continue;
    const int code = errno;
    close(fd);
    errno = code;
    return rc == 0 || code == EINVAL; // EINVAL: this file system needs no sync
}

// Makes a folder and its name durable.
static bool make_one(const char *path)
{
    char above[CMD_PATH];
    const char *const slash = strrchr(path, '/');
    if (mkdir(path, 0777) != 0) return false;
    snprintf(above, sizeof above, "%.*s", slash ? (int)(slash - path) : 1, slash ? path : ".");
    (void)!sync_folder(*above ? above : "/"); // the folder exists all the same
    return true;
}

qkv_status cache_make_folder(const char *path, qkv_error *err)
{
    char part[CMD_PATH];
    if (make_one(path)) return QKV_OK;
    if (errno == ENOENT && cache_path(part, err, "%s", path) == QKV_OK) {
        for (char *p = part + 1; (p = strchr(p, '/')) != NULL; *p++ = '/') {
            *p = 0;
            if (!make_one(part) && errno != EEXIST) break;
        }
        if (make_one(path)) return QKV_OK;
    }
    struct stat st;
    if (errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) return QKV_OK;
    return pull_failed(err, path, "cannot make the folder");
}

qkv_status cache_make_above(const char *path, qkv_error *err)
{
    char above[CMD_PATH];
    const char *const slash = strrchr(path, '/');
    if (!slash || slash == path) return QKV_OK;
    if (cache_path(above, err, "%.*s", (int)(slash - path), path)) return err->status;
    return cache_make_folder(above, err);
}

qkv_status cache_write(const char *path, const char *text, qkv_error *err)
{
    struct cmd_file out = { 0 };
    qkv_status status = cache_make_above(path, err);
    if (!status) status = cmd_file_open(&out, path, err);
    if (status) return status;
    fputs(text, out.to);
    status = cmd_file_commit(&out, err);
    cmd_file_abort(&out);
    return status;
}

qkv_status cache_link(const struct pull_model *m, const char *path, const char *blob,
                      qkv_error *err)
{
    char link[CMD_PATH], temp[CMD_PATH], target[CMD_PATH], old[CMD_PATH], up[CMD_PATH] = "";
    const char *const slash = strrchr(path, '/');
    for (const char *p = path; (p = strchr(p, '/')) != NULL; p++)
        snprintf(up + strlen(up), sizeof up - strlen(up), "../");
    if (cache_path(link, err, "%s/snapshots/%s/%s", m->folder, m->commit, path) ||
        cache_path(target, err, "%s../../blobs/%s", up, blob) ||
        cache_path(temp, err, "%s/snapshots/%s/%.*s.%s.incomplete", m->folder, m->commit,
                   slash ? (int)(slash + 1 - path) : 0, path, blob) ||
        cache_make_above(link, err))
        return err->status;
    const ssize_t n = readlink(link, old, sizeof old - 1);
    if (n == (ssize_t)strlen(target) && !memcmp(old, target, (size_t)n)) return QKV_OK;
    // A new link replaces an old one at once: no reader finds the name missing.  The caller has the
    // lock of the blob, so that a link of this name is what a killed process left.
    (void)unlink(temp);
    if (symlink(target, temp) != 0) return pull_failed(err, link, "cannot make the link");
    if (rename(temp, link) == 0) return QKV_OK;
    pull_failed(err, link, "cannot make the link");
    (void)unlink(temp);
    return err->status;
}

bool cache_has(const struct pull_model *m, const struct pull_file *f)
{
    char path[CMD_PATH];
    struct stat st;
    qkv_error ignored = { 0 };
    return !cache_path(path, &ignored, "%s/snapshots/%s/%s", m->folder, m->commit, f->path) &&
           stat(path, &st) == 0 && S_ISREG(st.st_mode) && st.st_size == f->size;
}

qkv_status cache_sync(const struct pull_model *m, const char *path, qkv_error *err)
{
    char folder[CMD_PATH];
    const size_t top = strlen(m->folder);
    if (cache_path(folder, err, "%s/%s", m->folder, path)) return err->status;
    for (char *slash; (slash = strrchr(folder, '/')) >= folder + top;) {
        *slash = 0;
        if (!sync_folder(folder)) return pull_failed(err, folder, "cannot sync");
    }
    return QKV_OK;
}

qkv_status cache_set_commit(const struct pull_model *m, qkv_error *err)
{
    char path[CMD_PATH], old[QKV_HUB_COMMIT];
    qkv_error ignored = { 0 };
    if (!strcmp(m->name.revision, m->commit)) return QKV_OK;
    if (!qkv_hub_commit(old, &m->name, &ignored) && !strcmp(old, m->commit)) return QKV_OK;
    if (cache_path(path, err, "%s/refs/%s", m->folder, m->name.revision)) return err->status;
    return cache_write(path, m->commit, err);
}

qkv_status cache_lock(int *lock, const char *path, qkv_error *err)
{
    bool waits = false;
    *lock = -1;
    if (cache_make_above(path, err)) return err->status;
    for (;;) {
        const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0664);
        struct stat mine, named;
        if (fd < 0) return pull_failed(err, path, "cannot open the lock");
        while (flock(fd, LOCK_EX | LOCK_NB) != 0) {
            if (errno != EWOULDBLOCK && errno != EINTR) {
                pull_failed(err, path, "cannot lock");
                close(fd);
                return err->status;
            }
            if (!waits) cmd_note("another process downloads this file: waiting for it");
            waits = true;
            if (cmd_interrupted()) {
                close(fd);
                return cmd_error(err, QKV_ERR_INTERRUPTED, NULL, "interrupted");
            }
            nanosleep(&(struct timespec){ 0, 50000000 }, NULL);
        }
        // The process that held the lock may have removed the file: then no file has the name, or
        // another one, and the lock is taken again.
        const bool known = fstat(fd, &mine) == 0 && stat(path, &named) == 0;
        if (known && mine.st_ino == named.st_ino) {
            *lock = fd;
            return QKV_OK;
        }
        if (!known && errno != ENOENT) pull_failed(err, path, "cannot examine the lock");
        close(fd);
        if (err->status) return err->status;
    }
}

void cache_unlock(int lock)
{
    if (lock >= 0) close(lock);
}

qkv_status cache_space(const char *folder, int64_t bytes, qkv_error *err)
{
    struct statvfs fs;
    if (statvfs(folder, &fs) != 0) return QKV_OK; // unknown: a full disk is found when writing
    const uint64_t unit = fs.f_frsize ? fs.f_frsize : fs.f_bsize;
    const uint64_t need = (uint64_t)bytes / (unit ? unit : 1);
    if (!unit || fs.f_bavail >= need) return QKV_OK;
    return cmd_error(err, QKV_ERR_IO, folder,
                     "too little space, expected %lld free bytes, found %llu", (long long)bytes,
                     (unsigned long long)(fs.f_bavail * unit));
}
