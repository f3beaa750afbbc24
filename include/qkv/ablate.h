// SPDX-License-Identifier: MIT
/** ablate.h: what a head does: a model run with one head after the other left out; and the cosine
 *  of two texts, split into pairs of their tokens.
 *
 *      struct qkv_effects e;
 *      struct qkv_model_input in = { .sequences = 1, .offsets = (int64_t[]){ 0, n }, .ids = ids };
 *      if (!qkv_ablate_scan(&e, model, &in, NULL, &err)) use(e.stack[0].effect);
 *      qkv_effects_free(&e);
 */
#ifndef QKV_ABLATE_H
#define QKV_ABLATE_H

#include <qkv/task.h>

#ifdef __cplusplus
extern "C" {
#endif

/** A token that reads otherwise without a head; of two stacks one of what is written, whatever part
 *  the head is of.
 *    decoders  token i is predicted with another probability by the tokens in front of it
 *    encoders  the last hidden row of token i turns: before 0, after 1 - cosine with the row as it
 *              was */
struct qkv_change {
    int64_t token; /**< -1: none */
    float before, after;
};
struct qkv_effect_stack {
    enum qkv_seen_part part;
    int64_t layers, heads;
    int64_t tokens;                  /**< rows of this attention */
    const float *effect;             /**< [layers][heads] */
    const struct qkv_change *change; /**< [layers][heads][changes], the largest first */
};
/** What each head does to a text.
 *    encoders              effect = 1 - cosine of the pooled vector without the head and with it
 *    decoders, two stacks  effect = how much the mean loss grows without it: mean over the tokens
 *                          behind the first of ln p(token), with it, minus the same without it;
 *                          below 0: the text is likelier without it */
struct qkv_effects {
    const char *unit; /**< "1 - cosine", "nats" */
    double loss;      /**< of the model as it is, nats a token; 0 of encoders */
    int64_t changes;  /**< of each head */
    int64_t stacks;   /**< 1; of two stacks 3: encoder, decoder, cross */
    struct qkv_effect_stack stack[3];
    void *memory; /**< qkv_effects_free gives it back */
};
/** Zero, or NULL for all of it, is the default. */
struct qkv_effects_options {
    enum qkv_ablation_kind kind;
    enum qkv_pool
        pool;        /**< of the vector; QKV_POOL_FILE is taken as mean: qkv_embedder_pool knows */
    int64_t changes; /**< tokens kept of each head; 0: 5; at most the text's */
    int64_t batch_tokens;         /**< rows run at once: memory; 0: 2048; changes no bit */
    struct qkv_progress progress; /**< of heads */
};
/** Every head of the model in turn, on one sequence of tokens (padding as qkv_model_run has it).
 *  Layers in front of a head run once for all heads of its layer, and what is behind them runs for
 *  many heads side by side: the same bits as qkv_model_ablate and qkv_model_run, head after head.
 *  A model that is ablated already is scanned as it is, and its ablated heads have effect 0.
 *  Of two stacks: in->source is what the encoder reads, in->ids what the decoder reads, its start
 *  first.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (not one sequence; no token, of decoders less than two);
 *            QKV_ERR_UNSUPPORTED (a GRU; a decoder without scores of tokens); QKV_ERR_LIMIT;
 *            QKV_ERR_INTERRUPTED: *out is zeroed
 *  Source:   Michel, Levy, Neubig 2019 (arXiv 1905.10650) section 3 */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablate_scan(struct qkv_effects *out, const qkv_model *m,
                                                  const struct qkv_model_input *in,
                                                  const struct qkv_effects_options *o,
                                                  qkv_error *err);
/** The same of two models that read alike, `without` the one with other heads ablated, or other
 *  weights: all that is between them as one effect.  Out: one stack of one layer and one head.
 *  Returns as qkv_ablate_scan; QKV_ERR_USAGE also: models of other kinds, widths or vocabularies */
QKV_API QKV_MUST_CHECK qkv_status qkv_ablate_compare(struct qkv_effects *out, const qkv_model *m,
                                                     const qkv_model *without,
                                                     const struct qkv_model_input *in,
                                                     const struct qkv_effects_options *o,
                                                     qkv_error *err);
QKV_API void qkv_effects_free(struct qkv_effects *e); /**< NULL and a zeroed one are fine */

/** Why two texts are alike.  With rows a[i], b[j] of their tokens, means ma, mb of m and n of them:
 *
 *      cosine = ma . mb / |ma| |mb| = sum_ij term[i][j]
 *      term[i][j] = a[i] . b[j] / (m n |ma| |mb|)
 */
struct qkv_why {
    double cosine;         /**< the sum of all terms */
    int64_t rows, columns; /**< tokens of the first and of the second text */
    double *terms;         /**< [rows][columns] */
    qkv_encoding text[2];  /**< these tokens */
};
/** Texts as qkv_embed takes them.
 *  Returns:  as qkv_embed; QKV_ERR_UNSUPPORTED: an embedder that does not pool by the mean (err
 *            says how it does): *out is zeroed
 *  Edge:     a text without a token, or a mean of 0: every term is 0 */
QKV_API QKV_MUST_CHECK qkv_status qkv_why(struct qkv_why *out, const qkv_embedder *e, const char *a,
                                          size_t a_bytes, const char *b, size_t b_bytes,
                                          qkv_error *err);
QKV_API void qkv_why_free(struct qkv_why *w); /**< NULL and a zeroed one are fine */

#ifdef __cplusplus
}
#endif
#endif
