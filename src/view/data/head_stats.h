// SPDX-License-Identifier: MIT
// head_stats.h: declares the measurement of the heads of a layer: effective keys, distance, focus
// and kind.
#ifndef QKV_VIEW_HEAD_STATS_H
#define QKV_VIEW_HEAD_STATS_H

#include "view/data/view_data.h"

// ---- head_stats.c, head_stats_top.c -------------------------------------------------------------
// Returns the floats of scratch that measuring one head needs.
int64_t view_measure_scratch(const struct view_stack *v);
// Measures one head from its complete rows.
void view_measure_head(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       int64_t head, float *scratch);
// Counts the rows of all heads that contain NaN, and the rows whose weights do not sum to 1.
void view_count_invalid_rows(const struct view_stack *v, int64_t *not_numbers, int64_t *not_one);
// Measures one head from a probe; weights that the probe did not store count for no kind.
void view_measure_head_top(struct view_stats *out, const struct view_stack *v, int64_t layer,
                           int64_t head, float *scratch);
// Sums over the rows of a head, from which its statistics follow.
struct view_sums {
    double keys, distance, focus, sink;
    int64_t rows, focus_rows;
    double sum[VIEW_KINDS]; // [kind] sum of the measure of the kind; n: number of its rows
    int64_t n[VIEW_KINDS];
    double share[2][3]; // weight from each part of a pair to each part; [2]: to special tokens
};
bool view_is_sink(const struct view_stack *v, int64_t key);
void view_keep_larger(struct view_pair *p, int64_t from, int64_t to, float w);
// Computes the statistics of a head from the sums. got[S]: attention that each key receives from
// rows without special tokens.
void view_finish_stats(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       const struct view_sums *k, const float *got);

#endif
