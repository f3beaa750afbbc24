// SPDX-License-Identifier: MIT
// attention_work.h: describes one validated call of attention, with defaults filled in, and how its
// work is divided. Sizes are named as in qkv/attention.h: B batch items, T queries, S keys, H query
// heads, G key/value heads, E and F widths of keys and values.
//
//   item   one sequence: a batch item, or a packed sequence (or packed rows outside all sequences)
//   unit   a block of rows of one item for `span` key/value heads, processed head by head; one
//          thread runs it
//   row    a query t of one of the `heads` query heads h that share a key/value head; the index of
//          the row is t heads + h
//   chunk  keys that are processed before the next chunk begins, counted from key 0 of the item
//   group  rows of a block that are processed with a chunk together
//   panel  keys that the kernels pack and read together
//   tile   a group and a panel of keys
#ifndef QKV_LAYER_ATTENTION_WORK_H
#define QKV_LAYER_ATTENTION_WORK_H

#include "kernel/kernel.h"
#include <qkv/attention.h>

struct qkv_attention_work {
    // the caller's request; G, F, scale and strides that are 0 have been replaced by their defaults
    struct qkv_attention a;
    const struct qkv_attention_kernels *kernel;
    size_t size;   // bytes of one element of q, k, v, out
    int64_t heads; // query heads per key/value head
    int64_t items, units;
    int64_t chunk, block, span; // keys of a chunk, rows of a block, key/value heads of a unit
    int threads; // number of threads that scratch has space for; the call uses no more
    // bytes of scratch for the table of row blocks before each packed item (attention.c)
    size_t table;
    size_t scratch_thread; // bytes of scratch of one thread
    // offset in scratch of the array lse, if probes need lse and the caller does not request it
    size_t lse;
    size_t scratch; // bytes of scratch in total
};

struct qkv_attention_item {
    int64_t b;      // index of the batch item; 0 when packed
    int64_t row, T; // first query token of this call and number of tokens
    // before: tokens of the item that are before this call (first_row); whole: all its tokens
    int64_t before, whole;
    // key: first key; S: number of keys, limited by k_lengths; all: number of keys without this
    // limit
    int64_t key, S, all;
    int64_t shift; // the diagonal of query t is key t + shift
};

// Buffer for the reason of a refused call; size 0: the reason is not requested.
struct qkv_attention_reason {
    char *text;
    size_t size;
};
qkv_status qkv_attention_refuse(const struct qkv_attention_reason *to, qkv_status status,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));
// Validates the sizes, strides and options of a call and fills *w. kernel: the result of
// qkv_attention_kernel_table(a), or kernels for scores that are not dot products; kernel NULL: the call
// is refused. On failure reason[size] receives the cause; size 0: not requested.
qkv_status qkv_attention_resolve(struct qkv_attention_work *w,
                                 const struct qkv_attention_kernels *kernel,
                                 const struct qkv_attention *a, char *reason, size_t size);
// Returns the kernels for the precision of a; NULL if the precision is unknown or has no kernel.
const struct qkv_attention_kernels *qkv_attention_kernel_table(const struct qkv_attention *a);
// Fills in the plan of a validated forward call, of attention or of a layer that uses attention.
void qkv_attention_describe(struct qkv_attention_plan *p, const struct qkv_attention_work *w);
// The division of a call into tiles: rows into blocks of `block` rows, the blocks into groups of at
// most `rows` rows, the keys into panels of `keys` keys.
struct qkv_attention_tiling {
    int64_t block, rows, keys;
    double flops; // operations for each pair of a query and a key that the query sees
};
// Adds the number of tiles and operations of a call to the plan.
void qkv_attention_count(struct qkv_attention_plan *p, const struct qkv_attention_work *w,
                         const struct qkv_attention_tiling *tile);
struct qkv_attention_item qkv_attention_item(const struct qkv_attention_work *w, int64_t n);
// Least rows of a block if it is not the only one: packing the keys again for fewer rows would take
// longer than it saves.
enum { QKV_BLOCK_LEAST = 96 };
// Returns the number of keys of a chunk; `keys` is the number of keys of a panel.
int64_t qkv_attention_chunk(const struct qkv_attention *a, int keys);
// Returns the largest number of rows that a block of this call may have.
int64_t qkv_attention_block_most(const struct qkv_attention *a);
// Returns the number of blocks of an item with T query tokens.
int64_t qkv_attention_blocks(const struct qkv_attention_work *w, int64_t T);

// The keys lo .. hi-1 that causal mask, window and length allow query t of an item to see; lo and
// hi never decrease as t grows.
struct qkv_attention_keys {
    int64_t lo, hi;
};
static inline struct qkv_attention_keys qkv_attention_keys(const struct qkv_attention_work *w,
                                                           const struct qkv_attention_item *m,
                                                           int64_t t)
{
    const struct qkv_attention *a = &w->a;
    struct qkv_attention_keys k = { 0, m->S };
    const int64_t at = t + m->shift;
    if (a->causal) k.hi = qkv_min64(k.hi, at + 1);
    if (a->window.on && a->window.right >= 0) k.hi = qkv_min64(k.hi, at + a->window.right + 1);
    if (a->window.on && a->window.left >= 0) k.lo = qkv_max64(k.lo, at - a->window.left);
    k.lo = qkv_min64(k.lo, m->S);
    if (k.hi < k.lo) k.hi = k.lo;
    return k;
}

// Returns false if the score is a dot product times a positive factor, which the exponent then
// includes. Returns true if the score needs more operations. Also returns true if the factor is so
// far from 1 that the factor, or a sink divided by it, might exceed the range of floats: such a
// factor is applied to the scores.
static inline bool qkv_attention_shaped(const struct qkv_attention *a)
{
    const bool factor = a->scale > 0x1p-60f && a->scale < 0x1p60f;
    return !factor || a->softcap != 0 || a->bias.at || a->relative.at || a->alibi || a->no_softmax;
}

// Prefetches a row. Rows of one head are far apart in memory, so the hardware prefetcher does not
// load the next row.
enum { QKV_CACHE_LINE = 64 }; // bytes of a cache line
static inline void qkv_attention_fetch(const void *row, int64_t bytes)
{
    const char *at = row;
    for (int64_t i = 0; i < bytes; i += QKV_CACHE_LINE) __builtin_prefetch(at + i, 0, 2);
    // also prefetches the last byte of the row, because a row may begin inside a cache line
    __builtin_prefetch(at + bytes - 1, 0, 2);
}

// Returns the index of the first row of group g if n rows are divided evenly into `groups` groups.
static inline int64_t qkv_attention_group(int64_t g, int64_t n, int64_t groups)
{
    return g * n / groups;
}

// The arrays of a call, for the checks in attention_overlap.c.
struct qkv_attention_arrays {
    const void *out, *q, *k, *v, *scratch;
    const real *lse, *weights;
};
// Returns false if the strides guarantee that rows of W elements, for B items, L tokens and H
// heads, do not overlap: the stride of each axis is at least the extent of all axes with smaller
// strides. Otherwise returns true.
bool qkv_attention_rows_meet(const struct qkv_strides *s, int64_t B, int64_t L, int64_t H,
                             int64_t W);
// Returns QKV_ERR_USAGE if out, q or scratch is missing, an array is misaligned for its type, or an
// output overlaps another array (strided arrays with gaps are not checked); QKV_ERR_LIMIT if the
// size of weights overflows.
qkv_status qkv_attention_check_arrays(const struct qkv_attention_work *w,
                                      const struct qkv_attention_arrays *p);

// Runs a validated call. Scratch has w->scratch bytes; q, k, v and out are of type w->kernel->type.
// (qkv_attention_forward validates a call and runs it with this function.) Returns QKV_ERR_USAGE if
// an array is missing, misaligned or overlapping; QKV_ERR_LIMIT if the size of weights overflows.
qkv_status qkv_attention_run(void *out, real *lse, real *weights, const void *q, const void *k,
                             const void *v, const struct qkv_attention_work *w, void *scratch);

// Returns one number of a caller's array, which may be misaligned, as real (copy_rows.c).
real qkv_real_at(const void *at, qkv_dtype type);
#endif
