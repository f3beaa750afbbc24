// SPDX-License-Identifier: MIT
// training_chart.c: makes a chart of the curves of training runs, with one panel per quantity above
// a common axis of steps.
//
// For a single run, the training loss is a thin line; the band around it shows the minimum and the
// maximum of the steps that a bin joins. The validation loss is a bold line with a dot per
// evaluation. For several runs, each run has a colour, and its name is at the end of its curve.
#include "view/chart/training_chart.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum { BINS = 180, ARRAYS = 4, FEW = 3, NAMED = 5, COLUMNS = 6 };

static bool has(const struct qkv_plot *p, enum training_kind kind)
{
    for (int64_t r = 0; r < p->runs; r++)
        if (p->run[r].series[kind].n) return true;
    return false;
}

// Adds one series of points as a line. The training_chart owns the numbers of the line.
static void add_line(struct training_chart *to, const struct qkv_plot *p, int64_t run,
                     enum training_kind kind, const char *name, enum qkv_chart_style style)
{
    struct training_bin b[TRAINING_BINS];
    const int n = training_bins(b, &p->run[run].series[kind], p->first, p->last, BINS);
    if (!n) return;
    double *x = to->number + (to->lines * ARRAYS + 0) * BINS, *y = x + BINS, *low = y + BINS,
           *high = low + BINS;
    bool band = false;
    for (int i = 0; i < n; i++) {
        x[i] = b[i].step;
        y[i] = b[i].mean;
        low[i] = b[i].low;
        high[i] = b[i].high;
        band |= b[i].high > b[i].low;
    }
    band &= p->runs <= FEW && kind != TRAINING_VALID;
    to->line[to->lines++] = (struct qkv_chart_line){ .name = name,
                                                     .x = x,
                                                     .y = y,
                                                     .low = band ? low : NULL,
                                                     .high = band ? high : NULL,
                                                     .n = n,
                                                     .hue = (int)(run % QKV_CHART_HUES) + 1,
                                                     .style = style };
}

// Adds the training losses before the validation losses, so that these are drawn over them.
static void add_loss(struct training_chart *to, const struct qkv_plot *p)
{
    const bool alone = p->runs == 1;
    for (int64_t r = 0; r < p->runs; r++) {
        const bool valid = p->run[r].series[TRAINING_VALID].n > 0;
        add_line(to, p, r, TRAINING_LOSS,
                 alone   ? "training"
                 : valid ? NULL
                         : p->run[r].name,
                 valid ? QKV_CHART_THIN : QKV_CHART_LINE);
    }
    for (int64_t r = 0; r < p->runs; r++)
        add_line(to, p, r, TRAINING_VALID, alone ? "validation" : p->run[r].name, QKV_CHART_STRONG);
}

static void add_panel(struct training_chart *to, const struct qkv_plot *p, enum training_kind kind,
                      const char *name, double height)
{
    struct qkv_chart_panel *n = &to->panel[to->chart.panels];
    const struct chart_scale y = training_scale_of(p, kind);
    const int64_t before = to->lines;
    if (kind == TRAINING_LOSS) {
        add_loss(to, p);
    } else {
        for (int64_t r = 0; r < p->runs; r++)
            add_line(to, p, r, kind,
                     p->runs == 1       ? ""
                     : p->runs <= NAMED ? p->run[r].name
                                        : NULL,
                     QKV_CHART_LINE);
    }
    if (to->lines == before) return;
    *n = (struct qkv_chart_panel){
        .name = name,
        .x = { .name = "step",
               .low = (double)p->first,
               .high = (double)(p->last > p->first ? p->last : p->first + 1) },
        .y = { .low = y.low, .high = y.high, .log = y.log },
        .line = to->line + before,
        .lines = to->lines - before,
        .height = height,
    };
    to->chart.panels++;
}

// ---- table with the end of each run, for readers who do not see the curves ---------------------
// Appends the text of a cell of the table to to->text. Stores its offset, not a pointer, because
// to->text may still be reallocated.
static void put_cell(struct training_chart *to, int64_t cell, double x, int kind)
{
    to->place[cell] = to->text.used;
    if (kind == 0 && x >= 0) view_count(&to->text, (int64_t)x);
    if (kind == 1 && isfinite(x)) view_number(&to->text, x, 4);
    view_put(&to->text, "", 1); // the terminating NUL
}

static void add_table(struct training_chart *to, const struct qkv_plot *p)
{
    static const char *const head[COLUMNS] = { "run",        "steps", "training",
                                               "validation", "least", "at step" };
    const int64_t cells = (p->runs + 1) * COLUMNS;
    memcpy(to->cell, head, sizeof head);
    for (int64_t r = 0; r < p->runs; r++) {
        const struct qkv_plot_info i = qkv_plot_info(p, r);
        const int64_t at = (r + 1) * COLUMNS;
        put_cell(to, at + 1, (double)i.steps, 0);
        put_cell(to, at + 2, i.last, 1);
        put_cell(to, at + 3, i.valid, 1);
        put_cell(to, at + 4, i.best, 1);
        put_cell(to, at + 5, (double)i.best_step, 0);
    }
    for (int64_t k = COLUMNS; k < cells && !to->text.failed; k++)
        to->cell[k] = k % COLUMNS ? to->text.at + to->place[k] : p->run[k / COLUMNS - 1].name;
    to->table = (struct qkv_chart_table){ "At the end", to->cell, p->runs + 1, COLUMNS };
}

static void say_names(struct view_text *t, const struct qkv_plot *p)
{
    for (int64_t r = 0; r < p->runs && r < 6; r++)
        view_say(t, "%s%s", r ? ", " : "", p->run[r].name);
    if (p->runs > 6) view_say(t, " and %" PRId64 " more", p->runs - 6);
}

void training_chart_free(struct training_chart *to)
{
    qkv_free(to->line);
    qkv_free(to->number);
    qkv_free((void *)to->cell);
    qkv_free(to->place);
    view_text_free(&to->text);
    view_text_free(&to->sentence);
    view_text_free(&to->names);
}

bool training_chart_make(struct training_chart *to, const struct qkv_plot *p)
{
    const size_t lines = (size_t)p->runs * TRAINING_KINDS, cells = (size_t)(p->runs + 1) * COLUMNS;
    *to = (struct training_chart){ .lines = 0 };
    to->line = qkv_alloc(lines, sizeof *to->line);
    to->number = qkv_alloc(lines, sizeof *to->number * ARRAYS * BINS);
    to->cell = qkv_alloc_zero(cells, sizeof *to->cell);
    to->place = qkv_alloc_zero(cells, sizeof *to->place);
    training_sentence(&to->sentence, p);
    say_names(&to->names, p);
    if (to->line && to->number && to->cell && to->place && !p->probes) {
        add_panel(to, p, TRAINING_LOSS,
                  has(p, TRAINING_VALID) ? "loss, nats per target; validation is bold"
                                         : "loss, nats per target",
                  300);
        add_panel(to, p, TRAINING_RATE, "learning rate", 96);
        add_panel(to, p, TRAINING_NORM, "norm of the gradient, before clipping", 96);
        add_table(to, p);
    }
    to->chart.title = training_question(p);
    to->chart.sentence = to->sentence.at ? to->sentence.at : "";
    to->chart.panel = to->panel;
    to->chart.same_x = true;
    to->chart.table = p->probes ? NULL : &to->table;
    to->chart.view = p->probes ? "Probes" : "Learning";
    to->chart.subject = to->names.at;
    if (to->line && to->number && to->cell && to->place && !to->text.failed &&
        !to->sentence.failed && !to->names.failed)
        return true;
    training_chart_free(to);
    return false;
}

qkv_status qkv_plot_file(const qkv_plot *p, const char *path, bool force,
                         const struct qkv_chart_options *o, qkv_error *err)
{
    struct training_chart picture;
    if (!p || !path)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_plot_file: expected a plot and a path, found NULL");
    if (!training_chart_make(&picture, p)) return qkv_fail_memory(err, path);
    const struct qkv_chart *c = &picture.chart;
    const qkv_status status = p->probes ? chart_write(c, training_draw_heads, p, path, force,
                                                      o ? o->theme : QKV_THEME_AUTO, err)
                                        : qkv_chart_file(c, path, force, o, err);
    training_chart_free(&picture);
    return status;
}
