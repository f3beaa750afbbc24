// SPDX-License-Identifier: MIT
// picture_residual.c: draws the residual stream in the same way as web/views/residual.js. The upper
// part shows the norm of the stream over the layers, with a bar for the change by each sublayer.
// The lower part shows, token by token, how large the change by each sublayer is compared with the
// stream.
#include "view/data/residual.h"
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>

// Colours of the sublayers. No cell of the grid has one of these colours.
static const int sublayer_color[VIEW_SUBLAYERS] = { PALETTE_HEAD + 4, PALETTE_HEAD + 1,
                                                    PALETTE_HEAD + 6 };
enum {
    WIDE = 1028,
    LEAST = 912, // minimum width, in which the sentence fits on one line
    NAMES = 124,
    NAMES_NARROW = 84,
    GROUP_LEAST = 20,
    GROUP_MOST = 110,
    GAP = 8,
    CHART = 150,
    ROW = 17,
    MOST_ROWS = 64,
    COSINE_LEAST = 36 // cosines are only written in columns at least this wide
};

struct residual {
    struct picture *p;
    int sublayers, sublayer[VIEW_SUBLAYERS]; // indices of the sublayers that occur in some layer
    double left, group, column, names;
    const int64_t *rows; // the tokens whose mean the upper part shows
    int64_t row_count;
    int64_t each, bands; // each: tokens per row of the grid; bands: rows of the grid
    double most;         // largest norm that the upper part shows
};

static double column_left(const struct residual *g, int64_t layer, int column)
{
    return g->left + g->names + (double)layer * g->group + column * g->column;
}

// ---- upper part: the curve of norms ------------------------------------------------------------
static void find_most(struct residual *g)
{
    const struct view_stack *v = g->p->v;
    g->most = 1e-12;
    for (int64_t l = 0; l < v->shape.layers; l++) {
        const struct view_residual r = view_residual_layer(v, l);
        for (int k = 0; k < VIEW_SUBLAYERS; k++) {
            if (!r.sublayer[k]) continue;
            const struct view_added a = view_residual_mean(&r, k, g->rows, g->row_count);
            g->most = fmax(g->most, fmax(a.added, fmax(a.before, a.after)));
        }
    }
}

static void draw_number(struct canvas *s, double x, double y, unsigned how, double value, bool sign)
{
    struct view_text t = { 0 };
    if (sign)
        view_signed(&t, value, 2);
    else
        view_number(&t, value, value < 100 ? 1 : 0);
    s->failed |= t.failed;
    if (t.at) canvas_text(s, x, y, canvas_small(s, 10), how, PALETTE_TEXT3, t.at, (size_t)t.used);
    view_text_free(&t);
}

static void draw_bars(struct residual *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const struct view_stack *v = g->p->v;
    for (int64_t l = 0; l < v->shape.layers; l++) {
        const struct view_residual r = view_residual_layer(v, l);
        for (int c = 0; c < g->sublayers; c++) {
            if (!r.sublayer[g->sublayer[c]]) continue;
            const struct view_added a =
                view_residual_mean(&r, g->sublayer[c], g->rows, g->row_count);
            const double x = column_left(g, l, c), tall = CHART * a.added / g->most;
            if (tall > 0)
                canvas_box(s, x + 1, y - tall, g->column - 2, tall, sublayer_color[g->sublayer[c]]);
            if (g->column >= COSINE_LEAST)
                draw_number(s, x + g->column / 2, y + 17, CANVAS_MIDDLE, a.cosine, true);
        }
    }
}

// Draws the norm of the stream as a line through the layers and their sublayers.
static void draw_sizes(struct residual *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const struct view_stack *v = g->p->v;
    bool begun = false;
    canvas_path(s, PALETTE_NONE, PALETTE_TEXT, 1.75, 1);
    for (int64_t l = 0; l < v->shape.layers; l++) {
        const struct view_residual r = view_residual_layer(v, l);
        for (int c = 0; c < g->sublayers; c++) {
            if (!r.sublayer[g->sublayer[c]]) continue;
            const struct view_added a =
                view_residual_mean(&r, g->sublayer[c], g->rows, g->row_count);
            const double x = column_left(g, l, c);
            if (!isfinite(a.before) || !isfinite(a.after)) continue;
            if (!begun) canvas_move_to(s, x, y - CHART * a.before / g->most);
            canvas_line_to(s, x + g->column, y - CHART * a.after / g->most);
            begun = true;
        }
    }
}

static void draw_axis(struct residual *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const double end = column_left(g, g->p->v->shape.layers, 0) - GAP;
    for (int k = 0; k <= 2; k++) {
        const double level = y - CHART * k / 2.;
        canvas_line(s, g->left + g->names, level, end, level, PALETTE_RULE, 1);
        draw_number(s, g->left + g->names - 8, level + 4, CANVAS_END, g->most * k / 2, false);
    }
    canvas_format(s, g->left, y - CHART + 4, 11, 0, PALETTE_TEXT2, "size");
    if (g->column >= COSINE_LEAST)
        canvas_format(s, g->left + g->names - 8, y + 17, 11, CANVAS_END, PALETTE_TEXT2, "cosine");
}

// Returns the y coordinate of its last line.
static double draw_legend(struct residual *g, double y)
{
    enum { EACH = 176 };
    struct canvas *s = &g->p->canvas;
    double x = g->left + g->names;
    canvas_line(s, x, y - 4, x + 18, y - 4, PALETTE_TEXT, 1.75);
    canvas_format(s, x + 24, y, 11, 0, PALETTE_TEXT2, "norm of the stream");
    x += 150;
    for (int c = 0; c < g->sublayers; c++) {
        const char *name = view_sublayer_names[g->sublayer[c]];
        if (x + EACH > s->width - g->left) x = g->left + g->names, y += 18;
        canvas_box(s, x, y - 9, 10, 10, sublayer_color[g->sublayer[c]]);
        canvas_format(s, x + 16, y, 11, 0, PALETTE_TEXT2, "change by %s", name);
        x += EACH;
    }
    return y;
}

// ---- lower part: the grid of tokens ------------------------------------------------------------
static int64_t band_rows(const struct residual *g, int64_t band)
{
    return qkv_min64(g->each, g->p->row_count - band * g->each);
}

static void draw_layer(struct residual *g, int64_t layer, double y)
{
    const struct view_residual r = view_residual_layer(g->p->v, layer);
    uint8_t color[MOST_ROWS * VIEW_SUBLAYERS];
    for (int64_t b = 0; b < g->bands; b++)
        for (int c = 0; c < g->sublayers; c++) {
            uint8_t *to = &color[b * g->sublayers + c];
            *to = CANVAS_BLANK;
            if (!r.sublayer[g->sublayer[c]]) continue;
            const struct view_added a =
                view_residual_mean(&r, g->sublayer[c], g->p->rows + b * g->each, band_rows(g, b));
            const double share = view_residual_share(&a);
            if (share == share)
                *to = (uint8_t)(palette_signed(view_residual_tone(share)) - PALETTE_RAMP);
        }
    canvas_cells(&g->p->canvas, column_left(g, layer, 0), y, g->column, ROW, 1, color, g->bands,
                 g->sublayers);
}

static void draw_row_names(struct residual *g, double y)
{
    struct picture *p = g->p;
    for (int64_t b = 0; b < g->bands; b++) {
        const int64_t i = p->rows[b * g->each];
        const bool marked = g->each == 1 && p->marked && i == p->st.token;
        picture_name(&p->canvas, p->v, i, false, g->left + g->names - 8, y + (double)b * ROW + 12,
                     12, CANVAS_END | (marked ? CANVAS_BOLD : 0), PALETTE_TEXT, g->names - 10);
    }
}

static double draw_grid(struct residual *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const struct view_shape *k = &g->p->v->shape;
    for (int64_t l = 0; l < k->layers; l++) {
        const bool named = g->group >= 28 || l % 5 == 0;
        draw_layer(g, l, y);
        if (named)
            canvas_format(s, column_left(g, l, 0) + (g->group - GAP) / 2, y - 7, 11, CANVAS_MIDDLE,
                          PALETTE_TEXT2, g->group >= 52 ? "layer %" PRId64 : "%" PRId64, l);
    }
    draw_row_names(g, y);
    return y + (double)g->bands * ROW;
}

static void draw_scale(struct residual *g, double y)
{
    enum { STEPS = 33 };
    struct canvas *s = &g->p->canvas;
    uint8_t color[STEPS];
    const double x = g->left + g->names;
    for (int i = 0; i < STEPS; i++) {
        const double share = (i - STEPS / 2) / (double)(STEPS / 2);
        color[i] = (uint8_t)(palette_signed(view_residual_tone(share)) - PALETTE_RAMP);
    }
    canvas_cells(s, x, y, 6, 10, 0, color, 1, STEPS);
    struct view_text t = { 0 };
    y = canvas_fold(s, x, y + 24, s->width - g->left - x, 11, 0, PALETTE_TEXT3,
                    "full colour: the change is as long as the stream before it; left: against "
                    "the stream (cosine below 0), right: along the stream; in a post-norm model "
                    "the change includes the layer norm",
                    16);
    if (g->each > 1)
        view_say(&t, "a row is the mean of %" PRId64 " tokens, of which the first is named",
                 g->each);
    s->failed |= t.failed;
    if (t.at) y = canvas_fold(s, x, y, s->width - g->left - x, 11, 0, PALETTE_TEXT3, t.at, 16);
    view_text_free(&t);
    s->height = picture_padding(g->p, x, y) + 2;
}

qkv_status picture_residual(struct picture *p, qkv_error *err)
{
    const struct view_shape *k = &p->v->shape;
    struct residual g = { .p = p, .left = p->margin };
    const qkv_status status = view_residual_check(p->v, err);
    if (status) return status;
    g.rows = p->marked ? &p->st.token : p->rows;
    g.row_count = p->marked ? 1 : p->row_count;
    g.each = qkv_max64(1, qkv_ceil_div(p->row_count, MOST_ROWS));
    g.bands = qkv_ceil_div(p->row_count, g.each);
    g.sublayers = view_residual_sublayers(p->v, g.sublayer);
    find_most(&g);
    g.names = p->column ? NAMES_NARROW : NAMES;
    g.group =
        fmin(GROUP_MOST, fmax(GROUP_LEAST, (picture_wide(p, WIDE) - g.names) / (double)k->layers));
    g.column = (g.group - GAP) / (double)qkv_max64(1, g.sublayers);
    struct view_text sentence = { 0 };
    view_residual_sentence(&sentence, p->v, g.rows, g.row_count);
    canvas_new(&p->canvas,
               fmax(picture_wide(p, LEAST), g.names + g.group * (double)k->layers) + 2 * p->margin,
               p->question, sentence.at ? sentence.at : "");
    p->canvas.failed |= sentence.failed;
    view_text_free(&sentence);
    const double y = draw_legend(&g, canvas_head(&p->canvas, g.left) + 30);
    draw_axis(&g, y + 22 + CHART);
    draw_bars(&g, y + 22 + CHART);
    draw_sizes(&g, y + 22 + CHART);
    draw_scale(&g, draw_grid(&g, y + CHART + 68) + 16);
    return QKV_OK;
}
