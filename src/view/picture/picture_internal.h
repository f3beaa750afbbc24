// SPDX-License-Identifier: MIT
// picture_internal.h: declares the functions that the pictures of attention share. A picture draws
// a view of the page on a canvas.
//
//   picture.c          view, file               picture_heads.c   links    picture_model.c  all heads
//   picture_matrix.c   weights as points        picture_neuron.c  one pair picture_steps.c  six steps
//   picture_compare.c  one query in two views                    picture_residual.c  the stream
#ifndef QKV_VIEW_PICTURE_H
#define QKV_VIEW_PICTURE_H
#include <qkv/picture.h>
#include "view/data/score_steps.h"
#include "view/canvas/canvas.h"
#include "view/data/initial_selection.h"

enum { PICTURE_MARGIN = 24 };
struct picture {
    struct canvas canvas; // created by the view with its title
    const char *question; // from its row in view.def
    const qkv_view *view;
    const struct view_stack *v; // the stack of the view that is drawn
    struct view_selection st;
    int64_t key;          // -1: none was named
    bool marked;          // a row was named
    float *row;           // [S] buffer
    int64_t *rows, *keys; // the shown ones, in the order of the text
    int64_t row_count, key_count;
};
// Draws a view. Returns QKV_OK even if memory failed while drawing, which the canvas records.
typedef qkv_status picture_draw(struct picture *p, qkv_error *err);
#define QKV_VIEW(name, key, picture, terminal, needs, question) PICTURE_DECLARE_##picture(name)
#define PICTURE_DECLARE_WHOLE(name)                             picture_draw picture_##name;
#define PICTURE_DECLARE_ROW(name)                               picture_draw picture_##name;
#define PICTURE_DECLARE_NONE(name)
#include <qkv/view.def>
#undef QKV_VIEW

// Writes the name of a token, cut at the width; how: style of the text.
void picture_token(struct canvas *s, const struct qkv_view_token *k, double x, double y, int size,
                   unsigned how, int color, double width);
// Writes a weight, such as ".64".
void picture_weight(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double w, int digits);
// Writes a number, such as "−1.25".
void picture_number(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double value, int digits);
// Draws x[n] as bars up and down from the line `mid`. A bar for the value `most` has half the
// height `tall`. If there are more values than pixels, neighbours are joined to their mean.
void picture_bars(struct canvas *s, const double *x, int64_t n, double left, double mid,
                  double wide, double tall, double most, double opacity);
// Returns the key of the pair to show; *head: the selected head with the largest weight on it.
int64_t picture_pair(struct picture *p, int64_t *head);
// Returns the colour of the links of a selected head; place: its index among the selected heads.
int picture_head_color(const struct picture *p, int64_t place);
int picture_link_color(const struct picture *p, int64_t place);
// Returns half the uniform weight of a row: links with at least this weight are drawn.
double picture_threshold(const struct view_stack *v, int64_t layer, int64_t row);
// Returns the scale of the weights of a long text: the weight that .15 % of w[n] exceed. Reorders
// w.
double picture_scale(float *w, int64_t n);
#endif
