// SPDX-License-Identifier: MIT
// chart_draw.c: draws the panels of a chart on a canvas: axes, bands, bars, curves and points.
#include "view/chart/chart_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACROSS_APART = 28,
    ACROSS_LEAST = 240, // least width of panels that are next to each other
    DOWN_APART = 14,
    NAME_LINE = 14, // height of a line of a panel's name
    STRONG_DOTS = 60,
    FOLDED = 80 // names of positions are folded if each has at least this width
};

// ---- axes ---------------------------------------------------------------------------------------
static double number_width(struct canvas *s, double x)
{
    struct view_text t = { 0 };
    chart_number_text(&t, x);
    s->failed |= t.failed;
    const double width = t.at ? canvas_width(s, t.at, (size_t)t.used, 11, 0) : 0;
    view_text_free(&t);
    return width;
}

static void draw_y_axis(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->y;
    double tick[CHART_TICKS];
    if (a->label) { // the axis has names of positions instead of numbers
        for (int64_t i = 0; i < a->labels; i++) {
            if (!a->label[i] || (double)i < f->y.low || (double)i > f->y.high) continue;
            canvas_cut(s, f->left - 10, chart_py(f, (double)i) + 4, 11, CANVAS_END, PALETTE_TEXT2,
                       a->label[i], strlen(a->label[i]), f->left - f->edge - 10);
        }
        return;
    }
    const int n = chart_ticks(tick, &f->y, (int)fmax(2, (f->bottom - f->top) / 40));
    for (int i = 0; i < n; i++) {
        const double y = chart_py(f, tick[i]);
        canvas_line(s, f->left, y, f->right, y, PALETTE_RULE, 1);
        chart_draw_number(s, f->left - 10, y + 4, CANVAS_END, PALETTE_TEXT3, 11, tick[i]);
    }
}

// Draws the names of the positions on the x axis: on one line if they fit, folded into a few lines
// if the positions are far apart, and rotated if they are not. Returns the y coordinate below them.
static double draw_places(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->x;
    const double capacity = (f->right - f->left) / (double)qkv_max64(1, a->labels);
    double widest = 0, end = f->bottom + 22;
    for (int64_t i = 0; i < a->labels; i++)
        if (a->label[i])
            widest = fmax(widest, canvas_width(s, a->label[i], strlen(a->label[i]), 11, 0));
    const bool level = widest <= (capacity < FOLDED ? 1 : 3) * (capacity - 8);
    double last = -INFINITY;
    for (int64_t i = 0; i < a->labels; i++) {
        const double x = chart_px(f, (double)i);
        if (!a->label[i] || (!level && x - last < CHART_TILTED)) continue;
        last = x;
        if (level)
            end = fmax(end, canvas_fold(s, x, f->bottom + 17, capacity - 8, 11, CANVAS_MIDDLE,
                                        PALETTE_TEXT2, a->label[i], 14) -
                                9);
        else
            canvas_cut(s, x + 4, f->bottom + 12, 11, CANVAS_END | CANVAS_TILT, PALETTE_TEXT2,
                       a->label[i], strlen(a->label[i]),
                       fmin(90, (x + 4 - f->edge) / CANVAS_TILT_X));
    }
    return level ? end : f->bottom + 14 + CANVAS_TILT_Y * fmin(widest, 90);
}

// Draws the x axis. Returns the y coordinate below the axis.
static double draw_x_axis(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->x;
    double tick[CHART_TICKS], y = f->bottom;
    if (!f->axis) return y;
    if (a->label) {
        y = draw_places(s, f);
    } else {
        const int n = chart_ticks(tick, &f->x, (int)fmax(3, (f->right - f->left) / 90));
        double end = -INFINITY; // of the last number
        for (int i = 0; i < n; i++) {
            const double x = chart_px(f, tick[i]), half = number_width(s, tick[i]) / 2;
            canvas_line(s, x, f->bottom, x, f->bottom + 5, PALETTE_RULE, 1);
            if (x - half < end + 6) continue;
            chart_draw_number(s, x, f->bottom + 19, CANVAS_MIDDLE, PALETTE_TEXT3, 11, tick[i]);
            end = x + half;
        }
        y += 24;
    }
    if (a->name) {
        y = canvas_fold(s, f->right, y + 11, f->right - f->edge, 11, CANVAS_END, PALETTE_TEXT3,
                        a->name, NAME_LINE) +
            5 - NAME_LINE;
    }
    return y;
}

// ---- series -------------------------------------------------------------------------------------
static void draw_band(struct canvas *s, const struct chart_field *f, const struct qkv_chart_line *l,
                      int color)
{
    int64_t from = 0;
    if (!l->low) return;
    while (from < l->n) { // a gap in the data divides a line into parts: draw each part
        int64_t end = from;
        while (end < l->n && chart_has_place(f, chart_x(l, end), l->high[end]) &&
               isfinite(l->low[end]))
            end++;
        if (end - from > 1) {
            canvas_path(s, color, PALETTE_NONE, 0, .14);
            for (int64_t i = from; i < end; i++) {
                const double x = chart_px(f, chart_x(l, i)), y = chart_py(f, l->high[i]);
                if (i == from)
                    canvas_move_to(s, x, y);
                else
                    canvas_line_to(s, x, y);
            }
            for (int64_t i = end - 1; i >= from; i--)
                canvas_line_to(s, chart_px(f, chart_x(l, i)), chart_py(f, l->low[i]));
            canvas_close(s);
        }
        from = end + 1;
    }
}

static void draw_curve(struct canvas *s, const struct chart_field *f,
                       const struct qkv_chart_line *l, int color)
{
    static const float width[QKV_CHART_STYLES] = { 1.5f, 2.4f, 1.1f, 1.2f, 0, 0, 2.2f };
    bool joined = false;
    canvas_path(s, PALETTE_NONE, color, width[l->style], l->style == QKV_CHART_THIN ? .75 : 1);
    if (l->style == QKV_CHART_DASHED) canvas_dashed(s);
    for (int64_t i = 0; i < l->n; i++) {
        const double x = chart_x(l, i);
        if (!chart_has_place(f, x, l->y[i])) {
            joined = false;
            continue;
        }
        if (joined)
            canvas_line_to(s, chart_px(f, x), chart_py(f, l->y[i]));
        else
            canvas_move_to(s, chart_px(f, x), chart_py(f, l->y[i]));
        joined = true;
    }
}

// Draws an arrowhead at the end of each segment, large enough for segments of at least its length.
static void draw_heads(struct canvas *s, const struct chart_field *f,
                       const struct qkv_chart_line *l, int color)
{
    enum { LONG = 13, HALF = 5 };
    for (int64_t i = 1; i < l->n; i++) {
        if (!chart_has_place(f, chart_x(l, i - 1), l->y[i - 1]) ||
            !chart_has_place(f, chart_x(l, i), l->y[i]))
            continue;
        const double x = chart_px(f, chart_x(l, i)), y = chart_py(f, l->y[i]),
                     dx = x - chart_px(f, chart_x(l, i - 1)), dy = y - chart_py(f, l->y[i - 1]),
                     far = sqrt(dx * dx + dy * dy), size = fmin(1, far / (2 * LONG));
        if (far <= 0) continue;
        const double ux = dx / far * size, uy = dy / far * size;
        canvas_path(s, color, PALETTE_NONE, 0, 1);
        canvas_move_to(s, x, y);
        canvas_line_to(s, x - LONG * ux + HALF * uy, y - LONG * uy - HALF * ux);
        canvas_line_to(s, x - LONG * ux - HALF * uy, y - LONG * uy + HALF * ux);
        canvas_close(s);
    }
}

static void draw_points(struct canvas *s, const struct chart_field *f,
                        const struct qkv_chart_line *l, int color)
{
    for (int64_t i = 0; i < l->n; i++)
        if (chart_has_place(f, chart_x(l, i), l->y[i]))
            canvas_dot(s, chart_px(f, chart_x(l, i)), chart_py(f, l->y[i]),
                       l->style == QKV_CHART_POINTS ? 3.2 : 2.6,
                       l->style == QKV_CHART_POINTS ? color : PALETTE_PAPER, color, 1.6);
}

// Draws the bars of a line. It is number `place` of the `all` lines that are drawn as bars; their
// bars at the same x are next to each other.
static void draw_bars(struct canvas *s, const struct chart_field *f, const struct qkv_chart_line *l,
                      int color, int64_t place, int64_t all)
{
    double apart = f->right - f->left;
    for (int64_t i = 1; i < l->n; i++)
        apart = fmin(apart, fabs(chart_px(f, chart_x(l, i)) - chart_px(f, chart_x(l, i - 1))));
    const double each = fmin(46, fmax(1, apart * .74 / (double)all));
    const double foot = chart_py(f, f->y.log ? f->y.low : fmin(fmax(0, f->y.low), f->y.high));
    for (int64_t i = 0; i < l->n; i++) {
        if (!chart_has_place(f, chart_x(l, i), l->y[i])) continue;
        const double x = chart_px(f, chart_x(l, i)) + each * ((double)place - .5 * (double)all);
        const double y = chart_py(f, l->y[i]);
        canvas_box(s, x, fmin(y, foot), fmax(.5, each - (all > 1 ? 1 : 0)),
                   fmax(.5, fabs(foot - y)), color);
    }
}

static void draw_series(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_panel *p = f->panel;
    int64_t bars = 0, bar = 0;
    for (int64_t i = 0; i < p->lines; i++) bars += p->line[i].style == QKV_CHART_BARS;
    for (int64_t i = 0; i < p->lines; i++)
        draw_band(s, f, &p->line[i], chart_color(p->line[i].hue, i));
    for (int64_t i = 0; i < p->lines; i++) {
        const struct qkv_chart_line *l = &p->line[i];
        const int color = chart_color(l->hue, i);
        if (l->style == QKV_CHART_BARS)
            draw_bars(s, f, l, color, bar++, bars);
        else if (l->style != QKV_CHART_POINTS)
            draw_curve(s, f, l, color);
        if (l->style == QKV_CHART_POINTS || (l->style == QKV_CHART_STRONG && l->n <= STRONG_DOTS))
            draw_points(s, f, l, color);
        if (l->style == QKV_CHART_ARROW) draw_heads(s, f, l, color);
    }
}

// ---- numbers for the page -----------------------------------------------------------------------
static void frame_scale(struct view_text *t, const char *name, const struct chart_scale *s)
{
    view_say(t, ",\"%s\":[", name);
    chart_json(t, s->low);
    view_put(t, ",", 1);
    chart_json(t, s->high);
    view_say(t, ",%d]", s->log);
}

static void frame_names(struct view_text *t, const char *name, const char *const *label, int64_t n)
{
    if (!label) return;
    view_say(t, ",\"%s\":[", name);
    for (int64_t i = 0; i < n; i++) {
        if (i) view_put(t, ",", 1);
        view_json_text(t, label[i] ? label[i] : "", label[i] ? strlen(label[i]) : 0);
    }
    view_put(t, "]", 1);
}

static void frame_lines(struct chart_frame *frame, const struct chart_field *f)
{
    const struct qkv_chart_panel *p = f->panel;
    if (!frame) return;
    struct view_text *t = &frame->text;
    view_say(t, "%s{\"box\":[%.0f,%.0f,%.0f,%.0f]", t->used ? "," : "", f->left, f->top, f->right,
             f->bottom);
    frame_scale(t, "x", &f->x);
    frame_scale(t, "y", &f->y);
    if (frame->only_places) {
        view_put(t, "}", 1);
        return;
    }
    frame_names(t, "name", &p->name, p->name ? 1 : 0);
    frame_names(t, "of", &p->x.name, p->x.name ? 1 : 0);
    frame_names(t, "places", p->x.label, p->x.labels);
    view_say(t, ",\"lines\":[");
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        bool any = false;
        view_say(t, "%s{\"name\":", k ? "," : "");
        view_json_text(t, l->name ? l->name : "", l->name ? strlen(l->name) : 0);
        view_say(t, ",\"colour\":%d,\"at\":[", chart_color(l->hue, k));
        for (int64_t i = 0; i < l->n; i++) {
            if (!chart_has_place(f, chart_x(l, i), l->y[i])) continue;
            view_say(t, any ? ",[" : "[");
            any = true;
            chart_json(t, chart_x(l, i));
            view_put(t, ",", 1);
            chart_json(t, l->y[i]);
            if (l->text && l->text[i]) {
                view_put(t, ",", 1);
                view_json_text(t, l->text[i], strlen(l->text[i]));
            }
            view_put(t, "]", 1);
        }
        view_say(t, "]}");
    }
    view_say(t, "]}");
}

// ---- panels -------------------------------------------------------------------------------------
static double axis_capacity(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->y;
    double tick[CHART_TICKS], widest = 26;
    const int n = a->label ? 0 : chart_ticks(tick, &f->y, 5);
    for (int i = 0; i < n; i++) widest = fmax(widest, number_width(s, tick[i]));
    for (int64_t i = 0; a->label && i < a->labels; i++)
        if (a->label[i])
            widest = fmax(widest, canvas_width(s, a->label[i], strlen(a->label[i]), 11, 0));
    return fmin(widest, 140) + 14;
}

static double panel_height(const struct qkv_chart *c, const struct qkv_chart_panel *p)
{
    if (p->height > 0) return fmax(16, fmin(p->height, 4000));
    if (c->across >= 4) return 84;
    if (c->across == 3) return 150;
    return c->panels > 1 ? 210 : 330;
}

// Returns whether the quantity of a panel has a place in the line of its name.
static bool follows(const struct canvas *s, const char *name, const char *more, double width)
{
    if (!name || !*name || !more) return false;
    return canvas_width(s, name, strlen(name), 11, CANVAS_BOLD) + CANVAS_SPACE +
               canvas_width(s, more, strlen(more), 11, 0) <=
           width;
}

int chart_name_lines(const struct canvas *s, const char *name, const char *more, double width)
{
    const int lines = name ? canvas_lines(s, width, 11, CANVAS_BOLD, name) : 0;
    return lines +
           (more && !follows(s, name, more, width) ? canvas_lines(s, width, 11, 0, more) : 0);
}

double chart_name(struct canvas *s, const char *name, const char *more, double left, double width,
                  double y)
{
    const bool same_line = follows(s, name, more, width);
    double next = y;
    if (name)
        next = canvas_fold(s, left, next, width, 11, CANVAS_BOLD, PALETTE_TEXT2, name, NAME_LINE);
    if (more && same_line)
        canvas_text(s, left, y, 11, CANVAS_AFTER, PALETTE_TEXT3, more, strlen(more));
    else if (more)
        next = canvas_fold(s, left, next, width, 11, 0, PALETTE_TEXT3, more, NAME_LINE);
    return fmax(y, next - NAME_LINE);
}

// Draws a panel. Returns the y coordinate below the panel.
static double draw_panel(struct canvas *s, const struct qkv_chart *c, struct chart_field *f,
                         double left, double width, double y, struct chart_frame *frame)
{
    const struct qkv_chart_panel *p = f->panel;
    y += 18;
    y = chart_name(s, p->name, p->y.name, left, width, y);
    f->top = y + (p->name || p->y.name ? 10 : -8);
    f->bottom = f->top + panel_height(c, p);
    f->edge = left;
    f->left = left + fmax(axis_capacity(s, f), c->across <= 1 ? 48 : 34);
    f->right = left + width - f->label;
    if (p->equal) chart_equal(&f->x, &f->y, f->right - f->left, f->bottom - f->top);
    draw_y_axis(s, f);
    y = draw_x_axis(s, f);
    draw_series(s, f);
    chart_draw_texts(s, f);
    frame_lines(frame, f);
    return y;
}

// Returns the width of the space for names of lines in a panel.
static double label_most(double width)
{
    return fmax(width * .4, fmin(160, width * .48));
}

static double draw_one(struct canvas *s, const struct qkv_chart *c, int64_t i, double left,
                       double width, double y, struct chart_frame *frame)
{
    const struct qkv_chart_panel *p = &c->panel[i];
    const int64_t across = qkv_max64(1, c->across);
    if (p->grid) {
        y = chart_draw_grid(s, p, left, width, y, frame);
    } else {
        struct chart_field f = { .panel = p, .x = chart_scale_x(p), .y = chart_scale_y(p) };
        f.axis = !c->same_x || i + across >= c->panels;
        if (c->same_x) f.x = chart_shared_x(c);
        for (int64_t k = c->same_x ? i % across : i; k < c->panels;
             k += c->same_x ? across : c->panels)
            f.label = fmax(f.label, c->panel[k].grid ? 0 : chart_label_width(s, &c->panel[k]));
        f.label = fmin(f.label, label_most(width));
        y = draw_panel(s, c, &f, left, width, y, frame);
    }
    if (p->note) y = canvas_fold(s, left, y + 14, width, 11, 0, PALETTE_TEXT3, p->note, 15) - 8;
    return y;
}

static int name_lines(struct canvas *s, const struct qkv_chart_panel *p, double width)
{
    struct view_text names = { 0 };
    if (p->grid) chart_grid_axes(&names, p);
    s->failed |= names.failed;
    const int lines = chart_name_lines(s, p->name, p->grid ? names.at : p->y.name, width);
    view_text_free(&names);
    return lines > 1 ? lines : 1;
}

static double panel_width(double all, int64_t across)
{
    return (all - ACROSS_APART * (double)(across - 1)) / (double)across;
}

// Returns true if fewer panels should be next to each other: they are narrow, or the names of their
// lines would be cut.
static bool is_crowded(struct canvas *s, const struct qkv_chart *c, int64_t across, double all)
{
    const double width = panel_width(all, across);
    bool crowded = width < ACROSS_LEAST;
    for (int64_t i = 0; i < c->panels; i++)
        crowded |= !c->panel[i].grid && chart_label_width(s, &c->panel[i]) > label_most(width);
    return across > 1 && crowded;
}

void chart_draw(struct canvas *s, const struct qkv_chart *given, bool head,
                struct chart_frame *frame)
{
    struct qkv_chart chart = *given;
    const struct qkv_chart *c = &chart;
    const double left = head ? CHART_MARGIN : 0, all = s->width - 2 * left;
    int64_t across = qkv_min64(qkv_max64(1, c->across), c->panels);
    while (s->width < CHART_WIDTH - 2 * CHART_MARGIN && is_crowded(s, c, across, all)) across--;
    if (across < c->across) chart.across = across;
    const double width = panel_width(all, across);
    double y = head ? canvas_head(s, left) - 10 : 0;
    for (int64_t i = 0; i < c->panels; i += across) {
        double end = y;
        int lines = 0; // of the longest name: panels next to each other begin at the same height
        for (int64_t k = 0; k < across && i + k < c->panels; k++)
            lines = (int)qkv_max64(lines, name_lines(s, &c->panel[i + k], width));
        for (int64_t k = 0; k < across && i + k < c->panels; k++) {
            const int fewer = lines - name_lines(s, &c->panel[i + k], width);
            end = fmax(end, draw_one(s, c, i + k, left + (double)k * (width + ACROSS_APART), width,
                                     y + NAME_LINE * fewer, frame));
        }
        y = end + (c->same_x ? 6 : DOWN_APART);
    }
    s->height = y + 12;
}
