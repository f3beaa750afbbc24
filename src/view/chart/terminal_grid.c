// SPDX-License-Identifier: MIT
// terminal_grid.c: draws a grid of numbers in the terminal.
#include "view/chart/chart_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { NAME_MOST = 14, ROWS_MOST = 64 };

// The grid as it is drawn. Each cell on the screen is the mean of a block of down x across numbers.
struct pool {
    const struct qkv_chart_grid *g;
    // down, across: size of a block; rows, columns: number of blocks
    int64_t down, across, rows, columns;
    double low, high;
    int label, wide; // label: columns for the name of a row; wide: columns per cell
};

const char *text_canvas_block(const struct text_canvas *s, double x)
{
    static const char *const blocks[2][5] = { { ".", "-", "+", "*", "#" },
                                              { "·", "░", "▒", "▓", "█" } };
    const int k = x >= .5 ? 4 : x >= .3 ? 3 : x >= .15 ? 2 : x >= .05 ? 1 : 0;
    return blocks[s->utf8][k];
}

// Returns the mean of the numbers in a block. Masked numbers (NaN) are left out; if all are masked,
// returns NaN.
static double pooled(const struct pool *p, int64_t row, int64_t column)
{
    const struct qkv_chart_grid *g = p->g;
    double sum = 0;
    int64_t n = 0;
    for (int64_t r = row * p->down; r < qkv_min64(g->rows, (row + 1) * p->down); r++)
        for (int64_t c = column * p->across; c < qkv_min64(g->columns, (column + 1) * p->across);
             c++)
            if (isfinite(g->value[r * g->columns + c])) {
                sum += (double)g->value[r * g->columns + c];
                n++;
            }
    return n ? sum / (double)n : NAN;
}

static void put_value(struct view_text *t, const struct qkv_chart_grid *g, double value)
{
    if (!isfinite(value)) return;
    if (g->ramp == QKV_CHART_WEIGHTS)
        view_weight(t, value, g->digits > 0 ? g->digits : 2);
    else
        view_number(t, value, g->digits);
}

static void put_name(struct text_canvas *s, const struct pool *p, int64_t row)
{
    struct view_text t = { 0 };
    const int64_t i = row * p->down;
    if (!p->g->row_label)
        view_say(&t, "%" PRId64, i);
    else if (p->g->row_label[i])
        view_plain_text(&t, p->g->row_label[i], strlen(p->g->row_label[i]), 160);
    s->t.failed |= t.failed;
    text_canvas_cell(s, t.at ? t.at : "", (size_t)t.used, p->label, true);
    text_canvas_pad(s, 1);
    view_text_free(&t);
}

static int widest_name(struct text_canvas *s, const struct qkv_chart_grid *g)
{
    int most = 2;
    for (int64_t i = g->row_label ? 0 : g->rows - 1; i < g->rows; i++) {
        struct view_text t = { 0 };
        if (!g->row_label)
            view_say(&t, "%" PRId64, i);
        else if (g->row_label[i])
            view_plain_text(&t, g->row_label[i], strlen(g->row_label[i]), 160);
        s->t.failed |= t.failed;
        const int w = t.at ? text_canvas_width(s, t.at, (size_t)t.used) : 0;
        most = w > most ? w : most;
        view_text_free(&t);
    }
    return most < NAME_MOST ? most : NAME_MOST;
}

static int widest_number(struct text_canvas *s, const struct qkv_chart_grid *g)
{
    int most = 1;
    for (int64_t i = 0; i < g->rows * g->columns; i++) {
        struct view_text t = { 0 };
        put_value(&t, g, (double)g->value[i]);
        s->t.failed |= t.failed;
        const int w = t.at ? text_canvas_width(s, t.at, (size_t)t.used) : 0;
        most = w > most ? w : most;
        view_text_free(&t);
    }
    return most;
}

// ---- one number per cell ------------------------------------------------------------------------
static void put_column_names(struct text_canvas *s, const struct pool *p)
{
    text_canvas_dim(s);
    text_canvas_pad(s, p->label + 1);
    for (int64_t c = 0; c < p->columns; c++) {
        struct view_text t = { 0 };
        if (p->g->column_label && p->g->column_label[c])
            view_plain_text(&t, p->g->column_label[c], strlen(p->g->column_label[c]), 60);
        else if (!p->g->column_label)
            view_say(&t, "%" PRId64, c);
        text_canvas_pad(s, 1);
        text_canvas_cell(s, t.at ? t.at : "", (size_t)t.used, p->wide - 1, true);
        s->t.failed |= t.failed;
        view_text_free(&t);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_numbers(struct text_canvas *s, const struct pool *p)
{
    put_column_names(s, p);
    for (int64_t r = 0; r < p->rows; r++) {
        put_name(s, p, r);
        for (int64_t c = 0; c < p->columns; c++) {
            const double value = (double)p->g->value[r * p->columns + c];
            const double x = chart_darkness(p->g, p->low, p->high, value);
            struct view_text t = { 0 };
            if (p->g->digits >= 0) put_value(&t, p->g, value);
            if (!isfinite(value)) {
                text_canvas_dim(s);
                const bool below = value == -INFINITY && p->g->digits >= 0 && p->wide > 4;
                text_canvas_text(s,
                                 below     ? s->utf8 ? "−∞" : "-inf"
                                 : s->utf8 ? "╱"
                                           : "/",
                                 p->wide, true);
            } else {
                if (p->g->ramp == QKV_CHART_SIGNED)
                    text_canvas_signed(s, x);
                else
                    text_canvas_ground(s, x);
                text_canvas_cell(s, t.at ? t.at : "", (size_t)t.used, p->wide, true);
            }
            text_canvas_plain(s);
            s->t.failed |= t.failed;
            view_text_free(&t);
        }
        text_canvas_line(s);
    }
}

// ---- one character, or half a character, per cell ----------------------------------------------
static const char *const minus[2][4] = { { "-", "=", "%", "@" }, { "╌", "─", "━", "▬" } };

static void put_character(struct text_canvas *s, const struct pool *p, double value)
{
    const bool sign = p->g->ramp == QKV_CHART_SIGNED;
    const double x = chart_darkness(p->g, p->low, p->high, value);
    if (value != value) {
        view_say(&s->t, s->utf8 ? "╱" : "/");
    } else if (s->color) {
        if (sign)
            text_canvas_signed(s, x);
        else
            text_canvas_ground(s, x);
        view_put(&s->t, " ", 1);
        text_canvas_plain(s);
    } else if (sign && x <= -.05) {
        view_say(&s->t, "%s", minus[s->utf8][x <= -.5 ? 3 : x <= -.3 ? 2 : x <= -.15 ? 1 : 0]);
    } else {
        view_say(&s->t, "%s", text_canvas_block(s, x));
    }
}

static void put_characters(struct text_canvas *s, const struct pool *p)
{
    const bool halves = s->color && s->utf8 && p->rows > 16;
    for (int64_t r = 0; r < p->rows; r += halves ? 2 : 1) {
        text_canvas_dim(s);
        put_name(s, p, r);
        text_canvas_plain(s);
        for (int64_t c = 0; c < p->columns; c++) {
            const double a = pooled(p, r, c);
            const double b = halves && r + 1 < p->rows ? pooled(p, r + 1, c) : NAN;
            if (halves)
                text_canvas_halves(s, chart_darkness(p->g, p->low, p->high, a),
                                   chart_darkness(p->g, p->low, p->high, b),
                                   p->g->ramp == QKV_CHART_SIGNED);
            else
                put_character(s, p, a);
        }
        text_canvas_line(s);
    }
}

// Writes the colours or characters of the smallest and the largest value, with these values.
static void say_ramp(struct view_text *t, const struct text_canvas *s, const struct pool *p)
{
    const bool sign = p->g->ramp == QKV_CHART_SIGNED;
    if (sign && !s->color) view_say(t, "%s ", minus[s->utf8][3]);
    chart_number_text(t, p->low);
    if (!sign)
        view_say(t, s->color && s->dark ? " dark to " : " light to ");
    else
        view_say(t, s->color ? " orange to " : " to %s ", text_canvas_block(s, 1));
    chart_number_text(t, p->high);
    if (!sign)
        view_say(t, s->color && s->dark ? " bright" : " dark");
    else
        view_say(t, s->color ? " blue" : ", fainter nearer 0");
}

static void put_words(struct text_canvas *s, const struct qkv_chart_panel *panel,
                      const struct pool *p, bool shaded)
{
    struct view_text t = { 0 };
    if (panel->x.name) view_say(&t, shaded ? "across: %s; " : "across: %s", panel->x.name);
    if (shaded) say_ramp(&t, s, p);
    if (p->down > 1 || p->across > 1)
        view_say(&t, "; each cell is the mean of %" PRId64 " x %" PRId64, p->down, p->across);
    s->t.failed |= t.failed;
    text_canvas_dim(s);
    if (t.at) text_canvas_fold(s, t.at, (size_t)t.used, 0);
    text_canvas_plain(s);
    view_text_free(&t);
}

void text_canvas_grid(struct text_canvas *s, const struct qkv_chart_panel *panel)
{
    const struct qkv_chart_grid *g = panel->grid;
    struct pool p = { g, 1, 1, g->rows, g->columns, 0, 1, widest_name(s, g), 1 };
    chart_grid_ends(&p.low, &p.high, g);
    const int64_t capacity = qkv_max64(1, s->columns - p.label - 1);
    // Numbers are written only for a small grid: a large grid of numbers is not readable.
    p.wide = g->digits >= 0 && g->columns <= capacity / 2 ? widest_number(s, g) + 1 : 2;
    const bool numbers =
        p.wide * g->columns <= capacity && g->rows <= ROWS_MOST && (g->digits >= 0 || s->color);
    if (numbers) {
        put_numbers(s, &p);
    } else {
        p.across = qkv_ceil_div(g->columns, capacity);
        p.down = qkv_ceil_div(g->rows, ROWS_MOST);
        p.columns = qkv_ceil_div(g->columns, p.across);
        p.rows = qkv_ceil_div(g->rows, p.down);
        put_characters(s, &p);
    }
    put_words(s, panel, &p, s->color || !numbers);
}
