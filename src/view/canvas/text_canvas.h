// SPDX-License-Identifier: MIT
// text_canvas.h: declares the functions that write terminal pictures: colours, cells of a fixed
// width, folded text, and grids.
#ifndef QKV_VIEW_TEXT_CANVAS_H
#define QKV_VIEW_TEXT_CANVAS_H

#include "view/canvas/canvas.h"
#include "view/data/initial_selection.h"
#include <qkv/chart.h>

struct text_canvas {
    const char *question; // the question of the view, from view.def
    const qkv_view *view;
    const struct view_stack *v; // the stack of `view` that is drawn
    struct view_selection st;
    struct view_text t;
    bool color, truecolor, utf8, dark, all;
    bool asked; // true: the user named the token to mark
    int columns;
    float *row;     // [S]
    int64_t *shown; // [shown_count] the rows that are shown
    int64_t shown_count;
    // [key_count] the keys that are shown. It is the same array as `shown`, except if queries and
    // keys are from different texts.
    int64_t *keys;
    int64_t key_count;
    int label; // width of the column of token names
};

// ---- colours; these functions write nothing unless s->color ------------------------------------
void text_canvas_sgr(struct text_canvas *s, const char *code);
void text_canvas_plain(struct text_canvas *s);
void text_canvas_dim(struct text_canvas *s);
// Sets the colour of text (PALETTE_*); heads i and i + 16 have the same colour.
void text_canvas_color(struct text_canvas *s, int color);
// Sets the background to a colour that is darker for larger x in 0 .. 1, and the text to a colour
// that is readable on it.
void text_canvas_ground(struct text_canvas *s, double x);
// Sets the background to a colour for x in -1 .. 1, and the text to a colour that is readable on
// it. Positive and negative x have different colours; the background is darker for larger |x|.
void text_canvas_signed(struct text_canvas *s, double x);
// Writes one character that shows two cells, `upper` and `lower`. Requires colour and UTF-8. sign:
// the values of the cells are signed.
void text_canvas_halves(struct text_canvas *s, double upper, double lower, bool sign);

// ---- cells --------------------------------------------------------------------------------------
// Reads the first character of text[n] and returns its length in bytes. Sets *out and *bytes to
// what must be printed for it ('?' for a control character, or for a character that an ASCII
// terminal cannot print), and *columns to its width.
size_t text_canvas_next(const struct text_canvas *s, const char *text, size_t n, const char **out,
                        size_t *bytes, int *columns);
int text_canvas_width(const struct text_canvas *s, const char *text,
                      size_t n); // returns the width of a text in columns, without escape sequences
void text_canvas_pad(struct text_canvas *s, int n);
// Writes text[n] in exactly `columns` columns. A longer text is cut and ends with an ellipsis.
void text_canvas_cell(struct text_canvas *s, const char *text, size_t n, int columns, bool right);
// Writes a text that comes from the user or a file. Control characters are made visible.
void text_canvas_text(struct text_canvas *s, const char *text, int columns, bool right);
// writes a text in lines as wide as the terminal
void text_canvas_words(struct text_canvas *s, const char *text);
// Writes a text that the caller assembled, such as a number, in one cell, and frees the text.
void text_canvas_put(struct text_canvas *s, struct view_text *t, int columns, bool right);
void text_canvas_token(struct text_canvas *s, int64_t token, int columns, bool right);
void text_canvas_key(struct text_canvas *s, int64_t key, int columns, bool right);
// writes a weight in 4 columns, such as .64 or 1.00
void text_canvas_weight(struct text_canvas *s, double w);
void text_canvas_bar(struct text_canvas *s, double part,
                     // draws a bar of length `part` (0 .. 1) with a resolution of 1/8 column
                     int columns);
void text_canvas_line(struct text_canvas *s);
// Writes text[n] in lines as wide as the terminal. The first line begins at column `at`.
void text_canvas_fold(struct text_canvas *s, const char *text, size_t n, int at);
// Writes a text that the caller assembled as text_canvas_fold() does, and frees the text. Tokens in
// the text are already printable. For an empty text, writes nothing.
void text_canvas_put_folded(struct text_canvas *s, struct view_text *t, int at);

// ---- terminal_grid.c ----------------------------------------------------------------------------
// Draws a grid of numbers: as numbers if they fit; if they do not fit, as one character or half a
// character per cell. If the grid is still too large, cells are averaged, and a note says so.
void text_canvas_grid(struct text_canvas *s, const struct qkv_chart_panel *p);
// Returns the block character for darkness x: one of "·░▒▓█" or, without UTF-8, one of ".-+*#".
const char *text_canvas_block(const struct text_canvas *s, double x);
#endif
