// SPDX-License-Identifier: MIT
// picture.h: what the pictures of attention share: the page's views, drawn on a sheet.
//
//   picture.c         which view, its file      picture_heads.c   links    picture_model.c  all heads
//   picture_matrix.c  weights as points         picture_neuron.c  one pair picture_steps.c  six steps
//   score.c           from q and k to a weight, step by step (the terminal's too)
#ifndef QKV_VIEW_PICTURE_H
#define QKV_VIEW_PICTURE_H
#include <qkv/picture.h>
#include "view/score.h"
#include "view/sheet.h"

enum { PICTURE_MARGIN = 24 };
struct picture {
    struct sheet sheet; // begun by the view: its title is the view's
    const struct view_stack *v;
    struct view_state st;
    int64_t key;          // -1: none was named
    bool marked;          // a row was named
    float *row;           // [S] at hand
    int64_t *rows, *keys; // those on view, in the order of the text
    int64_t row_count, key_count;
};
// A view's drawing: QKV_OK even when memory failed while drawing (the sheet knows).
typedef qkv_status picture_draw(struct picture *p, qkv_error *err);
picture_draw picture_heads, picture_model, picture_matrix, picture_neuron, picture_steps;

// A token's name, cut to width; how as of a text.
void picture_token(struct sheet *s, const struct qkv_view_token *k, double x, double y, int size,
                   unsigned how, int ink, double width);
// ".64" and its like.
void picture_weight(struct sheet *s, double x, double y, int size, unsigned how, int ink, double w,
                    int digits);
// "−1.25".
void picture_number(struct sheet *s, double x, double y, int size, unsigned how, int ink,
                    double value, int digits);
// x[n] as bars up and down from mid, the largest `most` of half of `tall`; more than there are pixels
// are joined to their means.
void picture_bars(struct sheet *s, const double *x, int64_t n, double left, double mid, double wide,
                  double tall, double most, double opacity);
// The key of the pair that is taken apart; *head: the lit head that reads it most.
int64_t picture_pair(struct picture *p, int64_t *head);
// The colour of a lit head (place: among the lit), of its links.
int picture_head_ink(const struct picture *p, int64_t place);
int picture_link_ink(const struct picture *p, int64_t place);
// Half of an even share of what a row may read: links from there on are drawn.
double picture_threshold(const struct view_stack *v, int64_t layer, int64_t row);
// A larger darkness for the few large weights of long texts: of n weights (reordered) the one that .15 %
// of them exceed.
double picture_scale(float *w, int64_t n);
#endif
