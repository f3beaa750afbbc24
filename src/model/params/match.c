// SPDX-License-Identifier: MIT
// match.c: finds the tensors of a checkpoint for rows of the layout table, and checks their shapes
// and types.
#include "model/params/layout.h"
#include <stdio.h>

const struct qkv_tensor *qkv_row_find(const qkv_tensors *file, const char *prefix,
                                      const struct qkv_parameter_row *row)
{
    char name[QKV_TENSOR_NAME];
    qkv_row_name(name, prefix, row);
    const struct qkv_tensor *t = qkv_tensor_named(file, name);
    return t || !row->other ? t : qkv_tensor_named(file, row->other);
}

static qkv_status refuse(qkv_error *err, const char *dir, qkv_status status, const char *name,
                         const char *text, const char *expected, const char *found)
{
    return qkv_fail(err, status, &(struct qkv_location){ .file = dir, .path = name },
                    "%s, expected %s, found %s", text, expected, found);
}

// Returns true if the file has the tensor of scales for the int8 weights `name` (docs/formats.md).
static bool has_scales(const qkv_tensors *file, const char *name)
{
    char scale[QKV_TENSOR_NAME + sizeof QKV_EIGHT_SCALE];
    snprintf(scale, sizeof scale, "%s" QKV_EIGHT_SCALE, name);
    return qkv_tensor_named(file, scale) != NULL;
}

// Returns true if t has the given shape. vector: t may have the shape [n] or [1][n].
static bool same_shape(const struct qkv_tensor *t, const int64_t *shape, int rank, bool vector)
{
    if (vector && t->rank == 2 && t->shape[0] == 1) return t->shape[1] == shape[rank - 1];
    if (vector && t->rank == 1) return t->shape[0] == shape[rank - 1];
    return t->rank == rank && t->shape[0] == shape[0] && (rank == 1 || t->shape[1] == shape[1]);
}

qkv_status qkv_row_tensor(const struct qkv_tensor **out, const qkv_tensors *file,
                          const char *prefix, const struct qkv_parameter_row *row, int64_t parts,
                          bool eight_bits, const char *dir, qkv_error *err)
{
    char name[QKV_TENSOR_NAME], expected[160], found[160];
    int64_t shape[2];
    const int rank = qkv_row_shape(shape, row, parts);
    qkv_row_name(name, prefix, row);
    qkv_shape_text(expected, shape, rank);
    const struct qkv_tensor *t = qkv_row_find(file, prefix, row);
    if (!t) return refuse(err, dir, QKV_ERR_FORMAT, name, "missing tensor", expected, "none");
    qkv_shape_text(found, t->shape, t->rank);
    if (!same_shape(t, shape, rank, !row->columns))
        return refuse(err, dir, QKV_ERR_FORMAT, name,
                      "shape of the tensor differs from config.json", expected, found);
    const bool floats =
        t->dtype == QKV_F32 || t->dtype == QKV_F16 || t->dtype == QKV_BF16 || t->dtype == QKV_F64;
    if (!floats && !(eight_bits && t->dtype == QKV_I8 && has_scales(file, name)))
        return refuse(err, dir, QKV_ERR_UNSUPPORTED, name, "unsupported type of the tensor",
                      "F32, F16, BF16 or F64", qkv_dtype_name(t->dtype));
    *out = t;
    return QKV_OK;
}
