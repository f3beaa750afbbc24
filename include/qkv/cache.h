// SPDX-License-Identifier: MIT
/** cache.h: keys and values that stay while a sequence grows, and attention of new tokens to them.
 *
 *  A cache holds B sequences (items) of their own lengths.  What is appended is packed once, in the
 *  layout and the fixed chunks of the operator's kernels: decoding reads it as it lies, once for
 *  all query heads that share a key/value head and all T new tokens, and gives the bits that
 *  qkv_attention_forward gives over the same keys and values in one piece.
 *
 *      qkv_cache_append(c, QKV_CACHE_ALL, k, v, n, NULL, NULL, &err);     // the new tokens' own
 *      struct qkv_attention a = { .T = n, .H = H, .causal = true };
 *      qkv_cache_forward(out, NULL, NULL, q, c, &a, scratch);             // q: the last n tokens
 *
 *  Items of different lengths: qkv_cache_append_some and qkv_cache_forward_some take a list of
 *  items, so that a prompt is read while others stand, and those that have ended are left out.
 *  Beams: qkv_cache_copy.  A decoder that attends to an encoder: append the encoder's tokens once
 *  and leave causal off; several beams of one source name its item several times.
 */
#ifndef QKV_CACHE_H
#define QKV_CACHE_H

#include <qkv/attention.h>
#include <qkv/base.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Opaque.  A const cache may be read by any number of threads at once. */
typedef struct qkv_cache qkv_cache;

/** What a cache holds: B items, G key/value heads of widths E (keys) and F (values; 0: E). */
struct qkv_cache_shape {
    int64_t B, G, E, F;
    int64_t capacity; /**< most tokens an item may have; 0: as many as memory and 2^31 allow */
    /** Of the attention; k, v, q and out are what it stores.  INT8: those are float, keys and
     *  values are kept in 8 bits with a scale a token and head. */
    qkv_precision precision;
    bool native; /**< as in struct qkv_attention */
};

enum { QKV_CACHE_ALL = -1 }; /**< every item */

/** An empty cache; memory is taken as tokens come.  It belongs to the instruction set of now.
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED or QKV_ERR_LIMIT, and *out is NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_new(qkv_cache **out, const struct qkv_cache_shape *s,
                                                qkv_error *err);
QKV_API void qkv_cache_free(qkv_cache *c); /**< NULL is fine */

/** n tokens behind those of item b, or of each item.
 *
 *  In:       b           an item, or QKV_CACHE_ALL
 *            k [n][G][E], v [n][G][F]; for all [B][n][G][E] and [B][n][G][F]
 *            k_strides, v_strides  other orders, in elements; NULL or all 0: as above
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT: no memory, or over the capacity: no item has
 *            changed
 *  Edge:     NaN and Inf reach those queries that attend to them, no others */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_append(qkv_cache *c, int64_t b, const void *k,
                                                   const void *v, int64_t n,
                                                   const struct qkv_strides *k_strides,
                                                   const struct qkv_strides *v_strides,
                                                   qkv_error *err);

/** n tokens behind those of each of some items: place i of k [count][n][G][E] and
 *  v [count][n][G][F] is of item items[i].
 *  In:       items[count]  no item twice
 *  Returns, edge: as qkv_cache_append */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_append_some(
    qkv_cache *c, const int64_t *items, int64_t count, const void *k, const void *v, int64_t n,
    const struct qkv_strides *k_strides, const struct qkv_strides *v_strides, qkv_error *err);

/** Item to[i] becomes what item from[i] was before the call, for all i < count at once: a step of
 *  a beam search in one call.  Memory is shared, block by block, until one of them appends there:
 *  the cost is an address for 256 tokens, and a copy of the last, begun block with the first append
 *  to each but one of those that share it.
 *
 *  In:       to[count]    no item twice
 *            from[count]  any items
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT: no memory: no item has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_copy(qkv_cache *c, const int64_t *to,
                                                 const int64_t *from, int64_t count,
                                                 qkv_error *err);

/** Tokens of item b, forgotten ones included; QKV_CACHE_ALL: of the longest.  0: no such item. */
QKV_API int64_t qkv_cache_length(const qkv_cache *c, int64_t b);

/** Item b, or each, keeps its first n tokens (0: none; more than it has: all); what comes next is
 *  appended there.  Memory stays with the cache.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: n < 0, or a token before n is forgotten (but n = 0 begins
 *            anew): no item has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_cut(qkv_cache *c, int64_t b, int64_t n);

/** Tokens before n are gone: no query sees them, their memory serves what is appended next.  With a
 *  window of `left` keys nothing changes while n <= length - left - T: a stream of up to 2^31
 *  tokens runs in the memory of its window (a capacity counts forgotten tokens, too).  Positions
 *  stay as they were.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: n < 0 or more than an item has: no item has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forget(qkv_cache *c, int64_t b, int64_t n);

/** Bytes the cache holds. */
QKV_API size_t qkv_cache_bytes(const qkv_cache *c);

/** What qkv_cache_forward would do now; takes no memory.  scratch does not hang on the lengths: it
 *  is enough for whatever the cache will hold, for any fewer T and for any items of it
 *  (qkv_cache_forward_some), as long as H and the number of threads stay (qkv_threads_set: plan
 *  anew). */
QKV_API struct qkv_attention_plan qkv_cache_plan(const qkv_cache *c, const struct qkv_attention *a);

/** Exact softmax attention of each item's last T tokens to what the cache holds; allocates nothing.
 *
 *  Out:      out [B][T][H][F], lse [B][H][T], weights [B][H][T][S], as qkv_attention_forward has
 *            them; S = qkv_cache_length(c, QKV_CACHE_ALL)
 *  In:       q [B][T][H][E], or as a->q_strides say
 *            a  T, H, scale, causal, window, softcap, bias, mask, relative, alibi, sinks,
 *               no_softmax, strides of q and out: each call may have its own.  The diagonal is that
 *               of the bottom right: query t of item b is its token length - T + t.  B, S, G, E, F
 *               and precision are the cache's: 0, or the same.
 *               k_lengths NULL, or less than the items have: the first so many tokens of each.
 *               Packed sequences (a->sequences) are QKV_ERR_UNSUPPORTED
 *  Scratch:  qkv_cache_plan(c, a).scratch bytes, 64-byte aligned, planned with the same number of
 *            threads
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED, QKV_ERR_LIMIT as the plan says: nothing
 *            written
 *  Edge, repeats, source: as qkv_attention_forward; keys outside of a window are not read */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forward(void *out, float *lse, float *weights,
                                                    const void *q, const qkv_cache *c,
                                                    const struct qkv_attention *a, void *scratch);

/** The same for some items: what counts by B counts by places of the list (q, out, lse, weights,
 *  k_lengths, a->B, bias.b, mask.b), and place i is of item items[i].  S is the length of the
 *  longest of them.
 *  In:       items[count]  an item may come several times: those queries read the same keys
 *            a->T tokens of each
 *  Repeats:  the bits of qkv_cache_forward, whatever else is in the list */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forward_some(void *out, float *lse, float *weights,
                                                         const void *q, const qkv_cache *c,
                                                         const int64_t *items, int64_t count,
                                                         const struct qkv_attention *a,
                                                         void *scratch);

#ifdef __cplusplus
}
#endif
#endif
