// SPDX-License-Identifier: MIT
// attention_rows.h: rows of queries and groups of them: the steps that every pass over keys shares.
//
//   call   what one call shares: its sizes, its arrays, the exponent
//   rows   consecutive rows of one item and key/value head, in groups of a tile's height at most
//   group  rows that go through a chunk of keys together (attention_work.h)
//   sums   what rows have gathered so far: o, top and sum, as the kernels' merge and values have it
#ifndef QKV_LAYER_ATTENTION_ROWS_H
#define QKV_LAYER_ATTENTION_ROWS_H

#include "layer/attention_work.h"

struct qkv_rows_call {
    const struct qkv_attention_work *w;
    char *out;
    real *lse, *weights; // NULL: not wanted
    const char *q;
    real c;      // e^score = 2^(c s) for what the kernels call s
    bool shaped; // scores need more than a scale
};

struct qkv_rows {
    const struct qkv_rows_call *call;
    struct qkv_attention_item item;
    int64_t g;                 // key/value head
    int64_t row, rows, groups; // first row of the item, how many, in how many groups
    int64_t first;             // keys before do not exist
    real *s;                   // scores of a group
};

struct qkv_rows_sums {
    real *o, *top, *sum; // [rows][width] [rows] [rows]
    uint8_t *begun;      // [groups] o holds something
};

enum { QKV_SPANS_MAX = QKV_CHUNK / 2 };
struct qkv_rows_group {
    int64_t g;     // which group of the rows
    int64_t first; // its first row
    int rows;
    int64_t chunk;                                        // key of column 0
    int32_t lo[QKV_TILE_ROWS_MAX], hi[QKV_TILE_ROWS_MAX]; // columns that each row may see
    int32_t from, to;                                     // ... that any may see
    struct qkv_columns spans[QKV_SPANS_MAX]; // ... less panels that mask and bias close
    int n;
};

// What a group reads in a chunk.
struct qkv_rows_packed {
    const void *q[QKV_TILE_ROWS_MAX]; // rows as the kernel's scores reads them
    const void *keys, *values;
};

// ---- places ------------------------------------------------------------------------------------
static inline int64_t qkv_rows_token(const struct qkv_rows *u, int64_t row)
{
    const int64_t heads = u->call->w->heads;
    return heads == 1 ? u->row + row : (u->row + row) / heads; // short rows feel a division
}
static inline int64_t qkv_rows_head(const struct qkv_rows *u, int64_t row)
{
    const int64_t heads = u->call->w->heads;
    return heads == 1 ? u->g : u->g * heads + (u->row + row) % heads;
}
// Bytes of an array of q, k, v or out up to batch item of u, token t of the array, head h.
static inline ptrdiff_t qkv_rows_place(const struct qkv_rows *u, const struct qkv_strides *s,
                                       int64_t t, int64_t h)
{
    return (ptrdiff_t)(u->item.b * s->b + t * s->t + h * s->h) * (ptrdiff_t)u->call->w->size;
}
// ... up to a row, in q or out.
static inline ptrdiff_t qkv_rows_row(const struct qkv_rows *u, const struct qkv_strides *s,
                                     int64_t row)
{
    return qkv_rows_place(u, s, u->item.row + qkv_rows_token(u, row), qkv_rows_head(u, row));
}
// The row's line of the bias, of the mask, from the first key of the item; NULL: there is none.
static inline const float *qkv_rows_bias(const struct qkv_rows *u, int64_t row)
{
    const struct qkv_attention *a = &u->call->w->a;
    return !a->bias.at ? NULL
                       : a->bias.at + u->item.b * a->bias.b + qkv_rows_head(u, row) * a->bias.h +
                             (u->item.row + qkv_rows_token(u, row)) * a->bias.t;
}
static inline const uint8_t *qkv_rows_mask(const struct qkv_rows *u, int64_t row)
{
    const struct qkv_attention *a = &u->call->w->a;
    return !a->mask.at ? NULL
                       : a->mask.at + u->item.b * a->mask.b + qkv_rows_head(u, row) * a->mask.h +
                             (u->item.row + qkv_rows_token(u, row)) * a->mask.t;
}
// Of lse [B][H][T]; times S: of weights.
static inline int64_t qkv_rows_index(const struct qkv_rows *u, int64_t row)
{
    const struct qkv_attention *a = &u->call->w->a;
    return (u->item.b * a->H + qkv_rows_head(u, row)) * a->T + u->item.row + qkv_rows_token(u, row);
}
// Position of the query on the diagonal less that of key `chunk`.
static inline int64_t qkv_rows_distance(const struct qkv_rows *u, int64_t row, int64_t chunk)
{
    return qkv_rows_token(u, row) + u->item.shift - chunk;
}
// log2(e) lse = base + rest, rest what rounding took off base.
static inline void qkv_rows_base(real *base, real *rest, real lse)
{
    const double power = 1.44269504088896340736 * (double)lse;
    *base = (real)power;
    *rest = (real)(power - (double)*base);
}
// Keys that a row sees and that exist.
static inline struct qkv_attention_keys qkv_rows_keys(const struct qkv_rows *u, int64_t row)
{
    struct qkv_attention_keys k = qkv_attention_keys(u->call->w, &u->item, qkv_rows_token(u, row));
    k.lo = qkv_max64(k.lo, u->first);
    if (k.hi < k.lo) k.hi = k.lo;
    return k;
}

// ---- a call ------------------------------------------------------------------------------------
// `shaped` and c of a call whose w is set.
void qkv_rows_exponent(struct qkv_rows_call *c);

// ---- what a row adds, what it drops (attention_terms.c) -----------------------------------------
// to[j] = the relative bias of the row and key chunk + j, for columns from .. end-1.
void qkv_rows_relative(float *to, const struct qkv_rows *u, int64_t row, int64_t chunk,
                       int32_t from, int32_t end);
// The other way: line[2 reach + 1] += x[j] of columns c, at reach + apart + j cut to its ends; apart:
// key of column 0 less the query.
void qkv_rows_add_relative(real *line, int64_t reach, int64_t apart, const real *x,
                           struct qkv_columns c, const struct qkv_attention_back_kernels *k);
// word[j]: the random number of the row's weight of key chunk + j, for columns from .. to-1; word
// has QKV_CHUNK, chunk is a multiple of 4.  A row's weights are numbers row_index ceil4(S) .. of
// the stream.
void qkv_rows_words(uint32_t *word, const struct qkv_rows *u, int64_t row, int64_t chunk,
                    int32_t from, int32_t to);
// Columns that rows may see, and the spans of them that are worth a product: whole vectors of
// `lanes`, less panels of `keys` that mask and bias close.  Returns how many spans, QKV_SPANS_MAX
// at most.
struct qkv_rows_reach {
    int64_t first; // row
    int rows;
    int64_t chunk;
    const int32_t *lo, *hi; // [rows]
    int32_t from, to;       // of all
};
int qkv_rows_spans(struct qkv_columns *spans, const struct qkv_rows *u,
                   const struct qkv_rows_reach *p, int32_t lanes, int32_t keys);

// ---- rows and groups ---------------------------------------------------------------------------
// Sums of nothing; the dense weights that were asked for: none.
void qkv_rows_begin_sums(const struct qkv_rows *u, const struct qkv_rows_sums *sums);
void qkv_rows_begin_weights(const struct qkv_rows *u);
// Group g in the chunk that begins at key `chunk`; false: it sees nothing there.
bool qkv_rows_find(const struct qkv_rows *u, int64_t g, int64_t chunk, struct qkv_rows_group *p);
// Scores of the group in its chunk into u->s, ready for a softmax.
void qkv_rows_scores(const struct qkv_rows *u, const struct qkv_rows_group *p,
                     const struct qkv_rows_packed *from);
// The group through its chunk: scores, shares, values, merged with what the sums hold when `merge`,
// else with top and sum of this chunk alone.  now[rows]: what the values were multiplied by.
void qkv_rows_run(const struct qkv_rows *u, struct qkv_rows_group *p,
                  const struct qkv_rows_packed *from, const struct qkv_rows_sums *sums, bool merge,
                  real *now);
// Does row i of the group attend to column j, and what does it take of its value after
// qkv_rows_run?
bool qkv_rows_sees(const struct qkv_rows *u, const struct qkv_rows_group *p, int i, int32_t j);
real qkv_rows_share(const struct qkv_rows *u, int i, int32_t j);
// out, lse and weights of group g.  The sink comes last: a key without a value.
void qkv_rows_finish(const struct qkv_rows *u, const struct qkv_rows_sums *sums, int64_t g);
#endif
