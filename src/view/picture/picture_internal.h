// SPDX-License-Identifier: MIT
// picture_internal.h: declares the functions that the pictures of attention share. A picture is a
// view of the page, drawn on a canvas.
//
//   picture.c          choice of the view       picture_heads.c     links between tokens
//   picture_matrix.c   weights as points        picture_model.c     all heads
//   picture_neuron.c   one query and one key    picture_steps.c     the six steps of attention
//   picture_compare.c  one query in two views   picture_residual.c  the residual stream
//   picture_scale.c    what the scale is for, next to the six steps
//   picture_output.c   the output of the model
#ifndef QKV_VIEW_PICTURE_INTERNAL_H
#define QKV_VIEW_PICTURE_INTERNAL_H
#include <qkv/picture.h>
#include "view/data/score_steps.h"
#include "view/canvas/canvas.h"
#include "view/data/initial_selection.h"

struct picture {
    struct canvas canvas; // the function that draws the view creates the canvas
    const char *question; // the question of the view, from view.def
    const qkv_view *view;
    const struct view_stack *v; // the stack of `view` that is drawn
    struct view_selection st;
    int64_t key;          // the key that the options name; -1: they name none
    bool marked;          // true: the options name a row
    double margin;        // left and right
    double wide;          // width between the margins, if the picture has a printed width, else 0
    bool column;          // the printed width is that of a column
    float *row;           // [S + key_padding] buffer
    int64_t *rows, *keys; // the rows and the keys that are shown, in the order of the text
    int64_t row_count, key_count;
    // number of padding tokens that are shown; they follow in rows and keys
    int64_t row_padding, key_padding;
};
// A function that draws a view. Returns QKV_OK even if memory is exhausted while drawing: the
// canvas records this.
typedef qkv_status picture_draw(struct picture *p, qkv_error *err);
#define QKV_VIEW(name, key, picture, terminal, needs, question) PICTURE_DECLARE_##picture(name)
#define PICTURE_DECLARE_WHOLE(name)                             picture_draw picture_##name;
#define PICTURE_DECLARE_ROW(name)                               picture_draw picture_##name;
#define PICTURE_DECLARE_NONE(name)
#include <qkv/view.def>
#undef QKV_VIEW

// Writes the name of a row or, with `key`, of a key, cut to the given width: a word that occurs
// more than once carries its place, such as flies₂. how: style of the text.
void picture_name(struct canvas *s, const struct view_stack *v, int64_t index, bool key, double x,
                  double y, int size, unsigned how, int color, double width);
// Writes a weight, such as ".64".
void picture_weight(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double w, int digits);
// Writes a number, such as "−1.25".
void picture_number(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double value, int digits);
// Draws x[n] as bars that rise or fall from the line y = mid. A bar of value `most` is tall / 2
// high. If there are more values than pixels, a bar is the mean of several neighbours.
void picture_bars(struct canvas *s, const double *x, int64_t n, double left, double mid,
                  double wide, double tall, double most, double opacity);
// Returns the width between the margins: that of a printed width, else `free`.
static inline double picture_wide(const struct picture *p, double free)
{
    return p->wide > 0 ? p->wide : free;
}
// Returns the point, of n that represent `all` rows or keys, to which index i belongs.
static inline int64_t picture_point(int64_t i, int64_t n, int64_t all)
{
    return qkv_min64(n - 1, i * n / all);
}
// Writes a line about the padding tokens, which are masked and not drawn. Returns the y coordinate
// below it; without padding tokens, y.
double picture_padding(struct picture *p, double x, double y);
// ---- the six steps (picture_steps.c, picture_scale.c) -------------------------------------------
enum { PICTURE_SIDE = 324 }; // width of the panel that explains the scale
struct picture_columns;      // picture_steps.c
struct picture_score {
    struct picture *p;
    const struct picture_columns *at;
    double full; // width of all columns
    struct score s;
    struct score_line line[SCORE_LINES];
    int lines;
    int64_t key;
    double left;
    double most_k, most_v, most_p; // the largest number of a query or key, a value, a product
    double top, exp_sum;           // the largest score, and the sum of exp(score - top)
    double *z;                     // [F] the sum of the values drawn so far, times their weights
};
// Draws the panel.  Returns the y coordinate below it.
double picture_scale_panel(struct picture_score *g, double left, double y);
// Returns the colour for a selected head. place: its index among the selected heads.
int picture_head_color(const struct picture *p, int64_t place);
int picture_link_color(const struct picture *p, int64_t place);
// Returns the threshold for links of a row: half the uniform weight. Links of at least this weight
// are drawn.
double picture_threshold(const struct view_stack *v, int64_t layer, int64_t row);
// Returns the weight that is drawn darkest in a long text: only .15 % of the weights w[n] exceed
// it. Reorders w.
double picture_scale(float *w, int64_t n);
#endif
