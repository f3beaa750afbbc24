// SPDX-License-Identifier: MIT
// training_heads.c: draws the entropy of every head over the steps of training, as small panels: a
// row per layer, a column per head. Draws on a canvas and in the terminal.
#include "view/chart/training_chart.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LAYER_LABEL = 56, CELL_MOST = 150, GAP = 10, NUMBERS_LEAST = 62, AXIS = 9 };

// Returns the largest possible entropy of a head in bits: the entropy of uniform weights over the
// tokens of the probe's sentence.
static double most_bits(const struct training_run *run)
{
    double most = run->tokens > 1 ? log2((double)run->tokens) : 0;
    for (int64_t h = 0; h < run->layers * run->heads; h++)
        for (int64_t i = 0; i < run->head[h].n; i++) most = fmax(most, run->head[h].at[i].value);
    return most > 0 ? most : 1;
}

// ---- on a canvas --------------------------------------------------------------------------------
static void draw_cell(struct canvas *t, const struct qkv_plot *p, const struct training_series *s,
                      double x, double y, double width, double height, double most)
{
    struct training_bin b[TRAINING_BINS];
    const int count = training_bins(b, s, p->first, p->last, (int)fmin(TRAINING_BINS, width));
    const double all = p->last > p->first ? (double)(p->last - p->first) : 1;
    canvas_line(t, x, y + height, x + width, y + height, PALETTE_RULE, 1);
    for (int fill = 1; fill >= 0 && count; fill--) {
        canvas_path(t, fill ? PALETTE_HEAD : PALETTE_NONE, fill ? PALETTE_NONE : PALETTE_HEAD, 1.5,
                    fill ? .1 : 1);
        for (int i = 0; i < count; i++) {
            const double px = x + width * (b[i].step - (double)p->first) / all;
            const double py = y + height * (1 - b[i].mean / most);
            if (fill && !i) canvas_move_to(t, px, y + height);
            if (fill || i)
                canvas_line_to(t, px, py);
            else
                canvas_move_to(t, px, py);
            if (fill && i == count - 1) canvas_line_to(t, px, y + height);
        }
        if (fill) canvas_close(t);
    }
    if (!count || width < NUMBERS_LEAST) return;
    struct view_text last = { 0 };
    view_number(&last, s->at[s->n - 1].value, 1);
    t->failed |= last.failed;
    // the number is in the half of the cell where the curve does not end
    const bool high = s->at[s->n - 1].value > most / 2;
    if (last.at)
        canvas_text(t, x + width, y + (high ? height - 4 : 8), 11, CANVAS_END, PALETTE_TEXT3,
                    last.at, (size_t)last.used);
    view_text_free(&last);
}

static void say_range(struct view_text *t, const struct qkv_plot *p)
{
    view_count(t, p->first);
    view_say(t, " to ");
    view_count(t, p->last);
}

void training_draw_heads(struct canvas *t, const void *of, bool head, struct chart_frame *frame)
{
    const struct qkv_plot *p = of;
    (void)frame; // the script of the page needs no numbers of this drawing
    const struct training_run *run = &p->run[0];
    const double left = head ? CHART_MARGIN : 0, capacity = t->width - 2 * left - LAYER_LABEL;
    const double pitch = fmin(CELL_MOST, capacity / (double)run->heads);
    const double width = fmax(pitch - GAP, pitch * .6), height = fmin(56, fmax(18, width * .6));
    const double most = most_bits(run);
    double y = head ? canvas_head(t, left) : 18;
    struct view_text words = { 0 };
    view_say(&words, "entropy of a row of weights in bits; full height is ");
    view_number(&words, most, 1);
    view_say(&words, ", where all weights are equal; each cell has the steps ");
    say_range(&words, p);
    t->failed |= words.failed;
    if (!words.failed)
        y = canvas_fold(t, left, y, t->width - 2 * left, 11, CANVAS_BOLD, PALETTE_TEXT2, words.at,
                        14);
    view_text_free(&words);
    y += 8;
    for (int64_t h = 0; h < run->heads; h++)
        canvas_format(t, left + LAYER_LABEL + (double)h * pitch + width / 2, y, 11, CANVAS_MIDDLE,
                      PALETTE_TEXT3, width < 34 ? "%" PRId64 : "H%" PRId64, h);
    y += 12;
    for (int64_t l = 0; l < run->layers; l++) {
        canvas_format(t, left, y + height / 2 + 4, 11, 0, PALETTE_TEXT3, "layer %" PRId64, l);
        for (int64_t h = 0; h < run->heads; h++)
            draw_cell(t, p, &run->head[l * run->heads + h], left + LAYER_LABEL + (double)h * pitch,
                      y, width, height, most);
        y += height + GAP + 4;
    }
    t->height = y + 12;
}

// ---- in the terminal ----------------------------------------------------------------------------
static void put_head(struct text_canvas *s, const struct qkv_plot *p,
                     const struct training_series *x, double most, int width, int each)
{
    struct training_bin b[TRAINING_BINS];
    double at[TRAINING_BINS], value[TRAINING_BINS];
    const int n =
        training_bins(b, x, p->first, p->last, width < TRAINING_BINS ? width : TRAINING_BINS);
    const struct chart_scale steps = { (double)p->first, (double)p->last + 1, false };
    const struct chart_scale bits = { 0, most, false };
    for (int i = 0; i < n; i++) {
        at[i] = b[i].step;
        value[i] = b[i].mean;
    }
    text_canvas_color(s, PALETTE_HEAD);
    chart_sparks(s, at, value, n, &steps, &bits, width);
    text_canvas_plain(s);
    if (each <= 10 || !x->n) {
        text_canvas_pad(s, each - width);
        return;
    }
    struct view_text t = { 0 };
    chart_number_text(&t, floor(x->at[x->n - 1].value * 10 + .5) / 10);
    view_put(&s->t, " ", 1);
    text_canvas_put(s, &t, 3, true);
    text_canvas_pad(s, 1);
}

// Draws one line of text per layer. For each head it has a row of small bars and the last entropy.
static void put_heads(struct text_canvas *s, const struct qkv_plot *p)
{
    const struct training_run *run = &p->run[0];
    const int capacity = s->columns - AXIS, each = (int)qkv_max64(6, capacity / run->heads);
    const int64_t fit = qkv_max64(1, qkv_min64(run->heads, capacity / each));
    const double most = most_bits(run);
    char name[40];
    text_canvas_dim(s);
    text_canvas_pad(s, AXIS);
    for (int64_t h = 0; h < fit; h++) {
        snprintf(name, sizeof name, "H%" PRId64, h);
        text_canvas_text(s, name, each, false);
    }
    if (fit < run->heads) view_say(&s->t, "+%" PRId64, run->heads - fit);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int64_t l = 0; l < run->layers; l++) {
        snprintf(name, sizeof name, "layer %" PRId64, l);
        text_canvas_dim(s);
        text_canvas_text(s, name, AXIS, false);
        text_canvas_plain(s);
        for (int64_t h = 0; h < fit; h++)
            put_head(s, p, &run->head[l * run->heads + h], most, each > 10 ? each - 5 : each - 2,
                     each);
        text_canvas_line(s);
    }
    struct view_text t = { 0 };
    view_say(&t, "bars: entropy in bits over the steps ");
    say_range(&t, p);
    view_say(&t, "; a bar of full height is ");
    view_number(&t, most, 1);
    text_canvas_dim(s);
    text_canvas_put_folded(s, &t, 0);
    text_canvas_plain(s);
}

qkv_status qkv_plot_terminal(const qkv_plot *p, char **out, const struct qkv_chart_options *o,
                             qkv_error *err)
{
    static const struct qkv_chart_options plain;
    struct training_chart picture;
    if (out) *out = NULL;
    if (!out || !p)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_plot_terminal: expected a plot and a pointer for the text, found NULL");
    if (!training_chart_make(&picture, p)) return qkv_fail_memory(err, NULL);
    if (!p->probes) {
        picture.chart.table = NULL; // no table: the names of the curves already contain its numbers
        const qkv_status status = qkv_chart_terminal(&picture.chart, out, o, err);
        training_chart_free(&picture);
        return status;
    }
    struct text_canvas s = chart_text_canvas(o ? o : &plain);
    chart_put_finding(&s, &picture.chart);
    text_canvas_line(&s);
    put_heads(&s, p);
    training_chart_free(&picture);
    if (!s.t.failed) {
        *out = s.t.at;
        return QKV_OK;
    }
    view_text_free(&s.t);
    return qkv_fail_memory(err, NULL);
}
