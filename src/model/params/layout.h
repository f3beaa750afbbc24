// SPDX-License-Identifier: MIT
// layout.h: declares the layout table of a model: the list of its parameters, with the name and
// shape of each.
//
// Opening, packing, training, initialization, saving and, through an opened model, conversion read
// this table. No other code derives the tensors of a Transformer from its description.
#ifndef QKV_MODEL_LAYOUT_H
#define QKV_MODEL_LAYOUT_H

#include "model/family/description.h"

// Groups of layers: the stacks (BODY), the output head for tokens, the output head for labels. The
// layers of a group are packed together, and a model that is trained has all or none of the layers
// of an output head.
enum qkv_pack_group { QKV_PACK_BODY = 0, QKV_PACK_TOKENS, QKV_PACK_LABELS, QKV_PACK_GROUPS };

enum qkv_role {
#define QKV_ROLE(NAME, KIND, OWNER, MEMBER) QKV_ROLE_##NAME,
#include "model/params/role.def"
#undef QKV_ROLE
    QKV_ROLES // number of roles; also the role of every parameter of a recurrent model
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

// Kinds of initial values of a parameter; init.c defines their distribution in each scheme (enum
// qkv_scheme).
enum qkv_init {
    QKV_INIT_ZERO = 0,
    QKV_INIT_ONE,
    QKV_INIT_MATRIX,  // matrix inside a branch of the residual stream
    QKV_INIT_BRANCH,  // last matrix of a branch
    QKV_INIT_TABLE,   // rows of embeddings, projection to the vocabulary
    QKV_INIT_NORMAL,  // N(0, spread^2) in every scheme
    QKV_INIT_UNIFORM, // uniform in -spread .. spread, in every scheme
};

// One row of the layout table, which describes one parameter: a tensor of a checkpoint, or the part
// of a tensor that is one matrix or one bias.
struct qkv_parameter_row {
    enum qkv_role role;
    enum qkv_pack_group group; // the group of layers to which the parameter belongs
    int stack;                 // 0: first or only stack; 1: second stack of an encoder-decoder
    // index of the part in its linear layer: 0 .. 2 for q, k, v; 0 .. 1 for gate, up
    int part;
    int64_t layer;                  // the first layer that has the parameter
    struct qkv_layer_number number; // its numbers in the tensor name
    int64_t rows, columns;          // shape as the layer uses it; columns 0: a vector
    // The tensor name is the prefix of the checkpoint (if `prefixed`), the pattern, in which '#'
    // and '@' become numbers, and the suffix (NULL: "").
    const char *pattern, *suffix;
    // complete name of the tensor in files that lack the pattern's; NULL: no other name
    const char *other;
    bool prefixed;
    bool bias;       // the parameter is the bias of its norm or linear layer
    bool transposed; // stored as [columns][rows]
    bool joined;     // the parameter and the preceding row are parts of the same tensor
    bool optional;   // the tensor may be missing
    bool buffer;     // training does not change the parameter; its n numbers are stored as [1][n]
    bool zero_pad;   // the row of the padding token, if there is one, is initialized to 0
    enum qkv_init init;
    // init NORMAL: standard deviation; UNIFORM: largest absolute value; MATRIX: factor of the
    // bounds in scheme XAVIER, 0 means 1
    double spread;
};

// Returns the parameters of the Transformer d of a family, in a fixed order: token and type tables;
// for each stack its position table, norm of the embeddings, relative positions, blocks and final
// norm; the output head for tokens; the output head for labels, if d->labels > 0. Parts of one
// linear layer are adjacent, matrices before biases. Buffers are last. The caller frees *rows, an
// array of *count rows, with qkv_free. Returns QKV_OK or QKV_ERR_LIMIT (err filled).
qkv_status qkv_layout(struct qkv_parameter_row **rows, int64_t *count,
                      const struct qkv_description *d, const struct qkv_family *family,
                      qkv_error *err);

// Returns the name of the last layer of the output head for labels: of texts or, if d->label_pool is
// QKV_LABEL_EACH, of tokens. NULL: models of the family, or of the class that config.json names, have
// no such head.
const char *qkv_labels_name(const struct qkv_description *d, const struct qkv_family *family);
// Returns the number of labels: the rows of the last layer of the head for labels in the file; 0: the
// file has no such head.
int64_t qkv_count_labels(const qkv_tensors *file, const struct qkv_description *d,
                         const struct qkv_family *family);

// Sets d->decoder_vocab if the file of an untied model has a table of token embeddings for each stack,
// besides the shared one, which the model then does not use.
void qkv_find_own_words(struct qkv_description *d, const qkv_tensors *file, const char *prefix,
                        const struct qkv_family *family);

// Sets d->untied if the file of a model that config.json calls tied has an output projection other
// than its table of token embeddings: like the reference, qkv then uses both.
void qkv_find_own_logits(struct qkv_description *d, const qkv_tensors *file, const char *prefix,
                         const struct qkv_family *family);

// Returns how many of the adjacent rows row[0 .. count-1] are parts of the same tensor as row[0].
int64_t qkv_tensor_rows(const struct qkv_parameter_row *row, int64_t count);
// Returns how many of the adjacent rows row[0 .. count-1] belong to the same layer as row[0] (same
// role, stack and layer number).
int64_t qkv_layer_rows(const struct qkv_parameter_row *row, int64_t count);
// Writes the tensor name of a row of the layout table, for a checkpoint whose names have this
// prefix.
void qkv_row_name(char out[QKV_TENSOR_NAME], const char *prefix,
                  const struct qkv_parameter_row *row);
// Writes the shape that the tensor of row[0 .. parts-1] has in checkpoints; returns its rank, 1 or
// 2.
int qkv_row_shape(int64_t shape[2], const struct qkv_parameter_row *row, int64_t parts);

// Returns the file's tensor for a row of the layout table; NULL: the file lacks this tensor
// (match.c).
const struct qkv_tensor *qkv_row_find(const qkv_tensors *file, const char *prefix,
                                      const struct qkv_parameter_row *row);
// Finds the tensor that row[0 .. parts-1] share, checks its shape and element type, and sets *out
// to it. eight_bits: the tensor may be int8 with scales (docs/formats.md). Returns QKV_OK;
// QKV_ERR_FORMAT if the tensor is missing or has another shape; QKV_ERR_UNSUPPORTED if it has
// another element type. The error gives dir, the tensor, and the expected and found values.
qkv_status qkv_row_tensor(const struct qkv_tensor **out, const qkv_tensors *file,
                          const char *prefix, const struct qkv_parameter_row *row, int64_t parts,
                          bool eight_bits, const char *dir, qkv_error *err);
#endif
