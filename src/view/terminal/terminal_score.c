// SPDX-License-Identifier: MIT
// terminal_score.c: writes the parts that the views of one query, "neuron" and "steps", share: widths
// of columns, cells, the question.
#include "view/terminal/terminal_score.h"

enum { WIDE = 48 };

bool terminal_is_wide(const struct text_canvas *s)
{
    return s->columns >= WIDE;
}
int terminal_number_columns(const struct text_canvas *s)
{
    return terminal_is_wide(s) ? 9 : s->columns >= 30 ? 8 : 5;
}

void terminal_number(struct text_canvas *s, double x, int digits, int columns)
{
    struct view_text t = { 0 };
    view_signed(&t, x, digits);
    text_canvas_put(s, &t, columns, true);
}
void terminal_share(struct text_canvas *s, double w, int columns)
{
    struct view_text t = { 0 };
    view_weight(&t, w, 3);
    text_canvas_put(s, &t, columns, true);
}
void terminal_root(struct text_canvas *s, const struct score *k, const char *before, int columns,
                   bool right)
{
    struct view_text t = { 0 };
    view_say(&t, "%s", before);
    if (s->utf8)
        score_root(&t, k);
    else
        view_number(&t, k->own, 2);
    text_canvas_put(s, &t, columns, right);
}
qkv_status terminal_pair(struct text_canvas *s, struct score *k, int64_t *key, const char *before,
                         qkv_error *err)
{
    struct view_text t = { 0 };
    int64_t head;
    *key = view_pair_shown(&head, s->v, &s->st, -1, s->row);
    const qkv_status status = score_of(k, s->v, s->st.layer, head, s->st.token, err);
    if (status) return status;
    terminal_header(s);
    score_say_question(&t, k, *key, before);
    text_canvas_sgr(s, "1");
    text_canvas_put_folded(s, &t, 0);
    text_canvas_plain(s);
    return QKV_OK;
}
