// SPDX-License-Identifier: MIT
// run.h: what a run works on, for the file that runs and the file that shows.
#ifndef QKV_MODEL_RUN_H
#define QKV_MODEL_RUN_H

#include "model/model.h"

// One stack and what it reads.  R counts the rows that are computed; the caller's rows are `all`.
struct qkv_side {
    int stack;
    const struct qkv_model_input *in;
    int64_t R, all, sequences;
    int64_t longest, deepest; // tokens of the longest sequence, with its padding and without
    const int64_t *offsets;   // [sequences + 1] of the rows computed
    int64_t *own_offsets;     // ... where they are not the caller's
    int64_t *place;           // [R] the caller's row; NULL: the same
    int32_t *ids, *types, *positions; // [R]
    float *words, *kinds;             // tables where the file's own cannot be used
    struct qkv_places places;
    struct qkv_attention attention, local, across;
    struct qkv_heads_keep keep, keep_cross; // q, k, v, lse: only when watched
    struct qkv_stream stream;
    float *spread; // [all][D] a watched array with its padding rows
    float *spread_q, *spread_k, *spread_v, *spread_lse;
};

struct qkv_run {
    const struct qkv_model *m;
    const struct qkv_watch *watch;
    struct qkv_side side[2];
    int sides;
    float *hidden; // the caller's, NULL: not wanted
    size_t block_scratch, square_scratch;
    float *dense;                                      // [H][rows][longest]
    float *square;                                     // [H][n][n] of the longest sequence
    void *square_q, *square_k, *square_v, *square_out; // [n] its rows, as the operator reads them
    void *square_scratch_at;
};

// look.c: what a watched run needs beside, and showing a layer.
// QKV_OK, or why the operator refuses the dense weights; u->square_scratch is set.
qkv_status qkv_look_plan(struct qkv_run *u);
void qkv_look_take(struct qkv_run *u, struct qkv_arena *a);
// to[all][width] = from[R][width] at the rows they came from, 0 elsewhere; from itself without
// padding.
const float *qkv_look_spread(const struct qkv_side *s, float *to, const float *from, int64_t width);
qkv_status qkv_look_show(struct qkv_run *u, struct qkv_side *s, int64_t layer, qkv_error *err);
#endif
