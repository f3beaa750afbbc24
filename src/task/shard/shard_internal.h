// SPDX-License-Identifier: MIT
// shard_internal.h: declares the manifest of a part.
#ifndef QKV_TASK_SHARD_INTERNAL_H
#define QKV_TASK_SHARD_INTERNAL_H

#include "base/base.h"
#include <qkv/shard.h>

// A manifest that was read.
struct qkv_part_manifest {
    json_t *root;
    const json_t *run; // {name: text} of the members that all parts have in common
    struct qkv_shard shard;
    int64_t first, rows;
    int64_t bytes;                // of the part
    char sha256[QKV_SHA256_TEXT]; // of the part
};
// Reads and checks the manifest of the part at path.  The caller frees m->root by json_decref.
qkv_status qkv_part_manifest_read(struct qkv_part_manifest *m, const char *path, qkv_error *err);
// Writes the path of the manifest of a part.
qkv_status qkv_part_manifest_path(char out[QKV_PART_PATH], const char *path, qkv_error *err);
// Compares the members `found` of a run with the expected ones.  Returns QKV_ERR_USAGE if one
// differs: err names the part, the member, and `whose`, the source of the expected members.
qkv_status qkv_part_members_compare(const json_t *found, const json_t *expected, const char *path,
                                    const char *whose, qkv_error *err);
// Reads the file of a part, compares it with its manifest, and passes its bytes to write, as
// qkv_parts_read does; write NULL: compares only.
qkv_status qkv_part_read(const struct qkv_part_manifest *m, const char *path, int64_t skip,
                         int (*write)(void *user, const void *data, size_t bytes), void *user,
                         qkv_error *err);
#endif
