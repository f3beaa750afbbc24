// SPDX-License-Identifier: MIT
// chart_internal.h: declares the functions that the files of this folder share:
//
//   chart_axis.c  scales, ticks, numbers    chart_draw.c      lines on a canvas
//   chart_grid.c  cells on a canvas         chart_terminal.c  the terminal picture
//   chart_text.c  texts of lines, marks     chart_file.c      SVG, PNG and HTML files
#ifndef QKV_VIEW_CHART_INTERNAL_H
#define QKV_VIEW_CHART_INTERNAL_H
#include <qkv/chart.h>
#include "view/canvas/text_canvas.h"
#include "view/canvas/canvas.h"

// ---- chart_axis.c -------------------------------------------------------------------------------
// A scale maps the values low .. high of an axis to 0 .. 1, linearly or, if `log`, logarithmically.
struct chart_scale {
    double low, high;
    bool log;
};
double chart_position(const struct chart_scale *s, double value);
enum { CHART_TICKS = 12 };
int chart_ticks(double out[CHART_TICKS], const struct chart_scale *s, int about);
// Writes a number as short as possible: "1.53", "3.0e-4", "12,000".
void chart_number(struct view_text *t, double x);
void chart_number_text(struct view_text *t, double x); // writes the same with the minus sign U+2212
// writes seven digits and a decimal point, whatever the locale
void chart_json(struct view_text *t, double x);

static inline double chart_x(const struct qkv_chart_line *l, int64_t i)
{
    return l->x ? l->x[i] : (double)i;
}
// Returns the last finite y of a line; NAN: the line has none.
double chart_last_value(const struct qkv_chart_line *l);
struct chart_scale chart_scale_x(const struct qkv_chart_panel *p);
struct chart_scale chart_scale_y(const struct qkv_chart_panel *p);
// Extends one of two linear scales so that one unit of x is as long as one of y, in an area of the
// given width and height.
void chart_equal(struct chart_scale *x, struct chart_scale *y, double wide, double tall);
// Returns true if the value has a position on the axis: it is finite, and positive if the axis is
// logarithmic.
bool chart_is_on_axis(const struct chart_scale *s, double value);
// Returns the scale of the x axis that all panels of the chart share.
struct chart_scale chart_shared_x(const struct qkv_chart *c);
// Computes the values that have the lightest and the darkest colour in a grid.
void chart_grid_ends(double *low, double *high, const struct qkv_chart_grid *g);
double chart_darkness(const struct qkv_chart_grid *g, double low, double high, double value);
// Checks a chart. Returns QKV_ERR_USAGE if an array is NULL although its length is not 0, or if
// there is no panel; table_alone: a table is enough.
qkv_status chart_check(const struct qkv_chart *c, bool table_alone, qkv_error *err);
int chart_color(int hue, int64_t place); // returns a colour of canvas.h; place: index of the line

// ---- chart_draw.c, chart_text.c, chart_grid.c ---------------------------------------------------
// TILTED: the distance between rotated names of 11 units, so that no letter touches another name
enum { CHART_WIDTH = 1008, CHART_MARGIN = 24, CHART_TILTED = 16 };
// What the script of the page needs about a drawing, as JSON: an object for each panel.
struct chart_frame {
    struct view_text text;
    bool only_places; // true: numbers and names are in the frame of another drawing of this chart
};
// The area of a panel in which its numbers are drawn: the scales and the edges of the area.
struct chart_field {
    const struct qkv_chart_panel *panel;
    struct chart_scale x, y;
    double left, right, top, bottom;
    double edge;  // left edge of the panel, where the numbers or names of the y axis begin
    double label; // width of the space to the right, for the names of lines
    bool axis;    // true: the x axis is drawn below this panel
};
static inline double chart_px(const struct chart_field *f, double x)
{
    return f->left + (f->right - f->left) * chart_position(&f->x, x);
}
static inline double chart_py(const struct chart_field *f, double y)
{
    return f->bottom - (f->bottom - f->top) * chart_position(&f->y, y);
}
static inline bool chart_has_place(const struct chart_field *f, double x, double y)
{
    return chart_is_on_axis(&f->x, x) && chart_is_on_axis(&f->y, y);
}
// Returns the width of the space to the right of a panel that the names of its lines need.
double chart_label_width(struct canvas *s, const struct qkv_chart_panel *p);
void chart_draw_texts(struct canvas *s, const struct chart_field *f);
void chart_draw_number(struct canvas *s, double x, double y, unsigned how, int color, int size,
                       double value);
// Draws all panels of a chart. head: draw title and sentence above them. frame: receives the
// positions of the numbers, for the page; NULL: they are not needed. On a narrow canvas fewer
// panels are next to each other.
void chart_draw(struct canvas *s, const struct qkv_chart *c, bool head, struct chart_frame *frame);
// Draws the name of a panel and, after it or on the next line, the quantity that the panel shows
// (`more`). Returns the y coordinate of the last line.
double chart_name(struct canvas *s, const char *name, const char *more, double left, double width,
                  double y);
// Returns the number of lines that chart_name() draws.
int chart_name_lines(const struct canvas *s, const char *name, const char *more, double width);
// Writes the names of the axes of a grid.
void chart_grid_axes(struct view_text *t, const struct qkv_chart_panel *p);
// Draws a panel with a grid, `width` wide from x = left. Returns the y coordinate below the panel.
double chart_draw_grid(struct canvas *s, const struct qkv_chart_panel *p, double left, double width,
                       double y, struct chart_frame *frame);

// ---- chart_file.c -------------------------------------------------------------------------------
// A function that draws `of`, a chart or another type, on a canvas. head and frame: as in
// chart_draw().
typedef void chart_drawing(struct canvas *s, const void *of, bool head, struct chart_frame *frame);
// Calls `draw` to draw `of`, and writes the drawing to a file, with the title, sentence and table
// of the chart c. The ending of `path` selects SVG, PNG or HTML.
qkv_status chart_write(const struct qkv_chart *c, chart_drawing *draw, const void *of,
                       const char *path, bool force, enum qkv_view_theme theme, qkv_error *err);

// ---- chart_minus.c ------------------------------------------------------------------------------
// A chart whose title, sentence, and names and notes of panels have minus signs.
struct chart_minus {
    struct qkv_chart chart;
    struct view_text *text; // [texts] the texts that differ
    int64_t texts;
    struct qkv_chart_panel *panel;
};
qkv_status chart_minus(struct chart_minus *m, const struct qkv_chart *c, qkv_error *err);
void chart_minus_free(struct chart_minus *m);

// ---- chart_terminal.c ---------------------------------------------------------------------------
struct text_canvas chart_text_canvas(const struct qkv_chart_options *o);
// Writes the title and the sentence of a chart.
void chart_put_finding(struct text_canvas *s, const struct qkv_chart *c);
// Writes y[n] over x[n] as a row of small bars in `columns` columns. A bar has 8 heights, from the
// minimum to the maximum of the scale `up`.
void chart_sparks(struct text_canvas *s, const double *x, const double *y, int64_t n,
                  const struct chart_scale *across, const struct chart_scale *up, int columns);

// ---- style and script of the page, compiled in from web/ by tools/embed.cmake ------------------
extern const unsigned char view_chart_style[], view_chart_script[];
extern const unsigned int view_chart_style_size, view_chart_script_size;
extern const unsigned char view_chart_script_sha256[32], view_chart_style_sha256[32];
#endif
