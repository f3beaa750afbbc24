// SPDX-License-Identifier: MIT
// data.c: opens a dataset: reads its index, maps its files and checks all of them before use.
#include "task/data/data_internal.h"
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { INDEX_BYTES = 1 << 24, SPECIALS = 1 << 20 };
#define COUNT_MOST ((int64_t)1 << 48)

// The parsed index.json: the size and hash of every file of a dataset.
struct index {
    json_t *root;
    struct data_sum sum[DATA_SPLITS][DATA_FILES], labels;
    char path[QKV_PATH];
    qkv_error *err;
};

static bool read_sum(struct data_sum *out, const json_t *object, const char *path,
                     const struct index *x)
{
    const struct qkv_json_at at = { object, x->path, path, x->err };
    const char *hash;
    if (!qkv_json_int(&at, "bytes", true, &out->bytes, 0, INT64_MAX) ||
        !qkv_json_text(&at, "sha256", true, &hash))
        return false;
    if (strlen(hash) != sizeof out->hash - 1 || strspn(hash, "0123456789abcdef") != strlen(hash)) {
        qkv_fail(x->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = x->path, .path = path },
                 "member \"sha256\" is invalid, expected 64 hexadecimal digits");
        return false;
    }
    memcpy(out->hash, hash, sizeof out->hash);
    return true;
}

static const json_t *need_object(const struct qkv_json_at *at, const char *key)
{
    const json_t *v = json_object_get(at->object, key);
    if (json_is_object(v)) return v;
    qkv_fail(at->err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = at->file, .path = at->path },
             "member \"%s\" is missing or has the wrong type, expected an object", key);
    return NULL;
}

static bool read_split(struct qkv_data *d, struct index *x, int split)
{
    struct qkv_data_info *i = &d->info;
    char path[64];
    const struct qkv_json_at root = { x->root, x->path, "$", x->err };
    const json_t *object = need_object(&root, data_split_names[split]);
    snprintf(path, sizeof path, "$.%s", data_split_names[split]);
    const struct qkv_json_at at = { object, x->path, path, x->err };
    if (!object || !qkv_json_int(&at, "sequences", true, &i->sequences[split], 1, COUNT_MOST) ||
        !qkv_json_int(&at, "tokens", true, &i->tokens[split], 1, COUNT_MOST) ||
        !qkv_json_int(&at, "bytes", true, &i->bytes[split], 0, INT64_MAX))
        return false;
    const json_t *files = need_object(&at, "files");
    for (int f = 0; f < DATA_FILES && files; f++) {
        const struct qkv_json_at in = { files, x->path, path, x->err };
        if (!data_has(i->objective, (enum data_file)f)) continue;
        const json_t *file = need_object(&in, data_file_names[f]);
        if (!file || !read_sum(&x->sum[split][f], file, path, x)) return false;
    }
    return files != NULL;
}

static int by_id(const void *a, const void *b)
{
    const int32_t x = *(const int32_t *)a, y = *(const int32_t *)b;
    return (x > y) - (x < y);
}

static bool read_specials(struct qkv_data *d, const struct index *x)
{
    const json_t *list = json_object_get(x->root, "specials");
    const struct qkv_location at = { .file = x->path, .path = "$.specials" };
    const size_t n = json_array_size(list);
    if (!json_is_array(list) || n > SPECIALS) {
        qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                 "list of special ids is missing or too long, expected at most %d ids, found %zu",
                 SPECIALS, n);
        return false;
    }
    d->special = qkv_alloc(n ? n : 1, sizeof *d->special);
    if (!d->special) {
        qkv_fail_memory(x->err, x->path);
        return false;
    }
    for (size_t i = 0; i < n; i++) {
        const json_t *v = json_array_get(list, i);
        const json_int_t id = json_integer_value(v);
        if (!json_is_integer(v) || id < 0 || id >= d->info.vocab) {
            qkv_fail(x->err, QKV_ERR_FORMAT, &at,
                     "special id %zu is out of range, expected an integer of 0 .. %" PRId64
                     ", found another value",
                     i, d->info.vocab - 1);
            return false;
        }
        d->special[i] = (int32_t)id;
    }
    d->specials = (int64_t)n;
    qsort(d->special, n, sizeof *d->special, by_id);
    return true;
}

static bool read_head(struct qkv_data *d, struct index *x)
{
    struct qkv_data_info *i = &d->info;
    const struct qkv_json_at at = { x->root, x->path, "$", x->err };
    const struct qkv_location place = { .file = x->path, .path = "$" };
    const char *format, *objective, *hash, *source;
    int64_t version;
    if (!qkv_json_text(&at, "format", true, &format) ||
        !qkv_json_int(&at, "version", true, &version, 1, INT64_MAX) ||
        !qkv_json_text(&at, "objective", true, &objective))
        return false;
    if (strcmp(format, "qkv-data") != 0) {
        qkv_fail(x->err, QKV_ERR_FORMAT, &place,
                 "file is not the index of a dataset, expected format qkv-data, found '%.40s'",
                 format);
        return false;
    }
    if (version > DATA_VERSION) {
        qkv_fail(x->err, QKV_ERR_UNSUPPORTED, &place,
                 "format of the dataset is too new, expected version %d or earlier, found %" PRId64,
                 DATA_VERSION, version);
        return false;
    }
    int known = QKV_OBJECTIVES;
    for (int o = QKV_OBJECTIVES - 1; o >= 0; o--)
        if (!strcmp(objective, task_objectives[o])) known = o;
    if (known == QKV_OBJECTIVES) {
        char all[200] = "";
        for (int o = 0; o < QKV_OBJECTIVES; o++) {
            const size_t at_end = strlen(all);
            snprintf(all + at_end, sizeof all - at_end, "%s%s", o ? ", " : "", task_objectives[o]);
        }
        qkv_fail(x->err, QKV_ERR_UNSUPPORTED, &place,
                 "unknown objective of the dataset, expected one of %s, found '%.40s'", all,
                 objective);
        return false;
    }
    i->objective = (enum qkv_objective)known;
    if (!qkv_json_int(&at, "context", true, &i->context, 2, INT32_MAX) ||
        !qkv_json_int(&at, "vocab", true, &i->vocab, 1, INT32_MAX) ||
        !qkv_json_int(&at, "labels", true, &i->labels, 0, DATA_LABELS) ||
        !qkv_json_int(&at, "cut", true, &i->cut, 0, INT64_MAX) ||
        !qkv_json_int(&at, "skipped", true, &i->skipped, 0, INT64_MAX) ||
        !qkv_json_int(&at, "replaced", true, &i->replaced, 0, INT64_MAX) ||
        !qkv_json_text(&at, "source", true, &source) || !qkv_json_text(&at, "hash", true, &hash))
        return false;
    snprintf(i->source_hash, sizeof i->source_hash, "%s", source);
    snprintf(i->hash, sizeof i->hash, "%s", hash);
    if (i->objective != QKV_OBJECTIVE_CLASSIFY) return read_specials(d, x);
    const json_t *list = need_object(&at, "label_list");
    return list && read_sum(&x->labels, list, "$.label_list", x) && read_specials(d, x);
}

// ---- files -------------------------------------------------------------------------------------
static qkv_status fail_file(qkv_error *err, const struct qkv_map *m, const char *what)
{
    return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = m->path },
                    "%s: the dataset has changed since it was created", what);
}

static qkv_status open_file(struct qkv_map *m, const char *dir, const char *name,
                            const struct data_sum *sum, qkv_error *err)
{
    char path[QKV_PATH], hash[QKV_SHA256_TEXT];
    qkv_status status = qkv_path_join(path, dir, name, err);
    if (!status) status = qkv_map_open(m, path, false, err);
    if (status) return status;
    if ((int64_t)m->size != sum->bytes)
        return qkv_fail(err, QKV_ERR_FORMAT, &(struct qkv_location){ .file = path },
                        "file has the wrong size, expected %" PRId64
                        " bytes, found %zu: the dataset has changed since it was created",
                        sum->bytes, m->size);
    qkv_sha256(hash, m->data, m->size);
    return strcmp(hash, sum->hash) ? fail_file(err, m, "SHA-256 differs") : QKV_OK;
}

// Checks that the sizes and offsets in the files agree with the counts in index.json, so that no
// batch reads outside the files.
static qkv_status check_shard(const struct qkv_data *d, int split, qkv_error *err)
{
    const struct data_shard *x = &d->shard[split];
    const struct qkv_data_info *i = &d->info;
    const int64_t runs = data_parts(i->objective) * i->sequences[split], n = i->tokens[split];
    const struct qkv_map *m = x->map;
    if (m[DATA_TOKENS].size != (uint64_t)n * sizeof *x->tokens ||
        m[DATA_OFFSETS].size != ((uint64_t)runs + 1) * sizeof *x->offsets)
        return fail_file(err, &m[DATA_OFFSETS], "size of the file differs from index.json");
    if (x->bytes && m[DATA_BYTES].size != ((uint64_t)runs + 1) * sizeof *x->bytes)
        return fail_file(err, &m[DATA_BYTES], "size of the file differs from index.json");
    if (x->label && m[DATA_LABEL].size != (uint64_t)runs * sizeof *x->label)
        return fail_file(err, &m[DATA_LABEL], "size of the file differs from index.json");
    const bool causal = i->objective == QKV_OBJECTIVE_CAUSAL;
    const int64_t least = causal ? 2 : 1, most = i->context + causal;
    bool good = x->offsets[0] == 0 && x->offsets[runs] == n;
    for (int64_t r = 0; r < runs && good; r++) {
        const int64_t a = x->offsets[r], b = x->offsets[r + 1];
        good = a >= 0 && b >= a && b <= n && b - a >= least && b - a <= most;
        if (x->bytes) good = good && x->bytes[r] >= 0 && x->bytes[r + 1] >= x->bytes[r];
        if (x->label) good = good && x->label[r] >= 0 && x->label[r] < i->labels;
    }
    if (!good)
        return fail_file(err, &m[DATA_OFFSETS],
                         "offsets of sequences, byte counts or labels contradict index.json");
    for (int64_t t = 0; t < n && good; t++) good = x->tokens[t] >= 0 && x->tokens[t] < i->vocab;
    return good ? QKV_OK
                : fail_file(err, &m[DATA_TOKENS],
                            "a token id is out of range, expected an id of the vocabulary");
}

static qkv_status open_shard(struct qkv_data *d, const char *dir, int split, const struct index *x,
                             qkv_error *err)
{
    struct data_shard *to = &d->shard[split];
    for (int f = 0; f < DATA_FILES; f++) {
        char name[32];
        if (!data_has(d->info.objective, (enum data_file)f)) continue;
        snprintf(name, sizeof name, "%s.%s", data_split_names[split], data_file_names[f]);
        const qkv_status status = open_file(&to->map[f], dir, name, &x->sum[split][f], err);
        if (status) return status;
    }
    to->tokens = (const int32_t *)(const void *)to->map[DATA_TOKENS].data;
    to->offsets = (const int64_t *)(const void *)to->map[DATA_OFFSETS].data;
    to->bytes = (const int64_t *)(const void *)to->map[DATA_BYTES].data;
    to->label = (const int32_t *)(const void *)to->map[DATA_LABEL].data;
    return check_shard(d, split, err);
}

// Reads the names of the labels from labels.txt, one per line, and terminates each with NUL.
static qkv_status open_labels(struct qkv_data *d, const char *dir, const struct index *x,
                              qkv_error *err)
{
    const int64_t n = d->info.labels;
    qkv_status status = open_file(&d->label_list, dir, DATA_LABEL_LIST, &x->labels, err);
    if (status) return status;
    const size_t bytes = d->label_list.size;
    d->label_names = qkv_copy_text((const char *)d->label_list.data, bytes);
    d->label_at = qkv_alloc((size_t)n + 1, sizeof *d->label_at);
    if (!d->label_names || !d->label_at) return qkv_fail_memory(err, dir);
    int64_t found = 0;
    size_t begin = 0;
    for (size_t i = 0; i < bytes; i++) {
        if (d->label_names[i] != '\n') continue;
        if (found < n) d->label_at[found] = (int64_t)begin;
        found++;
        begin = i + 1;
        d->label_names[i] = 0;
    }
    if (found != n || begin != bytes)
        return fail_file(err, &d->label_list, "number of labels differs from index.json");
    return QKV_OK;
}

qkv_status qkv_data_open(qkv_data **out, const char *dir, qkv_error *err)
{
    struct index x = { 0 };
    qkv_error found = { 0 }; // used instead of the caller's err, which may already contain an error
    char hash[QKV_SHA256_TEXT];
    *out = NULL;
    if (!dir) return qkv_fail(err, QKV_ERR_USAGE, NULL, "no dataset folder given, expected a path");
    const uint16_t one = 1;
    if (!*(const uint8_t *)&one)
        return qkv_fail(
            err, QKV_ERR_UNSUPPORTED, NULL,
            "datasets are not supported on this machine, expected a little-endian machine");
    struct qkv_data *d = qkv_alloc_zero(1, sizeof *d);
    if (!d) return qkv_fail_memory(err, dir);
    x.err = &found;
    if (!qkv_path_join(x.path, dir, DATA_INDEX, &found) &&
        !qkv_json_file(&x.root, x.path, INDEX_BYTES, &found) && read_head(d, &x))
        for (int split = 0; split < DATA_SPLITS; split++)
            if (!read_split(d, &x, split) || open_shard(d, dir, split, &x, &found)) break;
    if (!found.status && d->info.objective == QKV_OBJECTIVE_CLASSIFY)
        open_labels(d, dir, &x, &found);
    data_hash(hash, &d->info, (const struct data_sum(*)[DATA_FILES])x.sum, &x.labels);
    if (!found.status && strcmp(hash, d->info.hash) != 0)
        qkv_fail(&found, QKV_ERR_FORMAT, &(struct qkv_location){ .file = x.path },
                 "member \"hash\" differs from the files of the dataset: the dataset has changed "
                 "since it was created");
    json_decref(x.root);
    if (!found.status) {
        *out = d;
        return QKV_OK;
    }
    qkv_data_close(d);
    if (err && !err->status) *err = found;
    return found.status;
}

void qkv_data_close(qkv_data *d)
{
    if (!d) return;
    for (int s = 0; s < DATA_SPLITS; s++)
        for (int f = 0; f < DATA_FILES; f++) qkv_map_close(&d->shard[s].map[f]);
    qkv_map_close(&d->label_list);
    qkv_free(d->special);
    qkv_free(d->label_at);
    qkv_free(d->label_names);
    qkv_free(d);
}

struct qkv_data_info qkv_data_info(const qkv_data *d)
{
    return d->info;
}

const char *qkv_data_label(const qkv_data *d, int64_t label)
{
    return d->label_at && label >= 0 && label < d->info.labels ? d->label_names + d->label_at[label]
                                                               : NULL;
}
