// SPDX-License-Identifier: MIT
// picture_output.c: draws the output of the model in the same way as web/views/output.js: the most
// likely tokens after each layer at one position, the labels of each token, or a list of labels or
// shares as bars.
#include "view/data/model_output.h"
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAMES = 124,
    NAMES_NARROW = 92,
    CELL = 132,
    CELL_LEAST = 100, // of a picture with a printed width, which has as many entries as fit
    ROW = 24,
    GAP = 2,
    BAR = 420,
    TARGET = 122, // width of the column of the text's own token
    LEAST = 560,
    MOST_ROWS = 64
};

struct output {
    struct picture *p;
    const struct view_output *o;
    int64_t place;
    int64_t top; // entries of a row that are drawn
    double left, names, cell, bar;
};

static void draw_text(struct canvas *s, double x, double y, unsigned how, int color,
                      struct view_text *t, double width)
{
    s->failed |= t->failed;
    if (t->at) canvas_cut(s, x, y, 12, how, color, t->at, (size_t)t->used, width);
    view_text_free(t);
}

static void draw_number(struct canvas *s, double x, double y, unsigned how, int color,
                        int32_t units)
{
    struct view_text t = { 0 };
    view_output_number(&t, units);
    s->failed |= t.failed;
    if (t.at) canvas_text(s, x, y, 11, how, color, t.at, (size_t)t.used);
    view_text_free(&t);
}

static void draw_name(struct canvas *s, double x, double y, int color, const char *name,
                      double width)
{
    struct view_text t = { 0 };
    view_plain_text(&t, name, strlen(name), 160);
    draw_text(s, x, y, 0, color, &t, width);
}

// Draws the entries of one row, each a box as dark as its number.
static void draw_entries(const struct output *g, double y, int64_t cell)
{
    struct canvas *s = &g->p->canvas;
    for (int64_t k = 0; k < g->top; k++) {
        const double x = g->left + g->names + (double)k * (g->cell + GAP);
        const int32_t units = g->o->value[cell + k];
        const int color = palette_weight((double)units / VIEW_OUTPUT_UNIT);
        canvas_box(s, x, y, g->cell, ROW - GAP, color);
        draw_name(s, x + 6, y + 15, palette_over(color), g->o->name[g->o->entry[cell + k]],
                  g->cell - 54);
        draw_number(s, x + g->cell - 6, y + 15, CANVAS_END, palette_over(color), units);
    }
}

static void draw_row_name(const struct output *g, double y, int64_t place, int64_t l)
{
    struct view_text t = { 0 };
    if (view_output_is_lens(g->o))
        view_output_row(&t, g->o, l);
    else
        view_output_name(&t, g->p->v, place);
    const unsigned bold = view_output_is_lens(g->o) && l + 1 == g->o->rows ? CANVAS_BOLD : 0;
    draw_text(&g->p->canvas, g->left + g->names - 8, y + 15, CANVAS_END | bold, PALETTE_TEXT, &t,
              g->names - 10);
}

// Draws the column of the text's own token: its probability and its place.
static void draw_target(const struct output *g, double y, int64_t row)
{
    struct canvas *s = &g->p->canvas;
    const double x = g->left + g->names + (double)g->top * (g->cell + GAP);
    draw_number(s, x + 60, y + 15, CANVAS_END, PALETTE_TEXT2, g->o->target_value[row]);
    canvas_format(s, x + 118, y + 15, 11, CANVAS_END, PALETTE_TEXT2, "%" PRId64,
                  g->o->target_rank[row] + 1);
}

static double draw_grid(const struct output *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const struct view_output *o = g->o;
    const bool lens = view_output_is_lens(o), target = lens && o->target[g->place] >= 0;
    const double end = g->left + g->names + (double)g->top * (g->cell + GAP);
    const int64_t n = lens ? o->rows : qkv_min64(o->positions, MOST_ROWS);
    canvas_format(s, g->left + g->names - 8, y, 11, CANVAS_END, PALETTE_TEXT2,
                  lens ? "after" : "token");
    canvas_format(s, g->left + g->names, y, 11, 0, PALETTE_TEXT2,
                  !lens          ? "labels, with probability"
                  : g->p->column ? "most likely tokens"
                                 : "most likely tokens, with probability");
    if (target) {
        struct view_text t = { 0 };
        const char *name = o->name[o->target[g->place]];
        view_say(&t, "“");
        view_plain_text(&t, name, strlen(name), 160);
        view_say(&t, "”");
        draw_text(s, end + 60, y, CANVAS_END, PALETTE_TEXT2, &t, 56);
        canvas_format(s, end + 118, y, 11, CANVAS_END, PALETTE_TEXT2, "place");
    }
    y += 8;
    for (int64_t i = 0; i < n; i++, y += ROW) {
        const int64_t place = lens ? g->place : i, l = lens ? i : 0;
        draw_row_name(g, y, place, l);
        draw_entries(g, y, view_output_cell(o, place, l));
        if (target) draw_target(g, y, place * o->rows + l);
    }
    if (lens) return y;
    if (n < o->all)
        canvas_format(s, g->left, y + 18, 11, 0, PALETTE_TEXT3,
                      "%" PRId64 " of %" PRId64 " tokens are shown", n, o->all);
    return n < o->all ? y + 24 : y;
}

static double draw_list(const struct output *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const struct view_output *o = g->o;
    const int64_t n = o->positions * o->top;
    int64_t list[MOST_ROWS], rest;
    int32_t most = 1;
    const int64_t count = view_output_list(list, MOST_ROWS, o, &rest);
    const bool shares = o->kind == QKV_VIEW_OUTPUT_SHARES;
    canvas_format(s, g->left + g->names - 8, y, 11, CANVAS_END, PALETTE_TEXT2,
                  shares ? "token" : "label");
    canvas_format(s, g->left + g->names, y, 11, 0, PALETTE_TEXT2,
                  shares ? "share of the vector" : "probability");
    y += 8;
    for (int64_t i = 0; i < count; i++)
        if (abs(o->value[list[i]]) > most) most = abs(o->value[list[i]]);
    for (int64_t i = 0; i < count; i++, y += ROW - 4) {
        struct view_text t = { 0 };
        const int32_t x = o->value[list[i]];
        const char *name = o->name[o->entry[list[i]]];
        if (shares)
            view_output_name(&t, g->p->v, list[i]);
        else
            view_plain_text(&t, name, strlen(name), 160);
        const bool marked =
            shares && g->p->marked && !g->p->st.offered && o->at[list[i]] == g->p->st.token;
        draw_text(s, g->left + g->names - 8, y + 13, CANVAS_END | (marked ? CANVAS_BOLD : 0),
                  PALETTE_TEXT, &t, g->names - 10);
        canvas_box(s, g->left + g->names, y + 3, fabs((double)x) / most * g->bar, ROW - 10,
                   x < 0 ? PALETTE_NEG : PALETTE_POS);
        draw_number(s, g->left + g->names + fabs((double)x) / most * g->bar + 6, y + 13, 0,
                    PALETTE_TEXT2, x);
    }
    if (count < n) {
        canvas_format(s, g->left + g->names - 8, y + 13, 12, CANVAS_END, PALETTE_TEXT2, "the rest");
        draw_number(s, g->left + g->names, y + 13, 0, PALETTE_TEXT2, (int32_t)rest);
        y += ROW;
    }
    return y;
}

static void set_sizes(struct output *g, bool target)
{
    const double wide = g->p->wide;
    g->names = g->p->column ? NAMES_NARROW : NAMES;
    g->top = g->o->top;
    g->cell = CELL;
    g->bar = BAR;
    if (!(wide > 0)) return;
    const double space = wide - g->names - (target ? TARGET : 0);
    g->top = qkv_max64(1, qkv_min64(g->top, (int64_t)((space + GAP) / (CELL_LEAST + GAP))));
    g->cell = fmin(CELL, (space + GAP) / (double)g->top - GAP);
    g->bar = fmin(BAR, wide - g->names - 60);
}

qkv_status picture_output(struct picture *p, qkv_error *err)
{
    const qkv_status status = view_output_check(p->v, err);
    if (status) return status;
    struct output g = { .p = p, .o = p->v->output, .left = p->margin };
    g.place = view_output_place(p->v, &p->st, p->marked && !p->st.offered);
    const bool list = view_output_is_list(g.o);
    const bool target = view_output_is_lens(g.o) && g.o->target[g.place] >= 0;
    set_sizes(&g, target);
    const double grid = g.names + (double)g.top * (g.cell + GAP) + (target ? TARGET : 0);
    struct view_text sentence = { 0 };
    view_output_sentence(&sentence, p->v, g.place);
    canvas_new(&p->canvas,
               picture_wide(p, fmax(LEAST, list ? g.names + g.bar + 60 : grid)) + 2 * p->margin,
               p->question, sentence.at ? sentence.at : "");
    p->canvas.failed |= sentence.failed;
    view_text_free(&sentence);
    const double y = canvas_head(&p->canvas, g.left) + 24;
    p->canvas.height = (list ? draw_list(&g, y) : draw_grid(&g, y)) + 18;
    return QKV_OK;
}
