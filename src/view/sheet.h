// SPDX-License-Identifier: MIT
// sheet.h: the one surface that charts and pictures of attention are drawn on: what is drawn is kept
// as a list, which becomes SVG (text as text, colours as classes, both themes) or PNG (cairo).
//
//   sheet.c      the list, widths of text      sheet_ink.c  the palette
//   sheet_svg.c  the list as SVG               sheet_png.c  the list as pixels
//
// Lengths are pixels of the page at zoom 1, y grows downwards.  After a failed allocation nothing
// more is drawn, `failed` says so, and whoever writes the sheet reports it.
#ifndef QKV_VIEW_SHEET_H
#define QKV_VIEW_SHEET_H
#include "view/view.h"

// ---- inks: a colour of the palette, not of a theme ----------------------------------------------
enum {
    SHEET_STEPS = 64, // of the weight ramp
    SHEET_TONES = 32, // of one sign
    SHEET_NONE = 0,
    SHEET_PAPER,
    SHEET_PANEL,
    SHEET_CHIP,
    SHEET_INK,
    SHEET_INK2,
    SHEET_INK3,
    SHEET_RULE,
    SHEET_MARK, // what is pointed at
    SHEET_POS,
    SHEET_NEG,
    SHEET_HOT,                                 // the effect of removing something
    SHEET_SOLE,                                // links of the only head
    SHEET_HEAD,                                // + 0..15: which head, which line
    SHEET_RAMP = SHEET_HEAD + 16,              // + 0..STEPS: darkness
    SHEET_PLUS = SHEET_RAMP + SHEET_STEPS + 1, // + 0..TONES: paper to POS
    SHEET_MINUS = SHEET_PLUS + SHEET_TONES + 1,
    SHEET_OVER = SHEET_MINUS + SHEET_TONES + 1, // + ink - RAMP: what can be read on a ramp's ink
    SHEET_INKS = SHEET_OVER + SHEET_OVER - SHEET_RAMP
};
uint32_t sheet_rgb(int ink, bool dark);
int sheet_ramp(double darkness); // 0..1 to RAMP + 0..STEPS; NaN: the lightest
int sheet_weight(double w);      // darkness w^0.7
int sheet_signed(double x);      // -1..1 to PLUS or MINUS
int sheet_over(int ink);         // of RAMP, PLUS and MINUS
extern const uint32_t view_ramp_rgb[2][9], view_heads_rgb[2][16]; // [0] light, [1] dark

// ---- what is drawn -------------------------------------------------------------------------------
enum { // how a text stands; sans, upright, from its left end on
    SHEET_SERIF = 1,
    SHEET_BOLD = 2,
    SHEET_ITALIC = 4,
    SHEET_MIDDLE = 8,
    SHEET_END = 16,
    SHEET_TILT = 32, // rising, for heads of columns
    SHEET_UP = 64,   // along an upright axis
    SHEET_AFTER =
        128, // goes on, a little apart, where the text before it ended; x and y are not read
};
enum sheet_kind {
    SHEET_BOX,
    SHEET_PATH,
    SHEET_LINK,
    SHEET_DOT,
    SHEET_TEXT,
    SHEET_CELLS,
    SHEET_HATCH
};
struct sheet_point {
    float x, y;
    char verb; // M, L, Z; C: the first of the three of a curve, c: the others
};
struct sheet_op {
    enum sheet_kind kind;
    int16_t fill, stroke;
    uint16_t how, size;      // of a text
    float width, opacity;    // of a stroke; of all; a link: opacity is its t
    double x, y, w, h, turn; // box; dot: w its radius; text: where it begins
    int64_t at, n, columns;  // points, bytes of text, cells
};
struct sheet {
    double width, height;
    struct view_text title, sentence, text;
    struct sheet_op *op;
    int64_t ops, op_room;
    struct sheet_point *point;
    int64_t points, point_room;
    uint8_t *cell; // inks of cells: ink - RAMP; 255: nothing there
    int64_t cells, cell_room;
    int64_t open; // the op of the path that is being drawn; -1: none
    bool failed;
};
enum { SHEET_BLANK = 255 };

// title: the question; sentence: what a reader who does not see it is told.  Its height is set last.
void sheet_new(struct sheet *s, double width, const char *title, const char *sentence);
void sheet_free(struct sheet *s);
bool sheet_failed(const struct sheet *s);

// stroke NONE: filled only.  width: of the stroke.
void sheet_box(struct sheet *s, double x, double y, double w, double h, int fill);
void sheet_frame(struct sheet *s, double x, double y, double w, double h, int stroke, double width);
void sheet_line(struct sheet *s, double x1, double y1, double x2, double y2, int ink, double width);
void sheet_dot(struct sheet *s, double x, double y, double radius, int fill, int stroke,
               double width);
void sheet_hatch(struct sheet *s, double x, double y, double w, double h);
// fill or stroke NONE: not done.
void sheet_path(struct sheet *s, int fill, int stroke, double width, double opacity);
void sheet_dashed(struct sheet *s); // the path that was begun last
void sheet_move(struct sheet *s, double x, double y);
void sheet_to(struct sheet *s, double x, double y);
void sheet_curve(struct sheet *s, double x1, double y1, double x2, double y2, double x, double y);
void sheet_close(struct sheet *s);
// A weight from a reader to what it reads: t in 0..1 above the threshold gives darkness and width;
// pale: the rest of the picture while a row is marked.
void sheet_link(struct sheet *s, double x1, double y1, double x2, double y2, int ink, double t,
                bool pale);
// rows x columns of inks (minus RAMP, or SHEET_BLANK), copied; cells of w x h, gap between them.
void sheet_cells(struct sheet *s, double x, double y, double w, double h, double gap,
                 const uint8_t *ink, int64_t rows, int64_t columns);

// Valid UTF-8, or what is made of it; control characters are shown.
void sheet_text(struct sheet *s, double x, double y, int size, unsigned how, int ink,
                const char *text, size_t n);
void sheet_say(struct sheet *s, double x, double y, int size, unsigned how, int ink,
               const char *format, ...) __attribute__((format(printf, 7, 8)));
// The text with "…" where it is wider than `width`.
void sheet_cut(struct sheet *s, double x, double y, int size, unsigned how, int ink,
               const char *text, size_t n, double width);
// The text in lines of at most `width`; returns the baseline below the last.
double sheet_fold(struct sheet *s, double x, double y, double width, int size, unsigned how,
                  int ink, const char *text, double leading);
// About how wide a text will be: fonts differ from machine to machine.
double sheet_width(const char *text, size_t n, int size, unsigned how);

// The frame that every picture has: paper, question, sentence; returns the y below.  left: margin.
double sheet_head(struct sheet *s, double left);

// ---- what it becomes -----------------------------------------------------------------------------
// id: of the svg element; inner: its style is written by sheet_style elsewhere (a page).
void sheet_svg(struct view_text *t, const struct sheet *s, enum qkv_view_theme theme);
// In a page: the element without its style, and the style, which follows [data-theme] of the root.
void sheet_svg_inner(struct view_text *t, const struct sheet *s, const char *id);
void sheet_page_style(struct view_text *t, const struct sheet *s);
// PNG with title and sentence in it.  QKV_ERR_LIMIT: memory, or a side over 32,767 pixels.
enum { SHEET_SCALE = 2 };
qkv_status sheet_png(struct view_text *t, const struct sheet *s, enum qkv_view_theme theme,
                     qkv_error *err);
// Whether a name is that of such a file: .svg, .png; standard output takes SVG.
bool sheet_takes(const char *path);
// The file, written whole or not at all.
qkv_status sheet_file(const struct sheet *s, const char *path, bool force,
                      enum qkv_view_theme theme, qkv_error *err);
bool view_ends_with(const char *path, const char *end);

// How dark and how wide a link of step t of SHEET_LINKS is.
enum { SHEET_LINKS = 32 };
double sheet_link_opacity(double t, bool dark, bool pale);
double sheet_link_width(double t);
#endif
