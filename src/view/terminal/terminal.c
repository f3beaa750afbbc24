// SPDX-License-Identifier: MIT
// terminal.c: draws a view as lines of text: chooses the view and the tokens that are shown, and
// writes the header.
#include "view/data/head_stats.h"
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <string.h>

enum { LABEL_MOST = 12, COLUMNS_LEAST = 20 };

const char *terminal_glyph(const struct text_canvas *s, enum view_kind kind)
{
    if (kind >= VIEW_KINDS) return " ";
    return s->utf8 ? view_kind_table[kind].glyph : view_kind_table[kind].ascii;
}

void terminal_header(struct text_canvas *s)
{
    const struct view_shape *p = &s->v->shape;
    struct view_text t = { 0 };
    const char *times = s->utf8 ? "×" : "x";
    if (p->model) view_plain_text(&t, p->model, strlen(p->model), 200);
    if (strcmp(p->name, "attention") != 0) view_say(&t, "  %s", p->name);
    view_say(&t, "  %" PRId64 " layer%s %s %" PRId64 " head%s", p->layers,
             p->layers == 1 ? "" : "s", times, p->heads, p->heads == 1 ? "" : "s");
    if (p->head_width) view_say(&t, " %s %" PRId64, times, p->head_width);
    view_say(&t, "  %" PRId64 " token%s", s->shown_count, s->shown_count == 1 ? "" : "s");
    if (view_across(s->v))
        view_say(&t, " that %s to %" PRId64, s->shown_count == 1 ? "attends" : "attend",
                 s->key_count);
    if (s->shown_count < p->tokens)
        view_say(&t, ", %" PRId64 " special hidden", p->tokens - s->shown_count);
    if (p->key_padding) view_say(&t, ", %" PRId64 " padding", p->key_padding);
    text_canvas_sgr(s, "1");
    view_say(&s->t, "qkv  ");
    text_canvas_plain(s);
    text_canvas_dim(s);
    text_canvas_put_folded(s, &t, 5);
    text_canvas_plain(s);
    text_canvas_line(s);
}

// The views of view.def that are drawn in their own way in the terminal. For all other views, the
// view "heads" is drawn.
#define TERMINAL_OWN(name, question) { #name, question, terminal_##name },
#define TERMINAL_HEADS(name, question)
#define QKV_VIEW(name, key, picture, terminal, needs, question) TERMINAL_##terminal(name, question)
static const struct {
    const char *name, *question;
    terminal_draw *draw;
} views[] = {
#include <qkv/view.def>
};
#undef QKV_VIEW

static qkv_status draw_view(struct text_canvas *s, const char *view, qkv_error *err)
{
    int row = 0;
    for (int i = 1; view && i < (int)(sizeof views / sizeof *views); i++)
        if (!strcmp(view, views[i].name)) row = i;
    s->question = views[row].question;
    return views[row].draw(s, err);
}

// Makes the column of token names as wide as the widest name.
static void measure_label(struct text_canvas *s, int64_t index, bool key)
{
    struct view_text t = { 0 };
    (key ? view_name_key : view_name_row)(&t, s->v, index);
    const int w = t.at ? text_canvas_width(s, t.at, (size_t)t.used) : 0;
    s->t.failed |= t.failed;
    if (w > s->label) s->label = w;
    view_text_free(&t);
}

// Writes how many rows contain NaN, and how many do not sum to 1.
static void put_invalid_rows(struct text_canvas *s)
{
    int64_t not_numbers = 0, not_one = 0;
    view_count_invalid_rows(s->v, &not_numbers, &not_one);
    if (not_numbers)
        view_say(&s->t, "\n%lld row%s NaN or Inf in the weights\n", (long long)not_numbers,
                 not_numbers == 1 ? " contains" : "s contain");
    if (not_one)
        view_say(&s->t, "\n%lld row%s not sum to 1: drawn as %s\n", (long long)not_one,
                 not_one == 1 ? " does" : "s do", not_one == 1 ? "it is" : "they are");
}

qkv_status qkv_view_terminal(const qkv_view *v, char **out, const struct qkv_view_options *o,
                             qkv_error *err)
{
    if (out) *out = NULL;
    if (!v || !out)
        return qkv_fail(
            err, QKV_ERR_USAGE, NULL,
            "qkv_view_terminal: expected a view and a pointer for the text, found NULL");
    static const struct qkv_view_options none;
    *out = NULL;
    if (!o) o = &none;
    const struct view_stack *k = NULL;
    qkv_status status = view_select_stack(&k, v, o, err);
    if (status) return status;
    struct text_canvas s = { .view = v,
                             .v = k,
                             .color = o->color,
                             .truecolor = o->truecolor,
                             .utf8 = o->utf8,
                             .dark = o->theme != QKV_THEME_LIGHT,
                             .all = o->all,
                             .columns = o->columns ? o->columns : 80 };
    if (s.columns < COLUMNS_LEAST) s.columns = COLUMNS_LEAST;
    status = view_select(&s.st, k, o, true, err);
    if (status) return status;
    s.asked = s.st.told;
    s.row = qkv_alloc((size_t)k->shape.keys, sizeof *s.row);
    s.shown = qkv_alloc((size_t)k->shape.tokens, sizeof *s.shown);
    s.keys = qkv_alloc((size_t)k->shape.keys, sizeof *s.keys);
    if (!s.row || !s.shown || !s.keys) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int64_t i = 0; i < k->shape.tokens; i++) {
        if (!view_shown(k, &s.st, i)) continue;
        s.shown[s.shown_count++] = i;
        measure_label(&s, i, false);
    }
    for (int64_t j = 0; j < k->shape.keys; j++) {
        if (!view_key_shown(k, &s.st, j)) continue;
        s.keys[s.key_count++] = j;
        if (view_across(k)) measure_label(&s, j, true);
    }
    if (s.label > LABEL_MOST) s.label = LABEL_MOST;
    if (s.label < 8) s.label = 8; // the width of "the rest"
    if (s.label > s.columns / 2 - 2) s.label = s.columns / 2 - 2;
    status = draw_view(&s, o->view, err);
    if (!status) put_invalid_rows(&s);
    if (!status && (s.t.failed || !s.t.at)) status = qkv_fail_memory(err, NULL);
    if (status) goto done;
    *out = s.t.at;
    s.t = (struct view_text){ 0 };
done:
    view_text_free(&s.t);
    qkv_free(s.row);
    qkv_free(s.shown);
    qkv_free(s.keys);
    return status;
}

void qkv_view_text_free(char *text)
{
    qkv_free(text);
}
