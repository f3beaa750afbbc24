// SPDX-License-Identifier: MIT
// folder.c: writes a folder completely or not at all.  Files are written into NAME.tmp.PID/ and
// synced; then that folder is synced and renamed to NAME, and the parent folder is synced.  If a
// folder NAME exists, it is first renamed to NAME.old.PID, and removed at the end.
#define _XOPEN_SOURCE 700 // realpath
#include "file/set.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { DEPTH = 16, TEMP_TRIES = 100 };

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

// Removes a folder and its contents; links are removed, not followed.  Returns false, with errno
// set, if it fails.
static bool remove_tree(const char *dir, int depth)
{
    char path[QKV_PATH];
    struct stat st;
    DIR *d = opendir(dir);
    if (!d) return errno == ENOENT;
    bool all = true;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) {
        if (is_dot(e->d_name)) continue;
        if (qkv_path_join(path, dir, e->d_name, NULL) || lstat(path, &st) != 0)
            all = false;
        else if (!S_ISDIR(st.st_mode))
            all = qkv_disk_unlink(path) == 0 && all;
        else
            all = depth < DEPTH && remove_tree(path, depth + 1) && all;
    }
    closedir(d);
    return all && qkv_disk_rmdir(dir) == 0;
}

// Checks that the folder at path may be replaced, because it is empty or a model folder.
static qkv_status may_replace(const char *path, bool force, qkv_error *err)
{
    const struct qkv_location at = { .file = path };
    char config[QKV_PATH];
    struct stat st;
    if (stat(path, &st) == 0 && !S_ISDIR(st.st_mode))
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "output exists already, expected the name of a new folder, found a file");
    if (!force)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "output exists already, expected a new name or permission to replace it, "
                        "found a folder");
    DIR *d = opendir(path);
    if (!d) return qkv_fail_errno(err, path, "cannot open", errno);
    bool empty = true;
    for (const struct dirent *e; (e = readdir(d)) != NULL;) empty = empty && is_dot(e->d_name);
    closedir(d);
    const qkv_status status = qkv_path_join(config, path, "config.json", err);
    if (status || empty || qkv_path_exists(config)) return status;
    return qkv_fail(
        err, QKV_ERR_USAGE, &at,
        "cannot replace this folder, expected a model folder with config.json, found other files");
}

// Removes trailing slashes from path and, if path exists, resolves its links.
static qkv_status settle(struct qkv_folder *f, const char *path, qkv_error *err)
{
    char real[PATH_MAX];
    size_t n = strlen(path);
    while (n > 1 && path[n - 1] == '/') n--;
    if (!n || n + 64 > sizeof f->path)
        return qkv_fail_errno(err, path, "cannot make", ENAMETOOLONG);
    memcpy(f->path, path, n);
    f->path[n] = 0;
    struct stat st;
    f->replaces = lstat(f->path, &st) == 0;
    if (!f->replaces) return QKV_OK;
    const qkv_status status = may_replace(f->path, f->force, err);
    if (status) return status;
    if (!realpath(f->path, real)) return qkv_fail_errno(err, path, "cannot replace", errno);
    if (strlen(real) + 64 > sizeof f->path)
        return qkv_fail_errno(err, path, "cannot replace", ENAMETOOLONG);
    memcpy(f->path, real, strlen(real) + 1);
    return QKV_OK;
}

qkv_status qkv_folder_begin(struct qkv_folder *f, const char *path, bool force, qkv_error *err)
{
    memset(f, 0, sizeof *f);
    f->force = force;
    const qkv_status status = settle(f, path, err);
    if (status) return status;
    for (int i = 0; i < TEMP_TRIES; i++) {
        const int n = snprintf(f->dir, sizeof f->dir, i ? "%s.tmp.%ld.%d" : "%s.tmp.%ld", f->path,
                               (long)getpid(), i);
        if (n < 0 || (size_t)n >= sizeof f->dir) break;
        if (qkv_disk_mkdir(f->dir) == 0) {
            f->open = true;
            return QKV_OK;
        }
        if (errno != EEXIST) break;
    }
    return qkv_fail_errno(err, f->path, "cannot make", errno);
}

void qkv_folder_abort(struct qkv_folder *f)
{
    const int saved = errno;
    if (f->open) remove_tree(f->dir, 0);
    f->open = false;
    errno = saved;
}

// ---- copies ------------------------------------------------------------------------------------
static qkv_status copy_file(const char *to, const char *from, qkv_error *err)
{
    struct qkv_map m = { 0 };
    struct qkv_output out = { .fd = -1 };
    qkv_status status = qkv_map_open(&m, from, false, err);
    if (status) return status;
    status = qkv_output_open(&out, to, false, err);
    if (!status && m.size) status = qkv_output_write(&out, m.data, m.size, err);
    if (!status) status = qkv_output_commit(&out, err);
    qkv_output_abort(&out);
    qkv_map_close(&m);
    return status;
}

struct copying {
    qkv_folder_wanted *wanted;
    int64_t *left_out;
    qkv_error *err;
};

static qkv_status copy_tree(const struct copying *c, const char *to, const char *from, int depth);

static qkv_status copy_entry(const struct copying *c, const char *to, const char *from,
                             const char *name, int depth)
{
    char source[QKV_PATH], target[QKV_PATH];
    struct stat st;
    qkv_status status = qkv_path_join(source, from, name, c->err);
    if (!status) status = qkv_path_join(target, to, name, c->err);
    if (status) return status;
    if (stat(source, &st) != 0) return qkv_fail_errno(c->err, source, "cannot open", errno);
    if (S_ISDIR(st.st_mode) && depth > 0) return copy_tree(c, target, source, depth - 1);
    if (qkv_path_exists(target)) return QKV_OK; // the run wrote it already
    if (!S_ISREG(st.st_mode) || !c->wanted(name, (int64_t)st.st_size)) {
        ++*c->left_out;
        return QKV_OK;
    }
    if (qkv_disk_mkdir(to) != 0 && errno != EEXIST)
        return qkv_fail_errno(c->err, to, "cannot make", errno);
    return copy_file(target, source, c->err);
}

static qkv_status copy_tree(const struct copying *c, const char *to, const char *from, int depth)
{
    DIR *d = opendir(from);
    qkv_status status = QKV_OK;
    if (!d) return qkv_fail_errno(c->err, from, "cannot open", errno);
    for (const struct dirent *e; !status && (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.') status = copy_entry(c, to, from, e->d_name, depth);
    closedir(d);
    if (!status && qkv_disk_sync_folder(to) != 0 && errno != ENOENT)
        status = qkv_fail_errno(c->err, to, "cannot sync", errno);
    return status;
}

qkv_status qkv_folder_copy(const struct qkv_folder *f, const char *from, qkv_folder_wanted *wanted,
                           int depth, int64_t *left_out, qkv_error *err)
{
    const struct copying c = { wanted, left_out, err };
    return copy_tree(&c, f->dir, from, depth);
}

// ---- into place --------------------------------------------------------------------------------
static qkv_status sync_above(const char *path, qkv_error *err)
{
    char above[QKV_PATH];
    const char *slash = strrchr(path, '/');
    const size_t n = slash == path ? 1 : slash ? (size_t)(slash - path) : 1;
    memcpy(above, slash ? path : ".", n);
    above[n] = 0;
    if (qkv_disk_sync_folder(above) == 0) return QKV_OK;
    return qkv_fail_errno(err, above, "cannot sync", errno);
}

static qkv_status into_place(const struct qkv_folder *f, qkv_error *err)
{
    char aside[QKV_PATH];
    const int n = snprintf(aside, sizeof aside, "%s.old.%ld", f->path, (long)getpid());
    if (n < 0 || (size_t)n >= sizeof aside)
        return qkv_fail_errno(err, f->path, "cannot rename the finished folder into place",
                              ENAMETOOLONG);
    if (f->replaces && qkv_disk_rename(f->path, aside) != 0)
        return qkv_fail_errno(err, f->path, "cannot rename", errno);
    if (qkv_disk_rename(f->dir, f->path) != 0) {
        const int why = errno;
        if (f->replaces) qkv_disk_rename(aside, f->path);
        return qkv_fail_errno(err, f->path, "cannot rename the finished folder into place", why);
    }
    qkv_status status = sync_above(f->path, err);
    if (!status && f->replaces && !remove_tree(aside, 0))
        status = qkv_fail_errno(err, aside, "cannot remove", errno);
    return status;
}

qkv_status qkv_folder_commit(struct qkv_folder *f, qkv_error *err)
{
    qkv_status status = QKV_OK;
    if (qkv_disk_sync_folder(f->dir) != 0)
        status = qkv_fail_errno(err, f->dir, "cannot sync", errno);
    if (!status) status = into_place(f, err);
    if (status) qkv_folder_abort(f); // no effect after the rename
    f->open = false;
    return status;
}
