// SPDX-License-Identifier: MIT
// png_painter.h: the interface between libqkv and libqkv_png. libqkv_png is a library of its own,
// so that only programs that write PNG files load cairo and fontconfig: canvas_png.c opens it when
// the first canvas for a PNG file begins. Both are built from one tree and installed together.
#ifndef QKV_VIEW_PNG_PAINTER_H
#define QKV_VIEW_PNG_PAINTER_H
#include "view/canvas/canvas.h"

// The functions of libqkv that the painter calls.
struct png_host {
    void *(*alloc_zero)(size_t count, size_t size);
    void (*release)(void *p);
    uint32_t (*rgb)(int color, bool dark);
    double (*link_opacity)(double t, bool dark, bool pale);
    size_t (*right_to_left)(const char *text, size_t n); // canvas_right_to_left()
};

// Stores the next n bytes of a PNG file. Returns false if memory is exhausted.
typedef bool png_store(void *to, const void *data, size_t n);

// The functions of the painter. It uses the fonts of the machine, by the styles of canvas.h.
struct png_painter {
    struct canvas_fonts *(*fonts_new)(void); // returns NULL if memory is exhausted
    void (*fonts_free)(struct canvas_fonts *f);
    // Returns the width of text[n] in pixels at zoom 1.
    double (*fonts_width)(struct canvas_fonts *f, const char *text, size_t n, int size,
                          unsigned how);
    // Paints a canvas that has fonts, canvas_scale() pixels per unit, and stores the bytes of the
    // PNG file. Returns NULL or, if cairo cannot paint or store() fails, cairo's name of the error.
    const char *(*paint)(const struct canvas *s, bool dark, png_store *store, void *to);
};

// The one function that libqkv_png exports. Returns NULL if the painter was built for another
// version. host stays valid.
#define PNG_PAINTER_NAME "qkv_png_painter"
enum {
    PNG_PAINTER_VERSION = QKV_VERSION_MAJOR << 20 | QKV_VERSION_MINOR << 10 | QKV_VERSION_PATCH
};
typedef const struct png_painter *png_painter_function(int version, const struct png_host *host);
#endif
