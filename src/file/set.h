// SPDX-License-Identifier: MIT
// set.h: inside of room file: an opened set of tensors, and the readers that fill it.
#ifndef QKV_FILE_SET_H
#define QKV_FILE_SET_H
#include "file/file.h"

// Limits of what is read; docs/formats.md lists them.
enum {
    QKV_HEADER_MAX = 100000000,   // bytes of a safetensors header
    QKV_NPY_HEADER_MAX = 1 << 20, // bytes of a .npy header
    QKV_INDEX_MAX = 256 << 20,    // bytes of a model.safetensors.index.json
    QKV_TENSORS_MAX = 1000000,    // tensors of one set
    QKV_META_MAX = 1000000,       // entries of __metadata__, over all files of one set
    QKV_SHARDS_MAX = 10000,       // files of one set
    QKV_NAME_MAX = 4096           // bytes of a name
};
#define QKV_DIM_MAX ((uint64_t)1 << 48)

// Names in order: each stands as its first 8 bytes, big-endian,
// so that most compares touch nothing else.
struct qkv_order {
    uint64_t key;
    uint32_t item;
};
// Stable: items of equal key stand as tie(ctx, a, b) says (< 0: a first), else as before.
// false: no memory, a as it was.
bool qkv_order_sort(struct qkv_order *a, int64_t n,
                    int (*tie)(const void *ctx, uint32_t a, uint32_t b), const void *ctx);
uint64_t qkv_order_key(const char *name);

struct qkv_meta {
    const char *key, *value;
};

// One file of a set, with what was made from it.
struct qkv_source {
    struct qkv_map map;
    char *text;       // names and metadata, terminated, one behind the other
    void *copy;       // .npy that could not stay as it lies in the file
    int64_t first, n; // its tensors are all[first .. first+n-1]
};

struct qkv_tensors {
    struct qkv_source *sources;
    int64_t n_sources, sources_room;
    struct qkv_tensor *all; // as they lie in the files
    int64_t n, room;
    struct qkv_order *order; // order[i].item: the i-th by name
    struct qkv_meta *meta;   // by key once the set is whole
    int64_t n_meta, meta_room;
};

// Each takes a zeroed place in t->sources with its map open, and adds its tensors to t->all.
qkv_status qkv_safetensors_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Byte of the name of a source's i-th tensor; for messages.
int64_t qkv_safetensors_where(const struct qkv_source *s, int64_t i);
qkv_status qkv_npy_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
qkv_status qkv_llama2c_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Is it to be read as a checkpoint of llama2.c, well-formed or not?  By its first bytes, else by
// its name (FILE.bin): version 0 begins with its sizes.
bool qkv_llama2c_is(const struct qkv_map *m);
// Of a model's place, FILE.bin or a folder with model.bin and no other model: the path of the file.
bool qkv_llama2c_find(char path[QKV_PATH], const char *place);
// Its header as the config.json of a Llama would have it, the caller's to decref.
qkv_status qkv_llama2c_config(json_t **out, const char *path, qkv_error *err);

// Opens the next source of t and reads it as safetensors.
qkv_status qkv_tensors_add(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);
// Sorts what was read by name; called once, when every source is in.
qkv_status qkv_tensors_sort(struct qkv_tensors *t, const char *file, qkv_error *err);
// All shards that FILE.index.json names, checked against it; sorts.
qkv_status qkv_shards_read(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);

// Bytes of count elements of a shape; false: a product does not fit.
bool qkv_shape_bytes(size_t *bytes, qkv_dtype dtype, int rank, const int64_t *shape);
#endif
