// SPDX-License-Identifier: MIT
/** model.h: a model folder opened and run: config.json and model.safetensors as Hugging Face lays
 *  them out. */
#ifndef QKV_MODEL_H
#define QKV_MODEL_H

#include <qkv/tensor.h>
#include <qkv/text.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef struct qkv_model qkv_model; /**< const after open: threads may share it, one run each */

/** How to open; zero is the default.
 *  precision: of every product.  The stream from layer to layer, norms and sums are float always.
 *    BF16, F16  weights, q, k, v, heads and the inner rows of feed-forward are stored as that type
 *    INT8       weights have 8 bits and a scale a row; a row that meets them is quantised in the product;
 *               attention is F32: INT8 of the operator and of a cache is another thing (keys, values).  Embeddings are as in the file
 *  What qkv_layer_seen shows is float in every precision. */
struct qkv_model_options {
    qkv_precision precision;
    bool no_mmap; /**< read the weights into memory: safe against a file that shrinks meanwhile */
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

/** What the model is.  Texts are borrowed until close. */
struct qkv_model_info {
    const char *family; /**< row of model.def: "bert", "roberta", ... */
    const char *name;   /**< last part of the folder's name */
    int64_t layers, heads, kv_heads, width, head_width, inner, vocab, types;
    int64_t value_width;             /**< of a value head; head_width: of query and key */
    int64_t positions;               /**< tokens a sequence may have */
    int64_t parameters;              /**< numbers in the file that are weights, used or not */
    int64_t tensors, unused_tensors; /**< in the file; of these not used by the family */
    double flops_token; /**< multiply-adds times 2 of all linear layers, for one token */
    bool causal;
    qkv_precision precision; /**< as opened */
    const char
        *arithmetic; /**< how the products of its linear layers are formed on this CPU: "float",
                                  "bf16 pairs", ... */
};
QKV_API struct qkv_model_info qkv_model_info(const qkv_model *m);

/** Tokens of one or many sequences, packed one behind the other: nothing is padded unless asked. */
struct qkv_model_input {
    int64_t sequences;
    const int64_t *offsets; /**< [sequences + 1], from 0 */
    const int64_t *lengths; /**< [sequences] tokens that are not padding; NULL: all */
    const int32_t *ids;     /**< [R] R = offsets[sequences] */
    const int32_t *types;   /**< [R]; NULL: 0 */
};

/** What a run lets a caller see, layer by layer; pointers are valid during the call only.
 *  Rows of padding hold 0, their lse -INFINITY: they were never computed. */
struct qkv_layer_seen {
    int64_t layer;        /**< -1: after the embeddings (hidden only); then 0 .. layers-1 */
    int64_t R, H, G, E;   /**< rows, heads, key heads, width of a query and key head */
    int64_t F;            /**< width of a value head */
    bool causal;          /**< a token sees itself and those before it in its sequence */
    const float *hidden;  /**< [R][D] output of this layer; of the last one: what the run returns */
    const float *q;       /**< [R][H][E] positions applied, not yet scaled */
    const float *k, *v;   /**< [R][G][E], [R][G][F] */
    const float *lse;     /**< [H][R] */
    const float *weights; /**< [H][R][S] dense, S the longest sequence; NULL unless asked for */
    float scale;          /**< weights = exp(scale q.k + bias - lse), of keys that a token sees */
};
struct qkv_watch {
    /** Result other than 0 stops the run with QKV_ERR_INTERRUPTED. */
    int (*layer)(void *user, const struct qkv_layer_seen *seen);
    void *user;
    bool weights; /**< form the dense weights: costs H*R*S floats */
};

/** Runs the model: hidden[R][D] = last hidden state; NULL: not wanted.  watch may be NULL.
 *  Rows of padding are never computed: they hold 0, and their ids may be anything.
 *  A model without token types takes no notice of them.
 *  Memory: one arena a run, linear in R, kept by the model for the next one (up to 64 MiB a run under way
 *  at once); the first run packs the weights, which stay with the model.
 *  Returns QKV_OK; QKV_ERR_USAGE (id outside the vocabulary, sequence longer than the positions,
 *  offsets that fall); QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED (watch said so): hidden holds nothing.
 *  Repeats: a sequence's rows have the same bits whatever runs beside it, padded or not. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_run(const qkv_model *m, float *hidden,
                                                const struct qkv_model_input *in,
                                                const struct qkv_watch *watch, qkv_error *err);

/** out[D] = row `id` of the input embedding table (no position, no norm).
 *  Returns QKV_OK; QKV_ERR_USAGE: no such id. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_embedding(const qkv_model *m, float *out, int32_t id);

/** Which model folder is meant: dir, where it is not NULL; else the variable QKV_MODEL; else the first
 *  of all-MiniLM-L6-v2, verse in ./models, $XDG_DATA_HOME/qkv/models, the installed share/qkv/models.
 *  Out: out[size] the folder, why[why_size] why this one.
 *  Returns QKV_OK; QKV_ERR_USAGE: none found, err says where it looked. */
QKV_API QKV_MUST_CHECK qkv_status qkv_model_find(char *out, size_t size, char *why, size_t why_size,
                                                 const char *dir, qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
