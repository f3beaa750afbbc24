// SPDX-License-Identifier: MIT
// ranks_work.h: divides the rows of an attention call among ranks.
//
//   run    consecutive rows of one rank; runs are numbered over all ranks, in the order of the rows
#ifndef QKV_LAYER_RANKS_WORK_H
#define QKV_LAYER_RANKS_WORK_H

#include "layer/attention/attention_back_work.h"
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
// Returns the largest status of all ranks, so that all continue or none.
qkv_status qkv_ranks_agree(const struct qkv_comm *comm, qkv_status mine);
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
#endif
