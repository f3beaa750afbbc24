// SPDX-License-Identifier: MIT
// terminal_steps.c: shows the six steps of one query as lines of text: first the numbers of the
// query and its strongest key, then one line per key.
#include "view/terminal/terminal_score.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { VECTOR = 8 }; // columns of a number of a vector

// Returns the number of columns of numbers in the table of keys.
static int columns_of(const struct text_canvas *s)
{
    return !terminal_is_wide(s) ? 2 : s->columns >= 64 ? 4 : 3;
}

// ---- the six steps of one key -------------------------------------------------------------------
// Begins a line of a step: its number and name, or, without a name, spaces.
static void put_step(struct text_canvas *s, int n, const char *name)
{
    char text[24];
    snprintf(text, sizeof text, "%d %s", n, name);
    text_canvas_sgr(s, "1");
    text_canvas_text(s, text, s->columns < 10 ? s->columns : 10, false);
    text_canvas_plain(s);
}
// Writes the rest of the line of a step, and frees the text.
static void put_rest(struct text_canvas *s, struct view_text *t)
{
    text_canvas_put_folded(s, t, s->columns < 10 ? s->columns : 10);
}
// Writes a line with the first numbers of a vector: as many as fit.
static void put_vector(struct text_canvas *s, const char *name, const struct qkv_view_token *k,
                       const double *x, int64_t n)
{
    if (!terminal_is_wide(s)) return;
    struct view_text t = { 0 };
    view_say(&t, "  %s", name);
    if (k) view_say(&t, " of ");
    if (k == s->v->shape.token + s->st.token)
        view_quote_row(&t, s->v, s->st.token);
    else if (k)
        view_quote_key(&t, s->v, k - s->v->shape.key);
    text_canvas_put(s, &t, 22, false);
    const int64_t fit = (s->columns - 22 - 6) / VECTOR, shown = qkv_min64(n, fit);
    for (int64_t e = 0; e < shown; e++) terminal_number(s, x[e], 3, VECTOR);
    text_canvas_dim(s);
    if (shown < n) {
        char rest[32];
        snprintf(rest, sizeof rest, s->utf8 ? " …%" PRId64 : " ..%" PRId64, n);
        text_canvas_text(s, rest, 6, false);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_floats(struct text_canvas *s, const char *name, const struct qkv_view_token *k,
                       const float *x, int64_t n, double *buffer)
{
    for (int64_t e = 0; e < n; e++) buffer[e] = (double)x[e];
    put_vector(s, name, k, buffer, n);
}

// Writes step 1: the input row of the query, and its query; the key and the value of the key.
static void put_projections(struct text_canvas *s, const struct score *k, int64_t key, double *x)
{
    const struct qkv_view_token *from = &k->v->shape.token[k->row], *to = &k->v->shape.key[key];
    const float *rows = k->v->layer[k->layer].x;
    const int64_t D = k->v->shape.width;
    struct view_text t = { 0 };
    put_step(s, 1, "Project");
    view_say(&t, "q = x W_Q, k = x W_K, v = x W_V: layer %" PRId64 ", head %" PRId64, k->layer,
             k->head);
    if (D && (!k->F || k->F == k->E))
        view_say(&t, " has three matrices of %" PRId64 " × %" PRId64, D, k->E);
    put_rest(s, &t);
    if (rows && D) put_floats(s, "x", from, rows + k->row * D, D, x);
    put_floats(s, "q", from, k->q, k->E, x);
    if (rows && D && !view_across(k->v) && key != k->row)
        put_floats(s, "x", to, rows + key * D, D, x);
    for (int64_t e = 0; e < k->E; e++) x[e] = score_k(k, key, e);
    put_vector(s, "k", to, x, k->E);
    if (k->F) put_floats(s, "v", to, k->value + key * k->F, k->F, x);
}

static void put_scores(struct text_canvas *s, const struct score *k, int64_t key, double *x)
{
    const int64_t hidden = k->S - (k->span.to - k->span.from);
    struct view_text t = { 0 };
    put_step(s, 2, "Score");
    view_say(&t, "q · k = ");
    view_signed(&t, k->dot[key], 2);
    view_say(&t, ", the sum of the %" PRId64 " products", k->E);
    put_rest(s, &t);
    for (int64_t e = 0; e < k->E; e++) x[e] = (double)k->q[e] * score_k(k, key, e);
    put_vector(s, "q ∘ k", NULL, x, k->E);
    put_step(s, 3, "Scale");
    view_signed(&t, k->dot[key], 2);
    view_say(&t, " ÷ ");
    view_number(&t, k->own, 2);
    if (s->utf8 && fabs(k->own - sqrt((double)k->E)) < 1e-3 * k->own)
        view_say(&t, " (√%" PRId64 ")", k->E);
    view_say(&t, " = ");
    view_signed(&t, k->dot[key] / k->own, 2);
    if (k->softcap > 0) {
        view_say(&t, ", capped: ");
        view_signed(&t, score_at(k, key, k->own) - k->bias[key], 2);
    }
    if (k->biased) {
        view_say(&t, ", with its bias ");
        view_signed(&t, score_at(k, key, k->own), 2);
    }
    if (hidden)
        view_say(&t, "; %" PRId64 " of %" PRId64 " keys are masked", hidden, k->S);
    else
        view_say(&t, "; no key is masked");
    put_rest(s, &t);
}

static void put_softmax(struct text_canvas *s, const struct score *k, int64_t key)
{
    double sum;
    const double top = score_top(&sum, k);
    struct view_text t = { 0 };
    put_step(s, 4, "Softmax");
    if (score_masked(k, key)) {
        view_say(&t, "the key is masked: its weight is 0");
    } else {
        score_say_softmax(&t, k, key, top, sum);
        view_say(&t, ", where ");
        view_signed(&t, top, 2);
        view_say(&t, " is the largest score");
    }
    put_rest(s, &t);
}

// Writes steps 5 and 6: the value of the key times its weight, and the sum over all keys.
static void put_output(struct text_canvas *s, const struct score *k, int64_t key, double *x)
{
    struct view_text t = { 0 };
    put_step(s, 5, "Weigh");
    if (!k->F) {
        view_say(&t, "the view does not contain the values of this layer");
        put_rest(s, &t);
        return;
    }
    view_say(&t, "each value is multiplied with its weight");
    put_rest(s, &t);
    for (int64_t e = 0; e < k->F; e++) x[e] = k->w[key] * (double)k->value[key * k->F + e];
    put_vector(s, "w v", &k->v->shape.key[key], x, k->F);
    put_step(s, 6, "Sum");
    view_say(&t, "the output z is the sum of w v over all keys");
    put_rest(s, &t);
    for (int64_t e = 0; e < k->F; e++) {
        x[e] = 0;
        for (int64_t j = 0; j < k->S; j++) x[e] += k->w[j] * (double)k->value[j * k->F + e];
    }
    put_vector(s, "z", &k->v->shape.token[k->row], x, k->F);
}

// ---- all keys -----------------------------------------------------------------------------------
static void put_key(struct text_canvas *s, const struct score *k, const struct score_line *l,
                    int64_t chosen, double top)
{
    const int n = terminal_number_columns(s), before = (columns_of(s) - 1) * n;
    const int capacity =
        terminal_is_wide(s) ? s->columns - s->label - 1 - columns_of(s) * n - 2 : 0;
    if (l->key < 0) {
        struct view_text t = { 0 };
        view_count(&t, l->n);
        view_say(&t, l->masked ? " masked" : " others");
        text_canvas_dim(s);
        text_canvas_put(s, &t, s->label + 1 + before, true);
        if (!l->masked) terminal_share(s, l->w, n);
        text_canvas_plain(s);
        text_canvas_line(s);
        return;
    }
    if (l->key == chosen) text_canvas_sgr(s, "1");
    text_canvas_key(s, l->key, s->label, false);
    text_canvas_pad(s, 1);
    if (terminal_is_wide(s)) terminal_number(s, k->dot[l->key], 2, n);
    if (l->masked) {
        text_canvas_dim(s);
        text_canvas_text(s, "masked", n, true);
        text_canvas_plain(s);
        text_canvas_line(s);
        return;
    }
    const double score = score_at(k, l->key, k->own);
    terminal_number(s, score, 2, n);
    if (columns_of(s) == 4) terminal_share(s, exp(score - top), n);
    terminal_share(s, k->w[l->key], n);
    text_canvas_plain(s);
    if (capacity > 2) {
        text_canvas_pad(s, 2);
        text_canvas_color(s, l->key == chosen ? PALETTE_HEAD : PALETTE_POS);
        text_canvas_bar(s, k->w[l->key], capacity);
        text_canvas_plain(s);
    }
    text_canvas_line(s);
}

static void put_keys(struct text_canvas *s, const struct score *k, int64_t key)
{
    struct score_line line[SCORE_LINES];
    const int lines = score_lines(line, k, key), n = terminal_number_columns(s);
    double sum;
    const double top = score_top(&sum, k);
    text_canvas_dim(s);
    text_canvas_text(s, "key", s->label + 1, false);
    if (terminal_is_wide(s)) text_canvas_text(s, "2 q · k", n, true);
    terminal_root(s, k, s->utf8 ? "3 ÷ " : "3 / ", n, true);
    if (columns_of(s) == 4) text_canvas_text(s, "4 exp", n, true);
    text_canvas_text(s, terminal_is_wide(s) ? "4 weight" : "weight", n, true);
    text_canvas_plain(s);
    text_canvas_line(s);
    double all = 0;
    for (int64_t j = 0; j < k->S; j++) all += k->w[j];
    if (s->all) {
        for (int64_t j = 0; j < k->S; j++)
            put_key(s, k, &(struct score_line){ j, j, 1, k->w[j], score_masked(k, j) }, key, top);
    } else {
        for (int i = 0; i < lines; i++) put_key(s, k, &line[i], key, top);
    }
    text_canvas_dim(s);
    text_canvas_text(s, "sum", s->label + 1 + (terminal_is_wide(s) ? 2 * n : n), true);
    text_canvas_plain(s);
    if (columns_of(s) == 4) terminal_number(s, sum, 3, n);
    terminal_share(s, all, n);
    text_canvas_line(s);
}

static void put_scale(struct text_canvas *s, const struct score *k, int64_t key)
{
    static const char *const names[3] = { "weight", "effective keys", "softmax gradient" };
    const double by[3] = { 1, k->own, (double)k->E };
    double gradient[3], keys[3], weight[3], *w = qkv_alloc((size_t)k->S, sizeof *w);
    if (!w) {
        s->t.failed = true;
        return;
    }
    for (int i = 0; i < 3; i++) {
        keys[i] = score_softmax(w, k, by[i], &gradient[i]);
        weight[i] = w[key];
    }
    qkv_free(w);
    const int n = terminal_is_wide(s) ? terminal_number_columns(s) : s->columns / 5;
    const int name = s->columns - 3 * n < 26 ? s->columns - 3 * n : 26;
    text_canvas_line(s);
    text_canvas_dim(s);
    text_canvas_text(s, "What the scale is for", name, false);
    terminal_number(s, by[0], 0, n);
    terminal_root(s, k, "", n, true);
    terminal_number(s, by[2], 0, n);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int r = 0; r < 3; r++) {
        text_canvas_text(s, names[r], name, false);
        for (int i = 0; i < 3; i++)
            if (r == 1)
                terminal_number(s, keys[i], 1, n);
            else
                terminal_share(s, r ? gradient[i] : weight[i], n);
        text_canvas_line(s);
    }
}

qkv_status terminal_steps(struct text_canvas *s, qkv_error *err)
{
    struct score k;
    int64_t key;
    const qkv_status status = terminal_pair(s, &k, &key, "How does ", err);
    if (status) return status;
    const int64_t most = qkv_max64(qkv_max64(k.E, k.F), k.v->shape.width);
    double *x = qkv_alloc((size_t)most + 1, sizeof *x);
    if (x) {
        put_projections(s, &k, key, x);
        put_scores(s, &k, key, x);
        put_softmax(s, &k, key);
        put_output(s, &k, key, x);
        text_canvas_line(s);
        put_keys(s, &k, key);
        put_scale(s, &k, key);
    } else {
        s->t.failed = true;
    }
    qkv_free(x);
    score_free(&k);
    return QKV_OK;
}
