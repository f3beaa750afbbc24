// SPDX-License-Identifier: MIT
// plot.h: what the files of plots share.
//
//   plot_read.c   logs to series          plot_axis.c   bins, scales, the sentence
//   plot_chart.c  curves as a chart       plot_heads.c  entropies of heads
#ifndef QKV_VIEW_PLOT_H
#define QKV_VIEW_PLOT_H
#include <qkv/plot.h>
#include "view/chart.h"

enum plot_kind { PLOT_LOSS = 0, PLOT_VALID, PLOT_RATE, PLOT_NORM, PLOT_KINDS };
struct plot_point {
    int64_t step;
    double value; // finite
};
struct plot_series {
    struct plot_point *at; // [n] by ascending step
    int64_t n, room;
};
struct plot_run {
    char *name;
    struct plot_series series[PLOT_KINDS];
    struct plot_series *head; // [layers * heads] bits of entropy; of probes
    int64_t layers, heads, tokens;
};
struct qkv_plot {
    struct plot_run *run; // [runs]
    int64_t runs, made;
    bool probes;
    int64_t first, last; // steps
};

// ---- plot_axis.c -------------------------------------------------------------------------------
// Neighbouring points as one: mean, least and largest value, at the mean step.
struct plot_bin {
    double step, mean, low, high;
};
enum { PLOT_BINS = 360 };
// The series over at most `most` (<= PLOT_BINS) equal parts of [first, last]; returns bins filled.
int plot_bins(struct plot_bin out[PLOT_BINS], const struct plot_series *s, int64_t first,
              int64_t last, int most);
// Widest and narrowest of a kind over all runs, with room around.
struct chart_scale plot_scale_of(const struct qkv_plot *p, enum plot_kind kind);
void plot_sentence(struct view_text *t, const struct qkv_plot *p);
const char *plot_question(const struct qkv_plot *p);

// ---- plot_chart.c ------------------------------------------------------------------------------
// A chart and all that it points at.
struct plot_picture {
    struct qkv_chart chart;
    struct qkv_chart_panel panel[3];
    struct qkv_chart_table table;
    struct qkv_chart_line *line;
    int64_t lines;
    double *number;    // of all lines: step, mean, least, largest
    const char **cell; // of the table
    int64_t *place;    // in text, of each cell
    struct view_text text, sentence, names;
};
bool plot_picture_make(struct plot_picture *to, const struct qkv_plot *p); // false: no memory
void plot_picture_free(struct plot_picture *to);

// ---- plot_heads.c ------------------------------------------------------------------------------
chart_drawing plot_draw_heads; // of a struct qkv_plot
#endif
