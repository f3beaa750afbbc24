// SPDX-License-Identifier: MIT
// terminal_head_overview.c: draws a table of all heads, layers x heads, as lines of text: the kind
// and the focus (effective keys of a row) of each head, and its ablation effect.
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool terminal_is_selected(const struct text_canvas *s, int64_t head)
{
    for (int64_t i = 0; i < s->st.selected; i++)
        if (s->st.head[i] == head) return true;
    return false;
}

static int legend_list(const struct text_canvas *s, enum view_kind *out)
{
    int n = 0;
    for (int k = 0; k < VIEW_KINDS; k++) {
        bool any = false;
        for (int64_t i = 0; i < s->v->shape.layers * s->v->shape.heads; i++)
            any |= s->v->stats[i].kind == (enum view_kind)k;
        if (any) out[n++] = (enum view_kind)k;
    }
    return n;
}

// Returns the number of lines of the legend. A line has two kinds of head if they fit.
static int legend_lines(const struct text_canvas *s, int n)
{
    return !n ? 1 : s->columns >= 28 ? (n + 1) / 2 : n;
}
static void draw_legend(struct text_canvas *s, const enum view_kind *listed, int n, int i)
{
    const int rows = legend_lines(s, n);
    if (!n && !i) {
        text_canvas_text(s, "kinds need 8 tokens", (int)qkv_min64(22, s->columns), false);
    } else if (i < rows) {
        for (int k = i; k < n; k += rows) {
            text_canvas_plain(s);
            text_canvas_color(s, palette_kind((int)listed[k]));
            view_say(&s->t, "%s ", terminal_glyph(s, listed[k]));
            text_canvas_dim(s);
            text_canvas_text(s, view_kind_table[listed[k]].name, 12, false);
        }
    } else if (i == rows + 1 && s->color) {
        view_say(&s->t, s->dark ? "brighter = more focused" : "darker = more focused");
    }
}

void terminal_head_overview(struct text_canvas *s)
{
    const struct view_shape *p = &s->v->shape;
    enum view_kind listed[VIEW_KINDS];
    const int n = legend_list(s, listed);
    const int wide = 10 + (int)qkv_min64(p->heads, 1000) * 3 <= s->columns ? 3 : 2;
    int64_t fit = p->heads;
    // leave space for " +999", the number of heads that do not fit
    if (10 + fit * wide > s->columns) fit = (s->columns - 10 - 5) / wide;
    const bool right_of_grid = 10 + fit * wide + 4 + 26 <= s->columns;
    text_canvas_dim(s);
    text_canvas_text(s, "   layer ", 10, false);
    for (int64_t h = 0; h < fit; h++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, h);
        if (terminal_is_selected(s, h)) text_canvas_plain(s), text_canvas_sgr(s, "1");
        text_canvas_text(s, wide > 2 || h < 10 ? number : h % 2 ? "" : number, wide, true);
        text_canvas_plain(s);
        text_canvas_dim(s);
    }
    text_canvas_plain(s);
    if (fit < p->heads) view_say(&s->t, " +%" PRId64, p->heads - fit);
    text_canvas_line(s);
    for (int64_t l = 0; l < p->layers; l++) {
        const bool here = l == s->st.layer;
        text_canvas_sgr(s, here ? "1" : "2");
        view_say(&s->t, here ? " >%6" PRId64 "  " : "%8" PRId64 "  ", l);
        text_canvas_plain(s);
        for (int64_t h = 0; h < fit; h++) {
            const struct view_stats *x = view_stats(s->v, l, h);
            const bool selected = here && terminal_is_selected(s, h);
            view_say(&s->t, wide > 2 ? selected && !s->color ? "[" : " " : "");
            text_canvas_ground(s, .7 * x->focus);
            if (selected) text_canvas_sgr(s, "1;4");
            view_say(&s->t, "%s", terminal_glyph(s, x->kind));
            if (selected && !s->color)
                view_say(&s->t, "]");
            else
                view_say(&s->t, " ");
            text_canvas_plain(s);
        }
        if (right_of_grid && l < legend_lines(s, n) + 2) {
            text_canvas_pad(s, 4);
            text_canvas_dim(s);
            draw_legend(s, listed, n, (int)l);
            text_canvas_plain(s);
        }
        text_canvas_line(s);
    }
    for (int i = right_of_grid ? (int)p->layers : 0; i < legend_lines(s, n); i++) {
        text_canvas_dim(s);
        text_canvas_pad(s, right_of_grid ? 14 + (int)fit * wide : 0);
        draw_legend(s, listed, n, i);
        text_canvas_plain(s);
        text_canvas_line(s);
    }
    text_canvas_line(s);
}

enum { EFFECT = 5 }; // columns of a number
// Draws a table of the ablation effects of all heads. The three largest are highlighted.
void terminal_effects(struct text_canvas *s)
{
    const struct view_shape *p = &s->v->shape;
    const float *e = s->v->effects.value;
    float third[3] = { 0, 0, 0 };
    if (!e) return;
    for (int64_t i = 0; i < p->layers * p->heads; i++)
        for (int k = 0; k < 3; k++)
            if (e[i] > third[k]) {
                memmove(third + k + 1, third + k, (size_t)(2 - k) * sizeof *third);
                third[k] = e[i];
                break;
            }
    const int64_t fit =
        10 + p->heads * EFFECT <= s->columns ? p->heads : qkv_max64(1, (s->columns - 15) / EFFECT);
    struct view_text title = { 0 };
    view_say(&title, "ablation effect of each head, thousandths");
    if (s->v->effects.unit) view_say(&title, " (%s)", s->v->effects.unit);
    s->t.failed |= title.failed;
    text_canvas_dim(s);
    if (title.at) text_canvas_words(s, title.at);
    text_canvas_plain(s);
    view_text_free(&title);
    text_canvas_dim(s);
    text_canvas_text(s, "   layer ", 10, false);
    for (int64_t h = 0; h < fit; h++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, h);
        text_canvas_text(s, number, EFFECT, true);
    }
    text_canvas_plain(s);
    if (fit < p->heads) view_say(&s->t, " +%" PRId64, p->heads - fit);
    text_canvas_line(s);
    for (int64_t l = 0; l < p->layers; l++) {
        text_canvas_dim(s);
        view_say(&s->t, "%8" PRId64 "  ", l);
        text_canvas_plain(s);
        for (int64_t h = 0; h < fit; h++) {
            struct view_text t = { 0 };
            const float x = e[l * p->heads + h];
            view_number(&t, 1000 * (double)x, fabsf(x) < .01f ? 1 : 0);
            if (x >= third[2] && x > 0) text_canvas_color(s, PALETTE_HOT);
            text_canvas_put(s, &t, EFFECT, true);
            text_canvas_plain(s);
        }
        text_canvas_line(s);
    }
    text_canvas_line(s);
}
