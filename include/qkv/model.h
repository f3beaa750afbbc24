// SPDX-License-Identifier: MIT
/** model.h: a model folder opened and run: config.json and model.safetensors as Hugging Face lays
 *  them out. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include <qkv/probe.h>
#include <qkv/tensor.h>
#include <qkv/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_model qkv_model; /**< const after open: threads may share it, one run each */

/** How to open; zero is the default.
 *  precision: of every product.  The stream from layer to layer, norms and sums are float always.
 *    BF16, F16  weights, q, k, v, heads and the inner rows of feed-forward are stored as that type
 *    INT8       weights have 8 bits and a scale a row; a row that meets them is quantised in the
 *               product; attention is F32: INT8 of the operator and of a cache is another thing
 *               (keys, values).  Embeddings are as in the file
 *  What qkv_layer_seen shows is float in every precision. */
struct qkv_model_options {
    qkv_precision precision;
    bool no_mmap; /**< read the weights into memory: safe against a file that shrinks meanwhile */
    const struct qkv_ablation *ablate; /**< [ablations] heads to run without: qkv_model_ablate */
    int64_t ablations;
};
/** dir: a folder with config.json and model.safetensors, or its shards with their index.
 *  Names, shapes and types of all weights are checked here; they are read by the first run.
 *  o may be NULL; nothing of the arguments is kept.
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_IO; QKV_ERR_FORMAT (also: config.json and the weights
 *            disagree); QKV_ERR_UNSUPPORTED (family, precision, type of weights); QKV_ERR_LIMIT:
 *            *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_open(qkv_model **out, const char *dir,
                                                 const struct qkv_model_options *o, qkv_error *err);
QKV_API void qkv_model_close(qkv_model *m); /**< NULL is fine */

/** What reads what.  ENCODER: every token all of its sequence; DECODER: itself and those before it;
 *  ENCODER_DECODER: two stacks, the second reads itself so, and all of what the first made. */
enum qkv_model_kind { QKV_KIND_ENCODER = 0, QKV_KIND_DECODER, QKV_KIND_ENCODER_DECODER };

/** What a model can do beside hidden states. */
enum {
    QKV_CAN_TOKENS = 1, /**< has an output projection: qkv_model_logits; a decoder: qkv/decode.h */
    QKV_CAN_LABELS = 2, /**< has a head for labels: qkv_model_classify */
    QKV_CAN_RUN = 4     /**< qkv_model_run: every Transformer; a GRU only decodes */
};

/** What the model is.  Texts and arrays are borrowed until close. */
struct qkv_model_info {
    enum qkv_model_kind kind;
    unsigned can;       /**< of QKV_CAN_TOKENS, ... */
    const char *family; /**< row of model.def: "bert", "roberta", ... */
    const char *name;   /**< last part of the folder's name */
    int64_t layers, heads, kv_heads, width, head_width, inner, vocab, types;
    int64_t decoder_layers; /**< of ENCODER_DECODER, 0 else; layers: of its encoder */
    int64_t source_vocab; /**< ids an encoder reads: vocab, but where two stacks have two tables */
    int64_t labels;       /**< of a head for labels, 0: none */
    int64_t value_width;  /**< of a value head; head_width: of query and key */
    int64_t positions;    /**< tokens a sequence may have */
    int64_t parameters;   /**< numbers in the file that are weights, used or not */
    int64_t tensors, unused_tensors; /**< in the file; of these not used by the family */
    double flops_token; /**< multiply-adds times 2 of all linear layers, for one token */
    bool causal;
    /** Ids as config.json has them; -1: none.  start: what the decoder of two stacks begins with;
     *  forced: what it must write first (BART). */
    int32_t bos, eos, pad, mask, start, forced;
    const int32_t *stops; /**< [stop_count] every id that ends a text, eos the first */
    int64_t stop_count;
    qkv_precision precision; /**< as opened */
    const char
        *arithmetic; /**< how the products of its linear layers are formed on this CPU: "float",
                                  "bf16 pairs", ... */
};
QKV_API struct qkv_model_info qkv_model_info(const qkv_model *m);
/** Name of a label (id2label of config.json, or "LABEL_0"); NULL: no such label.  Borrowed. */
QKV_API const char *qkv_model_label(const qkv_model *m, int64_t label);

/** Tokens of one or many sequences, packed one behind the other: nothing is padded unless asked. */
struct qkv_model_input {
    int64_t sequences;
    const int64_t *offsets; /**< [sequences + 1], from 0 */
    const int64_t *lengths; /**< [sequences] tokens that are not padding; NULL: all */
    const int32_t *ids;     /**< [R] R = offsets[sequences] */
    const int32_t *types;   /**< [R]; NULL: 0 */
    /** ENCODER_DECODER: what the encoder reads, as many sequences; the members above are what the
     *  decoder reads.  NULL in every other model. */
    const struct qkv_model_input *source;
};

/** Which attention a layer seen is: that of the one stack, of the encoder or decoder of two, or of
 *  the decoder to what the encoder made. */
enum qkv_seen_part { QKV_SEEN_STACK = 0, QKV_SEEN_ENCODER, QKV_SEEN_DECODER, QKV_SEEN_CROSS };

/** What a run lets a caller see, layer by layer; pointers are valid during the call only.
 *  Rows of padding hold 0, their lse -INFINITY: they were never computed. */
struct qkv_layer_seen {
    enum qkv_seen_part part;
    int64_t layer;      /**< -1: after the embeddings (hidden only); then 0 .. layers-1 */
    int64_t R, H, G, E; /**< rows, heads, key heads, width of a query and key head */
    int64_t F;          /**< width of a value head */
    int64_t S;          /**< rows of k and v: R; of CROSS the encoder's */
    const int64_t *q_offsets, *k_offsets; /**< [sequences + 1] of these rows */
    bool causal;         /**< a token sees itself and those before it in its sequence */
    int64_t left, right; /**< keys i-left .. i+right that a token i sees; -1: unlimited */
    const float *hidden; /**< [R][D] output of this layer; of the last one: what the run returns;
                               NULL with CROSS, which comes before DECODER of its layer */
    const float *q;      /**< [R][H][E] positions applied, not yet scaled */
    const float *k, *v;  /**< [S][G][E], [S][G][F] */
    const float *lse;    /**< [H][R] */
    const float
        *weights;  /**< [H][R][keys] dense, keys: tokens of the longest sequence of keys (with
                               padding); NULL unless asked for */
    float scale;   /**< score = scale q.k; with a softcap c: c tanh(score / c); then + relative
                               [h][j - i], cut to -reach .. reach, of H x (2 reach + 1); weights =
                               exp(score - lse) of keys that a token sees, i and j in its
                               sequence */
    float softcap; /**< 0: none */
    const float *relative; /**< [H][2 reach + 1]; NULL: none */
    int64_t reach;
    int64_t
        first; /**< position of row 0 in its sequence: 0, but in what a decoder shows (decode.h) */
    const struct qkv_probe
        *probe; /**< what was wished for, B = 1, T = R; NULL: nothing was.  Rows of
                                        padding: as rows that see nothing */
};
struct qkv_watch {
    /** Result other than 0 stops the run with QKV_ERR_INTERRUPTED. */
    int (*layer)(void *user, const struct qkv_layer_seen *seen);
    void *user;
    bool weights;                /**< form the dense weights: costs H*R*keys floats */
    struct qkv_probe_wish probe; /**< find these in every layer, in memory linear in R */
    bool lean;                   /**< q, k, v and lse are not kept: NULL in what is seen */
};

/** Runs the model: hidden[R][D] = last hidden state (of two stacks: the decoder's); NULL: not
 *  wanted.  watch may be NULL.
 *  Rows of padding are never computed: they hold 0, and their ids may be anything.
 *  A model without token types takes no notice of them.
 *  Memory: one arena a run, linear in R, kept by the model for the next one (up to 64 MiB a run
 *  under way at once); the first run packs the weights, which stay with the model.
 *  Returns QKV_OK; QKV_ERR_USAGE (id outside the vocabulary, sequence longer than the positions,
 *  offsets that fall); QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED (watch said so): hidden holds nothing.
 *  Repeats: a sequence's rows have the same bits whatever runs beside it, padded or not. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_run(const qkv_model *m, float *hidden,
                                                const struct qkv_model_input *in,
                                                const struct qkv_watch *watch, qkv_error *err);

/** Scores of every token of the vocabulary behind each row: logits[R][V] of hidden[R][D], the last
 *  hidden state, as rows of qkv_model_run are.  The head for masked tokens, where the model has
 *  one, and every factor or cap the model puts on its logits are in.  The first call packs the
 *  projection.
 *  Returns QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (the model has none: err names the tensor);
 *  QKV_ERR_LIMIT.  Repeats: a row's bits do not depend on R or the number of threads */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_logits(const qkv_model *m, float *logits,
                                                   const float *hidden, int64_t R, qkv_error *err);
/** Scores of a head for labels, before any softmax: scores[sequences][labels].
 *  Returns as qkv_model_run; QKV_ERR_UNSUPPORTED: no such head; QKV_ERR_USAGE: a sequence without
 *  tokens */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_classify(const qkv_model *m, float *scores,
                                                     const struct qkv_model_input *in,
                                                     qkv_error *err);

/** What a head gives in place of what it found:
 *    ZERO     nothing: the same bits, in F32, as with the columns of the output projection that
 *             read the head set to 0
 *    MEAN     the mean of what it gives over the rows of its sequence; in a decoder over those up
 *             to the row, itself included, so that a token at a time gives what all at once do
 *    UNIFORM  the mean of the values that the row sees: every key has the same weight */
enum qkv_ablation_kind { QKV_ABLATE_ZERO = 0, QKV_ABLATE_MEAN, QKV_ABLATE_UNIFORM };
struct qkv_ablation {
    enum qkv_seen_part part; /**< STACK in a model of one stack; the other three in one of two */
    int64_t layer, head;     /**< from 0; head -1: every head of the layer */
    enum qkv_ablation_kind kind;
};
/** From now on the model runs with these heads ablated, in place of those of before; n 0: with all
 *  of them whole.  What is shown to a watch is what the heads do then: weights of UNIFORM are
 *  equal, those of ZERO and MEAN as they were, for nobody reads what they weigh.  list is copied.
 *  No run of the model is under way, and decoders that were made before are freed before.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a part, layer or head that the model has not; a head named
 *            twice; an unknown kind: err names it); QKV_ERR_UNSUPPORTED (a GRU has no heads);
 *            QKV_ERR_LIMIT: the model is as it was
 *  What each head does to a text: qkv/ablate.h */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_ablate(qkv_model *m, const struct qkv_ablation *list,
                                                   int64_t n, qkv_error *err);

/** text[bytes] = one head and what becomes of it: "L3.H5=zero", "=mean", "=uniform"; zero
 *  without "=...".
 *  "L3.H*": every head of the layer.  Before it, in a model of two stacks, "enc.", "dec." or
 *  "cross.".
 *  Which layers and heads there are is the model's to say: qkv_model_ablate.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: err says what was expected where */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablation_parse(struct qkv_ablation *out, const char *text,
                                                     size_t bytes, qkv_error *err);
/** The same the other way: out[size], terminated, at most 47 bytes long.  Returns out. */
QKV_API char *qkv_ablation_name(char *out, size_t size, const struct qkv_ablation *a);

/** out[D] = row `id` of the input embedding table (no position, no norm).
 *  Returns QKV_OK; QKV_ERR_USAGE: no such id. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_embedding(const qkv_model *m, float *out, int32_t id);

/** Which model folder is meant: dir, where it is not NULL; else the variable QKV_MODEL; else the
 *  first of all-MiniLM-L6-v2, verse in ./models, $XDG_DATA_HOME/qkv/models, the installed
 *  share/qkv/models.
 *  Out: out[size] the folder, why[why_size] why this one.
 *  Returns QKV_OK; QKV_ERR_USAGE: none found, err says where it looked. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_find(char *out, size_t size, char *why, size_t why_size,
                                                 const char *dir, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
