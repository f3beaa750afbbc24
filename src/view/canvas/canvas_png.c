// SPDX-License-Identifier: MIT
// canvas_png.c: draws a canvas as pixels with cairo. A unit of the canvas is CANVAS_SCALE pixels.
//
// Each character of a text is drawn with the first font that contains it, in fontconfig's order for
// the font family, as in a browser. Unlike in SVG, letters are not joined (Arabic) and
// right-to-left text is not reordered.
#include "view/canvas/canvas.h"
#include "view/page/compress.h"
#include <cairo.h>
#include <fontconfig/fontconfig.h>
#include <math.h>
#include <string.h>
#include <utf8proc.h>

enum { SIDE_MOST = 32767, FONTS = 24, WAYS = 8, AFTER = 6 };

// A text style (serif, bold, italic), and the fonts of the system for it, best first.
struct way {
    FcFontSet *set;
};
struct paint {
    cairo_t *cr;
    const struct canvas *s;
    bool dark;
    double end_x, end_y; // end of the last text, where CANVAS_AFTER continues
    struct way way[WAYS];
};

static void set_color(struct paint *p, int color, double opacity)
{
    const uint32_t c = palette_rgb(color, p->dark);
    cairo_set_source_rgba(p->cr, (c >> 16) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0,
                          opacity);
}

// ---- fonts --------------------------------------------------------------------------------------
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

static struct way *way_of(struct paint *p, unsigned how)
{
    struct way *w = &p->way[how & (CANVAS_SERIF | CANVAS_BOLD | CANVAS_ITALIC)];
    if (!w->set) w->set = sort_fonts(how);
    return w;
}

// Returns the index of the first font that contains the character; 0 if no font contains it.
static int font_of(const struct way *w, utf8proc_int32_t c)
{
    const int n = w->set ? w->set->nfont : 0;
    for (int i = 0; i < n && i < FONTS; i++) {
        FcCharSet *has;
        if (FcPatternGetCharSet(w->set->fonts[i], FC_CHARSET, 0, &has) == FcResultMatch &&
            FcCharSetHasChar(has, (FcChar32)c))
            return i;
    }
    return 0;
}

static void set_font(struct paint *p, const struct way *w, int font, const struct canvas_op *op)
{
    FcChar8 *family;
    // the family to use if fontconfig finds no font
    const char *name = op->how & CANVAS_SERIF ? "serif" : "sans-serif";
    if (w->set && font < w->set->nfont &&
        FcPatternGetString(w->set->fonts[font], FC_FAMILY, 0, &family) == FcResultMatch)
        name = (const char *)family;
    cairo_select_font_face(
        p->cr, name, op->how & CANVAS_ITALIC ? CAIRO_FONT_SLANT_ITALIC : CAIRO_FONT_SLANT_NORMAL,
        op->how & CANVAS_BOLD ? CAIRO_FONT_WEIGHT_BOLD : CAIRO_FONT_WEIGHT_NORMAL);
    cairo_set_font_size(p->cr, op->size);
}

// Draws a text from (x, y) or, without `draw`, only measures it. The text is divided into runs of
// characters with the same font. Returns its width.
static double put_runs(struct paint *p, const struct canvas_op *op, const char *text, double x,
                       double y, bool draw)
{
    struct way *w = way_of(p, op->how);
    char run[128];
    double width = 0;
    for (int64_t i = 0; i < op->n;) {
        size_t n = 0;
        int font = -1;
        while (i < op->n && n + 5 < sizeof run) {
            utf8proc_int32_t c;
            const utf8proc_ssize_t len =
                utf8proc_iterate((const utf8proc_uint8_t *)text + i, op->n - i, &c);
            const int own = len > 0 ? font_of(w, c) : 0;
            if (len <= 0) break;
            if (font >= 0 && own != font && utf8proc_charwidth(c) > 0) break;
            if (font < 0) font = own;
            memcpy(run + n, text + i, (size_t)len);
            n += (size_t)len;
            i += len;
        }
        if (!n) break; // cannot happen: canvas_text stores only valid UTF-8
        run[n] = 0;
        cairo_text_extents_t e;
        set_font(p, w, font, op);
        cairo_text_extents(p->cr, run, &e);
        if (draw) {
            cairo_move_to(p->cr, x + width, y);
            cairo_show_text(p->cr, run);
        }
        width += e.x_advance;
    }
    return width;
}

static void put_text(struct paint *p, const struct canvas_op *op)
{
    const char *text = p->s->text.at + op->at;
    double x = 0;
    if (!op->n) {
        p->end_x = op->how & CANVAS_AFTER ? p->end_x : op->x;
        p->end_y = op->how & CANVAS_AFTER ? p->end_y : op->y;
        return;
    }
    set_color(p, op->fill, 1);
    if (op->how & (CANVAS_MIDDLE | CANVAS_END)) {
        x = -put_runs(p, op, text, 0, 0, false);
        if (op->how & CANVAS_MIDDLE) x /= 2;
    }
    if (op->how & CANVAS_AFTER) {
        p->end_x += AFTER;
        p->end_x += put_runs(p, op, text, p->end_x, p->end_y, true);
        return;
    }
    cairo_save(p->cr);
    cairo_translate(p->cr, op->x, op->y);
    if (op->how & (CANVAS_TILT | CANVAS_UP))
        cairo_rotate(p->cr, (op->how & CANVAS_UP ? -90 : -50) * acos(-1) / 180);
    p->end_x = op->x + x + put_runs(p, op, text, x, 0, true);
    p->end_y = op->y;
    cairo_restore(p->cr);
}

// ---- marks --------------------------------------------------------------------------------------
static void fill_and_stroke(struct paint *p, const struct canvas_op *op)
{
    if (op->fill) {
        set_color(p, op->fill, op->opacity);
        if (op->stroke)
            cairo_fill_preserve(p->cr);
        else
            cairo_fill(p->cr);
    }
    if (op->stroke) {
        set_color(p, op->stroke, op->opacity);
        cairo_set_line_width(p->cr, op->width);
        cairo_stroke(p->cr);
    }
}

static void put_path(struct paint *p, const struct canvas_op *op)
{
    static const double dash[2] = { 4, 4 };
    const struct canvas_point *at = p->s->point + op->at;
    for (int64_t i = 0; i < op->n; i++) {
        if (at[i].verb == 'M') cairo_move_to(p->cr, at[i].x, at[i].y);
        if (at[i].verb == 'L') cairo_line_to(p->cr, at[i].x, at[i].y);
        if (at[i].verb == 'Z') cairo_close_path(p->cr);
        if (at[i].verb == 'C' && i + 2 < op->n)
            cairo_curve_to(p->cr, at[i].x, at[i].y, at[i + 1].x, at[i + 1].y, at[i + 2].x,
                           at[i + 2].y);
    }
    if (op->kind == CANVAS_LINK) {
        set_color(p, op->stroke, canvas_link_opacity(op->opacity, p->dark, op->how != 0));
        cairo_set_operator(p->cr, p->dark ? CAIRO_OPERATOR_SCREEN : CAIRO_OPERATOR_MULTIPLY);
        cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_BUTT);
        cairo_set_line_width(p->cr, op->width);
        cairo_stroke(p->cr);
        cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_ROUND);
        cairo_set_operator(p->cr, CAIRO_OPERATOR_OVER);
        return;
    }
    if (op->how) cairo_set_dash(p->cr, dash, 2, 0);
    fill_and_stroke(p, op);
    if (op->how) cairo_set_dash(p->cr, NULL, 0, 0);
}

static void put_cells(struct paint *p, const struct canvas_op *op)
{
    const double gap = op->width;
    cairo_set_antialias(p->cr, gap > 0 ? CAIRO_ANTIALIAS_DEFAULT : CAIRO_ANTIALIAS_NONE);
    for (int64_t i = 0; i < op->n; i++) {
        const uint8_t color = p->s->cell[op->at + i];
        if (color == CANVAS_BLANK) continue;
        set_color(p, PALETTE_RAMP + color, 1);
        cairo_rectangle(p->cr, op->x + (double)(i % op->columns) * op->w,
                        op->y + (double)(i / op->columns) * op->h, op->w - gap, op->h - gap);
        cairo_fill(p->cr);
    }
    cairo_set_antialias(p->cr, CAIRO_ANTIALIAS_DEFAULT);
}

static void put_hatch(struct paint *p, const struct canvas_op *op)
{
    cairo_save(p->cr);
    cairo_rectangle(p->cr, op->x, op->y, op->w, op->h);
    cairo_clip(p->cr);
    set_color(p, PALETTE_RULE, 1);
    cairo_set_line_width(p->cr, 1);
    const double step = 5 * sqrt(2);
    for (double x = floor((op->x - op->h) / step) * step; x < op->x + op->w; x += step) {
        cairo_move_to(p->cr, x, op->y);
        cairo_line_to(p->cr, x + op->h, op->y + op->h);
    }
    cairo_stroke(p->cr);
    cairo_restore(p->cr);
}

static void put_op(struct paint *p, const struct canvas_op *op)
{
    switch (op->kind) {
    case CANVAS_BOX:
        cairo_rectangle(p->cr, op->x, op->y, op->w, op->h);
        fill_and_stroke(p, op);
        break;
    case CANVAS_DOT:
        cairo_new_sub_path(p->cr);
        cairo_arc(p->cr, op->x, op->y, op->w, 0, 2 * acos(-1));
        fill_and_stroke(p, op);
        break;
    case CANVAS_PATH:
    case CANVAS_LINK: put_path(p, op); break;
    case CANVAS_TEXT: put_text(p, op); break;
    case CANVAS_CELLS: put_cells(p, op); break;
    case CANVAS_HATCH: put_hatch(p, op); break;
    }
}

// ---- the file -----------------------------------------------------------------------------------
static void put_u32(struct view_text *t, uint32_t x)
{
    const char bytes[4] = { (char)(x >> 24), (char)(x >> 16), (char)(x >> 8), (char)x };
    view_put(t, bytes, 4);
}

// Writes an iTXt chunk with a keyword and a text, not compressed and without a language.
static void put_words(struct view_text *t, const char *keyword, const struct view_text *words)
{
    struct view_text c = { 0 };
    view_put(&c, "iTXt", 4);
    view_put(&c, keyword, strlen(keyword) + 1);
    view_put(&c, "\0\0\0\0", 4);
    if (words->at) view_plain_text(&c, words->at, (size_t)words->used, 1 << 16);
    t->failed |= c.failed;
    if (!c.failed) {
        put_u32(t, (uint32_t)(c.used - 4));
        view_put(t, c.at, (size_t)c.used);
        put_u32(t, view_crc32((const uint8_t *)c.at, c.used));
    }
    view_text_free(&c);
}

struct stream {
    struct view_text *t;
    const struct canvas *s;
    int64_t bytes;
};
enum { HEADER = 33 }; // bytes of the signature and the IHDR chunk; our text chunks follow

static cairo_status_t take(void *ctx, const unsigned char *data, unsigned n)
{
    struct stream *to = ctx;
    for (unsigned i = 0; i < n;) {
        const unsigned left = to->bytes < HEADER ? (unsigned)(HEADER - to->bytes) : n - i;
        const unsigned part = left < n - i ? left : n - i;
        view_put(to->t, (const char *)data + i, part);
        i += part;
        to->bytes += part;
        if (to->bytes == HEADER) {
            put_words(to->t, "Title", &to->s->title);
            put_words(to->t, "Description", &to->s->sentence);
        }
    }
    return to->t->failed ? CAIRO_STATUS_NO_MEMORY : CAIRO_STATUS_SUCCESS;
}

static void paint_all(struct paint *p)
{
    cairo_font_options_t *plain = cairo_font_options_create();
    cairo_font_options_set_antialias(plain, CAIRO_ANTIALIAS_GRAY);
    cairo_font_options_set_hint_style(plain, CAIRO_HINT_STYLE_NONE);
    cairo_font_options_set_hint_metrics(plain, CAIRO_HINT_METRICS_OFF);
    cairo_set_font_options(p->cr, plain);
    cairo_font_options_destroy(plain);
    set_color(p, PALETTE_PAPER, 1);
    cairo_paint(p->cr);
    cairo_scale(p->cr, CANVAS_SCALE, CANVAS_SCALE);
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_ROUND);
    for (int64_t i = 0; i < p->s->ops; i++) put_op(p, &p->s->op[i]);
}

qkv_status canvas_png(struct view_text *t, const struct canvas *s, enum qkv_view_theme theme,
                      qkv_error *err)
{
    const double w = ceil(s->width) * CANVAS_SCALE, h = ceil(s->height) * CANVAS_SCALE;
    if (canvas_failed(s)) return qkv_fail_memory(err, NULL);
    if (!(w >= 1 && h >= 1 && w <= SIDE_MOST && h <= SIDE_MOST))
        return qkv_fail(err, QKV_ERR_LIMIT, NULL,
                        "picture too large for PNG, expected at most %d pixels a side, found %.0f "
                        "x %.0f (.svg has no such limit)",
                        SIDE_MOST, w, h);
    cairo_surface_t *surface = cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)w, (int)h);
    struct paint p = { .cr = cairo_create(surface), .s = s, .dark = theme == QKV_THEME_DARK };
    struct stream to = { t, s, 0 };
    if (cairo_status(p.cr) == CAIRO_STATUS_SUCCESS) paint_all(&p);
    const bool painted = cairo_status(p.cr) == CAIRO_STATUS_SUCCESS;
    cairo_surface_flush(surface);
    const bool written =
        painted && cairo_surface_write_to_png_stream(surface, take, &to) == CAIRO_STATUS_SUCCESS;
    for (int i = 0; i < WAYS; i++)
        if (p.way[i].set) FcFontSetDestroy(p.way[i].set);
    cairo_destroy(p.cr);
    cairo_surface_destroy(surface);
    return written ? QKV_OK : qkv_fail_memory(err, NULL);
}
