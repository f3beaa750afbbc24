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
#endif
