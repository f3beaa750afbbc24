// SPDX-License-Identifier: MIT
// set.h: declares an opened set of tensors and the readers that fill it, inside module file.
#ifndef QKV_FILE_SET_H
#define QKV_FILE_SET_H
#include "file/file.h"

// Limits of the readers; docs/formats.md lists them.
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

// ---- name_order.c: items sorted by name --------------------------------------------------------
// An item and a key that decides most comparisons: of a name its first 8 bytes, big-endian.
struct qkv_order {
    uint64_t key;
    uint32_t item;
};
// Sorts list[n] by key, stably; tie(ctx, a, b) compares items with equal keys and is negative if a
// comes first.  false: out of memory, the list is unchanged.
bool qkv_order_sort(struct qkv_order *list, int64_t n,
                    int (*tie)(const void *ctx, uint32_t a, uint32_t b), const void *ctx);
uint64_t qkv_order_key(const char *name);

struct qkv_meta {
    const char *key, *value;
};

// One file of a set, with the memory allocated for it.
struct qkv_source {
    struct qkv_map map;
    char *text;       // names and metadata, NUL-terminated
    void *copy;       // .npy data that had to be converted
    int64_t first, n; // its tensors are all[first .. first+n-1]
};

struct qkv_tensors {
    struct qkv_source *sources;
    int64_t n_sources, sources_capacity;
    struct qkv_tensor *all; // in the order of the files
    int64_t n, capacity;
    struct qkv_order *order; // order[i].item: the i-th by name
    struct qkv_meta *meta;   // by key once the set is complete
    int64_t n_meta, meta_capacity;
};

// Each reads a file and appends its tensors to t->all.  In *s the map of the file is open, and all
// other members are zero.
qkv_status qkv_safetensors_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Returns the offset of the name of the i-th tensor of a source, for messages.
int64_t qkv_safetensors_where(const struct qkv_source *s, int64_t i);
qkv_status qkv_npy_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
qkv_status qkv_llama2c_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Returns true if the file is to be read as a checkpoint of llama2.c, well-formed or not: by its
// first bytes, or by its name (FILE.bin), since version 0 begins with its sizes.
bool qkv_llama2c_is(const struct qkv_map *m);
// Finds the checkpoint of llama2.c for `place`: FILE.bin, or a folder with model.bin and no other
// model.
bool qkv_llama2c_find(char path[QKV_PATH], const char *place);
// Converts the header of a llama2.c checkpoint to the config.json of a Llama; the caller calls
// json_decref.
qkv_status qkv_llama2c_config(json_t **out, const char *path, qkv_error *err);

// Opens the next source of t and reads it as safetensors.
qkv_status qkv_tensors_add(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);
// Sorts tensors and metadata by name; called once, after the last source.
qkv_status qkv_tensors_sort(struct qkv_tensors *t, const char *file, qkv_error *err);
// Reads all shards that FILE.index.json names, checks them against that index, and sorts the
// tensors.
qkv_status qkv_shards_read(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);

// Computes the number of bytes of a tensor from its shape; false: the product overflows.
bool qkv_shape_bytes(size_t *bytes, qkv_dtype dtype, int rank, const int64_t *shape);
#endif
