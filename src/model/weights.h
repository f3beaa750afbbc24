// SPDX-License-Identifier: MIT
// weights.h: tensors of a checkpoint as the layers take them, for the file that says which.
#ifndef QKV_MODEL_WEIGHTS_H
#define QKV_MODEL_WEIGHTS_H

#include "model/model.h"

// A stem with the number of its layer, and what stands before it.
struct qkv_stem {
    const char *prefix, *name;
    int64_t layer;
};
// Up to three weights that read the same K columns, N[p] rows each.  Parts of one name are rows of
// one tensor, one behind the other.
struct qkv_linear_want {
    enum qkv_pack_group group;
    const char *stems[QKV_LINEAR_PARTS];
    int64_t N[QKV_LINEAR_PARTS];
    int parts;
    int64_t K;
    bool bias, transposed;
};

// Each: QKV_OK, or err names the tensor, both shapes or both types.
qkv_status qkv_take_table(struct qkv_model *m, struct qkv_table *out, struct qkv_stem at,
                          int64_t rows, int64_t columns, qkv_error *err);
qkv_status qkv_take_vector(struct qkv_model *m, const float **out, struct qkv_stem at,
                           const char *suffix, int64_t n, qkv_error *err);
// The description's norm_offset is in the weights.
qkv_status qkv_take_norm(struct qkv_model *m, struct qkv_norm *out, struct qkv_stem at, int64_t D,
                         enum qkv_norm_kind kind, qkv_error *err);
qkv_status qkv_take_linear(struct qkv_model *m, struct qkv_linear *out,
                           const struct qkv_linear_want *want, const char *prefix, int64_t layer,
                           qkv_error *err);
// A linear layer without a bias over the rows of a table that was taken.
void qkv_take_tied(struct qkv_model *m, struct qkv_linear *out, const struct qkv_table *table,
                   enum qkv_pack_group group);
// The same over a tensor of its own, whose whole name `at` is.
qkv_status qkv_take_projection(struct qkv_model *m, struct qkv_linear *out, struct qkv_stem at,
                               int64_t rows, int64_t columns, enum qkv_pack_group group,
                               qkv_error *err);
// A vector of n floats that the model frees; NULL: no memory, err says so.
float *qkv_take_memory(struct qkv_model *m, int64_t n, qkv_error *err);
// The family's tensor of this name is in the file.
const struct qkv_tensor *qkv_take_find(const struct qkv_model *m, struct qkv_stem at,
                                       const char *suffix);
#endif
