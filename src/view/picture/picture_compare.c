// SPDX-License-Identifier: MIT
// picture_compare.c: draws one query of one head in two views side by side: the keys to which it
// attends in this view, and in the view that this one is compared with.
#include "view/picture/picture_internal.h"
#include "view/data/row_changes.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    PANEL = 420, // width of the panel of one view
    PANEL_PRINTED = 380,
    GUTTER = 28, // distance between the two panels
    ROW_TALL = 24,
    ROW_LEAST = 16,
    KEYS_TALL = 620, // height of a panel if it has many keys
    KEYS_MOST = 36,
    TEXT_SIZE = 15,
    CUT_WIDE = 16 // width of the sign of a cut, with the space next to it
};

// Positions in a panel: the right end of the query, the left end of the keys and of the bars.
struct places {
    double panel, query, link_from, link_to, key, bar, bar_long;
};
static const struct places free_places = { PANEL, 72, 82, 196, 206, 312, 70 },
                           printed_places = { PANEL_PRINTED, 72, 80, 166, 174, 276, 62 };

struct panel {
    struct picture *p;
    struct places at;
    const struct view_stack *v;
    int64_t row;          // the query whose weights are drawn
    const int64_t *other; // [S] for each key, the aligned key of the other view; -1: there is none
    float *w;             // [S] the weights of the row
    int64_t *key;         // [keys] the keys that are shown
    int64_t keys;
    // pitch: distance between lines; hidden: sum of the weights of the keys that are not shown
    double left, top, pitch, hidden;
};

// Returns a limit: at most KEYS_MOST keys have a weight above it, and only these are shown.
static float least_shown(const struct panel *g)
{
    float least = -1;
    for (;;) {
        float next = INFINITY;
        int64_t n = 0;
        for (int64_t j = 0; j < g->v->shape.keys; j++)
            if (view_key_shown(g->v, &g->p->st, j) && g->w[j] > least) {
                n++;
                next = fminf(next, g->w[j]);
            }
        if (n <= KEYS_MOST) return least;
        least = next;
    }
}

static bool find_keys(struct panel *g)
{
    const int64_t S = g->v->shape.keys;
    g->w = qkv_alloc((size_t)S, sizeof *g->w);
    g->key = qkv_alloc((size_t)S, sizeof *g->key);
    if (!g->w || !g->key) return false;
    view_row(g->w, g->v, g->p->st.layer, g->p->st.head[0], g->row);
    const float least = least_shown(g);
    for (int64_t j = 0; j < S; j++)
        if (view_key_shown(g->v, &g->p->st, j) && g->w[j] > least)
            g->key[g->keys++] = j;
        else if (g->w[j] > 0)
            g->hidden += (double)g->w[j];
    g->pitch = fmax(ROW_LEAST, fmin(ROW_TALL, KEYS_TALL / (double)qkv_max64(1, g->keys)));
    return true;
}

static void say_panel_text(struct view_text *t, const struct panel *g)
{
    const struct qkv_view_token *token = g->v->shape.key;
    int64_t end = 0;
    for (int64_t j = 0; j < g->v->shape.keys; j++) {
        if (token[j].special) continue;
        // a token that begins with a space is written without it
        const bool spaced = token[j].text && token[j].text_bytes > 1 && token[j].text[0] == ' ';
        if (t->used && (spaced || token[j].begin != end || token[j].begin == token[j].end))
            view_say(t, " ");
        end = token[j].end;
        view_token_text(t, &token[j], false);
    }
}

static bool fits_title(const struct panel *g, const char *text, size_t n, int cuts)
{
    return canvas_width(&g->p->canvas, text, n, 13, 0) <= g->at.panel - CUT_WIDE * cuts;
}

// Finds the part of text[n] that fits into a line: its end, because two texts usually differ there;
// if they differ before that, the words from the first difference to `other` on.
static void title_part(size_t *from, size_t *to, const struct panel *g, const char *text, size_t n,
                       const char *other)
{
    size_t word = 0, tail = 0;
    for (size_t i = 0; i < n && text[i] == other[i]; i++)
        if (text[i] == ' ') word = i + 1;
    *from = 0, *to = n;
    if (fits_title(g, text, n, 0)) return;
    while (tail < n && (!fits_title(g, text + tail, n - tail, 1) || qkv_utf8_continues(text[tail])))
        tail++;
    *from = tail <= word || !strcmp(text, other) ? tail : word;
    if (*from == tail) return;
    while (*to > *from && (!fits_title(g, text + *from, *to - *from, *from ? 2 : 1) ||
                           qkv_utf8_continues(text[*to])))
        --*to;
}

// Writes the title of the panel: the name of its model if the two models have different names,
// otherwise its text. `next`: the other panel.
static void draw_panel_title(struct panel *g, const struct panel *next, double y)
{
    struct canvas *s = &g->p->canvas;
    struct view_text t = { 0 }, other = { 0 };
    const char *first = g->p->v->shape.model, *model = g->v->shape.model;
    const char *second = g->p->view->against->shape.model;
    if (first && second && model && strcmp(first, second) != 0)
        view_say(&t, "%s", model);
    else
        say_panel_text(&t, g);
    say_panel_text(&other, next);
    view_put(&t, "", 1); // the terminating NUL
    view_put(&other, "", 1);
    s->failed |= t.failed || other.failed;
    canvas_line(s, g->left, y - 22, g->left + g->at.panel, y - 22, PALETTE_RULE, 1);
    if (!t.failed && !other.failed) {
        size_t from, to;
        const size_t n = (size_t)t.used - 1;
        title_part(&from, &to, g, t.at, n, other.at);
        const double x = g->left + (from ? CUT_WIDE - 2 : 0);
        if (from) canvas_format(s, g->left, y, 13, 0, PALETTE_TEXT2, "…");
        struct view_text part = { 0 };
        view_put(&part, t.at + from, to - from);
        if (to < n) view_say(&part, "…");
        s->failed |= part.failed;
        if (part.at) canvas_text(s, x, y, 13, 0, PALETTE_TEXT2, part.at, (size_t)part.used);
        view_text_free(&part);
    }
    view_text_free(&t);
    view_text_free(&other);
}

static void draw_panel(struct panel *g)
{
    struct canvas *s = &g->p->canvas;
    const double base = TEXT_SIZE * .35, high = g->pitch * (double)g->keys,
                 tau = picture_threshold(g->v, g->p->st.layer, g->row), y0 = g->top + high / 2;
    for (int64_t i = 0; i < g->keys; i++) {
        const double w = (double)g->w[g->key[i]], y = g->top + ((double)i + .5) * g->pitch;
        if (w > tau)
            canvas_link(s, g->left + g->at.link_from, y0, g->left + g->at.link_to, y,
                        picture_link_color(g->p, 0), (w - tau) / (1 - tau), false);
    }
    picture_name(s, g->v, g->row, false, g->left + g->at.query, y0 + base, TEXT_SIZE,
                 CANVAS_END | CANVAS_BOLD, PALETTE_TEXT,
                 g->at.query + fmin(16, g->p->margin - 4)); // it may begin in the margin
    for (int64_t i = 0; i < g->keys; i++) {
        const int64_t j = g->key[i];
        const double w = (double)g->w[j], y = g->top + ((double)i + .5) * g->pitch;
        // the other text has no token that is aligned with this one
        const bool own = g->other && g->other[j] < 0;
        if (own)
            canvas_box(s, g->left + g->at.key - 6, y - fmin(20, g->pitch) / 2,
                       g->at.bar - g->at.key - 4, fmin(20, g->pitch), PALETTE_MARK);
        picture_name(s, g->v, j, true, g->left + g->at.key, y + base, TEXT_SIZE,
                     own ? CANVAS_BOLD : 0, PALETTE_TEXT, g->at.bar - g->at.key - 14);
        if (!(w > 0)) continue;
        if (w >= .002)
            canvas_box(s, g->left + g->at.bar, y - 4, fmax(1, w * g->at.bar_long), 8,
                       picture_link_color(g->p, 0));
        picture_weight(s, g->left + g->at.bar + fmax(1, w * g->at.bar_long) + 6, y + 4, 12, 0,
                       w >= .05 ? PALETTE_TEXT : PALETTE_TEXT3, w, 2);
    }
    struct view_text t = { 0 };
    view_weight(&t, g->hidden, 2);
    if (t.at && g->keys < g->v->shape.keys)
        canvas_format(s, g->left + g->at.key, g->top + high + 16, 12, 0, PALETTE_TEXT3,
                      "keys that are not shown: %s", t.at);
    s->failed |= t.failed;
    view_text_free(&t);
}

// Inverts an alignment: to[j] becomes the key of view a that is aligned with key j of view b, or
// -1.
static void invert_alignment(int64_t *to, int64_t keys, const int64_t *align, int64_t n)
{
    for (int64_t j = 0; j < keys; j++) to[j] = -1;
    for (int64_t i = 0; i < n; i++)
        if (align[i] >= 0) to[align[i]] = i;
}

qkv_status picture_compare(struct picture *p, qkv_error *err)
{
    const qkv_view *view = p->view;
    if (!view->against)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "the picture 'compare' requires a second view (qkv_view_compare), found one");
    const struct view_stack *other = &view->against->stack[p->v - view->stack];
    const int64_t *rows = view->align[p->v->shape.row_text],
                  *keys = view->align[p->v->shape.key_text];
    const struct places at = p->wide > 0 ? printed_places : free_places;
    struct panel a = { .p = p, .at = at, .v = p->v, .row = p->st.token, .other = keys },
                 b = { .p = p, .at = at, .v = other, .row = rows[p->st.token] };
    struct view_text title = { 0 };
    qkv_status status = QKV_OK;
    if (b.row < 0) {
        view_quote_row(&title, a.v, a.row);
        status =
            qkv_fail(err, QKV_ERR_USAGE, NULL,
                     "token %s is not in the second text, expected a token that both texts have",
                     title.at ? title.at : "");
        view_text_free(&title);
        return status;
    }
    int64_t *back = qkv_alloc((size_t)other->shape.keys, sizeof *back);
    if (!back || !find_keys(&a) || !find_keys(&b)) {
        status = qkv_fail_memory(err, NULL);
    } else {
        invert_alignment(back, other->shape.keys, keys, p->v->shape.keys);
        b.other = back;
        view_compare_sentence(&title, view, p->v, &p->st);
        canvas_new(&p->canvas, 2 * p->margin + picture_wide(p, 2 * at.panel + GUTTER), p->question,
                   title.at ? title.at : "");
        p->canvas.failed |= title.failed;
        const double y = canvas_head(&p->canvas, p->margin) + 24;
        const double high = a.pitch * (double)a.keys,
                     below = p->column ? high + 66 : 0; // in a column one panel is below the other
        a.left = p->margin;
        b.left = p->column ? p->margin : p->margin + at.panel + GUTTER;
        a.top = y + 14;
        b.top = a.top + below;
        draw_panel_title(&a, &b, y);
        draw_panel_title(&b, &a, y + below);
        draw_panel(&a);
        draw_panel(&b);
        p->canvas.height = fmax(a.top + high, b.top + b.pitch * (double)b.keys) + 34;
    }
    view_text_free(&title);
    qkv_free(back);
    qkv_free(a.w);
    qkv_free(a.key);
    qkv_free(b.w);
    qkv_free(b.key);
    return status;
}
