// SPDX-License-Identifier: MIT
// training_chart.h: declares the functions that the files of training charts share.
//
//   training_log.c    logs to series          training_axis.c   bins, scales, the sentence
//   training_chart.c  curves as a chart       training_heads.c  entropies of heads
#ifndef QKV_VIEW_PLOT_H
#define QKV_VIEW_PLOT_H
#include <qkv/plot.h>
#include "view/chart/chart_internal.h"

enum training_kind {
    TRAINING_LOSS = 0,
    TRAINING_VALID,
    TRAINING_RATE,
    TRAINING_NORM,
    TRAINING_KINDS
};
struct training_point {
    int64_t step;
    double value; // finite
};
struct training_series {
    struct training_point *at; // [n] by ascending step
    int64_t n, capacity;
};
struct training_run {
    char *name;
    struct training_series series[TRAINING_KINDS];
    struct training_series *head; // [layers * heads] bits of entropy; from probes
    int64_t layers, heads, tokens;
};
struct qkv_plot {
    struct training_run *run; // [runs]
    int64_t runs, made;
    bool probes;
    int64_t first, last; // first and last step of all runs
};

// ---- training_axis.c ----------------------------------------------------------------------------
// Neighbouring points of a series joined to one: their mean, minimum and maximum, at their mean
// step.
struct training_bin {
    double step, mean, low, high;
};
enum { TRAINING_BINS = 360 };
// Joins the points of a series in each of at most `most` (<= TRAINING_BINS) equal sections of
// [first, last]. Returns the number of bins.
int training_bins(struct training_bin out[TRAINING_BINS], const struct training_series *s,
                  int64_t first, int64_t last, int most);
// Returns the scale for a quantity: its range over all runs, with a margin.
struct chart_scale training_scale_of(const struct qkv_plot *p, enum training_kind kind);
void training_sentence(struct view_text *t, const struct qkv_plot *p);
const char *training_question(const struct qkv_plot *p);

// ---- training_chart.c ---------------------------------------------------------------------------
// A chart together with the memory that it points to.
struct training_chart {
    struct qkv_chart chart;
    struct qkv_chart_panel panel[3];
    struct qkv_chart_table table;
    struct qkv_chart_line *line;
    int64_t lines;
    double *number;    // numbers of all lines: step, mean, minimum, maximum
    const char **cell; // texts of the cells of the table
    int64_t *place;    // offset of the text of each cell in `text`
    struct view_text text, sentence, names;
};
bool training_chart_make(struct training_chart *to, const struct qkv_plot *p); // false: no memory
void training_chart_free(struct training_chart *to);

// ---- training_heads.c ---------------------------------------------------------------------------
chart_drawing training_draw_heads; // of a struct qkv_plot
#endif
