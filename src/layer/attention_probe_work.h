// SPDX-License-Identifier: MIT
// attention_probe_work.h: probes of one call of the operator, resolved: units cut, memory counted.
//
//   row     a query token of one query head (heads that share keys go one by one)
//   slice   a run of the blocks of rows of a batch item (of all items, when packed): what is summed
//           over rows is summed in each slice, then over the slices in order
//   unit    a batch item, a head, a slice: what a thread takes at once
//   line    of tiles: the rows t with the same t * side / T;  column: keys likewise
#ifndef QKV_LAYER_ATTENTION_PROBE_WORK_H
#define QKV_LAYER_ATTENTION_PROBE_WORK_H

#include "layer/attention_rows.h"
#include "layer/cache_work.h"
#include <qkv/probe.h>

struct qkv_probe_work {
    struct qkv_attention_work w; // of the attention, but that heads is 1: a row is a token
    struct qkv_probe p;          // sizes of what is not wanted are 0
    int64_t shared;              // query heads of a key/value head
    int64_t slices;              // of a batch item and head
    int64_t copies; // of the sums of a batch item and head: those of slices that have no array of
                    // the caller to write to
    size_t sums;    // numbers of a copy
    size_t partial; // bytes of all copies
    size_t scratch_thread, scratch;
    const qkv_cache *cache; // whose item holds the keys, packed; NULL: k does
    int64_t item;
};

// Sums over rows of one batch item and head; NULL: not wanted.
struct qkv_probe_sums {
    real *received;            // [S]
    real *offsets;             // [2 reach + 1]
    real *tile_max, *tile_sum; // [side][side]
};

// w: resolved.  Other than QKV_OK: say has the reason.
qkv_status qkv_probe_resolve(struct qkv_probe_work *x, const struct qkv_attention_work *w,
                             const struct qkv_probe *p, const struct qkv_attention_reason *say);
// The sums of a slice; copies: all of them.
struct qkv_probe_sums qkv_probe_sums_at(const struct qkv_probe_work *x, char *copies, int64_t b,
                                        int64_t h, int64_t slice);

// A thread's memory.
struct qkv_probe_memory {
    char *keys, *queries;      // packed, of a chunk, of a block
    real *s;                   // [tile rows][QKV_CHUNK]
    uint64_t *top;             // [block][k] the largest so far
    real *base, *rest, *least; // [block]
    real *entropy, *distance;  // [block]
    real *sum, *most;          // [QKV_CHUNK]
    real *diagonal;            // [block + QKV_CHUNK]
    uint32_t *above;           // [tile rows][QKV_CHUNK / 32]
    size_t row_bytes;          // of a row of queries
};
// With memory NULL: only counts.  false: no memory has so much.
bool qkv_probe_memory(struct qkv_probe_memory *m, size_t *bytes, const struct qkv_probe_work *x,
                      char *at);

// Rows and keys of tiles: the first of line or column y, of n rows or keys.
static inline int64_t qkv_probe_tile(int64_t y, int64_t n, int64_t side)
{
    return qkv_ceil_div(y * n, side);
}
// QKV_ERR_USAGE: an array missing, misaligned, or what is written lies on something else.
qkv_status qkv_probe_check(const struct qkv_probe_work *x, const void *q, const void *k,
                           const real *lse, const void *scratch);
// The probes, resolved before; scratch: x->scratch bytes.
qkv_status qkv_probe_run(const struct qkv_probe_work *x, const void *q, const void *k,
                         const real *lse, void *scratch);
#endif
