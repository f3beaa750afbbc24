// SPDX-License-Identifier: MIT
// head_stats.h: declares the measurement of the heads of a layer: effective keys, distance, focus
// (1 - entropy / its maximum) and kind.
#ifndef QKV_VIEW_HEAD_STATS_H
#define QKV_VIEW_HEAD_STATS_H

#include "view/data/view_data.h"

// ---- head_stats.c, head_stats_top.c -------------------------------------------------------------
// Measures one head from all weights of its rows. scratch: view_measure_head_scratch() bytes,
// 64-byte aligned.
size_t view_measure_head_scratch(const struct view_stack *v);
void view_measure_head(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       int64_t head, void *scratch);
// Counts the rows of all heads that contain NaN, and the rows whose weights do not sum to 1.
void view_count_invalid_rows(const struct view_stack *v, int64_t *not_numbers, int64_t *not_one);
// Measures one head from the largest weights that a probe stored. A weight that is not stored does
// not count for the kind of the head. scratch: view_measure_head_top_scratch() bytes, 64-byte
// aligned.
size_t view_measure_head_top_scratch(const struct view_stack *v);
void view_measure_head_top(struct view_stats *out, const struct view_stack *v, int64_t layer,
                           int64_t head, void *scratch);
// The links that the rows of a head propose as its story (stories.h), largest worth first: weight
// times distance.
enum { VIEW_CANDIDATES = 16 };
struct view_candidates {
    int count;
    struct view_pair pair[VIEW_CANDIDATES];
    float worth[VIEW_CANDIDATES];
    float *mean,
        *seen; // [S] sum of the rows; changes of the number of rows that may attend to a key
};
// Sums over the rows of a head. Its statistics are computed from them.
struct view_sums {
    double keys, distance, focus, sink;
    int64_t rows, focus_rows;
    // sum[kind]: sum over rows of the measure for this kind of head; n[kind]: number of these rows
    double sum[VIEW_KINDS];
    int64_t n[VIEW_KINDS];
    // weight from part A [0] or B [1] of a text pair to part A, part B, and special tokens
    double share[2][3];
    struct view_candidates story;
};
bool view_is_sink(const struct view_stack *v, int64_t key);
void view_keep_larger(struct view_pair *p, int64_t from, int64_t to, float w);
// Computes the statistics of a head from the sums over its rows. got[S]: the weight that each key
// receives from all rows, without special tokens.
void view_finish_stats(struct view_stats *out, const struct view_stack *v, int64_t layer,
                       const struct view_sums *k, const float *got);

#endif
