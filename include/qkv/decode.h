// SPDX-License-Identifier: MIT
/** decode.h: decodes incrementally with a KV cache.
 *
 *  A decoder has items: sequences that grow independently, each with its slot in the caches of
 *  every layer.  It runs the decoders and encoder-decoders of model.h:
 *
 *      struct qkv_decoder_options o = { .items = 1 };
 *      qkv_decoder_new(&d, model, &o, &err);
 *      qkv_decoder_source(d, 0, &source, &err);                   // encoder-decoders only
 *      const int64_t items[] = { 0 }, offsets[] = { 0, count };
 *      struct qkv_decoder_tokens t = { .n = 1, .items = items, .offsets = offsets, .ids = prompt };
 *      qkv_decoder_feed(d, logits, &t, &err);                    // logits[V] after the last token
 */
#ifndef QKV_DECODE_H
#define QKV_DECODE_H

#include <qkv/model.h>

QKV_BEGIN_DECLS

/** A decoder of one model.  One thread at a time may use it.  Several decoders may share the model,
 *  which must stay open until the last of them is freed. */
typedef struct qkv_decoder qkv_decoder;

/** Options of qkv_decoder_new.  Zero is the default of every member except items. */
struct qkv_decoder_options {
    int64_t items;    /**< the most concurrent sequences, >= 1 */
    int64_t capacity; /**< the most tokens of an item; 0: its upper limit, the model's
                       *   positions (with longrope: its original positions) */
    /** Precision of the caches.  0 (F32) means the type that the model's attention stores, float or
     *  16 bits.  F32_STRICT means always float; INT8 means 8 bits and a scale per token and
     *  head. */
    qkv_precision cache;
    int64_t chunk; /**< the most tokens per pass through the layers, which bounds memory; 0: 512 */
};

/** Makes a decoder and allocates the memory of all layers except the caches, which grow with the
 *  tokens.
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_UNSUPPORTED (an encoder; a model without an output
 *            projection; a precision); QKV_ERR_LIMIT.  After an error *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_new(qkv_decoder **out, const qkv_model *m,
                                                  const struct qkv_decoder_options *o,
                                                  qkv_error *err);
QKV_API void qkv_decoder_free(qkv_decoder *d); /**< NULL is fine */

/** Runs the encoder of an encoder-decoder on the sequences of source.  For every sequence i, item
 *  first + i is reset to length 0; from then on its cross-attention attends to sequence i.
 *  Returns:  QKV_OK; QKV_ERR_USAGE (a model without an encoder, no such item, ids outside the
 *            vocabulary, a sequence that is empty or longer than the positions); QKV_ERR_LIMIT: the
 *            items are now empty and have no source */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_source(qkv_decoder *d, int64_t first,
                                                     const struct qkv_model_input *source,
                                                     qkv_error *err);

/** New tokens for some items: entry i appends ids[offsets[i]] .. ids[offsets[i + 1] - 1] to item
 *  items[i]. */
struct qkv_decoder_tokens {
    int64_t n;
    const int64_t *items; /**< [n] items that receive tokens, none twice; NULL: items 0 .. n-1 */
    /** [n + 1] index in ids of the first token of each item, from 0; each item receives at least
     *  one token.  NULL: each item receives one token */
    const int64_t *offsets;
    const int32_t *ids; /**< [R] token ids of all items, R = offsets[n] */
    bool every; /**< compute logits after every token, not only after the last token of each item */
};

/** Appends tokens to items and computes their logits.
 *
 *  Out:      logits [n][V] after the last token of each entry; with `every`, logits [R][V] after
 *            each token; NULL: no logits are computed
 *  Returns:  QKV_OK; QKV_ERR_USAGE (more tokens than the capacity: err has both numbers; an invalid
 *            id or item; an encoder-decoder's item without a source); QKV_ERR_LIMIT.  After an
 *            error no item has changed, and logits are undefined
 *  Repeats:  the logits of an item are bit-identical whatever the other items are, however its
 *            tokens are split into calls, and for any number of threads.  In F32, with caches of
 *            the attention's precision, they are also bit-identical to the results of qkv_model_run
 *            and qkv_model_logits */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_feed(qkv_decoder *d, float *logits,
                                                   const struct qkv_decoder_tokens *t,
                                                   qkv_error *err);

/** Copies item from[i], as it was before the call and with its source, to item to[i], for all i < n
 *  at once: one call per step of a beam search.  The copies share memory until one of them grows.
 *  In:       to[n] contains no item twice; from[n] may contain any items
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT: the items of to are now empty and have no
 *            source */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_copy(qkv_decoder *d, const int64_t *to,
                                                   const int64_t *from, int64_t n, qkv_error *err);

/** Truncates an item to its first n tokens; an item with fewer tokens does not change.  The item
 *  keeps its source.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: no such item; n < 0; a layer with a window no longer stores a
 *            key that the next token needs; a GRU no longer stores the state after n tokens (n = 0
 *            is always valid).  After an error nothing has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_cut(qkv_decoder *d, int64_t item, int64_t n);

/** Sets the observer of one item.  qkv_decoder_feed then passes it the output of each layer for the
 *  new tokens, at most `chunk` tokens (an option of the decoder) per callback.  In struct
 *  qkv_layer_output, R is the number of new rows, `first` is the position of row 0, and S is the
 *  number of tokens of the item so far (in cross-attention, the number of tokens of its source); k
 *  and v are NULL, because they are in the caches.  hidden, q, lse and the requested statistics are
 *  set, and with observer->weights also the dense weights [H][R][S]; the rows of a request are
 *  counted from row 0 of the callback.  For a GRU the observer receives only CROSS of layer 0, with
 *  H = 1, lse, weights and statistics, for all new tokens in one callback.
 *  If the callback returns a number other than 0, feed returns QKV_ERR_INTERRUPTED and no item has
 *  changed.  observer is copied and replaces the previous observer; NULL removes it.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: no such item, an invalid request; QKV_ERR_LIMIT.  After an
 *            error nothing has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_decoder_observe(qkv_decoder *d,
                                                      const struct qkv_observer *observer,
                                                      int64_t item, qkv_error *err);

/** Returns the number of tokens of an item; 0 if there is no such item. */
QKV_API int64_t qkv_decoder_length(const qkv_decoder *d, int64_t item);
/** Returns the maximum number of tokens of an item. */
QKV_API int64_t qkv_decoder_capacity(const qkv_decoder *d);
/** Returns the number of bytes that the decoder and its caches have allocated. */
QKV_API size_t qkv_decoder_bytes(const qkv_decoder *d);

QKV_END_DECLS
#endif
