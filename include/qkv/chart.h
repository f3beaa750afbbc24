// SPDX-License-Identifier: MIT
/** chart.h: draws numbers as lines, points, bars or grids of cells in one or several panels, with a
 *  question as title and a sentence that states the finding.  The output is SVG, PNG, one offline
 *  HTML file or the terminal.
 *
 *      const struct qkv_chart_line cost = { .name = "attention", .x = n, .y = ms, .n = 8 };
 *      const struct qkv_chart_panel p = { .x = { .name = "tokens", .log = true },
 *                                         .y = { .name = "ms", .log = true }, .line = &cost,
 *                                         .lines = 1 };
 *      const struct qkv_chart c = { .title = "When does a window pay?", .sentence = found,
 *                                   .panel = &p, .panels = 1 };
 *      s = qkv_chart_file(&c, "cost.svg", false, NULL, &err);
 *
 *  Texts are UTF-8 with any contents.  The texts and arrays of a chart must remain valid during the
 *  call.  In every structure zero is the default, and a NULL text is not drawn.
 */
#ifndef QKV_CHART_H
#define QKV_CHART_H

#include <qkv/view.h>

QKV_BEGIN_DECLS

/** One of the two axes of a panel. */
struct qkv_chart_axis {
    const char *name; /**< name of the axis: the quantity with its unit */
    double low, high; /**< ends of the axis; both 0: the range of the data with a margin */
    bool log;         /**< logarithmic axis; values <= 0 are omitted */
    bool zero;        /**< extend the range of the data to include 0 */
    /** [labels] names of the positions 0, 1, 2, ...; NULL: the axis shows numbers */
    const char *const *label;
    int64_t labels;
};

enum qkv_chart_style {
    QKV_CHART_LINE = 0,
    QKV_CHART_STRONG, /**< a bold line with a dot at each of up to 60 points */
    QKV_CHART_THIN,
    QKV_CHART_DASHED,
    QKV_CHART_POINTS, /**< points that are not connected */
    QKV_CHART_BARS,   /**< bars from 0, or on a logarithmic axis from its lower end */
    QKV_CHART_ARROW,  /**< a bold line with an arrowhead at the end of each segment */
    QKV_CHART_STYLES
};
enum { QKV_CHART_HUES = 16, QKV_CHART_QUIET = -1, QKV_CHART_RED = -2 };

/** One series of points in order.  A point whose y is NaN or infinite leaves a gap. */
struct qkv_chart_line {
    const char *name; /**< label at the end of the line */
    /** [n] coordinates of the points; if x is NULL, it is 0, 1, 2, ... */
    const double *x, *y;
    const double *low, *high; /**< [n] bounds of a band around the line; NULL: no band */
    const char *const *text;  /**< [n] label next to each point; NULL: no labels */
    int64_t n;
    /** colour 1..16; 0: the colour follows from the index of the line; QKV_CHART_QUIET: grey;
     *  QKV_CHART_RED: the highlight colour */
    int hue;
    enum qkv_chart_style style;
};

/** A straight line across the panel, or a dot; in a panel with a grid, a frame around cells, which
 *  the terminal does not show. */
struct qkv_chart_mark {
    /** dot at (x, y); x NaN: horizontal line at y; y NaN: vertical line at x.  With a grid: column
     *  and row of the first cell in the frame */
    double x, y;
    const char *text;
    int hue;           /**< colour as in struct qkv_chart_line; 0: text colour */
    double wide, tall; /**< with a grid: columns and rows in the frame; 0 means 1 */
};

/** The mapping from the number of a grid cell to the darkness of the cell. */
enum qkv_chart_ramp {
    QKV_CHART_LINEAR = 0, /**< darkness proportional to the number between low and high */
    /** darkness x^0.7 for a number x in 0..1, as in all drawings of attention weights; low and high
     *  are ignored */
    QKV_CHART_WEIGHTS,
    QKV_CHART_SIGNED, /**< one colour for + and one for -, from 0 to max(|low|, |high|) */
    QKV_CHART_RAMPS
};

/** A table of numbers drawn as cells. */
struct qkv_chart_grid {
    /** [rows][columns] numbers; the cell of a NaN or infinite number is hatched, and -INFINITY is
     *  written into it as the other numbers are */
    const float *value;
    int64_t rows, columns;
    /** [rows] and [columns] labels; NULL: the index of the row or column */
    const char *const *row_label, *const *column_label;
    enum qkv_chart_ramp ramp;
    double low, high; /**< range of the values; both 0: the range of the data */
    /** decimals of the number that is written into a cell with enough space; -1: no numbers */
    int digits;
};

/** A panel with lines and marks, or with a grid. */
struct qkv_chart_panel {
    const char *name, *note;           /**< title above and note below the panel */
    struct qkv_chart_axis x, y;        /**< axes; with a grid only the names are used */
    const struct qkv_chart_line *line; /**< [lines] drawn in this order */
    int64_t lines;
    const struct qkv_chart_mark *mark; /**< [marks] lines and dots drawn over the panel */
    int64_t marks;
    /** grid that is drawn instead of lines and marks; NULL: lines and marks are drawn */
    const struct qkv_chart_grid *grid;
    double height; /**< height of the plotting area in pixels; 0: automatic */
    bool equal;    /**< one unit of x is as long as one of y: an axis shows more than the data */
};

/** A table of texts, shown next to the chart in HTML and below it in the terminal, and omitted in
 *  SVG and PNG. */
struct qkv_chart_table {
    const char *name;
    /** [rows][columns] texts; the first row is the header; NULL cells are empty */
    const char *const *cell;
    int64_t rows, columns;
};

struct qkv_chart {
    const char *title;    /**< title: the question that the chart answers */
    const char *sentence; /**< sentence that states the finding with its numbers */
    /** [panels] the panels, at least one; the terminal also shows a table alone */
    const struct qkv_chart_panel *panel;
    int64_t panels;
    /** number of panels in one row of panels; 0: one panel, as wide as the picture */
    int64_t across;
    bool same_x; /**< stacked panels share the x axis, which is drawn once below the last */
    const struct qkv_chart_table *table; /**< table to show; NULL: no table */
    /** two texts of the HTML header: the kind of chart, such as "Cost", and its subject, such as
     *  "all-MiniLM-L6-v2" */
    const char *view, *subject;
};

/** Options of the output; zero is the default. */
struct qkv_chart_options {
    /** colours; AUTO means the theme of the reader's system in SVG and HTML, light in PNG, dark in
     *  the terminal */
    enum qkv_view_theme theme;
    // members for the terminal only
    int columns;                 /**< width in characters; 0: 80 */
    bool color, truecolor, utf8; /**< capabilities of the terminal */
};

/** Writes one file, completely or not at all, in the format given by the ending of path: .svg, .png
 *  (2 pixels per unit; text in the system's fonts), .html or .htm; the format of /dev/stdout is
 *  SVG.  Equal charts give equal bytes (PNG: with the same fonts).  o may be NULL.
 *  PNG is painted in the calling process by libraries that may end it if memory runs out: see
 *  <qkv/picture.h>.
 *  Returns: QKV_OK; QKV_ERR_USAGE (unknown ending; the file exists and force is false; no panel; a
 *           size < 0; a NULL array whose count is above 0); QKV_ERR_LIMIT (memory; a PNG over
 *           32,767 pixels); QKV_ERR_IO. */
QKV_API QKV_MUST_CHECK qkv_status qkv_chart_file(const struct qkv_chart *c, const char *path,
                                                 bool force, const struct qkv_chart_options *o,
                                                 qkv_error *err);
/** Renders the chart for the terminal; the caller frees *out with qkv_view_text_free.
 *  Returns: QKV_OK; QKV_ERR_USAGE (as qkv_chart_file); QKV_ERR_LIMIT.  After an error *out is
 *           NULL. */
QKV_API QKV_MUST_CHECK qkv_status qkv_chart_terminal(const struct qkv_chart *c, char **out,
                                                     const struct qkv_chart_options *o,
                                                     qkv_error *err);

enum { QKV_WEIGHT_BYTES = 48 }; /**< size of the text of a weight */
/** Writes an attention weight as every page, picture and terminal drawing prints it: rounded to
 *  `digits` decimals (0 to 17), without the 0 before the point: ".640", "1.000".  NaN and infinity
 *  are "!", a weight below 0 is 0.  The decimal point does not depend on the locale.
 *  Returns out, which the caller provides. */
QKV_API const char *qkv_weight_text(char out[QKV_WEIGHT_BYTES], double w, int digits);

QKV_END_DECLS
#endif
