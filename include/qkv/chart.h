// SPDX-License-Identifier: MIT
/** chart.h: numbers as a picture with a question above it and the finding in a sentence: lines,
 *  points, bars and grids of cells, in one panel or several.  SVG, PNG, one offline HTML file,
 *  terminal.
 *
 *      const struct qkv_chart_line cost = { .name = "attention", .x = n, .y = ms, .n = 8 };
 *      const struct qkv_chart_panel p = { .x = { .name = "tokens", .log = true },
 *                                         .y = { .name = "ms", .log = true }, .line = &cost,
 *                                         .lines = 1 };
 *      const struct qkv_chart c = { .title = "When does a window pay?", .sentence = found,
 *                                   .panel = &p, .panels = 1 };
 *      s = qkv_chart_file(&c, "cost.svg", false, NULL, &err);
 *
 *  Texts are UTF-8 and may hold anything; they, and all that a chart points at, are borrowed for
 *  the call.  In every structure zero is the default, and a NULL text is not drawn.
 */
#ifndef QKV_CHART_H
#define QKV_CHART_H

#include <qkv/view.h>

#ifdef __cplusplus
extern "C" {
#endif

/** One of a panel's two axes. */
struct qkv_chart_axis {
    const char *name;         /**< what is measured, with its unit */
    double low, high;         /**< ends of the axis; both 0: from the data, with room around */
    bool log;                 /**< by powers; what is not above 0 is left out */
    bool zero;                /**< from the data, and 0 is on it */
    const char *const *label; /**< [labels] names of the places 0, 1, 2, ...; NULL: numbers */
    int64_t labels;
};

enum qkv_chart_style {
    QKV_CHART_LINE = 0,
    QKV_CHART_STRONG, /**< a bold line with a dot at each of up to 60 points */
    QKV_CHART_THIN,
    QKV_CHART_DASHED,
    QKV_CHART_POINTS, /**< not joined */
    QKV_CHART_BARS,   /**< from 0, or from the foot of the axis when by powers */
    QKV_CHART_STYLES
};
enum { QKV_CHART_HUES = 16, QKV_CHART_QUIET = -1, QKV_CHART_RED = -2 };

/** One series of points, in order.  A y that is not a number is a gap. */
struct qkv_chart_line {
    const char *name;         /**< stands at its end */
    const double *x, *y;      /**< [n]; x NULL: 0, 1, 2, ... */
    const double *low, *high; /**< [n] a band around it; NULL: none */
    const char *const *text;  /**< [n] words beside each point; NULL: none */
    int64_t n;
    int hue; /**< 1..16: colour; 0: by its place among the lines; QUIET: grey; RED: special */
    enum qkv_chart_style style;
};

/** A rule across the panel, or a place in it. */
struct qkv_chart_mark {
    double x, y; /**< x NaN: a level rule at y; y NaN: an upright rule at x; else a dot */
    const char *text;
    int hue; /**< as of a line; 0: ink */
};

/** How a number becomes darkness. */
enum qkv_chart_ramp {
    QKV_CHART_LINEAR = 0, /**< from low to high */
    QKV_CHART_WEIGHTS,    /**< x^0.7 of 0..1, as weights are drawn everywhere; no low and high */
    QKV_CHART_SIGNED,     /**< two colours, + and -, from 0 to the larger of |low| and |high| */
    QKV_CHART_RAMPS
};

/** A table of numbers as cells. */
struct qkv_chart_grid {
    const float *value; /**< [rows][columns]; not a number: hatched, "masked" */
    int64_t rows, columns;
    const char *const *row_label, *const
                                      *column_label; /**< [rows], [columns]; NULL: their numbers */
    enum qkv_chart_ramp ramp;
    double low, high; /**< both 0: of the data */
    int digits;       /**< decimals of a number in its cell, where there is room; -1: no numbers */
};

/** Lines and marks, or a grid. */
struct qkv_chart_panel {
    const char *name, *note;           /**< above and below it */
    struct qkv_chart_axis x, y;        /**< of a grid: only the names */
    const struct qkv_chart_line *line; /**< [lines]; drawn in this order */
    int64_t lines;
    const struct qkv_chart_mark *mark; /**< [marks] */
    int64_t marks;
    const struct qkv_chart_grid *grid; /**< instead of lines */
    double height;                     /**< of the plotted field in pixels; 0: chosen */
};

/** Figures beside the picture in HTML, below it in the terminal; not in SVG and PNG. */
struct qkv_chart_table {
    const char *name;
    const char *const
        *cell; /**< [rows][columns]; the first row is the head; NULL cells are empty */
    int64_t rows, columns;
};

struct qkv_chart {
    const char *title;                   /**< the question */
    const char *sentence;                /**< the finding, with its numbers */
    const struct qkv_chart_panel *panel; /**< [panels] >= 1 */
    int64_t panels;
    int64_t across; /**< panels side by side; 0: 1, each as wide as the picture */
    bool same_x; /**< panels below each other share the x axis: it is drawn once, under the last */
    const struct qkv_chart_table *table; /**< NULL: none */
    const char *view, *subject;          /**< HTML's header: "Cost", "all-MiniLM-L6-v2" */
};

/** Zero is the default. */
struct qkv_chart_options {
    enum qkv_view_theme
        theme; /**< AUTO: the reader's system (SVG, HTML), light (PNG), dark (terminal) */
    // terminal only
    int columns;                 /**< width; 0: 80 */
    bool color, truecolor, utf8; /**< what the terminal can do */
};

/** One file, written whole or not at all, of the kind that its name ends with: .svg, .png (2 pixels
 *  a unit; text by the system's fonts), .html or .htm; /dev/stdout is SVG.  The same chart gives
 *  the same bytes (PNG: with the same fonts).  o may be NULL.
 *  Returns: QKV_OK; QKV_ERR_USAGE (another ending; exists, and not force; no panel; a size < 0; a
 *  NULL where numbers were announced); QKV_ERR_LIMIT (memory; a PNG over 32,767 pixels);
 *  QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_chart_file(const struct qkv_chart *c, const char *path,
                                                 bool force, const struct qkv_chart_options *o,
                                                 qkv_error *err);
/** The terminal picture; *out is freed with qkv_view_text_free.
 *  Returns: QKV_OK; QKV_ERR_USAGE (as above); QKV_ERR_LIMIT: *out is NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_chart_terminal(const struct qkv_chart *c, char **out,
                                                     const struct qkv_chart_options *o,
                                                     qkv_error *err);

#ifdef __cplusplus
}
#endif
#endif
