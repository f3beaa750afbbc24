// SPDX-License-Identifier: MIT
// attention_back_work.h: describes one validated call of the attention backward pass: how its work
// is divided and where its arrays are in scratch.
//
//   chunk   keys that are packed together, counted from key 0 of the item
//   part    run of chunks whose contribution to dq is summed before the next part begins; depends
//           only on the number of keys of the item, so that dq does not depend on the rest of the
//           batch
//   block   rows of an item that are processed with all chunks before the next block begins; it is
//           divided into groups of `rows` rows (one tile each), counted from row 0 of the item
//   stream  pairs of an item and a key/value head that one unit processes in turn: a single pair,
//           unless several pairs add to the same gradient table
//   unit    one stream with all parts of its items, or with a run of parts (a cut); one thread
//           runs it
//   copy    one unit's own copy of a gradient table, if several units add to the table; copies are
//           added in order
#ifndef QKV_LAYER_ATTENTION_BACK_WORK_H
#define QKV_LAYER_ATTENTION_BACK_WORK_H

#include "layer/attention/attention_rows_work.h"

// Addresses of the gradients of the bias tables, in real; otherwise like struct
// qkv_attention_gradients.
struct qkv_attention_tables {
    // accumulated gradients of the tables; NULL: not computed
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

struct qkv_attention_back {
    // sizes, strides, items, heads and threads of the call; it has the same units as the forward
    // pass
    struct qkv_attention_work w;
    const struct qkv_attention_back_kernels *kernel;
    bool additive; // true: scores are w . tanh(u + p) (kernel.h, additive) instead of dot products
    int64_t chunk, block; // keys of a chunk; rows of a block, a multiple of the tile's rows
    int64_t parts;        // number of key parts of the item that has the most
    // batch items are divided into `slices` runs, key/value heads into `shares` runs
    int64_t slices, shares;
    int64_t cuts; // units of one stream, at most `parts`
    // true: several batch items (bias_heads: several heads) add to the same element of the bias
    // gradient
    bool bias_items, bias_heads;
    // true: units add to copies of the bias gradient; the copies are an array [slices or 1][shares
    // or 1] of bias_size numbers each
    bool bias_copied;
    int64_t bias_b, bias_h, bias_t, bias_size; // strides and size of one copy of the bias
    int64_t keys;                              // most keys for which one unit accumulates dk and dv
    // Bytes of scratch: D of all rows, partial dq [parts][rows][width], copies of bias, copies of
    // the other tables, memory of one thread, and the total.
    size_t dots, partial, bias, tables, scratch_thread, scratch;
};

// The arrays in scratch that precede the memory of the threads.
struct qkv_back_arrays {
    real *d;       // D = dout . out of each row, [B][H][T]
    real *partial; // partial dq, [parts][B][T][H][width(E)]; NULL: units store dq themselves
    real *bias;    // copies of the bias gradient
    // copies of the table gradients: relative [slices][cuts][H][2 reach + 1], alibi and sinks
    // [slices][cuts][H]
    real *relative, *alibi, *sinks;
    char *threads;
};

// Validates the call and fills b. On failure reason[size] receives the cause; size 0: not
// requested.
qkv_status qkv_attention_back_resolve(struct qkv_attention_back *b, const struct qkv_attention *a,
                                      const struct qkv_attention_tables *g, char *reason,
                                      size_t size);
// The same as qkv_attention_back_resolve for additive scores, in precisions that store real.
qkv_status qkv_attention_back_additive(struct qkv_attention_back *b, const struct qkv_attention *a,
                                       const struct qkv_attention_tables *g, char *reason,
                                       size_t size);
struct qkv_back_arrays qkv_attention_back_arrays(const struct qkv_attention_back *b,
                                                 const struct qkv_attention_tables *g,
                                                 void *scratch);
// qkv_attention_back_part returns the keys of one part of an item with S keys,
// qkv_attention_back_parts the number of parts.
int64_t qkv_attention_back_part(const struct qkv_attention_back *b, int64_t S);
static inline int64_t qkv_attention_back_parts(const struct qkv_attention_back *b, int64_t S)
{
    return qkv_ceil_div(S, qkv_attention_back_part(b, S));
}

// Checks the arrays of a call (attention_overlap.c).
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
    // packed operands of one block; the right operands are packed group by group
    char *q, *dout, *q_right, *dout_right;
    bool *q_finite, *dout_finite; // [groups] whether the operands of a group are all finite
    bool *k_finite;               // whether the keys of the chunk are all finite
    real *base, *rest, *d;        // [block] per row, as in struct qkv_softmax_grad
    real *s, *ds, *gain;          // [rows][QKV_CHUNK] matrices of one tile
    char *w_operand, *x_operand;
    uint32_t *word;     // [QKV_CHUNK] dropout words of one row
    float *relative;    // [QKV_CHUNK] relative bias of one row
    real *dq, *dq_part; // [block][width(E)] dq of the block; contribution of the current part
    real *dk, *dv;      // accumulated gradients, [keys][width(E)] and [keys][width(F)]
};
// Assigns the arrays of a thread in the memory `at` and sets *bytes to their size. `at` NULL: only
// sets *bytes. Returns false if the size overflows.
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

// State of a unit: a block of rows of one item and key/value head.
struct qkv_back_rows {
    const struct qkv_attention_back *b;
    const struct qkv_attention_back_given *x;
    struct qkv_rows at; // item, head and rows of the current block
    struct qkv_back_memory m;
    struct qkv_back_tables tables;
    real times;    // dropout: factor 1 / (1 - p) of weights that are not dropped
    uint32_t less; // dropout: an element is dropped where its random word is below this threshold
    bool plain;    // true: scores have only a scale, so the fused kernel may process the tile
    const real *d; // D = dout . out of all rows of the call
    int64_t from, end; // keys that m.dk and m.dv represent: from .. end-1
    // the rows that this thread will probably process next, for prefetching; NULL: the next rows
    // are unknown
    const struct qkv_back_rows *next;
};
// Packs the rows of the block and computes their base, rest and d.
void qkv_back_pack_rows(const struct qkv_back_rows *u);
// Packs keys lo .. hi-1 of the chunk.
void qkv_back_pack_keys(const struct qkv_back_rows *u, int64_t chunk, int64_t lo, int64_t hi);
// Two functions that prefetch rows which will be packed or stored soon. qkv_back_fetch_rows: rows
// first .. first+n-1 of q, dout and dq of the block. qkv_back_fetch_keys: keys lo .. hi-1 of k and
// v.
void qkv_back_fetch_rows(const struct qkv_back_rows *u, int64_t first, int64_t n);
void qkv_back_fetch_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi);
// Processes group g of the block with the chunk: adds to dq_part, dk, dv and the tables.
void qkv_back_tile(const struct qkv_back_rows *u, int64_t g, int64_t chunk);

// Runs a validated backward call. Scratch has b->scratch bytes; the arrays are of type
// b->kernel->type.
qkv_status qkv_attention_back_run(const struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g,
                                  const struct qkv_attention_back_given *x);
#endif
