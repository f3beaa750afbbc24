// SPDX-License-Identifier: MIT
/** lens.h: computes the output of a model for a text: the most likely tokens after each layer (the
 *  logit lens), the probabilities of labels, and the share of each token in the vector of a text.
 *
 *      struct qkv_lens x;
 *      struct qkv_model_input in = { .sequences = 1, .offsets = (int64_t[]){ 0, n }, .ids = ids };
 *      int64_t last = n - 1;
 *      if (!qkv_lens(&x, model, &in, &last, 1, 5, &err)) use(x.tokens);
 *      qkv_lens_free(&x);
 */
#ifndef QKV_LENS_H
#define QKV_LENS_H

#include <qkv/task.h>

QKV_BEGIN_DECLS

/** The most likely tokens at chosen positions of a text, after each layer.  h_0 is the output of
 *  the embeddings and h_l the output of layer l - 1, as an observer receives it (model.h):
 *
 *      p_l = softmax(head(norm(h_l))),  l = 0 .. L - 1
 *      p_L = softmax(head(h_L)),        the output of the model
 *
 *  norm is the model's own norm after its last layer (none in a post-norm model such as BERT; h_L
 *  already includes it), head is qkv_model_logits: the output head for masked tokens if the model
 *  has one, the output projection, and the factor and the cap of the logits.  L is the number of
 *  layers; of an encoder-decoder, of its decoder.  A recurrent model with attention has only its
 *  output, the softmax of the logits of each step: rows is 1.
 *  Source: nostalgebraist 2020, "interpreting GPT: the logit lens". */
struct qkv_lens {
    int64_t positions; /**< P, the number of chosen positions */
    int64_t rows;      /**< L + 1; of a recurrent model 1 */
    int64_t top;       /**< K, the number of tokens per row */
    int64_t *at;       /**< [P] the chosen positions: indices among the tokens of the input */
    /** [P][rows][K] the most likely tokens with their probabilities, the most likely first; of
     *  equal probabilities the smaller id first */
    struct qkv_token_value *tokens;
    /** [P] the token that the text has where the model predicts: in a decoder the token after the
     *  position, in an encoder the token at the position; -1: the text ends there, or has the mask
     *  token that config.json names */
    int32_t *target;
    float *target_probability; /**< [P][rows] its probability; 0 if target is -1 */
    int64_t *target_rank; /**< [P][rows] number of tokens with a larger logit; 0 if target is -1 */
};
/** Computes the most likely tokens at the positions at[n] of one sequence, after each layer.
 *  A decoder predicts the token after the position; an encoder-decoder likewise, at a position of
 *  the input of its decoder; an encoder with a head for masked tokens predicts the token at the
 *  position, so that a position with the mask token has the tokens that fill it.
 *  at NULL: every position (n is ignored).  top: 1 .. vocab.  The caller calls qkv_lens_free.
 *  Returns: QKV_OK; QKV_ERR_USAGE (not one sequence, a position outside it, top out of range; also
 *           as qkv_model_run); QKV_ERR_UNSUPPORTED (no output head for tokens);
 *           QKV_ERR_INTERNAL (logits that are not finite); QKV_ERR_LIMIT.
 *           After an error *out is zero.
 *  Memory:  P rows K tokens, and logits of at most 2^20 elements (or one row of them) at a time.
 *  Cost:    a run, and 2 P rows width vocab operations.
 *  Edge:    an empty sequence has P = 0.
 *  Repeats: the last row has the bits of qkv_model_run, qkv_model_logits and softmax, and therefore
 *           (f32) the bits of qkv_generate. */
QKV_API QKV_MUST_CHECK qkv_status qkv_lens(struct qkv_lens *out, const qkv_model *m,
                                           const struct qkv_model_input *in, const int64_t *at,
                                           int64_t n, int64_t top, qkv_error *err);
QKV_API void qkv_lens_free(struct qkv_lens *x); /**< frees the arrays; NULL is fine */

/** Computes share[n], the part of each token in the vector of a text.  The vector, before it is
 *  scaled to length 1, is a sum over tokens:
 *
 *      v = sum_i c_i,  c_i = D (w_i h_i),  share_i = c_i . v / (v . v),  sum_i share_i = 1
 *
 *  h_i is the last hidden state of token i and D the linear modules after the pooling.  w_i is 1/n
 *  (mean), 1/sqrt(n) (mean-sqrt), i / sum_k k for i = 1 .. n (weighted), or 1 for the first token
 *  (cls) or the last (last) and 0 for the others; with the pooling max, w_i h_i has the elements of
 *  h_i that are the maximum over the tokens (of equal ones, the elements of the first token) and 0
 *  elsewhere.  Since |v|^2 = sum_i c_i . v, a share is the part of the squared length, and of the
 *  cosine of the vector with itself, that the token contributes; it is below 0 if the token points
 *  away from v.
 *  ids[n] are the tokens with the special ones; types may be NULL.  No prompt is added.
 *  *length, unless NULL, receives |v|.
 *  Returns: QKV_OK; QKV_ERR_UNSUPPORTED (several poolings, or a module with a bias, an activation
 *           or a norm: v is then no sum over tokens, and err says so);
 *           QKV_ERR_USAGE; QKV_ERR_LIMIT.
 *  Edge:    n = 0 writes nothing and sets *length to 0; all shares are 0 if |v| = 0, and NaN if v
 *           has NaN. */
QKV_API QKV_MUST_CHECK qkv_status qkv_shares(double *share, double *length, const qkv_embedder *e,
                                             const int32_t *ids, const int32_t *types, int64_t n,
                                             qkv_error *err);

/** Computes the same, bit-identical, from the last hidden states hidden[n][D] of the text, for a
 *  caller that has already run the model of the embedder (qkv_model_run).
 *  Returns, Edge: as qkv_shares. */
QKV_API QKV_MUST_CHECK qkv_status qkv_shares_hidden(double *share, double *length,
                                                    const qkv_embedder *e, const float *hidden,
                                                    int64_t n, qkv_error *err);

/** Computes p[n][labels], the probabilities of labels, from scores[n][labels], the logits of
 *  qkv_model_classify or qkv_model_classify_tokens: the softmax of each row; for a model of texts
 *  with one label, or with the problem_type multi_label_classification, the logistic function of
 *  each score.  p may be scores.
 *  Returns: QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (no output head for labels). */
QKV_API QKV_MUST_CHECK qkv_status qkv_label_probabilities(float *p, const float *scores, int64_t n,
                                                          const qkv_model *m, qkv_error *err);

/** Returns the id of the mask token: the one that config.json names or, if it names none, that of
 *  [MASK] or <mask>; -1 if there is no such token, or an argument is NULL. */
QKV_API int32_t qkv_mask_id(const qkv_model *m, const qkv_tokenizer *t);

QKV_END_DECLS
#endif
