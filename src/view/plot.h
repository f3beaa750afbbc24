// SPDX-License-Identifier: MIT
// plot.h: what the files of plots share.
//
//   plot_read.c   logs to series         plot_axis.c   bins, ticks, numbers, the sentence
//   plot_draw.c   curves as SVG          plot_heads.c  entropies of heads as SVG
//   plot_file.c   the file around them   plot_terminal.c  the terminal picture
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

// ---- plot_draw.c, plot_heads.c -----------------------------------------------------------------
enum { PLOT_WIDTH = 960, PLOT_LEFT = 72, PLOT_RIGHT = 190 };
// The curves as SVG elements from y on; returns the y below them.  frame: where panels lie, as JSON
// for the page.
double plot_draw(struct view_text *t, struct view_text *frame, const struct qkv_plot *p, double y);
double plot_draw_heads(struct view_text *t, struct view_text *frame, const struct qkv_plot *p,
                       double y);

// ---- compiled in from web/ (tools/embed.cmake) --------------------------------------------------
extern const unsigned char view_plot_style[], view_plot_script[];
extern const unsigned int view_plot_style_size, view_plot_script_size;
extern const unsigned char view_plot_style_sha256[32], view_plot_script_sha256[32];
#endif
