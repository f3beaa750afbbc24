// SPDX-License-Identifier: MIT
// screen.h: what terminal pictures are drawn with: colours, cells of a fixed width, folded text,
// grids.
#ifndef QKV_VIEW_SCREEN_H
#define QKV_VIEW_SCREEN_H

#include "view/sheet.h"
#include <qkv/chart.h>

struct screen {
    const struct view_stack *v;
    struct view_state st;
    struct view_text t;
    bool color, truecolor, utf8, dark, all;
    bool asked; // the token was named
    int columns;
    float *row;     // [S]
    int64_t *shown; // [shown_count] rows on view
    int64_t shown_count;
    int64_t *keys; // [key_count] keys on view; the same but across texts
    int64_t key_count;
    int label; // columns of a token's name
};

// ---- colours: nothing without s->color ----------------------------------------------------------
void screen_sgr(struct screen *s, const char *code);
void screen_plain(struct screen *s);
void screen_quiet(struct screen *s);
void screen_head(struct screen *s, int64_t i); // text in the colour of head i, mod 16
void screen_ink(struct screen *s, int ink);    // text in an ink of sheet.h
// Ground of darkness x in 0..1, or of the sign of x in -1..1, with text that can be read on it.
void screen_ground(struct screen *s, double x);
void screen_signed(struct screen *s, double x);
// One character that is two cells, one above the other; needs colour and UTF-8.
void screen_halves(struct screen *s, double upper, double lower, bool sign);

// ---- cells -------------------------------------------------------------------------------------
// One character of text[n] for this terminal: its bytes (controls and, in ASCII, others: '?'), its
// columns.  Returns the bytes of text it takes.
size_t screen_next(const struct screen *s, const char *text, size_t n, const char **out,
                   size_t *bytes, int *columns);
int screen_width(const struct screen *s, const char *text, size_t n); // columns; colours take none
void screen_pad(struct screen *s, int n);
// text in exactly `columns` columns, cut with an ellipsis.
void screen_cell(struct screen *s, const char *text, size_t n, int columns, bool right);
// Text of strangers: controls are shown.
void screen_text(struct screen *s, const char *text, int columns, bool right);
void screen_words(struct screen *s, const char *text); // folded
void screen_token(struct screen *s, int64_t token, int columns, bool right);
void screen_key(struct screen *s, int64_t key, int columns, bool right);
void screen_weight(struct screen *s, double w);              // 3 columns
void screen_bar(struct screen *s, double part, int columns); // part 0..1 in eighths of a column
void screen_line(struct screen *s);
// Text folded at the width of the terminal, the first line from column `at` on.
void screen_fold(struct screen *s, const char *text, size_t n, int at);

// ---- screen_grid.c -----------------------------------------------------------------------------
// A panel's grid: numbers where they fit, else a character a cell or half of one; what is too wide
// or too long is averaged, and says so.
void screen_grid(struct screen *s, const struct qkv_chart_panel *p);
// "·░▒▓█" of a darkness; without UTF-8 ".-+*#".
const char *screen_block(const struct screen *s, double x);
#endif
