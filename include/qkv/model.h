// SPDX-License-Identifier: MIT
/** model.h: opens and runs a model folder in the layout of Hugging Face: config.json and
 *  model.safetensors. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include <qkv/probe.h>
#include <qkv/tensor.h>
#include <qkv/text.h>

QKV_BEGIN_DECLS

/** An opened model.  Runs do not change it, so several threads may run one model at the same
 *  time. */
typedef struct qkv_model qkv_model;

/** Options of qkv_model_open; zero is the default.
 *  precision is the precision of every product.  The residual stream, norms and sums are always
 *  float, and an observer receives floats in every precision.
 *    BF16, F16  weights, q, k, v, outputs of heads and inner rows of the feed-forward network are
 *               stored as that type
 *    INT8       weights are stored in 8 bits with a scale per row, and each product quantises its
 *               input rows; attention is computed in F32; embeddings are stored as in the file */
struct qkv_model_options {
    qkv_precision precision;
    /** read the weights into memory instead of mapping the file: safe if another process truncates
     *  it */
    bool no_mmap;
    const struct qkv_ablation *ablate; /**< [ablations] heads to ablate, as in qkv_model_ablate */
    int64_t ablations;
};
/** Opens dir, a folder with config.json and model.safetensors or its shards with their index.  The
 *  call checks the names, shapes and types of all weights; the first run reads the weights.  o may
 *  be NULL; no argument is referenced after the call.
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT (also: config.json and the weights
 *            disagree); QKV_ERR_UNSUPPORTED (family, precision, type of weights); QKV_ERR_LIMIT.
 *            After an error *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_open(qkv_model **out, const char *dir,
                                                 const struct qkv_model_options *o, qkv_error *err);
QKV_API void qkv_model_close(qkv_model *m); /**< NULL is fine */

/** The kind of a model.  ENCODER: every token attends to its whole sequence.  DECODER: every token
 *  attends to itself and the tokens before it.  ENCODER_DECODER: the model has two stacks, an
 *  encoder, and a decoder that also attends to the output of the encoder. */
enum qkv_model_kind { QKV_KIND_ENCODER = 0, QKV_KIND_DECODER, QKV_KIND_ENCODER_DECODER };

/** The abilities of a model in addition to computing hidden states. */
enum {
    /** has an output projection: qkv_model_logits works, for a decoder also qkv/decode.h */
    QKV_CAN_TOKENS = 1,
    QKV_CAN_LABELS = 2, /**< has an output head for labels: qkv_model_classify works */
    QKV_CAN_RUN = 4,    /**< qkv_model_run works: every Transformer; a GRU only decodes */
    /** has an output head for labels of tokens: qkv_model_classify_tokens works */
    QKV_CAN_TOKEN_LABELS = 8
};

/** Properties of a model.  Texts and arrays are valid until qkv_model_close. */
struct qkv_model_info {
    enum qkv_model_kind kind;
    unsigned can;       /**< abilities: bits QKV_CAN_* */
    const char *family; /**< name of the model family in model.def: "bert", "roberta", ... */
    const char *name;   /**< name of the model: the last component of the folder's path */
    int64_t layers, heads, kv_heads, width, head_width, inner, vocab, types;
    /** decoder layers of an encoder-decoder, whose encoder layers are in `layers`; 0 for other
     *  models */
    int64_t decoder_layers;
    /** vocabulary size of the encoder; differs from vocab only if each stack has its own
     *  embeddings */
    int64_t source_vocab;
    /** number of labels of the output head for labels, of texts or of tokens; 0: no such head */
    int64_t labels;
    /** width of a value head; head_width is the width of a query or key head */
    int64_t value_width;
    /** width of the rows of the input embedding table; if it is another one than `width`, a linear
     *  layer projects the embeddings (ALBERT) */
    int64_t embed_width;
    int64_t positions;  /**< the most tokens of a sequence */
    int64_t parameters; /**< elements of all weights in the file, used or not */
    /** number of tensors in the file; number of tensors that the family does not use */
    int64_t tensors, unused_tensors;
    double flops_token; /**< operations of all linear layers for one token: multiply-adds times 2 */
    bool causal;
    /** Token ids in config.json; -1: config.json has no such id.  start is the first input of the
     *  decoder of an encoder-decoder; forced is the id that it must generate first (BART). */
    int32_t bos, eos, pad, mask, start, forced;
    const int32_t *stops; /**< [stop_count] every id that ends a text, eos first */
    int64_t stop_count;
    qkv_precision precision; /**< precision with which the model was opened */
    /** How this CPU computes the products of linear layers: "float", "bf16 pairs", ... */
    const char *arithmetic;
};
QKV_API struct qkv_model_info qkv_model_info(const qkv_model *m);
/** Returns the name of a label, from id2label of config.json or else "LABEL_0" and so on, valid
 *  until qkv_model_close; NULL if there is no such label. */
QKV_API const char *qkv_model_label(const qkv_model *m, int64_t label);
/** Returns the first name in "architectures" of config.json if a class of this name has an output
 *  head and the model runs without it (a name of more than 63 bytes is cut), otherwise NULL.
 *  needs may be NULL.
 *  Out: *needs what the head needs that qkv does not support, for example "two scores for a pair of
 *  texts"; NULL: the file has no tensors of a head that qkv supports, or NULL was returned.
 *  Both texts are valid until qkv_model_close. */
QKV_API const char *qkv_model_missing_head(const qkv_model *m, const char **needs);

/** The attention whose output an observer receives.  STACK: self-attention of a model with one
 *  stack.  ENCODER and DECODER: self-attention of the encoder and of the decoder of an
 *  encoder-decoder.  CROSS: cross-attention of the decoder of an encoder-decoder. */
enum qkv_attention_part { QKV_PART_STACK = 0, QKV_PART_ENCODER, QKV_PART_DECODER, QKV_PART_CROSS };

/** The replacement for the output of an ablated head:
 *    ZERO     zeros: in F32 bit-identical to setting the columns of the output projection that
 *             multiply the head to 0
 *    MEAN     the mean of the head's output over the rows of the sequence; in a decoder, over the
 *             rows up to and including the current row, so that decoding one token at a time equals
 *             a whole run
 *    UNIFORM  the mean of the values of all keys that are not masked: equal weights */
enum qkv_ablation_kind { QKV_ABLATE_ZERO = 0, QKV_ABLATE_MEAN, QKV_ABLATE_UNIFORM };
struct qkv_ablation {
    /** part of the head: STACK in a model of one stack; ENCODER, DECODER or CROSS in an
     *  encoder-decoder */
    enum qkv_attention_part part;
    int64_t layer, head; /**< layer and head, counted from 0; head -1: every head of the layer */
    enum qkv_ablation_kind kind;
};
/** Changes of one run, which other runs of the same model do not see; zero is the default. */
struct qkv_run_options {
    /** factor of the model's own scale of scores: the score of query and key is score_scale * scale
     *  * q.k, before a softcap, a relative position bias and the mask.  1/2 is a softmax of twice
     *  the temperature.  0: 1; otherwise finite and > 0 */
    float score_scale;
    /** [ablations] heads that are ablated in this run, as in qkv_model_ablate, in place of the
     *  ablations of the model; ablations 0: the heads that the model ablates */
    const struct qkv_ablation *ablate;
    int64_t ablations;
};

/** The tokens of one or more sequences, packed consecutively; padding is optional. */
struct qkv_model_input {
    int64_t sequences;
    /** [sequences + 1] index in ids of the first token of each sequence; offsets[0] is 0 */
    const int64_t *offsets;
    const int64_t *lengths; /**< [sequences] number of tokens without padding; NULL: all tokens */
    const int32_t *ids;     /**< [R] token ids, R = offsets[sequences] */
    const int32_t *types;   /**< [R] token types; NULL: all 0 */
    /** NULL, except for an encoder-decoder: the input of its encoder, with the same number of
     *  sequences; the other members are then the input of its decoder */
    const struct qkv_model_input *source;
    /** NULL: none; of an encoder-decoder they apply to both stacks, and the options of source are
     *  ignored.  qkv_ablate_scan and qkv_ablate_compare refuse them */
    const struct qkv_run_options *options;
};

/** The sublayers of a layer in their order; each reads the residual stream and adds to it. */
enum { QKV_SUBLAYER_ATTENTION = 0, QKV_SUBLAYER_CROSS, QKV_SUBLAYER_FEED_FORWARD, QKV_SUBLAYERS };

/** The output of one layer, for an observer; pointers are valid during the callback only.
 *  Padding rows are not computed: they contain 0, and their lse is -INFINITY. */
struct qkv_layer_output {
    enum qkv_attention_part part;
    /** index of the layer, 0 .. layers-1; -1: the output of the embeddings, with only hidden set */
    int64_t layer;
    int64_t R, H, G, E; /**< number of rows, heads, key heads; width of a query or key head */
    int64_t F;          /**< width of a value head */
    int64_t S;          /**< number of rows of k and v: R; with CROSS the rows of the encoder */
    /** [sequences + 1] offsets of the sequences in the rows of q and of k */
    const int64_t *q_offsets, *k_offsets;
    bool causal;         /**< a token attends to itself and the tokens before it */
    int64_t left, right; /**< token i attends to keys i-left .. i+right; -1: unlimited */
    /** [R][D] output of this layer; the output of the last layer is the result of the run.  NULL
     *  with CROSS, because the observer receives CROSS before the layer is complete */
    const float *hidden;
    /** [R][D] the residual stream after each sublayer and, in a post-norm model, the sublayer's
     *  norm, but before a norm that follows the last layer.  NULL: the layer lacks that sublayer.
     *  All entries are NULL if the observer did not request them, with CROSS, and when a decoder
     *  runs (decode.h) */
    const float *stream[QKV_SUBLAYERS];
    const float *q;     /**< [R][H][E] queries after rotary positions, before scaling */
    const float *k, *v; /**< [S][G][E] keys and [S][G][F] values */
    const float *lse;   /**< [H][R] ln of the softmax sums */
    /** [H][R][keys] dense weights, where keys is the number of tokens of the longest key sequence
     *  with its padding; NULL unless requested */
    const float *weights;
    /** factor of the score.  The score of query i and key j, positions in their sequences, is scale
     *  q.k; a softcap c replaces it by c tanh(score / c); then relative[h][j - i], with j - i
     *  clipped to -reach .. reach, is added.  The weight of a key that is not masked is exp(score -
     *  lse) */
    float scale;
    float softcap;         /**< cap of the scores; 0: no cap */
    const float *relative; /**< [H][2 reach + 1] relative position bias; NULL: no bias */
    int64_t reach;
    int64_t first; /**< position of row 0 in its sequence: 0, except from a decoder (decode.h) */
    /** The requested statistics, with B = 1 and T = R; NULL: no statistics were requested.  A
     *  padding row has the statistics of a row that attends to no key. */
    const struct qkv_probe *probe;
};
struct qkv_observer {
    /** The callback.  A result other than 0 stops the run with QKV_ERR_INTERRUPTED. */
    int (*layer)(void *user, const struct qkv_layer_output *seen);
    void *user;
    bool weights; /**< compute the dense weights: costs H*R*keys floats */
    /** statistics to collect in every layer, in memory linear in R */
    struct qkv_probe_request probe;
    bool skip_qkv;  /**< do not store q, k, v, lse; the callback receives NULL */
    bool sublayers; /**< store the stream after each sublayer: R*D floats each */
};

/** Writes the name of the queries ('q'), keys ('k') or values ('v') of a layer, as an observer
 *  receives them, to out[size], NUL-terminated and cut to size: the name that transformers gives to
 *  the module whose output they are, in the model without its output head, such as
 *  "encoder.layer.0.attention.self.query".  If no module has this output, because one module
 *  computes all three, or because queries and keys are normed or rotated, it is the name of the
 *  attention's module, then ".query_states", ".key_states" or ".value_states", such as
 *  "layers.0.self_attn.query_states".  "": the model has no such part or layer.  Returns out. */
QKV_API char *qkv_model_states_name(char *out, size_t size, const qkv_model *m,
                                    enum qkv_attention_part part, int64_t layer, char which);

/** Runs the model and writes the last hidden state (of an encoder-decoder, the last hidden state of
 *  the decoder) to hidden[R][D], unless hidden is NULL.  observer may be NULL.
 *  Padding rows are not computed: they contain 0, and their ids are ignored.
 *  A model without token types ignores in->types.
 *  Memory: each run allocates one block, linear in R, which the model keeps for later runs (up to
 *  64 MiB per concurrent run); the first run packs the weights, which the model stores.  With
 *  several threads and at least as many sequences of about equal length, each thread may run some
 *  of the sequences, with a block of its own.
 *  Returns: QKV_OK; QKV_ERR_USAGE (id outside the vocabulary, sequence longer than the positions,
 *  offsets that decrease, options out of range); QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED (by the
 *  observer): hidden is undefined.
 *  Repeats: the rows of a sequence are bit-identical whatever the other sequences and the padding
 *           are. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_run(const qkv_model *m, float *hidden,
                                                const struct qkv_model_input *in,
                                                const struct qkv_observer *observer,
                                                qkv_error *err);

/** Computes the logits of all tokens of the vocabulary, logits[R][V], from hidden[R][D], rows of
 *  the last hidden state.  It applies the output head for masked tokens, if the model has one, and
 *  the factor and the cap that the model has for its logits.  The first call packs the weights of
 *  the output projection.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (no such output head: err names the missing
 *  tensor); QKV_ERR_LIMIT.
 *  Repeats: the bits of a row do not depend on R or the number of threads. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_logits(const qkv_model *m, float *logits,
                                                   const float *hidden, int64_t R, qkv_error *err);
/** Computes scores[sequences][labels], the logits of the output head for labels.  For an
 *  encoder-decoder, in is the input of the encoder; the decoder reads the same tokens, shifted.
 *  Returns: as qkv_model_run; also QKV_ERR_UNSUPPORTED (no output head for labels) and
 *  QKV_ERR_USAGE (a sequence without tokens). */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_classify(const qkv_model *m, float *scores,
                                                     const struct qkv_model_input *in,
                                                     qkv_error *err);

/** Computes scores[R][labels], the logits of the output head for labels of tokens, R =
 *  in->offsets[in->sequences]; rows of padding contain 0.
 *  Returns: as qkv_model_classify, but a sequence may be empty. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_classify_tokens(const qkv_model *m, float *scores,
                                                            const struct qkv_model_input *in,
                                                            qkv_error *err);

/** Sets the ablated heads of the model, replacing the previous list; with n = 0 no head is ablated.
 *  For a head ablated by UNIFORM an observer receives equal weights; for ZERO and MEAN it receives
 *  the original weights, although they do not affect the output.  list is copied.
 *  Call it while no run of the model is in progress, after freeing its decoders.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (no such part, layer or head; a head named twice; an unknown
 *            kind: err names it); QKV_ERR_UNSUPPORTED (a GRU has no heads); QKV_ERR_LIMIT.  After
 *            an error the model is unchanged
 *  qkv/ablate.h measures the effect of each head on a text. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_ablate(qkv_model *m, const struct qkv_ablation *list,
                                                   int64_t n, qkv_error *err);

/** Parses an ablation from text[bytes]: "L3.H5=zero", "L3.H5=mean" or "L3.H5=uniform"; "L3.H5"
 *  means "L3.H5=zero", and "L3.H*" means every head of layer 3.  In a model of two stacks the
 *  prefix "enc.", "dec." or "cross." selects the stack.  qkv_model_ablate checks that the layer and
 *  head exist.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: err has the place of the error and the expected text */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablation_parse(struct qkv_ablation *out, const char *text,
                                                     size_t bytes, qkv_error *err);
/** Formats an ablation as text in out[size], NUL-terminated and at most 47 bytes long.  Returns
 *  out. */
QKV_API char *qkv_ablation_name(char *out, size_t size, const struct qkv_ablation *a);

/** Copies row `id` of the input embedding table to out[D] (without position embedding and norm).
 *  If the rows have another width than the model (ALBERT), projects the row to the model's width.
 *  Returns: QKV_OK; QKV_ERR_USAGE: no such id; QKV_ERR_LIMIT. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_embedding(const qkv_model *m, float *out, int32_t id);
/** Copies row `id` of the input embedding table to out[embed_width], without a projection.
 *  Returns: QKV_OK; QKV_ERR_USAGE: no such id. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_embedding_row(const qkv_model *m, float *out,
                                                          int32_t id);

/** Finds the model folder: dir if it is not NULL, otherwise QKV_MODEL if it is set (each a path or,
 *  if nothing has this path, a name for qkv_hub_find or, without a revision, a name whose last part
 *  is in one of the folders below); otherwise the first folder all-MiniLM-L6-v2 or verse in the
 *  folders $QKV_MODELS (default: ./models), $XDG_DATA_HOME/qkv/models or ~/.local/share/qkv/models,
 *  share/qkv/models of the installation.
 *  Out: out[size] the folder, why[why_size] the reason of the choice.  Returns: QKV_OK;
 *  QKV_ERR_USAGE: no folder was found, err lists the searched ones; errors of qkv_hub_find. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_find(char *out, size_t size, char *why, size_t why_size,
                                                 const char *dir, qkv_error *err);
/** Writes to out[size] the path of folder n, counted from 0, in which qkv_model_find looks for
 *  models; "" if the path is unknown on this system.  Returns false if there is no folder n. */
QKV_API bool qkv_model_search_directory(char *out, size_t size, int n);

/** The structure of a Transformer: its sizes, and which parts a layer has.  D is the width of the
 *  model, E the width of a query or key head, F the width of a value head.
 *
 *  With f a sublayer (attention, cross-attention or feed-forward network), a layer computes for
 *  each sublayer, where a norm whose member is false is left out:
 *      x = norm_after(x + norm_inside(f(norm_before(x)))) */
struct qkv_structure {
    enum qkv_model_kind kind;
    char family[32]; /**< name of the family: "bert", "llama", ... */
    /** layers of the only stack, or of the encoder; decoder_layers: layers of the decoder of an
     *  encoder-decoder, otherwise 0 */
    int64_t layers, decoder_layers;
    int64_t heads, kv_heads; /**< query heads, and key and value heads, which queries share */
    int64_t width, key_width, value_width, inner; /**< D, E, F and the width of the feed-forward */
    /** token ids of the only stack, or of the encoder; decoder_vocab: token ids of the decoder of
     *  an encoder-decoder, equal to vocab if the stacks share a table of embeddings; otherwise 0 */
    int64_t vocab, decoder_vocab;
    int64_t positions;
    /** width of the embeddings, which a linear layer projects to D; without that layer D */
    int64_t embed_width;
    char position[16];   /**< "learned", "sinusoidal", "rotary", "relative" or "none" */
    char norm[16];       /**< "layer norm" or "RMS norm" */
    char activation[32]; /**< of the feed-forward network, as in config.json: "gelu", "silu", ... */
    bool norm_before, norm_inside, norm_after;
    bool first_norm_missing; /**< layer 0 has no norm before its attention */
    bool norm_heads;         /**< queries and keys have a norm: each head has its own */
    bool norm_whole;         /**< with norm_heads: one norm over all heads of a token instead */
    bool gated;              /**< feed-forward is down(act(gate x) * up x) */
    bool feed_forward_once;  /**< one feed-forward network after all layers, none in a layer */
    bool feed_forward_bare;  /**< with feed_forward_once: that network has no norm and no sum */
    bool embedding_norm, final_norm;
    bool windows;         /**< some layers attend to a window of keys only */
    double scale;         /**< factor of q.k before the softmax, usually 1 / sqrt(E) */
    double softcap;       /**< soft cap of the scores; 0: no cap */
    double logit_softcap; /**< soft cap of the logits; 0: no cap */
    /** classes of the output head for labels, if "architectures" names one; otherwise 0 */
    int64_t labels;
};

/** Reads dir/config.json into *out.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (NULL); QKV_ERR_IO; QKV_ERR_FORMAT; QKV_ERR_UNSUPPORTED (unknown
 *            family, a recurrent model, or word vectors without layers); QKV_ERR_LIMIT.  After an
 *            error *out is zero. */
QKV_API QKV_MUST_CHECK qkv_status qkv_structure_read(struct qkv_structure *out, const char *dir,
                                                     qkv_error *err);

QKV_END_DECLS
#endif
