// SPDX-License-Identifier: MIT
// config.h: config.json of a model folder, read strictly: a size is there, an integer, in its
// range.
//
// Part of the door of room file.  A value that is absent, of another type or out of range is an
// error that names the file and the key; nothing is guessed where the reference guesses in silence.
#ifndef QKV_FILE_CONFIG_H
#define QKV_FILE_CONFIG_H
#include "base/base.h"

enum {
    QKV_CONFIG_BYTES_MAX = 16 << 20, // a list of labels may be long, a config is not longer
    QKV_LAYERS_MAX = 1 << 10,
    QKV_HEADS_MAX = 1 << 12,
    QKV_WIDTH_MAX = 1 << 16,
    QKV_INNER_MAX = 1 << 20,
    QKV_VOCAB_MAX = 1 << 24,
    QKV_POSITIONS_MAX = 1 << 24
};

// An opened config.json; err takes the first thing that is wrong.
struct qkv_config {
    json_t *root;
    char *file;
    qkv_error *err;
};

// dir/config.json, or what a checkpoint of llama2.c (dir: FILE.bin, or a folder with model.bin
// alone) says in its header.  err is kept until close.
qkv_status qkv_config_open(struct qkv_config *c, const char *dir, qkv_error *err);
void qkv_config_close(struct qkv_config *c); // a zeroed struct is fine

// One value each.  need: a missing key is an error; else *out keeps what it holds.  null counts as
// missing.  Out: *out only on success.  Returns false with c->err filled.
bool qkv_config_int(const struct qkv_config *c, const char *key, bool need, int64_t *out,
                    int64_t min,
                    int64_t max); // above max: QKV_ERR_LIMIT; below min: QKV_ERR_FORMAT
bool qkv_config_real(const struct qkv_config *c, const char *key, bool need, double *out,
                     double min, double max);
bool qkv_config_flag(const struct qkv_config *c, const char *key, bool need, bool *out);
// *out = place of the text in names[], which ends with NULL; another text is QKV_ERR_UNSUPPORTED
// and the message lists them.
bool qkv_config_choice(const struct qkv_config *c, const char *key, bool need, int *out,
                       const char *const *names);
// The value of model_type, borrowed; NULL (absent, no text): c->err lists known, "a, b, c".
const char *qkv_config_model_type(const struct qkv_config *c, const char *known);

// Fails for the value of key: "AT $.key: ...".  Returns false.
bool qkv_config_refuse(const struct qkv_config *c, qkv_status status, const char *key,
                       const char *format, ...) __attribute__((format(printf, 4, 5)));

// What a family calls the sizes; NULL: it has none, the value stays as it was.
struct qkv_config_keys {
    const char *width, *inner, *layers, *heads, *kv_heads, *vocab, *positions, *types;
    const char *eps, *pad;
    const char *dropout[4]; // only looked at: 0 .. 1
    bool free_heads; // heads have a width of their own: they need not divide that of the model
};
struct qkv_config_sizes {
    int64_t width, inner, layers, heads, kv_heads, vocab, positions, types;
    int64_t pad; // token id, -1: none
    double eps;
};
// All sizes of a family at once: each key that is named must be there, except kv_heads (then as
// many as heads), types, eps and pad, which keep what *s holds.  heads divide width (unless
// free_heads), kv_heads divide heads.
bool qkv_config_sizes(const struct qkv_config *c, const struct qkv_config_keys *k,
                      struct qkv_config_sizes *s);
#endif
