// SPDX-License-Identifier: MIT
// model_internal.h: declares the structs of a model that runs: stacks, blocks, output heads.
#ifndef QKV_MODEL_INTERNAL_H
#define QKV_MODEL_INTERNAL_H

#include "model/params/layout.h"
#include <pthread.h>
#include <stdatomic.h>

// An embedding table in the model file. If its rows are not floats or not aligned, each row is
// converted when a run needs it.
struct qkv_table {
    const struct qkv_tensor *tensor;
    const float *rows; // [n][D] the rows in the mapped file; NULL: convert each row
};

// One layer: self-attention, cross-attention and feed-forward, each with its norms. A sublayer or
// norm that the layer lacks has the size 0: heads.H, cross.H, mlp.up.K, or D of the norm. A model
// that runs has packed linear layers. In a model that is trained, the linear layers and norms have
// gradients, and each call packs the weights.
struct qkv_block {
    // norms before and after each sublayer, by QKV_SUBLAYER_*
    struct qkv_norm in[QKV_SUBLAYERS], out[QKV_SUBLAYERS];
    struct qkv_norm norm_q, norm_k; // norms of the query and key heads
    struct qkv_heads heads, cross;
    struct qkv_mlp mlp;
    bool local;     // a query attends only to the keys in its window
    bool unrotated; // queries and keys are not rotated, although other layers rotate theirs
    // relative-position table of this layer, with zeros for heads ablated to uniform weights; NULL:
    // the layer uses the table of the stack
    const float *relative;
};

// A stack: its embeddings, its layers, and the norms before and after the layers.
struct qkv_stack {
    bool causal;
    int64_t vocab;             // number of token ids in the input vocabulary
    struct qkv_table word;     // token embeddings; two stacks may share one table
    struct qkv_table position; // learned position embeddings
    struct qkv_norm embedding_norm, final_norm;
    struct qkv_linear embed_in; // projection of the embeddings to the model's width; K 0: none
    // [blocks] the layers; owned. If the description has mlp_once, one more block, with the only
    // feed-forward network, follows the layers
    struct qkv_block *block;
    int64_t layers, blocks;
    bool locals;     // at least one layer has a window
    float *relative; // [H][2 reach + 1] score bias per distance; NULL: no relative positions
    int64_t reach;
};

// Allocates the blocks of a stack and sets the members that the description determines. cross: true
// if the layers have cross-attention. Returns QKV_OK or QKV_ERR_LIMIT (stack.c).
qkv_status qkv_stack_alloc(struct qkv_stack *to, const struct qkv_description *d, int64_t layers,
                           bool cross);
// Gives layers that share weights the weights and norms of the first layer that has them. The
// ablation of a layer stays its own. Called again whenever the addresses of weights have changed.
void qkv_stack_share(struct qkv_stack *s, const struct qkv_description *d);
struct qkv_model;
// Returns the address of the member that a row of the layout table fills (role.def): a member of m,
// of the stack s, or of a block of s. m may be NULL if the row does not fill a member of m.
void *qkv_role_member(struct qkv_model *m, struct qkv_stack *s,
                      const struct qkv_parameter_row *row);
// Returns true if a block has the sublayer, one of QKV_SUBLAYER_*.
static inline bool qkv_block_has(const struct qkv_block *b, int sublayer)
{
    return sublayer == QKV_SUBLAYER_ATTENTION ? b->heads.H > 0
           : sublayer == QKV_SUBLAYER_CROSS   ? b->cross.H > 0
                                              : b->mlp.up.K > 0;
}
// Returns the number of sublayers of a stack.
int64_t qkv_stack_sublayers(const struct qkv_stack *s);

// The tensors from which a linear layer is packed.
struct qkv_linear_source {
    struct qkv_linear *to;
    enum qkv_pack_group group;
    const struct qkv_tensor *from[QKV_LINEAR_PARTS];
    // index of the first row of each part in its tensor, which several parts may share
    int64_t at[QKV_LINEAR_PARTS];
    const float *scale[QKV_LINEAR_PARTS]; // [N] row scales of int8 weights (I8)
    bool transposed;                      // tensors are stored as [in][out]
};

// An output head: out(norm(act(dense x))). A linear layer that the head lacks has K = 0; a norm
// that it lacks has D = 0.
struct qkv_end {
    struct qkv_linear dense, out;
    struct qkv_norm norm;
};

// The kinds of tables with one row per position. A run that needs more rows than earlier runs
// computes them. They are the position table of each stack (sinusoids, or learned rows that are not
// aligned floats in the file) and the cosines and sines of rotary positions.
enum qkv_rows_kind {
    QKV_ROWS_FIRST = 0,   // position table of stack 0
    QKV_ROWS_SECOND,      // position table of stack 1
    QKV_ROWS_TURNS,       // rotary positions
    QKV_ROWS_TURNS_LOCAL, // rotary positions of local layers, if they have another theta
    QKV_ROWS_KINDS
};

struct qkv_model {
    const struct qkv_family *family;
    const char *model_type;    // model_type in config.json: a row in model.def
    struct qkv_description is; // description read from config.json
    // Precision of all linear layers; attention uses qkv_precision_attention(precision).
    qkv_precision precision;
    char *dir, *name;
    qkv_tensors *file;
    const char *prefix; // prefix of the tensor names in this file: "" or the prefix of the family
    struct qkv_table type;
    int stacks; // 2: the second stack attends to the output of the first
    struct qkv_stack stack[2];
    struct qkv_end tokens, labels; // output heads for tokens and labels; out.K == 0: no such head
    // if the model has no output head for tokens: the name of the tensor that is missing
    char lacks[QKV_TENSOR_NAME];
    char **label;                // [is.labels] label names; NULL: config.json has none
    int32_t stop[QKV_STOPS_MAX]; // token ids that end a text
    int64_t stops;
    struct qkv_linear_source *source; // [sources] one per linear layer
    int64_t sources;
    float **own; // [owned] vectors converted to float, freed with the model
    int64_t owned, own_capacity;
    int64_t used;      // number of tensors in the file that the family uses
    int64_t positions; // maximum tokens of a sequence
    // held by a run that packs weights or computes position tables
    pthread_mutex_t lock;
    atomic_bool packed[QKV_PACK_GROUPS];
    char *weights[QKV_PACK_GROUPS]; // packed weights of all layers in a group
    // list of the position tables of each kind, newest first; NULL: no run has computed one
    _Atomic(struct qkv_rows_made *) made[QKV_ROWS_KINDS];
    // memory of the ablation arrays of all layers (ablate.c); NULL: no head is ablated
    void *ablated;
    // size of the running sums of heads ablated to their mean, in numbers per decoded token
    int64_t sums;
    struct qkv_workspace_pool workspaces; // memory of concurrent runs
};

// Finds the tensors that the description requires and checks their shapes and types. Reads the
// numbers of vectors only, not of matrices (bind.c).
qkv_status qkv_model_bind(struct qkv_model *m, qkv_error *err);
void qkv_model_unbind(struct qkv_model *m);
// Packs the weights of a group, with all threads, unless an earlier call has done so. Several
// threads may call this function at once. Returns QKV_OK or QKV_ERR_LIMIT (pack.c).
qkv_status qkv_model_pack(struct qkv_model *m, enum qkv_pack_group group);
// Copies row `row` of an embedding table to out[D], as float.
void qkv_table_row(float *out, const struct qkv_table *t, int64_t row, int64_t D);
#endif
