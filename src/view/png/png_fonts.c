// SPDX-License-Identifier: MIT
// png_fonts.c: measures and draws texts with the fonts of the machine, for PNG.
//
// Each character of a text is drawn with the first font that contains it, in fontconfig's order for
// the font family, as in a browser. Texts whose letters join or run from right to left are drawn by
// png_shape.c; where it is not built (QKV_PNG_SHAPES), letter by letter in the order of the text.
#include "view/png/png_fonts.h"
#ifdef QKV_PNG_SHAPES
#include "view/png/png_shape.h"
#endif
#include <fontconfig/fontconfig.h>
#include <string.h>
#include <utf8proc.h>

enum { STYLES = 8 };
struct canvas_fonts {
    cairo_surface_t *surface;
    cairo_t *cr;            // measures texts
    FcFontSet *set[STYLES]; // by style (serif, bold, italic): the fonts of the machine, best first
    struct png_shaper *shaper;
    bool failed; // a text could not be shaped
};

void png_fonts_prepare(cairo_t *cr)
{
    cairo_font_options_t *plain = cairo_font_options_create();
    cairo_font_options_set_antialias(plain, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(plain, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(plain, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(cr, plain);
    cairo_font_options_destroy(plain);
}

struct canvas_fonts *png_fonts_new(void)
{
    struct canvas_fonts *f = png_host->alloc_zero(1, sizeof *f);
    if (!f) return NULL;
    f->surface = cairo_image_surface_create(CAIRO_FORMAT_A8, 1, 1);
    f->cr = cairo_create(f->surface);
    if (cairo_status(f->cr) != CAIRO_STATUS_SUCCESS) {
        png_fonts_free(f);
        return NULL;
    }
    png_fonts_prepare(f->cr);
#ifdef QKV_PNG_SHAPES
    f->shaper = png_shaper_new();
    if (!f->shaper) {
        png_fonts_free(f);
        return NULL;
    }
#endif
    return f;
}

bool png_fonts_failed(const struct canvas_fonts *f)
{
    return f->failed;
}

void png_fonts_free(struct canvas_fonts *f)
{
    if (!f) return;
#ifdef QKV_PNG_SHAPES
    png_shaper_free(f->shaper);
#endif
    for (int i = 0; i < STYLES; i++)
        if (f->set[i]) FcFontSetDestroy(f->set[i]);
    cairo_destroy(f->cr);
    cairo_surface_destroy(f->surface);
    png_host->release(f);
}

static FcFontSet *sort_fonts(unsigned how)
{
    static const char *const families[2][5] = {
        { "Inter", "Segoe UI", "Noto Sans", "DejaVu Sans", "sans-serif" },
        { "Palatino", "P052", "Palatino Linotype", "Georgia", "serif" },
    };
    FcPattern *request = FcPatternCreate();
    FcFontSet *set = NULL;
    FcResult result;
    if (!request) return NULL;
    for (int i = 0; i < 5; i++)
        FcPatternAddString(request, FC_FAMILY,
                           (const FcChar8 *)families[(how & CANVAS_SERIF) != 0][i]);
    FcPatternAddInteger(request, FC_WEIGHT, how & CANVAS_BOLD ? FC_WEIGHT_BOLD : FC_WEIGHT_REGULAR);
    FcPatternAddInteger(request, FC_SLANT, how & CANVAS_ITALIC ? FC_SLANT_ITALIC : FC_SLANT_ROMAN);
    FcPatternAddBool(request, FC_SCALABLE, FcTrue);
    if (FcConfigSubstitute(NULL, request, FcMatchPattern)) {
        FcDefaultSubstitute(request);
        set = FcFontSort(NULL, request, FcTrue, NULL, &result);
    }
    FcPatternDestroy(request);
    return set;
}

static FcFontSet *fonts_of(struct canvas_fonts *f, unsigned how)
{
    FcFontSet **set = &f->set[how & (CANVAS_SERIF | CANVAS_BOLD | CANVAS_ITALIC)];
    if (!*set) *set = sort_fonts(how);
    return *set;
}

// Returns the index of the first font that contains the character; 0 if no font contains it.
static int font_of(const FcFontSet *set, utf8proc_int32_t c)
{
    const int n = set ? set->nfont : 0;
    for (int i = 0; i < n; i++) {
        FcCharSet *has;
        if (FcPatternGetCharSet(set->fonts[i], FC_CHARSET, 0, &has) == FcResultMatch &&
            FcCharSetHasChar(has, (FcChar32)c))
            return i;
    }
    return 0;
}

static void set_font(cairo_t *cr, const FcFontSet *set, int font, int size, unsigned how)
{
    FcChar8 *family;
    // the family to use if fontconfig finds no font
    const char *name = how & CANVAS_SERIF ? "serif" : "sans-serif";
    if (set && font < set->nfont &&
        FcPatternGetString(set->fonts[font], FC_FAMILY, 0, &family) == FcResultMatch)
        name = (const char *)family;
    cairo_select_font_face(cr, name,
                           how & CANVAS_ITALIC ? CAIRO_FONT_SLANT_ITALIC : CAIRO_FONT_SLANT_NORMAL,
                           how & CANVAS_BOLD ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(cr, size);
}

int png_fonts_of(struct canvas_fonts *f, int32_t c, unsigned how)
{
    return font_of(fonts_of(f, how), c);
}

void png_fonts_set(struct canvas_fonts *f, cairo_t *cr, int index, int size, unsigned how)
{
    set_font(cr, fonts_of(f, how), index, size, how);
}

// Copies the first characters of text[n] that have the same font to run[size]. Returns their
// length in bytes; 0: the text is not valid UTF-8 or is empty.
static size_t next_run(char *run, size_t size, int *font, const FcFontSet *set, const char *text,
                       size_t n)
{
    size_t used = 0;
    *font = -1;
    while (used < n && used + 5 < size) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text + used,
                                                      (utf8proc_ssize_t)(n - used), &c);
        const int own = len > 0 ? font_of(set, c) : 0;
        if (len <= 0) break;
        if (*font >= 0 && own != *font && utf8proc_charwidth(c) > 0) break;
        if (*font < 0) *font = own;
        memcpy(run + used, text + used, (size_t)len);
        used += (size_t)len;
    }
    run[used] = 0;
    return used;
}

// Draws or measures the characters one by one.
static double put_runs(struct canvas_fonts *f, cairo_t *cr, const char *text, size_t n, int size,
                       unsigned how, double x, double y, bool draw)
{
    const FcFontSet *set = fonts_of(f, how);
    char run[128];
    double width = 0;
    int font;
    for (size_t i = 0, used; i < n; i += used) {
        cairo_text_extents_t e;
        used = next_run(run, sizeof run, &font, set, text + i, n - i);
        if (!used) break; // cannot happen: canvas_text stores only valid UTF-8
        set_font(cr, set, font, size, how);
        cairo_text_extents(cr, run, &e);
        if (draw) {
            cairo_move_to(cr, x + width, y);
            cairo_show_text(cr, run);
        }
        width += e.x_advance;
    }
    return width;
}

static double put(struct canvas_fonts *f, cairo_t *to, const char *text, size_t n, int size,
                  unsigned how, double x, double y)
{
#ifdef QKV_PNG_SHAPES
    if (png_shape_needed(text, n)) {
        const double width = png_shape_put(f->shaper, f, f->cr, to, text, n, size, how, x, y);
        f->failed |= width < 0;
        return width < 0 ? 0 : width;
    }
#endif
    return put_runs(f, to ? to : f->cr, text, n, size, how, x, y, to != NULL);
}

double png_fonts_width(struct canvas_fonts *f, const char *text, size_t n, int size, unsigned how)
{
    return put(f, NULL, text, n, size, how, 0, 0);
}

double png_fonts_draw(struct canvas_fonts *f, cairo_t *cr, const char *text, size_t n, int size,
                      unsigned how, double x, double y)
{
    return put(f, cr, text, n, size, how, x, y);
}
