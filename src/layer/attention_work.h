// SPDX-License-Identifier: MIT
// attention_work.h: one call of the operator, resolved: sizes checked, defaults filled in, units
// cut.
//
//   item   one sequence: a batch item, or a packed sequence (or packed rows that belong to none)
//   unit   a block of rows of one item and `span` key/value heads, one head after the other: what a
//          thread takes at once.  A row is one query of one of the `heads` query heads that share a
//          key/value head: row = t heads + h
//   chunk  keys whose softmax is finished before the next begins: counted from key 0 of the item
//   group  rows of a block that go through a chunk together;  tile: a group by a panel of keys
#ifndef QKV_LAYER_ATTENTION_WORK_H
#define QKV_LAYER_ATTENTION_WORK_H

#include "kernel/kernel.h"
#include <qkv/attention.h>

struct qkv_attention_work {
    struct qkv_attention a; // G, F, scale and strides as meant
    const struct qkv_attention_kernels *kernel;
    size_t size;   // bytes of an element of q, k, v, out
    int64_t heads; // query heads of a key/value head
    int64_t items, units;
    int64_t chunk, block, span; // keys, rows, key/value heads
    int threads;                // what scratch is for, and the run takes no more
    size_t table;               // bytes of scratch that say which unit each packed item begins with
    size_t scratch_thread;      // ... of one thread
    size_t lse;                 // where lse lies in it when there are probes and nobody wants lse
    size_t scratch;             // ... of all
};

struct qkv_attention_item {
    int64_t b;           // batch item; 0 when packed
    int64_t row, T;      // first query token and how many
    int64_t key, S, all; // first key, how many exist, how many with those that lengths cut off
    int64_t shift;       // the diagonal: key t + shift
};

// Where a refusal says why; size 0: not wanted.
struct qkv_attention_reason {
    char *text;
    size_t size;
};
qkv_status qkv_attention_refuse(const struct qkv_attention_reason *to, qkv_status status,
                                const char *format, ...) __attribute__((format(printf, 3, 4)));
// Checks everything that the run relies on and fills w.  kernel: what computes it,
// qkv_attention_family(a) or a table whose scores are other than dot products; NULL is refused.
// Other than QKV_OK: reason[size] says why (size 0: not wanted).
qkv_status qkv_attention_resolve(struct qkv_attention_work *w,
                                 const struct qkv_attention_kernels *kernel,
                                 const struct qkv_attention *a, char *reason, size_t size);
// The table of a's precision; NULL: there is no such precision, or nothing computes it.
const struct qkv_attention_kernels *qkv_attention_family(const struct qkv_attention *a);
// What a resolved call will do, for the plans of the operator and of the layers on top of it.
void qkv_attention_describe(struct qkv_attention_plan *p, const struct qkv_attention_work *w);
// Tiles and operations of one: rows in blocks, blocks in groups of `rows` at most.
struct qkv_attention_tiling {
    int64_t block, rows, keys;
    double flops; // for each pair of a query and a key that meet
};
void qkv_attention_count(struct qkv_attention_plan *p, const struct qkv_attention_work *w,
                         const struct qkv_attention_tiling *tile);
struct qkv_attention_item qkv_attention_item(const struct qkv_attention_work *w, int64_t n);
// Rows that a block of this call may have, and fewer than QKV_BLOCK_LEAST are not worth reading the
// keys for.
enum { QKV_BLOCK_LEAST = 96 };
// Keys of a chunk; `keys`: of a panel.
int64_t qkv_attention_chunk(const struct qkv_attention *a, int keys);
int64_t qkv_attention_block_most(const struct qkv_attention *a);
int64_t qkv_attention_blocks(const struct qkv_attention_work *w, int64_t T);

// Keys lo .. hi-1 are all that causal, window and length let query t of an item see; lo and hi
// never fall as t grows.
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

// Do scores need more than a positive factor in the exponent?  A factor so far from 1 that it, or a
// sink by it, leaves the floats is applied to the scores themselves.
static inline bool qkv_attention_shaped(const struct qkv_attention *a)
{
    const bool factor = a->scale > 0x1p-60f && a->scale < 0x1p60f;
    return !factor || a->softcap != 0 || a->bias.at || a->relative.at || a->alibi || a->no_softmax;
}

// First row of group g when n rows are split evenly into `groups`.
static inline int64_t qkv_attention_group(int64_t g, int64_t n, int64_t groups)
{
    return g * n / groups;
}

// What a call is given (attention_overlap.c).
struct qkv_attention_arrays {
    const void *out, *q, *k, *v, *scratch;
    const real *lse, *weights;
};
// Do rows of W elements, for B items, L tokens, H heads, lie on each other, as far as nested
// strides can tell?
bool qkv_attention_rows_meet(const struct qkv_strides *s, int64_t B, int64_t L, int64_t H,
                             int64_t W);
// QKV_ERR_USAGE: out, q or scratch missing, an array at an address that its type may not have, or
// what is written lies on something else (arrays with gaps are taken at their word); QKV_ERR_LIMIT:
// weights that no memory can hold.
qkv_status qkv_attention_check_arrays(const struct qkv_attention_work *w,
                                      const struct qkv_attention_arrays *p);

// The operator, resolved before; scratch: w->scratch bytes; arrays are of w->kernel->type.
// qkv_attention_forward is both steps where real is float.  QKV_ERR_USAGE: an array missing,
// misaligned or on another; QKV_ERR_LIMIT: weights that no memory can hold.
qkv_status qkv_attention_run(void *out, real *lse, real *weights, const void *q, const void *k,
                             const void *v, const struct qkv_attention_work *w, void *scratch);

// heads.c: one number of a caller's array, of any alignment, as real.
real qkv_real_at(const void *at, qkv_dtype type);
#endif
