// SPDX-License-Identifier: MIT
// shards.c: reads FILE.safetensors.index.json, which lists the weight files (shards) of a model:
//
//   {"metadata": {"total_size": N}, "weight_map": {NAME: FILE}}
//
// Every FILE must be in the folder of the index, and must contain the tensors NAME that weight_map
// assigns to it.
#include "file/set.h"
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

struct index {
    struct qkv_tensors *t;
    const char *path;
    json_t *root, *map;
    const char **files; // file names, sorted, each once
    int64_t n_files;
    qkv_error *err;
};

static struct qkv_location entry(const struct index *x, char text[256], const char *name)
{
    snprintf(text, 256, "$.weight_map.%s", name);
    return (struct qkv_location){ .file = x->path, .path = text };
}

// Returns true if the name of a file is a path below the folder of the index, without an absolute
// path or a component "..", so that an index cannot refer to files outside. Links inside the folder
// are followed, because the model cache of Hugging Face consists of links.
static bool inside_folder(const char *file)
{
    if (file[0] == 0 || file[0] == '/' || strchr(file, '\\')) return false;
    for (const char *part = file; part; part = strchr(part, '/')) {
        if (*part == '/') part++;
        const size_t n = strcspn(part, "/");
        if (n == 0 || (n == 2 && memcmp(part, "..", 2) == 0)) return false;
    }
    return true;
}

static int by_text(const void *ctx, uint32_t a, uint32_t b)
{
    const char *const *text = ctx;
    return strcmp(text[a], text[b]);
}

// Fills x->files with the distinct file names of weight_map.
static qkv_status list_files(struct index *x)
{
    char text[256];
    const size_t n = json_object_size(x->map);
    if (n > QKV_TENSORS_MAX) {
        const struct qkv_location at = { .file = x->path, .path = "$.weight_map" };
        return qkv_fail(x->err, QKV_ERR_LIMIT, &at,
                        "too many tensors, expected at most %d, found %zu", QKV_TENSORS_MAX, n);
    }
    const char **all = qkv_alloc(n, sizeof *all);
    struct qkv_order *order = qkv_alloc(n, sizeof *order);
    x->files = qkv_alloc(n, sizeof *x->files);
    qkv_status status = QKV_OK;
    if (!all || !order || !x->files) {
        status = qkv_fail_memory(x->err, x->path);
        goto done;
    }
    const char *name;
    json_t *value;
    uint32_t i = 0;
    json_object_foreach(x->map, name, value)
    {
        const char *file = json_string_value(value);
        const struct qkv_location at = entry(x, text, name);
        if (!file) {
            status =
                qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                         "value of the wrong type, expected the file name of a shard, found none");
            goto done;
        }
        if (!inside_folder(file)) {
            status = qkv_fail(
                x->err, QKV_ERR_FORMAT, &at,
                "shard outside model directory, expected a file in it, found \"%.200s\"", file);
            goto done;
        }
        all[i] = file;
        order[i] = (struct qkv_order){ qkv_order_key(file), i };
        i++;
    }
    if (!qkv_order_sort(order, (int64_t)n, by_text, all)) {
        status = qkv_fail_memory(x->err, x->path);
        goto done;
    }
    for (size_t k = 0; k < n; k++) {
        const char *file = all[order[k].item];
        if (x->n_files && strcmp(x->files[x->n_files - 1], file) == 0) continue;
        x->files[x->n_files++] = file;
    }
    if (x->n_files > QKV_SHARDS_MAX) {
        const struct qkv_location at = { .file = x->path, .path = "$.weight_map" };
        status = qkv_fail(x->err, QKV_ERR_LIMIT, &at,
                          "too many shards, expected at most %d, found %" PRId64, QKV_SHARDS_MAX,
                          x->n_files);
    }
done:
    qkv_free(all);
    qkv_free(order);
    return status;
}

static qkv_status open_shards(struct index *x, const struct qkv_tensors_options *o)
{
    const char *slash = strrchr(x->path, '/');
    const size_t dir = slash ? (size_t)(slash - x->path) + 1 : 0;
    for (int64_t i = 0; i < x->n_files; i++) {
        const size_t n = strlen(x->files[i]);
        char *path = qkv_alloc(dir + n + 1, 1);
        if (!path) return qkv_fail_memory(x->err, x->path);
        memcpy(path, x->path, dir);
        memcpy(path + dir, x->files[i], n + 1);
        const qkv_status status = qkv_tensors_add(x->t, path, o, x->err);
        qkv_free(path);
        if (status) return status;
    }
    return QKV_OK;
}

// Returns the name of the shard that contains a tensor.  The shards were read in the order of
// x->files, so binary search for the tensor's index finds its shard.
static const char *file_of(const struct index *x, const struct qkv_tensor *tensor)
{
    const int64_t i = tensor - x->t->all;
    int64_t low = 0, high = x->n_files;
    while (high - low > 1) {
        const int64_t middle = low + (high - low) / 2;
        if (x->t->sources[middle].first <= i)
            low = middle;
        else
            high = middle;
    }
    return x->files[low];
}

static qkv_status check_map(struct index *x)
{
    char text[256];
    const char *name;
    json_t *value;
    json_object_foreach(x->map, name, value)
    {
        const struct qkv_tensor *tensor = qkv_tensors_find(x->t, name);
        const char *want = json_string_value(value);
        const struct qkv_location at = entry(x, text, name);
        if (!tensor)
            return qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                            "tensor is missing, expected it in shard %s, found it in no shard",
                            want);
        if (strcmp(file_of(x, tensor), want) != 0)
            return qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                            "tensor is in another shard, expected it in shard %s, found it in %s",
                            want, file_of(x, tensor));
    }
    return QKV_OK;
}

static qkv_status check_total(const struct index *x)
{
    const json_t *meta = json_object_get(x->root, "metadata");
    if (!meta || json_is_null(meta)) return QKV_OK;
    const struct qkv_location at = { .file = x->path, .path = "$.metadata.total_size" };
    if (!json_is_object(meta))
        return qkv_fail(x->err, QKV_ERR_FORMAT,
                        &(struct qkv_location){ .file = x->path, .path = "$.metadata" },
                        "value of the wrong type, expected an object, found another type");
    const json_t *total = json_object_get(meta, "total_size");
    if (!total) return QKV_OK;
    int64_t bytes = 0;
    for (int64_t i = 0; i < x->t->n; i++) bytes += (int64_t)x->t->all[i].bytes;
    if (!json_is_number(total))
        return qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                        "value of the wrong type, expected a number, found another type");
    if (json_is_integer(total) ? json_integer_value(total) != bytes
                               : json_real_value(total) != (double)bytes)
        return qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                        "total size of the tensors is wrong, expected %" PRId64
                        " bytes as in the shards, found %.17g",
                        bytes, json_number_value(total));
    return QKV_OK;
}

qkv_status qkv_shards_read(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err)
{
    struct index x = { .t = t, .path = path, .err = err };
    qkv_status status = qkv_json_file(&x.root, path, QKV_INDEX_MAX, err);
    if (status) goto done;
    x.map = json_object_get(x.root, "weight_map");
    if (!json_is_object(x.map)) {
        const struct qkv_location at = { .file = path, .path = "$.weight_map" };
        status = qkv_fail(
            err, QKV_ERR_FORMAT, &at,
            "value of the wrong type, expected an object that maps tensors to files, found %s",
            x.map ? "another type" : "none");
        goto done;
    }
    if ((status = list_files(&x)) != QKV_OK) goto done;
    if ((status = open_shards(&x, o)) != QKV_OK) goto done;
    if ((status = qkv_tensors_sort(t, path, err)) != QKV_OK) goto done;
    if ((status = check_map(&x)) != QKV_OK) goto done;
    status = check_total(&x);
done:
    qkv_free(x.files);
    json_decref(x.root);
    return status;
}
