// SPDX-License-Identifier: MIT
/** decode.h: a model that goes on, token by token: keys and values of what it has read stay.
 *
 *  A decoder holds items: sequences that grow on their own, each with its place in the caches of
 *  every layer.  Decoders and encoder-decoders of model.h alike:
 *
 *      struct qkv_decoder_options o = { .items = 1 };
 *      qkv_decoder_new(&d, model, &o, &err);
 *      qkv_decoder_source(d, 0, &source, &err);                   // encoder-decoders only
 *      const int64_t items[] = { 0 }, offsets[] = { 0, count };
 *      struct qkv_decoder_tokens t = { .n = 1, .items = items, .offsets = offsets, .ids = prompt };
 *      qkv_decoder_feed(d, logits, &t, &err);                    // logits[V] behind the last token
 */
#ifndef QKV_DECODE_H
#define QKV_DECODE_H

#include <qkv/model.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Belongs to one thread at a time; the model is shared, const, and outlives it. */
typedef struct qkv_decoder qkv_decoder;

/** Zero is the default of all but items. */
struct qkv_decoder_options {
    int64_t items;    /**< sequences that may be under way at once, >= 1 */
    int64_t capacity; /**< tokens an item may have; 0, or more than that: the model's positions */
    /** Of the caches.  0 (F32): what the model's attention stores, float or its 16-bit type; else
     *  this one (F32_STRICT: float whatever the model has; INT8: 8 bits and a scale a token and
     *  head). */
    qkv_precision cache;
    int64_t chunk; /**< most tokens that go through the layers at once: memory; 0: 512 */
};

/** Memory of every layer but the caches' is taken here, theirs as tokens come.
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (an encoder; a model without an output
 *            projection; a precision); QKV_ERR_LIMIT: *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_new(qkv_decoder **out, const qkv_model *m,
                                                  const struct qkv_decoder_options *o,
                                                  qkv_error *err);
QKV_API void qkv_decoder_free(qkv_decoder *d); /**< NULL is fine */

/** Encoder-decoders: sequence i of source goes through the encoder, and item first + i reads it
 *  from now on; the item begins anew (length 0).
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a decoder alone, no such item, ids, a sequence that is empty or
 *            longer than the positions); QKV_ERR_LIMIT: the items begin anew without a source */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_source(qkv_decoder *d, int64_t first,
                                                     const struct qkv_model_input *source,
                                                     qkv_error *err);

/** Tokens for some items: those of place i are ids[offsets[i]] .. ids[offsets[i + 1] - 1]. */
struct qkv_decoder_tokens {
    int64_t n;
    const int64_t *items;   /**< [n] no item twice; NULL: 0 .. n-1 */
    const int64_t *offsets; /**< [n + 1] from 0, at least one token each; NULL: one token each */
    const int32_t *ids;     /**< [R] R = offsets[n] */
    bool every;             /**< logits of every token, not of the last one of each place */
};

/** The tokens go behind those that the items have.
 *
 *  Out:      logits [n][V] behind each place's last token; with `every` [R][V]; NULL: not wanted (a
 *            prompt but its last token, tokens that are known)
 *  Returns:  QKV_OK; QKV_ERR_USAGE (over the capacity: err has both numbers; ids, items; an
 *            encoder-decoder's item without a source); QKV_ERR_LIMIT: no item has changed, logits
 *            hold nothing
 *  Repeats:  an item's logits have the same bits whatever is fed beside it, in which pieces its
 *            tokens come, for any number of threads; with caches of the attention's own precision
 *            in F32 those of qkv_model_run and qkv_model_logits */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_feed(qkv_decoder *d, float *logits,
                                                   const struct qkv_decoder_tokens *t,
                                                   qkv_error *err);

/** Item to[i] becomes what item from[i] was before the call, its source included, for all i < n at
 *  once: a step of a beam search is one call.  Memory is shared until one of them grows.
 *  In:       to[n] no item twice; from[n] any items
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT: the items of to are empty, without a source */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_copy(qkv_decoder *d, const int64_t *to,
                                                   const int64_t *from, int64_t n, qkv_error *err);

/** The item keeps its first n tokens (more than it has: all), and its source.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: no such item, n < 0, or what the token behind n would see is
 *            forgotten, by layers with a window or by the states of a GRU (n = 0 always goes):
 *            nothing has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_cut(qkv_decoder *d, int64_t item, int64_t n);

/** From now on feed shows what its new tokens of one item do in each layer, piece by piece (`chunk`
 *  of the options): as struct qkv_layer_seen has it, R the new rows, S the tokens that the item
 *  (CROSS: its source) has by then, first the position of row 0.  k and v are NULL: they are in the
 *  caches.
 *  hidden, q and lse, with watch->weights the dense weights [H][R][S], and the probes wished for
 *  are there; rows of a wish count from row 0 of the piece.  Of a GRU: CROSS of layer 0 alone, H 1,
 *  with its lse, weights and probes, all new tokens at once.
 *  A result of the callback other than 0 stops the feed: QKV_ERR_INTERRUPTED, no item has changed.
 *  What watch holds is copied; another one, or NULL (nobody watches), takes its place.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: no such item, a wish that cannot be; QKV_ERR_LIMIT: all is as
 *            it was */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_watch(qkv_decoder *d, const struct qkv_watch *watch,
                                                    int64_t item, qkv_error *err);

QKV_API int64_t qkv_decoder_length(const qkv_decoder *d,
                                   int64_t item);           /**< tokens; 0: no such item */
QKV_API int64_t qkv_decoder_capacity(const qkv_decoder *d); /**< tokens an item may have */
QKV_API size_t qkv_decoder_bytes(const qkv_decoder *d);     /**< held, caches included */

#ifdef __cplusplus
}
#endif
#endif
