// SPDX-License-Identifier: MIT
// attention_back_work.h: one call of the operator's backward, resolved: units cut, tables placed.
//
//   chunk   keys that are packed at once, counted from key 0 of the item
//   part    chunks whose share of dq is finished before the next begins; a function of the item's
//           keys alone, so that dq is the same whatever stands beside the item
//   block   rows of an item that go through all chunks before the next block begins; its groups are
//           `rows` of a tile each, counted from row 0 of the item
//   stream  items x key/value heads that one unit takes one after the other: one of each, unless they
//           add to the same table
//   unit    a stream, all parts of its items or (cut) a run of them: what a thread takes at once
//   copy    tables that several units would add to have a copy for each; copies are added in order
#ifndef QKV_LAYER_ATTENTION_BACK_WORK_H
#define QKV_LAYER_ATTENTION_BACK_WORK_H

#include "layer/attention_rows.h"

// Gradients beside dq, dk, dv: struct qkv_attention_gradients in real.
struct qkv_attention_tables {
    real *bias, *relative, *alibi, *sinks; // += ; NULL: not wanted
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
    struct qkv_attention_work w; // sizes, strides, items, heads, threads; its units are forward's
    const struct qkv_attention_back_kernels *kernel;
    bool additive;               // scores are w . tanh(u + p) (kernel.h, additive), not products
    int64_t chunk, block;        // keys, rows: a multiple of the tile's
    int64_t parts;               // of the item with most
    int64_t slices, shares;      // items are cut into so many runs, key/value heads into so many
    int64_t cuts;                // units of a stream, `parts` at most
    bool bias_items, bias_heads; // bias: several items, several heads add to one number
    bool bias_copied;            // ... into copies, [slices or 1][shares or 1] of bias_size numbers
    int64_t bias_b, bias_h, bias_t, bias_size; // strides of a copy
    int64_t keys;                              // most keys whose dk and dv a unit gathers
    // Bytes of scratch: D of all rows, partial dq [parts][rows][width], copies of tables, one
    // thread.
    size_t dots, partial, bias, tables, scratch_thread, scratch;
};

// What is in front of the threads' scratch, piece by piece.
struct qkv_back_arrays {
    real *d;                        // [B][H][T] dout . out
    real *partial;                  // [parts][B][T][H][width(E)]; NULL: units store dq themselves
    real *bias;                     // copies
    real *relative, *alibi, *sinks; // [slices][cuts][H][2 reach + 1], [slices][cuts][H]
    char *threads;
};

// Checks everything that the run relies on and fills b; reason as in qkv_attention_resolve.
qkv_status qkv_attention_back_resolve(struct qkv_attention_back *b, const struct qkv_attention *a,
                                      const struct qkv_attention_tables *g, char *reason,
                                      size_t size);
// The same for additive scores, in precisions that store real.
qkv_status qkv_attention_back_additive(struct qkv_attention_back *b, const struct qkv_attention *a,
                                       const struct qkv_attention_tables *g, char *reason,
                                       size_t size);
struct qkv_back_arrays qkv_attention_back_arrays(const struct qkv_attention_back *b,
                                                 const struct qkv_attention_tables *g,
                                                 void *scratch);
// Keys of a part of an item with S keys, and how many parts that makes.
int64_t qkv_attention_back_part(const struct qkv_attention_back *b, int64_t S);
static inline int64_t qkv_attention_back_parts(const struct qkv_attention_back *b, int64_t S)
{
    return qkv_ceil_div(S, qkv_attention_back_part(b, S));
}

// The arrays of a call (attention_overlap.c).
struct qkv_attention_back_given {
    void *dq, *dk, *dv;
    const void *dout, *q, *k, *v, *out;
    void *scratch;
    const real *lse;
};
qkv_status qkv_attention_back_check(const struct qkv_attention_back *b,
                                    const struct qkv_attention_tables *g,
                                    const struct qkv_attention_back_given *x);

// ---- a thread's memory (attention_back_tile.c) --------------------------------------------------
struct qkv_back_memory {
    char *keys, *values, *keys_right;      // packed, of a chunk
    char *q, *dout, *q_right, *dout_right; // packed, of a block; right ones group by group
    bool *q_finite, *dout_finite;          // [groups]
    bool *k_finite;                        // of the chunk
    real *base, *rest, *d;                 // [block]
    real *s, *ds, *gain;                   // [rows][QKV_CHUNK]
    char *w_form, *x_form;
    uint32_t *word;     // [QKV_CHUNK]
    float *relative;    // [QKV_CHUNK]
    real *dq, *dq_part; // [block][width(E)]
    real *dk, *dv;      // [keys][width(E)], [keys][width(F)]
};
// With memory NULL: only counts.  *bytes: what it takes; false: no memory has so much.
bool qkv_back_memory(struct qkv_back_memory *m, size_t *bytes, const struct qkv_attention_back *b,
                     char *at);

// Where a unit's tables lie.
struct qkv_back_tables {
    struct {
        real *at; // NULL: not wanted
        int64_t b, h, t;
    } bias;
    real *relative, *alibi, *sinks; // [H][2 reach + 1], [H]; NULL: not wanted
};

// What a unit works on: a block of rows of one item and key/value head.
struct qkv_back_rows {
    const struct qkv_attention_back *b;
    const struct qkv_attention_back_given *x;
    struct qkv_rows at; // item, head, rows
    struct qkv_back_memory m;
    struct qkv_back_tables tables;
    real times;        // dropout: 1 / (1 - p)
    uint32_t less;     // ... and its threshold
    bool plain;        // nothing but a scale shapes the scores: the fused kernel may do a tile
    const real *d;     // of all rows
    int64_t from, end; // keys whose rows m.dk and m.dv hold
    const struct qkv_back_rows *next; // what this thread is likely to take then; NULL: not known
};
// Packs the rows of the block and finds their base, rest, d.
void qkv_back_pack_rows(const struct qkv_back_rows *u);
// Packs keys lo .. hi-1 of the chunk.
void qkv_back_pack_keys(const struct qkv_back_rows *u, int64_t chunk, int64_t lo, int64_t hi);
// Brings near what will be packed or stored: n rows of the block from `first`, of q, dout and dq;
// keys lo .. hi-1 of k and v.
void qkv_back_fetch_rows(const struct qkv_back_rows *u, int64_t first, int64_t n);
void qkv_back_fetch_keys(const struct qkv_back_rows *u, int64_t lo, int64_t hi);
// Group g of the block through the chunk: adds to dq_part, dk, dv and the tables.
void qkv_back_tile(const struct qkv_back_rows *u, int64_t g, int64_t chunk);

// The operator's backward, resolved before; scratch: b->scratch bytes; arrays are of
// b->kernel->type.
qkv_status qkv_attention_back_run(const struct qkv_attention_back *b,
                                  const struct qkv_attention_tables *g,
                                  const struct qkv_attention_back_given *x);
#endif
