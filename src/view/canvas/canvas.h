// SPDX-License-Identifier: MIT
// canvas.h: declares the canvas on which charts and pictures of attention are drawn. A canvas is a
// list of drawing operations. It is written as SVG, with texts as text and colours as classes for
// the light and the dark theme, or as PNG, which cairo draws.
//
//   canvas.c       the list, lines of text    palette.c      the palette
//   canvas_svg.c   the list as SVG            canvas_png.c   the list as PNG, by ../png
//   text_width.c   widths of text in SVG
//
// Lengths are pixels of the page at zoom 1; y grows downwards. If an allocation fails, `failed` is
// set and nothing more is drawn; the function that writes the canvas reports the error.
#ifndef QKV_VIEW_CANVAS_H
#define QKV_VIEW_CANVAS_H
#include "view/format_text.h"

// ---- colours: indices into the palette, the same in both themes --------------------------------
enum {
    PALETTE_STEPS = 64, // number of steps of the colour ramp for weights
    PALETTE_TONES = 32, // number of tones for positive values, and for negative ones
    PALETTE_NONE = 0,
    PALETTE_PAPER,
    PALETTE_PANEL,
    PALETTE_CHIP,
    PALETTE_TEXT,
    PALETTE_TEXT2,
    PALETTE_TEXT3,
    PALETTE_RULE,
    PALETTE_MARK, // background of the marked token
    PALETTE_POS,
    PALETTE_NEG,
    PALETTE_HOT,  // bar of an ablation effect
    PALETTE_SOLE, // links if only one head is drawn
    // PALETTE_HEAD + i, i = 0 .. 15: colour of head i, or of line i of a chart
    PALETTE_HEAD,
    // PALETTE_RAMP + i, i = 0 .. PALETTE_STEPS: ramp for weights, from light to dark
    PALETTE_RAMP = PALETTE_HEAD + 16,
    // PALETTE_PLUS + i, i = 0 .. PALETTE_TONES: from PALETTE_PAPER to PALETTE_POS
    PALETTE_PLUS = PALETTE_RAMP + PALETTE_STEPS + 1,
    PALETTE_MINUS = PALETTE_PLUS + PALETTE_TONES + 1,
    // PALETTE_OVER + (c - PALETTE_RAMP): colour of text that is drawn on colour c of the ramp,
    // chosen for contrast
    PALETTE_OVER = PALETTE_MINUS + PALETTE_TONES + 1,
    // PALETTE_KIND + k * (PALETTE_SHADES + 1) + i, i = 0 .. PALETTE_SHADES: ramp of head kind k;
    // the last ramp is for other kinds
    PALETTE_SHADES = 32,
    PALETTE_KINDS = 9,
    PALETTE_KIND = PALETTE_OVER + PALETTE_OVER - PALETTE_RAMP,
    PALETTE_COLORS = PALETTE_KIND + PALETTE_KINDS * (PALETTE_SHADES + 1)
};
uint32_t palette_rgb(int color, bool dark);
// returns a colour of the ramp for darkness 0 .. 1; NaN: the lightest colour
int palette_ramp(double darkness);
int palette_weight(double w); // returns the colour of weight w, whose darkness is w^0.7
// returns a colour of PALETTE_PLUS or PALETTE_MINUS for x in -1 .. 1
int palette_signed(double x);
// returns the colour of a kind of head, by its row in head_kind.def: one of PALETTE_HEAD;
// PALETTE_TEXT2 for other kinds
int palette_kind(int kind);
int palette_over(int color); // returns the colour of text on a colour of RAMP, PLUS or MINUS
// RGB colours of the ramp and of the heads; [0]: light theme, [1]: dark theme
extern const uint32_t view_ramp_rgb[2][9], view_heads_rgb[2][16];

// ---- operations --------------------------------------------------------------------------------
enum { // style of a text; 0: sans-serif, horizontal, x is its left end
    CANVAS_SERIF = 1,
    CANVAS_BOLD = 2,
    CANVAS_ITALIC = 4,
    CANVAS_MIDDLE = 8,
    CANVAS_END = 16,
    CANVAS_TILT = 32, // rotated text, for column headings
    CANVAS_UP = 64,   // vertical text, for a y axis
    CANVAS_AFTER =
        128, // the text follows the preceding text after CANVAS_SPACE; x and y are ignored
};
// CANVAS_TILT: width and height of a rotated text of length 1, the cosine and sine of 50 degrees.
#define CANVAS_TILT_X .643
#define CANVAS_TILT_Y .766
enum { CANVAS_SPACE = 6 }; // space before a text that follows another (CANVAS_AFTER)
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
    char verb; // M: move to; L: line to; Z: close; C, then c and c: the three points of a curve
};
struct canvas_op {
    enum canvas_kind kind;
    int16_t fill, stroke;
    uint16_t how, size;   // style (CANVAS_*) and size of a text
    float width, opacity; // width: of the stroke; opacity: for a link, its parameter t instead
    // x, y: corner of a box, centre of a dot, start of a text; w: for a dot, its radius
    double x, y, w, h, turn;
    // The points, the bytes of text or the cells of the operation: at is the index of the first in
    // the array of the canvas, n their number. columns: cells in a row of a grid.
    int64_t at, n, columns;
    int16_t base; // the colour 0 of cells
};
struct canvas {
    double width, height;
    struct view_text title, sentence, text;
    struct canvas_op *op;
    int64_t ops, op_capacity;
    struct canvas_op spare; // takes the operations after memory was exhausted; never drawn
    struct canvas_point *point;
    int64_t points, point_capacity;
    uint8_t *cell; // colour of each cell minus PALETTE_RAMP; CANVAS_BLANK: an empty cell
    int64_t cells, cell_capacity;
    int64_t open; // index of the operation whose path is being drawn; -1: none
    bool failed;
    bool plain;                 // canvas_head() draws no title and no sentence
    double mm;                  // printed width of the file; 0: a unit is a CSS pixel
    struct canvas_fonts *fonts; // fonts that measure texts; NULL: the table of text_width.c does
};
enum { CANVAS_BLANK = 255 };

// Initializes a canvas that will be written to the file `path`, and chooses how its texts are
// measured: for a PNG with the fonts that will draw them; for SVG and HTML, which are shown with
// the fonts of the reader's machine, with the widest of the common fonts.
void canvas_init(struct canvas *s, const char *path);
// Begins a canvas after canvas_init(). title: the question that the picture answers; sentence:
// describes the picture for readers who do not see it. The caller sets the height after drawing.
void canvas_new(struct canvas *s, double width, const char *title, const char *sentence);
void canvas_free(struct canvas *s);
bool canvas_failed(const struct canvas *s);

// These functions draw a box, an outline, a line, a dot and a hatched box. fill PALETTE_NONE: the
// shape is not filled; stroke PALETTE_NONE: it has no outline. width: of the outline or line.
void canvas_box(struct canvas *s, double x, double y, double w, double h, int fill);
void canvas_frame(struct canvas *s, double x, double y, double w, double h, int stroke,
                  double width);
void canvas_line(struct canvas *s, double x1, double y1, double x2, double y2, int color,
                 double width);
void canvas_dot(struct canvas *s, double x, double y, double radius, int fill, int stroke,
                double width);
void canvas_hatch(struct canvas *s, double x, double y, double w, double h);
// Begins a path. fill PALETTE_NONE: the path is not filled; stroke PALETTE_NONE: it has no line.
void canvas_path(struct canvas *s, int fill, int stroke, double width, double opacity);
void canvas_dashed(struct canvas *s); // makes the line of the last path dashed
void canvas_move_to(struct canvas *s, double x, double y);
void canvas_line_to(struct canvas *s, double x, double y);
void canvas_curve(struct canvas *s, double x1, double y1, double x2, double y2, double x, double y);
void canvas_close(struct canvas *s);
// Draws a link from a query to a key. t in 0 .. 1 says how far the weight exceeds the threshold,
// and determines the darkness and the width of the link. pale: draw the link fainter, since it
// belongs to another row than the marked one.
void canvas_link(struct canvas *s, double x1, double y1, double x2, double y2, int color, double t,
                 bool pale);
// Draws a grid of cells of size w x h, separated by `gap`. color[rows][columns] is copied: each
// element is a colour minus PALETTE_RAMP, or CANVAS_BLANK for an empty cell.
void canvas_cells(struct canvas *s, double x, double y, double w, double h, double gap,
                  const uint8_t *color, int64_t rows, int64_t columns);

// Like canvas_cells() with gap 0; each element of color is a shade of the ramp of a head kind.
void canvas_kind_cells(struct canvas *s, double x, double y, double w, double h, int kind,
                       const uint8_t *color, int64_t rows, int64_t columns);

// Draws text[n]. Invalid UTF-8 is replaced, and control characters are made visible.
void canvas_text(struct canvas *s, double x, double y, int size, unsigned how, int color,
                 const char *text, size_t n);
void canvas_format(struct canvas *s, double x, double y, int size, unsigned how, int color,
                   const char *format, ...) __attribute__((format(printf, 7, 8)));
// Finds the first word in brackets: bytes from .. to - 1 of text[n], with the brackets; 0, 0: none.
void canvas_marked(size_t *from, size_t *to, const char *text, size_t n);
// Writes text[n], or as much of it as fits in `width`, with "…" for what is left out. A word in
// brackets, as in "The [bear] market fell", stays, and so does the place of a repeated word.
void canvas_shorten(struct view_text *t, const struct canvas *s, int size, unsigned how,
                    const char *text, size_t n, double width);
// Draws text[n], shortened by canvas_shorten() if it is wider than `width`.
void canvas_cut(struct canvas *s, double x, double y, int size, unsigned how, int color,
                const char *text, size_t n, double width);
// Returns the number of lines of at most `width` that canvas_fold() makes of a text.
int canvas_lines(const struct canvas *s, double width, int size, unsigned how, const char *text);
// Draws a text in lines of at most `width`. Returns the y coordinate of the line after the last
// one.
double canvas_fold(struct canvas *s, double x, double y, double width, int size, unsigned how,
                   int color, const char *text, double leading);
// Returns the width of a text: in a PNG with the fonts that draw it, in SVG with the widest of the
// common fonts.
double canvas_width(const struct canvas *s, const char *text, size_t n, int size, unsigned how);

// Draws the background, and the title and the sentence that canvas_new() received. left: width of
// the left margin. Returns the y coordinate below the sentence; of a plain canvas, the top margin.
double canvas_head(struct canvas *s, double left);

// Returns the length of the right-to-left words at the start of text[n], with the spaces between
// them and the place (subscript digits) after them; 0: it starts with another character.
size_t canvas_right_to_left(const char *text, size_t n);

// ---- output ------------------------------------------------------------------------------------
// Writes a canvas as an SVG file.
void canvas_svg(struct view_text *t, const struct canvas *s, enum qkv_view_theme theme);
// Writes canvas number `which` of the n canvases of a page as an svg element with this id. The
// style of the element is not written.
void canvas_svg_inner(struct view_text *t, const struct canvas *s, int n, int which,
                      const char *id);
// Writes the style that the svg elements of the n canvases of a page share. Its colours depend on
// the attribute [data-theme] of the page's root element.
void canvas_page_style(struct view_text *t, const struct canvas *s, int n);
// Returns the pixels of a PNG file per unit of the canvas: 2, or 3 if it has a printed width.
static inline int canvas_scale(const struct canvas *s)
{
    return s->mm > 0 ? 3 : 2;
}
// Returns the size of a small text: at least 11 in a picture with a printed width.
static inline int canvas_small(const struct canvas *s, int size)
{
    return s->mm > 0 && size < 11 ? 11 : size;
}
// Writes a canvas as a PNG file, which also contains the title and the sentence as text. path: its
// name, for messages. Returns QKV_ERR_LIMIT if memory is exhausted, cairo cannot paint, or a side
// has more than 32,767 pixels.
qkv_status canvas_png(struct view_text *t, const struct canvas *s, const char *path,
                      enum qkv_view_theme theme, qkv_error *err);
// Returns true if a file name ends with .svg or .png, or means standard output, where SVG is
// written.
bool canvas_is_picture_name(const char *path);
// Writes the picture to a file. The ending of the name selects the format. After an error, no
// partial file remains.
qkv_status canvas_file(const struct canvas *s, const char *path, bool force,
                       enum qkv_view_theme theme, qkv_error *err);

// ---- text_width.c -------------------------------------------------------------------------------
// Returns the width of a character in the widest of the fonts DejaVu, Liberation and Noto, as a
// multiple of the font size. how: CANVAS_SERIF and CANVAS_BOLD.
double text_width(int32_t c, unsigned how);

// ---- canvas_png.c -------------------------------------------------------------------------------
// The fonts of the machine, by libqkv_png. Returns NULL if memory is exhausted or, with *missing,
// if that library cannot be opened; canvas_png() then reports why.
struct canvas_fonts *canvas_fonts_new(bool *missing);
void canvas_fonts_free(struct canvas_fonts *f);
double canvas_fonts_width(struct canvas_fonts *f, const char *text, size_t n, int size,
                          unsigned how);

enum { CANVAS_LINKS = 32 }; // number of steps to which the parameter t of a link is rounded
// canvas_link_opacity() and canvas_link_width() return the opacity and the width of a link whose
// parameter is t (canvas_link).
double canvas_link_opacity(double t, bool dark, bool pale);
double canvas_link_width(double t);
#endif
