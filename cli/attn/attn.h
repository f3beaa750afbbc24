// SPDX-License-Identifier: MIT
// attn.h: declares a job of `qkv attn`: its arrays, sizes and results.
#ifndef QKV_ATTN_H
#define QKV_ATTN_H

#include "frame/probes.h"

// Order of the axes of 4-D arrays; an option that is not given has -1 and means the first one
enum layout { LAYOUT_BTHE = 0, LAYOUT_BHTE };
// Order of the axes of the projection matrices; an option that is not given has -1 and means the
// first one
enum w_layout { W_OUT_IN = 0, W_IN_OUT };

// Names of the input files from the command line; NULL: the option is not given.
struct attn_files {
    const char *q, *k, *v, *all, *x, *context;
    const char *wq, *wk, *wv, *wo, *ws, *waq, *wak, *wa;
};

// Arrays, sizes and results of one run.  The caller zeroes the structure; attn_inputs_free frees
// it.
struct attn_job {
    qkv_tensors *all;
    const char *all_path;
    // Queries, keys and values, from files or computed from inputs
    struct array q, k, v;
    struct array x, c, wq, wk, wv, wo, ws, waq, wak, wa; // inputs, context and projection weights
    struct qkv_attention a;
    struct qkv_multi_head m;
    bool inputs;       // whether q, k and v are computed from the inputs x
    bool has_b, has_h; // whether the results have a batch axis and a head axis
    int layout;
    struct qkv_probe_request request; // statistics requested with --probe
    int64_t *rows;
    struct qkv_probe probe; // statistics to compute with --probe; a.probe points to it
};

// Reads the arrays and sets the sizes of j->a (and of j->m if q, k and v are projected).
// QKV_ERR_USAGE: the sizes of two arrays do not fit; err names both shapes.
qkv_status attn_inputs(struct attn_job *j, const struct attn_files *f, int w_layout, int score,
                       int64_t heads, int64_t kv_heads, qkv_error *err);
void attn_inputs_free(struct attn_job *j);
// Reports "A does not fit B: REASON, found SHAPE" as QKV_ERR_USAGE.
qkv_status attn_misfit(qkv_error *err, const struct array *a, const char *expected,
                       const struct array *b);

// Parses `list`, the value of --probe (NULL: not given), and allocates the statistics
// (attn_probe.c). The sizes of j->a must be set.
qkv_status attn_probe_new(struct attn_job *j, const char *list, qkv_error *err);
// Writes the statistics to the file `path`; path NULL: prints them after the other results. *first:
// no result has been printed yet; set to false.
qkv_status attn_probe_give(const struct attn_job *j, const char *path, bool *first, qkv_error *err);
void attn_probe_free(struct attn_job *j);

#endif
