// SPDX-License-Identifier: MIT
// diagram_internal.h: declares the columns of boxes of which diagrams consist.
//
//   diagram.c         the five diagrams
//   diagram_column.c  a column of boxes from bottom to top, with arrows and residual connections
#ifndef QKV_VIEW_DIAGRAM_INTERNAL_H
#define QKV_VIEW_DIAGRAM_INTERNAL_H
#include "view/canvas/canvas.h"
#include <qkv/picture.h>

enum {
    DIAGRAM_MARGIN = 24,
    DIAGRAM_GAP = 20, // between two items of a column
    DIAGRAM_ITEMS = 40
};
// Colours of boxes.
enum {
    DIAGRAM_PLAIN = PALETTE_CHIP,
    DIAGRAM_NORM = PALETTE_MARK,
    DIAGRAM_ATTENTION = PALETTE_PLUS + 7,
    DIAGRAM_FORWARD = PALETTE_MINUS + 6
};

// An item of a column. SUM adds the stream from below item `from` to the item below it.
struct diagram_item {
    enum { DIAGRAM_BOX = 0, DIAGRAM_TEXT, DIAGRAM_SUM } kind;
    char title[96], more[96];
    int fill;
    int from;
    double y, tall; // upper edge and height, which diagram_place() computes
};
struct diagram_column {
    struct canvas *s;
    struct diagram_item item[DIAGRAM_ITEMS]; // from bottom to top
    int items;
    // a group of items, which is repeated: the first and last item, and its name; last 0: no group
    int first, last;
    char group[64];
    int side;            // residual connections are drawn on the left (-1) or the right (1)
    double middle, wide; // x coordinate of the middle and width of the boxes
    double top, bottom;
};

// Adds an item to a column and returns its index. more: a second line, which may be NULL.
int diagram_box(struct diagram_column *c, int fill, const char *title, const char *more);
int diagram_text(struct diagram_column *c, const char *text);
int diagram_sum(struct diagram_column *c, int from);
// Computes the width of the boxes, so that each contains its text.
void diagram_measure(struct diagram_column *c);
// Returns the width of the column with its residual connections and the name of its group.
double diagram_width(const struct diagram_column *c);
double diagram_height(const struct diagram_column *c);
// Computes the positions of the items; the lowest ends at y = bottom.
void diagram_place(struct diagram_column *c, double middle, double bottom);
void diagram_draw(const struct diagram_column *c);
// Draws one box with its text.
void diagram_draw_box(struct canvas *s, double x, double y, double w, double h, int fill,
                      const char *title, const char *more);
// Returns the width that a box needs for its text.
double diagram_box_width(const struct canvas *s, const char *title, const char *more);
// Draws an arrow through n points, given as x and y in turn.
void diagram_arrow(struct canvas *s, const double *at, int n);
#endif
