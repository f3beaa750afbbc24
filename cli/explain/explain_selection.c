// SPDX-License-Identifier: MIT
// explain_selection.c: implements a topic of `qkv explain`: attention as selection, with trained
// projections, compared with lasso and max-pooling; then in a series, an image and a video.
#include "explain/explain.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static struct explain_task task_of(struct page *p, int64_t samples, int64_t count, int64_t width)
{
    return (struct explain_task){ .samples = samples,
                                  .items = count,
                                  .width = width,
                                  .query = page_take(p, (size_t)(samples * width), sizeof(float)),
                                  .item = page_take(p, (size_t)(samples * count * width),
                                                    sizeof(float)),
                                  .target = page_take(p, (size_t)samples, sizeof(float)) };
}

// ---- items: lasso, max-pooling and attention ----------------------------------------------------
enum { ITEMS = 12, KEY = 6, ITEM = KEY + 1, SAMPLES = 1000, HELD = 500, ALL = SAMPLES + HELD };

// Scales a vector to the norm sqrt(n): then the nearest key has the largest product with a vector.
static void normalise(float *x, int n)
{
    double square = 0;
    for (int i = 0; i < n; i++) square += (double)x[i] * (double)x[i];
    for (int i = 0; i < n; i++) x[i] = (float)((double)x[i] * sqrt(n / square));
}

// Draws a rotation of KEY dimensions: the rows of a random matrix, made orthogonal to each other.
static void draw_rotation(float mix[KEY * KEY], struct explain_random *r)
{
    explain_normals(mix, KEY * KEY, 1, r);
    for (int i = 0; i < KEY; i++) {
        double square = 0;
        for (int k = 0; k < i; k++) {
            double dot = 0;
            for (int e = 0; e < KEY; e++)
                dot += (double)mix[i * KEY + e] * (double)mix[k * KEY + e];
            for (int e = 0; e < KEY; e++) mix[i * KEY + e] -= (float)dot * mix[k * KEY + e];
        }
        for (int e = 0; e < KEY; e++) square += (double)mix[i * KEY + e] * (double)mix[i * KEY + e];
        for (int e = 0; e < KEY; e++) mix[i * KEY + e] /= (float)sqrt(square);
    }
}

// Draws samples of the task.  A sample has ITEMS items, each with a key and a value, and a query:
// the key of one of them, turned by the rotation `mix`, which the methods do not know.  The
// target is the value of that item.  fixed: the item is at the same position in every sample.
static void draw(struct explain_task *t, int *at, const float *mix, bool fixed,
                 struct explain_random *r)
{
    for (int64_t n = 0; n < t->samples; n++) {
        float *item = t->item + n * ITEMS * ITEM, *query = t->query + n * ITEM;
        explain_normals(item, ITEMS * ITEM, 1, r);
        for (int i = 0; i < ITEMS; i++) normalise(item + i * ITEM, KEY);
        at[n] = fixed ? 4 : (int)(explain_uniform(r) * ITEMS);
        const float *own = item + at[n] * ITEM;
        for (int i = 0; i < KEY; i++) {
            query[i] = 0;
            for (int e = 0; e < KEY; e++) query[i] += mix[i * KEY + e] * own[e];
        }
        query[KEY] = 0; // a query has no value
        t->target[n] = own[KEY];
    }
}

struct explain_task explain_items(struct page *p, int64_t *train, int64_t *shown,
                                  struct explain_random *r)
{
    struct explain_task t = task_of(p, ALL, ITEMS, ITEM);
    float mix[KEY * KEY];
    int *at = page_take(p, ALL, sizeof *at);
    draw_rotation(mix, r);
    draw(&t, at, mix, false, r);
    for (int64_t n = 0; n < t.samples; n++) t.query[n * ITEM + KEY] = 1;
    *train = SAMPLES;
    *shown = at[SAMPLES];
    return t;
}

// Fits a lasso by coordinate descent: minimizes squared errors plus lambda times the sum of |w|.
// Input i is the value of the item at position i.
static void lasso(double w[ITEMS], const struct explain_task *t, double lambda)
{
    memset(w, 0, ITEMS * sizeof *w);
    for (int round = 0; round < 100; round++)
        for (int i = 0; i < ITEMS; i++) {
            double along = 0, square = 0;
            for (int n = 0; n < SAMPLES; n++) {
                const float *v = t->item + n * ITEMS * ITEM + KEY;
                double rest = (double)t->target[n];
                for (int j = 0; j < ITEMS; j++)
                    if (j != i) rest -= w[j] * (double)v[j * ITEM];
                along += rest * (double)v[i * ITEM] / SAMPLES;
                square += (double)v[i * ITEM] * (double)v[i * ITEM] / SAMPLES;
            }
            w[i] = fabs(along) > lambda ? (along - copysign(lambda, along)) / square : 0;
        }
}

// Root mean squared errors of the methods on held-out samples.
enum method { LASSO, POOLING, RANDOM, TRAINED, METHODS };

static void measure(double error[METHODS], const struct explain_task *t, const double w[ITEMS],
                    const float *before, const float *after)
{
    memset(error, 0, METHODS * sizeof *error);
    for (int n = SAMPLES; n < ALL; n++) {
        const float *v = t->item + n * ITEMS * ITEM + KEY;
        double y[METHODS] = { 0, -INFINITY, (double)before[n], (double)after[n] };
        for (int i = 0; i < ITEMS; i++) {
            y[LASSO] += w[i] * (double)v[i * ITEM];
            y[POOLING] = fmax(y[POOLING], (double)v[i * ITEM]);
        }
        for (int m = 0; m < METHODS; m++) {
            const double off = y[m] - (double)t->target[n];
            error[m] += off * off / HELD;
        }
    }
    for (int m = 0; m < METHODS; m++) error[m] = sqrt(error[m]);
}

static struct qkv_chart_panel *bars(struct page *p, const char *name, const double *y, int64_t n,
                                    const char *axis)
{
    struct qkv_chart_panel *panel = page_panel(p, name);
    page_line(p, panel, NULL, NULL, y, n)->style = QKV_CHART_BARS;
    panel->x = (struct qkv_chart_axis){ .name = axis, .low = -.6, .high = (double)n - .4 };
    panel->y = (struct qkv_chart_axis){ .name = "weight", .zero = true };
    return panel;
}

static void mark(struct page *p, struct qkv_chart_panel *panel, double x, double y,
                 const char *text)
{
    struct qkv_chart_mark *marks = page_take(p, (size_t)panel->marks + 1, sizeof *marks);
    if (panel->marks) memcpy(marks, panel->mark, (size_t)panel->marks * sizeof *marks);
    marks[panel->marks++] =
        (struct qkv_chart_mark){ .x = x, .y = y, .text = text, .hue = QKV_CHART_RED };
    panel->mark = marks;
}

// Draws the weights of lasso and, for the first held-out sample, of attention.
static void panels_items(struct page *p, const double w[ITEMS], const float *weights, int at)
{
    double y[ITEMS];
    bars(p, "item anywhere: the weights of lasso, the same for every sample", w, ITEMS, "position");
    for (int i = 0; i < ITEMS; i++) y[i] = (double)weights[i];
    mark(p, bars(p, "the weights of attention for one held-out sample", y, ITEMS, "position"), at,
         NAN, "the item of the query");
}

static qkv_status items(struct page *p, struct explain_random *r, qkv_error *err)
{
    static const char *const names[METHODS] = { "lasso", "max-pooling",
                                                "attention, random W_Q, W_K",
                                                "attention, trained" };
    struct explain_task t = task_of(p, ALL, ITEMS, ITEM);
    struct explain_task train = t;
    float mix[KEY * KEY], *out = page_take(p, 2 * ALL, sizeof *out),
                          *weights = page_take(p, ALL * ITEMS, sizeof *weights);
    int *at = page_take(p, ALL, sizeof *at);
    double e[2][METHODS], w[ITEMS];
    train.samples = SAMPLES;
    draw_rotation(mix, r);
    for (int moves = 0; moves < 2; moves++) {
        struct explain_head h;
        draw(&t, at, mix, !moves, r);
        lasso(w, &t, .02);
        explain_head_new(p, &h, QKV_SCORE_DOT, ITEM, ITEM, r);
        qkv_status status = explain_head_run(out, weights, &h, &t, err);
        if (!status) status = explain_head_fit(&h, &train, 400, err);
        if (!status) status = explain_head_run(out + ALL, weights, &h, &t, err);
        if (status) return status;
        measure(e[moves], &t, w, out, out + ALL);
    }
    panels_items(p, w, weights + SAMPLES * ITEMS, at[SAMPLES]);
    page_table(p, "error on held-out samples (predicting 0 has error 1)", 1 + METHODS, 3);
    page_cell(p, 0, 1, "item at a fixed position");
    page_cell(p, 0, 2, "item anywhere");
    for (int m = 0; m < METHODS; m++) {
        page_cell(p, m + 1, 0, "%s", names[m]);
        for (int i = 0; i < 2; i++) page_cell(p, m + 1, i + 1, "%.2f", e[i][m]);
    }
    page_title(p, "How does attention select the relevant item?");
    page_say(p,
             "Held-out errors: if the relevant item has a fixed position, lasso finds the position "
             "(%.2f) and trained attention the item (%.2f). If it may be anywhere, weights that "
             "are the same for every sample fail (%.2f), max-pooling picks another item (%.2f), "
             "and trained attention finds the key that fits the query (%.2f; %.2f before "
             "training).",
             e[0][LASSO], e[0][TRAINED], e[1][LASSO], e[1][POOLING], e[1][TRAINED], e[1][RANDOM]);
    return QKV_OK;
}

// ---- a series, an image, a video ----------------------------------------------------------------
enum { PATCH_MOST = 9, PLACES = 8, TRAINING = 200 };

// Data of one kind.  Its items are the patches of each frame; the query is one patch with the form.
struct scene {
    const char *name;
    int64_t frames, rows, columns;             // sizes of the data that is shown
    int64_t few_frames, few_rows, few_columns; // sizes of the data on which a head is trained
    int64_t tall, wide;                        // size of a patch
    int64_t places; // how often the form occurs; in a video once in each frame
    float form[PATCH_MOST], other[PATCH_MOST]; // the form, and another one that occurs once
};
static const struct scene scenes[] = {
    { "series",
      1,
      1,
      120,
      1,
      1,
      40,
      1,
      8,
      3,
      { 0, .3f, 2, -1.2f, .6f, .9f, .4f, 0 },
      { 0, .4f, .9f, .6f, -1.2f, 2, .3f, 0 } },
    { "image",
      1,
      20,
      20,
      1,
      9,
      9,
      3,
      3,
      2,
      { 0, 1, 0, 1, 1, 1, 0, 1, 0 },
      { 1, 0, 1, 0, 1, 0, 1, 0, 1 } },
    { "video",
      5,
      10,
      10,
      2,
      8,
      8,
      3,
      3,
      1,
      { 0, 1, 0, 1, 1, 1, 0, 1, 0 },
      { 1, 0, 1, 0, 1, 0, 1, 0, 1 } },
};
enum { SCENES = sizeof scenes / sizeof *scenes };

// One example of a scene: its numbers and where its forms are.
struct example {
    int64_t frames, rows, columns, down, across; // down x across patches in each frame
    float *x;                                    // [frames][rows][columns]
    int64_t place[PLACES], places;               // indices of the patches with the form
};

static void add_form(struct example *x, const struct scene *s, const float *form, int64_t frame,
                     int64_t row, int64_t column)
{
    for (int64_t i = 0; i < s->tall * s->wide; i++)
        x->x[(frame * x->rows + row + i / s->wide) * x->columns + column + i % s->wide] += form[i];
}

// Draws a position whose patch overlaps none of the earlier ones; at[n]: their rows and columns.
static void draw_place(int64_t at[][2], int64_t n, const struct example *x, const struct scene *s,
                       struct explain_random *r)
{
    bool free_place = false;
    for (int tries = 0; !free_place && tries < 1000; tries++) {
        at[n][0] = (int64_t)(explain_uniform(r) * (double)x->down);
        at[n][1] = (int64_t)(explain_uniform(r) * (double)x->across);
        free_place = true;
        for (int64_t k = 0; k < n; k++)
            free_place = free_place && (llabs(at[n][0] - at[k][0]) >= s->tall ||
                                        llabs(at[n][1] - at[k][1]) >= s->wide);
    }
}

// Draws an example: noise, the form at some places, and the other form once in each frame.  In a
// video both forms move by at most one cell from frame to frame.
static void draw_example(struct example *x, const struct scene *s, struct explain_random *r)
{
    int64_t at[PLACES + 1][2];
    const int64_t n = s->places;
    explain_normals(x->x, x->frames * x->rows * x->columns, .15, r);
    for (int64_t k = 0; k <= n; k++) draw_place(at, k, x, s, r);
    x->places = 0;
    for (int64_t f = 0; f < x->frames; f++) {
        for (int64_t k = 0; k <= n; k++) {
            add_form(x, s, k < n ? s->form : s->other, f, at[k][0], at[k][1]);
            if (k < n && x->places < PLACES)
                x->place[x->places++] = (f * x->down + at[k][0]) * x->across + at[k][1];
        }
        int64_t next[PLACES + 1][2];
        memcpy(next, at, sizeof at);
        for (int64_t k = 0; k <= n; k++)
            for (int axis = 0; axis < 2; axis++) {
                const int64_t most = axis ? x->across : x->down,
                              to = at[k][axis] + (int64_t)(explain_uniform(r) * 3) - 1;
                next[k][axis] = to < 0 ? 0 : to >= most ? most - 1 : to;
            }
        // the forms of a video may not cover each other
        if (llabs(next[0][0] - next[n][0]) >= s->tall || llabs(next[0][1] - next[n][1]) >= s->wide)
            memcpy(at, next, sizeof at);
    }
}

static struct example example_of(struct page *p, const struct scene *s, bool few)
{
    struct example x = { .frames = few ? s->few_frames : s->frames,
                         .rows = few ? s->few_rows : s->rows,
                         .columns = few ? s->few_columns : s->columns };
    x.down = x.rows - s->tall + 1;
    x.across = x.columns - s->wide + 1;
    x.x = page_take(p, (size_t)(x.frames * x.rows * x.columns), sizeof *x.x);
    return x;
}

static int64_t patches(const struct example *x)
{
    return x->frames * x->down * x->across;
}

// Writes the patches of an example as items, each followed by a random value, and the patch of the
// first place as the query; the target is the mean value of all places.
static void write_sample(struct explain_task *t, int64_t n, const struct example *x,
                         const struct scene *s, struct explain_random *r)
{
    const int64_t size = s->tall * s->wide, width = size + 1;
    float *item = t->item + n * t->items * width, *query = t->query + n * width;
    double mean = 0;
    for (int64_t k = 0; k < patches(x); k++) {
        const int64_t frame = k / (x->down * x->across), row = k / x->across % x->down;
        for (int64_t i = 0; i < size; i++)
            item[k * width + i] = x->x[(frame * x->rows + row + i / s->wide) * x->columns +
                                       k % x->across + i % s->wide];
        item[k * width + size] = (float)explain_normal(r);
    }
    for (int64_t k = 0; k < x->places; k++)
        mean += (double)item[x->place[k] * width + size] / (double)x->places;
    memcpy(query, item + x->place[0] * width, (size_t)size * sizeof *query);
    query[size] = 0;
    t->target[n] = (float)mean;
}

// Copies frames, each rows x columns, next to each other into a grid, with a column between them.
static void add_frames(struct page *p, const char *name, const float *x, int64_t frames,
                       int64_t rows, int64_t columns, enum qkv_chart_ramp ramp)
{
    const int64_t all = frames * (columns + 1) - 1;
    const char **label = page_take(p, (size_t)all, sizeof *label);
    float *to = page_grid(p, name, rows, all, NULL, frames > 1 ? label : NULL, ramp);
    p->grid[p->panels - 1]->digits = -1;
    for (int64_t f = 0; f < frames; f++) {
        label[f * (columns + 1)] = page_text(p, "frame %lld", (long long)f);
        for (int64_t i = 0; i < rows * columns; i++)
            to[i / columns * all + f * (columns + 1) + i % columns] = x[f * rows * columns + i];
    }
}

// Frames the place k of the example in the last panel; size 1: in the grid of weights.
static void frame_place(struct page *p, const struct example *x, int64_t k, int64_t tall,
                        int64_t wide, int64_t columns)
{
    const int64_t i = x->place[k], frame = i / (x->down * x->across);
    struct qkv_chart_panel *panel = &p->panel[p->panels - 1];
    mark(p, panel, (double)(frame * (columns + 1) + i % x->across),
         (double)(i / x->across % x->down), NULL);
    struct qkv_chart_mark *last = page_take(p, (size_t)panel->marks, sizeof *last);
    memcpy(last, panel->mark, (size_t)panel->marks * sizeof *last);
    last[panel->marks - 1].tall = (double)tall;
    last[panel->marks - 1].wide = (double)wide;
    last[panel->marks - 1].hue = k ? 10 : QKV_CHART_RED;
    panel->mark = last;
}

static void panels_scene(struct page *p, const struct scene *s, const struct example *x,
                         const float *w)
{
    const int64_t n = patches(x);
    if (x->rows > 1) {
        const char *forms = s->frames > 1 ? "a cross that moves, and another form"
                                          : "two crosses, and another form";
        add_frames(p, page_text(p, "%s: %s; red: the query", s->name, forms), x->x, x->frames,
                   x->rows, x->columns, QKV_CHART_LINEAR);
        for (int64_t k = 0; k < x->places; k++) frame_place(p, x, k, s->tall, s->wide, x->columns);
        add_frames(p, page_text(p, "%s: the weights of all patches", s->name), w, x->frames,
                   x->down, x->across, QKV_CHART_WEIGHTS);
        for (int64_t k = 0; k < x->places; k++) frame_place(p, x, k, 1, 1, x->across);
        return;
    }
    double *y = page_take(p, (size_t)x->columns, sizeof *y);
    for (int64_t i = 0; i < x->columns; i++) y[i] = (double)x->x[i];
    struct qkv_chart_panel *line =
        page_panel(p, "series: windows with the form start at the marks");
    page_line(p, line, NULL, NULL, y, x->columns)->style = QKV_CHART_THIN;
    line->x.name = "time";
    for (int64_t i = 0; i < n; i++) y[i] = (double)w[i];
    struct qkv_chart_panel *weight = bars(p, "series: the weights of all windows", y, n, "time");
    for (int64_t k = 0; k < x->places; k++) {
        mark(p, line, (double)x->place[k], NAN, k ? "form" : "query");
        mark(p, weight, (double)x->place[k], NAN, k ? "form" : "query");
    }
}

// Trains a head on small examples of the scene, and applies it to a larger one that it has not
// seen.
static qkv_status select_in(struct page *p, const struct scene *s, struct explain_random *r,
                            qkv_error *err)
{
    const int64_t width = s->tall * s->wide + 1;
    struct example few = example_of(p, s, true), x = example_of(p, s, false);
    struct explain_task train = task_of(p, TRAINING, patches(&few), width),
                        test = task_of(p, 1, patches(&x), width);
    struct explain_head h;
    float out, *w = page_take(p, (size_t)test.items, sizeof *w);
    double on[2] = { 0, 0 }, most = 0;
    int64_t at = 0;
    for (int64_t n = 0; n < TRAINING; n++) {
        draw_example(&few, s, r);
        write_sample(&train, n, &few, s, r);
    }
    draw_example(&x, s, r);
    write_sample(&test, 0, &x, s, r);
    explain_head_new(p, &h, QKV_SCORE_DOT, width, width, r);
    for (int trained = 0; trained < 2; trained++) {
        qkv_status status = trained ? explain_head_fit(&h, &train, 300, err) : QKV_OK;
        if (!status) status = explain_head_run(&out, w, &h, &test, err);
        if (status) return status;
        for (int64_t k = 0; k < x.places; k++) on[trained] += (double)w[x.place[k]];
    }
    for (int64_t i = 0; i < test.items; i++) {
        bool place = false;
        for (int64_t k = 0; k < x.places; k++) place = place || x.place[k] == i;
        if (place || (double)w[i] <= most) continue;
        most = (double)w[i];
        at = i;
    }
    panels_scene(p, s, &x, w);
    p->panel[p->panels - 1].note =
        page_text(p,
                  "%s of the weight is on the %lld marked places (%s before training); the "
                  "largest weight elsewhere is %s, at patch %lld of %lld",
                  page_weight(p, on[1], 2), (long long)x.places, page_weight(p, on[0], 2),
                  page_weight(p, most, 3), (long long)at, (long long)test.items);
    if (s == scenes)
        page_say(p, " On new data, heads that are trained on examples have these shares of their "
                    "weight on the parts with the form of the query:");
    page_say(p, "%s %s %s", s == scenes ? "" : ",", s->name, page_weight(p, on[1], 2));
    return QKV_OK;
}

qkv_status explain_selection(struct page *p, int argc, char **argv, qkv_error *err)
{
    (void)argc;
    (void)argv;
    struct explain_random r = { (uint64_t)explain_options.seed };
    qkv_status status = items(p, &r, err);
    for (int i = 0; i < SCENES && !status; i++) status = select_in(p, &scenes[i], &r, err);
    page_say(p, ".");
    p->across = 2;
    return status;
}
