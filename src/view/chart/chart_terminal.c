// SPDX-License-Identifier: MIT
// chart_terminal.c: draws charts as lines of text: curves as Braille dots, bars with a resolution
// of 1/8 column, and tables of numbers.
//
// Several lines of a chart differ by colour and by letter, so that they can be distinguished
// without colour. Without UTF-8, all output is ASCII.
#include "view/chart/chart_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    ROWS = 14,
    ROWS_SMALL = 7,
    LOW = 110,
    AXIS = 9,
    COLUMNS_LEAST = 24,
    COLUMNS_MOST = 180,
    LETTER_EVERY = 14
};

struct cell {
    uint8_t dots; // bits of the dots of a Braille character
    int16_t color;
    char text[8]; // if not empty: a character that is shown instead of the dots
    bool tail;    // true: this cell is the right half of a character two columns wide
    bool strong;
};
// The area of a panel as character cells. Later drawing replaces earlier drawing.
struct dot_field {
    int columns, rows;
    struct cell cell[ROWS * COLUMNS_MOST];
    struct chart_scale x, y;
};

// ---- the field ----------------------------------------------------------------------------------
// Returns the cell that contains the dot (x, y), or NULL if the dot is outside. A cell has 2 x 4
// dots; dot (0, 0) is at the top left.
static struct cell *cell_at(struct dot_field *c, int x, int y)
{
    if (x < 0 || y < 0 || x >= 2 * c->columns || y >= 4 * c->rows) return NULL;
    return &c->cell[y / 4 * c->columns + x / 2];
}
static void set_dot(struct dot_field *c, int x, int y, int color)
{
    static const uint8_t bit[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };
    struct cell *at = cell_at(c, x, y);
    if (!at) return;
    // a cell has one colour: drop the dots of the other colour
    if (at->color != color) at->dots = 0;
    at->dots |= bit[y % 4][x % 2];
    at->color = (int16_t)color;
}
static void set_mark(struct dot_field *c, int x, int y, int color, const char *text)
{
    struct cell *at = cell_at(c, x, y);
    if (!at) return;
    snprintf(at->text, sizeof at->text, "%s", text);
    at->color = (int16_t)color;
    at->strong = true;
}
static int x_dot(const struct dot_field *c, double x)
{
    return (int)(chart_position(&c->x, x) * (2 * c->columns - 1) + .5);
}
static int y_dot(const struct dot_field *c, double y)
{
    return (int)((1 - chart_position(&c->y, y)) * (4 * c->rows - 1) + .5);
}

static void draw_stroke(struct dot_field *c, int x0, int y0, int x1, int y1, int color, bool dashed)
{
    const int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++) {
        const double a = n ? (double)i / n : 0;
        const int x = x0 + (int)lround(a * (x1 - x0));
        if (!dashed || x % 6 < 3) set_dot(c, x, y0 + (int)lround(a * (y1 - y0)), color);
    }
}

static char letter(int64_t line)
{
    return (char)('a' + line % 26);
}

// Returns true if the line is marked by its letter: there are others, and the legend names it.
static bool has_letter(const struct qkv_chart_panel *p, int64_t line)
{
    return p->lines > 1 && p->line[line].name;
}

static void draw_line(const struct text_canvas *s, struct dot_field *c,
                      const struct qkv_chart_panel *p, int64_t k)
{
    const struct qkv_chart_line *l = &p->line[k];
    const int color = chart_color(l->hue, k);
    const char name[2] = { letter(k), 0 }, *mark = has_letter(p, k) ? name : s->utf8 ? "●" : "o";
    int x0 = -1, y0 = 0;
    for (int64_t i = 0; i < l->n; i++) {
        if (!chart_is_on_axis(&c->x, chart_x(l, i)) || !chart_is_on_axis(&c->y, l->y[i])) {
            x0 = -1;
            continue;
        }
        const int x = x_dot(c, chart_x(l, i)), y = y_dot(c, l->y[i]);
        if (l->style == QKV_CHART_BARS)
            draw_stroke(c, x, y, x, y_dot(c, c->y.log ? c->y.low : fmax(0, c->y.low)), color,
                        false);
        else if (l->style == QKV_CHART_POINTS)
            set_mark(c, x, y, color, mark);
        else
            draw_stroke(c, x0 < 0 ? x : x0, x0 < 0 ? y : y0, x, y, color,
                        l->style == QKV_CHART_DASHED);
        if (l->style == QKV_CHART_STRONG && l->n <= 60) set_mark(c, x, y, color, mark);
        x0 = x, y0 = y;
    }
}

// If there are several lines, writes the letter of each line that has a name along it. Called after
// all lines are drawn, so that no line covers a letter.
static void draw_letters(struct dot_field *c, const struct qkv_chart_panel *p)
{
    for (int64_t k = 0; k < p->lines && p->lines > 1; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        const char name[2] = { letter(k), 0 };
        int last = -LETTER_EVERY * 2 + (int)(k % LETTER_EVERY) * 4;
        if (!has_letter(p, k) || l->style == QKV_CHART_POINTS || l->style == QKV_CHART_BARS)
            continue;
        for (int64_t i = 0; i < l->n; i++) {
            if (!chart_is_on_axis(&c->x, chart_x(l, i)) || !chart_is_on_axis(&c->y, l->y[i]))
                continue;
            const int x = x_dot(c, chart_x(l, i));
            if (x - last < LETTER_EVERY * 2 && i < l->n - 1) continue;
            set_mark(c, x, y_dot(c, l->y[i]), chart_color(l->hue, k), name);
            last = x;
        }
    }
}

// Writes a word that begins at a cell, unless one of its cells, or a cell before or after it, is
// occupied.
static void draw_word(struct text_canvas *s, struct dot_field *c, int x, int y, const char *word,
                      int color)
{
    struct view_text t = { 0 };
    view_plain_text(&t, word, strlen(word), 60);
    s->t.failed |= t.failed;
    const int w = t.at ? text_canvas_width(s, t.at, (size_t)t.used) : 0;
    const int row = y / 4, from = x / 2;
    bool free = w > 0 && row >= 0 && row < c->rows && from >= 0 && from + w <= c->columns;
    struct cell *at = &c->cell[free ? row * c->columns + from : 0];
    const int end = w + (from + w < c->columns);
    for (int i = from > 0 ? -1 : 0; i < end && free; i++) free = !at[i].text[0] && !at[i].tail;
    for (int64_t i = 0; i < t.used && free;) {
        const char *out;
        size_t bytes;
        int columns;
        i += (int64_t)text_canvas_next(s, t.at + i, (size_t)(t.used - i), &out, &bytes, &columns);
        if (columns < 1 || bytes >= sizeof at->text) continue;
        memcpy(at->text, out, bytes);
        at->text[bytes] = 0;
        at->color = (int16_t)color;
        if (columns > 1) at[1].tail = true;
        at += columns;
    }
    view_text_free(&t);
}

static void draw_words(struct text_canvas *s, struct dot_field *c, const struct qkv_chart_panel *p)
{
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        for (int64_t i = 0; l->text && i < l->n; i++)
            if (l->text[i] && chart_is_on_axis(&c->x, chart_x(l, i)) &&
                chart_is_on_axis(&c->y, l->y[i]))
                draw_word(s, c, x_dot(c, chart_x(l, i)) + 4, y_dot(c, l->y[i]), l->text[i],
                          chart_color(l->hue, k));
    }
}

static void draw_marks(struct text_canvas *s, struct dot_field *c, const struct qkv_chart_panel *p)
{
    for (int64_t i = 0; i < p->marks; i++) {
        const struct qkv_chart_mark *m = &p->mark[i];
        const bool x = chart_is_on_axis(&c->x, m->x), y = chart_is_on_axis(&c->y, m->y);
        const int color = m->hue ? chart_color(m->hue, 0) : PALETTE_TEXT;
        const int px = x ? x_dot(c, m->x) : 0, py = y ? y_dot(c, m->y) : 0;
        if (x && y) set_mark(c, px, py, color, s->utf8 ? "◆" : "X");
        if (x && !y)
            for (int k = 0; k < 4 * c->rows; k += 2) set_dot(c, px, k, color);
        if (y && !x)
            for (int k = 0; k < 2 * c->columns; k += 2) set_dot(c, k, py, color);
        if (m->text && (x || y)) draw_word(s, c, px + 4, py, m->text, color);
    }
}

// ---- cells to text ------------------------------------------------------------------------------
static void put_cell(struct text_canvas *s, const struct cell *c)
{
    if (c->tail) return;
    if (!c->text[0] && !c->dots) {
        view_put(&s->t, " ", 1);
        return;
    }
    text_canvas_color(s, c->color);
    if (c->text[0]) {
        if (c->strong) text_canvas_sgr(s, "1");
        view_say(&s->t, "%s", c->text);
    } else if (s->utf8) {
        const char braille[3] = { (char)0xE2, (char)(0xA0 | c->dots >> 6),
                                  (char)(0x80 | (c->dots & 63)) };
        view_put(&s->t, braille, 3);
    } else {
        view_put(&s->t, c->dots & 0x1B ? c->dots & 0xE4 ? ":" : "'" : ".", 1);
    }
    text_canvas_plain(s);
}

// Writes a number in `columns` columns, right-aligned.
static void put_number(struct text_canvas *s, double x, int columns)
{
    struct view_text t = { 0 };
    chart_number_text(&t, x);
    text_canvas_put(s, &t, columns, true);
}

static void put_rows(struct text_canvas *s, const struct dot_field *c,
                     const struct qkv_chart_panel *p)
{
    double tick[CHART_TICKS];
    const int ticks = p->y.label ? 0 : chart_ticks(tick, &c->y, (c->rows + 2) / 3 + 1);
    for (int row = 0; row < c->rows; row++) {
        int here = -1;
        for (int i = 0; i < ticks; i++)
            if (y_dot(c, tick[i]) / 4 == row) here = i;
        text_canvas_dim(s);
        if (here >= 0)
            put_number(s, tick[here], AXIS - 2);
        else
            text_canvas_pad(s, AXIS - 2);
        view_say(&s->t, s->utf8 ? here >= 0 ? " ┤" : " │" : here >= 0 ? " +" : " |");
        text_canvas_plain(s);
        const struct cell *at = &c->cell[row * c->columns];
        int end = c->columns; // leave out trailing spaces
        while (end > 0 && !at[end - 1].text[0] && !at[end - 1].dots && !at[end - 1].tail) end--;
        for (int x = 0; x < end; x++) put_cell(s, &at[x]);
        text_canvas_line(s);
    }
}

// Writes the numbers of the x axis, each below its position unless it would overlap another, and
// the name of the axis if it fits.
static void put_x_axis(struct text_canvas *s, const struct dot_field *c,
                       const struct qkv_chart_axis *a)
{
    double tick[CHART_TICKS];
    const int ticks = chart_ticks(tick, &c->x, c->columns / 10);
    int at = 0;
    text_canvas_dim(s);
    text_canvas_pad(s, AXIS - 1);
    view_say(&s->t, s->utf8 ? "└" : "+");
    for (int i = 0; i < c->columns; i++) view_say(&s->t, s->utf8 ? "─" : "-");
    text_canvas_line(s);
    text_canvas_pad(s, AXIS);
    for (int i = 0; i < ticks; i++) {
        struct view_text t = { 0 };
        chart_number_text(&t, tick[i]);
        s->t.failed |= t.failed;
        const int w = t.at ? text_canvas_width(s, t.at, (size_t)t.used) : 0;
        int from = x_dot(c, tick[i]) / 2 - w / 2;
        if (from < 0) from = 0;
        if (from + w > c->columns) from = c->columns - w;
        if (t.at && (from > at || (!at && from >= 0))) {
            text_canvas_pad(s, from - at);
            text_canvas_cell(s, t.at, (size_t)t.used, w, false);
            at = from + w;
        }
        view_text_free(&t);
    }
    text_canvas_line(s);
    if (a->name) {
        text_canvas_pad(s, AXIS);
        text_canvas_text(s, a->name, c->columns, true);
        text_canvas_line(s);
    }
    text_canvas_plain(s);
}

// ---- panels -------------------------------------------------------------------------------------
static void put_legend(struct text_canvas *s, const struct qkv_chart_panel *p)
{
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        if (!l->name) continue;
        text_canvas_pad(s, AXIS);
        text_canvas_color(s, chart_color(l->hue, k));
        if (has_letter(p, k)) {
            text_canvas_sgr(s, "1");
            view_say(&s->t, "%c ", letter(k));
        }
        text_canvas_plain(s);
        const int capacity = s->columns - AXIS - 14;
        text_canvas_text(s, l->name, capacity > 40 ? 40 : capacity, false);
        if (l->style < QKV_CHART_POINTS && isfinite(chart_last_value(l)))
            put_number(s, chart_last_value(l), 11);
        text_canvas_line(s);
    }
}

void chart_sparks(struct text_canvas *s, const double *x, const double *y, int64_t n,
                  const struct chart_scale *across, const struct chart_scale *up, int columns)
{
    static const char *const bars[2][8] = { { ".", ":", "-", "=", "+", "*", "#", "@" },
                                            { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" } };
    int at = 0;
    for (int64_t i = 0; i < n; i++) {
        if (!chart_is_on_axis(across, x[i]) || !chart_is_on_axis(up, y[i])) continue;
        const int column = (int)fmin(columns - 1, chart_position(across, x[i]) * columns);
        if (column < at) continue; // if several points are in one column, only the first is drawn
        text_canvas_pad(s, column - at);
        view_say(&s->t, "%s", bars[s->utf8][(int)(chart_position(up, y[i]) * 7 + .5)]);
        at = column + 1;
    }
    text_canvas_pad(s, columns - at);
}

// Draws each line of a low panel as one row of bars: the letter of the line, the bars, and its last
// value.
static void put_sparks(struct text_canvas *s, const struct qkv_chart *c,
                       const struct qkv_chart_panel *p)
{
    const struct chart_scale x = c->same_x ? chart_shared_x(c) : chart_scale_x(p);
    const struct chart_scale y = chart_scale_y(p);
    for (int64_t k = 0; k < p->lines; k++) {
        const struct qkv_chart_line *l = &p->line[k];
        double *at = qkv_alloc((size_t)l->n + 1, sizeof *at);
        if (!at) {
            s->t.failed = true;
            return;
        }
        for (int64_t i = 0; i < l->n; i++) at[i] = chart_x(l, i);
        const char name[2] = { has_letter(p, k) ? letter(k) : ' ', 0 };
        text_canvas_text(s, name, AXIS - 1, true);
        text_canvas_pad(s, 1);
        text_canvas_color(s, chart_color(l->hue, k));
        chart_sparks(s, at, l->y, l->n, &x, &y, s->columns - 2 * AXIS - 1);
        text_canvas_plain(s);
        put_number(s, chart_last_value(l), AXIS);
        text_canvas_line(s);
        qkv_free(at);
    }
}

// Draws a chart of bars: one row per bar, with its name and its value.
static void put_bars(struct text_canvas *s, const struct qkv_chart_panel *p)
{
    const struct chart_scale y = chart_scale_y(p);
    int label = 4;
    for (int64_t i = 0; i < p->x.labels; i++)
        if (p->x.label[i]) {
            const int w = text_canvas_width(s, p->x.label[i], strlen(p->x.label[i]));
            label = w > label ? w : label;
        }
    label = (int)qkv_min64(label, qkv_max64(8, s->columns / 3));
    const int capacity = s->columns - label - 2 - 9;
    const bool low = y.low < 0; // if there are negative values, each bar has its sign before it
    const double most = fmax(fabs(y.low), fabs(y.high));
    for (int64_t i = 0; i < p->x.labels; i++)
        for (int64_t k = 0; k < p->lines; k++) {
            const struct qkv_chart_line *l = &p->line[k];
            if (l->style != QKV_CHART_BARS || i >= l->n) continue;
            text_canvas_text(s, k || !p->x.label[i] ? "" : p->x.label[i], label, true);
            put_number(s, l->y[i], 9);
            text_canvas_pad(s, 1);
            text_canvas_color(s, chart_color(l->hue, k));
            const double part = y.log ? chart_position(&y, l->y[i]) : fabs(l->y[i]) / most;
            if (low) text_canvas_text(s, l->y[i] < 0 ? "-" : "+", 2, false);
            text_canvas_bar(s, part, low ? capacity - 2 : capacity);
            text_canvas_plain(s);
            text_canvas_line(s);
        }
}

static void put_panel(struct text_canvas *s, const struct qkv_chart *c,
                      const struct qkv_chart_panel *p, struct dot_field *field)
{
    bool bars = p->x.label != NULL;
    for (int64_t k = 0; k < p->lines; k++) bars &= p->line[k].style == QKV_CHART_BARS;
    if (bars && p->lines) {
        put_bars(s, p);
        put_legend(s, p);
        return;
    }
    if (p->height > 0 && p->height < LOW && !p->marks) {
        put_sparks(s, c, p);
        return;
    }
    memset(field, 0, sizeof *field);
    field->rows = c->panels > 2 && !(p->height > 2 * LOW) ? ROWS_SMALL : ROWS;
    field->columns = (int)qkv_min64(COLUMNS_MOST, qkv_max64(COLUMNS_LEAST, s->columns - AXIS - 1));
    field->x = c->same_x ? chart_shared_x(c) : chart_scale_x(p);
    field->y = chart_scale_y(p);
    // a character is about twice as high as wide
    if (p->equal) chart_equal(&field->x, &field->y, field->columns, 2.0 * field->rows);
    draw_marks(s, field, p);
    for (int64_t k = 0; k < p->lines; k++) draw_line(s, field, p, k);
    draw_letters(field, p);
    draw_words(s, field, p);
    put_rows(s, field, p);
    put_x_axis(s, field, &p->x);
    put_legend(s, p);
}

// Writes the name of a panel and the quantity that it shows.
static void put_name(struct text_canvas *s, const struct qkv_chart_panel *p)
{
    struct view_text t = { 0 };
    if (!p->name && !p->y.name) return;
    if (p->name) view_plain_text(&t, p->name, strlen(p->name), 400);
    if (p->name && p->y.name) view_say(&t, "  ");
    if (p->y.name) view_plain_text(&t, p->y.name, strlen(p->y.name), 400);
    text_canvas_put_folded(s, &t, 0);
}

static void put_table(struct text_canvas *s, const struct qkv_chart_table *t)
{
    if (t->name) text_canvas_words(s, t->name);
    for (int64_t r = 0; r < t->rows; r++) {
        int used = 0;
        if (!r) text_canvas_dim(s);
        for (int64_t c = 0; c < t->columns; c++) {
            const char *text = t->cell[r * t->columns + c];
            int w = 0;
            for (int64_t i = 0; i < t->rows; i++) {
                const char *other = t->cell[i * t->columns + c];
                const int own = other ? text_canvas_width(s, other, strlen(other)) : 0;
                w = own > w ? own : w;
            }
            if (used + w > s->columns) w = s->columns - used;
            if (w <= 0) break;
            text_canvas_text(s, text ? text : "", w, c > 0);
            used += w + 2;
            if (c + 1 < t->columns && used < s->columns) text_canvas_pad(s, 2);
        }
        text_canvas_plain(s);
        text_canvas_line(s);
    }
}

struct text_canvas chart_text_canvas(const struct qkv_chart_options *o)
{
    struct text_canvas s = { .color = o->color,
                             .truecolor = o->truecolor,
                             .utf8 = o->utf8,
                             .dark = o->theme != QKV_THEME_LIGHT,
                             .columns = o->columns > 0 ? o->columns : 80 };
    if (s.columns < AXIS + COLUMNS_LEAST + 1) s.columns = AXIS + COLUMNS_LEAST + 1;
    return s;
}

void chart_put_finding(struct text_canvas *s, const struct qkv_chart *c)
{
    if (c->title) {
        text_canvas_sgr(s, "1");
        text_canvas_words(s, c->title);
        text_canvas_plain(s);
    }
    if (c->sentence) text_canvas_words(s, c->sentence);
}

static void put_chart(struct text_canvas *s, const struct qkv_chart *c, struct dot_field *field)
{
    chart_put_finding(s, c);
    for (int64_t i = 0; i < c->panels; i++) {
        const struct qkv_chart_panel *p = &c->panel[i];
        text_canvas_line(s);
        put_name(s, p);
        if (p->grid)
            text_canvas_grid(s, p);
        else
            put_panel(s, c, p, field);
        if (p->note) {
            text_canvas_dim(s);
            text_canvas_words(s, p->note);
            text_canvas_plain(s);
        }
    }
    if (c->table && c->table->rows) {
        text_canvas_line(s);
        put_table(s, c->table);
    }
}

qkv_status qkv_chart_terminal(const struct qkv_chart *c, char **out,
                              const struct qkv_chart_options *o, qkv_error *err)
{
    static const struct qkv_chart_options plain;
    if (out) *out = NULL;
    if (!out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_chart_terminal: expected a pointer for the text, found NULL");
    const qkv_status bad = chart_check(c, true, err);
    if (bad) return bad;
    if (!o) o = &plain;
    struct text_canvas s = chart_text_canvas(o);
    struct dot_field *field = qkv_alloc(1, sizeof *field);
    if (!field) return qkv_fail_memory(err, NULL);
    put_chart(&s, c, field);
    qkv_free(field);
    if (!s.t.failed && s.t.at) {
        *out = s.t.at;
        return QKV_OK;
    }
    view_text_free(&s.t);
    return qkv_fail_memory(err, NULL);
}
