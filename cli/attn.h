// SPDX-License-Identifier: MIT
// attn.h: what cmd_attn.c (options, masks, results) and attn_inputs.c (arrays to sizes) share.
#ifndef QKV_ATTN_H
#define QKV_ATTN_H

#include "probes.h"

enum layout { LAYOUT_BTHE = 0, LAYOUT_BHTE }; // -1: not given, the first
enum w_layout { W_OUT_IN = 0, W_IN_OUT };     // the same

// As the command line has them; NULL: not given.
struct attn_files {
    const char *q, *k, *v, *all, *x, *context;
    const char *wq, *wk, *wv, *wo, *ws, *waq, *wak, *wa;
};

// One run: everything it owns.  Zero before the first use, attn_free behind the last.
struct attn_job {
    qkv_tensors *all;
    const char *all_path;
    struct array q, k, v;                                // given, or
    struct array x, c, wq, wk, wv, wo, ws, waq, wak, wa; // made from inputs
    struct qkv_attention a;
    struct qkv_multi_head m;
    bool inputs;       // from x
    bool has_b, has_h; // results have a batch axis, a head axis
    int layout;
    struct qkv_probe_wish wish; // --probe
    int64_t *rows;
    struct qkv_probe probe; // a.probe, when something is wished for
};

// Reads the arrays and fills a's (and m's) sizes; QKV_ERR_USAGE names both shapes when two do not
// fit.
qkv_status attn_inputs(struct attn_job *j, const struct attn_files *f, int w_layout, int score,
                       int64_t heads, int64_t kv_heads, qkv_error *err);
void attn_inputs_free(struct attn_job *j);
// "A does not fit B: WHY, found SHAPE" as QKV_ERR_USAGE.
qkv_status attn_misfit(qkv_error *err, const struct array *a, const char *expected,
                       const struct array *b);

// attn_probe.c.  list: of --probe, NULL: none; sizes of a are known.  give: to a file, or printed
// (NULL) behind other results: *first says whether there were none.
qkv_status attn_probe_new(struct attn_job *j, const char *list, qkv_error *err);
qkv_status attn_probe_give(const struct attn_job *j, const char *path, bool *first, qkv_error *err);
void attn_probe_free(struct attn_job *j);

#endif
