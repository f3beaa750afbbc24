// SPDX-License-Identifier: MIT
// checkpoint_names.h: inside of room file: what the writer and the reader of checkpoints share.
#ifndef QKV_FILE_CHECKPOINT_NAMES_H
#define QKV_FILE_CHECKPOINT_NAMES_H
#include "file/set.h"

#define QKV_MANIFEST        "manifest.json"
#define QKV_MANIFEST_FORMAT "qkv-checkpoint"
enum { QKV_MANIFEST_VERSION = 1, QKV_MANIFEST_MAX = 256 << 20 };

// A folder of a run by its name.
enum qkv_checkpoint_kind {
    QKV_NOT_A_CHECKPOINT = 0,
    QKV_CHECKPOINT_WHOLE,      // checkpoint-00000100
    QKV_CHECKPOINT_UNFINISHED, // checkpoint-00000100.tmp: being written, or being removed
    QKV_CHECKPOINT_REPLACED    // checkpoint-00000100.old: another of its step takes its place
};
enum qkv_checkpoint_kind qkv_checkpoint_kind(const char *name, int64_t *step);

// Names of kind WHOLE with a manifest (or without), or of another kind; steps, rising.
struct qkv_checkpoint_list {
    int64_t *steps;
    int64_t n, room;
};
qkv_status qkv_checkpoint_list(struct qkv_checkpoint_list *l, const char *run,
                               enum qkv_checkpoint_kind kind, bool with_manifest, qkv_error *err);
void qkv_checkpoint_name(char out[QKV_CHECKPOINT_NAME], int64_t step);

// 64 bits of bytes: tells where a file differs, once its SHA-256 has told that it does.
uint64_t qkv_sum64(const void *data, size_t bytes);
#endif
