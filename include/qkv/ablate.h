// SPDX-License-Identifier: MIT
/** ablate.h: measures the effect of each head by ablating one head at a time, and splits the cosine
 *  of two texts into terms for pairs of their tokens.
 *
 *      struct qkv_effects e;
 *      struct qkv_model_input in = { .sequences = 1, .offsets = (int64_t[]){ 0, n }, .ids = ids };
 *      if (!qkv_ablate_scan(&e, model, &in, NULL, &err)) use(e.stack[0].effect);
 *      qkv_effects_free(&e);
 */
#ifndef QKV_ABLATE_H
#define QKV_ABLATE_H

#include <qkv/task.h>

QKV_BEGIN_DECLS

/** A token whose prediction or hidden row changes when a head is ablated.  In an encoder-decoder
 *  the token belongs to the target, also for heads of the encoder.
 *    decoders  before and after are the probabilities of the token given the preceding tokens,
 *              without and with the ablation
 *    encoders  before is 0; after is 1 - cosine of the token's last hidden row with its row in the
 *              unchanged model */
struct qkv_change {
    int64_t token; /**< index of the token; -1: end of the list */
    float before, after;
};
struct qkv_effect_stack {
    enum qkv_attention_part part;
    int64_t layers, heads;
    int64_t tokens;      /**< number of queries of this attention */
    const float *effect; /**< [layers][heads] effect of each head */
    /** [layers][heads][changes] changed tokens, the largest change first */
    const struct qkv_change *change;
};
/** The effect of each head on a text.
 *    encoders   effect = 1 - cosine of the pooled vectors without and with the head
 *    decoders,  effect = increase of the mean loss when the head is ablated: the mean over all
 *    encoder-   tokens but the first of ln p(token) with the head minus ln p(token) without it.
 *    decoders   A negative effect means that the text is more likely without the head */
struct qkv_effects {
    const char *unit; /**< unit of the effects: "1 - cosine" or "nats" */
    double loss;      /**< loss of the unchanged model in nats per token; 0 for encoders */
    int64_t changes;  /**< number of changed tokens that are stored per head */
    /** number of entries of stack: 3 for an encoder-decoder (encoder, decoder, cross), otherwise
     *  1 */
    int64_t stacks;
    struct qkv_effect_stack stack[3];
    void *memory; /**< memory of the arrays; qkv_effects_free frees it */
};
/** Options of qkv_ablate_scan and qkv_ablate_compare; zero, or a NULL pointer, is the default. */
struct qkv_effects_options {
    enum qkv_ablation_kind kind;
    /** pooling of the hidden rows of a text into its vector.  QKV_POOL_FILE means the mean here;
     *  qkv_embedder_pool returns the pooling that the model folder names */
    enum qkv_pool pool;
    /** number of changed tokens to store per head, limited to the tokens of the text; 0: 5 */
    int64_t changes;
    /** rows per batch, which bounds memory and does not change any bit of the results; 0: 2048 */
    int64_t batch_tokens;
    struct qkv_progress progress; /**< counts heads */
};
/** Ablates every head of the model, one at a time, on one sequence of tokens (padding as in
 *  qkv_model_run).  The layers before a head run once for all heads of the same layer, and the
 *  layers after the head run for many heads in one batch; the results are bit-identical to calls of
 *  qkv_model_ablate and qkv_model_run for each head.
 *  If the model already has ablated heads, these stay ablated during the scan and have effect 0.
 *  In an encoder-decoder in->source is the input of the encoder, and in->ids the input of the
 *  decoder, which begins with the start token.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (not exactly one sequence; no token, or for decoders fewer than
 *            two tokens); QKV_ERR_UNSUPPORTED (a GRU; a decoder without an output projection);
 *            QKV_ERR_LIMIT; QKV_ERR_INTERRUPTED.  After an error *out is zeroed
 *  Source:   Michel, Levy, Neubig 2019 (arXiv 1905.10650) section 3 */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablate_scan(struct qkv_effects *out, const qkv_model *m,
                                                  const struct qkv_model_input *in,
                                                  const struct qkv_effects_options *o,
                                                  qkv_error *err);
/** Measures the difference between m and `without`, a model with the same tokenizer and other
 *  ablated heads or other weights, as one effect.  Out: one stack of one layer and one head.
 *  Returns:  as qkv_ablate_scan; also QKV_ERR_USAGE if the kinds, widths or vocabularies of the
 *            models differ */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablate_compare(struct qkv_effects *out, const qkv_model *m,
                                                     const qkv_model *without,
                                                     const struct qkv_model_input *in,
                                                     const struct qkv_effects_options *o,
                                                     qkv_error *err);
/** Frees the arrays of e, which may be NULL or zeroed. */
QKV_API void qkv_effects_free(struct qkv_effects *e);

/** The cosine of two texts, split into one term per pair of tokens.  a[i] and b[j] are the last
 *  hidden rows of the tokens of the texts, after the prompt, and after Dense modules without bias
 *  and activation; u[i] and v[j] are the weights of the pooling: 1, with QKV_POOL_WEIGHTED the
 *  number of the token from 1, for tokens of a prompt that is not pooled 0:
 *
 *      A = sum_i u[i] a[i],   B = sum_j v[j] b[j]
 *      cosine = A . B / |A| |B| = sum_ij term[i][j]
 *      term[i][j] = u[i] v[j] a[i] . b[j] / (|A| |B|)
 */
struct qkv_why {
    double cosine;         /**< sum of all terms */
    int64_t rows, columns; /**< number of tokens of the first and of the second text */
    double *terms;         /**< [rows][columns] terms of the cosine */
    qkv_encoding text[2];  /**< tokens of the two texts */
};
/** Computes the terms of the cosine of two texts, which are encoded as in qkv_embed.
 *  Returns:  as qkv_embed; also QKV_ERR_UNSUPPORTED if the vectors of the embedder are no sums over
 *            tokens: another pooling than to a mean, or a module with a bias, an activation or a
 *            norm (err names it).  After an error *out is zeroed
 *  Edge:     if a text has no token or its sum is 0, every term is 0 */
QKV_API QKV_MUST_CHECK qkv_status qkv_why(struct qkv_why *out, const qkv_embedder *e, const char *a,
                                          size_t a_bytes, const char *b, size_t b_bytes,
                                          qkv_error *err);
/** Frees the arrays of w, which may be NULL or zeroed. */
QKV_API void qkv_why_free(struct qkv_why *w);

QKV_END_DECLS
#endif
