// SPDX-License-Identifier: MIT
// explain_selection.c: implements two topics of `qkv explain`: attention as selection, compared
// with lasso and max-pooling; and attention on data other than text (a series, an image).
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ITEMS = 12, KEY = 6, SAMPLES = 400, HELD = 200, ALL = SAMPLES + HELD };

// A regression task. A sample has ITEMS items, each with a key and a value, and a query. Its target
// is the value of the item whose key is nearest to the query.  `fixed`: that item is at the same
// position in every sample.
struct task {
    float q[ALL][KEY], k[ALL][ITEMS][KEY], v[ALL][ITEMS];
    double y[ALL];
    int at[ALL];
};

static void draw(struct task *t, bool fixed, struct explain_random *r)
{
    for (int n = 0; n < ALL; n++) {
        explain_normals(&t->k[n][0][0], ITEMS * KEY, 1, r);
        explain_normals(t->v[n], ITEMS, 1, r);
        t->at[n] = fixed ? 4 : (int)(((explain_normal(r) * 1e6) + 1e9)) % ITEMS;
        for (int i = 0; i < ITEMS;
             // all keys have the same norm, so the nearest key has the largest product with the
             // query
             i++) {
            double length = 0;
            for (int e = 0; e < KEY; e++) length += (double)t->k[n][i][e] * (double)t->k[n][i][e];
            for (int e = 0; e < KEY; e++)
                t->k[n][i][e] = (float)((double)t->k[n][i][e] * sqrt(KEY / length));
        }
        memcpy(t->q[n], t->k[n][t->at[n]], sizeof t->q[n]);
        t->y[n] = (double)t->v[n][t->at[n]];
    }
}

// Fits a lasso by coordinate descent: minimizes squared errors plus lambda times the sum of |w|.
// Input i is the value of the item at position i.
static void lasso(double w[ITEMS], const struct task *t, double lambda)
{
    memset(w, 0, ITEMS * sizeof *w);
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < ITEMS; i++) {
            double along = 0, square = 0;
            for (int n = 0; n < SAMPLES; n++) {
                double rest = t->y[n];
                for (int j = 0; j < ITEMS; j++)
                    if (j != i) rest -= w[j] * (double)t->v[n][j];
                along += rest * (double)t->v[n][i] / SAMPLES;
                square += (double)t->v[n][i] * (double)t->v[n][i] / SAMPLES;
            }
            w[i] = fabs(along) > lambda ? (along - copysign(lambda, along)) / square : 0;
        }
}

// Root mean squared errors of the methods on held-out samples. attended: of attention.
struct errors {
    double lasso, pool, attended;
};

static struct errors measure(const struct task *t, const double w[ITEMS], const float *attended)
{
    struct errors e = { 0, 0, 0 };
    for (int n = SAMPLES; n < ALL; n++) {
        double sum = 0, most = -INFINITY;
        for (int i = 0; i < ITEMS; i++) {
            sum += w[i] * (double)t->v[n][i];
            most = fmax(most, (double)t->v[n][i]);
        }
        e.lasso += (sum - t->y[n]) * (sum - t->y[n]) / HELD;
        e.pool += (most - t->y[n]) * (most - t->y[n]) / HELD;
        e.attended += ((double)attended[n] - t->y[n]) * ((double)attended[n] - t->y[n]) / HELD;
    }
    return (struct errors){ sqrt(e.lasso), sqrt(e.pool), sqrt(e.attended) };
}

// Runs attention on all samples in one call: a sample is a batch item with one query.  The scale 4
// / sqrt(KEY) concentrates the weights on few items.
static qkv_status attend(float *out, float *weights, const struct task *t, qkv_error *err)
{
    const struct qkv_attention a = {
        .B = ALL, .T = 1, .S = ITEMS, .H = 1, .E = KEY, .F = 1, .scale = 4 / sqrtf(KEY)
    };
    return explain_attend(out, weights, &t->q[0][0], &t->k[0][0][0], &t->v[0][0], &a, err);
}

static qkv_status items(struct page *p, struct explain_random *r, qkv_error *err)
{
    static const char *const names[] = { "lasso", "max-pooling", "attention" };
    struct task *t = page_take(p, 1, sizeof *t);
    float *out = page_take(p, ALL, sizeof *out),
          *weights = page_take(p, ALL * ITEMS, sizeof *weights);
    struct errors e[2];
    page_table(p, "error on held-out samples (predicting 0 has error 1)", 4, 3);
    page_cell(p, 0, 1, "item at a fixed position");
    page_cell(p, 0, 2, "item anywhere");
    for (int moves = 0; moves < 2; moves++) {
        double w[ITEMS], first[ITEMS], second[ITEMS];
        draw(t, !moves, r);
        lasso(w, t, .02);
        const qkv_status status = attend(out, weights, t, err);
        if (status) return status;
        e[moves] = measure(t, w, out);
        for (int i = 0; i < 3; i++) page_cell(p, i + 1, 0, "%s", names[i]);
        page_cell(p, 1, moves + 1, "%.2f", e[moves].lasso);
        page_cell(p, 2, moves + 1, "%.2f", e[moves].pool);
        page_cell(p, 3, moves + 1, "%.2f", e[moves].attended);
        for (int i = 0; i < ITEMS; i++) {
            first[i] = (double)weights[i];
            second[i] = (double)weights[ITEMS + i];
        }
        if (!moves) continue;
        struct qkv_chart_panel *panel = page_panel(p, "item anywhere: weights by position");
        page_line(p, panel, "lasso, for every sample", NULL, w, ITEMS)->style = QKV_CHART_STRONG;
        page_line(p, panel, "attention, sample 0", NULL, first, ITEMS)->style = QKV_CHART_STRONG;
        page_line(p, panel, "attention, sample 1", NULL, second, ITEMS)->style = QKV_CHART_STRONG;
        panel->x.name = "position";
        panel->y = (struct qkv_chart_axis){ .name = "weight", .low = -.1, .high = 1 };
    }
    page_title(p, "How does attention select the relevant item?");
    page_say(
        p,
        "When the relevant item has a fixed position, lasso finds the position (error %.2f) and "
        "attention finds the item (%.2f). When it may be anywhere, weights that are the same for "
        "every "
        "sample fail (%.2f), max-pooling picks another item (%.2f), and a query still finds its "
        "key "
        "(%.2f).",
        e[0].lasso, e[0].attended, e[1].lasso, e[1].pool, e[1].attended);
    return QKV_OK;
}

// ---- attention in a series and in an image -----------------------------------------------------
enum { LONG = 120, PATTERN = 8, SIDE = 20, PATCH = 3 };

// Computes the attention weights w[n] of one query over n keys of width E.
static qkv_status choose(float *w, const float *q, const float *k, int64_t n, int64_t E,
                         double scale, qkv_error *err)
{
    const struct qkv_attention a = {
        .B = 1, .T = 1, .S = n, .H = 1, .E = E, .F = 1, .scale = (float)scale
    };
    float *v = cmd_alloc((size_t)n, sizeof *v), out;
    memset(v, 0, (size_t)n * sizeof *v);
    const qkv_status status = explain_attend(&out, w, q, k, v, &a, err);
    free(v);
    return status;
}

// Normalizes a window of the series: subtracts the mean and scales to norm 1. So windows match if
// they have the same form, whatever their offset and amplitude.
static void window_key(float *k, const float *x, int n)
{
    double mean = 0, length = 0;
    for (int i = 0; i < n; i++) mean += (double)x[i] / n;
    for (int i = 0; i < n; i++) length += ((double)x[i] - mean) * ((double)x[i] - mean);
    for (int i = 0; i < n; i++)
        k[i] = (float)(((double)x[i] - mean) / sqrt(length > 0 ? length : 1));
}

static qkv_status series(struct page *p, struct explain_random *r, qkv_error *err)
{
    static const int at[] = { 20, 66, 95 };
    float x[LONG], k[LONG - PATTERN + 1][PATTERN], q[PATTERN], w[LONG - PATTERN + 1];
    double y[LONG], weight[LONG];
    for (int i = 0; i < LONG; i++) x[i] = (float)(.15 * explain_normal(r));
    for (size_t n = 0; n < sizeof at / sizeof *at; n++)
        for (int i = 0; i < PATTERN; i++)
            x[at[n] + i] +=
                (float)sin(3.14159265 * (i + 1) / (PATTERN + 1)) * (float)(i < 4 ? 2 : 1);
    for (int i = 0; i + PATTERN <= LONG; i++) window_key(k[i], x + i, PATTERN);
    memcpy(q, k[at[0]], sizeof q);
    const qkv_status status = choose(w, q, &k[0][0], LONG - PATTERN + 1, PATTERN, 20, err);
    if (status) return status;
    for (int i = 0; i < LONG; i++) {
        y[i] = (double)x[i];
        weight[i] = i + PATTERN <= LONG ? (double)w[i] : NAN;
    }
    struct qkv_chart_panel *panel =
        page_panel(p, "a series: the query is the window at 20; weights of all windows");
    page_line(p, panel, "series", NULL, y, LONG)->style = QKV_CHART_THIN;
    struct qkv_chart_line *line = page_line(p, panel, "weight", NULL, weight, LONG);
    line->style = QKV_CHART_STRONG;
    line->hue = QKV_CHART_RED;
    panel->x.name = "time";
    return QKV_OK;
}

static qkv_status picture(struct page *p, struct explain_random *r, qkv_error *err)
{
    enum { ACROSS = SIDE - PATCH + 1 };
    static const int at[][2] = { { 3, 4 }, { 13, 11 } };
    float x[SIDE * SIDE], (*k)[PATCH * PATCH] = page_take(p, ACROSS * ACROSS, sizeof *k),
                                       q[PATCH * PATCH], part[PATCH * PATCH];
    explain_normals(x, SIDE * SIDE, .15, r);
    for (size_t n = 0; n < 2; n++)
        for (int i = 0; i < PATCH; i++) { // draw a small cross into the image
            x[(at[n][0] + 1) * SIDE + at[n][1] + i] += 1;
            x[(at[n][0] + i) * SIDE + at[n][1] + 1] += 1;
        }
    for (int i = 0; i < ACROSS; i++)
        for (int j = 0; j < ACROSS; j++) {
            for (int a = 0; a < PATCH * PATCH; a++)
                part[a] = x[(i + a / PATCH) * SIDE + j + a % PATCH];
            window_key(k[i * ACROSS + j], part, PATCH * PATCH);
        }
    memcpy(q, k[at[0][0] * ACROSS + at[0][1]], sizeof q);
    memcpy(
        page_grid(p, "an image with two small crosses", SIDE, SIDE, NULL, NULL, QKV_CHART_LINEAR),
        x, sizeof x);
    float *w = page_grid(p, "the query is the patch of one cross; weights of all patches", ACROSS,
                         ACROSS, NULL, NULL, QKV_CHART_WEIGHTS);
    for (int i = 1; i <= 2; i++) p->grid[p->panels - i]->digits = -1;
    return choose(w, q, &k[0][0], ACROSS * ACROSS, PATCH * PATCH, 20, err);
}

qkv_status explain_selection(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    struct explain_random r = { (uint64_t)explain_options.seed };
    qkv_status status = items(p, &r, err);
    if (!status) status = series(p, &r, err);
    if (!status) status = picture(p, &r, err);
    p->across = 2;
    return status;
}
