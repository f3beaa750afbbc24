// SPDX-License-Identifier: MIT
// net.h: declares the trainable model: its parameters with gradients, forward and backward over
// packed tokens, and saving to a folder. model.h includes this header.
//
// All numbers are `real`; the same sources compiled with real = double check the gradients.
#ifndef QKV_MODEL_NET_H
#define QKV_MODEL_NET_H

// Kinds of models: three kinds of Transformers, and recurrent networks with attention.
enum qkv_net_kind {
    QKV_NET_ENCODER = 0,
    QKV_NET_DECODER,
    QKV_NET_ENCODER_DECODER,
    QKV_NET_GRU_ATTENTION // GRU encoder (both directions) and decoder with additive attention
};

// Sizes and options of an architecture (`--arch`). qkv_net_shape_default fills in the values of the
// published reference; sizes that it leaves 0 must be set by the caller.
struct qkv_net_shape {
    const char *arch; // name of a row of net.def, such as "gpt"
    // decoder_layers: layers of the decoder of an encoder-decoder, 0: as many as `layers`
    int64_t layers, decoder_layers;
    int64_t heads, kv_heads; // kv_heads 0: the same as heads
    // d_k: width of a query head, d_v: of a value head, 0: width / heads; inner: width inside the
    // feed-forward network, 0: as in the reference
    int64_t width, d_k, d_v, inner;
    int64_t vocab, positions, types;
    // Three members that are set for a loaded model and that qkv_net_new ignores. source_vocab:
    // size of the encoder's vocabulary; start: the token with which the decoder's input begins
    // (decoder_start_token_id); forced: the token that the decoder must generate first. -1:
    // config.json names no such token
    int64_t source_vocab;
    int32_t start, forced;
    int32_t pad, bos, eos, mask; // ids of special tokens; -1: the vocabulary lacks the token
    int norm;                    // enum qkv_norm_place; -1: as in the reference
    int act;                     // enum qkv_activation; -1: as in the reference
    // 1: the output projection is the embedding table; 0: it is not; -1: as in the reference
    int tied;
    int labels;   // > 0: number of classes of a classification head (encoders)
    double theta; // base of rotary positions; 0: 10000
    double eps;   // epsilon of norms; 0: as in the reference
};
// Returns the names of the architectures in net.def; the list ends with NULL.
const char *const *qkv_net_architectures(void);
// The options with which an architecture is trained from scratch, unless the user chooses others
// (net.def). A number that is 0 and a text that is NULL mean the default of training.
struct qkv_arch_training {
    int objective; // enum qkv_objective
    // true: sizes that the user does not choose are the sizes of the published model; false: they
    // are smaller
    bool reference_sizes;
    const char *schedule;
    double decay, beta2, eps, dropout, smoothing;
    int64_t context;
    // special: all special tokens of a new tokenizer, ended by NULL; unknown: the token for unknown
    // characters; begin, end: the tokens before and after a text. NULL: no such token
    const char *special[6], *unknown, *begin, *end;
};
// Returns the training options of an architecture; NULL: arch is NULL, or net.def has no row with
// this name.
const struct qkv_arch_training *qkv_arch_training(const char *arch);
// Returns the name of the first architecture in net.def that is trained with this objective (enum
// qkv_objective).
const char *qkv_arch_for(int objective);
// Fills in *s with the values of an architecture's reference. Returns false if net.def has no row
// with the name `arch`.
bool qkv_net_shape_default(struct qkv_net_shape *s, const char *arch);

// One parameter tensor. The order of the parameters is fixed, so that an optimizer can keep arrays
// parallel to them.
struct qkv_parameter {
    const char *name; // name of the tensor in the file (several parts may share one tensor)
    int rank;
    int64_t shape[2]; // [N][K] or [N], as the layers use it
    int64_t count;
    real *value, *grad; // [count] values and gradients of all elements
    bool decay;         // weight decay applies: to matrices and embeddings, not to norms and biases
};

typedef struct qkv_net qkv_net;

struct qkv_net_options {
    // precision of matrix products and stored activations; parameters are real
    qkv_precision precision;
    real dropout;     // dropout rate of residual branches, embeddings and attention
    bool recompute;   // store only the input of each layer and run the layer again in backward
    real smoothing;   // label smoothing
    real temperature; // temperature of the contrastive loss; 0: .05
    // decoders: gradients and loss of a batch are added up in a tree of blocks of rows
    // (layer/backward.h), so that ranks can share the batch; false: in the order of the rows
    bool row_blocks;
};
// Creates a model whose weights are initialized as in the architecture's reference
// (docs/training.md), from seed.
qkv_status qkv_net_new(qkv_net **out, const struct qkv_net_shape *shape,
                       const struct qkv_net_options *o, uint64_t seed, qkv_error *err);
enum { QKV_NET_TOKENS = -1 };
// Loads a model from a folder (any family of model.def, or a folder that qkv_net_save wrote).
// labels > 0: if the folder has no classification head, one for that many labels is added. labels =
// QKV_NET_TOKENS: if the model is an encoder without an output head, a head for masked tokens is
// added. qkv_net_new_end describes the head that was added.
qkv_status qkv_net_open(qkv_net **out, const char *dir, const struct qkv_net_options *o, int labels,
                        uint64_t seed, qkv_error *err);
// Reads only config.json of a folder: fills in *s as qkv_net_shape does after qkv_net_open, except
// that arch is NULL.
qkv_status qkv_net_shape_read(struct qkv_net_shape *s, const char *dir, qkv_error *err);
void qkv_net_free(qkv_net *n); // n may be NULL
void qkv_net_options_set(qkv_net *n, const struct qkv_net_options *o);
const struct qkv_net_shape *qkv_net_shape(const qkv_net *n);
enum qkv_net_kind qkv_net_kind(const qkv_net *n);
// Returns a text that describes the output head that the folder lacked and that was therefore
// initialized with random numbers; NULL: no head was added.
const char *qkv_net_new_end(const qkv_net *n);
// Sets the label names that qkv_net_save writes to config.json: names[labels]; a name that is NULL
// becomes LABEL_n. Returns false if memory is exhausted.
bool qkv_net_name_labels(qkv_net *n, const char *const *names);
// Sets the ids of special tokens that qkv_net_save writes to config.json, for a model whose
// tokenizer has been replaced; -1: the id in config.json remains. Returns false if memory is
// exhausted.
bool qkv_net_name_tokens(qkv_net *n, int32_t bos, int32_t eos, int32_t mask);
struct qkv_parameter *qkv_net_parameters(qkv_net *n, int64_t *count);
void qkv_net_zero_gradients(qkv_net *n);

// The training objective of a batch; one value per row of objective.def.
enum qkv_objective {
#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) QKV_OBJECTIVE_##ROW,
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
};
enum {
    QKV_OBJECTIVES = 0 // number of objectives
#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) +1
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
};
// Returns a text that says why the model cannot be trained with an objective; NULL: it can.
const char *qkv_net_lacks(const qkv_net *n, enum qkv_objective o);
// Packed sequences. A token attends only to tokens of its own sequence.
struct qkv_sequences {
    int64_t n;
    const int64_t *offsets; // [n + 1] first token of each sequence, from 0
    const int32_t *ids;     // [offsets[n]] token ids
    const int32_t *types;   // [offsets[n]] token types; NULL: all 0
};
struct qkv_net_batch {
    enum qkv_objective objective;
    // input of the model; with the objective SEQ2SEQ: input of the decoder
    struct qkv_sequences in;
    struct qkv_sequences source; // SEQ2SEQ: input of the encoder, with as many sequences as `in`
    // one target per row of `in`, -1: the row has no loss; with the objective CLASSIFY: one label
    // per sequence
    const int32_t *targets;
};
// Runs forward over one batch and adds its losses to *loss. If `gradients` is true, also runs
// backward: adds scale times the gradient of the summed losses to the gradients of the parameters.
// seed and step select the random stream of dropout. Each model has one arena, which later calls
// reuse. Returns QKV_OK; QKV_ERR_LIMIT; QKV_ERR_USAGE (an id is out of range, a sequence is longer
// than `positions`, or the model does not support the objective); QKV_ERR_UNSUPPORTED.
qkv_status qkv_net_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                       bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err);
// Lets ranks share the rows of each batch: all ranks call qkv_net_run with the same batch, and each
// has the activations of its own rows only. Loss and gradients are then set on every rank, with the
// bits of one process; gradients are replaced, not added. Requires the option row_blocks. comm NULL
// or of size 1: this process alone. Returns QKV_OK, or QKV_ERR_UNSUPPORTED: err says what the model
// has that ranks cannot share.
struct qkv_comm;
qkv_status qkv_net_share(qkv_net *n, const struct qkv_comm *comm, qkv_error *err);
// Computes attention statistics of one sequence, which runs through the only stack or the encoder
// of the model, in memory linear in its tokens. Calls `layer` once per layer with the statistics of
// its self-attention (B = 1, S = T).
qkv_status qkv_net_probe(qkv_net *n, const struct qkv_probe_request *w,
                         void (*layer)(void *user, int64_t layer, const struct qkv_probe *p),
                         void *user, const struct qkv_sequences *in, qkv_error *err);

// Writes config.json and model.safetensors to the existing folder dir, with the names and shapes of
// the family's reference (transformers). type: element type of the weights, QKV_F32, QKV_BF16 or
// QKV_F16. Each file is replaced atomically and synced.
qkv_status qkv_net_save(qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err);
#endif
