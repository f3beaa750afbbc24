// SPDX-License-Identifier: MIT
// png_paint.c: draws a canvas as pixels with cairo. A unit of the canvas is canvas_scale() pixels.
#include "view/png/png_fonts.h"
#include "view/png/png_painter.h"
#include <math.h>

const struct png_host *png_host;

struct paint {
    cairo_t *cr;
    const struct canvas *s;
    bool dark;
    double end_x, end_y; // end of the last text, where CANVAS_AFTER continues
};

static void set_color(struct paint *p, int color, double opacity)
{
    const uint32_t c = png_host->rgb(color, p->dark);
    cairo_set_source_rgba(p->cr, (c >> 16) / 255.0, (c >> 8 & 255) / 255.0, (c & 255) / 255.0,
                          opacity);
}

static double put_line(struct paint *p, const struct canvas_op *op, const char *text, double x,
                       double y)
{
    return png_fonts_draw(p->s->fonts, p->cr, text, (size_t)op->n, op->size, op->how, x, y);
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
        x = -png_fonts_width(p->s->fonts, text, (size_t)op->n, op->size, op->how);
        if (op->how & CANVAS_MIDDLE) x /= 2;
    }
    if (op->how & CANVAS_AFTER) {
        p->end_x += CANVAS_SPACE;
        p->end_x += put_line(p, op, text, p->end_x, p->end_y);
        return;
    }
    cairo_save(p->cr);
    cairo_translate(p->cr, op->x, op->y);
    if (op->how & (CANVAS_TILT | CANVAS_UP))
        cairo_rotate(p->cr, (op->how & CANVAS_UP ? -90 : -50) * acos(-1) / 180);
    p->end_x = op->x + x + put_line(p, op, text, x, 0);
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
        set_color(p, op->stroke, png_host->link_opacity(op->opacity, p->dark, op->how != 0));
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
        set_color(p, op->base + color, 1);
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

static void paint_all(struct paint *p)
{
    png_fonts_prepare(p->cr);
    set_color(p, PALETTE_PAPER, 1);
    cairo_paint(p->cr);
    cairo_scale(p->cr, canvas_scale(p->s), canvas_scale(p->s));
    cairo_set_line_join(p->cr, CAIRO_LINE_JOIN_ROUND);
    cairo_set_line_cap(p->cr, CAIRO_LINE_CAP_ROUND);
    for (int64_t i = 0; i < p->s->ops; i++) put_op(p, &p->s->op[i]);
}

// ---- the file -----------------------------------------------------------------------------------
struct stream {
    png_store *store;
    void *to;
};

static cairo_status_t take(void *ctx, const unsigned char *data, unsigned n)
{
    const struct stream *s = ctx;
    return s->store(s->to, data, n) ? CAIRO_STATUS_SUCCESS : CAIRO_STATUS_NO_MEMORY;
}

static const char *paint(const struct canvas *s, bool dark, png_store *store, void *to)
{
    struct stream stream = { store, to };
    cairo_surface_t *surface =
        cairo_image_surface_create(CAIRO_FORMAT_RGB24, (int)ceil(s->width) * canvas_scale(s),
                                   (int)ceil(s->height) * canvas_scale(s));
    struct paint p = { .cr = cairo_create(surface), .s = s, .dark = dark };
    if (cairo_status(p.cr) == CAIRO_STATUS_SUCCESS) paint_all(&p);
    cairo_status_t status = cairo_status(p.cr);
    if (png_fonts_failed(s->fonts)) status = CAIRO_STATUS_NO_MEMORY;
    cairo_surface_flush(surface);
    if (status == CAIRO_STATUS_SUCCESS)
        status = cairo_surface_write_to_png_stream(surface, take, &stream);
    cairo_destroy(p.cr);
    cairo_surface_destroy(surface);
    return status == CAIRO_STATUS_SUCCESS ? NULL : cairo_status_to_string(status);
}

__attribute__((visibility("default"))) png_painter_function qkv_png_painter;

const struct png_painter *qkv_png_painter(int version, const struct png_host *host)
{
    static const struct png_painter painter = { png_fonts_new, png_fonts_free, png_fonts_width,
                                                paint };
    if (version != PNG_PAINTER_VERSION) return NULL;
    png_host = host;
    return &painter;
}
