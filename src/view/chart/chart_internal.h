// SPDX-License-Identifier: MIT
// chart_internal.h: declares the functions that the files of charts share.
//
//   chart_axis.c  scales, ticks, numbers    chart_draw.c      lines on a canvas
//   chart_grid.c  cells on a canvas         chart_terminal.c  the terminal picture
//   chart_file.c  SVG, PNG, the page
#ifndef QKV_VIEW_CHART_H
#define QKV_VIEW_CHART_H
#include <qkv/chart.h>
#include "view/canvas/text_canvas.h"
#include "view/canvas/canvas.h"

// ---- chart_axis.c -------------------------------------------------------------------------------
// A scale maps values in [low, high] to [0, 1]; log: logarithmically.
struct chart_scale {
    double low, high;
    bool log;
};
double chart_position(const struct chart_scale *s, double value);
enum { CHART_TICKS = 12 };
int chart_ticks(double out[CHART_TICKS], const struct chart_scale *s, int about);
// Writes a number as short as possible: "1.53", "3.0e-4", "12,000".
void chart_number(struct view_text *t, double x);
void chart_number_text(struct view_text *t, double x); // the same with U+2212 as minus
void chart_json(struct view_text *t, double x);        // writes seven digits, in any locale

static inline double chart_x(const struct qkv_chart_line *l, int64_t i)
{
    return l->x ? l->x[i] : (double)i;
}
struct chart_scale chart_scale_x(const struct qkv_chart_panel *p);
struct chart_scale chart_scale_y(const struct qkv_chart_panel *p);
// Returns whether a number has a position on the axis.
bool chart_is_on_axis(const struct chart_scale *s, double value);
// Returns the x axis that all panels share, if they share one.
struct chart_scale chart_shared_x(const struct qkv_chart *c);
// Computes the values at the two ends of the ramp of a grid.
void chart_grid_ends(double *low, double *high, const struct qkv_chart_grid *g);
double chart_darkness(const struct qkv_chart_grid *g, double low, double high, double value);
// Checks a chart; QKV_ERR_USAGE: data that it announces is missing.
qkv_status chart_check(const struct qkv_chart *c, qkv_error *err);
int chart_color(int hue, int64_t place); // colour of canvas.h; place: index of the line

// ---- chart_draw.c, chart_grid.c -----------------------------------------------------------------
enum { CHART_WIDTH = 1008, CHART_MARGIN = 24 };
// Where the numbers of a panel are on the canvas: the scales and the edges of the field.
struct chart_field {
    const struct qkv_chart_panel *panel;
    struct chart_scale x, y;
    double left, right, top, bottom;
    double label; // width of the space for names at the ends of lines
    bool axis;    // the x axis is drawn
};
// Draws all panels of a chart. head: also draws title and sentence above. frame: gets the positions
// of the numbers as JSON for the page; NULL: not needed.
void chart_draw(struct canvas *s, const struct qkv_chart *c, bool head, struct view_text *frame);
// Draws the name of a panel, followed by its quantity (`more`).
void chart_name(struct canvas *s, const char *name, const char *more, double left, double width,
                double y);
// Draws the panel of a grid in the column that begins at `left`. Returns the y coordinate below it.
double chart_draw_grid(struct canvas *s, const struct qkv_chart_panel *p, double left, double width,
                       double y, struct view_text *frame);

// ---- chart_file.c -------------------------------------------------------------------------------
// Draws `of` on a canvas; head and frame as in chart_draw.
typedef void chart_drawing(struct canvas *s, const void *of, bool head, struct view_text *frame);
// Writes a chart, drawn by draw(of), to a file; the ending of `path` selects SVG, PNG or HTML.
qkv_status chart_write(const struct qkv_chart *c, chart_drawing *draw, const void *of,
                       const char *path, bool force, enum qkv_view_theme theme, qkv_error *err);

// ---- chart_terminal.c ---------------------------------------------------------------------------
struct text_canvas chart_text_canvas(const struct qkv_chart_options *o);
// Writes title and sentence
void chart_put_finding(struct text_canvas *s, const struct qkv_chart *c);
// Writes y[n] over x as a row of bars in `columns` columns, in eighths of a line from the minimum
// to the maximum of scale `up`.
void chart_sparks(struct text_canvas *s, const double *x, const double *y, int64_t n,
                  const struct chart_scale *across, const struct chart_scale *up, int columns);

// ---- compiled in from web/ (tools/embed.cmake) --------------------------------------------------
extern const unsigned char view_chart_style[], view_chart_script[];
extern const unsigned int view_chart_style_size, view_chart_script_size;
extern const unsigned char view_chart_script_sha256[32], view_chart_style_sha256[32];
#endif
