// SPDX-License-Identifier: MIT
// checkpoint_find.c: finds the newest complete checkpoint of a run and checks every file against
// its manifest.
#include "file/checkpoint_names.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

// The location of a difference between a file and the manifest: the name and offset of the tensor
// whose checksum differs.
struct difference {
    const char *tensor; // NULL: unknown
    int64_t offset;     // -1: unknown
};

static struct difference where(const json_t *tensors, const struct qkv_map *m)
{
    const char *name;
    const json_t *row;
    json_object_foreach((json_t *)(uintptr_t)tensors, name, row)
    {
        const json_int_t at = json_integer_value(json_array_get(row, 0));
        const json_int_t bytes = json_integer_value(json_array_get(row, 1));
        const char *want = json_string_value(json_array_get(row, 2));
        char sum[24];
        if (!want || at < 0 || bytes < 0 || (size_t)bytes > m->size ||
            (size_t)at > m->size - (size_t)bytes)
            return (struct difference){ name, at < 0 ? -1 : at };
        snprintf(sum, sizeof sum, "%016" PRIx64,
                 qkv_sum64(bytes ? m->data + at : NULL, (size_t)bytes));
        if (strcmp(sum, want) != 0) return (struct difference){ name, at };
    }
    return (struct difference){ NULL, tensors ? 0 : -1 }; // all tensors match: the header differs
}

// Reports the difference between a file and the manifest.  `before` is the name of the preceding
// checkpoint, or "" if there is no preceding checkpoint.
static qkv_status differs(const char *path, const struct difference *d, const char *before,
                          const char *what, qkv_error *err)
{
    const struct qkv_location at = { .file = path,
                                     .has_offset = d->offset >= 0,
                                     .offset = d->offset };
    char part[300] = "", instead[200] = "there is no earlier checkpoint to continue from";
    if (d->tensor) snprintf(part, sizeof part, " in tensor \"%.200s\"", d->tensor);
    if (*before)
        snprintf(instead, sizeof instead,
                 "to continue from the checkpoint before it, %s, remove this one", before);
    return qkv_fail(err, QKV_ERR_FORMAT, &at,
                    "file differs from the manifest of its checkpoint%s, expected %s; %s", part,
                    what, instead);
}

static qkv_status check_file(const char *dir, const char *name, const json_t *row,
                             const char *before, qkv_error *err)
{
    char path[QKV_PATH], hex[QKV_SHA256_TEXT], what[200];
    struct qkv_map m = { 0 };
    const json_t *bytes = json_object_get(row, "bytes"), *sha = json_object_get(row, "sha256");
    qkv_status status = qkv_path_join(path, dir, name, err);
    if (status) return status;
    if (!json_is_integer(bytes) || !json_is_string(sha) || strchr(name, '/'))
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = dir },
                        QKV_MANIFEST
                        " has no valid entry for the file \"%.80s\", expected its bytes and sha256",
                        name);
    if ((status = qkv_map_open(&m, path, false, err)) != QKV_OK) return status;
    if ((json_int_t)m.size != json_integer_value(bytes)) {
        const struct difference d = { NULL, (int64_t)m.size };
        snprintf(what, sizeof what, "%" JSON_INTEGER_FORMAT " bytes, found %zu",
                 json_integer_value(bytes), m.size);
        status = differs(path, &d, before, what, err);
    } else {
        qkv_sha256(hex, m.data, m.size);
        if (strcmp(hex, json_string_value(sha)) != 0) {
            const struct difference d = where(json_object_get(row, "tensors"), &m);
            snprintf(what, sizeof what, "SHA-256 %.12s..., found %.12s...", json_string_value(sha),
                     hex);
            status = differs(path, &d, before, what, err);
        }
    }
    qkv_map_close(&m);
    return status;
}

static qkv_status check_files(const char *dir, int64_t step, const char *before, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    const char *format = NULL, *name;
    const json_t *row;
    int64_t version = 0, said = -1;
    qkv_status status = qkv_path_join(path, dir, QKV_MANIFEST, err);
    if (!status) status = qkv_json_file(&root, path, QKV_MANIFEST_MAX, err);
    if (status) return status;
    const struct qkv_json_at at = { root, path, "$", err };
    if (!qkv_json_text(&at, "format", true, &format) ||
        !qkv_json_int(&at, "version", true, &version, 1, INT32_MAX)) {
        status = QKV_ERR_FORMAT;
    } else if (strcmp(format, QKV_MANIFEST_FORMAT) != 0) {
        status = qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path, .path = "$.format" },
            "file is not the manifest of a checkpoint, expected format \"" QKV_MANIFEST_FORMAT
            "\", found \"%.80s\"",
            format);
    } else if (version > QKV_MANIFEST_VERSION) {
        status = qkv_fail(
            err, QKV_ERR_UNSUPPORTED, &(struct qkv_location){ .file = path, .path = "$.version" },
            "checkpoint format is too new, expected version %d or earlier, found %" PRId64,
            (int)QKV_MANIFEST_VERSION, version);
    } else if (!qkv_json_int(&at, "step", true, &said, 0, INT64_MAX)) {
        status = QKV_ERR_FORMAT;
    } else if (said != step) {
        status = qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path, .path = "$.step" },
            "manifest belongs to another checkpoint, expected step %" PRId64 ", found %" PRId64,
            step, said);
    }
    json_t *files = json_object_get(root, "files");
    if (!status && !json_is_object(files))
        status =
            qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path, .path = "$.files" },
                     "member \"files\" has the wrong type, expected an object");
    if (!status) {
        json_object_foreach(files, name, row)
        {
            status = check_file(dir, name, row, before, err);
            if (status) break;
        }
    }
    json_decref(root);
    return status;
}

// Counts the folders of the run that are incomplete checkpoints, and stores the name of the newest.
static qkv_status count_passed(struct qkv_checkpoint_found *f, const char *run, qkv_error *err)
{
    static const enum qkv_checkpoint_kind skipped_kind[] = { QKV_CHECKPOINT_UNFINISHED,
                                                             QKV_CHECKPOINT_WHOLE };
    struct qkv_checkpoint_list l = { 0 };
    qkv_status status = QKV_OK;
    int64_t highest = -1;
    for (int i = 0; i < 2 && !status; i++) {
        status = qkv_checkpoint_list(&l, run, skipped_kind[i], false, err);
        if (status || !l.n) continue;
        f->passed += l.n;
        if (l.steps[l.n - 1] <= highest) continue;
        char name[QKV_CHECKPOINT_NAME];
        highest = l.steps[l.n - 1];
        qkv_checkpoint_name(name, highest);
        snprintf(f->passed_name, sizeof f->passed_name, "%s%s", name, i ? "" : ".tmp");
    }
    qkv_free(l.steps);
    return status;
}

qkv_status qkv_checkpoint_find(struct qkv_checkpoint_found *f, const char *run, qkv_error *err)
{
    struct qkv_checkpoint_list l = { 0 };
    memset(f, 0, sizeof *f);
    f->step = -1;
    qkv_status status = count_passed(f, run, err);
    if (!status) status = qkv_checkpoint_list(&l, run, QKV_CHECKPOINT_WHOLE, true, err);
    if (!status && l.n) {
        char before[QKV_CHECKPOINT_NAME] = "";
        if (l.n > 1) qkv_checkpoint_name(before, l.steps[l.n - 2]);
        qkv_checkpoint_name(f->name, l.steps[l.n - 1]);
        status = qkv_path_join(f->dir, run, f->name, err);
        if (!status) status = check_files(f->dir, l.steps[l.n - 1], before, err);
        if (!status) f->step = l.steps[l.n - 1];
    }
    qkv_free(l.steps);
    return status;
}
