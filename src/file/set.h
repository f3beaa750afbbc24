// SPDX-License-Identifier: MIT
// set.h: declares, for the files of module file, a set of tensors and the readers that fill it.
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
// An item to sort and its key, which decides most comparisons.  The key of a name is its first 8
// bytes as a big-endian number.
struct qkv_order {
    uint64_t key;
    uint32_t item;
};
// Sorts list[n] by key, stably; tie(ctx, a, b) compares items with equal keys and is negative if a
// comes first.  Returns false if memory is exhausted: the list is then unchanged.
bool qkv_order_sort(struct qkv_order *list, int64_t n,
                    int (*tie)(const void *ctx, uint32_t a, uint32_t b), const void *ctx);
uint64_t qkv_order_key(const char *name);
// Compares two of the tensors ctx[] by their names: a function `tie` of qkv_order_sort().
int qkv_order_tensors(const void *ctx, uint32_t a, uint32_t b);

struct qkv_meta {
    const char *key, *value;
};

// One file of a set, with the memory that is allocated for the file.
struct qkv_source {
    struct qkv_map map;
    char *text; // names and metadata, NUL-terminated
    void *copy; // .npy data that had to be converted
    // .npy data that has to be converted, and how; data NULL: none, or it has been converted
    struct qkv_npy_data {
        const uint8_t *data;
        bool fortran, swap; // column-major, big-endian
    } raw;
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

// Each of these functions reads a file and appends its tensors to t->all.  The caller opens s->map;
// all other members of *s are zero.
qkv_status qkv_safetensors_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Returns the byte offset in the file of the name of the i-th tensor, for messages.
int64_t qkv_safetensors_where(const struct qkv_source *s, int64_t i);
// Leaves data that has to be converted in s->raw: qkv_npy_convert makes the copy.
qkv_status qkv_npy_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
qkv_status qkv_npy_convert(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
qkv_status qkv_llama2c_read(struct qkv_tensors *t, struct qkv_source *s, qkv_error *err);
// Returns true if the file should be read as a checkpoint of llama2.c, even if it is malformed.
// The first bytes of the file decide, or its name (FILE.bin), because version 0 of the format
// begins with sizes.
bool qkv_llama2c_is(const struct qkv_map *m);
// Finds the checkpoint of llama2.c at `place`, which is FILE.bin or a folder with model.bin and no
// other model.
bool qkv_llama2c_find(char path[QKV_PATH], const char *place);
// Converts the header of a llama2.c checkpoint to the config.json of a Llama; the caller calls
// json_decref.
qkv_status qkv_llama2c_config(json_t **out, const char *path, qkv_error *err);

// Opens the file at path as the next file of the set t, and reads it as safetensors.
qkv_status qkv_tensors_add(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);
// Sorts tensors and metadata by name; it is called once, after the last file of the set is read.
qkv_status qkv_tensors_sort(struct qkv_tensors *t, const char *file, qkv_error *err);
// Reads all shards that FILE.index.json names, checks them against the index, and sorts the
// tensors.
qkv_status qkv_shards_read(struct qkv_tensors *t, const char *path,
                           const struct qkv_tensors_options *o, qkv_error *err);

// Computes the number of bytes of a tensor from its shape.  Returns false if the product overflows.
bool qkv_shape_bytes(size_t *bytes, qkv_dtype dtype, int rank, const int64_t *shape);
#endif
