// SPDX-License-Identifier: MIT
// terminal_compare.c: draws the view "compare" as lines of text: one query of one head in this view
// (A) and in the view that it is compared with (B), with the change of each weight.
#include "view/data/row_changes.h"
#include "view/terminal/terminal_views.h"
#include <math.h>
#include <string.h>

enum { NUMBER = 9, MOST = 18 };

static void put_weight(struct text_canvas *s, double w)
{
    struct view_text t = { 0 };
    view_weight(&t, w, 2);
    s->t.failed |= t.failed;
    if (t.at) text_canvas_text(s, t.at, NUMBER, true);
    view_text_free(&t);
}

// Writes the change of a weight with its sign, and without the 0 before the point.
static void put_change(struct text_canvas *s, double x)
{
    struct view_text t = { 0 };
    const bool none = fabs(x) < .005;
    view_say(&t, none ? "" : x < 0 ? (s->utf8 ? "−" : "-") : "+");
    view_weight(&t, none ? 0 : fabs(x), 2);
    s->t.failed |= t.failed;
    if (t.at) text_canvas_text(s, t.at, NUMBER, true);
    view_text_free(&t);
}

static void put_table(struct text_canvas *s, const struct view_key_change *change, int64_t count)
{
    const int64_t most = s->all ? count : qkv_min64(count, MOST);
    double a = 0, b = 0;
    text_canvas_line(s);
    text_canvas_dim(s);
    text_canvas_text(s, "key", s->label, false);
    text_canvas_text(s, "A", NUMBER, true);
    text_canvas_text(s, "B", NUMBER, true);
    text_canvas_text(s, "change", NUMBER, true);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int64_t i = 0; i < most; i++) {
        text_canvas_key(s, change[i].key, s->label, false);
        put_weight(s, (double)change[i].a);
        put_weight(s, (double)change[i].b);
        put_change(s, (double)change[i].b - (double)change[i].a);
        text_canvas_line(s);
        a += (double)change[i].a;
        b += (double)change[i].b;
    }
    if (1 - a < 5e-3 && 1 - b < 5e-3) return;
    text_canvas_dim(s); // special tokens, tokens of one text only, and keys past the list
    text_canvas_text(s, "the rest", s->label, false);
    put_weight(s, fmax(0, 1 - a));
    put_weight(s, fmax(0, 1 - b));
    put_change(s, a - b);
    text_canvas_plain(s);
    text_canvas_line(s);
}

qkv_status terminal_compare(struct text_canvas *s, qkv_error *err)
{
    struct view_text sentence = { 0 };
    int64_t count = 0;
    if (!s->view->against) return terminal_heads(s, err); // there is nothing to compare with
    struct view_key_change *change = qkv_alloc((size_t)s->v->shape.keys, sizeof *change);
    if (!change || !view_row_changes(change, &count, s->view, s->v, &s->st)) {
        s->t.failed = true;
        qkv_free(change);
        return QKV_OK;
    }
    terminal_header(s);
    text_canvas_sgr(s, "1");
    text_canvas_words(s, s->question);
    text_canvas_plain(s);
    view_changes_sentence(&sentence, s->view, s->v, &s->st, change, count);
    text_canvas_put_folded(s, &sentence, 0);
    if (count > 0) put_table(s, change, count);
    qkv_free(change);
    return QKV_OK;
}
