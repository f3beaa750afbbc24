// SPDX-License-Identifier: MIT
// chart_draw.c: draws the panels of a chart on a canvas: axes, bands, bars, curves, points, marks,
// and the names of lines at their ends.
#include "view/chart/chart_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    ACROSS_APART = 28,
    DOWN_APART = 14,
    LABELS = 64,
    LABEL_APART = 16,
    LABEL_MOST = 190,
    STRONG_DOTS = 60,
    SPOTS = 1024, // most points and words of a panel whose places are compared
    SMALL = 240   // a panel narrower than this has fewer ticks
};

static double x_of(const struct chart_field *f, double x)
{
    return f->left + (f->right - f->left) * chart_position(&f->x, x);
}
static double y_of(const struct chart_field *f, double y)
{
    return f->bottom - (f->bottom - f->top) * chart_position(&f->y, y);
}
static bool has_place(const struct chart_field *f, double x, double y)
{
    return chart_is_on_axis(&f->x, x) && chart_is_on_axis(&f->y, y);
}

// ---- axes ---------------------------------------------------------------------------------------
static void draw_number(struct canvas *s, double x, double y, unsigned how, int color, int size,
                        double value)
{
    struct view_text t = { 0 };
    chart_number_text(&t, value);
    s->failed |= t.failed;
    if (!t.failed) canvas_text(s, x, y, size, how, color, t.at, (size_t)t.used);
    view_text_free(&t);
}

static void draw_y_axis(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->y;
    double tick[CHART_TICKS];
    if (a->label) { // the axis has names of positions instead of numbers
        for (int64_t i = 0; i < a->labels; i++) {
            if (!a->label[i] || (double)i < f->y.low || (double)i > f->y.high) continue;
            canvas_text(s, f->left - 10, y_of(f, (double)i) + 4, 11, CANVAS_END, PALETTE_TEXT2,
                        a->label[i], strlen(a->label[i]));
        }
        return;
    }
    const int n = chart_ticks(tick, &f->y, (int)fmax(2, (f->bottom - f->top) / 40));
    for (int i = 0; i < n; i++) {
        const double y = y_of(f, tick[i]);
        canvas_line(s, f->left, y, f->right, y, PALETTE_RULE, 1);
        draw_number(s, f->left - 10, y + 4, CANVAS_END, PALETTE_TEXT3, 11, tick[i]);
    }
}

// Draws the names of the positions on the x axis. They are horizontal if they fit; if not, they are
// rotated.
static double draw_places(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_axis *a = &f->panel->x;
    const double capacity = (f->right - f->left) / (double)qkv_max64(1, a->labels);
    double widest = 0;
    for (int64_t i = 0; i < a->labels; i++)
        if (a->label[i])
            widest = fmax(widest, canvas_width(a->label[i], strlen(a->label[i]), 11, 0));
    const bool level = widest <= capacity - 4;
    const int64_t each = level || capacity >= 12 ? 1 : (int64_t)ceil(12 / fmax(capacity, .01));
    for (int64_t i = 0; i < a->labels; i += each) {
        if (!a->label[i]) continue;
        const double x = x_of(f, (double)i);
        if (level)
            canvas_text(s, x, f->bottom + 17, 11, CANVAS_MIDDLE, PALETTE_TEXT2, a->label[i],
                        strlen(a->label[i]));
        else
            canvas_cut(s, x + 4, f->bottom + 12, 11, CANVAS_END | CANVAS_TILT, PALETTE_TEXT2,
                       a->label[i], strlen(a->label[i]), 90);
    }
    return f->bottom + (level ? 22 : 14 + .77 * fmin(widest, 90));
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
        const int n = chart_ticks(tick, &f->x, (int)fmax(2, (f->right - f->left) / 90));
        for (int i = 0; i < n; i++) {
            const double x = x_of(f, tick[i]);
            canvas_line(s, x, f->bottom, x, f->bottom + 5, PALETTE_RULE, 1);
            draw_number(s, x, f->bottom + 19, CANVAS_MIDDLE, PALETTE_TEXT3, 11, tick[i]);
        }
        y += 24;
    }
    if (a->name) {
        canvas_text(s, f->right, y + 11, 11, CANVAS_END, PALETTE_TEXT3, a->name, strlen(a->name));
        y += 16;
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
        while (end < l->n && has_place(f, chart_x(l, end), l->high[end]) && isfinite(l->low[end]))
            end++;
        if (end - from > 1) {
            canvas_path(s, color, PALETTE_NONE, 0, .14);
            for (int64_t i = from; i < end; i++) {
                const double x = x_of(f, chart_x(l, i)), y = y_of(f, l->high[i]);
                if (i == from)
                    canvas_move_to(s, x, y);
                else
                    canvas_line_to(s, x, y);
            }
            for (int64_t i = end - 1; i >= from; i--)
                canvas_line_to(s, x_of(f, chart_x(l, i)), y_of(f, l->low[i]));
            canvas_close(s);
        }
        from = end + 1;
    }
}

static void draw_curve(struct canvas *s, const struct chart_field *f,
                       const struct qkv_chart_line *l, int color)
{
    static const float width[QKV_CHART_STYLES] = { 1.5f, 2.4f, 1.1f, 1.2f, 0, 0 };
    bool joined = false;
    canvas_path(s, PALETTE_NONE, color, width[l->style], l->style == QKV_CHART_THIN ? .75 : 1);
    if (l->style == QKV_CHART_DASHED) canvas_dashed(s);
    for (int64_t i = 0; i < l->n; i++) {
        const double x = chart_x(l, i);
        if (!has_place(f, x, l->y[i])) {
            joined = false;
            continue;
        }
        if (joined)
            canvas_line_to(s, x_of(f, x), y_of(f, l->y[i]));
        else
            canvas_move_to(s, x_of(f, x), y_of(f, l->y[i]));
        joined = true;
    }
}

static void draw_points(struct canvas *s, const struct chart_field *f,
                        const struct qkv_chart_line *l, int color)
{
    for (int64_t i = 0; i < l->n; i++)
        if (has_place(f, chart_x(l, i), l->y[i]))
            canvas_dot(s, x_of(f, chart_x(l, i)), y_of(f, l->y[i]),
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
        apart = fmin(apart, fabs(x_of(f, chart_x(l, i)) - x_of(f, chart_x(l, i - 1))));
    const double each = fmin(46, fmax(1, apart * .74 / (double)all));
    const double foot = y_of(f, f->y.log ? f->y.low : fmin(fmax(0, f->y.low), f->y.high));
    for (int64_t i = 0; i < l->n; i++) {
        if (!has_place(f, chart_x(l, i), l->y[i])) continue;
        const double x = x_of(f, chart_x(l, i)) + each * ((double)place - .5 * (double)all);
        const double y = y_of(f, l->y[i]);
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
    }
}

// ---- text next to points ------------------------------------------------------------------------
struct spot {
    double x0, y0, x1, y1;
};
static bool crosses(const struct spot *a, const struct spot *b)
{
    return a->x0 < b->x1 && b->x0 < a->x1 && a->y0 < b->y1 && b->y0 < a->y1;
}

// The places that points and words occupy.
struct spots {
    struct spot at[SPOTS];
    int n;
};

static void occupy(struct spots *s, struct spot spot)
{
    if (s->n < SPOTS) s->at[s->n++] = spot;
}

// Returns true if a word may be at this place: inside the panel, where it covers no point and no
// other word.
static bool is_free(const struct spots *s, const struct chart_field *f, const struct spot *spot)
{
    bool free = spot->x0 >= f->left - 30 && spot->x1 <= f->right + f->label &&
                spot->y0 >= f->top - 10 && spot->y1 <= f->bottom + 6 && s->n < SPOTS;
    for (int i = 0; i < s->n && free; i++) free = !crosses(spot, &s->at[i]);
    return free;
}

// Writes a text next to its point: to the right or left of it, above or below, or between these
// directions, as near as a place is free. A line connects it with its point if it is not adjacent.
// If every place is occupied, the text is left out.
static void place_word(struct canvas *s, const struct chart_field *f, struct spots *taken, double x,
                       double y, const char *text, int color)
{
    static const double apart[] = { 0, 9, 20, 34, 52, 74, 100 };
    static const int toward[][2] = { { 1, 0 },  { -1, 0 }, { 0, -1 },  { 0, 1 },
                                     { 1, -1 }, { 1, 1 },  { -1, -1 }, { -1, 1 } };
    const double w = canvas_width(text, strlen(text), 11, 0);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (size_t k = 0; k < sizeof toward / sizeof *toward; k++) {
            const int dx = toward[k][0], dy = toward[k][1];
            const double left = x + (dx ? dx * (6 + apart[i]) : 0) - (dx > 0 ? 0 : dx ? w : w / 2);
            const double base = y + (dy ? dy * (11 + apart[i]) : 0) + 4;
            const struct spot spot = { left, base - 10, left + w, base + 3 };
            if (!is_free(taken, f, &spot)) continue;
            if (i)
                canvas_line(s, x + 5 * dx, y + 5 * dy, fmin(fmax(x, spot.x0), spot.x1),
                            fmin(fmax(y, spot.y0), spot.y1), PALETTE_TEXT3, .6);
            canvas_text(s, left, base, 11, 0, color, text, strlen(text));
            occupy(taken, spot);
            return;
        }
}

static void draw_words(struct canvas *s, const struct chart_field *f)
{
    struct spots taken = { .n = 0 };
    const struct qkv_chart_panel *p = f->panel;
    for (int writes = 0; writes < 2; writes++) // first the points, which no word may cover
        for (int64_t k = 0; k < p->lines; k++) {
            const struct qkv_chart_line *l = &p->line[k];
            for (int64_t i = 0; l->text && i < l->n; i++) {
                if (!l->text[i] || !has_place(f, chart_x(l, i), l->y[i])) continue;
                const double x = x_of(f, chart_x(l, i)), y = y_of(f, l->y[i]);
                if (writes)
                    place_word(s, f, &taken, x, y, l->text[i], PALETTE_TEXT2);
                else
                    occupy(&taken, (struct spot){ x - 4, y - 4, x + 4, y + 4 });
            }
        }
}

static void draw_marks(struct canvas *s, const struct chart_field *f)
{
    for (int64_t i = 0; i < f->panel->marks; i++) {
        const struct qkv_chart_mark *m = &f->panel->mark[i];
        const int color = m->hue ? chart_color(m->hue, 0) : PALETTE_TEXT;
        const bool x = chart_is_on_axis(&f->x, m->x), y = chart_is_on_axis(&f->y, m->y);
        const double px = x ? x_of(f, m->x) : 0, py = y ? y_of(f, m->y) : 0;
        const size_t bytes = m->text ? strlen(m->text) : 0;
        if (x && y) {
            canvas_dot(s, px, py, 4, color, PALETTE_PAPER, 1.5);
            if (bytes) canvas_text(s, px + 8, py - 6, 11, 0, color, m->text, bytes);
        } else if (x) {
            // the text is on the side of the mark where the chart is wider
            const bool turn = px > (f->left + f->right) / 2;
            canvas_line(s, px, f->top, px, f->bottom, color, 1);
            if (bytes)
                canvas_text(s, px + (turn ? -5 : 5), f->top + 10, 11, turn ? CANVAS_END : 0, color,
                            m->text, bytes);
        } else if (y) {
            canvas_line(s, f->left, py, f->right, py, color, 1);
            if (bytes) canvas_text(s, f->left + 6, py - 5, 11, 0, color, m->text, bytes);
        }
    }
}

// ---- names at the ends of lines -----------------------------------------------------------------
struct label {
    double y, value;
    const char *what;
    int color;
    bool bold;
};
static int by_y(const void *a, const void *b)
{
    const double x = ((const struct label *)a)->y, y = ((const struct label *)b)->y;
    return (x > y) - (x < y);
}

// Moves the names at the ends of lines up or down, so that they do not overlap and stay inside the
// panel, each close to its line.
static void part_labels(struct label *l, int n, double top, double bottom)
{
    qsort(l, (size_t)n, sizeof *l, by_y);
    for (int i = 1; i < n; i++) l[i].y = fmax(l[i].y, l[i - 1].y + LABEL_APART);
    double limit = bottom;
    for (int i = n - 1; i >= 0; i--, limit -= LABEL_APART) l[i].y = fmin(l[i].y, limit);
    for (int i = 0; i < n; i++) l[i].y = fmax(l[i].y, top + i * LABEL_APART);
}

// Writes the name of a run. A long name is cut in its middle, because the ends of names distinguish
// runs.
static void put_name(struct view_text *t, const char *name)
{
    const size_t n = strlen(name);
    size_t head = 9, tail = n - 9;
    if (n <= 26) {
        view_put(t, name, n);
        return;
    }
    while (head && ((unsigned char)name[head] & 0xC0) == 0x80) head--;
    while (tail < n && ((unsigned char)name[tail] & 0xC0) == 0x80) tail++;
    view_put(t, name, head);
    view_say(t, "…");
    view_put(t, name + tail, n - tail);
}

static double last_value(const struct qkv_chart_line *l)
{
    for (int64_t i = l->n; i-- > 0;)
        if (isfinite(l->y[i])) return l->y[i];
    return NAN;
}
// Returns true if a name is written at the last point of the line: the line has a name and a finite
// value.
static bool is_named(const struct qkv_chart_line *l)
{
    return l->name && isfinite(last_value(l));
}

static double label_capacity(struct canvas *s, const struct qkv_chart_panel *p)
{
    double widest = 6;
    for (int64_t i = 0; i < p->lines; i++) {
        struct view_text t = { 0 };
        if (!is_named(&p->line[i])) continue;
        put_name(&t, p->line[i].name);
        view_say(&t, "  ");
        if (p->line[i].style < QKV_CHART_POINTS) chart_number_text(&t, last_value(&p->line[i]));
        s->failed |= t.failed;
        if (t.at) widest = fmax(widest, 14 + canvas_width(t.at, (size_t)t.used, 13, 0));
        view_text_free(&t);
    }
    return fmin(widest, LABEL_MOST);
}

static void draw_labels(struct canvas *s, const struct chart_field *f)
{
    const struct qkv_chart_panel *p = f->panel;
    struct label l[LABELS];
    int n = 0;
    for (int64_t i = 0; i < p->lines && n < LABELS; i++) {
        if (!is_named(&p->line[i])) continue;
        const double value = last_value(&p->line[i]);
        l[n++] =
            (struct label){ p->line[i].style == QKV_CHART_BARS ? f->top : y_of(f, value),
                            p->line[i].style < QKV_CHART_POINTS ? value : NAN, p->line[i].name,
                            chart_color(p->line[i].hue, i), p->line[i].style == QKV_CHART_STRONG };
    }
    part_labels(l, n, f->top, f->bottom);
    for (int i = 0; i < n; i++) {
        struct view_text t = { 0 };
        const unsigned how = l[i].bold ? CANVAS_BOLD : 0;
        const double x = f->right + 10;
        put_name(&t, l[i].what);
        if (!t.failed) canvas_text(s, x, l[i].y + 4, 13, how, l[i].color, t.at, (size_t)t.used);
        if (isfinite(l[i].value) && !t.failed)
            draw_number(s, 0, 0, how | CANVAS_AFTER, PALETTE_TEXT, 13, l[i].value);
        s->failed |= t.failed;
        view_text_free(&t);
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

static void frame_lines(struct view_text *t, const struct chart_field *f)
{
    const struct qkv_chart_panel *p = f->panel;
    if (!t) return;
    view_say(t, "%s{\"box\":[%.0f,%.0f,%.0f,%.0f]", t->used ? "," : "", f->left, f->top, f->right,
             f->bottom);
    frame_scale(t, "x", &f->x);
    frame_scale(t, "y", &f->y);
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
            if (!has_place(f, chart_x(l, i), l->y[i])) continue;
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
    for (int i = 0; i < n; i++) {
        struct view_text t = { 0 };
        chart_number_text(&t, tick[i]);
        s->failed |= t.failed;
        if (t.at) widest = fmax(widest, canvas_width(t.at, (size_t)t.used, 11, 0));
        view_text_free(&t);
    }
    for (int64_t i = 0; a->label && i < a->labels; i++)
        if (a->label[i])
            widest = fmax(widest, canvas_width(a->label[i], strlen(a->label[i]), 11, 0));
    return fmin(widest, 140) + 14;
}

static double panel_height(const struct qkv_chart *c, const struct qkv_chart_panel *p)
{
    if (p->height > 0) return fmax(16, fmin(p->height, 4000));
    if (c->across >= 4) return 84;
    if (c->across == 3) return 150;
    return c->panels > 1 ? 210 : 330;
}

void chart_name(struct canvas *s, const char *name, const char *more, double left, double width,
                double y)
{
    double used = 0;
    if (name) {
        canvas_cut(s, left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, name, strlen(name), width);
        used = canvas_width(name, strlen(name), 11, CANVAS_BOLD) + 6;
    }
    if (more && used < width - 24)
        canvas_cut(s, left, y, 11, name ? CANVAS_AFTER : 0, PALETTE_TEXT3, more, strlen(more),
                   width - used);
}

// Draws a panel. Returns the y coordinate below the panel.
static double draw_panel(struct canvas *s, const struct qkv_chart *c, struct chart_field *f,
                         double left, double width, double y, struct view_text *frame)
{
    const struct qkv_chart_panel *p = f->panel;
    const bool small = width < SMALL;
    y += 18;
    chart_name(s, p->name, p->y.name, left, width, y);
    f->top = y + (p->name || p->y.name ? 10 : -8);
    f->bottom = f->top + panel_height(c, p);
    f->left = left + (small ? 34 : fmax(axis_capacity(s, f), c->across <= 1 ? 48 : 0));
    f->right = left + width - f->label;
    draw_y_axis(s, f);
    y = draw_x_axis(s, f);
    draw_series(s, f);
    draw_marks(s, f);
    draw_words(s, f);
    draw_labels(s, f);
    frame_lines(frame, f);
    return y;
}

static double draw_one(struct canvas *s, const struct qkv_chart *c, int64_t i, double left,
                       double width, double y, struct view_text *frame)
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
            f.label = fmax(f.label, c->panel[k].grid ? 0 : label_capacity(s, &c->panel[k]));
        f.label = fmin(f.label, width * .4);
        y = draw_panel(s, c, &f, left, width, y, frame);
    }
    if (p->note) y = canvas_fold(s, left, y + 14, width, 11, 0, PALETTE_TEXT3, p->note, 15) - 8;
    return y;
}

void chart_draw(struct canvas *s, const struct qkv_chart *c, bool head, struct view_text *frame)
{
    const int64_t across = qkv_min64(qkv_max64(1, c->across), c->panels);
    const double left = head ? CHART_MARGIN : 0, all = s->width - 2 * left;
    const double width = (all - ACROSS_APART * (double)(across - 1)) / (double)across;
    double y = head ? canvas_head(s, left) - 10 : 0;
    for (int64_t i = 0; i < c->panels; i += across) {
        double end = y;
        for (int64_t k = 0; k < across && i + k < c->panels; k++)
            end = fmax(end, draw_one(s, c, i + k, left + (double)k * (width + ACROSS_APART), width,
                                     y, frame));
        y = end + (c->same_x ? 6 : DOWN_APART);
    }
    s->height = y + 12;
}
