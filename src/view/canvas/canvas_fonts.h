// SPDX-License-Identifier: MIT
// canvas_fonts.h: declares the functions that draw texts with the fonts of the machine, for
// canvas_png.c. Only these two files use cairo.
#ifndef QKV_VIEW_CANVAS_FONTS_H
#define QKV_VIEW_CANVAS_FONTS_H
#include "view/canvas/canvas.h"
#include <cairo.h>

// Sets the font options with which texts are measured and drawn: smooth, and not fitted to pixels.
void canvas_fonts_prepare(cairo_t *cr);
// Draws text[n] with its left end at (x, y). Returns its width.
double canvas_fonts_draw(struct canvas_fonts *f, cairo_t *cr, const char *text, size_t n, int size,
                         unsigned how, double x, double y);
#endif
