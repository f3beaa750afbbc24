// SPDX-License-Identifier: MIT
// plot_heads.c: the entropy of every head over steps, as small panels: layers down, heads across.
#include "view/plot.h"
#include <inttypes.h>
#include <math.h>

enum { LAYER_LABEL = 56, CELL_MOST = 150, GAP = 10, NUMBERS_LEAST = 62 };

// Bits that a head could have at most: those of even weights over the probe's tokens.
static double most_bits(const struct plot_run *run)
{
    double most = run->tokens > 1 ? log2((double)run->tokens) : 0;
    for (int64_t h = 0; h < run->layers * run->heads; h++)
        for (int64_t i = 0; i < run->head[h].n; i++) most = fmax(most, run->head[h].at[i].value);
    return most > 0 ? most : 1;
}

static void say_point(struct view_text *t, const char *command, double x, double y)
{
    view_say(t, "%s", command);
    view_number(t, x, 1);
    view_put(t, " ", 1);
    view_number(t, y, 1);
}

static void open_words(struct view_text *t, const char *class, double x, double y)
{
    view_say(t, "<text class=\"%s\" x=\"", class);
    view_number(t, x, 1);
    view_say(t, "\" y=\"");
    view_number(t, y, 1);
    view_say(t, "\">");
}

static void draw_cell(struct view_text *t, const struct qkv_plot *p, const struct plot_series *s,
                      double x, double y, double width, double height, double most, bool numbers)
{
    struct plot_bin b[PLOT_BINS];
    const int count = plot_bins(b, s, p->first, p->last, (int)fmin(PLOT_BINS, width));
    const double all = p->last > p->first ? (double)(p->last - p->first) : 1;
    view_say(t, "<path class=\"rule\" d=\"");
    say_point(t, "M", x, y + height);
    say_point(t, "L", x + width, y + height);
    view_say(t, "\"/>\n");
    if (!count) return;
    view_say(t, "<path class=\"fill\" d=\"");
    const double first = x + width * (b[0].step - (double)p->first) / all;
    const double last = x + width * (b[count - 1].step - (double)p->first) / all;
    say_point(t, "M", first, y + height);
    for (int i = 0; i < count; i++)
        say_point(t, "L", x + width * (b[i].step - (double)p->first) / all,
                  y + height * (1 - b[i].mean / most));
    say_point(t, "L", last, y + height);
    view_say(t, "Z\"/>\n<path class=\"line c0\" d=\"");
    for (int i = 0; i < count; i++)
        say_point(t, i ? "L" : "M", x + width * (b[i].step - (double)p->first) / all,
                  y + height * (1 - b[i].mean / most));
    view_say(t, "\"/>\n");
    if (!numbers) return;
    open_words(t, "tick end", x + width, y + 8);
    view_number(t, s->at[s->n - 1].value, 1);
    view_say(t, "</text>\n");
}

double plot_draw_heads(struct view_text *t, struct view_text *frame, const struct qkv_plot *p,
                       double y)
{
    const struct plot_run *run = &p->run[0];
    const double room = PLOT_WIDTH - LAYER_LABEL;
    const double pitch = fmin(CELL_MOST, room / (double)run->heads);
    const double width = fmax(pitch - GAP, pitch * .6), height = fmin(56, fmax(18, width * .6));
    const double most = most_bits(run);
    (void)frame;
    open_words(t, "name", 0, y + 24);
    view_say(t, "entropy of a row of weights, bits; full height is ");
    view_number(t, most, 1);
    view_say(t, ", every key alike</text>\n");
    y += 44;
    for (int64_t h = 0; h < run->heads; h++) {
        open_words(t, "tick middle", LAYER_LABEL + (double)h * pitch + width / 2, y);
        view_say(t, width < 34 ? "%" PRId64 "</text>\n" : "H%" PRId64 "</text>\n", h);
    }
    y += 12;
    for (int64_t l = 0; l < run->layers; l++) {
        open_words(t, "tick", 0, y + height / 2 + 4);
        view_say(t, "layer %" PRId64 "</text>\n", l);
        for (int64_t h = 0; h < run->heads; h++)
            draw_cell(t, p, &run->head[l * run->heads + h], LAYER_LABEL + (double)h * pitch, y,
                      width, height, most, width >= NUMBERS_LEAST);
        y += height + GAP + 4;
    }
    open_words(t, "tick", LAYER_LABEL, y + 10);
    view_say(t, "steps ");
    view_count(t, p->first);
    view_say(t, " to ");
    view_count(t, p->last);
    view_say(t, " in each</text>\n");
    return y + 22;
}
