// SPDX-License-Identifier: MIT
// attention_back_work.h: describes one validated call of the attention backward pass: how its work
// is divided and where its arrays are in scratch.
//
//   item, row   as in attention_work.h
//   chunk   keys that are packed together, counted from key 0 of the item
//   part    a run of chunks, whose contribution to dq is summed before the next part begins. The
//           parts depend only on the number of keys of the item, so that dq does not depend on the
//           rest of the batch
//   block   rows of an item that are processed with all chunks before the next block begins
//   group   rows of a block that are processed with a chunk together (a tile): at most as many as
//           `rows` of the kernels, counted from row 0 of the item
//   stream  one pair of an item and a key/value head; if several pairs add to the same gradient
//           table, all these pairs, which are processed one after the other
//   unit    a stream with all parts of the keys, or, if streams are cut, with a run of the parts (or
//           of chunks, if `run` is set); one thread runs it
//   copy    a unit's own copy of a gradient table, if several units add to the table; the copies
//           are added in order
#ifndef QKV_LAYER_ATTENTION_BACK_WORK_H
#define QKV_LAYER_ATTENTION_BACK_WORK_H

#include "layer/attention/attention_rows_work.h"

// Addresses of the gradients of bias, relative bias, ALiBi slopes and sinks: struct
// qkv_attention_gradients with arrays of real.
struct qkv_attention_tables {
    // arrays to which the gradients are added; NULL: not computed
    real *bias, *relative, *alibi, *sinks;
};
#ifndef QKV_DOUBLE
static inline struct qkv_attention_tables
qkv_attention_tables(const struct qkv_attention_gradients *g)
{
    if (!g) return (struct qkv_attention_tables){ 0 };
    return (struct qkv_attention_tables){ g->bias.at, g->relative, g->alibi, g->sinks };
}
#endif

// Returns whether gradients are requested that are sums over all rows and belong to no key.
static inline bool qkv_tables_of_rows(const struct qkv_attention_tables *g)
{
    return g->relative || g->alibi || g->sinks;
}

struct qkv_attention_back {
    // the call as the forward pass validates it: sizes, strides, items, heads, threads
    struct qkv_attention_work w;
    const struct qkv_attention_back_kernels *kernel;
    bool additive; // true: scores are w . tanh(u + p) (kernel.h, additive) instead of dot products
    int64_t chunk, block; // keys of a chunk; rows of a block, a multiple of the tile's rows
    int64_t parts;        // number of parts of the keys of the longest item
    // the items are divided into `slices` runs, the key/value heads into `shares` runs; one unit
    // processes one run of each
    int64_t slices, shares;
    int64_t cuts; // number of units of one stream; 1: the stream is not cut
    int64_t run;  // chunks of a unit; 0: a unit is a run of parts, and cuts is at most `parts`
    // true: the caller has the keys, values and sums of dq of each unit (struct qkv_back_sums), and
    // runs the units of a stream one after the other
    bool blockwise;
    // bias_items: several batch items add to the same element of the bias gradient; bias_heads:
    // several heads do
    bool bias_items, bias_heads;
    // true: units add to copies of the bias gradient, of bias_size numbers each. There is one copy
    // for each of the `slices` runs of items (if bias_items), times one for each of the `shares`
    // runs of heads (if bias_heads)
    bool bias_copied;
    int64_t bias_b, bias_h, bias_t, bias_size; // strides and size of one copy of the bias gradient
    // largest number of keys for which a unit accumulates dk and dv
    int64_t keys;
    // Bytes of scratch. dots: D = dout . out of all rows; partial: dq of each part of the keys,
    // [parts][rows][width]; bias: copies of the bias gradient; tables: copies of the other gradient
    // tables; scratch_thread: memory of one thread; scratch: the total.
    size_t dots, partial, bias, tables, scratch_thread, scratch;
};

// The arrays in scratch that precede the memory of the threads.
struct qkv_back_arrays {
    real *d; // D = dout . out of each row, [B][H][T]
    // dq of each part of the keys, [parts][B][T][H][width(E)], which a second pass adds up; NULL:
    // every unit processes all keys of its rows, so units store dq directly
    real *partial;
    real *bias; // copies of the bias gradient
    // copies of the gradients of tables, one for each batch item (of packed sequences, for each of
    // the `slices` runs) and each of the `cuts` runs of keys: relative [copies][cuts][H][2 reach + 1],
    // alibi and sinks [copies][cuts][H]
    real *relative, *alibi, *sinks;
    char *threads;
};

// Validates the call and fills b. On failure reason[size] receives the cause; size 0: not
// requested.
qkv_status qkv_attention_back_resolve(struct qkv_attention_back *b, const struct qkv_attention *a,
                                      const struct qkv_attention_tables *g, char *reason,
                                      size_t size);
// Validates a call with additive scores and fills b, as qkv_attention_back_resolve does for dot
// products; the precision must store floats.
qkv_status qkv_attention_back_additive(struct qkv_attention_back *b, const struct qkv_attention *a,
                                       const struct qkv_attention_tables *g, char *reason,
                                       size_t size);
struct qkv_back_arrays qkv_attention_back_arrays(const struct qkv_attention_back *b,
                                                 const struct qkv_attention_tables *g,
                                                 void *scratch);
// The keys of an item are divided into parts, whose contributions to dq are summed separately. For
// an item with S keys, qkv_attention_back_part returns the number of keys of one part, and
// qkv_attention_back_parts the number of parts.
int64_t qkv_attention_back_part(const struct qkv_attention_back *b, int64_t S);
static inline int64_t qkv_attention_back_parts(const struct qkv_attention_back *b, int64_t S)
{
    return qkv_ceil_div(S, qkv_attention_back_part(b, S));
}

// The arrays of a backward call. qkv_attention_back_check checks that they exist, are aligned and
// do not overlap (attention_overlap.c).
struct qkv_attention_back_given {
    void *dq, *dk, *dv;
    const void *dout, *q, *k, *v, *out;
    void *scratch;
    const real *lse;
};
qkv_status qkv_attention_back_check(const struct qkv_attention_back *b,
                                    const struct qkv_attention_tables *g,
                                    const struct qkv_attention_back_given *x);

// ---- memory of one thread (attention_back_tile.c) ----------------------------------------------
struct qkv_back_memory {
    char *keys, *values, *keys_right; // packed operands of one chunk
    // packed operands of one block; q_right and dout_right are packed group by group
    char *q, *dout, *q_right, *dout_right;
    bool *q_finite, *dout_finite; // [groups] true: all operands of the group are finite
    bool *k_finite;               // true: all keys of the chunk are finite
    real *base, *rest, *d;        // [block] one number per row, as in struct qkv_softmax_grad
    // [block] what a row adds to the gradients of ALiBi and of relative positions before and after
    // the table's reach; these are added row by row, so that the sums do not depend on the block
    real *slope, *before, *after;
    real *s, *ds, *gain; // [rows][QKV_CHUNK] matrices of one tile
    char *w_operand, *x_operand;
    uint32_t *word;  // [QKV_CHUNK] dropout words of one row
    float *relative; // [QKV_CHUNK] relative bias of one row
    // [block][width(E)] dq: sum over all processed parts of the keys; dq_part: sum over the part of
    // the keys that is being processed
    real *dq, *dq_part;
    real *dk, *dv; // accumulated gradients, [keys][width(E)] and [keys][width(F)]
};
// Sets the pointers of *m to arrays in the memory `at`, and *bytes to the size of all arrays. `at`
// NULL: only sets *bytes. Returns false if the size overflows.
bool qkv_back_memory(struct qkv_back_memory *m, size_t *bytes, const struct qkv_attention_back *b,
                     char *at);

// The gradient tables that one unit adds to.
struct qkv_back_tables {
    struct {
        real *at; // gradient of the bias; NULL: not computed
        int64_t b, h, t;
    } bias;
    // gradients of the tables: relative [H][2 reach + 1]; alibi and sinks [H]; NULL: not computed
    real *relative, *alibi, *sinks;
};

// State of a unit, which processes one block of rows of one item and key/value head at a time.
struct qkv_back_rows {
    const struct qkv_attention_back *b;
    const struct qkv_attention_back_given *x;
    struct qkv_rows at; // item, head and rows of the current block
    struct qkv_back_memory m;
    struct qkv_back_tables tables;
    real times;    // dropout: factor 1 / (1 - p) of weights that are not dropped
    uint32_t less; // dropout: a weight is dropped if its random word is below this threshold
    // true: the score is only a scaled dot product, so one fused kernel may process a whole tile
    bool plain;
    const real *d;     // D = dout . out of all rows of the call
    int64_t from, end; // keys that m.dk and m.dv represent: from .. end-1
    char *k, *v;       // blockwise: these keys and values, [end - from][E] and [end - from][F]
    // the block of rows that this thread will probably process next, for prefetching; NULL: unknown
    const struct qkv_back_rows *next;
};
// Packs the rows of the block and sets their base, rest and d in u->m (members of struct
// qkv_softmax_grad).
void qkv_back_pack_rows(const struct qkv_back_rows *u);
// Packs the keys and values lo .. hi-1 of the item, which are in the chunk that begins at key
// `chunk`.
void qkv_back_pack_keys(const struct qkv_back_rows *u, int64_t chunk, int64_t lo, int64_t hi);
// These functions prefetch data that the thread will soon pack or store. qkv_back_fetch_rows
// prefetches rows first .. first+n-1 of the block in q, dout and dq; qkv_back_fetch_keys prefetches
// keys lo .. hi-1 in k and v.
void qkv_back_fetch_rows(const struct qkv_back_rows *u, int64_t first, int64_t n);
void qkv_back_fetch_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi);
// Processes the g-th group of b->kernel->rows query rows of the block with the chunk that begins at
// key `chunk`: adds to dq_part, dk, dv and the gradients of bias, relative positions and ALiBi.
void qkv_back_tile(const struct qkv_back_rows *u, int64_t g, int64_t chunk);
// Adds slope, before and after of the rows of the block to the gradients, after its last chunk.
void qkv_back_add_rows(const struct qkv_back_rows *u);

// ---- the work of a unit (attention_back_units.c) -----------------------------------------------
// Sets the item n, the key/value head g and the range of keys of the unit: all keys, or, if streams
// are cut, the run of parts or chunks with index `cut`.
void qkv_back_find_pair(struct qkv_back_rows *u, int64_t n, int64_t g, int64_t cut);
// The pairs of an item n and a key/value head g that a unit processes one after the other.
struct qkv_back_pairs {
    int64_t n, n_end, g, g_from, g_end, cut;
};
struct qkv_back_pairs qkv_back_unit_pairs(const struct qkv_attention_back *b, int64_t i);
// Moves on to the next pair; returns false after the last.
bool qkv_back_pairs_next(struct qkv_back_pairs *p);
// The numbers that a unit adds to of the gradient of a bias without an axis of rows: `lines` lines of
// n numbers from column `first` on.
struct qkv_back_columns {
    int64_t lines, first, n;
};
struct qkv_back_columns qkv_back_unit_columns(const struct qkv_attention_back *b,
                                              const struct qkv_attention_tables *g,
                                              struct qkv_back_pairs at);
// Returns the rows of the sums of dq of an item: whole tiles.
int64_t qkv_back_sums_rows(const struct qkv_attention_back *b, const struct qkv_attention_item *m);

// Returns the bytes of the sums of unit i.
size_t qkv_attention_back_sums(const struct qkv_attention_back *b,
                               const struct qkv_attention_tables *g, int64_t i);
// The keys of one item and key/value head that a unit has.
struct qkv_back_keys {
    int64_t b, g;     // batch item and key/value head
    int64_t first, n; // keys first .. first+n-1 of the batch item
    int64_t all;      // number of keys of the item in all units
    int64_t rows;     // rows of the sums of dq
};
// Sets *k to the keys of the n-th pair of an item and a key/value head of unit i; returns false if
// the unit has no more pairs.
bool qkv_attention_back_keys(struct qkv_back_keys *k, const struct qkv_attention_back *b, int64_t i,
                             int64_t n);

// ---- the call (attention_backward.c) -----------------------------------------------------------
// Sums of one unit over rows: dk and dv of its keys and its gradients of tables. If several calls
// have parts of the rows (first_row), the sums of a unit leave one call and enter the next, in the
// order of the rows. in NULL: the sums begin with 0; out NULL: dk and dv are stored.
struct qkv_back_sums {
    int64_t unit;
    const char *in;
    char *out;
    // Blockwise, for each pair of an item and a key/value head that the unit has (struct
    // qkv_back_keys). keys: its keys [n][E] and values [n][F]; out NULL: dk and dv replace them. dq:
    // the sum of the complete parts, and the sum of the part that is being processed, each
    // [rows][width(E)]; the units of a stream have the same array
    char *keys;
    real *dq;
};
// Data that all threads share. The call runs `units` units: with `sums` the units it names,
// without it all.
struct qkv_back_call {
    const struct qkv_attention_back *b;
    const struct qkv_attention_tables *g;
    const struct qkv_attention_back_given *x;
    struct qkv_back_arrays arrays;
    struct qkv_rows_call rows;
    int64_t units;
    const struct qkv_back_sums *sums; // [units]; NULL: all rows are in this call
    struct qkv_attention_item item;   // the item whose shares of dq are being added
};
static inline int64_t qkv_attention_back_count(const struct qkv_attention_back *b)
{
    return b->slices * b->shares * b->cuts;
}
// Returns the number of copies of the gradients of tables, for each of the `cuts` runs of keys. Sums
// over rows may pass from call to call, each with some rows of every batch item: so each item has a
// copy, also if a unit has several. Packed sequences are rows of one batch item.
static inline int64_t qkv_attention_back_copies(const struct qkv_attention_back *b)
{
    return b->w.a.sequences ? b->slices : b->w.items;
}
// Returns how many of these copies a unit with these pairs has.
static inline int64_t qkv_back_unit_copies(const struct qkv_attention_back *b, int64_t n,
                                           int64_t n_end)
{
    return b->w.a.sequences ? 1 : n_end - n;
}
// Returns a number of tokens: the sums pass at a multiple of it, counted from the first token of an
// item, since sums of keys run from group to group.
int64_t qkv_attention_back_multiple(const struct qkv_attention_back *b);
// Returns whether the gradient of a bias without an axis of rows is requested: a sum over all rows.
static inline bool qkv_bias_of_columns(const struct qkv_attention_back *b,
                                       const struct qkv_attention_tables *g)
{
    return g->bias && b->w.a.bias.t == 0;
}
// Cuts a resolved call into at least so many units if it has the parts of keys for it and no
// gradients of tables, whose bits depend on the units. Returns QKV_ERR_LIMIT if scratch does not fit
// into memory.
qkv_status qkv_attention_back_cut(struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g, int64_t units);
// Makes a resolved call blockwise. Units have `chunks` chunks, unless gradients of relative positions
// or ALiBi are requested, whose bits depend on the units. Returns QKV_ERR_LIMIT if scratch does not
// fit into memory.
qkv_status qkv_attention_back_blocks(struct qkv_attention_back *b,
                                     const struct qkv_attention_tables *g, int64_t chunks);
// A call in steps: begin; units, until each unit has run once; rows, which stores dq and the gradient of a bias with an axis
// of rows; tables, which adds the other gradients of tables after the last row.
qkv_status qkv_attention_back_begin(struct qkv_back_call *c, const struct qkv_attention_back *b,
                                    const struct qkv_attention_tables *g,
                                    const struct qkv_attention_back_given *x);
// qkv_attention_back_begin for a blockwise call, whose arrays the caller has checked; x has no k, v,
// dk and dv.
void qkv_attention_back_begin_blocks(struct qkv_back_call *c, const struct qkv_attention_back *b,
                                     const struct qkv_attention_tables *g,
                                     const struct qkv_attention_back_given *x);
void qkv_attention_back_units(struct qkv_back_call *c, int64_t units,
                              const struct qkv_back_sums *sums);
void qkv_attention_back_rows(struct qkv_back_call *c);
void qkv_attention_back_tables(const struct qkv_back_call *c);

// Runs a validated backward call. Scratch has b->scratch bytes; the arrays are of type
// b->kernel->type.
qkv_status qkv_attention_back_run(const struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g,
                                  const struct qkv_attention_back_given *x);
#endif
