// SPDX-License-Identifier: MIT
// terminal_output.c: draws the output of the model as lines of text: the most likely tokens after
// each layer at one position, then the most likely token of each position; or a list of labels or
// shares.
#include "view/data/model_output.h"
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
    NAME_MOST = 11,
    TARGET_LEAST = 64,
    OWN_LEAST = 70,
    NUMBER = 6,
    CELL_LEAST = 13,
    CELL_MOST = 22,
    MOST_ROWS = 40,
    PLACE = 6
};

// Returns the width of the column of row names, without the space after it.
static int name_columns(const struct text_canvas *s)
{
    return s->columns < 40 ? 7 : NAME_MOST;
}

static void put_number(struct text_canvas *s, int32_t units, int columns)
{
    struct view_text t = { 0 };
    view_output_number(&t, units);
    text_canvas_put(s, &t, columns, true);
}

static void put_name(struct text_canvas *s, const char *name, int columns)
{
    struct view_text t = { 0 };
    view_plain_text(&t, name, strlen(name), 160);
    text_canvas_put(s, &t, columns, false);
}

// Writes the entries of a row: each a name and its number, as many as fit.
static void put_entries(struct text_canvas *s, const struct view_output *o, int64_t cell, int shown,
                        int columns)
{
    for (int k = 0; k < shown; k++) {
        put_name(s, o->name[o->entry[cell + k]], columns - NUMBER - 1);
        if (k) text_canvas_dim(s);
        put_number(s, o->value[cell + k], NUMBER);
        text_canvas_plain(s);
        text_canvas_pad(s, 1);
    }
}

static void put_row_name(struct text_canvas *s, const struct view_output *o, int64_t place,
                         int64_t l)
{
    struct view_text t = { 0 };
    if (o->kind == QKV_VIEW_OUTPUT_TOKEN_LABELS)
        view_output_name(&t, s->v, place);
    else
        view_output_row(&t, o, l);
    text_canvas_put(s, &t, name_columns(s), false);
    text_canvas_pad(s, 1);
}

// ---- tokens after each layer -------------------------------------------------------------------
static void put_target(struct text_canvas *s, const struct view_output *o, int64_t row)
{
    char place[32];
    put_number(s, o->target_value[row], NUMBER);
    snprintf(place, sizeof place, "%" PRId64, o->target_rank[row] + 1);
    text_canvas_text(s, place, PLACE, true);
}

static void put_target_head(struct text_canvas *s, const struct view_output *o, int64_t place)
{
    struct view_text t = { 0 };
    const char *name = o->name[o->target[place]];
    view_plain_text(&t, name, strlen(name), 160);
    text_canvas_put(s, &t, NUMBER, true);
    text_canvas_text(s, "place", PLACE, true);
}

// Returns how many entries fit into a row, and sets their width.
static int fit(const struct text_canvas *s, const struct view_output *o, int before, int *columns)
{
    const int space = s->columns - before;
    const int64_t most = qkv_max64(1, space / CELL_LEAST);
    const int shown = (int)qkv_min64(o->top, most);
    *columns = (int)qkv_min64(CELL_MOST, qkv_max64(space / shown, NUMBER + 2));
    return shown;
}

static void put_layers(struct text_canvas *s, const struct view_output *o, int64_t place)
{
    const bool target = o->target[place] >= 0 && s->columns >= TARGET_LEAST;
    int columns;
    const int shown = fit(s, o, name_columns(s) + 1 + (target ? NUMBER + PLACE : 0), &columns);
    text_canvas_dim(s);
    text_canvas_text(s, "after", name_columns(s) + 1, false);
    text_canvas_text(s, "most likely tokens", shown * columns, false);
    if (target) put_target_head(s, o, place);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int64_t l = 0; l < o->rows; l++) {
        if (l + 1 == o->rows) text_canvas_sgr(s, "1");
        put_row_name(s, o, place, l);
        text_canvas_plain(s);
        put_entries(s, o, view_output_cell(o, place, l), shown, columns);
        if (target) put_target(s, o, place * o->rows + l);
        text_canvas_line(s);
    }
}

// ---- each position -----------------------------------------------------------------------------
static void put_position(struct text_canvas *s, const struct view_output *o, int64_t place,
                         int shown, int columns)
{
    struct view_text t = { 0 };
    view_output_name(&t, s->v, place);
    text_canvas_put(s, &t, name_columns(s), false);
    text_canvas_pad(s, 1);
    put_entries(s, o, view_output_cell(o, place, o->rows - 1), shown, columns);
    if (view_output_is_lens(o) && o->target[place] >= 0 && s->columns >= OWN_LEAST) {
        text_canvas_pad(s, 1);
        put_name(s, o->name[o->target[place]], CELL_MOST - NUMBER - 1);
        put_target(s, o, place * o->rows + o->rows - 1);
    }
    text_canvas_line(s);
}

static void put_positions(struct text_canvas *s, const struct view_output *o, int64_t place)
{
    const bool lens = view_output_is_lens(o);
    const bool wide = s->columns >= OWN_LEAST;
    const int own = lens && wide ? 1 + CELL_MOST - NUMBER - 1 + NUMBER + PLACE : 0;
    int columns, shown = fit(s, o, name_columns(s) + 1 + own, &columns);
    int64_t first = 0, last = o->positions;
    if (lens) shown = 1;
    if (lens) columns = (int)qkv_min64(CELL_MOST, s->columns - name_columns(s) - 1 - own);
    if (!s->all && last > MOST_ROWS) {
        first = qkv_max64(0, qkv_min64(place - MOST_ROWS / 2, last - MOST_ROWS));
        last = first + MOST_ROWS;
    }
    text_canvas_dim(s);
    text_canvas_text(s, o->kind == QKV_VIEW_OUTPUT_NEXT ? "after" : "at", name_columns(s) + 1,
                     false);
    text_canvas_text(s, lens ? "most likely" : "most likely labels", shown * columns, false);
    if (own) text_canvas_text(s, " the text's own, place", own, false);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int64_t p = first; p < last; p++) put_position(s, o, p, shown, columns);
    struct view_text t = { 0 };
    if (last - first < o->all) {
        view_count(&t, last - first);
        view_say(&t, " of ");
        view_count(&t, o->all);
        view_say(&t, " positions are shown%s",
                 last - first < o->positions ? "; --all shows more." : ".");
    }
    text_canvas_put_folded(s, &t, 0);
}

// ---- lists -------------------------------------------------------------------------------------
static void put_list(struct text_canvas *s, const struct view_output *o)
{
    const bool shares = o->kind == QKV_VIEW_OUTPUT_SHARES;
    const int64_t n = o->positions * o->top, most = s->all ? n : MOST_ROWS;
    const int label = s->columns > 60 ? 24 : 12, bar = s->columns - label - NUMBER - 2;
    int64_t *list = qkv_alloc((size_t)n + 1, sizeof *list), rest;
    int32_t top = 1;
    if (!list) {
        s->t.failed = true;
        return;
    }
    const int64_t count = view_output_list(list, most, o, &rest);
    for (int64_t i = 0; i < count; i++)
        if (abs(o->value[list[i]]) > top) top = abs(o->value[list[i]]);
    for (int64_t i = 0; i < count; i++) {
        struct view_text t = { 0 };
        const int32_t x = o->value[list[i]];
        if (shares) {
            view_output_name(&t, s->v, list[i]);
            text_canvas_put(s, &t, label, false);
        } else {
            put_name(s, o->name[o->entry[list[i]]], label);
        }
        put_number(s, x, NUMBER);
        text_canvas_pad(s, 2);
        text_canvas_bar(s, fmax(0, (double)x / top), bar);
        text_canvas_line(s);
    }
    if (count < n) {
        text_canvas_text(s, "the rest", label, false);
        put_number(s, (int32_t)rest, NUMBER);
        text_canvas_line(s);
    }
    qkv_free(list);
}

qkv_status terminal_output(struct text_canvas *s, qkv_error *err)
{
    struct view_text sentence = { 0 };
    const qkv_status status = view_output_check(s->v, err);
    if (status) return status;
    const struct view_output *o = s->v->output;
    const int64_t place = view_output_place(s->v, &s->st, s->asked && !s->st.offered);
    terminal_header(s);
    text_canvas_sgr(s, "1");
    text_canvas_words(s, s->question);
    text_canvas_plain(s);
    view_output_sentence(&sentence, s->v, place);
    text_canvas_put_folded(s, &sentence, 0);
    text_canvas_line(s);
    if (view_output_is_list(o)) {
        put_list(s, o);
        return QKV_OK;
    }
    if (view_output_is_lens(o)) {
        put_layers(s, o, place);
        text_canvas_line(s);
    }
    put_positions(s, o, place);
    return QKV_OK;
}
