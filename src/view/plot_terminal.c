// SPDX-License-Identifier: MIT
// plot_terminal.c: curves as lines of text: the loss as dots of Braille, four rows of them to a
// line, with a mark at each evaluation; learning rate and gradient as rows of bars; heads as a
// table of such rows.
//
// Colour only tells runs apart, and so do their letters: nothing is lost without it.  Without UTF-8
// all is ASCII.
#include "view/plot.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { ROWS = 14, AXIS = 9, COLUMNS_LEAST = 24, COLUMNS_MOST = 180, LETTER_EVERY = 14 };

// A field of cells; what is drawn later lies on top.
struct canvas {
    int columns, rows;
    uint8_t dots[ROWS * COLUMNS_MOST]; // Braille's eight
    char mark[ROWS * COLUMNS_MOST];    // in place of the dots; '*': an evaluation of the only run
    int16_t run[ROWS * COLUMNS_MOST];
};

static void set_dot(struct canvas *c, int x, int y,
                    int64_t run) // x of 2 columns, y of 4 rows a cell, from above
{
    static const uint8_t bit[4][2] = { { 1, 8 }, { 2, 16 }, { 4, 32 }, { 64, 128 } };
    if (x < 0 || y < 0 || x >= 2 * c->columns || y >= 4 * c->rows) return;
    const int cell = y / 4 * c->columns + x / 2;
    if (c->run[cell] != run) c->dots[cell] = 0; // colours do not mix in a cell
    c->dots[cell] |= bit[y % 4][x % 2];
    c->run[cell] = (int16_t)run;
}

static void set_mark(struct canvas *c, int x, int y, int64_t run, char mark)
{
    const int cell = y / 4 * c->columns + x / 2;
    if (x < 0 || y < 0 || x >= 2 * c->columns || y >= 4 * c->rows) return;
    c->mark[cell] = mark;
    c->run[cell] = (int16_t)run;
}

static int x_dot(const struct qkv_plot *p, const struct canvas *c, double step)
{
    const double all = p->last > p->first ? (double)(p->last - p->first) : 1;
    return (int)((step - (double)p->first) / all * (2 * c->columns - 1) + .5);
}
static int y_dot(const struct canvas *c, const struct chart_scale *s, double value)
{
    return (int)((1 - chart_place(s, value)) * (4 * c->rows - 1) + .5);
}

static void draw_line(struct canvas *c, int x0, int y0, int x1, int y1, int64_t run)
{
    const int n = abs(x1 - x0) > abs(y1 - y0) ? abs(x1 - x0) : abs(y1 - y0);
    for (int i = 0; i <= n; i++) {
        const double a = n ? (double)i / n : 0;
        set_dot(c, x0 + (int)lround(a * (x1 - x0)), y0 + (int)lround(a * (y1 - y0)), run);
    }
}

static char letter(int64_t run)
{
    return (char)('a' + run % 26);
}

static void draw_run(struct canvas *c, const struct qkv_plot *p, const struct chart_scale *s,
                     int64_t r)
{
    struct plot_bin b[PLOT_BINS];
    const struct plot_series *valid = &p->run[r].series[PLOT_VALID];
    const int most = 2 * c->columns < PLOT_BINS ? 2 * c->columns : PLOT_BINS;
    const int n = plot_bins(b, &p->run[r].series[PLOT_LOSS], p->first, p->last, most);
    for (int i = 0; i < n; i++) {
        const int x = x_dot(p, c, b[i].step), y = y_dot(c, s, b[i].mean);
        if (i)
            draw_line(c, x_dot(p, c, b[i - 1].step), y_dot(c, s, b[i - 1].mean), x, y, r);
        else
            set_dot(c, x, y, r);
    }
    for (int i = 0; i < n && p->runs > 1 && !valid->n; i += LETTER_EVERY)
        set_mark(c, x_dot(p, c, b[i].step), y_dot(c, s, b[i].mean), r, letter(r));
    for (int64_t i = 0; i < valid->n; i++)
        set_mark(c, x_dot(p, c, (double)valid->at[i].step), y_dot(c, s, valid->at[i].value), r,
                 p->runs > 1 ? letter(r) : '*');
}

// ---- cells to text -----------------------------------------------------------------------------
static void put_cell(struct screen *s, const struct canvas *c, int cell)
{
    const char mark = c->mark[cell];
    const uint8_t dots = c->dots[cell];
    if (!mark && !dots) {
        view_put(&s->t, " ", 1);
        return;
    }
    screen_head(s, c->run[cell]);
    if (mark == '*') {
        screen_sgr(s, "1");
        view_say(&s->t, s->utf8 ? "●" : "o");
    } else if (mark) {
        screen_sgr(s, "1");
        view_put(&s->t, &mark, 1);
    } else if (s->utf8) {
        const char braille[3] = { (char)0xE2, (char)(0xA0 | dots >> 6),
                                  (char)(0x80 | (dots & 63)) };
        view_put(&s->t, braille, 3);
    } else {
        view_put(&s->t, dots & 0x1B ? dots & 0xE4 ? ":" : "'" : ".", 1);
    }
    screen_plain(s);
}

// A number in `columns` columns, to the right.
static void put_number(struct screen *s, double x, int columns)
{
    struct view_text t = { 0 };
    chart_number(&t, x);
    s->t.failed |= t.failed;
    if (t.at) screen_cell(s, t.at, (size_t)t.used, columns, true);
    view_text_free(&t);
}

static void put_rows(struct screen *s, const struct canvas *c, const struct chart_scale *scale)
{
    double tick[CHART_TICKS];
    const int ticks = chart_ticks(tick, scale, 5);
    for (int row = 0; row < c->rows; row++) {
        int here = -1;
        for (int i = 0; i < ticks; i++)
            if (y_dot(c, scale, tick[i]) / 4 == row) here = i;
        screen_quiet(s);
        if (here >= 0)
            put_number(s, tick[here], AXIS - 2);
        else
            screen_pad(s, AXIS - 2);
        view_say(&s->t, s->utf8 ? here >= 0 ? " ┤" : " │" : here >= 0 ? " +" : " |");
        screen_plain(s);
        int end = c->columns; // no idle blanks
        while (end > 0 && !c->mark[row * c->columns + end - 1] &&
               !c->dots[row * c->columns + end - 1])
            end--;
        for (int x = 0; x < end; x++) put_cell(s, c, row * c->columns + x);
        screen_line(s);
    }
}

static void put_steps(struct screen *s, const struct qkv_plot *p, int columns)
{
    struct view_text first = { 0 }, last = { 0 };
    view_count(&first, p->first);
    view_say(&last, "step ");
    view_count(&last, p->last);
    screen_quiet(s);
    screen_pad(s, AXIS - 1);
    view_say(&s->t, s->utf8 ? "└" : "+");
    for (int i = 0; i < columns; i++) view_say(&s->t, s->utf8 ? "─" : "-");
    screen_line(s);
    screen_pad(s, AXIS);
    if (first.at && last.at) {
        screen_cell(s, first.at, (size_t)first.used, (int)first.used, false);
        screen_cell(s, last.at, (size_t)last.used, columns - (int)first.used, true);
    }
    screen_plain(s);
    screen_line(s);
    s->t.failed |= first.failed || last.failed;
    view_text_free(&first);
    view_text_free(&last);
}

// ---- rows of bars ------------------------------------------------------------------------------
// The series in `columns` bars of eighths, least to largest of the scale.
static void put_bars(struct screen *s, const struct qkv_plot *p, const struct plot_series *x,
                     const struct chart_scale *scale, int columns)
{
    static const char *const bars[2][8] = { { ".", ":", "-", "=", "+", "*", "#", "@" },
                                            { "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█" } };
    struct plot_bin b[PLOT_BINS];
    const int n = plot_bins(b, x, p->first, p->last, columns);
    const double width = (double)(p->last - p->first + 1) / columns;
    int at = 0;
    for (int i = 0; i < n; i++) {
        const int column = (int)((b[i].step - (double)p->first) / width);
        for (; at < column; at++) view_put(&s->t, " ", 1);
        const int k = (int)(chart_place(scale, b[i].mean) * 7 + .5);
        view_say(&s->t, "%s", bars[s->utf8][k]);
        at++;
    }
    screen_pad(s, columns - at);
}

static void put_small(struct screen *s, const struct qkv_plot *p, enum plot_kind kind,
                      const char *name, int columns)
{
    const struct chart_scale scale = plot_scale_of(p, kind);
    for (int64_t r = 0; r < p->runs && r < 6; r++) {
        const struct plot_series *x = &p->run[r].series[kind];
        if (!x->n) continue;
        char label[AXIS + 1];
        if (p->runs > 1)
            snprintf(label, sizeof label, "%-6s%c", name, letter(r));
        else
            snprintf(label, sizeof label, "%s", name);
        screen_quiet(s);
        screen_text(s, label, AXIS - 1, true);
        screen_plain(s);
        view_put(&s->t, " ", 1);
        screen_head(s, r);
        put_bars(s, p, x, &scale, columns - 9);
        screen_plain(s);
        screen_quiet(s);
        put_number(s, x->at[x->n - 1].value, 9);
        screen_plain(s);
        screen_line(s);
    }
}

// ---- the pictures ------------------------------------------------------------------------------
// What a mark stands for.  A narrow terminal gets the names and the number that counts.
static void put_legend(struct screen *s, const struct qkv_plot *p)
{
    const bool wide = s->columns >= 72;
    for (int64_t r = 0; r < p->runs; r++) {
        const struct qkv_plot_info i = qkv_plot_info(p, r);
        const bool valid = isfinite(i.valid), loss = isfinite(i.last);
        screen_pad(s, wide ? AXIS : 0);
        screen_head(s, r);
        screen_sgr(s, "1");
        if (p->runs > 1) {
            view_say(&s->t, "%c ", letter(r));
            screen_plain(s);
            screen_text(s, i.name, wide ? 24 : 10, false);
        } else {
            view_say(&s->t, valid ? s->utf8 ? "●" : "o" : s->utf8 ? "⠤⠤" : "..");
            screen_plain(s);
        }
        if (valid) {
            view_say(&s->t, p->runs > 1 ? "  validation " : " validation ");
            view_number(&s->t, i.valid, 3);
        }
        if (loss && (wide || !valid)) {
            const char *line = p->runs > 1 || !valid ? "" : s->utf8 ? " ⠤⠤" : " ..";
            view_say(&s->t, valid ? " %s training " : "%s training ", line);
            view_number(&s->t, i.last, 3);
        }
        screen_line(s);
    }
}

static void put_curves(struct screen *s, const struct qkv_plot *p, struct canvas *c)
{
    const struct chart_scale scale = plot_scale_of(p, PLOT_LOSS);
    memset(c, 0, sizeof *c);
    c->rows = ROWS;
    c->columns = (int)qkv_min64(COLUMNS_MOST, qkv_max64(COLUMNS_LEAST, s->columns - AXIS - 1));
    for (int64_t r = 0; r < p->runs; r++) draw_run(c, p, &scale, r);
    put_rows(s, c, &scale);
    put_steps(s, p, c->columns);
    put_legend(s, p);
    put_small(s, p, PLOT_RATE, "rate", c->columns);
    put_small(s, p, PLOT_NORM, "norm", c->columns);
}

// A line a layer: for each head a row of bars and its last number.
static void put_heads(struct screen *s, const struct qkv_plot *p)
{
    const struct plot_run *run = &p->run[0];
    const int room = s->columns - AXIS, each = (int)qkv_max64(6, room / run->heads);
    const int64_t fit = qkv_max64(1, qkv_min64(run->heads, room / each));
    const int width = each > 10 ? each - 5 : each - 2;
    struct chart_scale scale = { 0, run->tokens > 1 ? log2((double)run->tokens) : 1, false };
    for (int64_t h = 0; h < run->layers * run->heads; h++)
        for (int64_t i = 0; i < run->head[h].n; i++)
            scale.high = fmax(scale.high, run->head[h].at[i].value);
    screen_quiet(s);
    screen_pad(s, AXIS);
    for (int64_t h = 0; h < fit; h++) {
        char name[24];
        snprintf(name, sizeof name, "H%" PRId64, h);
        screen_text(s, name, each, false);
    }
    if (fit < run->heads) view_say(&s->t, "+%" PRId64, run->heads - fit);
    screen_plain(s);
    screen_line(s);
    for (int64_t l = 0; l < run->layers; l++) {
        char name[40];
        snprintf(name, sizeof name, "layer %" PRId64, l);
        screen_quiet(s);
        screen_text(s, name, AXIS, false);
        screen_plain(s);
        for (int64_t h = 0; h < fit; h++) {
            const struct plot_series *x = &run->head[l * run->heads + h];
            screen_head(s, 0);
            put_bars(s, p, x, &scale, width);
            screen_plain(s);
            if (each > 10 && x->n) {
                view_put(&s->t, " ", 1);
                put_number(s, floor(x->at[x->n - 1].value * 10 + .5) / 10, 3);
                screen_pad(s, 1);
            } else {
                screen_pad(s, each - width);
            }
        }
        screen_line(s);
    }
    struct view_text t = { 0 };
    view_say(&t, "bits of entropy over steps ");
    view_count(&t, p->first);
    view_say(&t, " to ");
    view_count(&t, p->last);
    view_say(&t, "; a full bar is ");
    view_number(&t, scale.high, 1);
    screen_quiet(s);
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    screen_plain(s);
    s->t.failed |= t.failed;
    view_text_free(&t);
}

qkv_status qkv_plot_terminal(const qkv_plot *p, char **out, const struct qkv_plot_options *o,
                             qkv_error *err)
{
    static const struct qkv_plot_options plain;
    struct view_text sentence = { 0 };
    if (!out || !p)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_plot_terminal, expected a plot and a place");
    *out = NULL;
    if (!o) o = &plain;
    struct screen s = { .color = o->color,
                        .truecolor = o->truecolor,
                        .utf8 = o->utf8,
                        .dark = o->theme != QKV_THEME_LIGHT,
                        .columns = o->columns > 0 ? o->columns : 80 };
    struct canvas *c = qkv_alloc(1, sizeof *c);
    if (!c) return qkv_fail_memory(err, NULL);
    if (s.columns < AXIS + COLUMNS_LEAST + 1) s.columns = AXIS + COLUMNS_LEAST + 1;
    screen_sgr(&s, "1");
    view_say(&s.t, "%s", plot_question(p));
    screen_plain(&s);
    screen_line(&s);
    plot_sentence(&sentence, p);
    if (sentence.at) screen_fold(&s, sentence.at, (size_t)sentence.used, 0);
    screen_line(&s);
    if (p->probes)
        put_heads(&s, p);
    else
        put_curves(&s, p, c);
    qkv_free(c);
    const bool failed = s.t.failed || sentence.failed;
    view_text_free(&sentence);
    if (!failed) {
        *out = s.t.at;
        return QKV_OK;
    }
    view_text_free(&s.t);
    return qkv_fail_memory(err, NULL);
}
