// SPDX-License-Identifier: MIT
// explain_paths.c: implements a topic of `qkv explain`: which tokens feed which in a convolution, a
// recurrence and attention, and how long the path from the first token to the last is.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { CONVOLUTION, RECURRENCE, ATTENTION, KINDS };
enum { WIDTH = 4 }; // numbers per token

// Random weights of the three layers; a layer has no bias, so that zeros as input stay zeros.
struct layers {
    int64_t n, k; // tokens, width of the convolution
    const float *q, *keys, *w_conv, *w_i, *w_h;
};

static qkv_status convolve(float *y, const float *x, const struct layers *l, qkv_error *err)
{
    const struct qkv_convolution c = {
        .B = 1, .T = l->n, .D_in = WIDTH, .D_out = WIDTH, .width = l->k, .w = l->w_conv
    };
    const struct qkv_baseline_plan plan = qkv_convolution_plan(&c);
    void *scratch = cmd_alloc(plan.scratch, 1);
    const qkv_status status = qkv_convolution_forward(y, x, &c, scratch);
    free(scratch);
    return status ? cmd_error(err, status, NULL, "the convolution cannot run: %s", plan.reason)
                  : QKV_OK;
}

static qkv_status recur(float *y, const float *x, const struct layers *l, qkv_error *err)
{
    const struct qkv_recurrence r = {
        .B = 1, .T = l->n, .D_in = WIDTH, .D = WIDTH, .w_i = l->w_i, .w_h = l->w_h
    };
    const struct qkv_baseline_plan plan = qkv_recurrence_plan(&r);
    void *scratch = cmd_alloc(plan.scratch, 1);
    const qkv_status status = qkv_recurrence_forward(y, x, NULL, &r, scratch);
    free(scratch);
    return status ? cmd_error(err, status, NULL, "the recurrence cannot run: %s", plan.reason)
                  : QKV_OK;
}

static qkv_status run(float *y, const float *x, int kind, const struct layers *l, qkv_error *err)
{
    const struct qkv_attention a = { .B = 1, .T = l->n, .S = l->n, .H = 1, .E = WIDTH };
    if (kind == ATTENTION) return explain_attend(y, NULL, l->q, l->keys, x, &a, err);
    return kind == CONVOLUTION ? convolve(y, x, l, err) : recur(y, x, l, err);
}

static bool reached(const float *row)
{
    for (int64_t c = 0; c < WIDTH; c++)
        if (fpclassify(row[c]) != FP_ZERO) return true;
    return false;
}

// Runs a layer on inputs that are 0 but for token j, and sets feeds[t][j] where output t is not 0.
static qkv_status measure(bool *feeds, int kind, const struct layers *l, qkv_error *err)
{
    const int64_t n = l->n;
    float *x = cmd_alloc((size_t)(2 * n * WIDTH), sizeof *x), *y = x + n * WIDTH;
    qkv_status status = QKV_OK;
    for (int64_t j = 0; j < n && !status; j++) {
        memset(x, 0, (size_t)(n * WIDTH) * sizeof *x);
        for (int64_t c = 0; c < WIDTH; c++) x[j * WIDTH + c] = 1;
        status = run(y, x, kind, l, err);
        for (int64_t t = 0; t < n; t++) feeds[t * n + j] = reached(y + t * WIDTH);
    }
    free(x);
    return status;
}

// Returns how many layers with these connections the first token needs to reach the last.
static int64_t layers_between(const bool *feeds, int64_t n)
{
    bool *now = cmd_alloc((size_t)(2 * n), sizeof *now), *next = now + n;
    int64_t layers = 0;
    for (int64_t t = 0; t < n; t++) now[t] = t == 0;
    for (; !now[n - 1] && layers <= n; layers++) {
        for (int64_t t = 0; t < n; t++) {
            next[t] = false;
            for (int64_t j = 0; j < n; j++) next[t] = next[t] || (now[j] && feeds[t * n + j]);
        }
        memcpy(now, next, (size_t)n * sizeof *now);
    }
    free(now);
    return layers;
}

// Points of a line, to which connections are added with a gap after each.
struct strokes {
    double *x, *y;
    int64_t n;
};
static void stroke(struct strokes *s, double x1, double y1, double x2, double y2, bool gap)
{
    const double x[] = { x1, x2, NAN }, y[] = { y1, y2, NAN };
    memcpy(s->x + s->n, x, sizeof x);
    memcpy(s->y + s->n, y, sizeof y);
    s->n += gap ? 3 : 2;
}

static void add(struct page *p, struct qkv_chart_panel *to, const char *name,
                const struct strokes *s, int hue, enum qkv_chart_style style)
{
    struct qkv_chart_line *line = page_line(p, to, name, s->x, s->y, s->n);
    line->hue = hue;
    line->style = style;
}

static struct strokes strokes(struct page *p, int64_t most)
{
    const size_t points = (size_t)(3 * most);
    return (struct strokes){ page_take(p, points, sizeof(double)),
                             page_take(p, points, sizeof(double)), 0 };
}

// Draws `rows` rows of tokens, the connections between them and the path. Of a recurrence, feeds
// has also what a state receives through the states before it, which are drawn instead.
static void draw(struct page *p, struct qkv_chart_panel *to, int kind, const struct layers *l,
                 const bool *feeds, int64_t layers, int64_t *connections)
{
    const int64_t n = l->n;
    struct strokes all = strokes(p, layers * n * n + n), path = strokes(p, 2 * n + 2),
                   dots = strokes(p, (layers + 1) * n);
    for (int64_t t = 0; t < n; t++)
        for (int64_t j = 0; j < n; j++) {
            if (!feeds[t * n + j] || (kind == RECURRENCE && j != t)) continue;
            ++*connections;
            for (int64_t i = 0; i < layers; i++)
                stroke(&all, (double)j, (double)i, (double)t, (double)i + 1, true);
        }
    for (int64_t t = 1; kind == RECURRENCE && t < n; t++, ++*connections)
        stroke(&all, (double)t - 1, 1, (double)t, 1, true);
    if (kind == RECURRENCE) stroke(&path, 0, 0, 0, 1, false);
    for (int64_t t = 1; kind == RECURRENCE && t < n; t++)
        stroke(&path, (double)t - 1, 1, (double)t, 1, false);
    for (int64_t i = 0, at = 0; kind != RECURRENCE && i < layers; i++) {
        int64_t next = n - 1; // the farthest token that one layer reaches
        while (!feeds[next * n + at]) next--;
        stroke(&path, (double)at, (double)i, (double)next, (double)i + 1, false);
        at = next;
    }
    for (int64_t i = 0; i <= layers; i++)
        for (int64_t t = 0; t < n; t++) {
            dots.x[dots.n] = (double)t;
            dots.y[dots.n++] = (double)i;
        }
    add(p, to, NULL, &all, QKV_CHART_QUIET, QKV_CHART_THIN);
    if (n <= 16) add(p, to, NULL, &dots, QKV_CHART_QUIET, QKV_CHART_POINTS); // they would touch
    add(p, to, "path", &path, QKV_CHART_RED, QKV_CHART_ARROW);
}

// Names the tokens on the x axis and the rows on the y axis: the input, and at most ten layers.
static void name_axes(struct page *p, struct qkv_chart_panel *to, int kind, int64_t n,
                      int64_t layers)
{
    const char **token = page_take(p, (size_t)n, sizeof *token),
               **row = page_take(p, (size_t)layers + 1, sizeof *row);
    const int64_t every = layers / 10 + 1;
    for (int64_t t = 0; t < n; t++) token[t] = page_text(p, "%lld", (long long)t);
    row[0] = "input";
    for (int64_t i = every; i <= layers; i += every)
        row[i] = kind == RECURRENCE ? "state" : page_text(p, "layer %lld", (long long)i);
    to->x = (struct qkv_chart_axis){ .name = "token", .label = token, .labels = n };
    to->y = (struct qkv_chart_axis){ .label = row, .labels = layers + 1 };
    to->height = 230;
}

static void draw_random(struct page *p, struct layers *l)
{
    struct explain_random r = { (uint64_t)explain_options.seed };
    const int64_t square = WIDTH * WIDTH, all = 2 * l->n * WIDTH + (l->k + 2) * square;
    float *block = page_take(p, (size_t)all, sizeof *block);
    explain_normals(block, all, 1, &r);
    l->q = block;
    l->keys = l->q + l->n * WIDTH;
    l->w_i = l->keys + l->n * WIDTH;
    l->w_h = l->w_i + square;
    l->w_conv = l->w_h + square;
}

qkv_status explain_paths(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    static const char *const names[KINDS] = { "convolution", "recurrence", "attention" };
    int64_t size[2] = { 8, 3 }, path[KINDS], connections[KINDS] = { 0 };
    qkv_status status = explain_sizes(size, 2, "N,K", err);
    if (status) return status;
    if (size[1] % 2 == 0)
        return cmd_error(err, QKV_ERR_USAGE, NULL,
                         "--paths: expected an odd width of the convolution, found %lld",
                         (long long)size[1]);
    struct layers l = { .n = size[0], .k = size[1] };
    draw_random(p, &l);
    bool *feeds = page_take(p, (size_t)(l.n * l.n), sizeof *feeds);
    page_table(p, "from the first token to the last", 1 + KINDS, 4);
    page_cell(p, 0, 1, "connections of a layer");
    page_cell(p, 0, 2, "steps of a layer");
    page_cell(p, 0, 3, "path");
    for (int kind = 0; kind < KINDS; kind++) {
        if ((status = measure(feeds, kind, &l, err))) return status;
        const int64_t layers = layers_between(feeds, l.n);
        struct qkv_chart_panel *to = page_panel(p, names[kind]);
        name_axes(p, to, kind, l.n, layers);
        draw(p, to, kind, &l, feeds, layers, &connections[kind]);
        path[kind] = kind == RECURRENCE ? l.n : layers;
        to->note = page_text(p, "path: %lld %s%s", (long long)path[kind],
                             kind == RECURRENCE ? "step" : "layer", path[kind] == 1 ? "" : "s");
        page_cell(p, kind + 1, 0, "%s", names[kind]);
        page_cell(p, kind + 1, 1, "%lld", (long long)connections[kind]);
        page_cell(p, kind + 1, 2, "%lld", (long long)(kind == RECURRENCE ? l.n : 1));
        page_cell(p, kind + 1, 3, "%lld", (long long)path[kind]);
    }
    p->across = 3;
    page_title(p, "How far is it from one token to another?");
    page_say(p,
             "The path from the first to the last of %lld tokens has %lld layer%s in a convolution "
             "of width %lld, %lld steps, one after the other, in a recurrence, and %lld layer in "
             "attention. Attention has the most connections per layer: %lld; the convolution has "
             "%lld and the recurrence %lld.",
             (long long)l.n, (long long)path[CONVOLUTION], path[CONVOLUTION] == 1 ? "" : "s",
             (long long)l.k, (long long)path[RECURRENCE], (long long)path[ATTENTION],
             (long long)connections[ATTENTION], (long long)connections[CONVOLUTION],
             (long long)connections[RECURRENCE]);
    return QKV_OK;
}
