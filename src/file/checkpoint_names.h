// SPDX-License-Identifier: MIT
// checkpoint_names.h: declares the folder names and checksums that both the writer and the reader
// of checkpoints use.
#ifndef QKV_FILE_CHECKPOINT_NAMES_H
#define QKV_FILE_CHECKPOINT_NAMES_H
#include "file/set.h"

#define QKV_MANIFEST        "manifest.json"
#define QKV_WEIGHTS         "model.safetensors"
#define QKV_MANIFEST_FORMAT "qkv-checkpoint"
enum { QKV_MANIFEST_VERSION = 1, QKV_MANIFEST_MAX = 256 << 20 };

// The kind of a folder in a run, derived from the name of the folder.
enum qkv_checkpoint_kind {
    QKV_NOT_A_CHECKPOINT = 0,
    QKV_CHECKPOINT_WHOLE,      // checkpoint-00000100
    QKV_CHECKPOINT_UNFINISHED, // checkpoint-00000100.tmp: being written, or being removed
    QKV_CHECKPOINT_REPLACED    // checkpoint-00000100.old: replaced by another of its step
};
enum qkv_checkpoint_kind qkv_checkpoint_kind(const char *name, int64_t *step);

// A list of the steps of checkpoint folders of one kind, in ascending order.  Of the kind WHOLE, it
// contains only folders with a manifest if with_manifest is true, otherwise only folders without.
struct qkv_checkpoint_list {
    int64_t *steps;
    int64_t n, capacity;
};
qkv_status qkv_checkpoint_list(struct qkv_checkpoint_list *l, const char *run,
                               enum qkv_checkpoint_kind kind, bool with_manifest, qkv_error *err);
void qkv_checkpoint_name(char out[QKV_CHECKPOINT_NAME], int64_t step);

// Computes a 64-bit checksum of one tensor, by which a difference is located in a file whose
// SHA-256 differs.
uint64_t qkv_sum64(const void *data, size_t bytes);
#endif
