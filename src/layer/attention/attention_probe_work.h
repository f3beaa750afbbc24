// SPDX-License-Identifier: MIT
// attention_probe_work.h: describes one validated call of the attention probes: how its work is
// divided and how much memory it needs.
//
//   row     a query token of one query head (heads that share keys are processed one by one)
//   slice   a run of row blocks of one batch item, or of all items if sequences are packed; sums
//           over rows are computed per slice, then added over the slices in order
//   unit    a batch item, a head and a slice; one thread runs it
//   line    one of `side` horizontal strips of the probe tiles: the query tokens t with the same
//           t * side / T; keys are divided into `side` columns in the same way
#ifndef QKV_LAYER_ATTENTION_PROBE_WORK_H
#define QKV_LAYER_ATTENTION_PROBE_WORK_H

#include "layer/attention/attention_rows_work.h"
#include "layer/cache/cache_work.h"
#include <qkv/probe.h>

struct qkv_probe_work {
    // the probed attention, except that heads is 1, because a row is a query token of one head
    struct qkv_attention_work w;
    struct qkv_probe p; // the request; sizes of statistics that are not requested are 0
    int64_t shared;     // query heads per key/value head
    int64_t slices;     // number of slices of a batch item and head
    // number of copies of the sums per batch item and head: one for each slice that does not add
    // directly to the caller's arrays
    int64_t copies;
    size_t sums;    // numbers in one copy of the sums
    size_t partial; // bytes of all copies of the sums
    size_t scratch_thread, scratch;
    // KV cache that contains the packed keys, as its item `item`; NULL: the keys are in the array k
    const qkv_cache *cache;
    int64_t item;
};

// Arrays of sums over the rows of one batch item and head; NULL: the sum is not requested.
struct qkv_probe_sums {
    real *received;            // [S] weight that each key received
    real *offsets;             // [2 reach + 1] weight per distance of query and key
    real *tile_max, *tile_sum; // [side][side] largest weight and sum of weights of each probe tile
};

// Validates the probe request p for the attention call w and fills *x. On failure `say` receives
// the reason.
qkv_status qkv_probe_resolve(struct qkv_probe_work *x, const struct qkv_attention_work *w,
                             const struct qkv_probe *p, const struct qkv_attention_reason *say);
// Returns the arrays to which a slice (a run of row blocks) adds its sums: the caller's arrays for
// the first slice if real is float, otherwise a copy. `copies` is the memory of all copies.
struct qkv_probe_sums qkv_probe_sums_at(const struct qkv_probe_work *x, char *copies, int64_t b,
                                        int64_t h, int64_t slice);

// Workspace of one thread.
struct qkv_probe_memory {
    char *keys, *queries; // packed keys of a chunk; packed queries of a block
    real *s;              // [tile rows][QKV_CHUNK] scores, then weights
    uint64_t *top;        // [block][k] largest weights so far
    // [block] base + rest = log2(e) lse of each row, where lse is the log-sum-exp of the scores and
    // rest the rounding error of base; least: weights of the row that do not exceed it cannot be
    // among its k largest
    real *base, *rest, *least;
    real *entropy, *distance; // [block] entropy and mean distance of each row
    real *sum, *most;         // [QKV_CHUNK] sum and maximum of each column of the chunk
    real *diagonal;           // [block + QKV_CHUNK] weight per distance, for one block and chunk
    uint32_t *above;  // [tile rows][QKV_CHUNK / 32] bit j: weight j of the row exceeds `least`
    size_t row_bytes; // bytes of one packed query
};
// Sets the pointers of *m to arrays in the memory `at`, and *bytes to the size of all arrays. `at`
// NULL: only sets *bytes. Returns false if the size overflows.
bool qkv_probe_memory(struct qkv_probe_memory *m, size_t *bytes, const struct qkv_probe_work *x,
                      char *at);

// Divides n queries (or n keys) evenly into the `side` lines (or columns) of the probe tiles, and
// returns the index of the first query (or key) of line (or column) y.
static inline int64_t qkv_probe_tile(int64_t y, int64_t n, int64_t side)
{
    return qkv_ceil_div(y * n, side);
}
// Returns QKV_ERR_USAGE if an array is missing or misaligned, or if an output overlaps another
// array.
qkv_status qkv_probe_check(const struct qkv_probe_work *x, const void *q, const void *k,
                           const real *lse, const void *scratch);
// Validates a request for a call of attention without a cache. size 0: the reason is not requested.
qkv_status qkv_probe_resolve_call(struct qkv_probe_work *x, const struct qkv_attention *a,
                                  const struct qkv_probe *p, char *reason, size_t size);
// Runs the pairs from .. end-1 of a validated request: pair b H + h is head h of batch item b.
void qkv_probe_run_pairs(const struct qkv_probe_work *x, const void *q, const void *k,
                         const real *lse, void *scratch, int64_t from, int64_t end);
// Runs a validated request; scratch has x->scratch bytes.
qkv_status qkv_probe_run(const struct qkv_probe_work *x, const void *q, const void *k,
                         const real *lse, void *scratch);
#endif
