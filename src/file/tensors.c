// SPDX-License-Identifier: MIT
// tensors.c: opens a file or folder with named tensors, detects its format, and finds tensors by
// name.
#include "file/set.h"
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

bool qkv_shape_bytes(size_t *bytes, qkv_dtype dtype, int rank, const int64_t *shape)
{
    *bytes = qkv_dtype_size(dtype);
    bool empty = false;
    for (int i = 0; i < rank; i++) {
        if (shape[i] < 0) return false;
        empty = empty || shape[i] == 0;
    }
    // The product of the sizes that are not 0 must fit into size_t too, so the shape [0, 2^48,
    // 2^48] is refused.
    for (int i = 0; i < rank; i++)
        if (shape[i] > 0 && !qkv_mul_size(bytes, *bytes, (size_t)shape[i])) return false;
    if (*bytes > PTRDIFF_MAX) return false;
    if (empty) *bytes = 0;
    return true;
}

static struct qkv_source *next_source(struct qkv_tensors *t)
{
    if (!qkv_reserve((void **)&t->sources, &t->sources_capacity, t->n_sources + 1,
                     sizeof *t->sources))
        return NULL;
    struct qkv_source *s = &t->sources[t->n_sources++];
    memset(s, 0, sizeof *s);
    s->map.slot = -1;
    return s;
}

qkv_status qkv_tensors_add(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err)
{
    struct qkv_source *s = next_source(t);
    if (!s) return qkv_fail_memory(err, path);
    const qkv_status status = qkv_map_open(&s->map, path, o->no_mmap, err);
    return status ? status : qkv_safetensors_read(t, s, err);
}

static int by_meta(const void *ctx, uint32_t a, uint32_t b)
{
    const struct qkv_meta *x = ctx;
    return strcmp(x[a].key, x[b].key);
}

static int64_t source_of(const struct qkv_tensors *t, int64_t tensor)
{
    for (int64_t i = 0; i < t->n_sources; i++)
        if (tensor >= t->sources[i].first && tensor < t->sources[i].first + t->sources[i].n)
            return i;
    return 0;
}

static qkv_status twice(const struct qkv_tensors *t, uint32_t first, uint32_t second,
                        qkv_error *err)
{
    const struct qkv_source *a = &t->sources[source_of(t, first)],
                            *b = &t->sources[source_of(t, second)];
    const struct qkv_location at = { .file = b->map.path,
                                     .has_offset = true,
                                     .offset = qkv_safetensors_where(b, second - b->first) };
    if (a == b)
        return qkv_fail(err, QKV_ERR_FORMAT, &at,
                        "duplicate tensor, expected each name once, found \"%.80s\" twice",
                        t->all[second].name);
    return qkv_fail(err, QKV_ERR_FORMAT, &at,
                    "duplicate tensor \"%.80s\", expected it in one shard, found it also in %s",
                    t->all[second].name, a->map.path);
}

// Sorts metadata by key.  If two shards have the same key, the value of the first shard is kept.
static bool sort_meta(struct qkv_tensors *t)
{
    if (t->n_meta < 2) return true;
    struct qkv_order *order = qkv_alloc((size_t)t->n_meta, sizeof *order);
    struct qkv_meta *sorted = qkv_alloc((size_t)t->n_meta, sizeof *sorted);
    bool ok = order && sorted;
    for (int64_t i = 0; ok && i < t->n_meta; i++)
        order[i] = (struct qkv_order){ qkv_order_key(t->meta[i].key), (uint32_t)i };
    ok = ok && qkv_order_sort(order, t->n_meta, by_meta, t->meta);
    if (ok) {
        int64_t n = 0;
        for (int64_t i = 0; i < t->n_meta; i++) {
            const struct qkv_meta *m = &t->meta[order[i].item];
            if (!n || strcmp(sorted[n - 1].key, m->key) != 0) sorted[n++] = *m;
        }
        qkv_free(t->meta);
        t->meta = sorted;
        t->n_meta = n;
        sorted = NULL;
    }
    qkv_free(order);
    qkv_free(sorted);
    return ok;
}

qkv_status qkv_tensors_sort(struct qkv_tensors *t, const char *file, qkv_error *err)
{
    t->order = qkv_alloc((size_t)t->n, sizeof *t->order);
    if (!t->order) return qkv_fail_memory(err, file);
    for (int64_t i = 0; i < t->n; i++)
        t->order[i] = (struct qkv_order){ qkv_order_key(t->all[i].name), (uint32_t)i };
    if (!qkv_order_sort(t->order, t->n, qkv_order_tensors, t->all) || !sort_meta(t))
        return qkv_fail_memory(err, file);
    for (int64_t i = 1; i < t->n; i++) {
        const struct qkv_order *a = &t->order[i - 1], *b = &t->order[i];
        if (a->key == b->key && qkv_order_tensors(t->all, a->item, b->item) == 0)
            return twice(t, a->item, b->item, err);
    }
    return QKV_OK;
}

// ---- format of a file --------------------------------------------------------------------------

enum kind { SAFETENSORS, NPY, INDEX, NPZ, PICKLE, GGUF, LLAMA2C, OTHER };

static bool starts(const struct qkv_map *m, const char *magic, size_t n)
{
    return m->size >= n && memcmp(m->data, magic, n) == 0;
}
// Returns true if the file is a pickle: with protocol 2 or later it begins with 0x80, the protocol,
// and an opcode, which is not 0.  (The width at the start of a llama2.c checkpoint may be the same
// two bytes, but a byte 0 follows.)
static bool is_pickle(const struct qkv_map *m)
{
    return m->size > 2 && m->data[0] == 0x80 && m->data[1] >= 2 && m->data[1] <= 5 && m->data[2];
}

// Detects the format by content first, because names can be wrong.  A safetensors file begins with
// the size of its header; it is recognized by a size that fits into the file and a '{' after the
// size.
static enum kind kind_of(const struct qkv_map *m)
{
    const char *name = m->path;
    uint64_t size = 0;
    if (m->size > 8) {
        for (int i = 7; i >= 0; i--) size = size << 8 | m->data[i];
        if (m->data[8] == '{' && size <= m->size - 8) return SAFETENSORS;
    }
    if (starts(m, "\x93NUMPY", 6)) return NPY;
    if (starts(m, "GGUF", 4) || starts(m, "ggml", 4) || starts(m, "lmgg", 4)) return GGUF;
    if (starts(m, "PK\3\4", 4) || starts(m, "PK\5\6", 4))
        return qkv_ends_with(name, ".npz") ? NPZ : PICKLE;
    if (qkv_ends_with(name, ".safetensors")) return SAFETENSORS;
    if (qkv_ends_with(name, ".npy")) return NPY;
    if (qkv_ends_with(name, ".json")) return INDEX;
    if (qkv_ends_with(name, ".gguf") || qkv_ends_with(name, ".ggml")) return GGUF;
    if (qkv_ends_with(name, ".npz")) return NPZ;
    if (!is_pickle(m) && qkv_llama2c_is(m)) return LLAMA2C;
    static const char *const pickles[] = { ".bin", ".pt", ".pth", ".ckpt", ".pkl", ".pickle" };
    for (size_t i = 0; i < sizeof pickles / sizeof *pickles; i++)
        if (qkv_ends_with(name, pickles[i])) return PICKLE;
    if (is_pickle(m)) return PICKLE;
    if (m->size > 0 && m->data[0] == '{') return INDEX;
    return OTHER;
}

static qkv_status refuse_format(enum kind kind, const char *path, qkv_error *err)
{
    const struct qkv_location at = { .file = path };
    if (kind == PICKLE)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                        "PyTorch and pickle files are never loaded (convert them with "
                        "safetensors.torch.save_file), expected .safetensors or .npy, found a "
                        "PyTorch or pickle file");
    if (kind == GGUF)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                        "GGUF files are not supported (use the .safetensors files of the model), "
                        "expected .safetensors or .npy, found a GGUF file");
    if (kind == NPZ)
        return qkv_fail(err, QKV_ERR_UNSUPPORTED, &at,
                        ".npz files are not supported (save each array with numpy.save), expected "
                        ".safetensors or .npy, found a zip archive");
    return qkv_fail(err, QKV_ERR_FORMAT, &at,
                    "unknown type of file, expected .safetensors, .safetensors.index.json or .npy, "
                    "found neither their content nor their name");
}

static qkv_status read_npy(struct qkv_tensors *t, struct qkv_source *s,
                           const struct qkv_tensors_options *o, qkv_error *err)
{
    const qkv_status status = qkv_npy_read(t, s, err);
    return status || o->shapes_only ? status : qkv_npy_convert(t, s, err);
}

static qkv_status open_file(struct qkv_tensors *t, const char *path,
                            const struct qkv_tensors_options *o, qkv_error *err)
{
    struct qkv_source *s = next_source(t);
    if (!s) return qkv_fail_memory(err, path);
    qkv_status status = qkv_map_open(&s->map, path, o->no_mmap, err);
    if (status) return status;
    const enum kind kind = kind_of(&s->map);
    if (kind == INDEX) {
        qkv_map_close(&s->map);
        t->n_sources = 0;
        return qkv_shards_read(t, path, o, err);
    }
    if (kind == SAFETENSORS)
        status = qkv_safetensors_read(t, s, err);
    else if (kind == NPY)
        status = read_npy(t, s, o, err);
    else if (kind == LLAMA2C)
        status = qkv_llama2c_read(t, s, err);
    else
        status = refuse_format(kind, path, err);
    return status ? status : qkv_tensors_sort(t, path, err);
}

// Finds model.safetensors, its index, the same of int8 weights (QKV_EIGHT_NAME), or a checkpoint of
// llama2.c; otherwise reports which other files the folder contains.
static qkv_status open_folder(struct qkv_tensors *t, const char *dir,
                              const struct qkv_tensors_options *o, qkv_error *err)
{
    static const char *const names[] = { "model.safetensors",
                                         "model.safetensors.index.json",
                                         QKV_EIGHT_NAME ".safetensors",
                                         QKV_EIGHT_NAME ".safetensors.index.json",
                                         "model.bin",
                                         "pytorch_model.bin",
                                         "pytorch_model.bin.index.json" };
    const size_t read = 5; // the first five are read
    char path[QKV_PATH];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        const qkv_status status = qkv_path_join(path, dir, names[i], err);
        if (status) return status;
        if (!qkv_path_may_exist(path)) continue;
        return i < read ? open_file(t, path, o, err) : refuse_format(PICKLE, path, err);
    }
    return qkv_fail(
        err, QKV_ERR_IO, &(struct qkv_location){ .file = dir },
        "folder without weights, expected model.safetensors or model.safetensors.index.json, "
        "found neither");
}

qkv_status qkv_tensors_open(qkv_tensors **out, const char *path,
                            const struct qkv_tensors_options *o, qkv_error *err)
{
    static const struct qkv_tensors_options plain = { 0 };
    if (out) *out = NULL;
    if (!out || !path)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_tensors_open: expected pointers for the tensors and the path, found NULL");
    const int saved = errno;
    struct qkv_tensors *t = qkv_alloc_zero(1, sizeof *t);
    if (!t) return qkv_fail_memory(err, path);
    struct stat st;
    const bool folder = stat(path, &st) == 0 && S_ISDIR(st.st_mode);
    const qkv_status status = (folder ? open_folder : open_file)(t, path, o ? o : &plain, err);
    if (status)
        qkv_tensors_close(t);
    else
        *out = t;
    errno = saved;
    return status;
}

qkv_status qkv_tensors_convert(qkv_tensors *t, qkv_error *err)
{
    if (!t)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_tensors_convert: expected tensors, found NULL");
    qkv_status status = QKV_OK;
    for (int64_t i = 0; i < t->n_sources && !status; i++)
        status = qkv_npy_convert(t, &t->sources[i], err);
    return status;
}

void qkv_tensors_close(qkv_tensors *t)
{
    if (!t) return;
    for (int64_t i = 0; i < t->n_sources; i++) {
        qkv_map_close(&t->sources[i].map);
        qkv_free(t->sources[i].text);
        qkv_free(t->sources[i].copy);
    }
    qkv_free(t->sources);
    qkv_free(t->all);
    qkv_free(t->order);
    qkv_free(t->meta);
    qkv_free(t);
}

int64_t qkv_tensors_count(const qkv_tensors *t)
{
    return t ? t->n : 0;
}

const struct qkv_tensor *qkv_tensors_at(const qkv_tensors *t, int64_t i)
{
    return t && i >= 0 && i < t->n ? &t->all[t->order[i].item] : NULL;
}

const char *qkv_tensors_file(const qkv_tensors *set, const struct qkv_tensor *t)
{
    const int64_t at = t - set->all;
    int64_t i = 0;
    while (i < set->n_sources - 1 && at >= set->sources[i].first + set->sources[i].n) i++;
    return set->sources[i].map.path;
}

const struct qkv_tensor *qkv_tensors_find(const qkv_tensors *t, const char *name)
{
    if (!t || !name) return NULL;
    const uint64_t key = qkv_order_key(name);
    for (int64_t low = 0, high = t->n; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const struct qkv_order *m = &t->order[middle];
        const struct qkv_tensor *x = &t->all[m->item];
        const int c = key < m->key ? -1 : key > m->key ? 1 : strcmp(name, x->name);
        if (c == 0) return x;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *qkv_tensors_metadata(const qkv_tensors *t, const char *key)
{
    if (!t || !key) return NULL;
    for (int64_t low = 0, high = t->n_meta; low < high;) {
        const int64_t middle = low + (high - low) / 2;
        const int c = strcmp(key, t->meta[middle].key);
        if (c == 0) return t->meta[middle].value;
        if (c < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}
