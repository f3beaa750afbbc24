// SPDX-License-Identifier: MIT
// plot_draw.c: the curves of runs as SVG: one panel a kind, one axis of steps below them all.
//
// Of one run the training loss is a thin line in a band from the least to the largest of the steps
// it stands for, validation a bold one with a dot for each evaluation.  Of several each has its
// colour and its name at the end.
#include "view/plot.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    LABELS = 64,
    LABEL_APART = 16,
    PANEL_APART = 34,
    LOSS_HEIGHT = 300,
    SMALL_HEIGHT = 96,
    BINS = 180
};

struct panel {
    const struct qkv_plot *p;
    enum plot_kind kind;
    struct chart_scale scale;
    double top, height;
};
static double x_of(const struct qkv_plot *p, double step)
{
    const double width = PLOT_WIDTH - PLOT_LEFT - PLOT_RIGHT;
    const double all = p->last > p->first ? (double)(p->last - p->first) : 1;
    return PLOT_LEFT + width * (step - (double)p->first) / all;
}
static double y_of(const struct panel *n, double value)
{
    return n->top + n->height * (1 - chart_place(&n->scale, value));
}

static void say_point(struct view_text *t, const char *command, double x, double y)
{
    view_say(t, "%s", command);
    view_number(t, x, 1);
    view_put(t, " ", 1);
    view_number(t, y, 1);
}

// name="1.5"
static void say_attribute(struct view_text *t, const char *name, double x)
{
    view_say(t, " %s=\"", name);
    view_number(t, x, 1);
    view_put(t, "\"", 1);
}

static void draw_rule(struct view_text *t, const char *class, double x1, double y1, double x2,
                      double y2)
{
    view_say(t, "<line class=\"%s\"", class);
    say_attribute(t, "x1", x1);
    say_attribute(t, "y1", y1);
    say_attribute(t, "x2", x2);
    say_attribute(t, "y2", y2);
    view_say(t, "/>\n");
}

static void open_words(struct view_text *t, const char *class, double x, double y)
{
    view_say(t, "<text class=\"%s\"", class);
    say_attribute(t, "x", x);
    say_attribute(t, "y", y);
    view_put(t, ">", 1);
}

static void draw_axis(struct view_text *t, const struct panel *n, const char *name)
{
    double tick[CHART_TICKS];
    const int ticks = chart_ticks(tick, &n->scale, n->height > 200 ? 6 : 3);
    open_words(t, "name", PLOT_LEFT, n->top - 9);
    view_say(t, "%s</text>\n", name);
    for (int i = 0; i < ticks; i++) {
        const double y = y_of(n, tick[i]);
        draw_rule(t, "rule", PLOT_LEFT, y, PLOT_WIDTH - PLOT_RIGHT, y);
        open_words(t, "tick end", PLOT_LEFT - 10, y + 4);
        chart_number(t, tick[i]);
        view_say(t, "</text>\n");
    }
}

static void draw_steps(struct view_text *t, const struct qkv_plot *p, double y)
{
    double tick[CHART_TICKS];
    const struct chart_scale s = { (double)p->first,
                                   (double)(p->last > p->first ? p->last : p->first + 1), false };
    const int ticks = chart_ticks(tick, &s, 8);
    for (int i = 0; i < ticks; i++) {
        if (tick[i] != floor(tick[i])) continue;
        const double x = x_of(p, tick[i]);
        draw_rule(t, "rule", x, y, x, y + 5);
        open_words(t, "tick middle", x, y + 19);
        view_count(t, (int64_t)tick[i]);
        view_say(t, "</text>\n");
    }
    open_words(t, "tick", PLOT_WIDTH - PLOT_RIGHT + 30, y + 19);
    view_say(t, "step</text>\n");
}

// ---- one curve ---------------------------------------------------------------------------------
static void draw_band(struct view_text *t, const struct panel *n, const struct plot_bin *b,
                      int count, int64_t hue)
{
    bool any = false;
    for (int i = 0; i < count; i++) any |= b[i].high > b[i].low;
    if (!any) return;
    view_say(t, "<path class=\"band c%d\" d=\"", (int)(hue % 16));
    for (int i = 0; i < count; i++)
        say_point(t, i ? "L" : "M", x_of(n->p, b[i].step), y_of(n, b[i].high));
    for (int i = count - 1; i >= 0; i--)
        say_point(t, "L", x_of(n->p, b[i].step), y_of(n, b[i].low));
    view_say(t, "Z\"/>\n");
}

static void draw_curve(struct view_text *t, const struct panel *n, const struct plot_bin *b,
                       int count, const char *class, int64_t hue)
{
    view_say(t, "<path class=\"%s c%d\" d=\"", class, (int)(hue % 16));
    for (int i = 0; i < count; i++)
        say_point(t, i ? "L" : "M", x_of(n->p, b[i].step), y_of(n, b[i].mean));
    view_say(t, "\"/>\n");
}

static void draw_dots(struct view_text *t, const struct panel *n, const struct plot_series *s,
                      int64_t hue)
{
    if (s->n > 60) return; // a line of its own
    for (int64_t i = 0; i < s->n; i++) {
        view_say(t, "<circle class=\"dot c%d\" r=\"2.6\"", (int)(hue % 16));
        say_attribute(t, "cx", x_of(n->p, (double)s->at[i].step));
        say_attribute(t, "cy", y_of(n, s->at[i].value));
        view_say(t, "/>\n");
    }
}

// ---- words at the ends -------------------------------------------------------------------------
static void say_name(struct view_text *t, const char *name)
{
    struct view_text cut = { 0 };
    chart_put_name(&cut, name);
    t->failed |= cut.failed;
    if (cut.at) view_html_text(t, cut.at, (size_t)cut.used);
    view_text_free(&cut);
}

static void draw_labels(struct view_text *t, const struct panel *n, struct chart_label *l,
                        int count)
{
    chart_part_labels(l, count, n->top, n->top + n->height);
    for (int i = 0; i < count; i++) {
        view_say(t, "<text class=\"label%s t%d\"", l[i].bold ? " bold" : "", l[i].ink);
        say_attribute(t, "x", PLOT_WIDTH - PLOT_RIGHT + 10);
        say_attribute(t, "y", l[i].y + 4);
        view_put(t, ">", 1);
        say_name(t, l[i].what);
        view_say(t, " <tspan class=\"number\">");
        chart_number(t, l[i].value);
        view_say(t, "</tspan></text>\n");
    }
}

// ---- panels ------------------------------------------------------------------------------------
static void frame_panel(struct view_text *f, const struct panel *n)
{
    static const char *const names[PLOT_KINDS] = { "loss", "valid", "rate", "norm" };
    if (!f) return;
    view_say(f, "%s{\"kind\":\"%s\",\"top\":", f->used && f->at[f->used - 1] == '}' ? "," : "",
             names[n->kind]);
    view_number(f, n->top, 1);
    view_say(f, ",\"height\":");
    view_number(f, n->height, 1);
    view_say(f, ",\"low\":");
    chart_json(f, n->scale.low);
    view_say(f, ",\"high\":");
    chart_json(f, n->scale.high);
    view_say(f, ",\"log\":%s}", n->scale.log ? "true" : "false");
}

static bool has(const struct qkv_plot *p, enum plot_kind kind)
{
    for (int64_t r = 0; r < p->runs; r++)
        if (p->run[r].series[kind].n) return true;
    return false;
}

// Loss with validation: the training curves first, so that what counts lies on top.
static void draw_loss(struct view_text *t, const struct panel *n)
{
    struct plot_bin b[PLOT_BINS];
    struct chart_label label[LABELS];
    int labels = 0;
    const struct qkv_plot *p = n->p;
    for (int64_t r = 0; r < p->runs; r++) {
        const struct plot_series *s = &p->run[r].series[PLOT_LOSS];
        const int count = plot_bins(b, s, p->first, p->last, BINS);
        if (!count) continue;
        if (p->runs <= 3) draw_band(t, n, b, count, r);
        draw_curve(t, n, b, count, p->run[r].series[PLOT_VALID].n ? "line thin" : "line", r);
        const bool alone = p->runs == 1;
        if ((alone || !p->run[r].series[PLOT_VALID].n) && labels < LABELS)
            label[labels++] =
                (struct chart_label){ y_of(n, b[count - 1].mean), b[count - 1].mean,
                                      alone ? "training" : p->run[r].name, (int)(r % 16), false };
    }
    for (int64_t r = 0; r < p->runs; r++) {
        const struct plot_series *s = &p->run[r].series[PLOT_VALID];
        const int count = plot_bins(b, s, p->first, p->last, BINS);
        if (!count) continue;
        draw_curve(t, n, b, count, "line strong", r);
        draw_dots(t, n, s, r);
        const double last = s->at[s->n - 1].value;
        if (labels < LABELS)
            label[labels++] = (struct chart_label){ y_of(n, last), last,
                                                    p->runs == 1 ? "validation" : p->run[r].name,
                                                    (int)(r % 16), true };
    }
    draw_labels(t, n, label, labels);
}

static void draw_small(struct view_text *t, const struct panel *n)
{
    struct plot_bin b[PLOT_BINS];
    struct chart_label label[LABELS];
    int labels = 0;
    for (int64_t r = 0; r < n->p->runs; r++) {
        const int count =
            plot_bins(b, &n->p->run[r].series[n->kind], n->p->first, n->p->last, BINS);
        if (!count) continue;
        if (n->p->runs <= 3) draw_band(t, n, b, count, r);
        draw_curve(t, n, b, count, "line", r);
        if (labels < LABELS && n->p->runs <= 5)
            label[labels++] = (struct chart_label){ y_of(n, b[count - 1].mean), b[count - 1].mean,
                                                    n->p->runs == 1 ? "" : n->p->run[r].name,
                                                    (int)(r % 16), false };
    }
    draw_labels(t, n, label, labels);
}

double plot_draw(struct view_text *t, struct view_text *frame, const struct qkv_plot *p, double y)
{
    static const struct {
        enum plot_kind kind;
        const char *name;
        double height;
    } panels[] = { { PLOT_LOSS, "loss, nats a target; validation is bold", LOSS_HEIGHT },
                   { PLOT_RATE, "learning rate", SMALL_HEIGHT },
                   { PLOT_NORM, "length of the gradient, before clipping", SMALL_HEIGHT } };
    for (size_t i = 0; i < sizeof panels / sizeof *panels; i++) {
        const enum plot_kind kind = panels[i].kind;
        const bool valid = has(p, PLOT_VALID);
        if (!has(p, kind) && !(kind == PLOT_LOSS && valid)) continue;
        const struct panel n = { p, kind, plot_scale_of(p, kind), y + PANEL_APART,
                                 panels[i].height };
        draw_axis(t, &n, kind == PLOT_LOSS && !valid ? "loss, nats a target" : panels[i].name);
        if (kind == PLOT_LOSS)
            draw_loss(t, &n);
        else
            draw_small(t, &n);
        frame_panel(frame, &n);
        y = n.top + n.height;
    }
    draw_steps(t, p, y);
    return y + 28;
}
