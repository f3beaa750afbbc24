// SPDX-License-Identifier: MIT
// terminal_residual.c: draws the residual stream as lines of text. First, a line per layer has the
// norm of the stream and the change by each sublayer. Then, a line per token has a cell for each
// sublayer.
#include "view/data/residual.h"
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { LAYER = 6, NUMBER = 8, COSINE = 7, BAR_LEAST = 6, MOST_ROWS = 40 };

struct residual {
    struct text_canvas *s;
    int sublayers, sublayer[VIEW_SUBLAYERS]; // indices of the sublayers that occur in some layer
    const int64_t *rows;                     // the tokens whose mean the lines per layer show
    int64_t row_count;
};

static void put_number(struct text_canvas *s, double x, bool sign, int columns)
{
    struct view_text t = { 0 };
    if (sign)
        view_signed(&t, x, 2);
    else
        view_number(&t, x, 2);
    text_canvas_put(s, &t, columns, true);
}

// ---- one line per layer ------------------------------------------------------------------------
static int number_columns(const struct residual *g)
{
    const int fits = (g->s->columns - LAYER) / (1 + g->sublayers);
    return fits < NUMBER ? fits : NUMBER;
}

static int cosine_columns(const struct residual *g)
{
    return LAYER + NUMBER + g->sublayers * (NUMBER + COSINE) <= g->s->columns ? COSINE : 0;
}

static void put_heads(struct residual *g)
{
    static const char *const brief[VIEW_SUBLAYERS] = { "attn", "cross", "ffn" };
    struct text_canvas *s = g->s;
    const int cosine = cosine_columns(g);
    text_canvas_dim(s);
    text_canvas_text(s, "layer", LAYER, false);
    for (int c = 0; c < g->sublayers; c++) {
        text_canvas_text(s, brief[g->sublayer[c]], number_columns(g), true);
        if (cosine) text_canvas_text(s, "cos", cosine, true);
    }
    text_canvas_text(s, "size", number_columns(g), true);
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_size(struct residual *g, double size, double most)
{
    struct text_canvas *s = g->s;
    const int bar = s->columns - LAYER - NUMBER - g->sublayers * (NUMBER + cosine_columns(g)) - 2;
    put_number(s, size, false, number_columns(g));
    if (bar >= BAR_LEAST && most > 0) {
        text_canvas_pad(s, 2);
        text_canvas_bar(s, size / most, bar);
    }
    text_canvas_line(s);
}

static void put_layer(struct residual *g, int64_t layer, double most)
{
    struct text_canvas *s = g->s;
    const struct view_residual r = view_residual_layer(s->v, layer);
    const int cosine = cosine_columns(g);
    char name[24];
    double size = NAN;
    snprintf(name, sizeof name, "%" PRId64, layer);
    text_canvas_text(s, name, LAYER, false);
    for (int c = 0; c < g->sublayers; c++) {
        if (!r.sublayer[g->sublayer[c]]) {
            text_canvas_pad(s, number_columns(g) + cosine);
            continue;
        }
        const struct view_added a = view_residual_mean(&r, g->sublayer[c], g->rows, g->row_count);
        put_number(s, a.added, false, number_columns(g));
        text_canvas_dim(s);
        if (cosine) put_number(s, a.cosine, true, cosine);
        text_canvas_plain(s);
        size = a.after;
    }
    put_size(g, size, most);
}

// Writes the norm of the stream before layer 0, then one line per layer.
static void put_layers(struct residual *g)
{
    struct text_canvas *s = g->s;
    double most = 0, first = NAN;
    for (int64_t l = 0; l < s->v->shape.layers; l++) {
        const struct view_residual r = view_residual_layer(s->v, l);
        for (int k = 0; k < VIEW_SUBLAYERS; k++) {
            if (!r.sublayer[k]) continue;
            const struct view_added a = view_residual_mean(&r, k, g->rows, g->row_count);
            if (first != first) first = a.before;
            most = fmax(most, fmax(a.before, a.after));
        }
    }
    put_heads(g);
    text_canvas_pad(s, LAYER + g->sublayers * (number_columns(g) + cosine_columns(g)));
    put_size(g, first, most);
    for (int64_t l = 0; l < s->v->shape.layers; l++) put_layer(g, l, most);
}

// ---- one line per token ------------------------------------------------------------------------
static void put_cell(struct text_canvas *s, double share)
{
    const double x = view_residual_tone(share);
    if (s->color) {
        text_canvas_signed(s, x);
        view_say(&s->t, " ");
        text_canvas_plain(s);
    } else {
        view_say(&s->t, "%s", text_canvas_block(s, fabs(x)));
    }
}

static void put_token(struct residual *g, int64_t token, int64_t from, int64_t end)
{
    struct text_canvas *s = g->s;
    text_canvas_token(s, token, s->label, false);
    for (int64_t l = from; l < end; l++) {
        const struct view_residual r = view_residual_layer(s->v, l);
        view_say(&s->t, " ");
        for (int c = 0; c < g->sublayers; c++) {
            struct view_added a = { 0 };
            if (r.sublayer[g->sublayer[c]]) a = view_residual_token(&r, g->sublayer[c], token);
            const double share = view_residual_share(&a);
            put_cell(s, share == share ? share : 0);
        }
    }
    text_canvas_line(s);
}

static void put_band(struct residual *g, int64_t from, int64_t end, int64_t first, int64_t last)
{
    struct text_canvas *s = g->s;
    text_canvas_line(s);
    text_canvas_dim(s);
    text_canvas_text(s, "layer", s->label, false);
    for (int64_t l = from; l < end; l++) {
        char name[24];
        snprintf(name, sizeof name, " %" PRId64, l);
        text_canvas_text(s, name, g->sublayers + 1, false);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int64_t i = first; i < last; i++) put_token(g, s->shown[i], from, end);
}

// Writes a line for every shown token, or for as many as fit around the marked token. Layers that
// do not fit into the width follow in further blocks.
static void put_tokens(struct residual *g)
{
    struct text_canvas *s = g->s;
    const int64_t across = qkv_max64(1, (s->columns - s->label) / (g->sublayers + 1));
    int64_t first = 0, last = s->shown_count;
    if (!s->all && last > MOST_ROWS) {
        while (s->shown[first] < s->st.token && first + MOST_ROWS < last &&
               s->shown[first + MOST_ROWS / 2] < s->st.token)
            first++;
        last = first + MOST_ROWS;
    }
    for (int64_t from = 0; from < s->v->shape.layers; from += across)
        put_band(g, from, qkv_min64(s->v->shape.layers, from + across), first, last);
    if (last - first < s->shown_count) {
        char note[96];
        snprintf(note, sizeof note,
                 "%" PRId64 " of %" PRId64 " tokens are shown; --all shows all of them.",
                 last - first, s->shown_count);
        text_canvas_words(s, note);
    }
}

static void put_words(struct residual *g, const char *words)
{
    text_canvas_line(g->s);
    text_canvas_words(g->s, words);
}

qkv_status terminal_residual(struct text_canvas *s, qkv_error *err)
{
    struct residual g = { .s = s };
    struct view_text sentence = { 0 };
    const qkv_status status = view_residual_check(s->v, err);
    if (status) return status;
    g.rows = s->asked ? &s->st.token : s->shown;
    g.row_count = s->asked ? 1 : s->shown_count;
    g.sublayers = view_residual_sublayers(s->v, g.sublayer);
    terminal_header(s);
    text_canvas_sgr(s, "1");
    text_canvas_words(s, s->question);
    text_canvas_plain(s);
    view_residual_sentence(&sentence, s->v, g.rows, g.row_count);
    text_canvas_put_folded(s, &sentence, 0);
    text_canvas_line(s);
    put_layers(&g);
    put_tokens(&g);
    put_words(
        &g,
        "A cell is the norm of the change by a sublayer, divided by the norm of the stream before "
        "it. In a post-norm model the change includes the layer norm.");
    return QKV_OK;
}
