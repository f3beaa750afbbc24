// SPDX-License-Identifier: MIT
// text_canvas.h: declares the functions that terminal pictures are written with: colours, cells of
// a fixed width, folded text, grids.
#ifndef QKV_VIEW_SCREEN_H
#define QKV_VIEW_SCREEN_H

#include "view/canvas/canvas.h"
#include "view/data/initial_selection.h"
#include <qkv/chart.h>

struct text_canvas {
    const char *question; // from the row of the view in view.def
    const struct view_stack *v;
    struct view_selection st;
    struct view_text t;
    bool color, truecolor, utf8, dark, all;
    bool asked; // the user named the token
    int columns;
    float *row;     // [S]
    int64_t *shown; // [shown_count] rows that are shown
    int64_t shown_count;
    // [key_count] keys that are shown; the same array as `shown`, except across texts
    int64_t *keys;
    int64_t key_count;
    int label; // width of a token name in columns
};

// ---- colours: no effect without s->color --------------------------------------------------------
void text_canvas_sgr(struct text_canvas *s, const char *code);
void text_canvas_plain(struct text_canvas *s);
void text_canvas_dim(struct text_canvas *s);
void text_canvas_head(struct text_canvas *s, int64_t i);  // text in the colour of head i, mod 16
void text_canvas_color(struct text_canvas *s, int color); // text in a color of canvas.h
// Sets the background to a colour that is darker the larger x is (0..1), and a text colour that is
// readable on it.
void text_canvas_ground(struct text_canvas *s, double x);
// The same for a signed x in -1..1: x < 0 and x > 0 have different colours, darker the larger |x|
// is.
void text_canvas_signed(struct text_canvas *s, double x);
// Writes one character that shows two cells, one above the other. Needs colour and UTF-8. sign: the
// values are signed.
void text_canvas_halves(struct text_canvas *s, double upper, double lower, bool sign);

// ---- cells --------------------------------------------------------------------------------------
// Reads one character of text[n]. Returns its number of bytes; *out are the bytes to print ('?' for
// a control character, or for a character that an ASCII terminal lacks), *columns their width.
size_t text_canvas_next(const struct text_canvas *s, const char *text, size_t n, const char **out,
                        size_t *bytes, int *columns);
int text_canvas_width(const struct text_canvas *s, const char *text,
                      size_t n); // returns the width in columns; escape sequences have none
void text_canvas_pad(struct text_canvas *s, int n);
// Writes text[n] in exactly `columns` columns; longer text is cut and ends with an ellipsis.
void text_canvas_cell(struct text_canvas *s, const char *text, size_t n, int columns, bool right);
// Writes text of the user or of files, with control characters made visible.
void text_canvas_text(struct text_canvas *s, const char *text, int columns, bool right);
void text_canvas_words(struct text_canvas *s, const char *text); // writes folded text
void text_canvas_token(struct text_canvas *s, int64_t token, int columns, bool right);
void text_canvas_key(struct text_canvas *s, int64_t key, int columns, bool right);
void text_canvas_weight(struct text_canvas *s, double w); // writes a weight in 3 columns
void text_canvas_bar(struct text_canvas *s, double part,
                     int columns); // part 0..1 in eighths of a column
void text_canvas_line(struct text_canvas *s);
// Writes text[n] folded at the width of the terminal; its first line begins at column `at`.
void text_canvas_fold(struct text_canvas *s, const char *text, size_t n, int at);

// ---- terminal_grid.c ----------------------------------------------------------------------------
// Draws the grid of a panel: numbers if they fit, otherwise one character, or half a character, per
// cell. A grid that is too wide or too long is averaged, with a note.
void text_canvas_grid(struct text_canvas *s, const struct qkv_chart_panel *p);
// Returns the block character for darkness x, one of "·░▒▓█"; without UTF-8 one of ".-+*#".
const char *text_canvas_block(const struct text_canvas *s, double x);
#endif
