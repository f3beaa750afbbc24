// SPDX-License-Identifier: MIT
// position.h: declares positions and the input rows of a stack: position numbers, tables of fixed
// and rotary positions, relative positions, embeddings.
#ifndef QKV_MODEL_POSITION_H
#define QKV_MODEL_POSITION_H

#include "model/model_internal.h"

// Computes positions[r], the row of the position table for token ids[r], for n sequences packed at
// offsets[0 .. n]: the index of the token in its sequence + `first` + position_offset. If the
// description has position_after_pad, the index counts only tokens other than padding and begins at
// pad + 1; a padding token has row pad (position_number.c).
void qkv_position_number(int32_t *positions, const struct qkv_description *d, const int32_t *ids,
                         const int64_t *offsets, int64_t n, int32_t first);
// A position table that position_rows.c computes, or converts from a table in the file that is not
// aligned floats.
struct qkv_rows_made {
    int64_t rows;
    // the smaller table before it, which runs may still read; freed with the model
    struct qkv_rows_made *older;
    float *at; // the table [rows][D]; for rotary positions [rows][2 pairs]
};
// Sets *out to a position table of this kind with at least `rows` rows. Several threads may call
// this function at once. Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_position_rows(const float **out, struct qkv_model *m, enum qkv_rows_kind kind,
                             int64_t rows);
// Returns the number of rotated pairs of dimensions in a head (rope_scale.c).
int64_t qkv_rope_pairs(const struct qkv_description *d);
// Writes table[rows][2 pairs]: cosines and sines of the rotated pairs, in local or in other layers.
// Returns false if memory is exhausted.
bool qkv_rope_turns(real *table, int64_t rows, const struct qkv_description *d, bool local);
// Returns the number of rows of a new table: at least `rows`, and twice the rows of the previous
// table, `older` (0: there is no table), but not more than `most` unless `rows` is larger
// (position_table.c).
int64_t qkv_position_grow(int64_t older, int64_t rows, int64_t most);
// Returns the width of a row of fixed positions: 2 pairs for rotary positions, otherwise the
// model's width.
int64_t qkv_position_width(const struct qkv_description *d);
// Fills table[rows][width] with sinusoids, or with the cosines and sines of rotary positions, in
// local or in other layers. Returns false if memory is exhausted.
bool qkv_position_fill(real *table, const struct qkv_description *d, int64_t rows, bool local);
// Returns true if rotary positions have other frequencies in local layers than in other layers.
static inline bool qkv_described_two_turns(const struct qkv_description *d)
{
    return d->theta_local > 0 &&
           (d->theta_local != d->theta || (d->rope_local_plain && d->rope.kind));
}
// Expands the relative-position biases buckets[buckets][H] of a stack to one bias per distance,
// table[H][2 reach + 1] with reach = distance (relative.c).
void qkv_relative_table(float *table, const real *buckets, int64_t H,
                        const struct qkv_relative_buckets *b, bool causal);
// Adds the gradient of the expanded table, table[H][2 reach + 1], to the gradient of the biases,
// buckets[buckets][H].
void qkv_relative_backward(real *buckets, const real *table, int64_t H,
                           const struct qkv_relative_buckets *b, bool causal);

// The position tables of a run (embedding.c).
struct qkv_places {
    // rows of the position table; NULL: the stack has no table of position embeddings
    const float *rows;
    struct qkv_rope turn[2]; // rotary positions of normal and of local layers; table NULL: unused
};
// Sets *p to position tables of a stack for at least the positions 0 .. deepest-1; computes the
// rows that no earlier run has computed. Returns QKV_OK or QKV_ERR_LIMIT.
qkv_status qkv_places_ready(struct qkv_places *p, const struct qkv_model *m, int stack,
                            int64_t deepest);
// Scratch arrays of qkv_embedding; an array that it does not need for a model is NULL.
struct qkv_embedding_arrays {
    float *words, *kinds; // [R], [types] embeddings of tokens and types, if the file has no floats
    float *narrow; // [R][embed_width] embeddings before they are projected to the model's width
};
void qkv_embedding_alloc(struct qkv_embedding_arrays *to, struct qkv_arena *a, int64_t R,
                         const struct qkv_model *m, int stack);
// Computes the embeddings x[R][D]. If work->words is not NULL, the function overwrites ids.
void qkv_embedding(float *x, const struct qkv_embedding_arrays *work, int32_t *ids,
                   const int32_t *types, const int32_t *positions, int64_t R,
                   const struct qkv_places *p, const struct qkv_model *m, int stack);
#endif
