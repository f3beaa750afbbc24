// SPDX-License-Identifier: MIT
// net_parts.h: inside of a model that learns: its weights as they are declared, and what a kind of
// net brings (Transformer: net_run.c, net_decode.c, ...; recurrent with attention: net_gru.c).
#ifndef QKV_MODEL_NET_PARTS_H
#define QKV_MODEL_NET_PARTS_H

#include "model/model.h"

// ---- weights (net.c) ---------------------------------------------------------------------------
// One weight: its numbers and their gradients, [rows][columns]; NULL: the net has none here.
struct qkv_weight {
    real *value, *grad;
};

// How the numbers of a weight begin.
enum qkv_begin { QKV_BEGIN_ZERO = 0, QKV_BEGIN_ONE, QKV_BEGIN_NORMAL, QKV_BEGIN_UNIFORM };

// A weight as it is declared.  Weights declared one after the other lie one behind the other
// without a gap, so that those that read the same rows are one product.
struct qkv_declaration {
    const char *name; // of its tensor, '#' stands for the layer
    const char *suffix;
    int64_t layer;
    int64_t rows, columns; // as layers read it; columns 0: a vector
    enum qkv_begin begin;
    double spread;    // NORMAL: the deviation; UNIFORM: -spread .. spread
    int64_t zero_row; // 1 + the row that begins as 0 (padding); 0: none
    bool decay, sparse;
    bool transposed; // in the file: [columns][rows]
    bool joined;     // in the file: continues the rows of the tensor of the same name
    bool bare;       // the family's prefix does not stand before its name
    bool optional;   // a file may lack it: then it begins as from scratch
};
// Adds a weight; to->value and to->grad are set when all are declared (NULL: nobody asks).  false:
// no memory, and every later call says so too.
bool qkv_net_declare(qkv_net *n, struct qkv_weight *to, const struct qkv_declaration *d);

// Two kinds of layers as weights.
struct qkv_net_linear {
    int64_t K, N;           // N: of all parts that lie together.  0: there is no such layer
    struct qkv_weight w, b; // b.value NULL: no bias
};
struct qkv_net_norm {
    int64_t D; // 0: there is no such norm
    struct qkv_weight w, b;
    real eps;
    enum qkv_norm_kind kind;
};

// ---- what a kind of net brings -----------------------------------------------------------------
// Each is called with sequences that were checked (ids, lengths, offsets); status other than
// QKV_OK: err is filled.
//
// The recurrent net is net_gru.c, its config.json gru_attention.c.
struct qkv_net_methods {
    // Declares every weight from n->is and n->shape.  QKV_OK or QKV_ERR_LIMIT.
    qkv_status (*declare)(qkv_net *n, qkv_error *err);
    void (*free)(qkv_net *n); // what declare took
    // As qkv_net_run.
    qkv_status (*run)(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                      bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err);
    // As qkv_net_alignment; layer is not negative.
    qkv_status (*align)(qkv_net *n, real *weights, int64_t layer, const struct qkv_sequences *in,
                        const struct qkv_sequences *source, qkv_error *err);
    // Decoding step by step: `beam` hypotheses a source, side by side: row = source beam +
    // hypothesis.
    // begin: *state for at most `most` steps.  step: logits[rows][vocab] behind tokens[rows], which
    // stand at place t; t counts from 0.  reorder: hypothesis `row` goes on from what parent[row]
    // was.  end: NULL is fine.
    // What step computes for a row depends on that row's source and tokens alone.
    qkv_status (*begin)(void **state, qkv_net *n, const struct qkv_sequences *source, int beam,
                        int64_t most, qkv_error *err);
    qkv_status (*step)(void *state, real *logits, const int32_t *tokens, int64_t t, qkv_error *err);
    void (*reorder)(void *state, const int64_t *parent, int64_t t);
    void (*end)(void *state);
};
extern const struct qkv_net_methods qkv_net_transformer, qkv_net_gru;

// ---- architectures (net.c, net.def) ------------------------------------------------------------
// How matrices and embeddings begin: NORMAL  N(0, spread^2);  RESIDUAL  the same, those that end a
// branch of the residual stream divided by sqrt(2 layers);  XAVIER  uniform by fan-in and fan-out,
// embeddings N(0, 1 / width).  Biases begin as 0, norms as 1.
enum qkv_scheme { QKV_SCHEME_NORMAL = 0, QKV_SCHEME_RESIDUAL, QKV_SCHEME_XAVIER };
struct qkv_net_arch {
    const char *name, *families[2];
    const struct qkv_net_methods *methods;
    struct qkv_description is;
    enum qkv_scheme scheme;
    double spread;
};

// ---- a net -------------------------------------------------------------------------------------
// What saving needs to know of a parameter beside struct qkv_parameter; same order.
struct qkv_net_slot {
    struct qkv_weight *to;
    bool missing; // the folder had none: it begins as from scratch
    enum qkv_begin begin;
    double spread;
    int64_t zero_row;
    int64_t at; // in values and gradients
    bool transposed, joined, optional;
};

// A tensor of the folder that the net does not know, saved as it came.
struct qkv_net_carried {
    struct qkv_tensor tensor; // name and data are owned
};

struct qkv_net {
    enum qkv_net_kind kind;
    struct qkv_net_shape shape;
    struct qkv_net_options options;
    const struct qkv_net_methods *methods;
    enum qkv_scheme scheme;
    double spread;
    const struct qkv_family *family;
    const char *model_type; // row of model.def
    struct qkv_description is;
    bool masked_end;    // an encoder that ends in tokens
    bool masked_fresh;  // ... which the folder did not
    const char *prefix; // before each name that is not bare
    json_t *config;     // config.json as it is saved, but for what the weights' type says
    struct qkv_parameter *parameter; // [parameters]
    struct qkv_net_slot *slot;       // the same
    int64_t parameters, parameter_room, slot_room;
    int64_t numbers;                 // of all weights
    bool no_memory;                  // a declaration failed
    real *value, *grad;              // [numbers]
    struct qkv_net_carried *carried; // [carried_count]
    int64_t carried_count, carried_room;
    void *arena; // memory of runs, kept
    size_t arena_size, activations;
    int threads; // that the run under way has scratch for
    void *body;  // of the kind: struct qkv_net_body, struct qkv_net_gru_body
};

// net.c: what qkv_net_new and qkv_net_open share: the weights of a net of n->is declared; then
// their memory, which a folder is checked before.
qkv_status qkv_net_build(qkv_net *n, qkv_error *err);
qkv_status qkv_net_allocate(qkv_net *n, qkv_error *err);
qkv_status qkv_net_check_options(const struct qkv_net_options *o, qkv_error *err);
// net_open.c: QKV_ERR_UNSUPPORTED for a description that training does not compute, by name.
qkv_status qkv_net_can(const struct qkv_description *d, const char *model_type, const char *dir,
                       qkv_error *err);
// net_init.c: every weight as it begins; missing_only: those that the folder did not have.
void qkv_net_begin(qkv_net *n, uint64_t seed, bool missing_only);

// net_run.c: whether a net may run these sequences.
qkv_status qkv_net_check_sequences(const qkv_net *n, const struct qkv_sequences *in,
                                   qkv_error *err);

// Memory of runs: at least `bytes`, 64-byte aligned; what was there is lost.  NULL: none.
void *qkv_net_memory_for(qkv_net *n, size_t bytes);

// The type that arrays between products have: 0 (real), QKV_BF16, QKV_F16; and the bytes of one
// number.
qkv_dtype qkv_net_type(const qkv_net *n);
size_t qkv_net_type_bytes(qkv_dtype t);
#endif
