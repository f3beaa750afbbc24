// SPDX-License-Identifier: MIT
// plot_heads.c: the entropy of every head over steps, as small panels: layers down, heads across;
// on a sheet and in the terminal.
#include "view/plot.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LAYER_LABEL = 56, CELL_MOST = 150, GAP = 10, NUMBERS_LEAST = 62, AXIS = 9 };

// Bits that a head could have at most: those of even weights over the probe's tokens.
static double most_bits(const struct plot_run *run)
{
    double most = run->tokens > 1 ? log2((double)run->tokens) : 0;
    for (int64_t h = 0; h < run->layers * run->heads; h++)
        for (int64_t i = 0; i < run->head[h].n; i++) most = fmax(most, run->head[h].at[i].value);
    return most > 0 ? most : 1;
}

// ---- on a sheet ---------------------------------------------------------------------------------
static void draw_cell(struct sheet *t, const struct qkv_plot *p, const struct plot_series *s,
                      double x, double y, double width, double height, double most)
{
    struct plot_bin b[PLOT_BINS];
    const int count = plot_bins(b, s, p->first, p->last, (int)fmin(PLOT_BINS, width));
    const double all = p->last > p->first ? (double)(p->last - p->first) : 1;
    sheet_line(t, x, y + height, x + width, y + height, SHEET_RULE, 1);
    for (int fill = 1; fill >= 0 && count; fill--) {
        sheet_path(t, fill ? SHEET_HEAD : SHEET_NONE, fill ? SHEET_NONE : SHEET_HEAD, 1.5,
                   fill ? .1 : 1);
        for (int i = 0; i < count; i++) {
            const double px = x + width * (b[i].step - (double)p->first) / all;
            const double py = y + height * (1 - b[i].mean / most);
            if (fill && !i) sheet_move(t, px, y + height);
            if (fill || i)
                sheet_to(t, px, py);
            else
                sheet_move(t, px, py);
            if (fill && i == count - 1) sheet_to(t, px, y + height);
        }
        if (fill) sheet_close(t);
    }
    if (!count || width < NUMBERS_LEAST) return;
    struct view_text last = { 0 };
    view_number(&last, s->at[s->n - 1].value, 1);
    t->failed |= last.failed;
    if (last.at)
        sheet_text(t, x + width, y + 8, 11, SHEET_END, SHEET_INK3, last.at, (size_t)last.used);
    view_text_free(&last);
}

static void say_range(struct view_text *t, const struct qkv_plot *p)
{
    view_count(t, p->first);
    view_say(t, " to ");
    view_count(t, p->last);
}

void plot_draw_heads(struct sheet *t, const void *of, bool head, struct view_text *frame)
{
    const struct qkv_plot *p = of;
    (void)frame; // the page has no numbers of it
    const struct plot_run *run = &p->run[0];
    const double left = head ? CHART_MARGIN : 0, room = t->width - 2 * left - LAYER_LABEL;
    const double pitch = fmin(CELL_MOST, room / (double)run->heads);
    const double width = fmax(pitch - GAP, pitch * .6), height = fmin(56, fmax(18, width * .6));
    const double most = most_bits(run);
    double y = head ? sheet_head(t, left) : 18;
    struct view_text words = { 0 };
    view_say(&words, "entropy of a row of weights, bits; full height is ");
    view_number(&words, most, 1);
    view_say(&words, ", every key alike; steps ");
    say_range(&words, p);
    view_say(&words, " in each");
    t->failed |= words.failed;
    if (words.at) sheet_text(t, left, y, 11, SHEET_BOLD, SHEET_INK2, words.at, (size_t)words.used);
    view_text_free(&words);
    y += 22;
    for (int64_t h = 0; h < run->heads; h++)
        sheet_say(t, left + LAYER_LABEL + (double)h * pitch + width / 2, y, 11, SHEET_MIDDLE,
                  SHEET_INK3, width < 34 ? "%" PRId64 : "H%" PRId64, h);
    y += 12;
    for (int64_t l = 0; l < run->layers; l++) {
        sheet_say(t, left, y + height / 2 + 4, 11, 0, SHEET_INK3, "layer %" PRId64, l);
        for (int64_t h = 0; h < run->heads; h++)
            draw_cell(t, p, &run->head[l * run->heads + h], left + LAYER_LABEL + (double)h * pitch,
                      y, width, height, most);
        y += height + GAP + 4;
    }
    t->height = y + 12;
}

// ---- in the terminal ----------------------------------------------------------------------------
static void put_head(struct screen *s, const struct qkv_plot *p, const struct plot_series *x,
                     double most, int width, int each)
{
    struct plot_bin b[PLOT_BINS];
    double at[PLOT_BINS], value[PLOT_BINS];
    const int n = plot_bins(b, x, p->first, p->last, width < PLOT_BINS ? width : PLOT_BINS);
    const struct chart_scale steps = { (double)p->first, (double)p->last + 1, false };
    const struct chart_scale bits = { 0, most, false };
    for (int i = 0; i < n; i++) {
        at[i] = b[i].step;
        value[i] = b[i].mean;
    }
    screen_ink(s, SHEET_HEAD);
    chart_sparks(s, at, value, n, &steps, &bits, width);
    screen_plain(s);
    if (each <= 10 || !x->n) {
        screen_pad(s, each - width);
        return;
    }
    struct view_text t = { 0 };
    chart_words(&t, floor(x->at[x->n - 1].value * 10 + .5) / 10);
    s->t.failed |= t.failed;
    view_put(&s->t, " ", 1);
    if (t.at) screen_cell(s, t.at, (size_t)t.used, 3, true);
    screen_pad(s, 1);
    view_text_free(&t);
}

// A line a layer: for each head a row of bars and its last number.
static void put_heads(struct screen *s, const struct qkv_plot *p)
{
    const struct plot_run *run = &p->run[0];
    const int room = s->columns - AXIS, each = (int)qkv_max64(6, room / run->heads);
    const int64_t fit = qkv_max64(1, qkv_min64(run->heads, room / each));
    const double most = most_bits(run);
    char name[40];
    screen_quiet(s);
    screen_pad(s, AXIS);
    for (int64_t h = 0; h < fit; h++) {
        snprintf(name, sizeof name, "H%" PRId64, h);
        screen_text(s, name, each, false);
    }
    if (fit < run->heads) view_say(&s->t, "+%" PRId64, run->heads - fit);
    screen_plain(s);
    screen_line(s);
    for (int64_t l = 0; l < run->layers; l++) {
        snprintf(name, sizeof name, "layer %" PRId64, l);
        screen_quiet(s);
        screen_text(s, name, AXIS, false);
        screen_plain(s);
        for (int64_t h = 0; h < fit; h++)
            put_head(s, p, &run->head[l * run->heads + h], most, each > 10 ? each - 5 : each - 2,
                     each);
        screen_line(s);
    }
    struct view_text t = { 0 };
    view_say(&t, "bits of entropy over steps ");
    say_range(&t, p);
    view_say(&t, "; a full bar is ");
    view_number(&t, most, 1);
    screen_quiet(s);
    s->t.failed |= t.failed;
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    screen_plain(s);
    view_text_free(&t);
}

qkv_status qkv_plot_terminal(const qkv_plot *p, char **out, const struct qkv_chart_options *o,
                             qkv_error *err)
{
    static const struct qkv_chart_options plain;
    struct plot_picture picture;
    if (out) *out = NULL;
    if (!out || !p)
        return qkv_fail(err, QKV_ERR_USAGE, NULL, "qkv_plot_terminal, expected a plot and a place");
    if (!plot_picture_make(&picture, p)) return qkv_fail_memory(err, NULL);
    if (!p->probes) {
        picture.chart.table = NULL; // the curves' names have the numbers
        const qkv_status status = qkv_chart_terminal(&picture.chart, out, o, err);
        plot_picture_free(&picture);
        return status;
    }
    struct screen s = chart_screen(o ? o : &plain);
    chart_put_finding(&s, &picture.chart);
    screen_line(&s);
    put_heads(&s, p);
    plot_picture_free(&picture);
    if (!s.t.failed) {
        *out = s.t.at;
        return QKV_OK;
    }
    view_text_free(&s.t);
    return qkv_fail_memory(err, NULL);
}
