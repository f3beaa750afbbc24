// SPDX-License-Identifier: MIT
// file.h: the door of room file: bytes of checkpoints and arrays <-> named tensors.
#ifndef QKV_ROOM_FILE_H
#define QKV_ROOM_FILE_H
#include "base/base.h"
#include "file/config.h"

// ---- checkpoint.c, checkpoint_find.c: folders of a run, complete or not there -------------------
// RUN/checkpoint-00000100/ holds what a model folder holds and more, and manifest.json, written
// last: every file's size and SHA-256.  It is written as checkpoint-00000100.tmp/, synced, renamed;
// RUN/model is a link to the newest.  The last two stay.  docs/formats.md
enum { QKV_CHECKPOINT_NAME = 48 };
struct qkv_checkpoint {
    char run[QKV_PATH], dir[QKV_PATH]; // dir: where its files are written
    char name[QKV_CHECKPOINT_NAME];    // "checkpoint-00000100"
    int64_t step;
    bool open;
};
// Begins one: what unfinished ones left is removed, its folder is made.
// Returns QKV_OK; QKV_ERR_USAGE (step), QKV_ERR_IO
qkv_status qkv_checkpoint_begin(struct qkv_checkpoint *c, const char *run, int64_t step,
                                qkv_error *err);
// Manifest, sync, rename, link; older ones are removed but for the last before it and `keep` (a
// name, NULL: none).  On error the older ones are as they were, what was written is removed.
qkv_status qkv_checkpoint_commit(struct qkv_checkpoint *c, const char *keep, qkv_error *err);
void qkv_checkpoint_abort(struct qkv_checkpoint *c); // zeroed struct, after commit: nothing
// The link RUN/name shows `target`, replaced in one step.
qkv_status qkv_checkpoint_link(const char *run, const char *name, const char *target,
                               qkv_error *err);

struct qkv_checkpoint_found {
    int64_t step; // -1: there is none
    char dir[QKV_PATH], name[QKV_CHECKPOINT_NAME];
    int64_t passed;                            // names passed over: unfinished, or without manifest
    char passed_name[QKV_CHECKPOINT_NAME + 8]; // the newest of them
};
// The newest checkpoint of run that has a manifest, with every file as it says.
// Returns QKV_OK; QKV_ERR_FORMAT: a file of it differs: which, the tensor with its offset, and
// which checkpoint is before it; QKV_ERR_UNSUPPORTED: of a newer format; QKV_ERR_IO; QKV_ERR_LIMIT
qkv_status qkv_checkpoint_find(struct qkv_checkpoint_found *f, const char *run, qkv_error *err);

// ---- weights of 8 bits (docs/formats.md) --------------------------------------------------------
#define QKV_EIGHT_SCALE  ".scale"       // behind a tensor's name: that of its scales
#define QKV_EIGHT_BITS   "quantization" // key of a file's __metadata__: "int8"
#define QKV_EIGHT_METHOD "qkv-int8"     // quant_method of quantization_config in config.json

// ---- folder.c: a folder written whole or not at all ---------------------------------------------
struct qkv_folder {
    char path[QKV_PATH], dir[QKV_PATH]; // as it will be named; where its files are written
    bool force, replaces, open;
};
// QKV_ERR_USAGE: exists, and not force or no model's folder; QKV_ERR_IO: as the system says.
qkv_status qkv_folder_begin(struct qkv_folder *f, const char *path, bool force, qkv_error *err);
// Copies of files of `from`, and of folders in it `depth` deep, that are wanted and not there yet;
// what begins with a dot is passed over.  *left_out counts the others.
typedef bool qkv_folder_wanted(const char *name, int64_t bytes);
qkv_status qkv_folder_copy(const struct qkv_folder *f, const char *from, qkv_folder_wanted *wanted,
                           int depth, int64_t *left_out, qkv_error *err);
// On error the folder that was there is as it was.
qkv_status qkv_folder_commit(struct qkv_folder *f, qkv_error *err);
void qkv_folder_abort(struct qkv_folder *f); // zeroed struct, after commit: nothing
#endif
