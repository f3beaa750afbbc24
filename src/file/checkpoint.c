// SPDX-License-Identifier: MIT
// checkpoint.c: writes checkpoints so that at any instant the newest complete checkpoint of a run
// is readable.  The steps of a save are, in this order:
//
//   1. write the files into NAME.tmp/ and sync each
//   2. write manifest.json and sync it; sync the folder NAME.tmp/
//   3. rename NAME.tmp to NAME and sync the folder of the run
//   4. replace the link to the newest checkpoint by a rename
//   5. rename older checkpoints to NAME.tmp, after which they are no checkpoints, sync the folder
//      of the run, and remove them (qkv_checkpoint_tidy, after the caller has moved its own links)
#include "file/checkpoint_names.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { KEPT = 2 }; // number of complete checkpoints that are kept

static void named(char out[QKV_CHECKPOINT_NAME + 8], int64_t step, const char *end)
{
    char name[QKV_CHECKPOINT_NAME];
    qkv_checkpoint_name(name, step);
    snprintf(out, QKV_CHECKPOINT_NAME + 8, "%s%s", name, end);
}

static qkv_status remove_named(const char *run, const char *name, qkv_error *err)
{
    char path[QKV_PATH];
    const qkv_status status = qkv_path_join(path, run, name, err);
    if (status) return status;
    if (!qkv_disk_remove_folder(path)) return qkv_fail_errno(err, path, "cannot remove", errno);
    return QKV_OK;
}

// Removes the folders that interrupted saves and removals have left in the folder of the run.
static qkv_status remove_unfinished(const char *run, qkv_error *err)
{
    static const struct {
        enum qkv_checkpoint_kind kind;
        const char *end;
    } left[] = { { QKV_CHECKPOINT_UNFINISHED, ".tmp" }, { QKV_CHECKPOINT_REPLACED, ".old" } };
    struct qkv_checkpoint_list l = { 0 };
    qkv_status status = QKV_OK;
    for (int k = 0; k < 2 && !status; k++) {
        status = qkv_checkpoint_list(&l, run, left[k].kind, false, err);
        for (int64_t i = 0; i < l.n && !status; i++) {
            char name[QKV_CHECKPOINT_NAME + 8];
            named(name, l.steps[i], left[k].end);
            status = remove_named(run, name, err);
        }
    }
    qkv_free(l.steps);
    return status;
}

qkv_status qkv_checkpoint_begin(struct qkv_checkpoint *c, const char *run, int64_t step,
                                qkv_error *err)
{
    char temp[QKV_CHECKPOINT_NAME + 8];
    memset(c, 0, sizeof *c);
    const struct qkv_location at = { .file = run };
    if (step < 0 || step >= (int64_t)1000000000000000000)
        return qkv_fail(err, QKV_ERR_USAGE, &at,
                        "invalid step of a checkpoint, expected 0 .. 10^18 - 1, found %" PRId64,
                        step);
    if (strlen(run) >= sizeof c->run)
        return qkv_fail(
            err, QKV_ERR_USAGE, &at,
            "path of the run folder is too long, expected less than %zu bytes, found %zu",
            sizeof c->run, strlen(run));
    memcpy(c->run, run, strlen(run) + 1);
    c->step = step;
    qkv_checkpoint_name(c->name, step);
    named(temp, step, ".tmp");
    qkv_status status = qkv_path_join(c->dir, run, temp, err);
    if (!status) status = remove_unfinished(run, err);
    if (!status && qkv_disk_mkdir(c->dir, 0777) != 0)
        status = qkv_fail_errno(err, c->dir, "cannot make", errno);
    c->open = !status;
    return status;
}

void qkv_checkpoint_abort(struct qkv_checkpoint *c)
{
    const int saved = errno;
    if (c->open) qkv_disk_remove_folder(c->dir);
    c->open = false;
    errno = saved;
}

// ---- manifest ----------------------------------------------------------------------------------
// Writes {"name": [offset, bytes, "checksum"], ...} of the tensors of a safetensors file to *out,
// or NULL for a file of another format.
static qkv_status describe_tensors(json_t **out, const char *path, qkv_error *err)
{
    struct qkv_tensors *t = NULL;
    *out = NULL;
    if (!qkv_ends_with(path, ".safetensors")) return QKV_OK;
    qkv_status status = qkv_tensors_open(&t, path, NULL, err);
    if (status) return status;
    *out = json_object();
    if (!*out) status = qkv_fail_memory(err, path);
    for (int64_t i = 0; i < t->n && !status; i++) {
        const struct qkv_tensor *one = &t->all[i];
        char sum[24];
        snprintf(sum, sizeof sum, "%016" PRIx64, qkv_sum64(one->data, one->bytes));
        const int64_t at = one->bytes ? (const uint8_t *)one->data - t->sources[0].map.data : 0;
        json_t *row = json_pack("[IIs]", (json_int_t)at, (json_int_t)one->bytes, sum);
        if (!row || json_object_set_new_nocheck(*out, one->name, row) != 0)
            status = qkv_fail_memory(err, path);
    }
    qkv_tensors_close(t);
    if (!status) return QKV_OK;
    json_decref(*out);
    *out = NULL;
    return status;
}

static qkv_status describe_file(json_t *files, const char *dir, const char *name, qkv_error *err)
{
    char path[QKV_PATH], hex[QKV_SHA256_TEXT];
    struct qkv_map m = { 0 };
    json_t *tensors = NULL;
    qkv_status status = qkv_path_join(path, dir, name, err);
    if (!status) status = qkv_map_open(&m, path, false, err);
    if (status) return status;
    qkv_sha256(hex, m.data, m.size);
    status = describe_tensors(&tensors, path, err);
    if (!status) {
        json_t *row = json_pack("{sIss}", "bytes", (json_int_t)m.size, "sha256", hex);
        if (row && tensors && json_object_set_new_nocheck(row, "tensors", tensors) != 0) {
            json_decref(row);
            row = NULL;
        } else if (!row) {
            json_decref(tensors);
        }
        if (!row || json_object_set_new(files, name, row) != 0) status = qkv_fail_memory(err, path);
    }
    qkv_map_close(&m);
    return status;
}

static qkv_status write_manifest(const struct qkv_checkpoint *c, qkv_error *err)
{
    char path[QKV_PATH];
    qkv_status status = qkv_path_join(path, c->dir, QKV_MANIFEST, err);
    if (status) return status;
    json_t *files = json_object();
    json_t *root =
        json_pack("{sssisIso}", "format", QKV_MANIFEST_FORMAT, "version", (int)QKV_MANIFEST_VERSION,
                  "step", (json_int_t)c->step, "files", files);
    DIR *d = root ? opendir(c->dir) : NULL;
    if (!root)
        status = qkv_fail_memory(err, path);
    else if (!d)
        status = qkv_fail_errno(err, c->dir, "cannot open", errno);
    for (const struct dirent *e; !status && (e = qkv_disk_entry(d, c->dir, &status, err));)
        if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
            status = describe_file(files, c->dir, e->d_name, err);
    if (d) closedir(d);
    if (!status) status = qkv_json_write(path, root, false, err);
    json_decref(root);
    return status;
}

// ---- into place --------------------------------------------------------------------------------
qkv_status qkv_checkpoint_link(const char *run, const char *name, const char *target,
                               qkv_error *err)
{
    char path[QKV_PATH], temp[QKV_PATH], temp_name[QKV_CHECKPOINT_NAME];
    snprintf(temp_name, sizeof temp_name, "%s.tmp", name);
    qkv_status status = qkv_path_join(path, run, name, err);
    if (!status) status = qkv_path_join(temp, run, temp_name, err);
    if (status) return status;
    if (qkv_disk_unlink(temp) != 0 && errno != ENOENT)
        return qkv_fail_errno(err, temp, "cannot remove", errno);
    if (qkv_disk_symlink(target, temp) != 0) return qkv_fail_errno(err, path, "cannot link", errno);
    if (qkv_disk_rename(temp, path) != 0) {
        status = qkv_fail_errno(err, path, "cannot link", errno);
        qkv_disk_unlink(temp);
        return status;
    }
    if (qkv_disk_sync_folder(run) != 0) return qkv_fail_errno(err, run, "cannot sync", errno);
    return QKV_OK;
}

// Renames a checkpoint to NAME.tmp, so that it is no longer a checkpoint.
static qkv_status retire(const char *run, const char *name, int64_t step, qkv_error *err)
{
    char gone[QKV_CHECKPOINT_NAME + 8], from[QKV_PATH], to[QKV_PATH];
    named(gone, step, ".tmp");
    qkv_status status = qkv_path_join(from, run, name, err);
    if (!status) status = qkv_path_join(to, run, gone, err);
    if (status) return status;
    if (qkv_disk_rename(from, to) != 0) return qkv_fail_errno(err, from, "cannot rename", errno);
    return QKV_OK;
}

static qkv_status retire_older(const char *run, const struct qkv_checkpoint_kept *kept,
                               qkv_error *err)
{
    const int64_t last = kept->last ? kept->last : KEPT;
    struct qkv_checkpoint_list l = { 0 };
    bool any = false;
    qkv_status status = qkv_checkpoint_list(&l, run, QKV_CHECKPOINT_WHOLE, true, err);
    for (int64_t i = 0; last > 0 && i < l.n - last && !status; i++) {
        char name[QKV_CHECKPOINT_NAME];
        qkv_checkpoint_name(name, l.steps[i]);
        if (kept->name && !strcmp(name, kept->name)) continue;
        if (kept->every > 0 && l.steps[i] % kept->every == 0) continue;
        status = retire(run, name, l.steps[i], err);
        any = true;
    }
    qkv_free(l.steps);
    // a folder that loses files must not be a checkpoint again after a loss of power
    if (any && !status && qkv_disk_sync_folder(run) != 0)
        status = qkv_fail_errno(err, run, "cannot sync", errno);
    return status;
}

qkv_status qkv_checkpoint_tidy(const char *run, const struct qkv_checkpoint_kept *kept,
                               qkv_error *err)
{
    static const char *const links[] = { "model.tmp", "best.tmp" };
    char path[QKV_PATH];
    qkv_status status = retire_older(run, kept, err);
    for (int i = 0; i < 2 && !status; i++) {
        status = qkv_path_join(path, run, links[i], err);
        if (!status && qkv_disk_unlink(path) != 0 && errno != ENOENT)
            status = qkv_fail_errno(err, path, "cannot remove", errno);
    }
    return status ? status : remove_unfinished(run, err);
}

// Renames the folder of the new checkpoint to its final name.  A folder that has this name already
// (without a manifest it is no checkpoint; with one it was written when the run reached this step
// before) is first renamed to NAME.old, and removed at the end.  If the process is killed
// meanwhile, the next save cleans up.
static qkv_status into_place(const struct qkv_checkpoint *c, qkv_error *err)
{
    char path[QKV_PATH], aside[QKV_PATH], name[QKV_CHECKPOINT_NAME + 8];
    named(name, c->step, ".old");
    qkv_status status = qkv_path_join(path, c->run, c->name, err);
    if (!status) status = qkv_path_join(aside, c->run, name, err);
    if (status) return status;
    const bool there = access(path, F_OK) == 0;
    if (there && (!qkv_disk_remove_folder(aside) || qkv_disk_rename(path, aside) != 0))
        return qkv_fail_errno(err, path, "cannot rename", errno);
    if (qkv_disk_rename(c->dir, path) != 0) {
        status =
            qkv_fail_errno(err, path, "cannot rename the finished checkpoint into place", errno);
        if (there) qkv_disk_rename(aside, path);
        return status;
    }
    if (qkv_disk_sync_folder(c->run) != 0) return qkv_fail_errno(err, c->run, "cannot sync", errno);
    if (there) qkv_disk_remove_folder(aside);
    return QKV_OK;
}

qkv_status qkv_checkpoint_commit(struct qkv_checkpoint *c, qkv_error *err)
{
    if (!c->open)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_checkpoint_commit: expected an open checkpoint, found a closed one");
    qkv_status status = write_manifest(c, err);
    if (!status && qkv_disk_sync_folder(c->dir) != 0)
        status = qkv_fail_errno(err, c->dir, "cannot sync", errno);
    if (!status) status = into_place(c, err);
    if (status) {
        qkv_checkpoint_abort(c);
        return status;
    }
    c->open = false;
    return qkv_checkpoint_link(c->run, "model", c->name, err);
}
