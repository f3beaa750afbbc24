// SPDX-License-Identifier: MIT
// forward.h: declares the state of a run, for forward.c, which runs the layers, and observe.c,
// which calls the observer.
#ifndef QKV_MODEL_FORWARD_H
#define QKV_MODEL_FORWARD_H

#include "model/forward/observe.h"
#include "model/forward/stream.h"

// The probe statistics of one attention of a run. `at` has the rows that are computed, as the
// attention operator writes them; `padded` also has the padding rows, as the observer receives
// them.
struct qkv_observed_probe {
    int64_t heads;
    struct qkv_probe at, padded;
};

// One stack and its input. R counts the rows that are computed; `all` counts the caller's rows,
// with padding.
struct qkv_side {
    int stack;
    const struct qkv_model_input *in;
    int64_t R, all, sequences;
    int64_t longest, deepest; // tokens of the longest sequence, with padding and without
    const int64_t *offsets;   // [sequences + 1] offsets of the computed rows
    // memory of `offsets`; NULL: the input has no lengths, and `offsets` is the caller's array
    int64_t *own_offsets;
    int64_t *place; // [R] the caller's row of each computed row; NULL: no padding, row r is row r
    int32_t *ids, *types, *positions; // [R] token id, token type and position of each computed row
    struct qkv_embedding_arrays embedding;
    struct qkv_places places;
    struct qkv_attention attention, local, across;
    struct qkv_heads_keep keep, keep_cross;       // q, k, v and lse, only if an observer needs them
    struct qkv_observed_probe probe, probe_cross; // only if an observer requested statistics
    struct qkv_stream stream;
    // copies of the stream after each sublayer, only if an observer requested them
    struct qkv_sublayer_streams sublayers;
    float *spread; // [all][D] hidden states with padding rows inserted
    float *spread_q, *spread_k, *spread_v, *spread_lse;
};

struct qkv_run {
    const struct qkv_model *m;
    const struct qkv_run_options *options; // of the caller; NULL: none
    const struct qkv_stack *stack;         // [sides] the stacks of the model, or `own`
    struct qkv_stack own[2];               // copies whose layers have the ablated heads of this run
    void *ablated;                         // memory of these layers; NULL: none
    const struct qkv_observer *observer;
    struct qkv_side side[2];
    int sides;
    float *hidden; // the caller's array for the last hidden states; NULL: not requested
    size_t block_scratch, square_scratch;
    // [H][rows][n] dense weights for the observer: rows of the stack, n keys of the longest
    // sequence
    float *dense;
    // [H][n][n] dense weights of one sequence
    float *square;
    // [n] rows each: q, k, v and output of one sequence, in the type of the attention operator
    void *square_q, *square_k, *square_v, *square_out;
    void *square_scratch_at;
    void *probes; // memory of all probes, freed at the end of the run; NULL: no probe is requested
};

// Computes u->square_scratch, the bytes of scratch for the dense weights that an observer
// requested. Returns QKV_OK, or the status with which the attention operator refuses to compute
// dense weights (observe.c).
qkv_status qkv_observe_plan(struct qkv_run *u);
void qkv_observe_alloc(struct qkv_run *u, struct qkv_arena *a);
// Copies from[R][width] to the caller's rows of to[all][width], sets padding rows to 0, and returns
// `to`. If there is no padding, only returns `from`.
const float *qkv_observe_spread(const struct qkv_side *s, float *to, const float *from,
                                int64_t width);
// Returns true if the observer needs q, k, v and lse.
static inline bool qkv_observe_keeps(const struct qkv_run *u)
{
    return u->observer && (!u->observer->skip_qkv || u->observer->weights);
}
qkv_status qkv_observe_layer(struct qkv_run *u, struct qkv_side *s, int64_t layer, qkv_error *err);
// Allocates the arrays of the requested probes; must be called before the scratch of attention is
// computed. Returns QKV_OK or QKV_ERR_LIMIT (observe_probes.c).
qkv_status qkv_observed_probe_begin(struct qkv_run *u, qkv_error *err);
// Returns the statistics that a layer has written to p->at, with padding rows and keys inserted.
const struct qkv_probe *qkv_observed_probe_output(struct qkv_observed_probe *p,
                                                  const struct qkv_side *s,
                                                  const struct qkv_side *keys);

// Runs the sequences of `in` in parts, each on one thread, and sets *status. Returns false, without
// an effect, if the run is better not divided: few or uneven sequences, one thread, an observer,
// options, two stacks (run_parts.c).
bool qkv_run_parts(qkv_status *status, const struct qkv_run *u, const struct qkv_model_input *in,
                   qkv_error *err);
#endif
