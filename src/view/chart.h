// SPDX-License-Identifier: MIT
// chart.h: what the files of charts share.
//
//   chart_axis.c  scales, ticks, numbers    chart_draw.c      lines on a sheet
//   chart_grid.c  cells on a sheet          chart_terminal.c  the terminal picture
//   chart_file.c  SVG, PNG, the page around
#ifndef QKV_VIEW_CHART_H
#define QKV_VIEW_CHART_H
#include <qkv/chart.h>
#include "view/screen.h"
#include "view/sheet.h"

// ---- chart_axis.c ------------------------------------------------------------------------------
// A scale: values to [0, 1].  log: by powers.
struct chart_scale {
    double low, high;
    bool log;
};
double chart_place(const struct chart_scale *s, double value);
enum { CHART_TICKS = 12 };
int chart_ticks(double out[CHART_TICKS], const struct chart_scale *s, int about);
// As short as it can be told apart: "1.53", "3.0e-4", "12,000".
void chart_number(struct view_text *t, double x);
void chart_words(struct view_text *t, double x); // the same with a minus for people
void chart_json(struct view_text *t, double x);  // seven digits, in any locale

static inline double chart_x(const struct qkv_chart_line *l, int64_t i)
{
    return l->x ? l->x[i] : (double)i;
}
struct chart_scale chart_scale_x(const struct qkv_chart_panel *p);
struct chart_scale chart_scale_y(const struct qkv_chart_panel *p);
// Whether a number has a place on the axis.
bool chart_on(const struct chart_scale *s, double value);
// The x axis of all panels where they share one.
struct chart_scale chart_shared_x(const struct qkv_chart *c);
// Ends of a grid's ramp.
void chart_grid_ends(double *low, double *high, const struct qkv_chart_grid *g);
double chart_darkness(const struct qkv_chart_grid *g, double low, double high, double value);
// QKV_ERR_USAGE: something that is announced is not there.
qkv_status chart_check(const struct qkv_chart *c, qkv_error *err);
int chart_ink(int hue, int64_t place); // of sheet.h; place: among the lines

// ---- chart_draw.c, chart_grid.c -----------------------------------------------------------------
enum { CHART_WIDTH = 1008, CHART_MARGIN = 24 };
// Where a panel's numbers lie, on the sheet.
struct chart_field {
    const struct qkv_chart_panel *panel;
    struct chart_scale x, y;
    double left, right, top, bottom;
    double label; // room for names at the ends of lines
    bool axis;    // the x axis is drawn
};
// All panels, from y on; returns the y below.  frame (NULL: not wanted): where numbers lie, as JSON for
// the page.  head: title and sentence above.
void chart_draw(struct sheet *s, const struct qkv_chart *c, bool head, struct view_text *frame);
// A panel's name, and what is measured behind it.
void chart_name(struct sheet *s, const char *name, const char *more, double left, double width,
                double y);
// A grid's panel in the column that begins at left; returns the y below.
double chart_draw_grid(struct sheet *s, const struct qkv_chart_panel *p, double left, double width,
                       double y, struct view_text *frame);

// ---- chart_file.c ------------------------------------------------------------------------------
// A file of the kind its name ends with, around what draws `of`; arguments as of chart_draw.
typedef void chart_drawing(struct sheet *s, const void *of, bool head, struct view_text *frame);
qkv_status chart_write(const struct qkv_chart *c, chart_drawing *draw, const void *of,
                       const char *path, bool force, enum qkv_view_theme theme, qkv_error *err);

// ---- chart_terminal.c --------------------------------------------------------------------------
struct screen chart_screen(const struct qkv_chart_options *o);
void chart_put_finding(struct screen *s, const struct qkv_chart *c); // title and sentence
// y[n] over x as bars of eighths in `columns` columns, least to largest of the scale.
void chart_sparks(struct screen *s, const double *x, const double *y, int64_t n,
                  const struct chart_scale *across, const struct chart_scale *up, int columns);

// ---- compiled in from web/ (tools/embed.cmake) --------------------------------------------------
extern const unsigned char view_chart_style[], view_chart_script[];
extern const unsigned int view_chart_style_size, view_chart_script_size;
extern const unsigned char view_chart_script_sha256[32], view_chart_style_sha256[32];
#endif
