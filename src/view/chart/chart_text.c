// SPDX-License-Identifier: MIT
// chart_text.c: writes the texts of a panel, none of which meets another: names at the ends of
// lines, texts of marks, and words next to points.
#include "view/chart/chart_internal.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABELS = 64,
    LABEL_APART = 16,
    LABEL_LEFT = 10,  // distance of a name from the end of its line
    LABEL_SIZE = 13,  // font size of a name
    LABEL_MOST = 240, // most width of a name
    SPOTS = 1024      // most points and words of a panel whose places are compared
};

void chart_draw_number(struct canvas *s, double x, double y, unsigned how, int color, int size,
                       double value)
{
    struct view_text t = { 0 };
    chart_number_text(&t, value);
    s->failed |= t.failed;
    if (!t.failed) canvas_text(s, x, y, size, how, color, t.at, (size_t)t.used);
    view_text_free(&t);
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
    bool free = spot->x0 >= f->left && spot->x1 <= f->right + f->label && spot->y0 >= f->top - 10 &&
                spot->y1 <= f->bottom + 6 && s->n < SPOTS;
    for (int i = 0; i < s->n && free; i++) free = !crosses(spot, &s->at[i]);
    return free;
}

// Writes a text at the place `spot` and occupies it, if it is free. Returns false if it is not.
static bool write_at(struct canvas *s, const struct chart_field *f, struct spots *taken,
                     const char *text, double left, double base, int color)
{
    const double w = canvas_width(s, text, strlen(text), 11, 0);
    const struct spot spot = { left, base - 10, left + w, base + 3 };
    if (!is_free(taken, f, &spot)) return false;
    canvas_text(s, left, base, 11, 0, color, text, strlen(text));
    occupy(taken, spot);
    return true;
}

// Writes a text next to its point: to the right or left of it, above or below, or between these
// directions, as near as a place is free. A line connects it with its point if it is not adjacent.
// If every place is occupied, the text is left out.
static void place_word(struct canvas *s, const struct chart_field *f, struct spots *taken, double x,
                       double y, const char *text, int color)
{
    static const double apart[] = { 0, 9, 20, 34, 52, 74, 100, 130, 165, 200 };
    static const int toward[][2] = { { 1, 0 },  { -1, 0 }, { 0, -1 },  { 0, 1 },
                                     { 1, -1 }, { 1, 1 },  { -1, -1 }, { -1, 1 } };
    const double w = canvas_width(s, text, strlen(text), 11, 0);
    for (size_t i = 0; i < sizeof apart / sizeof *apart; i++)
        for (size_t k = 0; k < sizeof toward / sizeof *toward; k++) {
            const int dx = toward[k][0], dy = toward[k][1];
            const double left = x + (dx ? dx * (6 + apart[i]) : 0) - (dx > 0 ? 0 : dx ? w : w / 2);
            const double base = y + (dy ? dy * (11 + apart[i]) : 0) + 4;
            if (!write_at(s, f, taken, text, left, base, color)) continue;
            if (i)
                canvas_line(s, x + 5 * dx, y + 5 * dy, fmin(fmax(x, left), left + w),
                            fmin(fmax(y, base - 10), base + 3), PALETTE_TEXT3, .6);
            return;
        }
}

static void draw_words(struct canvas *s, const struct chart_field *f, struct spots *taken)
{
    const struct qkv_chart_panel *p = f->panel;
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        for (int64_t i = 0; l->text && i < l->n; i++)
            if (l->text[i] && chart_has_place(f, chart_x(l, i), l->y[i]))
                place_word(s, f, taken, chart_px(f, chart_x(l, i)), chart_py(f, l->y[i]),
                           l->text[i], PALETTE_TEXT2);
    }
}

// Occupies the place of an arrow, as a row of small places along each of its segments.
static void occupy_arrow(const struct chart_field *f, const struct qkv_chart_line *l,
                         struct spots *taken)
{
    enum { APART = 8, HALF = 2 };
    for (int64_t i = 1; i < l->n; i++) {
        if (!chart_has_place(f, chart_x(l, i - 1), l->y[i - 1]) ||
            !chart_has_place(f, chart_x(l, i), l->y[i]))
            continue;
        const double x0 = chart_px(f, chart_x(l, i - 1)), y0 = chart_py(f, l->y[i - 1]),
                     dx = chart_px(f, chart_x(l, i)) - x0, dy = chart_py(f, l->y[i]) - y0;
        const int steps = 1 + (int)(sqrt(dx * dx + dy * dy) / APART);
        for (int k = 1; k < steps && taken->n < SPOTS / 2; k++) {
            const double x = x0 + dx * k / steps, y = y0 + dy * k / steps;
            occupy(taken, (struct spot){ x - HALF, y - HALF, x + HALF, y + HALF });
        }
    }
}

// Occupies the places of arrows, and of the points that have words, which no word may cover.
static void occupy_points(const struct chart_field *f, struct spots *taken)
{
    const struct qkv_chart_panel *p = f->panel;
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        if (l->style == QKV_CHART_ARROW) occupy_arrow(f, l, taken);
        for (int64_t i = 0; l->text && i < l->n; i++) {
            if (!l->text[i] || !chart_has_place(f, chart_x(l, i), l->y[i])) continue;
            const double x = chart_px(f, chart_x(l, i)), y = chart_py(f, l->y[i]);
            occupy(taken, (struct spot){ x - 4, y - 4, x + 4, y + 4 });
        }
    }
}

// ---- marks --------------------------------------------------------------------------------------
// Writes the text of a vertical line at x, as high as a place is free, on the side where the chart
// is wider; or of a horizontal line at y, above the line, as far to the left as a place is free.
static void place_mark(struct canvas *s, const struct chart_field *f, struct spots *taken,
                       const char *text, double x, double y, int color)
{
    const double w = canvas_width(s, text, strlen(text), 11, 0);
    if (isfinite(x)) {
        const double left = x > (f->left + f->right) / 2 ? x - 5 - w : x + 5;
        for (double base = f->top + 10; base < f->bottom; base += 14)
            if (write_at(s, f, taken, text, left, base, color)) return;
        return;
    }
    for (double left = f->left + 6; left + w <= f->right; left += 24)
        if (write_at(s, f, taken, text, left, y - 5, color) ||
            write_at(s, f, taken, text, left, y + 13, color))
            return;
}

static void draw_marks(struct canvas *s, const struct chart_field *f, struct spots *taken)
{
    for (int64_t i = 0; i < f->panel->marks; i++) {
        const struct qkv_chart_mark *m = &f->panel->mark[i];
        const int color = m->hue ? chart_color(m->hue, 0) : PALETTE_TEXT;
        const bool x = chart_is_on_axis(&f->x, m->x), y = chart_is_on_axis(&f->y, m->y);
        const double px = x ? chart_px(f, m->x) : NAN, py = y ? chart_py(f, m->y) : NAN;
        if (x && y) {
            canvas_dot(s, px, py, 4, color, PALETTE_PAPER, 1.5);
            occupy(taken, (struct spot){ px - 5, py - 5, px + 5, py + 5 });
            if (m->text) place_word(s, f, taken, px, py, m->text, color);
        } else if (x || y) {
            canvas_line(s, x ? px : f->left, x ? f->top : py, x ? px : f->right, x ? f->bottom : py,
                        color, 1);
            if (m->text) place_mark(s, f, taken, m->text, px, py, color);
        }
    }
}

// ---- names at the ends of lines -----------------------------------------------------------------
struct label {
    double y;
    const struct qkv_chart_line *line;
    int color;
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

// Writes the name of a line. A name that is wider than `width` is cut in its middle, because the
// ends of names distinguish runs.
static void put_name(struct view_text *t, const struct canvas *s, const char *name, unsigned how,
                     double width)
{
    const size_t n = strlen(name);
    size_t head = n / 2, tail = n - n / 2;
    if (strchr(name, '[') || canvas_width(s, name, n, LABEL_SIZE, how) <= width) {
        canvas_shorten(t, s, LABEL_SIZE, how, name, n, width);
        return;
    }
    const double capacity = width - canvas_width(s, "…", strlen("…"), LABEL_SIZE, how);
    for (;;) {
        while (head && qkv_utf8_continues(name[head])) head--;
        while (tail < n && qkv_utf8_continues(name[tail])) tail++;
        if (!head || canvas_width(s, name, head, LABEL_SIZE, how) +
                             canvas_width(s, name + tail, n - tail, LABEL_SIZE, how) <=
                         capacity)
            break;
        head--;
        if (tail < n) tail++;
    }
    view_put(t, name, head);
    view_say(t, "…");
    view_put(t, name + tail, n - tail);
}

// Returns true if a name is written at the last point of the line: the line has a name and a finite
// value.
static bool is_named(const struct qkv_chart_line *l)
{
    return l->name && isfinite(chart_last_value(l));
}

static unsigned label_style(const struct qkv_chart_line *l)
{
    return l->style == QKV_CHART_STRONG ? CANVAS_BOLD : 0;
}

// Returns the width of the number at the end of a line, with the space before it. Lines that are
// drawn as points or bars have no number.
static double value_width(struct canvas *s, const struct qkv_chart_line *l)
{
    struct view_text t = { 0 };
    if (l->style >= QKV_CHART_POINTS) return 0;
    chart_number_text(&t, chart_last_value(l));
    s->failed |= t.failed;
    const double w =
        t.at ? canvas_width(s, t.at, (size_t)t.used, LABEL_SIZE, label_style(l)) + CANVAS_SPACE : 0;
    view_text_free(&t);
    return w;
}

double chart_label_width(struct canvas *s, const struct qkv_chart_panel *p)
{
    double widest = 6;
    for (int64_t i = 0; i < p->lines; i++) {
        const struct qkv_chart_line *l = &p->line[i];
        if (!is_named(l)) continue;
        const double name = canvas_width(s, l->name, strlen(l->name), LABEL_SIZE, label_style(l));
        widest = fmax(widest, LABEL_LEFT + 4 + fmin(LABEL_MOST, name) + value_width(s, l));
    }
    return widest;
}

static void draw_labels(struct canvas *s, const struct chart_field *f, struct spots *taken)
{
    const struct qkv_chart_panel *p = f->panel;
    struct label l[LABELS];
    int n = 0;
    for (int64_t i = 0; i < p->lines && n < LABELS; i++)
        if (is_named(&p->line[i]))
            l[n++] = (struct label){ p->line[i].style == QKV_CHART_BARS
                                         ? f->top
                                         : chart_py(f, chart_last_value(&p->line[i])),
                                     &p->line[i], chart_color(p->line[i].hue, i) };
    part_labels(l, n, f->top, f->bottom);
    for (int i = 0; i < n; i++) {
        struct view_text t = { 0 };
        const unsigned how = label_style(l[i].line);
        const double x = f->right + LABEL_LEFT, value = value_width(s, l[i].line),
                     width = f->label - LABEL_LEFT - value;
        put_name(&t, s, l[i].line->name, how, width);
        if (!t.failed)
            canvas_text(s, x, l[i].y + 4, LABEL_SIZE, how, l[i].color, t.at, (size_t)t.used);
        if (value > 0 && !t.failed)
            chart_draw_number(s, 0, 0, how | CANVAS_AFTER, PALETTE_TEXT, LABEL_SIZE,
                              chart_last_value(l[i].line));
        occupy(taken, (struct spot){ x - 4, l[i].y - 9, x + width + value, l[i].y + 8 });
        s->failed |= t.failed;
        view_text_free(&t);
    }
}

void chart_draw_texts(struct canvas *s, const struct chart_field *f)
{
    struct spots taken = { .n = 0 };
    draw_labels(s, f, &taken);
    occupy_points(f, &taken);
    draw_marks(s, f, &taken);
    draw_words(s, f, &taken);
}
