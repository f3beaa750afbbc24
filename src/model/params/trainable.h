// SPDX-License-Identifier: MIT
// trainable.h: declares the internal state of a model that is trained: its parameters, and the
// methods of its kind (Transformer, or recurrent model with attention).
#ifndef QKV_MODEL_TRAINABLE_H
#define QKV_MODEL_TRAINABLE_H

#include "model/params/layout.h"

// ---- parameters (trainable.c) ------------------------------------------------------------------
// One parameter: its values and its gradients, each [rows][columns]. value NULL: the model lacks
// the parameter. grad NULL: the parameter is a buffer, which is not trained.
struct qkv_weight {
    const real *value;
    real *grad;
};

// Declares the parameter of a row of the layout table; qkv_net_allocate then sets *value and *grad,
// each of which may be NULL. Parameters declared one after the other are contiguous in memory, so
// that adjacent matrices that read the same rows can be multiplied as one matrix. Skips rows of
// output heads that the model does not train, and optional rows that its folder lacks. Returns
// false if memory is exhausted; every later call then returns false too.
bool qkv_net_declare(qkv_net *n, const real **value, real **grad,
                     const struct qkv_parameter_row *row);

// ---- methods of a kind of model ----------------------------------------------------------------
// The methods of a kind of trainable model. Their callers have checked ids, lengths and offsets of
// all sequences. A method that returns another status than QKV_OK has filled err.
//
// net_gru.c implements them for the recurrent model; gru_attention.c reads its config.json.
struct qkv_net_methods {
    // Declares every parameter that n->is and n->shape require. Returns QKV_OK or QKV_ERR_LIMIT.
    qkv_status (*declare)(qkv_net *n, qkv_error *err);
    void (*free)(qkv_net *n); // frees the memory that `declare` allocated
    // Runs a batch, as qkv_net_run describes.
    qkv_status (*run)(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                      bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err);
};
extern const struct qkv_net_methods qkv_net_transformer, qkv_net_gru;

// ---- architectures (architecture.c, net.def) ------------------------------------------------
// Initialization schemes: the distributions of the initial matrices and embeddings. Initial biases
// are 0, norm weights 1.
//   NORMAL    N(0, spread^2)
//   RESIDUAL  N(0, spread^2), divided by sqrt(2 layers) in the last matrix of each residual branch
//   XAVIER    matrices uniform, with bounds from fan-in and fan-out; embeddings N(0, 1 / width)
enum qkv_scheme { QKV_SCHEME_NORMAL = 0, QKV_SCHEME_RESIDUAL, QKV_SCHEME_XAVIER };
struct qkv_net_arch {
    const char *name, *families[2];
    const struct qkv_net_methods *methods;
    struct qkv_description is;
    enum qkv_scheme scheme;
    double spread;
    struct qkv_arch_training training;
};

// ---- the model ---------------------------------------------------------------------------------
// Internal state of a parameter, which optimizers do not use. The arrays `slot` and `parameter`
// have the same order.
struct qkv_net_slot {
    // members of a layer that receive the addresses of value and gradient; NULL: no such member
    const real **value;
    real **grad;
    // tensor of the folder that is being opened; NULL: no folder, or the folder lacks the tensor
    const struct qkv_tensor *tensor;
    bool missing; // the folder lacks the tensor: the parameter is initialized
    int64_t at;   // index of its first number in `value` and `grad`
};

// A tensor of the opened folder that the model does not use; it is saved unchanged.
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
    const char *model_type; // model_type in config.json: a row in model.def
    struct qkv_description is;
    bool masked_end;    // the model is an encoder with an output head for masked tokens
    bool masked_fresh;  // the opened folder lacked the head for masked tokens
    const char *prefix; // prefix of the tensor names
    json_t *config;     // config.json for saving, without the element type of the weights
    // [slots] the trained parameters, then the buffers
    struct qkv_parameter *parameter;
    struct qkv_net_slot *slot;
    struct qkv_parameter_row *row;
    int64_t parameters, slots, parameter_capacity, slot_capacity, row_capacity;
    // numbers: count of numbers in all trained parameters; stored: this count plus the numbers of
    // buffers
    int64_t numbers, stored;
    // The folder that is being opened, and the prefix of its tensor names; tensors NULL: no folder
    // is being opened.
    struct {
        const qkv_tensors *tensors;
        const char *prefix, *dir;
    } folder;
    bool no_memory;                  // a declaration failed because memory was exhausted
    real *value, *grad;              // [stored] all values; [numbers] all gradients
    struct qkv_net_carried *carried; // [carried_count] tensors that are saved unchanged
    int64_t carried_count, carried_capacity;
    void *arena; // memory of the last run, reused by the next
    size_t arena_size, activations;
    const struct qkv_comm *comm; // ranks that share each batch; NULL: this process alone
    void *body; // struct qkv_net_layers of a Transformer, struct qkv_net_gru_layers of a GRU
};

// Returns the names of all rows of net.def, separated by commas (architecture.c).
const char *qkv_arch_names(void);
// Returns the row of net.def with this name; NULL: no such row (architecture.c).
const struct qkv_net_arch *qkv_arch_find(const char *name);
// Returns the row of net.def that defines how new parameters of a model of this family are
// initialized; NULL: the family cannot be trained.
const struct qkv_net_arch *qkv_arch_of(const struct qkv_description *d, const char *model_type);
// Fills in *d with the choices of the architecture's reference and the sizes and choices in *s.
void qkv_arch_describe(struct qkv_description *d, const struct qkv_net_shape *s,
                       const struct qkv_net_arch *arch);
// Checks the sizes of a description. Returns QKV_OK; QKV_ERR_USAGE if a size is out of range or two
// sizes contradict each other.
qkv_status qkv_arch_check(const struct qkv_description *d, qkv_error *err);

// Declares the parameters that n->is requires, without memory for them. This is the first of two
// steps that qkv_net_new and qkv_net_open share; qkv_net_allocate is the second.
qkv_status qkv_net_build(qkv_net *n, qkv_error *err);
// Allocates the values and gradients of all declared parameters.
qkv_status qkv_net_allocate(qkv_net *n, qkv_error *err);
qkv_status qkv_net_check_options(const struct qkv_net_options *o, qkv_error *err);
// Checks that the folder that is being opened has the tensors of these rows, before memory for
// their layers is allocated. Skips rows that the model lacks. Returns QKV_OK if no folder is being
// opened (load.c).
qkv_status qkv_net_check_rows(const qkv_net *n, const struct qkv_parameter_row *row, int64_t rows,
                              qkv_error *err);
// Returns true if the model has the parameter of a row: false for rows of output heads that the
// model lacks, and for optional rows whose tensor the opened folder lacks (trainable.c).
bool qkv_net_has_row(const qkv_net *n, const struct qkv_parameter_row *row);
// Sets the initial values of every parameter; missing_only: only of parameters whose tensor the
// opened folder lacks (init.c).
void qkv_net_initialize(qkv_net *n, uint64_t seed, bool missing_only);

// Checks that the model can run these sequences: ids, lengths, offsets. source: true for the input
// of the encoder of an encoder-decoder, whose vocabulary may be another one (net_run.c).
qkv_status qkv_net_check_sequences(const qkv_net *n, bool source, const struct qkv_sequences *in,
                                   qkv_error *err);

// Sets *activations to the bytes that the last run stored for backward, and *arena to the bytes of
// the whole memory that is reused between runs.
void qkv_net_memory(const qkv_net *n, size_t *activations, size_t *arena);
// Returns the memory for a run: at least `bytes` bytes, 64-byte aligned, with undefined content;
// NULL: memory is exhausted.
void *qkv_net_memory_for(qkv_net *n, size_t bytes);

// Returns the element type of the arrays between matrix products: 0 (real), QKV_BF16 or QKV_F16.
qkv_dtype qkv_net_type(const qkv_net *n);
// Returns the bytes of one element of type t; 0 means real.
size_t qkv_net_type_bytes(qkv_dtype t);
#endif
