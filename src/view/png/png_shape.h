// SPDX-License-Identifier: MIT
// png_shape.h: declares the functions that shape texts, for png_fonts.c: letters that join or form
// clusters (Arabic, Devanagari) and words that are written from right to left.
#ifndef QKV_VIEW_PNG_SHAPE_H
#define QKV_VIEW_PNG_SHAPE_H
#include "view/png/png_fonts.h"

struct png_shaper;
// Returns NULL if memory is exhausted.
struct png_shaper *png_shaper_new(void);
void png_shaper_free(struct png_shaper *s);
// Returns whether the glyphs of text[n] depend on more than single characters in their order.
bool png_shape_needed(const char *text, size_t n);
// Measures text[n] and, unless to is NULL, draws it there with its left end at (x, y). measure: the
// context of f. Returns the width; -1: memory is exhausted or a font cannot be read.
double png_shape_put(struct png_shaper *s, struct canvas_fonts *f, cairo_t *measure, cairo_t *to,
                     const char *text, size_t n, int size, unsigned how, double x, double y);
#endif
