// SPDX-License-Identifier: MIT
// attention_rows_work.h: declares the steps that all passes over keys share (forward, backward,
// probes, KV cache): finding the rows and columns of a group of queries, and computing its scores.
//
//   call   data that all threads of one call share: sizes, arrays, exponent
//   rows   consecutive rows of one item and key/value head, in groups of at most a tile's rows
//   group  rows that are processed with a chunk of keys together (attention_work.h)
//   sums   partial results of rows: o, top and sum, as the kernels merge and values (kernel.h)
//          define them
#ifndef QKV_LAYER_ATTENTION_ROWS_WORK_H
#define QKV_LAYER_ATTENTION_ROWS_WORK_H

#include "layer/attention/attention_work.h"

struct qkv_rows_call {
    const struct qkv_attention_work *w;
    char *out;
    real *lse, *weights; // log-sum-exp and dense weights of all rows; NULL: not requested
    const char *q;
    real c;      // scale of the exponent: e^score = 2^(c s), where s is the score of the kernels
    bool shaped; // true: scores need more than a scale (qkv_attention_shaped)
};

struct qkv_rows {
    const struct qkv_rows_call *call;
    struct qkv_attention_item item;
    int64_t g;                 // index of the key/value head
    int64_t row, rows, groups; // first row in the item, number of rows, number of groups
    // index of the first key that exists; a KV cache may have removed earlier keys
    int64_t first;
    real *s; // scores of one group
};

struct qkv_rows_sums {
    real *o, *top, *sum; // o [rows][width]; top and sum [rows]
    uint8_t *begun;      // [groups] 1 if o contains a partial sum
};

enum { QKV_SPANS_MAX = QKV_CHUNK / 2 };
struct qkv_rows_group {
    int64_t g;     // index of the group among the rows
    int64_t first; // index of the group's first row
    int rows;
    int64_t chunk; // index of the key in column 0
    // columns that each row may see: lo[i] .. hi[i]-1
    int32_t lo[QKV_TILE_ROWS_MAX], hi[QKV_TILE_ROWS_MAX];
    int32_t from, to; // columns that at least one row may see: from .. to-1
    // [n] the columns from .. to-1 without the panels that mask and bias hide entirely
    struct qkv_columns spans[QKV_SPANS_MAX];
    int n;
};

// Packed operands of a group and a chunk.
struct qkv_rows_packed {
    const void *q[QKV_TILE_ROWS_MAX]; // pointers to rows in the layout that the scores kernel reads
    const void *keys, *values;
};

// ---- addresses ---------------------------------------------------------------------------------
static inline int64_t qkv_rows_token(const struct qkv_rows *u, int64_t row)
{
    const int64_t heads = u->call->w->heads;
    // avoids a division if heads is 1, which is frequent in short calls
    return heads == 1 ? u->row + row : (u->row + row) / heads;
}
static inline int64_t qkv_rows_head(const struct qkv_rows *u, int64_t row)
{
    const int64_t heads = u->call->w->heads;
    return heads == 1 ? u->g : u->g * heads + (u->row + row) % heads;
}
// Returns the byte offset of token t and head h of the unit's batch item in an array q, k, v or out
// with strides s.
static inline ptrdiff_t qkv_rows_place(const struct qkv_rows *u, const struct qkv_strides *s,
                                       int64_t t, int64_t h)
{
    return (ptrdiff_t)(u->item.b * s->b + t * s->t + h * s->h) * (ptrdiff_t)u->call->w->size;
}
// Returns the byte offset of a row in q or out.
static inline ptrdiff_t qkv_rows_row(const struct qkv_rows *u, const struct qkv_strides *s,
                                     int64_t row)
{
    return qkv_rows_place(u, s, u->item.row + qkv_rows_token(u, row), qkv_rows_head(u, row));
}
// qkv_rows_bias and qkv_rows_mask return the addresses of the bias and the mask of a row for the
// first key of the item; NULL: the call has no bias, or no mask.
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
// Returns the index of a row in lse [B][H][T]. In the dense weights, the row begins at S times this
// index.
static inline int64_t qkv_rows_index(const struct qkv_rows *u, int64_t row)
{
    const struct qkv_attention *a = &u->call->w->a;
    return (u->item.b * a->H + qkv_rows_head(u, row)) * a->T + u->item.row + qkv_rows_token(u, row);
}
// Returns the index of a row in an array [B][H][all_rows] of the longer call.
static inline int64_t qkv_rows_index_all(const struct qkv_rows *u, int64_t row)
{
    const struct qkv_attention *a = &u->call->w->a;
    const int64_t line = u->item.b * a->H + qkv_rows_head(u, row);
    return qkv_rows_index(u, row) + line * (a->all_rows - a->T) + a->first_row;
}
// Returns the distance of a row's query from the key with index `chunk`: the index of the key on
// the query's diagonal minus `chunk`.
static inline int64_t qkv_rows_distance(const struct qkv_rows *u, int64_t row, int64_t chunk)
{
    return qkv_rows_token(u, row) + u->item.shift - chunk;
}
// Splits log2(e) lse into *base + *rest, where *rest is the rounding error of *base.
static inline void qkv_rows_base(real *base, real *rest, real lse)
{
    const double power = 1.44269504088896340736 * (double)lse;
    *base = (real)power;
    *rest = (real)(power - (double)*base);
}
// Returns the range of keys that a row sees, without the keys that a KV cache has removed.
static inline struct qkv_attention_keys qkv_rows_keys(const struct qkv_rows *u, int64_t row)
{
    struct qkv_attention_keys k = qkv_attention_keys(u->call->w, &u->item, qkv_rows_token(u, row));
    k.lo = qkv_max64(k.lo, u->first);
    if (k.hi < k.lo) k.hi = k.lo;
    return k;
}

// ---- the call ----------------------------------------------------------------------------------
// Sets `shaped` and c of a call whose w is set.
void qkv_rows_exponent(struct qkv_rows_call *c);

// ---- relative bias and dropout of a row (attention_terms.c) ------------------------------------
// Writes to[j] = relative bias of the row and key chunk + j, for columns from .. end-1.
void qkv_rows_relative(float *to, const struct qkv_rows *u, int64_t row, int64_t chunk,
                       int32_t from, int32_t end);
// Adds x[j], for each column j of c, to line[2 reach + 1], the gradient of the relative bias: to
// element reach + apart + j, or to *before instead of its first element and of all before it, and
// to *after instead of its last and of all after it. before and after may be these two elements.
// apart: position of column 0 minus position of the query.
void qkv_rows_add_relative(real *line, real *before, real *after, int64_t reach, int64_t apart,
                           const real *x, struct qkv_columns c,
                           const struct qkv_attention_back_kernels *k);
// Writes the random words that determine the dropout of a row's weights: word[j] for key chunk + j,
// for columns j in from .. to-1. word has QKV_CHUNK entries; chunk is a multiple of 4. The words of
// a row begin at index qkv_rows_index_all * ceil4(S) of the random stream, where ceil4 rounds up to a
// multiple of 4.
void qkv_rows_words(uint32_t *word, const struct qkv_rows *u, int64_t row, int64_t chunk,
                    int32_t from, int32_t to);
// The rows and columns of which qkv_rows_spans finds the spans.
struct qkv_rows_reach {
    int64_t first; // index of the first row
    int rows;
    int64_t chunk;
    const int32_t *lo, *hi; // [rows] columns that each row sees: lo[i] .. hi[i]-1
    int32_t from, to;       // columns that at least one row sees: from .. to-1
};
// Finds the spans of columns for which products are computed: whole vectors of `lanes` columns,
// without panels of `keys` columns that mask and bias hide entirely. Returns the number of spans,
// at most QKV_SPANS_MAX.
int qkv_rows_spans(struct qkv_columns *spans, const struct qkv_rows *u,
                   const struct qkv_rows_reach *p, int32_t lanes, int32_t keys);

// ---- rows and groups ---------------------------------------------------------------------------
// Initialize the sums of rows, and their dense weights if these are requested.
void qkv_rows_begin_sums(const struct qkv_rows *u, const struct qkv_rows_sums *sums);
void qkv_rows_begin_weights(const struct qkv_rows *u);
// Sets *p to the rows and columns of group g in the chunk that begins at key `chunk`; returns false
// if the group sees no key of the chunk.
bool qkv_rows_find(const struct qkv_rows *u, int64_t g, int64_t chunk, struct qkv_rows_group *p);
// Computes the scores of the group and its chunk in u->s, ready for the softmax.
void qkv_rows_scores(const struct qkv_rows *u, const struct qkv_rows_group *p,
                     const struct qkv_rows_packed *from);
// Processes the group with its chunk: computes scores, weights and sums of values. merge true:
// merges the result into *sums; merge false: sets *sums to the result of this chunk alone.
// now[rows] receives the factor with which the chunk's values were added to the sums of each row.
void qkv_rows_run(const struct qkv_rows *u, struct qkv_rows_group *p,
                  const struct qkv_rows_packed *from, const struct qkv_rows_sums *sums, bool merge,
                  real *now);
// qkv_rows_sees returns true if row i of the group attends to column j. qkv_rows_probability
// returns the weight of row i and column j after qkv_rows_run.
bool qkv_rows_sees(const struct qkv_rows *u, const struct qkv_rows_group *p, int i, int32_t j);
real qkv_rows_probability(const struct qkv_rows *u, int i, int32_t j);
// Writes out, lse and dense weights of group g from its sums. The sink logit of each head, if there
// is one, is added to the softmax denominator last.
void qkv_rows_finish(const struct qkv_rows *u, const struct qkv_rows_sums *sums, int64_t g);

// ---- a call whose keys arrive in parts (attention.c) -------------------------------------------
// The keys first .. first + n - 1 of batch item b, or of the packed tokens: k and v begin with key
// `first` and have the strides t and h of the call. The parts of a batch item follow each other in
// the order of the keys; a part begins at the first key of an item (attention_work.h) or at a
// multiple of w->chunk from there, or between items.
struct qkv_attention_part {
    int64_t b, first, n;
    bool begin, finish; // the first part of the batch item; the last, which writes out and lse
    struct qkv_rows_sums sums; // sums of all rows of the batch item, kept from part to part
};
// Allocates the sums for the parts of a call; returns false if the arena is full.
bool qkv_attention_place_sums(struct qkv_rows_sums *x, const struct qkv_attention_work *w,
                              struct qkv_arena *to);
// Runs one part of a validated call without weights and probes. After the last part, out and lse of
// the batch item have the bits of qkv_attention_run. The arrays are not checked.
void qkv_attention_run_part(void *out, real *lse, const void *q, const void *k, const void *v,
                            const struct qkv_attention_work *w,
                            const struct qkv_attention_part *part, void *scratch);
#endif
