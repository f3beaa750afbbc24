// SPDX-License-Identifier: MIT
// folder.c: writes a folder completely or not at all.  Files are written into NAME.tmp.PID.N/ and
// synced; then that folder is synced and renamed to NAME, and the parent folder is synced.  If a
// folder NAME exists, the two exchange their names, and the old one is removed.  Where the system
// cannot exchange names, the old folder is first renamed to NAME.old.PID.N; if the process ends
// before the next rename, the next conversion to NAME gives the folder its name back.
#define _GNU_SOURCE // realpath, flock
#include "file/set.h"
#include <dirent.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool is_dot(const char *name)
{
    return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
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
    DIR *d = opendir(path);
    if (!d) return qkv_fail_errno(err, path, "cannot open", errno);
    bool empty = true, there = false;
    qkv_status status = QKV_OK;
    for (const struct dirent *e; (e = qkv_disk_entry(d, path, &status, err));)
        empty = empty && is_dot(e->d_name);
    closedir(d);
    if (status || empty) return status;
    if (!force)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "output exists already, expected a new name or permission to replace it, "
                        "found a folder");
    status = qkv_path_join(config, path, "config.json", err);
    if (!status) status = qkv_path_find(&there, config, err);
    if (status || there) return status;
    return qkv_fail(
        err, QKV_ERR_USAGE, &at,
        "cannot replace this folder, expected a model folder with config.json, found other files");
}

// Gives an old folder its name back, if a process was killed between its two renames; otherwise
// removes it.
static void give_back(const char *old, const char *path)
{
    if (qkv_path_exists(path) || qkv_disk_rename(old, path) != 0) qkv_disk_remove_tree(old);
}

static void recover(const char *path)
{
    qkv_temporaries_find(path, ".old.", give_back);
    qkv_temporaries_clear(path);
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
    recover(f->path);
    f->replaces = lstat(f->path, &st) == 0;
    if (!f->replaces) return QKV_OK;
    const qkv_status status = may_replace(f->path, f->force, err);
    if (status) return status;
    if (!realpath(f->path, real)) return qkv_fail_errno(err, path, "cannot replace", errno);
    if (strlen(real) + 64 > sizeof f->path)
        return qkv_fail_errno(err, path, "cannot replace", ENAMETOOLONG);
    memcpy(f->path, real, strlen(real) + 1);
    recover(f->path); // if path is a link
    return QKV_OK;
}

// ---- begin and abort ---------------------------------------------------------------------------
qkv_status qkv_folder_begin(struct qkv_folder *f, const char *path, bool force, qkv_error *err)
{
    memset(f, 0, sizeof *f);
    f->force = force;
    f->lock = f->slot = -1;
    const qkv_status status = settle(f, path, err);
    if (status) return status;
    f->open = qkv_temporary_folder(f->dir, &f->slot, &f->lock, f->path, 0777);
    return f->open ? QKV_OK : qkv_fail_errno(err, f->path, "cannot make", errno);
}

static void let_go(struct qkv_folder *f)
{
    if (f->lock >= 0) close(f->lock);
    if (f->open) qkv_temporary_drop(f->slot);
    f->open = false;
    f->lock = f->slot = -1;
}

// Replaces the temporary folder by its final path in the name of the file that an error is about; a
// name that is cut becomes the final path.
static void name_final(const struct qkv_folder *f, qkv_error *err)
{
    char below[sizeof err->file] = "";
    const size_t have = strlen(err->file), n = strlen(f->dir), end = sizeof "..." - 1;
    const bool cut = have + 8 > sizeof err->file && strcmp(err->file + have - end, "...") == 0;
    if (strncmp(err->file, f->dir, cut && have - end < n ? have - end : n) != 0) return;
    if (!cut) snprintf(below, sizeof below, "%s", err->file + n);
    const int used = snprintf(err->file, sizeof err->file, "%s", f->path);
    if (used >= 0 && (size_t)used < sizeof err->file)
        snprintf(err->file + used, sizeof err->file - (size_t)used, "%s", below);
}

void qkv_folder_abort(struct qkv_folder *f, qkv_error *err)
{
    const int saved = errno;
    if (f->open) {
        if (err) name_final(f, err);
        if (!qkv_disk_remove_tree(f->dir) && f->lock >= 0) {
            close(f->lock); // the process may have no other descriptor for the folder
            f->lock = -1;
            qkv_disk_remove_tree(f->dir);
        }
        let_go(f);
    }
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

// The places of the files of a model folder.
struct bounds {
    char root[PATH_MAX];  // the folder, with its links resolved
    char blobs[PATH_MAX]; // the files of a model cache, of which root is a snapshot; "": no cache
};
struct copying {
    qkv_folder_wanted *wanted;
    const void *user;  // for wanted
    size_t from_bytes; // length of the path of the folder that is copied, as given
    int64_t *left_out, *links;
    struct bounds bounds;
    qkv_error *err;
};

bool qkv_path_is_inside(const char *path, const char *folder)
{
    const size_t n = strlen(folder);
    return n && strncmp(path, folder, n) == 0 && (path[n] == '/' || folder[n - 1] == '/');
}

// Resolves a model folder.  In the cache of the Hugging Face hub it is NAME/snapshots/REVISION, and
// its files are links to NAME/blobs.
static qkv_status find_bounds(struct bounds *b, const char *dir, qkv_error *err)
{
    b->blobs[0] = 0;
    if (!realpath(dir, b->root)) return qkv_fail_errno(err, dir, "cannot open", errno);
    char *last = strrchr(b->root, '/');
    *last = 0;
    char *above = strrchr(b->root, '/');
    if (above && strcmp(above, "/snapshots") == 0)
        snprintf(b->blobs, sizeof b->blobs, "%.*s/blobs", (int)(above - b->root), b->root);
    *last = '/';
    return QKV_OK;
}

static bool is_within(const struct bounds *b, const char *real)
{
    return qkv_path_is_inside(real, b->root) || qkv_path_is_inside(real, b->blobs);
}

// Writes to source[PATH_MAX] the file to which a link leads.  Returns false if that is a folder or
// outside of the copied folder: what a link of a downloaded folder shows must not be copied into a
// folder that is passed on.
static bool follow_link(const struct copying *c, char source[PATH_MAX])
{
    char real[PATH_MAX];
    struct stat st;
    if (!realpath(source, real) || stat(real, &st) != 0 || S_ISDIR(st.st_mode)) return false;
    if (!is_within(&c->bounds, real)) return false;
    memcpy(source, real, strlen(real) + 1);
    return true;
}

qkv_status qkv_folder_has(const char *dir, const char *path, qkv_error *err)
{
    struct bounds b;
    char real[PATH_MAX];
    const int saved = errno;
    qkv_status status = find_bounds(&b, dir, err);
    if (!status && realpath(path, real) && !is_within(&b, real))
        status = qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                          "link leads out of the folder, expected a file inside of %s, such as a "
                          "copy in place of the link",
                          dir);
    errno = saved;
    return status;
}

qkv_status qkv_folder_has_weights(const char *dir, const qkv_tensors *weights, qkv_error *err)
{
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < weights->n_sources && !status; i++)
        status = qkv_folder_has(dir, weights->sources[i].map.path, err);
    return status;
}

int64_t qkv_folder_weights_gone(const struct qkv_folder *f, const qkv_tensors *weights)
{
    static const char *const alone[] = { "model.safetensors", "model.qkv-int8.safetensors" };
    static const char *const indexes[] = { "model.safetensors.index.json",
                                           "model.qkv-int8.safetensors.index.json" };
    char path[QKV_PATH];
    int64_t gone = 0;
    bool index = false; // an index names the files
    for (int64_t i = 0; i < weights->n_sources; i++) {
        const char *slash = strrchr(weights->sources[i].map.path, '/');
        const char *name = slash ? slash + 1 : weights->sources[i].map.path;
        index = index || (strcmp(name, alone[0]) != 0 && strcmp(name, alone[1]) != 0);
        gone += !qkv_path_join(path, f->dir, name, NULL) && !qkv_path_may_exist(path);
    }
    for (int i = 0; i < 2 && index; i++)
        if (!qkv_path_join(path, f->dir, indexes[i], NULL) && qkv_path_may_exist(path)) return gone;
    return gone + index;
}

static qkv_status copy_tree(const struct copying *c, const char *to, const char *from, int depth);

static qkv_status copy_entry(const struct copying *c, const char *to, const char *from,
                             const char *name, int depth)
{
    char source[PATH_MAX], target[QKV_PATH], path[QKV_PATH];
    struct stat st;
    qkv_status status = qkv_path_join(source, from, name, c->err);
    if (!status) status = qkv_path_join(path, from, name, c->err);
    if (!status) status = qkv_path_join(target, to, name, c->err);
    if (status) return status;
    const char *relative = path + c->from_bytes + strspn(path + c->from_bytes, "/");
    if (lstat(source, &st) != 0) return qkv_fail_errno(c->err, source, "cannot open", errno);
    if (S_ISDIR(st.st_mode) && depth > 0) return copy_tree(c, target, source, depth - 1);
    bool there;
    status = qkv_path_find(&there, target, c->err);
    if (status || there) return status; // the run wrote it already
    if (S_ISLNK(st.st_mode)) {
        if (!follow_link(c, source)) {
            ++*c->links;
            return QKV_OK;
        }
        if (stat(source, &st) != 0) return qkv_fail_errno(c->err, source, "cannot open", errno);
    }
    if (!S_ISREG(st.st_mode) || !c->wanted(c->user, relative, (int64_t)st.st_size)) {
        ++*c->left_out;
        return QKV_OK;
    }
    if (qkv_disk_mkdir(to, 0777) != 0 && errno != EEXIST)
        return qkv_fail_errno(c->err, to, "cannot make", errno);
    return copy_file(target, source, c->err);
}

static qkv_status copy_tree(const struct copying *c, const char *to, const char *from, int depth)
{
    DIR *d = opendir(from);
    qkv_status status = QKV_OK;
    if (!d) return qkv_fail_errno(c->err, from, "cannot open", errno);
    for (const struct dirent *e; !status && (e = qkv_disk_entry(d, from, &status, c->err));)
        if (e->d_name[0] != '.') status = copy_entry(c, to, from, e->d_name, depth);
    closedir(d);
    if (!status && qkv_disk_sync_folder(to) != 0 && errno != ENOENT)
        status = qkv_fail_errno(c->err, to, "cannot sync", errno);
    return status;
}

qkv_status qkv_folder_copy(const struct qkv_folder *f, const char *from, qkv_folder_wanted *wanted,
                           const void *user, int depth, int64_t *left_out, int64_t *links,
                           qkv_error *err)
{
    struct copying c = { .wanted = wanted,
                         .user = user,
                         .from_bytes = strlen(from),
                         .left_out = left_out,
                         .links = links,
                         .err = err };
    const qkv_status status = find_bounds(&c.bounds, from, err);
    return status ? status : copy_tree(&c, f->dir, from, depth);
}

// ---- into place --------------------------------------------------------------------------------
static qkv_status fail_place(const struct qkv_folder *f, int code, qkv_error *err)
{
    return qkv_fail_errno(err, f->path, "cannot rename the finished folder into place", code);
}

// Gives the new folder its name where the old folder has it, and writes the new name of the old
// folder to aside[QKV_PATH].
static qkv_status replace(const struct qkv_folder *f, char aside[QKV_PATH], qkv_error *err)
{
    snprintf(aside, QKV_PATH, "%s", f->dir);
    if (qkv_disk_exchange(f->dir, f->path) == 0) return QKV_OK;
    if (errno != ENOSYS && errno != EINVAL) return fail_place(f, errno, err);
    char *kind = aside;
    for (char *p = aside; (p = strstr(p, ".tmp.")) != NULL; p++) kind = p;
    memcpy(kind, ".old.", 5); // NAME.old.PID.N
    // The lock tells other processes that this one will rename or remove the old folder.
    const int lock = qkv_temporary_lock(f->path);
    qkv_status status = QKV_OK;
    if (qkv_disk_rename(f->path, aside) != 0) {
        status = qkv_fail_errno(err, f->path, "cannot rename", errno);
    } else if (qkv_disk_rename(f->dir, f->path) != 0) {
        const int why = errno;
        qkv_disk_rename(aside, f->path);
        status = fail_place(f, why, err);
    }
    if (lock >= 0) close(lock);
    return status;
}

static qkv_status into_place(const struct qkv_folder *f, qkv_error *err)
{
    char aside[QKV_PATH];
    qkv_status status = QKV_OK;
    bool replaces = f->replaces;
    if (!replaces && qkv_disk_rename(f->dir, f->path) != 0) {
        const int code = errno;
        // another process may have made a folder of this name in the meantime
        replaces = f->force && (code == EEXIST || code == ENOTEMPTY);
        status = replaces ? may_replace(f->path, true, err) : fail_place(f, code, err);
    }
    if (!status && replaces) status = replace(f, aside, err);
    if (status) return status;
    if (qkv_disk_sync_above(f->path) != 0)
        status = qkv_fail_errno(err, f->path, "cannot sync the folder above", errno);
    if (!status && replaces && !qkv_disk_remove_tree(aside))
        status = qkv_fail_errno(err, aside, "cannot remove", errno);
    return status;
}

qkv_status qkv_folder_commit(struct qkv_folder *f, qkv_error *err)
{
    qkv_status status = QKV_OK;
    if (qkv_disk_sync_folder(f->dir) != 0)
        status = qkv_fail_errno(err, f->path, "cannot sync", errno);
    if (!status) status = into_place(f, err);
    if (status)
        qkv_folder_abort(f, NULL); // after the rename: removes the old folder, if it is left
    let_go(f);
    return status;
}
