// SPDX-License-Identifier: MIT
// net.h: a model that learns: its parameters with their gradients, forward and backward over packed
// tokens, and the folder it is written to.  Part of the door model.h.
//
// Over real: the same files, with real as double, are what gradients are checked with.
#ifndef QKV_MODEL_NET_H
#define QKV_MODEL_NET_H

// The three shapes of a Transformer, and what came before it.
enum qkv_net_kind {
    QKV_NET_ENCODER = 0,
    QKV_NET_DECODER,
    QKV_NET_ENCODER_DECODER,
    QKV_NET_GRU_ATTENTION // GRU encoder (both ways) and decoder, additive attention between (h^e, h^d)
};

// What `--arch` and its options say.  qkv_net_shape_default fills in what an architecture's
// reference has; sizes 0 there are the caller's to set.
struct qkv_net_shape {
    const char *arch; // row of net.def: "gpt", "llama", "bert", "vaswani", "gru-attention"
    int64_t layers, decoder_layers; // decoder_layers: of encoder-decoders, 0: as layers
    int64_t heads, kv_heads;        // kv_heads 0: heads
    int64_t width, d_k, d_v,
        inner; // d_k, d_v of a head, 0: width / heads; inner 0: as the reference
    int64_t vocab, positions, types;
    int32_t pad, bos, eos, mask; // ids; -1: none
    int norm;                    // enum qkv_norm_place, -1: the reference's
    int act;                     // enum qkv_activation, -1: the reference's
    int tied;                    // output projection is the embedding: 1, 0, -1: the reference's
    int labels;                  // > 0: a classification head of so many (encoder)
    double theta;                // of RoPE, 0: 10000
    double eps;                  // of norms, 0: the reference's
};
bool qkv_net_shape_default(struct qkv_net_shape *s, const char *arch); // false: no such row

// One weight.  Gradients lie beside values; the order is fixed, so that an optimizer can keep its
// own arrays.
struct qkv_parameter {
    const char *name; // its tensor in the file (parts of one tensor have one name)
    int rank;
    int64_t shape[2]; // as the layers read it: [N][K], [N]
    int64_t count;
    real *value, *grad; // [count]
    bool decay;         // weight decay applies: matrices, not norms, biases (embeddings do)
    bool sparse;        // an embedding that is not tied: few rows have gradients
};

typedef struct qkv_net qkv_net;

struct qkv_net_options {
    qkv_precision precision; // of products and of what is kept; parameters are real
    real dropout;            // of residual branches, embeddings and attention
    bool recompute;          // per layer: keep its input only, run it again in backward
    real smoothing;          // of labels
    real temperature;        // contrastive, 0: .05
};
// From scratch: every weight as the architecture's reference initialises it (docs/training.md),
// from seed.
qkv_status qkv_net_new(qkv_net **out, const struct qkv_net_shape *shape,
                       const struct qkv_net_options *o, uint64_t seed, qkv_error *err);
// From a folder that loads (any family of model.def and what qkv_net_save writes).  labels > 0 adds
// a fresh classification head where there is none, QKV_NET_TOKENS a head for masked tokens to an
// encoder that ends in nothing: qkv_net_new_end says which was.
enum { QKV_NET_TOKENS = -1 };
qkv_status qkv_net_open(qkv_net **out, const char *dir, const struct qkv_net_options *o, int labels,
                        uint64_t seed, qkv_error *err);
void qkv_net_free(qkv_net *n); // NULL is fine
void qkv_net_options_set(qkv_net *n, const struct qkv_net_options *o);
const struct qkv_net_shape *qkv_net_shape(const qkv_net *n);
enum qkv_net_kind qkv_net_kind(const qkv_net *n);
// What the folder lacked of its end and begins as from scratch, in words; NULL: nothing.
const char *qkv_net_new_end(const qkv_net *n);
// Names of its labels [labels], as config.json has them from then on (NULL: LABEL_n); false: no
// memory.
// The name of one; NULL: it has none.
bool qkv_net_name_labels(qkv_net *n, const char *const *names);
const char *qkv_net_label(const qkv_net *n, int64_t label);
struct qkv_parameter *qkv_net_parameters(qkv_net *n, int64_t *count);
void qkv_net_zero_gradients(qkv_net *n);

// Weights such that the heads of list give what qkv_model_ablate says of them, for a net that is only
// looked at from now on: nothing keeps what they were.  QKV_OK; QKV_ERR_USAGE as qkv_model_ablate has
// it; QKV_ERR_UNSUPPORTED: a GRU, or a mean, which no weights give.
struct qkv_ablation;
qkv_status qkv_net_ablate(qkv_net *n, const struct qkv_ablation *list, int64_t count,
                          qkv_error *err);

// What is asked of a batch.
enum qkv_objective {
#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) QKV_OBJECTIVE_##ROW,
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
};
enum {
    QKV_OBJECTIVES = 0 // how many
#define QKV_OBJECTIVE_ROW(ROW, NAME, ASKS) +1
#include <qkv/objective.def>
#undef QKV_OBJECTIVE_ROW
};
// What a net lacks for an objective, in words; NULL: nothing.
const char *qkv_net_lacks(const qkv_net *n, enum qkv_objective o);
// Packed sequences; attention never crosses them.
struct qkv_sequences {
    int64_t n;
    const int64_t *offsets; // [n + 1] from 0
    const int32_t *ids;     // [offsets[n]]
    const int32_t *types;   // NULL: 0
};
struct qkv_net_batch {
    enum qkv_objective objective;
    struct qkv_sequences in;     // seq2seq: what the decoder reads
    struct qkv_sequences source; // seq2seq: what the encoder reads, as many sequences
    const int32_t *targets;      // one a row of `in`, -1: none; CLASSIFY: one a sequence
};
// Forward of one batch, and backward where gradients: they accumulate scale d (sum of losses).
// step: numbers dropout's random streams with `seed`.  Adds to *loss.  Memory: one arena a net,
// kept.
// Returns QKV_OK; QKV_ERR_LIMIT; QKV_ERR_USAGE (ids out of range, a sequence longer than positions,
// an objective the net is not made for), QKV_ERR_UNSUPPORTED
qkv_status qkv_net_run(qkv_net *n, struct qkv_loss *loss, const struct qkv_net_batch *b,
                       bool gradients, real scale, uint64_t seed, uint64_t step, qkv_error *err);
// Bytes of activations the last run kept for backward, and of its whole arena.
void qkv_net_memory(const qkv_net *n, size_t *activations, size_t *arena);

// Vectors of an encoder: v[n][D], mean-pooled, length 1.  For evaluation.
qkv_status qkv_net_vectors(qkv_net *n, real *v, const struct qkv_sequences *in, qkv_error *err);
// Class logits[n][labels].
qkv_status qkv_net_classify(qkv_net *n, real *logits, const struct qkv_sequences *in,
                            qkv_error *err);
// Encoder-decoder and decoder, for evaluation: beam search (beam 1: greedy) from `bos` to `eos` or
// `most` tokens; out: best sequence of each source: ids[n][most], lengths[n].  A decoder continues
// `source` itself.
// Score: sum of log-probabilities / length^penalty.
qkv_status qkv_net_decode(qkv_net *n, int32_t *ids, int64_t *lengths, int64_t most, int beam,
                          double penalty, const struct qkv_sequences *source, qkv_error *err);
// weights[H][T][S] of one head layer of one pair: cross-attention of decoder layer `layer`
// (negative: from the last) for decoder input `in` (one sequence) reading `source` (one sequence).
// GRU-attention: H = 1.
qkv_status qkv_net_alignment(qkv_net *n, real *weights, int64_t layer,
                             const struct qkv_sequences *in, const struct qkv_sequences *source,
                             qkv_error *err);
// weights[layers][H][T][T] of self-attention of one sequence (decoder of encoder-decoders: its
// encoder's).
qkv_status qkv_net_attention(qkv_net *n, real *weights, const struct qkv_sequences *in,
                             qkv_error *err);
// The same by probes, in memory linear in T: `layer` sees those of each layer in turn, B = 1, S = T.
qkv_status qkv_net_probe(qkv_net *n, const struct qkv_probe_wish *w,
                         void (*layer)(void *user, int64_t layer, const struct qkv_probe *p),
                         void *user, const struct qkv_sequences *in, qkv_error *err);

// config.json and model.safetensors in dir (it exists), as the family's reference (transformers)
// names and shapes them; type: QKV_F32, QKV_BF16, QKV_F16.  Each file is written whole and synced.
qkv_status qkv_net_save(qkv_net *n, const char *dir, qkv_dtype type, qkv_error *err);
#endif
