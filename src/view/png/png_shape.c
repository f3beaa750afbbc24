// SPDX-License-Identifier: MIT
// png_shape.c: shapes texts with FriBidi and HarfBuzz.
//
// FriBidi computes the direction of each character. HarfBuzz chooses the glyphs of each run of
// characters that have the same direction, font and script; their order is then the order in which
// the runs are seen from left to right.
#include "view/png/png_shape.h"
#include <cairo-ft.h>
#include <fribidi.h>
#include <hb-ft.h>
#include <hb-ot.h>
#include <hb.h>
#include <utf8proc.h>

enum { FONTS_KEPT = 16, UNITS = 1 << 16 }; // UNITS: positions of HarfBuzz per font size
struct png_shaper {
    hb_buffer_t *buffer;
    struct {
        hb_font_t *font; // NULL: none
        unsigned style;
        int index;
    } kept[FONTS_KEPT];
    int next; // the place that the next font takes
};

struct png_shaper *png_shaper_new(void)
{
    struct png_shaper *s = png_host->alloc_zero(1, sizeof *s);
    if (!s) return NULL;
    s->buffer = hb_buffer_create();
    if (hb_buffer_allocation_successful(s->buffer)) return s;
    png_shaper_free(s);
    return NULL;
}

void png_shaper_free(struct png_shaper *s)
{
    if (!s) return;
    for (int i = 0; i < FONTS_KEPT; i++)
        if (s->kept[i].font) hb_font_destroy(s->kept[i].font);
    hb_buffer_destroy(s->buffer);
    png_host->release(s);
}

bool png_shape_needed(const char *text, size_t n)
{
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (len <= 0) return false;
        i += (size_t)len;
        if (c < 0x300) continue;
        const utf8proc_property_t *p = utf8proc_get_property(c);
        switch (p->bidi_class) {
        case UTF8PROC_BIDI_CLASS_R:
        case UTF8PROC_BIDI_CLASS_AL:
        case UTF8PROC_BIDI_CLASS_AN: return true;
        default: break;
        }
        switch (p->boundclass) { // the character forms a cluster with one before or after it
        case UTF8PROC_BOUNDCLASS_OTHER:
        case UTF8PROC_BOUNDCLASS_CONTROL:
        case UTF8PROC_BOUNDCLASS_LV:
        case UTF8PROC_BOUNDCLASS_LVT:
        case UTF8PROC_BOUNDCLASS_EXTENDED_PICTOGRAPHIC: break;
        default: return true;
        }
    }
    return false;
}

// ---- fonts --------------------------------------------------------------------------------------
// Makes the font of HarfBuzz from the file that cairo draws with, so that glyphs have one number.
static hb_font_t *open_font(struct canvas_fonts *f, cairo_t *cr, int index, int size, unsigned how)
{
    png_fonts_set(f, cr, index, size, how);
    cairo_scaled_font_t *scaled = cairo_get_scaled_font(cr);
    if (cairo_scaled_font_get_type(scaled) != CAIRO_FONT_TYPE_FT) return NULL;
    FT_Face face = cairo_ft_scaled_font_lock_face(scaled);
    if (!face) return NULL;
    hb_font_t *font = hb_ft_font_create_referenced(face);
    cairo_ft_scaled_font_unlock_face(scaled);
    if (font == hb_font_get_empty()) return NULL;
    hb_ot_font_set_funcs(font); // widths that are not fitted to pixels
    hb_font_set_scale(font, UNITS, UNITS);
    hb_font_set_ppem(font, 0, 0);
    return font;
}

static hb_font_t *font_at(struct png_shaper *s, struct canvas_fonts *f, cairo_t *cr, int index,
                          int size, unsigned how)
{
    const unsigned style = how & (CANVAS_SERIF | CANVAS_BOLD | CANVAS_ITALIC);
    for (int i = 0; i < FONTS_KEPT; i++)
        if (s->kept[i].font && s->kept[i].style == style && s->kept[i].index == index)
            return s->kept[i].font;
    hb_font_t *font = open_font(f, cr, index, size, how);
    if (!font) return NULL;
    if (s->kept[s->next].font) hb_font_destroy(s->kept[s->next].font);
    s->kept[s->next].font = font;
    s->kept[s->next].style = style;
    s->kept[s->next].index = index;
    s->next = (s->next + 1) % FONTS_KEPT;
    return font;
}

// ---- characters and runs ------------------------------------------------------------------------
struct run { // characters from .. from + n - 1
    int from, n, font;
    hb_script_t script; // HB_SCRIPT_COMMON: of no certain script
    FriBidiLevel level; // odd: from right to left
};
struct line {
    int n, runs;
    FriBidiChar *c;
    FriBidiCharType *type;
    FriBidiBracketType *bracket;
    FriBidiLevel *level;
    int *font;
    struct run *run;
    void *memory;
};

static bool line_new(struct line *l, size_t most)
{
    static const size_t each = sizeof *l->run + sizeof *l->c + sizeof *l->type +
                               sizeof *l->bracket + sizeof *l->font + sizeof *l->level;
    *l = (struct line){ .memory = png_host->alloc_zero(most, each) };
    if (!l->memory) return false;
    l->run = l->memory;
    l->c = (void *)(l->run + most);
    l->type = (void *)(l->c + most);
    l->bracket = (void *)(l->type + most);
    l->font = (void *)(l->bracket + most);
    l->level = (void *)(l->font + most);
    return true;
}

static void add(struct line *l, struct canvas_fonts *f, utf8proc_int32_t c, unsigned how)
{
    const bool stays = l->n && utf8proc_charwidth(c) == 0; // a mark: in the font of its letter
    l->font[l->n] = stays ? l->font[l->n - 1] : png_fonts_of(f, c, how);
    l->c[l->n++] = (FriBidiChar)c;
}

// Reads text[n] and isolates its right-to-left words, as SVG does.
static bool read_text(struct line *l, struct canvas_fonts *f, const char *text, size_t n,
                      unsigned how)
{
    size_t end = 0; // of the words that are isolated
    for (size_t i = 0; i < n;) {
        utf8proc_int32_t c;
        const size_t words = i < end ? 0 : png_host->right_to_left(text + i, n - i);
        const utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)text + i, (utf8proc_ssize_t)(n - i), &c);
        if (len <= 0) return false; // cannot happen: canvas_text stores only valid UTF-8
        if (words) add(l, f, 0x2068, how), end = i + words;
        add(l, f, c, how);
        i += (size_t)len;
        if (i == end) add(l, f, 0x2069, how);
    }
    return true;
}

static bool has_script(hb_script_t s)
{
    return s != HB_SCRIPT_COMMON && s != HB_SCRIPT_INHERITED && s != HB_SCRIPT_UNKNOWN;
}

static bool make_runs(struct line *l)
{
    FriBidiParType base = FRIBIDI_PAR_LTR;
    hb_unicode_funcs_t *unicode = hb_unicode_funcs_get_default();
    fribidi_get_bidi_types(l->c, l->n, l->type);
    fribidi_get_bracket_types(l->c, l->n, l->type, l->bracket);
    if (!fribidi_get_par_embedding_levels_ex(l->type, l->bracket, l->n, &base, l->level))
        return false;
    for (int i = 0; i < l->n; i++) {
        const hb_script_t script = hb_unicode_script(unicode, l->c[i]);
        struct run *r = l->runs ? &l->run[l->runs - 1] : NULL;
        if (!r || r->level != l->level[i] || r->font != l->font[i] ||
            (has_script(script) && has_script(r->script) && script != r->script)) {
            r = &l->run[l->runs++];
            *r = (struct run){ i, 0, l->font[i], HB_SCRIPT_COMMON, l->level[i] };
        }
        if (has_script(script)) r->script = script;
        r->n++;
    }
    return true;
}

// Puts the runs into their order from left to right: rule L2 of Unicode's annex 9.
static void order_runs(struct line *l)
{
    FriBidiLevel highest = 0;
    for (int i = 0; i < l->runs; i++)
        if (l->run[i].level > highest) highest = l->run[i].level;
    for (int level = highest; level > 0; level--)
        for (int i = 0, end; i < l->runs; i = end + 1) {
            for (end = i; end < l->runs && l->run[end].level >= level; end++) {
            }
            for (int a = i, b = end - 1; a < b; a++, b--) {
                const struct run swap = l->run[a];
                l->run[a] = l->run[b];
                l->run[b] = swap;
            }
        }
}

// ---- glyphs -------------------------------------------------------------------------------------
static void draw_glyphs(cairo_t *to, const hb_glyph_info_t *info, const hb_glyph_position_t *at,
                        unsigned n, double unit, double x, double y)
{
    cairo_glyph_t glyph[64];
    for (unsigned i = 0, k = 0; i < n; i++) {
        glyph[k++] = (cairo_glyph_t){ info[i].codepoint, x + at[i].x_offset * unit,
                                      y - at[i].y_offset * unit };
        x += at[i].x_advance * unit;
        if (k == sizeof glyph / sizeof *glyph || i + 1 == n) {
            cairo_show_glyphs(to, glyph, (int)k);
            k = 0;
        }
    }
}

// Returns the width of the run; -1: memory is exhausted.
static double put_run(struct png_shaper *s, const struct line *l, const struct run *r,
                      hb_font_t *font, cairo_t *to, int size, double x, double y)
{
    const double unit = (double)size / UNITS;
    double width = 0;
    unsigned n;
    hb_buffer_clear_contents(s->buffer);
    hb_buffer_add_codepoints(s->buffer, l->c, l->n, (unsigned)r->from, r->n);
    hb_buffer_set_direction(s->buffer, r->level & 1 ? HB_DIRECTION_RTL : HB_DIRECTION_LTR);
    hb_buffer_set_script(s->buffer, r->script);
    hb_shape(font, s->buffer, NULL, 0);
    if (!hb_buffer_allocation_successful(s->buffer)) return -1;
    const hb_glyph_info_t *info = hb_buffer_get_glyph_infos(s->buffer, &n);
    const hb_glyph_position_t *at = hb_buffer_get_glyph_positions(s->buffer, &n);
    if (to) draw_glyphs(to, info, at, n, unit, x, y);
    for (unsigned i = 0; i < n; i++) width += at[i].x_advance * unit;
    return width;
}

double png_shape_put(struct png_shaper *s, struct canvas_fonts *f, cairo_t *measure, cairo_t *to,
                     const char *text, size_t n, int size, unsigned how, double x, double y)
{
    struct line l;
    double width = -1;
    if (!line_new(&l, 3 * n)) return -1; // each character may be a word that is isolated
    if (read_text(&l, f, text, n, how) && make_runs(&l)) {
        width = 0;
        order_runs(&l);
        for (int i = 0; i < l.runs && width >= 0; i++) {
            const struct run *r = &l.run[i];
            hb_font_t *font = font_at(s, f, measure, r->font, size, how);
            if (to && font) png_fonts_set(f, to, r->font, size, how);
            const double w = font ? put_run(s, &l, r, font, to, size, x + width, y) : -1;
            width = w < 0 ? -1 : width + w;
        }
    }
    png_host->release(l.memory);
    return width;
}
