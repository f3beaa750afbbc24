// SPDX-License-Identifier: MIT
/** cache.h: stores the keys and values of growing sequences (a KV cache) and computes the attention
 *  of new tokens to them.
 *
 *  A cache contains B sequences (items), each with its own length.  Appended keys and values are
 *  packed once, in the layout and the fixed chunks of the operator's kernels.  Decoding reads them
 *  in place, once for all query heads that share a key/value head and all T new tokens, and is
 *  bit-identical to qkv_attention_forward over the same keys and values.
 *
 *      qkv_cache_append(c, QKV_CACHE_ALL, k, v, n, NULL, NULL, &err);     // of the new tokens
 *      struct qkv_attention a = { .T = n, .H = H, .causal = true };
 *      qkv_cache_forward(out, NULL, NULL, q, c, &a, scratch);             // q: the last n tokens
 *
 *  For items of different lengths, qkv_cache_append_some and qkv_cache_forward_some take a list of
 *  items, so that one item can read a prompt while others wait, and finished items are omitted.
 *  For beam search, qkv_cache_copy copies items.
 *  For a cache on several ranks, split its keys into parts (struct qkv_cache_shape) and call
 *  qkv_ranks_cache_forward (ranks.h).
 *  For cross-attention, append the keys and values of the encoder once and call forward without
 *  causal; several beams of one source name the source's item several times in the list.
 */
#ifndef QKV_CACHE_H
#define QKV_CACHE_H

#include <qkv/attention.h>
#include <qkv/base.h>

QKV_BEGIN_DECLS

/** A KV cache.  Any number of threads may read a const cache concurrently. */
typedef struct qkv_cache qkv_cache;

/** The shape of a cache: B items, G key/value heads of widths E (keys) and F (values; 0 means
 *  E). */
struct qkv_cache_shape {
    int64_t B, G, E, F;
    int64_t capacity; /**< the most tokens of an item; 0: limited by memory and 2^31 only */
    /** Precision of the attention, which determines the type of k, v, q and out (base.h).  With
     *  INT8 these arrays are float, and the cache stores keys and values in 8 bits with a scale per
     *  token and head. */
    qkv_precision precision;
    /** refuse a precision for which this CPU has no instructions, as in struct qkv_attention */
    bool native;
    /** Number of parts into which the keys of an item are split, at most QKV_CACHE_PARTS_MAX;
     *  0: 1.  Chunks of 64 to 256 keys, numbered from key 0, belong to the parts in turn: chunk c
     *  to part c mod parts.  Attention sums the keys of each part in their order, then adds the
     *  parts as the leaves of a binary tree, in which the left half of a node has the largest
     *  power of two of parts that is smaller than the node.  So parts may be on several ranks
     *  (ranks.h), with the bits of one process that has all parts.  The bits depend on the number
     *  of parts; with 1 part they are the bits of qkv_attention_forward. */
    int64_t parts;
    /** The cache stores own_parts parts, beginning with first_part; own_parts 0: all from there.
     *  Calls that append receive all tokens and read only the tokens of these parts.
     *  qkv_cache_forward refuses a cache that has not all parts. */
    int64_t first_part, own_parts;
};
enum { QKV_CACHE_PARTS_MAX = 256 };

enum { QKV_CACHE_ALL = -1 }; /**< value of the argument b that means every item */

/** Makes an empty cache, which allocates memory as it grows.  It is valid for the current
 *  instruction set.
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED or QKV_ERR_LIMIT.  After an error *out is
 *            NULL */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_new(qkv_cache **out, const struct qkv_cache_shape *s,
                                                qkv_error *err);
QKV_API void qkv_cache_free(qkv_cache *c); /**< NULL is fine */

/** Appends n tokens to item b, or to every item.
 *
 *  In:       b           an item, or QKV_CACHE_ALL
 *            k [n][G][E], v [n][G][F]; with QKV_CACHE_ALL [B][n][G][E] and [B][n][G][F]
 *            k_strides, v_strides  strides of k and v in elements; NULL or all 0: the order above
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT (no memory, or over the capacity).  After an
 *            error no item has changed
 *  Edge:     NaN and Inf affect only queries that attend to them */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_append(qkv_cache *c, int64_t b, const void *k,
                                                   const void *v, int64_t n,
                                                   const struct qkv_strides *k_strides,
                                                   const struct qkv_strides *v_strides,
                                                   qkv_error *err);

/** Appends n tokens to each of some items: entry i of k [count][n][G][E] and v [count][n][G][F] is
 *  appended to item items[i].
 *  In:       items[count] contains no item twice
 *  Returns, edge: as qkv_cache_append */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_append_some(
    qkv_cache *c, const int64_t *items, int64_t count, const void *k, const void *v, int64_t n,
    const struct qkv_strides *k_strides, const struct qkv_strides *v_strides, qkv_error *err);

/** Copies item from[i], as it was before the call, to item to[i], for all i < count at once: one
 *  call per step of a beam search.  Items share memory in blocks of 256 tokens, so a copy costs a
 *  pointer per block.  A partial last block is copied by the first append to an item that shares
 *  it with another item.
 *
 *  In:       to[count] contains no item twice
 *            from[count] may contain any items, also repeatedly
 *  Returns:  QKV_OK; QKV_ERR_USAGE; QKV_ERR_LIMIT (no memory).  After an error no item has
 *            changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_copy(qkv_cache *c, const int64_t *to,
                                                 const int64_t *from, int64_t count,
                                                 qkv_error *err);

/** Returns the number of tokens of item b, including forgotten tokens; for QKV_CACHE_ALL, the
 *  number of tokens of the longest item; 0 if there is no such item. */
QKV_API int64_t qkv_cache_length(const qkv_cache *c, int64_t b);

/** Truncates item b, or with QKV_CACHE_ALL every item, to its first n tokens; an item with fewer
 *  tokens does not change.  The next append continues after these tokens.  The cache does not
 *  release memory.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: n < 0, or an earlier call of qkv_cache_forget has removed a
 *            token before n (n = 0 is always valid).  After an error no item has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_cut(qkv_cache *c, int64_t b, int64_t n);

/** Forgets the tokens before token n of item b, or with QKV_CACHE_ALL of every item: no query
 *  attends to them, and later appends reuse their memory.  If attention has a window of `left`
 *  keys, no result changes as long as n <= length - left - T, so a stream of up to 2^31 tokens
 *  needs only the memory of its window.  The capacity counts forgotten tokens too, and the
 *  positions of tokens do not change.
 *  Returns:  QKV_OK; QKV_ERR_USAGE: n < 0, or an item has fewer than n tokens.  After an error no
 *            item has changed */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forget(qkv_cache *c, int64_t b, int64_t n);

/** Returns the number of bytes that the cache has allocated. */
QKV_API size_t qkv_cache_bytes(const qkv_cache *c);

/** Plans qkv_cache_forward; allocates nothing.  The size of scratch does not depend on the current
 *  lengths.  It is sufficient for any later contents, any smaller T and any items
 *  (qkv_cache_forward_some) with the same H and number of threads; after qkv_threads_set plan
 *  again. */
QKV_API struct qkv_attention_plan qkv_cache_plan(const qkv_cache *c, const struct qkv_attention *a);

/** Computes exact softmax attention of the last T tokens of each item over its cached tokens;
 *  allocates nothing.
 *
 *  Out:      out [B][T][H][F], lse [B][H][T], weights [B][H][T][S], as in
 *            qkv_attention_forward; S = qkv_cache_length(c, QKV_CACHE_ALL)
 *  In:       q [B][T][H][E], or by a->q_strides
 *            a  T, H, scale, causal, window, softcap, bias, mask, relative, alibi, sinks,
 *               no_softmax, strides of q and out: each call may differ.  The diagonal is
 *               QKV_BOTTOM_RIGHT: query t of item b is its token length - T + t.  B, S, G, E, F and
 *               precision are 0 or the same as in the cache.
 *               k_lengths, unless NULL, restricts attention to the first tokens of each item.
 *               Packed sequences (a->sequences) are QKV_ERR_UNSUPPORTED
 *  Scratch:  qkv_cache_plan(c, a).scratch bytes, 64-byte aligned, planned with the same number of
 *            threads
 *  Returns:  QKV_OK; QKV_ERR_USAGE, QKV_ERR_UNSUPPORTED, QKV_ERR_LIMIT as in the plan.  After an
 *            error nothing is written
 *  Edge, repeats, source: as qkv_attention_forward; keys outside a window are not read.  With
 *            several parts, sums have another order (struct qkv_cache_shape) */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forward(void *out, float *lse, float *weights,
                                                    const void *q, const qkv_cache *c,
                                                    const struct qkv_attention *a, void *scratch);

/** Computes qkv_cache_forward for the items of a list: entry i of the batch axis (of q, out, lse,
 *  weights, k_lengths, a->B, bias.b and mask.b) belongs to item items[i].  S is the length of the
 *  longest of these items.
 *  In:       items[count] may contain an item several times: all its queries attend to the same
 *            keys
 *            a->T is the number of queries of each entry
 *  Repeats:  bit-identical to qkv_cache_forward, for any other entries of the list */
QKV_API QKV_MUST_CHECK qkv_status qkv_cache_forward_some(void *out, float *lse, float *weights,
                                                         const void *q, const qkv_cache *c,
                                                         const int64_t *items, int64_t count,
                                                         const struct qkv_attention *a,
                                                         void *scratch);

QKV_END_DECLS
#endif
