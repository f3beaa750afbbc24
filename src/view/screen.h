// SPDX-License-Identifier: MIT
// screen.h: what terminal.c draws with: colours, cells of a fixed width, folded text.
#ifndef QKV_VIEW_SCREEN_H
#define QKV_VIEW_SCREEN_H

#include "view/view.h"

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
void screen_ground(struct screen *s,
                   double x); // ground of darkness x in 0..1, text that can be read on it

// ---- cells -------------------------------------------------------------------------------------
int screen_width(const struct screen *s, const char *text, size_t n); // columns; colours take none
void screen_pad(struct screen *s, int n);
// text in exactly `columns` columns, cut with an ellipsis.
void screen_cell(struct screen *s, const char *text, size_t n, int columns, bool right);
void screen_text(struct screen *s, const char *text, int columns, bool right);
void screen_token(struct screen *s, int64_t token, int columns, bool right);
void screen_key(struct screen *s, int64_t key, int columns, bool right);
void screen_weight(struct screen *s, double w); // 3 columns
void screen_line(struct screen *s);
// Text folded at the width of the terminal, the first line from column `at` on.
void screen_fold(struct screen *s, const char *text, size_t n, int at);
#endif
