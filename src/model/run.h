// SPDX-License-Identifier: MIT
// run.h: what a run works on, for the file that runs and the file that shows.
#ifndef QKV_MODEL_RUN_H
#define QKV_MODEL_RUN_H

#include "model/model.h"

// Probes of an attention of a run: as the operator writes them, and with rows of padding.
struct qkv_look_probe {
    int64_t heads;
    struct qkv_probe at, seen;
};

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
    struct qkv_heads_keep keep, keep_cross;   // q, k, v, lse: only when watched
    struct qkv_look_probe probe, probe_cross; // only when wished for
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
    void *probes; // arrays of them all, freed by the run; NULL: none
};

// look.c: what a watched run needs beside, and showing a layer.
// QKV_OK, or why the operator refuses the dense weights; u->square_scratch is set.
qkv_status qkv_look_plan(struct qkv_run *u);
void qkv_look_take(struct qkv_run *u, struct qkv_arena *a);
// to[all][width] = from[R][width] at the rows they came from, 0 elsewhere; from itself without
// padding.
const float *qkv_look_spread(const struct qkv_side *s, float *to, const float *from, int64_t width);
// Does somebody want q, k, v and lse?
static inline bool qkv_look_keeps(const struct qkv_run *u)
{
    return u->watch && (!u->watch->lean || u->watch->weights);
}
qkv_status qkv_look_show(struct qkv_run *u, struct qkv_side *s, int64_t layer, qkv_error *err);
// look_probe.c: before attention is planned: arrays of the probes wished for.  QKV_OK, QKV_ERR_LIMIT.
qkv_status qkv_look_probe_begin(struct qkv_run *u, qkv_error *err);
// What a layer has just left in p, with its rows and keys where the caller has them.
const struct qkv_probe *qkv_look_probe_seen(struct qkv_look_probe *p, const struct qkv_side *s,
                                            const struct qkv_side *keys);
#endif
