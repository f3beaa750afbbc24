// SPDX-License-Identifier: MIT
// model.h: the door of room model.  A family is a description and a table of tensor names.
//
// To add one: src/model/<name>.c with one `const struct qkv_family qkv_family_<name>`, a row in
// model.def.  Nothing else knows families: opening, checking, packing and running read the
// description.
#ifndef QKV_ROOM_MODEL_H
#define QKV_ROOM_MODEL_H

#include "file/file.h"
#include "layer/layer.h"
#include <pthread.h>
#include <qkv/decode.h>
#include <qkv/model.h>
#include <stdatomic.h>

#include "model/net.h"

// Where layer norm stands around a part f (attention, feed-forward):
//   post  norm(x + f(x))      pre  x + f(norm(x))      both  norm_out(x + f(norm_in(x)))
//   inside  x + norm_out(f(norm_in(x)))
enum qkv_norm_place { QKV_NORM_POST = 0, QKV_NORM_PRE, QKV_NORM_BOTH, QKV_NORM_INSIDE };

// What tells a token its place: a table; sin and cos side by side; nothing; the rotation of q and
// k; the sines first, then the cosines.
enum qkv_position_kind {
    QKV_POSITION_LEARNED = 0,
    QKV_POSITION_SINUSOIDAL,
    QKV_POSITION_NONE,
    QKV_POSITION_ROTARY,
    QKV_POSITION_SINES_FIRST
};

// How far a rotation is stretched beyond the positions it was trained for: its E/2 frequencies are
// changed once.  linear: divided by factor.  llama3, yarn: fast ones stay, slow ones are divided,
// between `high` and `low` (llama3: wavelengths original/high .. original/low; yarn: beta_fast =
// high, beta_slow = low turns in `original` positions) they pass from one to the other.
// attention: factor on cosines and sines (yarn; 0: 1).
struct qkv_rope_scaling {
    enum qkv_rope_scaling_kind {
        QKV_ROPE_PLAIN = 0,
        QKV_ROPE_LINEAR,
        QKV_ROPE_LLAMA3,
        QKV_ROPE_YARN
    } kind;
    double factor, low, high, attention;
    int64_t original;
    bool whole; // yarn: the range of frequencies is widened to whole numbers
};

// Which layers have biases, where not all of them do or none.
enum {
    QKV_BIAS_QKV = 1, // of q, k, v
    QKV_BIAS_OUT = 2, // of the projection behind the heads
    QKV_BIAS_MLP = 4, // of feed-forward
    QKV_BIAS_ENDS = 8 // of the dense layers of heads for tokens and labels
};

// Which row of a sequence a head for labels reads.
enum qkv_label_pool { QKV_LABEL_FIRST = 0, QKV_LABEL_MEAN, QKV_LABEL_LAST };

enum { QKV_STOPS_MAX = 16 };

// A model without its numbers.  Zero is what BERT has; what training cannot do, qkv_net_can
// refuses.
struct qkv_description {
    enum qkv_net_kind kind;
    struct qkv_config_sizes size; // types 0: no type embeddings
    int64_t decoder_layers;       // of an encoder-decoder; its other sizes are the encoder's
    int64_t decoder_vocab;        // ... whose sides have tables of their own: of the second; 0: one
    int64_t d_k, d_v;             // of a head; 0: width / heads
    enum qkv_norm_place norm;
    enum qkv_norm_kind norm_kind;
    enum qkv_activation act;
    bool gated; // down(act(gate x) * up x)
    enum qkv_position_kind position;
    double theta;       // of the rotation, 0: 10000
    double theta_local; // ... in local layers, 0: theta, stretched as the others are
    double rotated;     // share of a head that is turned, 0: all
    struct qkv_rope_scaling rope;
    int64_t position_offset; // rows of the position table that stand before the first (BART: 2)
    // Keys that a local layer sees before and behind the diagonal, itself not counted; bit i of
    // local: layer i is one.  A decoder sees none behind.
    int64_t window_left, window_right;
    uint64_t local[QKV_LAYERS_MAX / 64];
    double attention_scale; // of q.k, 0: 1/sqrt(E)
    double softcap;         // of the scores, 0: none
    double logit_scale;     // of the logits, 0: 1
    double logit_softcap;   // of the scaled logits, 0: none
    // Relative positions of self-attention: learned numbers of buckets of distances (T5), one table
    // for all layers of a stack; buckets 0: none.  Both ways in an encoder, only back in a decoder.
    struct qkv_relative_buckets {
        int64_t buckets, distance; // from `distance` on all share the last
    } relative;
    bool norm_q, norm_k;     // RMS norm of each head of q and k, [E], before the rotation
    double norm_offset;      // added to the weights of RMS norms (Gemma: 1)
    bool norm_unbiased;      // layer norms have no bias
    bool first_norm_missing; // the first layer has no norm before its attention
    double embed_scale;      // of the rows of the token table; 0: 1
    bool embedding_norm;     // norm on the sum of the embeddings
    bool mlp_once;           // one feed-forward after the stack instead of one in each layer
    bool final_norm;         // norm after everything
    bool bias;               // of all linear layers
    unsigned biases;         // of these only, where `bias` is false: QKV_BIAS_QKV, ...
    bool untied;             // the output projection has weights of its own
    // Rows of the position table count from pad + 1; a padding token inside has row pad (RoBERTa).
    bool position_after_pad;
    int64_t bos, eos, mask;           // token ids, -1: none
    int64_t start, forced;            // what a second stack begins with (-1: bos), must write first
    int64_t stop[QKV_STOPS_MAX];      // ids that end a text where there are several
    int stops;                        // 0: eos alone
    int64_t labels;                   // of a classification head
    enum qkv_label_pool label_pool;   // the row it reads
    enum qkv_activation masked_act;   // between the two layers of a head for masked tokens
    enum qkv_activation classify_act; // ... of a classification head
};

// Names in the checkpoint.  '#' stands for the number of the layer; tables are whole names, the
// others stems of ".weight" and ".bias".  NULL: the description never asks for it.  Stems that are
// the same are one tensor, rows one behind the other in the order q, k, v; gate, up.
struct qkv_names {
    const char *word, *position, *type;
    const char *own_word; // of a stack that has a table of its own (decoder_vocab)
    const char *embedding_norm, *final_norm;
    const char *relative; // whole name, [buckets][H]
    struct qkv_heads_names {
        const char *q, *k, *v, *o, *norm_in, *norm_out;
        const char *norm_q, *norm_k;
    } heads, cross; // cross: of a decoder that reads an encoder
    struct qkv_mlp_names {
        const char *gate, *up, *down, *norm_in, *norm_out;
        const char *plain;           // up, where rows are not gated and it has another name
    } mlp, last_mlp;                 // in each layer; or once after the stack
    bool conv1d;                     // matrices lie [in][out], as GPT-2 has them
    bool joined;                     // q, k, v are one tensor
    const struct qkv_names *decoder; // of an encoder-decoder: its second stack
};

// Names of what a model ends with; no prefix stands before them, but where it is said.
struct qkv_end_names {
    const char *logits;                     // the output projection where it has weights of its own
    const char *logits_bias;                // whole name
    bool logits_bias_fixed;                 // ... which training leaves alone, [1][V]
    const char *masked_dense, *masked_norm; // norm(act(dense x)) before the output projection
    // out(norm(act(dense x))); NULL: none of these
    const char *classify_dense, *classify_norm, *classify_out;
    bool classify_prefixed; // classify_dense has the prefix
    // "architectures" of config.json for a model that ends with nothing, with tokens, with labels.
    const char *class_plain, *class_tokens, *class_labels;
};

struct qkv_family {
    const char *prefix; // files of a model with a head put it before each name
    const struct qkv_names *names;
    const struct qkv_end_names *ends;
    // Fills d (zeroed; pad, bos, eos, mask, start, forced -1) from c; false: c->err says what is
    // wrong.
    bool (*describe)(struct qkv_description *d, const struct qkv_config *c);
    // Can the family be d?  compose: d as members of its config.json; false: no memory.  Both NULL:
    // no training from scratch.
    bool (*fits)(const struct qkv_description *d);
    bool (*compose)(json_t *to, const struct qkv_description *d);
    const struct qkv_config_keys *keys; // that compose writes; NULL: it has no names for dropout
};
// family.c: row of model.def; NULL: there is none.
const struct qkv_family *qkv_family_find(const char *model_type, const char **row);
// Config of dir read into *d: its family; the tree of config.json is *root's, the caller's to
// decref (NULL: not wanted).
qkv_status qkv_describe_folder(struct qkv_description *d, const struct qkv_family **family,
                               const char **model_type, json_t **root, const char *dir,
                               qkv_error *err);

// Names of tensors.  out = prefix + name with '#' as the layer's number + suffix; the tensor of a
// name, or the one that checkpoints converted from TensorFlow have (LayerNorm.gamma, .beta), NULL:
// none;
// text = "[2, 3]"; the family's prefix, when the file has the word table only under it, else "".
enum { QKV_TENSOR_NAME = 256 };
void qkv_tensor_name(char out[QKV_TENSOR_NAME], const char *prefix, const char *name, int64_t layer,
                     const char *suffix);
const struct qkv_tensor *qkv_tensor_named(const qkv_tensors *file, const char *name);
void qkv_shape_text(char text[160], const int64_t *shape, int rank);
const char *qkv_tensor_prefix(const qkv_tensors *file, const struct qkv_family *family);

// What families share.  bert.c: config.json and tensors named as BERT's; roberta.c: the same, with
// positions that count from behind the padding token; describe.c: the value of `key` as an
// activation, GELU where it is absent.
extern const struct qkv_names qkv_bert_names;
bool qkv_describe_bert(struct qkv_description *d, const struct qkv_config *c);
bool qkv_describe_roberta(struct qkv_description *d, const struct qkv_config *c);
// llama.c: config.json and tensors named as Llama's.  bart.c: as BART's, norms where *d has them.
extern const struct qkv_names qkv_llama_names, qkv_bart_names;
bool qkv_describe_llama(struct qkv_description *d, const struct qkv_config *c);
bool qkv_describe_bart(struct qkv_description *d, const struct qkv_config *c);
bool qkv_describe_activation(struct qkv_description *d, const struct qkv_config *c,
                             const char *key);
// describe_attention.c.  Rotation: theta, the share that turns, how it is stretched; sizes and head
// widths stand in *d.  Rotations: one for global, one for local layers.  Layer types: bits of
// `local` out of layer_types; *found: it was there.  Local: layers from `from` on, but those with
// number mod every = but (every 0: all of them).  Window: sliding_window of the local layers,
// `usual` where it is absent; usual 0: no layer may be local.
bool qkv_describe_rotation(struct qkv_description *d, const struct qkv_config *c);
bool qkv_describe_rotations(struct qkv_description *d, const struct qkv_config *c);
bool qkv_describe_layer_types(struct qkv_description *d, const struct qkv_config *c, bool *found);
void qkv_describe_local(struct qkv_description *d, int64_t from, int64_t every, int64_t but);
bool qkv_describe_window(struct qkv_description *d, const struct qkv_config *c, int64_t usual);
// qwen2.c: which layers of Qwen are local.
bool qkv_describe_qwen_window(struct qkv_description *d, const struct qkv_config *c);
// What an encoder-decoder's sides must have in common here: the value of key, where it stands.
bool qkv_describe_same(const struct qkv_config *c, const char *key, int64_t encoder);
const char *qkv_activation_name(enum qkv_activation act); // as config.json writes it
// bos_token_id, eos_token_id (the first of a list), mask_token_id: -1 where absent.
bool qkv_describe_tokens(struct qkv_description *d, const struct qkv_config *c);
// The other way: members of config.json.  false: no memory.
bool qkv_put_int(json_t *to, const char *key, int64_t value);
bool qkv_put_real(json_t *to, const char *key, double value);
bool qkv_put_text(json_t *to, const char *key, const char *value);
bool qkv_put_flag(json_t *to, const char *key, bool value);
bool qkv_put_sizes(json_t *to, const struct qkv_config_keys *k, const struct qkv_config_sizes *s);
// Choices of qkv's own families (encoder.c, transformer.c), each a key: hidden_act, norm "post",
// "pre", "both", norm_kind "layer", "rms", positions "learned", "sinusoidal", "none", "rotary",
// "sines-first", gated, bias, embedding_norm, final_norm, tie_word_embeddings, rope_theta,
// embedding_scale, head_dim, value_head_dim; what is absent stays as *d has it.
bool qkv_describe_choices(struct qkv_description *d, const struct qkv_config *c);
bool qkv_put_choices(json_t *to, const struct qkv_description *d);
// Tokens a sequence may have: rows of the position table but those that stand for no place (those
// of position_offset are not counted among size.positions).
static inline int64_t qkv_described_positions(const struct qkv_description *d)
{
    return d->size.positions - (d->position_after_pad ? d->size.pad + 1 : 0);
}
// Ids that stand in logits: of a second stack with a table of its own, or of the only one.
static inline int64_t qkv_described_vocab(const struct qkv_description *d)
{
    return d->decoder_vocab ? d->decoder_vocab : d->size.vocab;
}
static inline bool qkv_described_bias(const struct qkv_description *d, unsigned which)
{
    return d->bias || (d->biases & which) != 0;
}
static inline bool qkv_described_local(const struct qkv_description *d, int64_t layer)
{
    return (d->local[layer / 64] >> (layer % 64) & 1) != 0;
}
// Heads of width / heads, as many for keys as for queries.
static inline bool qkv_heads_plain(const struct qkv_description *d)
{
    return d->size.kv_heads == d->size.heads && d->size.width % d->size.heads == 0 &&
           (!d->d_k || d->d_k * d->size.heads == d->size.width) &&
           (!d->d_v || d->d_v * d->size.heads == d->size.width);
}
// Widths of a head as meant.
static inline int64_t qkv_head_keys(const struct qkv_description *d)
{
    return d->d_k ? d->d_k : d->size.width / d->size.heads;
}
static inline int64_t qkv_head_values(const struct qkv_description *d)
{
    return d->d_v ? d->d_v : d->size.width / d->size.heads;
}

// A table of embeddings as the file has it: its rows may be halves, or lie unaligned.
struct qkv_table {
    const struct qkv_tensor *tensor;
    const float *rows; // [n][D] in the file itself; NULL: rows are converted one by one
};

// One layer: attention, attention to what another stack made, feed-forward.  What it lacks has
// heads.H = 0, cross.H = 0, mlp.up.K = 0, norm.D = 0.
struct qkv_block {
    struct qkv_norm heads_in, heads_out, cross_in, cross_out, mlp_in, mlp_out;
    struct qkv_norm norm_q, norm_k; // of the heads
    struct qkv_heads heads, cross;
    struct qkv_mlp mlp;
    bool local;            // sees the keys of its window alone
    const float *relative; // of this layer, where an ablated head has none; NULL: the stack's
};

// Layers one behind the other, with what stands before and behind them.
struct qkv_stack {
    bool causal;
    int64_t vocab;             // ids it reads
    struct qkv_table word;     // shared by two stacks, unless each has its own
    struct qkv_table position; // of learned positions
    struct qkv_norm embedding_norm, final_norm;
    struct qkv_block *block; // [blocks] the layers; with mlp_once one more that has no heads
    int64_t layers, blocks;
    bool locals;     // some of them see the keys of a window alone
    float *relative; // [H][2 reach + 1]; NULL: none
    int64_t reach;
};

// What is packed at a time: the stacks, the projection to tokens, a head for labels.
enum qkv_pack_group { QKV_PACK_BODY = 0, QKV_PACK_TOKENS, QKV_PACK_LABELS, QKV_PACK_GROUPS };

// Where the weights of a linear layer come from, until it is packed.
struct qkv_linear_source {
    struct qkv_linear *to;
    enum qkv_pack_group group;
    const struct qkv_tensor *from[QKV_LINEAR_PARTS];
    int64_t at[QKV_LINEAR_PARTS];         // the first of its rows in a tensor that parts share
    const float *scale[QKV_LINEAR_PARTS]; // [N] of whole numbers of 8 bits (I8)
    bool transposed;                      // tensors are [in][out]
};

// Heads: norm(act(dense x)) before the projection; what one lacks has K = 0, D = 0.
struct qkv_end {
    struct qkv_linear dense, out;
    struct qkv_norm norm;
};

// Rows by position that a run makes for itself, once for as many positions as were asked for so
// far: of each stack's table (sinusoids, halves, what is not aligned), and turns of rotary
// positions.
enum qkv_rows_kind {
    QKV_ROWS_FIRST = 0, // of stack 0
    QKV_ROWS_SECOND,
    QKV_ROWS_TURNS,
    QKV_ROWS_TURNS_LOCAL, // of local layers, where they have a theta of their own
    QKV_ROWS_KINDS
};

struct qkv_model {
    const struct qkv_family *family;
    const char *model_type; // of config.json: the family's row in model.def
    struct qkv_description is;
    // Of every linear layer; the operator's is qkv_precision_attention of it.
    qkv_precision precision;
    char *dir, *name;
    qkv_tensors *file;
    const char *prefix; // before each name in this file: "" or the family's
    struct qkv_table type;
    int stacks; // 2: the second reads the first
    struct qkv_stack stack[2];
    struct qkv_end tokens, labels; // out.K 0: there is none
    char lacks[QKV_TENSOR_NAME];   // ... and why: the tensor that is not there
    char **label;                  // [is.labels] names; NULL: none are given
    int32_t stop[QKV_STOPS_MAX];   // ids that end a text
    int64_t stops;
    struct qkv_linear_source *source; // [sources]
    int64_t sources;
    float **own; // [owned] vectors that had to be converted
    int64_t owned, own_capacity;
    int64_t used;         // tensors of the file that the family uses
    int64_t positions;    // tokens a sequence may have
    pthread_mutex_t lock; // of packing, which the first run does, and of rows made
    atomic_bool packed[QKV_PACK_GROUPS];
    char *weights[QKV_PACK_GROUPS];                       // packed, of all layers of a group
    _Atomic(struct qkv_rows_made *) made[QKV_ROWS_KINDS]; // the newest first; NULL: none
    void *ablated; // what blocks point to of their ablations; NULL: none
    int64_t sums;  // that a token of the decoder has, of ablated heads with a mean
    pthread_mutex_t spare_lock;
    struct qkv_spare *spare; // of runs that ended
};

// bind.c: finds and checks every tensor the description asks for; reads short vectors only.
qkv_status qkv_model_bind(struct qkv_model *m, qkv_error *err);
void qkv_model_unbind(struct qkv_model *m);
// weights.c: packs what of a group is not packed yet, in parallel; any thread may call it.  QKV_OK
// or QKV_ERR_LIMIT.
qkv_status qkv_model_pack(struct qkv_model *m, enum qkv_pack_group group);
// out[D] = row of a table.
void qkv_table_row(float *out, const struct qkv_table *t, int64_t row, int64_t D);

// position_number.c: which row of the position table a token has: its number in its sequence, from
// `first`; position_after_pad: tokens that are not padding count from pad + 1 + first, one that is
// has row pad; position_offset is added.
// positions[r] of ids[r], n sequences packed at offsets[0 .. n].
void qkv_position_number(int32_t *positions, const struct qkv_description *d, const int32_t *ids,
                         const int64_t *offsets, int64_t n, int32_t first);
// position_rows.c: rows of a table where the file's own cannot be used as they lie.
struct qkv_rows_made {
    int64_t rows;
    struct qkv_rows_made *older; // runs may still read it: freed with the model
    float *at;                   // [rows][D]; of turns [rows][what is turned of a head]
};
// *out: at least `rows` rows.  Any thread may call it.  QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_position_rows(const float **out, struct qkv_model *m, enum qkv_rows_kind kind,
                             int64_t rows);
// rope_scale.c: angles per position of the pairs that are turned, stretched as the description
// says; the gain of sines and cosines.
int64_t qkv_rope_pairs(const struct qkv_description *d);
double qkv_rope_scaled(double *step, const struct qkv_description *d, double theta);
// relative.c: table[H][2 reach + 1] of a stack's buckets[buckets][H], reach = distance.
void qkv_relative_table(float *table, const float *buckets, int64_t H,
                        const struct qkv_relative_buckets *b, bool causal);

// find.c: the n-th folder where models are looked for; false past the last, "" in out when this one
// has no name here.
bool qkv_model_shelf(char *out, size_t size, int n);

// spare.c: memory of runs, kept from one to the next, so that no page is taken anew for each batch.
struct qkv_spare {
    size_t size;
    struct qkv_spare *next;
    void *at; // [size]
};
// At least `size` bytes that are the caller's until it gives them back; NULL: no memory.
struct qkv_spare *qkv_spare_take(struct qkv_model *m, size_t size);
void qkv_spare_give(struct qkv_model *m, struct qkv_spare *b); // NULL is fine
void qkv_spare_free(struct qkv_model *m);

// embedding.c: what a stack reads, made of ids.
struct qkv_places {
    const float *rows;       // of the position table; NULL: none
    struct qkv_rope turn[2]; // of layers, of local layers; table NULL: none
};
// Makes (once) what `deepest` positions of a stack need.  QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_places_ready(struct qkv_places *p, const struct qkv_model *m, int stack,
                            int64_t deepest);
// x[R][D].  words [R][D], kinds [types][D]: room where qkv_embedding_room says so.  ids change
// where words are used.
struct qkv_embedding_room {
    bool words, kinds;
};
struct qkv_embedding_room qkv_embedding_room(const struct qkv_model *m, int stack);
void qkv_embedding(float *x, float *words, float *kinds, int32_t *ids, const int32_t *types,
                   const int32_t *positions, int64_t R, const struct qkv_places *p,
                   const struct qkv_model *m, int stack);

// block.c: the stream x[R][D] through one block.  x and spare change places as parts are added.
struct qkv_stream {
    int64_t R;
    enum qkv_norm_kind norm;
    enum qkv_norm_place place;
    const struct qkv_places *places;
    const int32_t *positions;
    float *x, *spare; // [R][D]
    float *normed;    // [R][D], NULL where no norm stands before a part
    const struct qkv_attention *attention, *local, *across; // of layers, local layers, cross
    const float *memory;                                    // rows that cross reads
    const struct qkv_heads_keep *keep, *keep_cross;         // NULL: nothing is kept
    struct qkv_heads_cache *cache, *cross_cache;            // of this layer; NULL: packed sequences
    void *scratch;
};
qkv_status qkv_block_forward(struct qkv_stream *s, const struct qkv_block *b);
// The attention of layers of a stack, as the description has it; sizes and offsets are the
// caller's.
struct qkv_attention qkv_stack_attention(const struct qkv_model *m, int stack, bool local);
struct qkv_attention qkv_cross_attention(const struct qkv_model *m);
// *a as this layer computes it.
struct qkv_attention qkv_block_attention(const struct qkv_block *b, const struct qkv_attention *a);
// Bytes of scratch that any block of a stack needs; SIZE_MAX: refused, *status says why.
size_t qkv_block_scratch(const struct qkv_stack *stack, const struct qkv_attention *a,
                         const struct qkv_attention *across, qkv_status *status);
// How often x and spare change places in a stack.
int64_t qkv_stack_parts(const struct qkv_stack *s);

// look.c: what an attention is like, into what is seen of it.
void qkv_look_like(struct qkv_layer_seen *seen, const struct qkv_heads *heads,
                   const struct qkv_attention *a);
// probe_wish.c: probes as a watch wishes for them.
bool qkv_probe_wished(const struct qkv_probe_wish *w);
// QKV_OK or QKV_ERR_USAGE.
qkv_status qkv_probe_wish_check(const struct qkv_probe_wish *w, qkv_error *err);
// Arrays of a probe of H heads, T rows, S keys from an arena; p->rows and p->row are set.
void qkv_probe_take(struct qkv_probe *p, struct qkv_arena *a, const struct qkv_probe_wish *w,
                    int64_t H, int64_t T, int64_t S);

// run.c: the first of two stacks alone: hidden[R][D] of what the encoder reads.
qkv_status qkv_model_encode(const struct qkv_model *m, float *hidden,
                            const struct qkv_model_input *in, qkv_error *err);
// ends.c: packs what logits need.  QKV_OK, QKV_ERR_UNSUPPORTED, QKV_ERR_LIMIT.
qkv_status qkv_tokens_ready(const struct qkv_model *m, qkv_error *err);
// The same as qkv_model_logits; spare[R][D] (NULL where m->tokens has no dense layer).
void qkv_tokens_forward(float *logits, const float *hidden, float *spare, int64_t R,
                        const struct qkv_model *m);

// ablate.c: which stack has a part, and which heads of a layer of it; NULL: no such part.
struct qkv_heads *qkv_part_heads(const struct qkv_model *m, enum qkv_seen_part part, int64_t layer);
int64_t qkv_part_layers(const struct qkv_model *m, enum qkv_seen_part part); // 0: no such part
static inline int qkv_part_stack(enum qkv_seen_part part)
{
    return part >= QKV_SEEN_DECODER;
}
// A list of ablations against what there is; dir: for messages.  QKV_OK or QKV_ERR_USAGE.
struct qkv_ablation_shape {
    const char *dir;
    int64_t stacks, layers[2], heads;
};
qkv_status qkv_ablation_check(const struct qkv_ablation_shape *of, const struct qkv_ablation *list,
                              int64_t n, qkv_error *err);
// to[H][2 reach + 1] = a stack's numbers of distances (`from`), 0 for heads whose keys weigh the same.
void qkv_ablate_relative(float *to, const float *from, const unsigned char *gives, int64_t H,
                         int64_t reach);
// again.c: layers of a stack from one on, for n sequences of T tokens each that may have other heads
// ablated there: what a sequence gives has the bits of a run with that ablation.
struct qkv_again {
    enum qkv_seen_part part; // of `gives`; its stack is what runs
    int64_t layer;           // the first that runs
    int64_t n, T, S;
    const int32_t *ids;  // [T]
    const float *x;      // [T][D] what that layer reads, of every sequence
    const float *memory; // second of two stacks: [n][S][D] what it reads of the first; else NULL
    const unsigned char *gives; // [n][H] of that layer; NULL: as the model has it
};
// Whether `a` is for one sequence alone: keys weigh the same (QKV_HEADS_UNIFORM) in a stack with
// relative positions, whose table is one for all.  Reads part, n and gives.
bool qkv_again_alone(const struct qkv_model *m, const struct qkv_again *a);
// hidden[n][T][D], as qkv_model_run leaves it.  QKV_OK, QKV_ERR_LIMIT, or why a layer was refused.
qkv_status qkv_model_again(const struct qkv_model *m, float *hidden, const struct qkv_again *a,
                           qkv_error *err);
#endif
