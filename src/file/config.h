// SPDX-License-Identifier: MIT
// config.h: declares the strict reader of config.json.
//
// This header is part of the interface of module file.  A value that is absent, of another type or
// out of range is an error that names the file and the key; qkv guesses no value, even where
// Hugging Face transformers silently uses a default.
#ifndef QKV_FILE_CONFIG_H
#define QKV_FILE_CONFIG_H
#include "base/base.h"

enum {
    QKV_CONFIG_BYTES_MAX = 16 << 20, // enough for a long list of labels
    QKV_LAYERS_MAX = 1 << 10,
    QKV_HEADS_MAX = 1 << 12,
    QKV_WIDTH_MAX = 1 << 16,
    QKV_INNER_MAX = 1 << 20,
    QKV_VOCAB_MAX = 1 << 24,
    QKV_POSITIONS_MAX = 1 << 24
};

// An opened config.json; *err receives the first error.
struct qkv_config {
    json_t *root;
    char *file;
    qkv_error *err;
};

// Opens dir/config.json.  If dir is a llama2.c checkpoint (FILE.bin, or a folder with only
// model.bin), the function makes a config from the header of the checkpoint.  err must be valid
// until close.
qkv_status qkv_config_open(struct qkv_config *c, const char *dir, qkv_error *err);
void qkv_config_close(struct qkv_config *c); // a zeroed struct is allowed

// Each function reads the value of a key.  A key that is missing or null is an error if `need` is
// true; otherwise *out keeps its value.  *out changes only on success.  Returns false if c->err
// contains an error.
bool qkv_config_int(const struct qkv_config *c, const char *key, bool need, int64_t *out,
                    int64_t min,
                    int64_t max); // above max: QKV_ERR_LIMIT; below min: QKV_ERR_FORMAT
bool qkv_config_real(const struct qkv_config *c, const char *key, bool need, double *out,
                     double min, double max);
bool qkv_config_flag(const struct qkv_config *c, const char *key, bool need, bool *out);
// Reads a text that must be one of names[], which ends with NULL, and writes its index to *out.
// Any other text is QKV_ERR_UNSUPPORTED with the list of names.
bool qkv_config_choice(const struct qkv_config *c, const char *key, bool need, int *out,
                       const char *const *names);
// Returns the value of model_type, valid until close.  If the key is absent or not a text, returns
// NULL and reports an error that lists the types in `known`, such as "a, b, c".
const char *qkv_config_model_type(const struct qkv_config *c, const char *known);

// Reports an error in the value of a key, with the location "FILE: $.key"; always returns false.
bool qkv_config_refuse(const struct qkv_config *c, qkv_status status, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

// The names of the keys of config.json that contain the sizes of models of a family.  A NULL name
// means that the family has no such key, and the size keeps its value.
struct qkv_config_keys {
    const char *width, *inner, *layers, *heads, *kv_heads, *vocab, *positions, *types;
    const char *eps, *pad;
    const char *dropout[4]; // checked only: 0 .. 1
    // true: the family has a separate key for the width of a head, so the number of heads need not
    // divide the width
    bool free_heads;
};
struct qkv_config_sizes {
    int64_t width, inner, layers, heads, kv_heads, vocab, positions, types;
    int64_t pad; // token id, -1: none
    double eps;
};
// Reads all sizes of a model.  Each key that k names must exist, except kv_heads, whose default is
// the value of heads, and types, eps and pad, which keep their values if the key is missing.  heads
// must divide width unless free_heads is true, and kv_heads must divide heads.
bool qkv_config_sizes(const struct qkv_config *c, const struct qkv_config_keys *k,
                      struct qkv_config_sizes *s);
#endif
