// SPDX-License-Identifier: MIT
// canvas.h: declares the canvas that charts and pictures of attention are drawn on.  It is a list
// of drawing operations, which is written as SVG (text as text, colours as classes, both themes) or
// as PNG (by cairo).
//
//   canvas.c      the list, widths of text      palette.c     the palette
//   canvas_svg.c  the list as SVG               canvas_png.c  the list as pixels
//
// Lengths are pixels of the page at zoom 1; y grows downwards. After a failed allocation nothing
// more is drawn and `failed` is set; the function that writes the canvas reports it.
#ifndef QKV_VIEW_SHEET_H
#define QKV_VIEW_SHEET_H
#include "view/format_text.h"

// ---- colours: indices into the palette, independent of the theme --------------------------------
enum {
    PALETTE_STEPS = 64, // number of steps of the ramp for weights
    PALETTE_TONES = 32, // number of tones for values of one sign
    PALETTE_NONE = 0,
    PALETTE_PAPER,
    PALETTE_PANEL,
    PALETTE_CHIP,
    PALETTE_TEXT,
    PALETTE_TEXT2,
    PALETTE_TEXT3,
    PALETTE_RULE,
    PALETTE_MARK, // the marked token
    PALETTE_POS,
    PALETTE_NEG,
    PALETTE_HOT,                                     // an ablation effect
    PALETTE_SOLE,                                    // links of a single head
    PALETTE_HEAD,                                    // + 0..15: head or line
    PALETTE_RAMP = PALETTE_HEAD + 16,                // + 0..STEPS: darkness
    PALETTE_PLUS = PALETTE_RAMP + PALETTE_STEPS + 1, // + 0..TONES: paper to POS
    PALETTE_MINUS = PALETTE_PLUS + PALETTE_TONES + 1,
    // Text on a colour of the ramp: PALETTE_OVER + (colour - PALETTE_RAMP) contrasts with that
    // colour
    PALETTE_OVER = PALETTE_MINUS + PALETTE_TONES + 1,
    PALETTE_COLORS = PALETTE_OVER + PALETTE_OVER - PALETTE_RAMP
};
uint32_t palette_rgb(int color, bool dark);
int palette_ramp(double darkness); // darkness 0..1 as RAMP + 0..STEPS; NaN: the lightest colour
int palette_weight(double w);      // colour of weight w: darkness w^0.7
int palette_signed(double x);      // value -1..1 as a colour of PLUS or MINUS
int palette_over(int color);       // colour of text on a colour of RAMP, PLUS or MINUS
extern const uint32_t view_ramp_rgb[2][9], view_heads_rgb[2][16]; // [0] light, [1] dark

// ---- operations --------------------------------------------------------------------------------
enum { // style of a text; default: sans, horizontal, from its left end
    CANVAS_SERIF = 1,
    CANVAS_BOLD = 2,
    CANVAS_ITALIC = 4,
    CANVAS_MIDDLE = 8,
    CANVAS_END = 16,
    CANVAS_TILT = 32, // rotated, for column headings
    CANVAS_UP = 64,   // vertical, for a y axis
    CANVAS_AFTER =
        128, // continues after the preceding text with a small space; x and y are ignored
};
enum canvas_kind {
    CANVAS_BOX,
    CANVAS_PATH,
    CANVAS_LINK,
    CANVAS_DOT,
    CANVAS_TEXT,
    CANVAS_CELLS,
    CANVAS_HATCH
};
struct canvas_point {
    float x, y;
    char verb; // M, L, Z; C: the first of three points of a curve, c: the others
};
struct canvas_op {
    enum canvas_kind kind;
    int16_t fill, stroke;
    uint16_t how, size;      // style and size of a text
    float width, opacity;    // width of the stroke; opacity (link: its t)
    double x, y, w, h, turn; // box; dot: w is its radius; text: its start
    int64_t at, n, columns;  // points, bytes of text, or cells
};
struct canvas {
    double width, height;
    struct view_text title, sentence, text;
    struct canvas_op *op;
    int64_t ops, op_capacity;
    struct canvas_point *point;
    int64_t points, point_capacity;
    uint8_t *cell; // colours of cells: color - RAMP; 255: empty
    int64_t cells, cell_capacity;
    int64_t open; // the operation of the current path; -1: none
    bool failed;
};
enum { CANVAS_BLANK = 255 };

// Begins a canvas. title: the question; sentence: the text for readers who do not see the picture.
// The caller sets the height after drawing.
void canvas_new(struct canvas *s, double width, const char *title, const char *sentence);
void canvas_free(struct canvas *s);
bool canvas_failed(const struct canvas *s);

// Shapes without a path. fill or stroke NONE: the shape is not filled, or has no outline; width: of
// its stroke.
void canvas_box(struct canvas *s, double x, double y, double w, double h, int fill);
void canvas_frame(struct canvas *s, double x, double y, double w, double h, int stroke,
                  double width);
void canvas_line(struct canvas *s, double x1, double y1, double x2, double y2, int color,
                 double width);
void canvas_dot(struct canvas *s, double x, double y, double radius, int fill, int stroke,
                double width);
void canvas_hatch(struct canvas *s, double x, double y, double w, double h);
// Begins a path. fill or stroke NONE: the path is not filled, or not stroked.
void canvas_path(struct canvas *s, int fill, int stroke, double width, double opacity);
void canvas_dashed(struct canvas *s); // dashes the path that was begun last
void canvas_move_to(struct canvas *s, double x, double y);
void canvas_line_to(struct canvas *s, double x, double y);
void canvas_curve(struct canvas *s, double x1, double y1, double x2, double y2, double x, double y);
void canvas_close(struct canvas *s);
// Draws a link from a query to a key. t in 0..1 (how far its weight exceeds the threshold)
// determines darkness and width. pale: draws it fainter, because another row is marked.
void canvas_link(struct canvas *s, double x1, double y1, double x2, double y2, int color, double t,
                 bool pale);
// Draws a grid of cells of size w x h, separated by `gap`, and copies color[rows][columns]: colours
// minus PALETTE_RAMP, or CANVAS_BLANK for an empty cell.
void canvas_cells(struct canvas *s, double x, double y, double w, double h, double gap,
                  const uint8_t *color, int64_t rows, int64_t columns);

// Draws text[n]. Invalid UTF-8 is replaced, and control characters are made visible.
void canvas_text(struct canvas *s, double x, double y, int size, unsigned how, int color,
                 const char *text, size_t n);
void canvas_format(struct canvas *s, double x, double y, int size, unsigned how, int color,
                   const char *format, ...) __attribute__((format(printf, 7, 8)));
// Draws text[n]; a text wider than `width` is cut and ends with "…".
void canvas_cut(struct canvas *s, double x, double y, int size, unsigned how, int color,
                const char *text, size_t n, double width);
// Draws a text in lines of at most `width`. Returns the baseline after the last line.
double canvas_fold(struct canvas *s, double x, double y, double width, int size, unsigned how,
                   int color, const char *text, double leading);
// Estimates the width of a text, since fonts differ between machines.
double canvas_width(const char *text, size_t n, int size, unsigned how);

// Draws the parts that all pictures have: background, question, sentence. left: width of the
// margin. Returns the y coordinate below them.
double canvas_head(struct canvas *s, double left);

// ---- output ------------------------------------------------------------------------------------
// Writes a canvas as an SVG file.
void canvas_svg(struct view_text *t, const struct canvas *s, enum qkv_view_theme theme);
// Writes the svg element for a page, with this id but without its style.
void canvas_svg_inner(struct view_text *t, const struct canvas *s, const char *id);
// Writes the style of that element, which depends on [data-theme] of the root element of the page.
void canvas_page_style(struct view_text *t, const struct canvas *s);
// Writes a canvas as PNG, which also contains title and sentence. QKV_ERR_LIMIT: memory is too
// small, or a side has more than 32,767 pixels.
enum { CANVAS_SCALE = 2 };
qkv_status canvas_png(struct view_text *t, const struct canvas *s, enum qkv_view_theme theme,
                      qkv_error *err);
// Returns whether a file name ends with .svg or .png, or is standard output, which gets SVG.
bool canvas_is_picture_name(const char *path);
// Writes the picture to a file, completely or not at all; the ending of the name selects the
// format.
qkv_status canvas_file(const struct canvas *s, const char *path, bool force,
                       enum qkv_view_theme theme, qkv_error *err);
bool view_ends_with(const char *path, const char *end);

// Opacity and width of a link whose t is one of CANVAS_LINKS steps.
enum { CANVAS_LINKS = 32 };
double canvas_link_opacity(double t, bool dark, bool pale);
double canvas_link_width(double t);
#endif
