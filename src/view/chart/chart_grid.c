// SPDX-License-Identifier: MIT
// chart_grid.c: draws a grid of numbers on a canvas: coloured cells, the names of rows and columns,
// the numbers in the cells if they fit, and the colour ramp.
#include "view/chart/chart_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { CELL_MOST = 46, HIGH_MOST = 26, TALL = 620, TILT_MOST = 96, NAME_MOST = 158 };

struct place {
    const struct qkv_chart_grid *g;
    double left, top, w, h; // left and top edge of the grid; width and height of a cell
    double low, high;
};

static void name_of(struct view_text *t, const char *const *label, int64_t i)
{
    if (!label)
        view_say(t, "%" PRId64, i);
    else if (label[i])
        view_plain_text(t, label[i], strlen(label[i]), 160);
}

static double widest_name(struct canvas *s, const char *const *label, int64_t n, int size)
{
    double widest = 0;
    for (int64_t i = label ? 0 : n - 1; i < n; i++) {
        struct view_text t = { 0 };
        name_of(&t, label, i);
        s->failed |= t.failed;
        if (t.at) widest = fmax(widest, canvas_width(s, t.at, (size_t)t.used, size, 0));
        view_text_free(&t);
    }
    return widest;
}

static void draw_name(struct canvas *s, const char *const *label, int64_t i, double x, double y,
                      int size, unsigned how, double capacity)
{
    struct view_text t = { 0 };
    name_of(&t, label, i);
    s->failed |= t.failed;
    if (!t.failed && t.at)
        canvas_cut(s, x, y, size, how, PALETTE_TEXT2, t.at, (size_t)t.used, capacity);
    view_text_free(&t);
}

static int color_of(const struct place *p, double value)
{
    const double x = chart_darkness(p->g, p->low, p->high, value);
    return p->g->ramp == QKV_CHART_SIGNED ? palette_signed(x) : palette_ramp(x);
}

// ---- numbers in cells ---------------------------------------------------------------------------
static void put_value(struct view_text *t, const struct qkv_chart_grid *g, double value)
{
    if (g->ramp == QKV_CHART_WEIGHTS && value >= 0)
        view_weight(t, value, g->digits ? g->digits : 2);
    else
        view_signed(t, value, g->digits);
}

static bool numbers_fit(struct canvas *s, const struct place *p, int size)
{
    const struct qkv_chart_grid *g = p->g;
    if (g->digits < 0 || p->h < size + 3) return false;
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        struct view_text t = { 0 };
        if (isfinite(g->value[i])) put_value(&t, g, (double)g->value[i]);
        s->failed |= t.failed;
        const bool fits = !t.at || canvas_width(s, t.at, (size_t)t.used, size, 0) <= p->w - 2;
        view_text_free(&t);
        if (!fits) return false;
    }
    return true;
}

static void draw_numbers(struct canvas *s, const struct place *p, int size)
{
    const struct qkv_chart_grid *g = p->g;
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        struct view_text t = { 0 };
        const bool masked = !isfinite(g->value[i]);
        if (masked && g->value[i] != -INFINITY) continue;
        if (masked)
            view_say(&t, "−∞");
        else
            put_value(&t, g, (double)g->value[i]);
        s->failed |= t.failed;
        if (!t.failed)
            canvas_text(s, p->left + p->w * ((double)(i % g->columns) + .5),
                        p->top + p->h * ((double)(i / g->columns) + .5) + size * .36, size,
                        CANVAS_MIDDLE,
                        masked ? PALETTE_TEXT : palette_over(color_of(p, (double)g->value[i])),
                        t.at, (size_t)t.used);
        view_text_free(&t);
    }
}

// ---- cells and names ----------------------------------------------------------------------------
static void draw_cells(struct canvas *s, const struct place *p)
{
    const struct qkv_chart_grid *g = p->g;
    const int64_t n = g->rows * g->columns;
    uint8_t *color = qkv_alloc((size_t)n, 1);
    if (!color) {
        s->failed = true;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double x = (double)g->value[i];
        color[i] = isfinite(x) ? (uint8_t)(color_of(p, x) - PALETTE_RAMP) : CANVAS_BLANK;
    }
    for (int64_t r = 0; r < g->rows; r++) // adjacent masked cells of a row have one common hatch
        for (int64_t c = 0, end; c < g->columns; c = end + 1) {
            for (end = c; end < g->columns && color[r * g->columns + end] == CANVAS_BLANK;) end++;
            if (end > c)
                canvas_hatch(s, p->left + (double)c * p->w, p->top + (double)r * p->h,
                             (double)(end - c) * p->w, p->h);
        }
    canvas_cells(s, p->left, p->top, p->w, p->h, p->w >= 8 && p->h >= 8 ? 1 : 0, color, g->rows,
                 g->columns);
    canvas_frame(s, p->left, p->top, p->w * (double)g->columns, p->h * (double)g->rows,
                 PALETTE_RULE, 1);
    qkv_free(color);
}

// Draws the marks of the panel: frames around cells.
static void draw_frames(struct canvas *s, const struct qkv_chart_panel *panel,
                        const struct place *p)
{
    for (int64_t i = 0; i < panel->marks; i++) {
        const struct qkv_chart_mark *m = &panel->mark[i];
        if (!isfinite(m->x) || !isfinite(m->y)) continue;
        canvas_frame(s, p->left + m->x * p->w, p->top + m->y * p->h,
                     (m->wide > 0 ? m->wide : 1) * p->w, (m->tall > 0 ? m->tall : 1) * p->h,
                     m->hue ? chart_color(m->hue, 0) : PALETTE_TEXT, 2);
    }
}

// Returns whether row or column i, of which each is `size` long, has a name that is drawn: those
// are at least `need` apart. last: place of the last name, which this one replaces.
static bool has_name(const char *const *label, int64_t i, double size, double need, double *last)
{
    if ((label && !label[i]) || size * (double)i - *last < need - 1e-9) return false;
    *last = size * (double)i;
    return true;
}

static void draw_row_names(struct canvas *s, const struct place *p, double capacity)
{
    const struct qkv_chart_grid *g = p->g;
    const int size = p->h >= 17 ? 13 : 11;
    double last = -INFINITY;
    for (int64_t r = 0; r < g->rows; r++) {
        if (!has_name(g->row_label, r, p->h, 11, &last)) continue;
        draw_name(s, g->row_label, r, p->left - 8, p->top + p->h * ((double)r + .5) + size * .36,
                  size, CANVAS_END, capacity);
    }
}

static void draw_column_names(struct canvas *s, const struct place *p, bool level)
{
    const struct qkv_chart_grid *g = p->g;
    const double need = level ? widest_name(s, g->column_label, g->columns, 11) + 4 : CHART_TILTED;
    double last = -INFINITY;
    for (int64_t c = 0; c < g->columns; c++) {
        if (!has_name(g->column_label, c, p->w, need, &last)) continue;
        const double x = p->left + p->w * ((double)c + .5);
        if (level)
            draw_name(s, g->column_label, c, x, p->top - 6, 11, CANVAS_MIDDLE, NAME_MOST);
        else
            draw_name(s, g->column_label, c, x + 3, p->top - 6, 11, CANVAS_TILT, TILT_MOST);
    }
}

// Draws the ramp between its lowest and its highest number, not beyond the x coordinate `end`.
static double draw_ramp(struct canvas *s, const struct place *p, double y, double edge, double end)
{
    uint8_t color[33];
    const double each = fmin(4, fmax(1, (end - edge - 120) / 33));
    double x = fmin(p->left, fmax(edge, end - 120 - 33 * each));
    for (int i = 0; i < 33; i++) {
        const double value = p->low + (p->high - p->low) * i / 32;
        color[i] = (uint8_t)(color_of(p, value) - PALETTE_RAMP);
    }
    for (int high = 0; high < 2; high++) {
        struct view_text t = { 0 };
        chart_number_text(&t, high ? p->high : p->low);
        s->failed |= t.failed;
        if (!t.failed) {
            canvas_text(s, x, y + 8, 11, 0, PALETTE_TEXT3, t.at, (size_t)t.used);
            x += canvas_width(s, t.at, (size_t)t.used, 11, 0) + 6;
        }
        view_text_free(&t);
        if (high) break;
        canvas_cells(s, x, y, each, 9, 0, color, 1, 33);
        x += 33 * each + 6;
    }
    return y + 14;
}

// ---- numbers for the page -----------------------------------------------------------------------
static void frame_grid(struct chart_frame *frame, const struct place *p)
{
    const struct qkv_chart_grid *g = p->g;
    if (!frame) return;
    struct view_text *t = &frame->text;
    const double box[4] = { p->left, p->top, p->w, p->h };
    view_say(t, "%s{\"grid\":[", t->used ? "," : "");
    for (int k = 0; k < 4; k++) {
        chart_json(t, box[k]);
        view_put(t, ",", 1);
    }
    view_say(t, "%" PRId64 ",%" PRId64 "]", g->rows, g->columns);
    if (frame->only_places) {
        view_put(t, "}", 1);
        return;
    }
    for (int k = 0; k < 2; k++) {
        const char *const *label = k ? g->column_label : g->row_label;
        if (!label) continue;
        view_say(t, ",\"%s\":[", k ? "columns" : "rows");
        for (int64_t i = 0; i < (k ? g->columns : g->rows); i++) {
            if (i) view_put(t, ",", 1);
            view_json_text(t, label[i] ? label[i] : "", label[i] ? strlen(label[i]) : 0);
        }
        view_put(t, "]", 1);
    }
    view_say(t, ",\"values\":[");
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        if (i) view_put(t, ",", 1);
        chart_json(t, (double)g->value[i]);
    }
    view_say(t, "]}");
}

void chart_grid_axes(struct view_text *t, const struct qkv_chart_panel *p)
{
    if (p->y.name) view_say(t, "down: %s", p->y.name);
    if (p->x.name) view_say(t, "%sacross: %s", p->y.name ? ", " : "", p->x.name);
}

double chart_draw_grid(struct canvas *s, const struct qkv_chart_panel *panel, double left,
                       double width, double y, struct chart_frame *frame)
{
    const struct qkv_chart_grid *g = panel->grid;
    struct place p = { .g = g };
    const double rows =
        fmin(fmin(NAME_MOST, width * .4), widest_name(s, g->row_label, g->rows, 13)) + 10;
    const double columns = widest_name(s, g->column_label, g->columns, 11);
    const double tall = panel->height > 0 ? fmax(16, fmin(panel->height, 4000)) : TALL;
    chart_grid_ends(&p.low, &p.high, g);
    p.w = fmin(CELL_MOST, (width - rows) / (double)g->columns);
    const bool level = !g->column_label || columns <= p.w - 2 || p.w < 5;
    if (!level) { // the name of the last column ends at the right edge of the panel
        const double beyond = CANVAS_TILT_X * fmin(columns, TILT_MOST) + 3;
        p.w = fmin(p.w, (width - rows - beyond) / ((double)g->columns - .5));
    }
    p.h = fmin(p.w > HIGH_MOST ? HIGH_MOST : p.w, tall / (double)g->rows);
    if (g->rows == 1) p.h = fmax(p.h, 14);
    struct view_text names = { 0 };
    chart_grid_axes(&names, panel);
    s->failed |= names.failed;
    y = chart_name(s, panel->name, names.at, left, width, y + 18);
    view_text_free(&names);
    p.left = left + rows;
    p.top = y + (level ? 24 : 14 + CANVAS_TILT_Y * fmin(columns, TILT_MOST));
    draw_cells(s, &p);
    draw_frames(s, panel, &p);
    draw_row_names(s, &p, rows - 8);
    draw_column_names(s, &p, level);
    if (numbers_fit(s, &p, 11)) draw_numbers(s, &p, 11);
    frame_grid(frame, &p);
    return draw_ramp(s, &p, p.top + p.h * (double)g->rows + 10, left, left + width) + 4;
}
