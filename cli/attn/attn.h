// SPDX-License-Identifier: MIT
// attn.h: declares a job of `qkv attn`: one run of the attention operator on arrays, with its sizes
// and results.
#ifndef QKV_ATTN_H
#define QKV_ATTN_H

#include "frame/probes.h"
#include "ranks/ranks.h"

// Order of the axes of arrays with 4 axes. The value of the option is -1 if it is not given, which
// means the first order.
enum layout { LAYOUT_BTHE = 0, LAYOUT_BHTE };
// Order of the axes of projection matrices. The value of the option is -1 if it is not given, which
// means the first order.
enum w_layout { W_OUT_IN = 0, W_IN_OUT };

// Names of the input files from the command line; NULL: the option is not given.
struct attn_files {
    const char *q, *k, *v, *all, *x, *context;
    const char *wq, *wk, *wv, *wo, *ws, *waq, *wak, *wa;
};

// The arrays, sizes and results of one run.  The caller zeroes the struct before attn_inputs() and
// frees its content with attn_inputs_free().
struct attn_job {
    qkv_tensors *all;
    const char *all_path;
    // Queries, keys and values, from files or computed from inputs
    struct array q, k, v;
    // x: inputs; c: context, the inputs of keys and values; w*: weights of projections and scores
    struct array x, c, wq, wk, wv, wo, ws, waq, wak, wa;
    struct qkv_attention a;
    struct qkv_multi_head m;
    bool inputs;       // true: q, k and v are computed from the inputs x, not read from files
    bool has_b, has_h; // true: the results have a batch axis (has_b), a head axis (has_h)
    int layout;
    struct qkv_probe_request request; // the statistics that --probe requests
    int64_t *rows;
    struct qkv_probe probe; // the arrays of these statistics; a.probe points to it
    bool limit_given;       // --collect-limit is given
};

// Reads the arrays and sets the sizes of j->a, and of j->m if q, k and v are projected from inputs.
// Returns QKV_ERR_USAGE if the sizes of two arrays do not match; err names both shapes.
qkv_status attn_inputs(struct attn_job *j, const struct attn_files *f, int w_layout, int score,
                       int64_t heads, int64_t kv_heads, qkv_error *err);
void attn_inputs_free(struct attn_job *j);

// Parses `list`, the value of --probe, and allocates the arrays of statistics (attn_probe.c). list
// NULL: --probe is not given. The sizes of j->a must be set.
qkv_status attn_probe_new(struct attn_job *j, const char *list, qkv_error *err);
// Writes the statistics to a file; path NULL: prints them after the other results. *first is true
// while nothing has been printed; this function sets it to false.
qkv_status attn_probe_give(const struct attn_job *j, const char *path, bool *first, qkv_error *err);
void attn_probe_free(struct attn_job *j);

// Prints a note if `out` has numbers that are not finite while all inputs are; a number of `bias`
// or `sinks` may be -infinity.  An array that is not given is zeroed.
void attn_note_nonfinite(const struct attn_job *j, const struct array *bias,
                         const struct array *sinks, const struct array *out);

extern const char *const attn_scores[]; // names of enum qkv_score
// Prints how the ranks would share a job, as text, or as the member "ranks" of a JSON object; with
// one rank nothing (attn_ranks.c).
void attn_ranks_plan_print(const struct attn_job *j);
// Prints the plan of a job as text or JSON (attn_plan.c).
void attn_plan_print(const struct attn_job *j, const struct qkv_attention_plan *p);
// Runs the job on all ranks (attn_ranks.c): on rank 0, out, lse and weights receive all rows; lse
// and weights may be NULL.
qkv_status attn_ranks_run(const struct attn_job *j, float *out, float *lse, float *weights,
                          qkv_error *err);

#endif
