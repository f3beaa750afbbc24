// SPDX-License-Identifier: MIT
// train_folder.c: locks the folder of a run, so that no other trainer writes to it, and appends
// lines to the log files.
//
// The lock is a kernel lock (fcntl), which ends with the process. The lock file contains the id of
// the process that has the lock. A kernel lock does not exclude a second run in the same process,
// so a list of the folders that this process has locked does.
#define _GNU_SOURCE
#include "task/train/train_internal.h"
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { HELD = 64 };
static pthread_mutex_t held_lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    uint64_t device, file;
    bool used;
} held[HELD]; // folders that this process has locked

// Adds a folder to the list of locked folders. Returns false if it is already in the list, or if
// the list is full.
static bool hold(const struct train_lock *l)
{
    int place = -1;
    pthread_mutex_lock(&held_lock);
    for (int i = 0; i < HELD; i++) {
        if (held[i].used && held[i].device == l->device && held[i].file == l->file) {
            place = -1;
            break;
        }
        if (!held[i].used && place < 0) place = i;
    }
    if (place >= 0) {
        held[place].device = l->device;
        held[place].file = l->file;
        held[place].used = true;
    }
    pthread_mutex_unlock(&held_lock);
    return place >= 0;
}

static void let_go(const struct train_lock *l)
{
    pthread_mutex_lock(&held_lock);
    for (int i = 0; i < HELD; i++)
        if (held[i].used && held[i].device == l->device && held[i].file == l->file)
            held[i].used = false;
    pthread_mutex_unlock(&held_lock);
}

bool train_folder_is_run(const char *run)
{
    char path[QKV_PATH];
    return !qkv_path_join(path, run, "run.json", NULL) && qkv_path_may_exist(path);
}

// Returns true for a temporary file of a trainer that was killed while writing. Such a file is
// called NAME.tmp.PID or NAME.tmp.PID.N, where NAME is a file of a run. Any other NAME may be a
// file of the user.
static bool is_temp(const char *name)
{
    static const char *const ours[] = { "run.json",     "labels.txt",    "index.json",
                                        "train.tokens", "train.offsets", "train.bytes",
                                        "train.labels", "valid.tokens",  "valid.offsets",
                                        "valid.bytes",  "valid.labels" };
    const char *p = strstr(name, ".tmp.");
    bool known = p && train_file_is_copied(name, (size_t)(p - name));
    for (size_t i = 0; p && i < sizeof ours / sizeof ours[0]; i++)
        known |= strlen(ours[i]) == (size_t)(p - name) && !strncmp(ours[i], name, strlen(ours[i]));
    if (!known) return false;
    p += strlen(".tmp.");
    const size_t digits = strspn(p, "0123456789");
    if (!digits || !p[digits]) return digits > 0;
    p += digits;
    return *p == '.' && p[1] && !p[1 + strspn(p + 1, "0123456789")];
}

static void tidy(const char *dir)
{
    char path[QKV_PATH];
    DIR *d = opendir(dir);
    for (const struct dirent *e; d && (e = readdir(d)) != NULL;)
        if (is_temp(e->d_name) && !qkv_path_join(path, dir, e->d_name, NULL)) qkv_disk_unlink(path);
    if (d) closedir(d);
}

void train_folder_tidy(const char *run)
{
    char data[QKV_PATH];
    tidy(run);
    if (!qkv_path_join(data, run, "data", NULL)) tidy(data);
    if (!qkv_path_join(data, run, TRAIN_DATA_NEW, NULL)) qkv_disk_remove_folder(data);
}

qkv_status train_folder_check(const char *run, bool resume, qkv_error *err)
{
    const struct qkv_location at = { .file = run };
    qkv_status status = QKV_OK;
    if (train_folder_is_run(run)) return QKV_OK;
    if (resume)
        return qkv_fail(
            err, QKV_ERR_USAGE, &at,
            "no run to resume in this folder, expected the folder of a run, found no run.json");
    DIR *d = opendir(run);
    if (!d && errno != ENOENT) return qkv_fail_errno(err, run, "cannot open", errno);
    for (const struct dirent *e; d && !status && (e = qkv_disk_entry(d, run, &status, err));)
        if (e->d_name[0] != '.' && strcmp(e->d_name, "lock") != 0 && !is_temp(e->d_name))
            status = qkv_fail(err, QKV_ERR_USAGE, &at,
                              "folder contains other files and no run, expected a new folder or "
                              "the folder of a run");
    if (d) closedir(d);
    return status;
}

void train_folder_clear(const char *run)
{
    static const char *const files[] = { "run.json", "log.jsonl", "probes.jsonl", "lock" };
    char path[QKV_PATH];
    if (!qkv_path_join(path, run, "data", NULL)) qkv_disk_remove_folder(path);
    for (size_t i = 0; i < sizeof files / sizeof files[0]; i++)
        if (!qkv_path_join(path, run, files[i], NULL)) qkv_disk_unlink(path);
    train_files_remove(run);
    qkv_disk_rmdir(run); // this removes the folder only if it is empty
}

static int64_t read_pid(int fd)
{
    char text[32] = "";
    int64_t pid = 0;
    if (pread(fd, text, sizeof text - 1, 0) <= 0) return 0;
    for (const char *p = text; *p >= '0' && *p <= '9' && pid < INT32_MAX; p++)
        pid = 10 * pid + (*p - '0');
    return pid;
}

static bool lock_file(int fd, int64_t *holder)
{
    struct flock f = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    if (fcntl(fd, F_SETLK, &f) == 0) return true;
    struct flock who = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
    *holder = 0;
    if (fcntl(fd, F_GETLK, &who) == 0 && who.l_type != F_UNLCK) *holder = who.l_pid;
    if (*holder <= 0) *holder = read_pid(fd);
    return false;
}

static qkv_status fail_held(const char *run, int64_t pid, qkv_error *err)
{
    return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = run },
                    "another trainer is running in this folder, expected no other trainer, found "
                    "process %" PRId64,
                    pid);
}

// Writes the process id to the lock file, for information only: the lock also holds if a full disk
// prevents this write. *stale becomes the process id that the file contained before: the id of a
// trainer that was killed; 0: none.
static void sign(struct train_lock *l, int64_t *stale)
{
    char text[32];
    const int64_t before = read_pid(l->fd);
    const int n = snprintf(text, sizeof text, "%ld\n", (long)getpid());
    *stale = before != (int64_t)getpid() ? before : 0;
    if (qkv_disk_truncate(l->fd, l->path, 0) == 0)
        (void)!qkv_disk_write(l->fd, l->path, text, (size_t)n);
}

qkv_status train_lock_take(struct train_lock *l, const char *run, int64_t *stale, qkv_error *err)
{
    struct stat st;
    int64_t holder = 0;
    memset(l, 0, sizeof *l);
    *stale = 0;
    qkv_status status = qkv_path_join(l->path, run, "lock", err);
    if (status) return status;
    if (qkv_disk_mkdir(run, 0777) != 0 && errno != EEXIST)
        return qkv_fail_errno(err, run, "cannot make", errno);
    // the name of a new run must survive a loss of power as its checkpoints do; errors are ignored,
    // because the folder above may be unreadable
    qkv_disk_sync_above(run);
    if (stat(run, &st) != 0) return qkv_fail_errno(err, run, "cannot open", errno);
    l->device = (uint64_t)st.st_dev;
    l->file = (uint64_t)st.st_ino;
    if (!hold(l)) return fail_held(run, (int64_t)getpid(), err);
    l->fd = qkv_disk_open(l->path, O_RDWR | O_CREAT | O_NOFOLLOW, 0666);
    if (l->fd < 0)
        status = qkv_fail_errno(err, l->path, "cannot create", errno);
    else if (!lock_file(l->fd, &holder))
        status = fail_held(run, holder, err);
    else
        sign(l, stale);
    if (!status) return QKV_OK;
    if (l->fd > 0) close(l->fd);
    let_go(l);
    l->fd = 0;
    return status;
}

void train_lock_leave(struct train_lock *l)
{
    if (l->fd <= 0) return;
    // do not delete the lock file: another trainer may have opened it and may wait for the lock
    (void)!qkv_disk_truncate(l->fd, l->path, 0);
    close(l->fd);
    let_go(l);
    l->fd = 0;
}

qkv_status train_copy(const char *from, const char *to, bool force, qkv_error *err)
{
    struct qkv_map m = { 0 };
    struct qkv_output out;
    qkv_status status = qkv_map_open(&m, from, false, err);
    if (status) return status;
    status = qkv_output_open(&out, to, force, err);
    if (!status) {
        status = qkv_output_write(&out, m.data, m.size, err);
        if (!status)
            status = qkv_output_commit(&out, err);
        else
            qkv_output_abort(&out);
    }
    qkv_map_close(&m);
    return status;
}

// ---- logs --------------------------------------------------------------------------------------
qkv_status train_log_open(struct train_log *l, const char *run, const char *name, int64_t bytes,
                          qkv_error *err)
{
    struct stat st;
    memset(l, 0, sizeof *l);
    qkv_status status = qkv_path_join(l->path, run, name, err);
    if (status) return status;
    const int how = O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_NONBLOCK | O_NOCTTY;
    l->fd = qkv_disk_open(l->path, how, 0666);
    if (l->fd < 0 || fstat(l->fd, &st) != 0 ||
        (st.st_size > bytes && qkv_disk_truncate(l->fd, l->path, bytes) != 0)) {
        status = qkv_fail_errno(err, l->path, "cannot write", errno);
        train_log_close(l);
        return status;
    }
    l->bytes = qkv_min64(st.st_size, bytes);
    if (S_ISREG(st.st_mode)) return QKV_OK;
    train_log_close(l);
    return qkv_fail(err, QKV_ERR_IO, &(struct qkv_location){ .file = l->path },
                    "cannot write, expected a regular file");
}

// Appends a line. If only a part of the line can be written, removes that part again.
static void put_line(struct train_log *l, const char *text, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        const ptrdiff_t n = qkv_disk_write(l->fd, l->path, text + done, bytes - done);
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (done == bytes) {
        l->bytes += (int64_t)bytes;
        return;
    }
    l->status = qkv_fail_errno(&l->err, l->path, "cannot write", errno ? errno : EIO);
    if (done && qkv_disk_truncate(l->fd, l->path, l->bytes) != 0) l->bytes += (int64_t)done;
}

void train_log_line(struct train_log *l, const json_t *line)
{
    json_free_t give_back;
    l->status = QKV_OK;
    memset(&l->err, 0, sizeof l->err);
    if (!l->fd) return; // rank 0 has the logs
    char *text = line ? json_dumps(line, JSON_COMPACT | JSON_REAL_PRECISION(9)) : NULL;
    const size_t n = text ? strlen(text) : 0;
    char *whole = text ? qkv_alloc(n + 1, 1) : NULL;
    if (whole) {
        memcpy(whole, text, n);
        whole[n] = '\n';
        put_line(l, whole, n + 1);
    } else {
        l->status = qkv_fail_memory(&l->err, l->path);
    }
    qkv_free(whole);
    json_get_alloc_funcs(NULL, &give_back);
    if (text) give_back(text);
}

qkv_status train_log_sync(struct train_log *l, qkv_error *err)
{
    if (l->fd > 0 && qkv_disk_sync(l->fd, l->path) != 0 && errno != EINVAL)
        return qkv_fail_errno(err, l->path, "cannot sync", errno);
    return QKV_OK;
}

void train_log_close(struct train_log *l)
{
    if (l->fd > 0) close(l->fd);
    l->fd = 0;
}
