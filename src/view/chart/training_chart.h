// SPDX-License-Identifier: MIT
// training_chart.h: declares the functions that the files of training charts share:
//
//   training_log.c    series from log files   training_axis.c   bins, scales, the sentence
//   training_chart.c  curves as a chart       training_heads.c  entropy of every head
#ifndef QKV_VIEW_TRAINING_CHART_H
#define QKV_VIEW_TRAINING_CHART_H
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
    struct training_point *at; // [n] points in the order of their steps
    int64_t n, capacity;
};
struct training_run {
    char *name;
    struct training_series series[TRAINING_KINDS];
    // [layers * heads] entropy of each head in bits, from probes.jsonl
    struct training_series *head;
    int64_t layers, heads, tokens;
};
struct qkv_plot {
    struct training_run *run; // [runs]
    int64_t runs, made;
    bool probes;
    int64_t first, last; // first and last step that occurs in any run
};

// ---- training_axis.c ----------------------------------------------------------------------------
// A bin joins neighbouring points of a series to one point: their mean step, and the mean, minimum
// and maximum of their values.
struct training_bin {
    double step, mean, low, high;
};
enum { TRAINING_BINS = 360 };
// Divides [first, last] into `most` (<= TRAINING_BINS) equal sections, and joins the points of each
// section to one bin. Returns the number of bins.
int training_bins(struct training_bin out[TRAINING_BINS], const struct training_series *s,
                  int64_t first, int64_t last, int most);
// Returns the scale for a quantity. It covers the values of all runs, with a margin.
struct chart_scale training_scale_of(const struct qkv_plot *p, enum training_kind kind);
void training_sentence(struct view_text *t, const struct qkv_plot *p);
const char *training_question(const struct qkv_plot *p);

// ---- training_chart.c ---------------------------------------------------------------------------
// A chart, together with the memory to which it points.
struct training_chart {
    struct qkv_chart chart;
    struct qkv_chart_panel panel[3];
    struct qkv_chart_table table;
    struct qkv_chart_line *line;
    int64_t lines;
    double *number;    // the numbers of all lines: steps, means, minima, maxima
    const char **cell; // text of each cell of the table
    int64_t *place;    // offset in `text` of each cell
    struct view_text text, sentence, names;
};
bool training_chart_make(struct training_chart *to, const struct qkv_plot *p); // false: no memory
void training_chart_free(struct training_chart *to);

// ---- training_heads.c ---------------------------------------------------------------------------
chart_drawing training_draw_heads; // draws a struct qkv_plot
#endif
