// SPDX-License-Identifier: MIT
// png_fonts.h: declares the functions that measure and draw texts with the fonts of the machine,
// for png_paint.c.
#ifndef QKV_VIEW_PNG_FONTS_H
#define QKV_VIEW_PNG_FONTS_H
#include "view/png/png_painter.h"
#include <cairo.h>

extern const struct png_host *png_host; // set before any other function is called

// The first three are functions of struct png_painter.
struct canvas_fonts *png_fonts_new(void);
void png_fonts_free(struct canvas_fonts *f);
double png_fonts_width(struct canvas_fonts *f, const char *text, size_t n, int size, unsigned how);
// Returns whether a text could not be measured or drawn: memory is exhausted.
bool png_fonts_failed(const struct canvas_fonts *f);
// Returns the index of the first font that contains the character c, for png_fonts_set(); 0: none.
int png_fonts_of(struct canvas_fonts *f, int32_t c, unsigned how);
void png_fonts_set(struct canvas_fonts *f, cairo_t *cr, int index, int size, unsigned how);
// Sets the font options with which texts are measured and drawn: smooth, and not fitted to pixels.
void png_fonts_prepare(cairo_t *cr);
// Draws text[n] with its left end at (x, y). Returns its width.
double png_fonts_draw(struct canvas_fonts *f, cairo_t *cr, const char *text, size_t n, int size,
                      unsigned how, double x, double y);
#endif
