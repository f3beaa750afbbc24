// SPDX-License-Identifier: MIT
// terminal_atlas.c: layers x heads as lines of text: kinds and focus, and what removing each
// changes.
#include "view/terminal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

bool terminal_is_lit(const struct screen *s, int64_t head)
{
    for (int64_t i = 0; i < s->st.lit; i++)
        if (s->st.head[i] == head) return true;
    return false;
}

static int legend_kinds(const struct screen *s, enum view_kind *out)
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

// Lines of the legend: two kinds in each where there is room.
static int legend_lines(const struct screen *s, int n)
{
    return !n ? 1 : s->columns >= 28 ? (n + 1) / 2 : n;
}
static void draw_legend(struct screen *s, const enum view_kind *kinds, int n, int i)
{
    const int rows = legend_lines(s, n);
    if (!n && !i) {
        screen_text(s, "kinds: from 8 words on", (int)qkv_min64(22, s->columns), false);
    } else if (i < rows) {
        for (int k = i; k < n; k += rows) {
            view_say(&s->t, "%s ", terminal_glyph(s, kinds[k]));
            screen_text(s, view_kinds[kinds[k]].name, 12, false);
        }
    } else if (i == rows + 1 && s->color) {
        view_say(&s->t, s->dark ? "brighter = more focused" : "darker = more focused");
    }
}

void terminal_atlas(struct screen *s)
{
    const struct view_shape *p = &s->v->shape;
    enum view_kind kinds[VIEW_KINDS];
    const int n = legend_kinds(s, kinds);
    const int wide = 10 + (int)qkv_min64(p->heads, 1000) * 3 <= s->columns ? 3 : 2;
    int64_t fit = p->heads;
    if (10 + fit * wide > s->columns)
        fit = (s->columns - 10 - 5) / wide; // " +999": what is left out
    const bool beside = 10 + fit * wide + 4 + 26 <= s->columns;
    screen_quiet(s);
    screen_text(s, "   layer ", 10, false);
    for (int64_t h = 0; h < fit; h++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, h);
        if (terminal_is_lit(s, h)) screen_plain(s), screen_sgr(s, "1");
        screen_text(s, wide > 2 || h < 10 ? number : h % 2 ? "" : number, wide, true);
        screen_plain(s);
        screen_quiet(s);
    }
    screen_plain(s);
    if (fit < p->heads) view_say(&s->t, " +%" PRId64, p->heads - fit);
    screen_line(s);
    for (int64_t l = 0; l < p->layers; l++) {
        const bool here = l == s->st.layer;
        screen_sgr(s, here ? "1" : "2");
        view_say(&s->t, here ? " >%6" PRId64 "  " : "%8" PRId64 "  ", l);
        screen_plain(s);
        for (int64_t h = 0; h < fit; h++) {
            const struct view_stats *x = view_stats(s->v, l, h);
            const bool lit = here && terminal_is_lit(s, h);
            view_say(&s->t, wide > 2 ? lit && !s->color ? "[" : " " : "");
            screen_ground(s, .7 * x->focus);
            if (lit) screen_sgr(s, "1;4");
            view_say(&s->t, "%s", terminal_glyph(s, x->kind));
            if (lit && !s->color)
                view_say(&s->t, "]");
            else
                view_say(&s->t, " ");
            screen_plain(s);
        }
        if (beside && l < legend_lines(s, n) + 2) {
            screen_pad(s, 4);
            screen_quiet(s);
            draw_legend(s, kinds, n, (int)l);
            screen_plain(s);
        }
        screen_line(s);
    }
    for (int i = beside ? (int)p->layers : 0; i < legend_lines(s, n); i++) {
        screen_quiet(s);
        screen_pad(s, beside ? 14 + (int)fit * wide : 0);
        draw_legend(s, kinds, n, i);
        screen_plain(s);
        screen_line(s);
    }
    screen_line(s);
}

enum { EFFECT = 5 }; // columns of a number
// What removing each head changes; the three that matter most stand out.
void terminal_effects(struct screen *s)
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
    view_say(&title, "effect of removing a head, thousandths");
    if (s->v->effects.unit) view_say(&title, " (%s)", s->v->effects.unit);
    s->t.failed |= title.failed;
    screen_quiet(s);
    if (title.at) screen_words(s, title.at);
    screen_plain(s);
    view_text_free(&title);
    screen_quiet(s);
    screen_text(s, "   layer ", 10, false);
    for (int64_t h = 0; h < fit; h++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, h);
        screen_text(s, number, EFFECT, true);
    }
    screen_plain(s);
    if (fit < p->heads) view_say(&s->t, " +%" PRId64, p->heads - fit);
    screen_line(s);
    for (int64_t l = 0; l < p->layers; l++) {
        screen_quiet(s);
        view_say(&s->t, "%8" PRId64 "  ", l);
        screen_plain(s);
        for (int64_t h = 0; h < fit; h++) {
            struct view_text t = { 0 };
            const float x = e[l * p->heads + h];
            view_number(&t, 1000 * (double)x, fabsf(x) < .01f ? 1 : 0);
            s->t.failed |= t.failed;
            if (x >= third[2] && x > 0) screen_ink(s, SHEET_HOT);
            if (t.at) screen_cell(s, t.at, (size_t)t.used, EFFECT, true);
            screen_plain(s);
            view_text_free(&t);
        }
        screen_line(s);
    }
    screen_line(s);
}
