// SPDX-License-Identifier: MIT
// ranks_work.h: divides the rows of an attention call among ranks.
//
//   run    consecutive rows of one rank; runs are numbered over all ranks, in the order of the rows
#ifndef QKV_LAYER_RANKS_WORK_H
#define QKV_LAYER_RANKS_WORK_H

#include "layer/attention/attention_back_work.h"
#include "layer/layer_internal.h"
#include <qkv/ranks.h>

// How the rows of a call are divided: run c has rows edge(c) .. edge(c + 1) - 1.
struct qkv_runs {
    int64_t ranks, runs;    // number of ranks, and of runs: one or two per rank
    int64_t n, multiple;    // number of rows; runs begin at multiples of this many rows
    const int64_t *offsets; // [sequences + 1] first row of each packed sequence, or NULL
    const int64_t *edges;   // [runs + 1] first rows that the caller chose, or NULL
    int64_t sequences;
};
// Returns the first row of run c, 0 <= c <= runs.
int64_t qkv_runs_edge(const struct qkv_runs *x, int64_t c);
static inline int64_t qkv_runs_rank(const struct qkv_runs *x, int64_t c)
{
    return c < x->ranks ? c : 2 * x->ranks - 1 - c;
}
struct qkv_rank_rows qkv_runs_rows(const struct qkv_runs *x, int64_t rank);

// A call of attention over ranks, as one rank has it.
struct qkv_ranks_call {
    struct qkv_attention whole; // validated, with defaults
    const struct qkv_comm *comm;
    struct qkv_runs runs, key_runs;
    struct qkv_rank_rows rows, keys;
    size_t size;   // bytes of a number of q, k, v, out
    int64_t chunk; // keys that attention processes before the next ones (attention_work.h)
};
// Validates the call; p receives the status, the reason and the rows.
qkv_status qkv_ranks_resolve(struct qkv_ranks_call *c, struct qkv_ranks_plan *p,
                             const struct qkv_attention *a, const struct qkv_comm *comm);
// Returns the call of run i of this rank alone, i 0 or 1; its arrays begin with the rows of the run.
struct qkv_attention qkv_ranks_run(const struct qkv_ranks_call *c, int i);
// Places an array of all keys (heads G, width W) into the arena; collects it from the ranks, of
// which this one has `own`.
char *qkv_ranks_place(const struct qkv_ranks_call *c, int64_t W, struct qkv_arena *to);
qkv_status qkv_ranks_collect(const struct qkv_ranks_call *c, char *all, const void *own, int64_t W);
// Chooses the mode of p by collect_limit, and says why.
void qkv_ranks_choose(struct qkv_ranks_plan *p, const struct qkv_ranks_call *c);
// Returns the largest status of all ranks, so that all continue or none.
qkv_status qkv_ranks_agree(const struct qkv_comm *comm, qkv_status mine);
// Returns the largest status of all ranks, or QKV_ERR_USAGE if they have different limits and might
// choose different modes.
qkv_status qkv_ranks_agree_limit(const struct qkv_comm *comm, qkv_status mine);
// Returns the bytes of a block of keys and values at most, unless one chunk has more: the rank that
// sends a block has a copy for each of the others on its way.
size_t qkv_ranks_block(const struct qkv_comm *comm);
// Copies lse of run i between the array of the rank, [B][H][t], and an array of the run alone.
void qkv_ranks_lse(const struct qkv_ranks_call *c, int i, float *run, float *rank, bool to_rank);

// ---- keys and values block by block (ranks_pipeline.c) -----------------------------------------
// The arrays of a forward call, of this rank.
struct qkv_ranks_arrays {
    void *out;
    float *lse; // NULL: not requested
    const void *q, *k, *v;
    void *scratch;
};
struct qkv_ranks_pipeline {
    const struct qkv_ranks_call *c;
    struct qkv_runs blocks;         // of a batch item
    int64_t most;                   // keys of a block at most
    struct qkv_attention_work w[2]; // of the runs of this rank
    // in scratch: the keys and values of a block, for each run the sums of its rows and its lse, and
    // the scratch of attention
    char *k, *v;
    struct qkv_rows_sums sums[2];
    float *lse[2];
    void *own;
};
// Divides the keys into blocks and allocates the arrays; returns false if they do not fit.
bool qkv_ranks_pipeline_place(struct qkv_ranks_pipeline *x, const struct qkv_ranks_call *c,
                              struct qkv_arena *to);
// Returns QKV_ERR_USAGE if an array of the rank is missing, misaligned or overlaps an output.
// scratch: bytes of p->scratch.
qkv_status qkv_ranks_pipeline_check(const struct qkv_ranks_pipeline *x,
                                    const struct qkv_ranks_arrays *p, size_t scratch);
qkv_status qkv_ranks_pipeline_run(const struct qkv_ranks_pipeline *x,
                                  const struct qkv_ranks_arrays *p);

// ---- the backward pass (ranks_backward.c) ------------------------------------------------------
enum { QKV_RANKS_RUNS = 2 }; // most runs of a rank
// One run of this rank: a part of the whole call.
struct qkv_ranks_stage {
    int run;            // index of the run in the rank, 0 or 1
    int64_t place;      // number of nonempty runs before it in the call
    bool before, after; // whether the sums come from a run and go to one
    int64_t from, to;   // ranks of these runs
    struct qkv_attention_back b;
    struct qkv_attention_tables tables;
    struct qkv_attention_back_given given;
    struct qkv_back_call call;
    float *lse;
    void *scratch;
    // block by block: keys and values of a batch, sums that enter it, and sums of dq
    char *keys, *in;
    float *dq;
};

struct qkv_ranks_back {
    struct qkv_ranks_call c;
    enum qkv_ranks_mode mode;
    struct qkv_ranks_stage stage[QKV_RANKS_RUNS];
    int stages;
    int64_t places; // number of nonempty runs of the call
    int64_t cuts;   // units with the keys of one head, in their order
    int64_t units,
        batch; // units in all, and of a batch (block by block: at most, or more short ones)
    int64_t first, last;        // ranks of the first and of the last run
    char *k, *v, *dk, *dv;      // of all keys; block by block: of this rank
    char *in, *out;             // sums of a batch
    char *message;              // block by block: what one rank has of the keys of a batch
    struct qkv_back_sums *sums; // [batch]
};
static inline int64_t qkv_ranks_stages(const struct qkv_ranks_back *x)
{
    return x->stages ? x->stages : 1;
}
// Returns the bytes of the sums of a unit.
size_t qkv_ranks_sums_bytes(const struct qkv_ranks_stage *s, int64_t unit);

// ---- the backward pass block by block (ranks_back_blocks.c) ------------------------------------
// Divides the units of a stage; x->mode is QKV_RANKS_PIPELINE in all of these.
qkv_status qkv_ranks_blocks_cut(struct qkv_ranks_back *x, struct qkv_ranks_stage *s);
// Allocates the arrays of the blocks.
void qkv_ranks_blocks_place(struct qkv_ranks_back *x, struct qkv_arena *to);
// Adds the bytes that this rank sends, and describes the blocks.
void qkv_ranks_blocks_describe(struct qkv_ranks_plan *p, const struct qkv_ranks_back *x);
// Runs all units; afterwards x->dk and x->dv have the gradients of this rank's keys.
qkv_status qkv_ranks_blocks_run(struct qkv_ranks_back *x);
#endif
