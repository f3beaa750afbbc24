// SPDX-License-Identifier: MIT
// terminal_model.c: draws every head as a small matrix (rows: queries, columns: keys). With colour,
// a line of text shows two rows of points (half blocks); without colour, it shows one row.
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { LAYER = 6, POINTS_MOST = 14, POINTS_LEAST = 3 };

// Computes the points cell[n][n] of a head. A point is the largest weight of the rows and keys that
// it represents, or 0.
static void fill(double *cell, struct text_canvas *s, int64_t layer, int64_t head, int n)
{
    for (int i = 0; i < n * n; i++) cell[i] = 0;
    for (int64_t r = 0; r < s->shown_count; r++) {
        view_row(s->row, s->v, layer, head, s->shown[r]);
        double *row = cell + r * n / s->shown_count * n;
        for (int64_t c = 0; c < s->key_count; c++) {
            double *at = &row[c * n / s->key_count];
            if ((double)s->row[s->keys[c]] > *at) *at = (double)s->row[s->keys[c]];
        }
    }
}

static void put_line(struct text_canvas *s, const double *cell, int n, int line, bool halves)
{
    for (int c = 0; c < n; c++) {
        if (!halves) {
            view_say(&s->t, "%s", text_canvas_block(s, cell[line * n + c]));
            continue;
        }
        const double lower = 2 * line + 1 < n ? cell[(2 * line + 1) * n + c] : 0;
        text_canvas_halves(s, pow(cell[2 * line * n + c], .7), pow(lower, .7), false);
    }
}

static void put_names(struct text_canvas *s, int64_t from, int64_t end, int each)
{
    text_canvas_dim(s);
    text_canvas_text(s, "layer", LAYER, false);
    for (int64_t h = from; h < end; h++) {
        char name[24];
        snprintf(name, sizeof name, "%" PRId64, h);
        text_canvas_text(s, name, h + 1 < end ? each : each - 1, false);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
}

// Writes a line below the heads: for each head the glyph of its kind and the strength of that kind.
static void put_kind_row(struct text_canvas *s, int64_t layer, int64_t from, int64_t end, int each)
{
    text_canvas_pad(s, LAYER);
    text_canvas_dim(s);
    for (int64_t h = from; h < end; h++) {
        const struct view_stats *x = view_stats(s->v, layer, h);
        struct view_text t = { 0 };
        view_say(&t, "%s", terminal_glyph(s, x->kind));
        if (each > 5 && x->kind < VIEW_OTHER) {
            view_say(&t, " ");
            view_weight(&t, (double)x->strength, x->strength >= .995f ? 1 : 2);
        }
        text_canvas_put(s, &t, h + 1 < end ? each : each - 1, false);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_layer(struct text_canvas *s, double *cell, int64_t layer, int64_t from, int64_t end,
                      int n)
{
    const bool halves = s->color && s->utf8;
    const int lines = halves ? (n + 1) / 2 : n;
    for (int64_t h = from; h < end; h++) fill(cell + (h - from) * n * n, s, layer, h, n);
    for (int line = 0; line < lines; line++) {
        char name[24];
        snprintf(name, sizeof name, "%" PRId64, layer);
        text_canvas_text(s, line ? "" : name, LAYER, false);
        for (int64_t h = from; h < end; h++) {
            put_line(s, cell + (h - from) * n * n, n, line, halves);
            if (h + 1 < end) view_put(&s->t, " ", 1);
        }
        text_canvas_line(s);
    }
    put_kind_row(s, layer, from, end, n + 1);
}

static void put_legend(struct text_canvas *s)
{
    struct view_text t = { 0 };
    int64_t n[VIEW_KINDS + 1] = { 0 };
    for (int64_t i = 0; i < s->v->shape.layers * s->v->shape.heads; i++) n[s->v->stats[i].kind]++;
    for (int k = 0; k < VIEW_KINDS; k++)
        if (n[k])
            view_say(&t, "%s%s %s %" PRId64, t.used ? ", " : "",
                     terminal_glyph(s, (enum view_kind)k), view_kind_table[k].name, n[k]);
    if (t.used) view_say(&t, ".");
    view_say(
        &t,
        "%sRows: queries, columns: keys; a point is the largest weight of its part of the matrix.",
        t.used ? " " : "");
    text_canvas_line(s);
    text_canvas_put_folded(s, &t, 0);
}

// Writes the heads with the shortest and the longest range, and the mean distance of each layer.
static void put_distances(struct text_canvas *s)
{
    const struct view_shape *p = &s->v->shape;
    const int64_t n = p->layers * p->heads;
    int64_t near = 0, far = 0;
    struct view_text t = { 0 };
    for (int64_t i = 0; i < n; i++) {
        if (s->v->stats[i].distance < s->v->stats[near].distance) near = i;
        if (s->v->stats[i].distance > s->v->stats[far].distance) far = i;
    }
    if (!(s->v->stats[far].distance > 0)) return; // cross-attention, or one token
    view_say(&t, "Mean distance of query and key, in tokens: ");
    for (int side = 0; side < 2; side++) {
        const int64_t at = side ? far : near;
        view_say(&t, "%s L%" PRId64 ".H%" PRId64 " ", side ? ", longest" : "shortest",
                 at / p->heads, at % p->heads);
        view_number(&t, (double)s->v->stats[at].distance, 1);
    }
    view_say(&t, "; layers");
    for (int64_t l = 0; l < p->layers; l++) {
        double sum = 0;
        for (int64_t h = 0; h < p->heads; h++) sum += (double)view_stats(s->v, l, h)->distance;
        view_say(&t, "%s", l ? ", " : " ");
        view_number(&t, sum / (double)p->heads, 1);
    }
    view_say(&t, ".");
    text_canvas_put_folded(s, &t, 0);
}

qkv_status terminal_model(struct text_canvas *s, qkv_error *err)
{
    const struct view_shape *p = &s->v->shape;
    const int capacity = s->columns - LAYER;
    const int64_t across = qkv_max64(1, qkv_min64(p->heads, capacity / (POINTS_LEAST + 1)));
    const int n = (int)qkv_max64(POINTS_LEAST, qkv_min64(POINTS_MOST, (capacity + 1) / across - 1));
    double *cell = qkv_alloc((size_t)(across * n * n), sizeof *cell);
    if (!cell) {
        s->t.failed = true;
        return QKV_OK;
    }
    terminal_header(s);
    text_canvas_sgr(s, "1");
    text_canvas_words(s, s->question);
    text_canvas_plain(s);
    // if not all heads fit side by side, they are drawn in several bands
    for (int64_t from = 0; from < p->heads; from += across) {
        const int64_t end = qkv_min64(p->heads, from + across);
        text_canvas_line(s);
        put_names(s, from, end, n + 1);
        for (int64_t l = 0; l < p->layers; l++) put_layer(s, cell, l, from, end, n);
    }
    put_legend(s);
    put_distances(s);
    qkv_free(cell);
    (void)err;
    return QKV_OK;
}
