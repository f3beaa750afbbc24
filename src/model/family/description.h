// SPDX-License-Identifier: MIT
// description.h: declares the description of a model, its tensor names, and the functions of a
// family.
//
// A family is a description and a table of tensor names. To add one, write
// src/model/family/<name>.c with one `const struct qkv_family qkv_family_<name>` and add a row to
// model.def. The table of parameters (params/layout.h) and the layers use the description, not the
// family; only params/load.c uses names of a family, to find the tensors that training does not
// save.
#ifndef QKV_MODEL_DESCRIPTION_H
#define QKV_MODEL_DESCRIPTION_H

#include "model/model.h"

// Encoding of positions. LEARNED: a learned table; SINUSOIDAL: a table with sines and cosines in
// alternating columns; NONE: no encoding; ROTARY: rotation of q and k; SINES_FIRST: a table with
// all sines before all cosines.
enum qkv_position_kind {
    QKV_POSITION_LEARNED = 0,
    QKV_POSITION_SINUSOIDAL,
    QKV_POSITION_NONE,
    QKV_POSITION_ROTARY,
    QKV_POSITION_SINES_FIRST
};

// Scaling of rotary positions, for more positions than the model was trained with. It changes the
// frequencies of the table. LINEAR divides all frequencies by `factor`. LLAMA3 and YARN do not
// change high frequencies, divide low frequencies by `factor`, and have a smooth transition between
// them. With LLAMA3 the transition is at wavelengths original/high .. original/low; with YARN it is
// at frequencies of `high` (beta_fast) .. `low` (beta_slow) rotations within `original` positions.
// LONG divides the frequency of each pair by a factor: one of lengths[0] in sequences of at most
// `original` tokens, one of lengths[1] in all positions of longer ones.
// attention: factor of cosines and sines (YARN and LONG; 0 means 1).
enum { QKV_ROPE_PAIRS_MAX = 256 }; // rotated pairs of a head with LONG
struct qkv_rope_scaling {
    enum qkv_rope_scaling_kind {
        QKV_ROPE_PLAIN = 0,
        QKV_ROPE_LINEAR,
        QKV_ROPE_LLAMA3,
        QKV_ROPE_YARN,
        QKV_ROPE_LONG
    } kind;
    double factor, low, high, attention;
    int64_t original;
    // YARN: the bounds of the transition are rounded to whole frequency indices, so that it becomes
    // wider
    bool whole;
    double lengths[2][QKV_ROPE_PAIRS_MAX];
};

// Bits for the layers that have biases, if only some layers have biases.
enum {
    QKV_BIAS_QKV = 1, // q, k and v projections
    QKV_BIAS_OUT = 2, // output projection of attention
    QKV_BIAS_MLP = 4, // feed-forward layers
    QKV_BIAS_ENDS = 8 // dense layers of the output heads for tokens and labels
};

// What the output head for labels reads. FIRST: the first row of a sequence; MEAN: the mean of its
// rows; LAST: the last row whose token is not the padding token. LATE: the head reads all rows, and
// its last layer the mean of what the layers before it computed from each row. EACH: each row has
// labels of its own (labels of tokens). END: in an encoder-decoder, the encoder reads the text, the
// decoder the same tokens after its first token, and the head the row at the position of the text's
// last end token.
enum qkv_label_pool {
    QKV_LABEL_FIRST = 0,
    QKV_LABEL_MEAN,
    QKV_LABEL_LAST,
    QKV_LABEL_LATE,
    QKV_LABEL_EACH,
    QKV_LABEL_END
};

// The output head of the class that config.json names in "architectures", by the end of its name.
// NOTHING: config.json names no class, or a class with another end, and the tensors of the file tell
// the head. TEXTS: labels of texts (ForSequenceClassification); TOKENS: labels of tokens
// (ForTokenClassification); QUESTIONS: begins and ends of answers (ForQuestionAnswering); OTHER: no
// head (EncoderModel, of T5) or another one (ForMultipleChoice, ForNextSentencePrediction). Heads of
// QUESTIONS and OTHER are not supported: none of their tensors is used.
enum qkv_told_head {
    QKV_TOLD_NOTHING = 0,
    QKV_TOLD_TEXTS,
    QKV_TOLD_TOKENS,
    QKV_TOLD_QUESTIONS,
    QKV_TOLD_OTHER
};
enum { QKV_CLASS_NAME = 64 };

enum { QKV_STOPS_MAX = 16 };

// A model without its weights. Zero values describe BERT.
struct qkv_description {
    enum qkv_net_kind kind;
    // first name in "architectures" of config.json, a long one cut and with "..."; "": none
    char class_name[QKV_CLASS_NAME];
    enum qkv_told_head told; // output head of that class
    bool class_has_head; // true: its name has the form of a class with a head, as BertForMaskedLM
    // what that head needs that qkv does not support; NULL: nothing that is known
    const char *class_needs;
    struct qkv_config_sizes size; // sizes; types 0: no token types
    // layers of the decoder in an encoder-decoder; encoder and decoder share all other sizes
    int64_t decoder_layers;
    // vocabulary of the decoder if it has its own embedding table; 0: the stacks share a table
    int64_t decoder_vocab;
    int64_t d_k, d_v; // width of a query or value head; 0: width / heads
    // Width of the token, type and position embeddings, which a linear layer then projects to
    // size.width. The output head for masked tokens projects back to it. 0: size.width, without
    // such layers.
    int64_t embed_width;
    // Layers that share weights (ALBERT). A stack runs size.layers / inner passes, each of them the
    // `inner` layers of one group; pass i of n runs group floor(i groups / n). groups 0: each layer
    // has weights of its own.
    struct qkv_layer_groups {
        int64_t groups, inner;
    } shared;
    enum qkv_norm_place norm;
    enum qkv_norm_kind norm_kind;
    enum qkv_activation act;
    bool gated; // feed-forward is down(act(gate x) * up x)
    enum qkv_position_kind position;
    double theta;       // base of rotary positions; 0: 10000
    double theta_local; // base in local layers; 0: theta, with the same scaling
    double rotated;     // fraction of a head's dimensions that is rotated; 0: all
    struct qkv_rope_scaling rope;
    bool rope_local_plain; // the frequencies of local layers are not scaled
    // Bit i is set if layer i does not rotate its queries and keys.
    uint64_t unrotated[QKV_LAYERS_MAX / 64];
    int64_t position_offset; // unused rows at the start of the position table (BART: 2)
    // Window of local layers: numbers of keys before and after the token itself to which a query
    // attends (in a decoder, none after it). Bit i of `local` is set if layer i is local.
    int64_t window_left, window_right;
    uint64_t local[QKV_LAYERS_MAX / 64];
    double attention_scale; // factor of q.k; 0: 1/sqrt(E)
    double softcap;         // soft cap of the attention scores; 0: no cap
    double logit_scale;     // factor of the logits; 0: 1
    double logit_softcap;   // soft cap of the scaled logits; 0: no cap
    // Relative positions of self-attention (T5): a learned score bias per bucket of distances, in
    // one table for all layers of a stack. buckets 0: no relative positions. An encoder has buckets
    // for both directions, a decoder only for keys before the token.
    struct qkv_relative_buckets {
        int64_t buckets, distance; // all distances of at least `distance` share the last bucket
    } relative;
    bool norm_q, norm_k; // RMS norm of each query or key head, weights [E], before rotation
    // norm_q and norm_k are one norm over all heads of a token, weights [H E] and [G E]
    bool norm_whole;
    double norm_offset;      // added to the weights of RMS norms (Gemma: 1)
    bool norm_unbiased;      // layer norms have no bias
    bool first_norm_missing; // the first layer has no norm before its attention
    double embed_scale;      // factor of token embeddings; 0: 1
    // factor of a sublayer's output before the residual is added; 0: 1. Not with norms inside.
    double residual_scale;
    bool embedding_norm; // norm on the sum of the embeddings
    // the stack has one feed-forward network, after all layers, instead of one in each layer
    bool mlp_once;
    bool mlp_bare;   // with mlp_once: that network has no residual connection and no norms
    bool final_norm; // norm after the last layer
    bool bias;       // all linear layers have biases
    unsigned biases; // if `bias` is false: layers with biases, QKV_BIAS_QKV, ...
    bool untied;     // the output projection has weights of its own
    // The first token has row pad + 1 of the position table; a padding token has row pad (RoBERTa).
    bool position_after_pad;
    int64_t bos, eos, mask; // ids of special tokens; -1: the model has no such token
    // start: id of the first input of the decoder, -1: bos; forced: id that the decoder must
    // generate first, -1: any
    int64_t start, forced;
    int64_t stop[QKV_STOPS_MAX];      // ids that end a text, if there are several
    int stops;                        // number of ids in `stop`; 0: only eos ends a text
    int64_t labels;                   // number of classes of a classification head
    enum qkv_label_pool label_pool;   // row or rows that the classification head reads
    enum qkv_activation masked_act;   // activation in an output head for masked tokens
    enum qkv_activation classify_act; // activation in a classification head
};

// Tensor names in the checkpoint. '#' is replaced by the number of the layer; if layers share
// weights, by the number of their group, and '@' by the number of the layer in the group. Names of
// tables are complete; ".weight" or ".bias" is appended to other names. NULL: no model of the family
// has the tensor. If q, k and v, or gate and up, have the same name, they are one tensor, whose rows
// are stored in this order.
struct qkv_names {
    const char *word, *position, *type;
    // token embeddings of a stack with a table of its own (decoder_vocab, or a decoder alone)
    const char *own_word;
    const char *embedding_norm, *final_norm;
    const char *embed_in; // projection of embeddings of another width (embed_width)
    const char *relative; // complete name of the relative-position biases [buckets][H]
    struct qkv_heads_names {
        const char *q, *k, *v, *o, *norm_in, *norm_out;
        const char *norm_q, *norm_k;
    } heads, cross; // cross: cross-attention of a decoder
    struct qkv_mlp_names {
        const char *gate, *up, *down, *norm_in, *norm_out;
        const char *plain; // name of `up` in models that are not gated, if it differs
        // mlp: feed-forward of each layer; last_mlp: feed-forward after the stack (mlp_once)
    } mlp, last_mlp;
    bool conv1d; // matrices are stored as [in][out], as in GPT-2
    bool joined; // q, k, v are one tensor
    // names of the modules that compute q, k and v in transformers; {NULL}: the names in `heads`
    struct qkv_module_names {
        const char *q, *k, *v;
    } modules;
    const struct qkv_names *decoder; // names of the decoder in an encoder-decoder
};

// Tensor names of the output heads. They have no prefix, except where a member says so.
struct qkv_end_names {
    const char *logits;      // output projection with weights of its own
    const char *logits_bias; // complete name of the bias of the output projection
    // complete name of the bias that the reference adds if the projection has weights of its own: a
    // file of such a model has both; NULL: always logits_bias
    const char *untied_bias;
    // training does not change logits_bias, which is stored as [1][V]
    bool logits_bias_fixed;
    const char *masked_dense, *masked_norm; // norm(act(dense x)) before the output projection
    // layers of a classification head, out(norm(act(dense x))); NULL: the head lacks the layer
    const char *classify_dense, *classify_norm, *classify_out;
    // prefix of all names in files of some classes (T5: labels of tokens; Llama: questions); NULL:
    // the prefix of the family
    const char *other_prefix;
    bool classify_prefixed; // classify_dense has the prefix
    bool classify_unbiased; // classify_out has no bias
    const char *each_out;   // last layer of a head for labels of tokens; NULL: without such heads
    bool each_dense;        // this layer follows classify_dense and classify_norm
    // value of "architectures" in config.json for a model without an output head, with a head for
    // tokens, and with a head for labels
    const char *class_plain, *class_tokens, *class_labels;
    const char *class_decoder; // class_tokens of a decoder alone; NULL: class_tokens
};

struct qkv_family {
    const char *prefix; // prefix of all names in files of models with an output head
    const struct qkv_names *names;
    const struct qkv_end_names *ends;
    // Fills in *d from the config c. The caller has set pad, bos, eos, mask, start and forced to -1
    // and all other members to 0. Returns false on an error, which c->err describes.
    bool (*describe)(struct qkv_description *d, const struct qkv_config *c);
    // Returns true if the family can represent d. fits and compose NULL: models of the family
    // cannot be trained from scratch.
    bool (*fits)(const struct qkv_description *d);
    // Writes d as members of config.json. Returns false if memory is exhausted.
    bool (*compose)(json_t *to, const struct qkv_description *d);
    // keys of config.json that compose writes, with the keys of dropout rates; NULL: no dropout
    // keys
    const struct qkv_config_keys *keys;
};
// Returns the family of a model_type and sets *row to this name in model.def; NULL: model.def has
// no such row (family.c).
const struct qkv_family *qkv_family_find(const char *model_type, const char **row);
// Reads the config of dir into *d and finds its family. *root receives the JSON tree of
// config.json, which the caller frees with json_decref (root NULL: not requested).
qkv_status qkv_describe_folder(struct qkv_description *d, const struct qkv_family **family,
                               const char **model_type, json_t **root, const char *dir,
                               qkv_error *err);

enum { QKV_TENSOR_NAME = 256 }; // maximum bytes of a tensor name
// The numbers of a layer in the names of its tensors: `first` replaces '#', `second` replaces '@'.
struct qkv_layer_number {
    int64_t first, second;
};
struct qkv_layer_number qkv_layer_number(const struct qkv_description *d, int64_t layer);
// Returns the first layer that has the weights of the given layer: the layer itself, unless layers
// share weights.
int64_t qkv_layer_source(const struct qkv_description *d, int64_t layer);
// Returns how many layers before the given one have the same weights.
int64_t qkv_layer_call(const struct qkv_description *d, int64_t layer);
// Writes prefix, name and suffix to `out`, with '#' and '@' in the name replaced by the numbers of a
// layer.
void qkv_tensor_name(char out[QKV_TENSOR_NAME], const char *prefix, const char *name,
                     struct qkv_layer_number number, const char *suffix);
// Returns the tensor with this name, or with the name that checkpoints converted from TensorFlow
// have instead (LayerNorm.gamma, LayerNorm.beta); NULL: the file has no tensor with either name.
const struct qkv_tensor *qkv_tensor_named(const qkv_tensors *file, const char *name);
// Writes a shape as text, such as "[2, 3]".
void qkv_shape_text(char text[160], const int64_t *shape, int rank);
// Returns the prefix of the tensor names in a file: the family's prefix if the name of the token
// embeddings has it (or, if the file lacks them, if any name has it); otherwise "".
const char *qkv_tensor_prefix(const qkv_tensors *file, const struct qkv_family *family);

// Functions and names that several families use:
extern const struct qkv_names qkv_bert_names; // tensor names of BERT (bert.c)
// Reads the config.json of BERT (bert.c).
bool qkv_describe_bert(struct qkv_description *d, const struct qkv_config *c);
// Reads the config.json of RoBERTa: the keys of BERT, and positions that begin after the id of the
// padding token (roberta.c).
bool qkv_describe_roberta(struct qkv_description *d, const struct qkv_config *c);
extern const struct qkv_names qkv_llama_names, qkv_bart_names; // tensor names of Llama and BART
extern const struct qkv_config_keys qkv_llama_keys; // keys of sizes of Llama and Gemma (llama.c)
// Reads the config.json of Llama (llama.c).
bool qkv_describe_llama(struct qkv_description *d, const struct qkv_config *c);
// Reads the keys that all versions of Gemma have. activation: the key of the activation. encoders:
// the family has encoders (use_bidirectional_attention), which are refused otherwise (gemma.c).
bool qkv_describe_gemma(struct qkv_description *d, const struct qkv_config *c,
                        const char *activation, bool encoders);
// Reads the scale of the scores and the soft caps of scores and logits of Gemma 2 and 3. The caller
// has set the default caps in *d (gemma2.c).
bool qkv_describe_gemma_caps(struct qkv_description *d, const struct qkv_config *c);
extern const struct qkv_names qkv_gemma_names; // tensor names of Gemma 2 and 3 (gemma2.c)
// Reads the config.json of T5 (t5.c).
bool qkv_describe_t5(struct qkv_description *d, const struct qkv_config *c);
extern const struct qkv_names qkv_t5_names;
extern const struct qkv_config_keys qkv_bart_keys; // keys of sizes of BART and Marian (bart.c)
// Reads the sizes and settings that BART and Marian have in common: of an encoder and a decoder, or,
// with is_decoder, of a decoder alone (bart.c).
bool qkv_describe_sides(struct qkv_description *d, const struct qkv_config *c);
// Reads the config.json of BART; the caller has set d->norm (bart.c).
bool qkv_describe_bart(struct qkv_description *d, const struct qkv_config *c);
// Reads the value of `key` as an activation. If the key is absent, an activation that is already in
// *d remains, otherwise it is GELU (config_common.c).
bool qkv_describe_activation(struct qkv_description *d, const struct qkv_config *c,
                             const char *key);
// The following functions are in config_attention.c. Their callers have set the sizes and head
// widths in *d.

// Reads head_dim, the width of query, key and value heads; if the key is absent and *d has no
// width yet, the width of the model must be a multiple of the heads.
bool qkv_describe_head_width(struct qkv_description *d, const struct qkv_config *c);
// Reads partial_rotary_factor, in families that rotate only a part of each head.
bool qkv_describe_partial(struct qkv_description *d, const struct qkv_config *c);
// Reads theta and the scaling of rotary positions.
bool qkv_describe_rotation(struct qkv_description *d, const struct qkv_config *c);
// Reads two kinds of rotary positions: one for global layers and one for local layers. keys: names
// of their bases at the top level of older files. scaled: the positions of global layers may be
// scaled.
bool qkv_describe_rotations(struct qkv_description *d, const struct qkv_config *c,
                            const char *const keys[2], bool scaled);
// Reads from the key layer_types which layers are local. Sets *found to true if the key exists.
bool qkv_describe_layer_types(struct qkv_description *d, const struct qkv_config *c, bool *found);
// Marks layers i >= from as local, except layers with i % every == but. every 0: without exception.
void qkv_describe_local(struct qkv_description *d, int64_t from, int64_t every, int64_t but);
// Reads sliding_window, the window of local layers. If the key is absent, the window is `usual`; if
// that is 0, an absent key is an error for models with local layers.
bool qkv_describe_window(struct qkv_description *d, const struct qkv_config *c, int64_t usual);
// Marks all layers as local and reads their window, if sliding_window is present and not null.
bool qkv_describe_window_of_all(struct qkv_description *d, const struct qkv_config *c);
// Reads which layers of Qwen are local (qwen2.c).
bool qkv_describe_qwen_window(struct qkv_description *d, const struct qkv_config *c);
const char *qkv_activation_name(enum qkv_activation act); // returns the name used in config.json
// Reads the ids of special tokens: bos_token_id, eos_token_id, mask_token_id and others. An absent
// key does not change *d.
bool qkv_describe_tokens(struct qkv_description *d, const struct qkv_config *c);
// The following functions write members of config.json. They return false if memory is exhausted.
bool qkv_put_int(json_t *to, const char *key, int64_t value);
bool qkv_put_real(json_t *to, const char *key, double value);
bool qkv_put_text(json_t *to, const char *key, const char *value);
bool qkv_put_flag(json_t *to, const char *key, bool value);
bool qkv_put_sizes(json_t *to, const struct qkv_config_keys *k, const struct qkv_config_sizes *s);
// Reads the keys with which qkv's own families (encoder.c, transformer.c) describe an architecture.
// An absent key does not change *d. The keys and their values:
//   norm "post", "pre" or "both"; norm_kind "layer" or "rms"; hidden_act (name of an activation)
//   positions "learned", "sinusoidal", "none", "rotary" or "sines-first"; rope_theta
//   gated, bias, embedding_norm, final_norm, tie_word_embeddings: true or false
//   embedding_scale, head_dim, value_head_dim: numbers
bool qkv_describe_choices(struct qkv_description *d, const struct qkv_config *c);
// Writes the keys that qkv_describe_choices reads. Returns false if memory is exhausted.
bool qkv_put_choices(json_t *to, const struct qkv_description *d);

// Returns the maximum tokens of a sequence: size.positions without the positions up to the padding
// token's, which position_after_pad leaves unused. (size.positions does not include the
// position_offset rows.)
static inline int64_t qkv_described_positions(const struct qkv_description *d)
{
    return d->size.positions - (d->position_after_pad ? d->size.pad + 1 : 0);
}
// Returns the number of ids in the logits: the size of the decoder's own vocabulary, or, if it has
// none, of the vocabulary that the stacks share.
static inline int64_t qkv_described_vocab(const struct qkv_description *d)
{
    return d->decoder_vocab ? d->decoder_vocab : d->size.vocab;
}
// Returns the width of the token, type and position embeddings.
static inline int64_t qkv_described_embed_width(const struct qkv_description *d)
{
    return d->embed_width ? d->embed_width : d->size.width;
}
// Returns the number of rows of the tables of rotary positions for sequences of up to `tokens`
// tokens. With QKV_ROPE_LONG the rows of sequences of more than `original` tokens follow the
// `original` rows of the others.
static inline int64_t qkv_described_rows(const struct qkv_description *d, int64_t tokens)
{
    const bool two = d->rope.kind == QKV_ROPE_LONG && tokens > d->rope.original;
    return two ? d->rope.original + tokens : tokens;
}
// Returns the maximum tokens that a decoder can hold. With QKV_ROPE_LONG, one more token than
// `original` would change the rotation of all keys that the decoder has stored.
static inline int64_t qkv_described_decoded(const struct qkv_description *d)
{
    const int64_t all = qkv_described_positions(d);
    return d->rope.kind == QKV_ROPE_LONG ? qkv_min64(all, d->rope.original) : all;
}
static inline bool qkv_described_bias(const struct qkv_description *d, unsigned which)
{
    return d->bias || (d->biases & which) != 0;
}
// A set of layers has one bit for each layer, as `local` and `unrotated`.
static inline bool qkv_layer_in(const uint64_t *set, int64_t layer)
{
    return (set[layer / 64] >> (layer % 64) & 1) != 0;
}
static inline void qkv_layer_add(uint64_t *set, int64_t layer)
{
    set[layer / 64] |= (uint64_t)1 << (layer % 64);
}
static inline bool qkv_described_local(const struct qkv_description *d, int64_t layer)
{
    return qkv_layer_in(d->local, layer);
}
static inline bool qkv_described_rotated(const struct qkv_description *d, int64_t layer)
{
    return !qkv_layer_in(d->unrotated, layer);
}
// Returns true if each head has width / heads dimensions and there are as many key/value heads as
// query heads.
static inline bool qkv_heads_plain(const struct qkv_description *d)
{
    return d->size.kv_heads == d->size.heads && d->size.width % d->size.heads == 0 &&
           (!d->d_k || d->d_k * d->size.heads == d->size.width) &&
           (!d->d_v || d->d_v * d->size.heads == d->size.width);
}
// Returns the width of a query or key head.
static inline int64_t qkv_head_keys(const struct qkv_description *d)
{
    return d->d_k ? d->d_k : d->size.width / d->size.heads;
}
// Returns the width of a value head.
static inline int64_t qkv_head_values(const struct qkv_description *d)
{
    return d->d_v ? d->d_v : d->size.width / d->size.heads;
}
#endif
