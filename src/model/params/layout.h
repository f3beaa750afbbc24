// SPDX-License-Identifier: MIT
// layout.h: declares the table of parameters that a description needs.
//
// Opening, packing, training, initialization, saving and conversion read this table; nothing else
// derives tensors from a description.
#ifndef QKV_MODEL_LAYOUT_H
#define QKV_MODEL_LAYOUT_H

#include "model/family/description.h"

// Groups of layers that are packed, and trained, together: the stacks, the projection to tokens,
// the head for labels.
enum qkv_pack_group { QKV_PACK_BODY = 0, QKV_PACK_TOKENS, QKV_PACK_LABELS, QKV_PACK_GROUPS };

enum qkv_role {
#define QKV_ROLE(NAME, KIND, OWNER, MEMBER) QKV_ROLE_##NAME,
#include "model/params/role.def"
#undef QKV_ROLE
    QKV_ROLES // number of roles; a recurrent model has parameters without a role
};
enum qkv_role_kind {
    QKV_ROLE_IS_TABLE = 0,
    QKV_ROLE_IS_RELATIVE,
    QKV_ROLE_IS_NORM,
    QKV_ROLE_IS_LINEAR,
    QKV_ROLE_IS_LOGITS,
    QKV_ROLE_IS_OFFSET
};
enum qkv_role_kind qkv_role_kind(enum qkv_role role);

// Initial values of a parameter; init.c defines how each scheme draws them.
enum qkv_init {
    QKV_INIT_ZERO = 0,
    QKV_INIT_ONE,
    QKV_INIT_MATRIX,  // matrix inside a branch of the residual stream
    QKV_INIT_BRANCH,  // last matrix of a branch
    QKV_INIT_TABLE,   // rows of embeddings, projection to the vocabulary
    QKV_INIT_NORMAL,  // N(0, spread^2) in every scheme
    QKV_INIT_UNIFORM, // uniform in -spread .. spread, in every scheme
};

// One parameter: a tensor of a checkpoint, or the rows of it that belong to one matrix or bias.
struct qkv_parameter_row {
    enum qkv_role role;
    enum qkv_pack_group group; // stacks, projection to tokens, or head for labels
    int stack;                 // 0: first or only stack; 1: second stack of an encoder-decoder
    int part;                  // index in its linear layer: q, k, v 0 .. 2; gate, up 0 .. 1
    int64_t layer;
    int64_t rows, columns; // shape as the layer uses it; columns 0: a vector
    // Tensor name: prefix (where prefixed), pattern with '#' as the layer number, suffix (NULL:
    // "").
    const char *pattern, *suffix;
    bool prefixed;
    bool bias;       // bias of its norm or linear layer
    bool transposed; // stored as [columns][rows]
    bool joined;     // continues the tensor of the preceding row
    bool optional;   // the tensor may be missing
    bool buffer;     // not changed by training; its n numbers are stored as [1][n]
    bool zero_pad;   // the row of the padding token, if there is one, starts as 0
    enum qkv_init init;
    // NORMAL: standard deviation; UNIFORM: bound; MATRIX: factor of the bounds of XAVIER, 0: 1
    double spread;
};

// Returns the parameters of a Transformer d of a family, in a fixed order: token, type and position
// tables, blocks by layer, stack by stack, then the projection to tokens, then the head for labels
// (d->labels > 0). Parts of one linear layer are adjacent, matrices before biases. Buffers are
// last. *rows: [*count], which the caller frees with qkv_free. Returns QKV_OK or QKV_ERR_LIMIT (err
// filled).
qkv_status qkv_layout(struct qkv_parameter_row **rows, int64_t *count,
                      const struct qkv_description *d, const struct qkv_family *family,
                      qkv_error *err);

// Returns how many of the `count` rows from row[0] on are parts of the same tensor as row[0].
int64_t qkv_tensor_rows(const struct qkv_parameter_row *row, int64_t count);
// Returns how many of these rows belong to the same layer as row[0] (same role, stack and layer
// number).
int64_t qkv_layer_rows(const struct qkv_parameter_row *row, int64_t count);
// Writes the tensor name of a row of the layout table, for a checkpoint whose names have this
// prefix.
void qkv_row_name(char out[QKV_TENSOR_NAME], const char *prefix,
                  const struct qkv_parameter_row *row);
// Writes shape[rank] of the tensor that row[0 .. parts-1] share, as stored in checkpoints; returns
// rank.
int qkv_row_shape(int64_t shape[2], const struct qkv_parameter_row *row, int64_t parts);

// Returns the file's tensor for a row of the layout table; NULL: the file has none (match.c).
const struct qkv_tensor *qkv_row_find(const qkv_tensors *file, const char *prefix,
                                      const struct qkv_parameter_row *row);
// Sets *out to the tensor that row[0 .. parts-1] share, after checking its shape and element type.
// eight_bits: weights of a linear layer may be int8 with scales (docs/formats.md). Returns QKV_OK;
// QKV_ERR_FORMAT if the tensor is missing or has another shape; QKV_ERR_UNSUPPORTED if it has
// another element type. The error gives dir, the tensor, and the expected and found values.
qkv_status qkv_row_tensor(const struct qkv_tensor **out, const qkv_tensors *file,
                          const char *prefix, const struct qkv_parameter_row *row, int64_t parts,
                          bool eight_bits, const char *dir, qkv_error *err);
#endif
