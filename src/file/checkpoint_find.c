// SPDX-License-Identifier: MIT
// checkpoint_find.c: finds the newest complete checkpoint of a run and checks files against the
// manifest of their checkpoint.
#include "file/checkpoint_names.h"
#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

enum { SMALL = 1 << 20 }; // bytes of the files whose SHA-256 is compared whenever a model is opened

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

// Reports the difference between a file and the manifest.  `advice` says what the user can do.
static qkv_status differs(const char *path, const struct difference *d, const char *advice,
                          const char *what, qkv_error *err)
{
    const struct qkv_location at = { .file = path,
                                     .has_offset = d->offset >= 0,
                                     .offset = d->offset };
    char part[300] = "";
    if (d->tensor) snprintf(part, sizeof part, " in tensor \"%.200s\"", d->tensor);
    return qkv_fail(err, QKV_ERR_FORMAT, &at,
                    "file differs from the manifest of its checkpoint%s, expected %s; %s", part,
                    what, advice);
}

// Compares the size of a file with its row in the manifest, and the SHA-256 of a file of at most
// `most` bytes.
static qkv_status check_file(const char *dir, const char *name, const json_t *row, size_t most,
                             const char *advice, qkv_error *err)
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
        status = differs(path, &d, advice, what, err);
    } else if (m.size <= most) {
        qkv_sha256(hex, m.data, m.size);
        if (strcmp(hex, json_string_value(sha)) != 0) {
            const struct difference d = where(json_object_get(row, "tensors"), &m);
            snprintf(what, sizeof what, "SHA-256 %.12s..., found %.12s...", json_string_value(sha),
                     hex);
            status = differs(path, &d, advice, what, err);
        }
    }
    qkv_map_close(&m);
    return status;
}

// Returns true if the manifest must list a file of this name.  Other files, such as notes of the
// user, are not part of a checkpoint.
static bool is_listed(const char *name)
{
    const char *end = strrchr(name, '.');
    return *name != '.' && end && (!strcmp(end, ".json") || !strcmp(end, ".safetensors")) &&
           strcmp(name, QKV_MANIFEST) != 0;
}

// Checks that no entry of the list of files has been lost.
static qkv_status check_list(const char *dir, const char *path, const json_t *files, qkv_error *err)
{
    const struct qkv_location at = { .file = path, .path = "$.files" };
    DIR *d = opendir(dir);
    qkv_status status = QKV_OK;
    if (!json_is_object(files))
        status = qkv_fail(err, QKV_ERR_FORMAT, &at,
                          "member \"files\" has the wrong type, expected an object");
    else if (!json_object_size(files))
        status = qkv_fail(err, QKV_ERR_FORMAT, &at,
                          "manifest lists no files, expected every file of the checkpoint");
    if (!status && !d) status = qkv_fail_errno(err, dir, "cannot open", errno);
    for (const struct dirent *e; !status && (e = qkv_disk_entry(d, dir, &status, err));)
        if (is_listed(e->d_name) && !json_object_get(files, e->d_name))
            status = qkv_fail(err, QKV_ERR_FORMAT, &at,
                              "manifest does not list \"%.80s\", expected every file of the "
                              "checkpoint",
                              e->d_name);
    if (d) closedir(d);
    return status;
}

// Reads the manifest of the checkpoint in dir.  step -1: any step.
static qkv_status read_manifest(json_t **out, const char *dir, int64_t step, qkv_error *err)
{
    char path[QKV_PATH];
    json_t *root = NULL;
    const char *format = NULL;
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
    } else if (step >= 0 && said != step) {
        status = qkv_fail(
            err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path, .path = "$.step" },
            "manifest belongs to another checkpoint, expected step %" PRId64 ", found %" PRId64,
            step, said);
    }
    if (!status) status = check_list(dir, path, json_object_get(root, "files"), err);
    if (status)
        json_decref(root);
    else
        *out = root;
    return status;
}

static qkv_status check_files(const char *dir, int64_t step, const char *before, qkv_error *err)
{
    char advice[200] = "there is no earlier checkpoint to continue from";
    json_t *root = NULL;
    const char *name;
    const json_t *row;
    qkv_status status = read_manifest(&root, dir, step, err);
    if (status) return status;
    if (*before)
        snprintf(advice, sizeof advice,
                 "to continue from the checkpoint before it, %s, remove this one", before);
    json_object_foreach(json_object_get(root, "files"), name, row)
    {
        status = check_file(dir, name, row, SIZE_MAX, advice, err);
        if (status) break;
    }
    json_decref(root);
    return status;
}

// ---- a checkpoint that is opened as a model -----------------------------------------------------
struct sums {
    const struct qkv_tensors *weights;
    const json_t *rows;         // the tensors of the weights in the manifest
    atomic_int_least64_t first; // smallest index of a tensor that differs
};
static void compare_sum(void *ctx, int64_t i, int thread)
{
    struct sums *s = ctx;
    const struct qkv_tensor *t = &s->weights->all[i];
    const json_t *row = json_object_get(s->rows, t->name);
    const char *want = json_string_value(json_array_get(row, 2));
    char sum[24];
    (void)thread;
    snprintf(sum, sizeof sum, "%016" PRIx64, qkv_sum64(t->data, t->bytes));
    if (want && strcmp(sum, want) == 0) return;
    int_least64_t seen = atomic_load(&s->first);
    while (i < seen && !atomic_compare_exchange_weak(&s->first, &seen, i)) {
    }
}

qkv_status qkv_checkpoint_check(const char *dir, const qkv_tensors *weights, qkv_error *err)
{
    static const char advice[] =
        "a folder without " QKV_MANIFEST " is opened without this comparison";
    char path[QKV_PATH];
    json_t *root = NULL;
    const char *name;
    const json_t *row;
    static const char *const both[] = { QKV_MANIFEST, "state.json" };
    for (int i = 0; i < 2; i++)
        if (qkv_path_join(path, dir, both[i], NULL) || !qkv_path_may_exist(path)) return QKV_OK;
    qkv_status status = read_manifest(&root, dir, -1, err);
    if (status) return status;
    const json_t *files = json_object_get(root, "files");
    json_object_foreach((json_t *)(uintptr_t)files, name, row)
    {
        status = check_file(dir, name, row, SMALL, advice, err);
        if (status) break;
    }
    struct sums s = { weights, json_object_get(json_object_get(files, QKV_WEIGHTS), "tensors"),
                      weights->n };
    if (!status && s.rows) qkv_parallel_for(weights->n, compare_sum, &s);
    if (!status && s.first < weights->n) {
        const struct qkv_tensor *t = &weights->all[s.first];
        const struct difference d = { t->name,
                                      (const uint8_t *)t->data - weights->sources[0].map.data };
        status = qkv_path_join(path, dir, QKV_WEIGHTS, err);
        if (!status) status = differs(path, &d, advice, "the sum in it, found another", err);
    }
    json_decref(root);
    return status;
}

// ---- the newest checkpoint ----------------------------------------------------------------------
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
