// SPDX-License-Identifier: MIT
// explain_scaling.c: implements two topics of `qkv explain`: why scores are divided by sqrt(d_k),
// and sinusoidal positions as a map.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SCORES = 8, WIDTHS = 10, DRAWS = 4000 };

// Returns the size of the gradient of a softmax with weights w[n]: the sum of w (1 - w), which is
// the trace of its Jacobian.
static double gradient(const double *w, int64_t n)
{
    double sum = 0;
    for (int64_t i = 0; i < n; i++) sum += w[i] * (1 - w[i]);
    return sum;
}

// Computes a softmax in floats without subtracting the maximum first, to show that e^x overflows
// for x >= 89.
static double naive(double *most, const double *x, int64_t n)
{
    float sum = 0, top = 0;
    for (int64_t i = 0; i < n; i++) {
        const float e = expf((float)x[i]);
        sum += e;
        if (!(e <= top)) top = e;
    }
    *most = (double)top;
    return (double)(top / sum);
}

static double largest(const double *x, int64_t n)
{
    double most = x[0];
    for (int64_t i = 1; i < n; i++) most = fmax(most, x[i]);
    return most;
}

static void panel_saturation(struct page *p, const double *score)
{
    static const double factors[] = { .1, .2, .5, 1, 2, 5, 10, 20, 50, 100 };
    enum { FACTORS = sizeof factors / sizeof *factors };
    double w[SCORES], once[SCORES], hundred[SCORES], place[SCORES];
    double top[FACTORS], left[FACTORS], x[SCORES];
    for (int i = 0; i < SCORES; i++) place[i] = i;
    for (int f = 0; f < FACTORS; f++) {
        for (int i = 0; i < SCORES; i++) x[i] = score[i] * factors[f];
        explain_softmax(w, x, SCORES, 1);
        top[f] = largest(w, SCORES);
        left[f] = gradient(w, SCORES);
        if (factors[f] == 1) memcpy(once, w, sizeof w);
        if (factors[f] == 100) memcpy(hundred, w, sizeof w);
    }
    for (int i = 0; i < 2; i++) {
        struct qkv_chart_panel *bars = page_panel(p, i ? "softmax of these scores times 100"
                                                       : "softmax of 8 scores drawn from N(0, 1)");
        struct qkv_chart_line *line =
            page_line(p, bars, "weight", place, i ? hundred : once, SCORES);
        line->style = QKV_CHART_BARS;
        if (i) line->hue = QKV_CHART_RED;
        bars->x = (struct qkv_chart_axis){ .name = "index of the score",
                                           .low = -.6,
                                           .high = SCORES - .4 };
        bars->y = (struct qkv_chart_axis){ .name = "weight", .high = 1 };
    }
    struct qkv_chart_panel *curve = page_panel(p, "the largest weight, and the softmax gradient");
    page_line(p, curve, "largest weight", factors, top, FACTORS)->style = QKV_CHART_STRONG;
    page_line(p, curve, "gradient", factors, left, FACTORS)->style = QKV_CHART_STRONG;
    curve->x = (struct qkv_chart_axis){ .name = "scores times", .log = true };
    curve->y = (struct qkv_chart_axis){ .zero = true };
    page_say(p,
             "Of 8 scores the largest weight is %s; of 100 times these scores it is %s, and "
             "the softmax gradient is %.1e (%.2f before).",
             page_weight(p, top[3], 2), page_weight(p, top[FACTORS - 1], 4), left[FACTORS - 1],
             left[3]);
}

// Draws two curves over the width d, for random vectors from N(0, 1): the variance of q.k, and the
// gradient of the softmax of 8 scores q.k, with and without the factor 1/sqrt(d).
static void panel_widths(struct page *p, struct explain_random *r)
{
    double width[WIDTHS], raw[WIDTHS], scaled[WIDTHS], with[WIDTHS], without[WIDTHS], w[SCORES];
    for (int i = 0; i < WIDTHS; i++) {
        const int64_t d = (int64_t)1 << i;
        double sum = 0, s[SCORES];
        with[i] = without[i] = 0;
        width[i] = (double)d;
        for (int n = 0; n < DRAWS; n++) {
            double dot = 0;
            for (int64_t e = 0; e < d; e++) dot += explain_normal(r) * explain_normal(r);
            sum += dot * dot;
            s[n % SCORES] = dot;
            if (n % SCORES != SCORES - 1) continue;
            explain_softmax(w, s, SCORES, 1);
            without[i] += gradient(w, SCORES) / (DRAWS / SCORES);
            explain_softmax(w, s, SCORES, sqrt((double)d));
            with[i] += gradient(w, SCORES) / (DRAWS / SCORES);
        }
        raw[i] = sum / DRAWS;
        scaled[i] = raw[i] / (double)d;
    }
    struct qkv_chart_panel *spread = page_panel(p, "variance of q.k of random q and k, measured");
    page_line(p, spread, "q.k", width, raw, WIDTHS)->style = QKV_CHART_STRONG;
    page_line(p, spread, "scaled", width, scaled, WIDTHS)->style = QKV_CHART_STRONG;
    spread->x = (struct qkv_chart_axis){ .name = "d_k", .log = true };
    spread->y = (struct qkv_chart_axis){ .name = "variance", .log = true };
    struct qkv_chart_panel *learn = page_panel(p, "softmax gradient of 8 scores q.k");
    page_line(p, learn, "with the scale", width, with, WIDTHS)->style = QKV_CHART_STRONG;
    struct qkv_chart_line *red = page_line(p, learn, "without", width, without, WIDTHS);
    red->style = QKV_CHART_STRONG;
    red->hue = QKV_CHART_RED;
    learn->x = (struct qkv_chart_axis){ .name = "d_k", .log = true };
    learn->y = (struct qkv_chart_axis){ .name = "sum w (1 - w)", .zero = true };
    page_say(
        p,
        " The variance of q.k grows with d_k (%.1f at %.0f, measured on %d samples); divided by "
        "sqrt(d_k) it stays near 1 (%.2f). "
        "At %.0f the softmax gradient is %.2f with the scale and %.2f without.",
        raw[WIDTHS - 1], width[WIDTHS - 1], DRAWS, scaled[WIDTHS - 1], width[WIDTHS - 1],
        with[WIDTHS - 1], without[WIDTHS - 1]);
}

static void table_overflow(struct page *p, const double *score)
{
    static const double factors[] = { 1, 10, 50, 100, 1000 };
    enum { FACTORS = sizeof factors / sizeof *factors };
    page_table(p, "the plain exponential, and the stable one", FACTORS + 1, 5);
    static const char *const head[] = { "scores times", "largest score s", "e^s in floats",
                                        "e^s / sum", "with max subtracted" };
    for (int64_t c = 0; c < 5; c++) page_cell(p, 0, c, "%s", head[c]);
    for (int f = 0; f < FACTORS; f++) {
        double x[SCORES], most;
        float stable[SCORES], top = 0;
        for (int i = 0; i < SCORES; i++) {
            x[i] = score[i] * factors[f];
            stable[i] = (float)x[i];
        }
        const double w = naive(&most, x, SCORES);
        qkv_softmax_rows(stable, stable, 1, SCORES, SCORES, SCORES);
        for (int i = 0; i < SCORES; i++) top = fmaxf(top, stable[i]);
        page_cell(p, f + 1, 0, "%.0f", factors[f]);
        page_cell(p, f + 1, 1, "%.2f", largest(x, SCORES));
        page_cell(p, f + 1, 2, "%.3g", most);
        page_cell(p, f + 1, 3, "%s", isnan(w) ? "not a number" : page_weight(p, w, 4));
        page_cell(p, f + 1, 4, "%s", page_weight(p, (double)top, 4));
    }
}

qkv_status explain_scaling(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    (void)err;
    struct explain_random r = { (uint64_t)explain_options.seed };
    double score[SCORES];
    for (int i = 0; i < SCORES; i++) score[i] = explain_normal(&r);
    page_title(p, "Why divide by sqrt(d_k)?");
    panel_saturation(p, score);
    panel_widths(p, &r);
    table_overflow(p, score);
    p->across = 2;
    return QKV_OK;
}
