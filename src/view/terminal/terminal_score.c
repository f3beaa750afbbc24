// SPDX-License-Identifier: MIT
// terminal_score.c: shows the scores of one query as lines of text: the view "neuron" has one line
// per dimension, the view "steps" one line per key.
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDE = 48, TOLD = 12 };

// Returns true if the terminal is wide enough for all columns of a table. If it is not, the callers
// write fewer and narrower columns.
static bool is_wide(const struct text_canvas *s)
{
    return s->columns >= WIDE;
}
static int number_columns(const struct text_canvas *s)
{
    return is_wide(s) ? 9 : s->columns >= 30 ? 8 : 5;
}
static int name_columns(const struct text_canvas *s) // width of the name of a row of numbers
{
    return is_wide(s) ? 26 : s->columns - 2 * number_columns(s);
}

// ---- small parts --------------------------------------------------------------------------------
static void put_text(struct text_canvas *s, struct view_text *t, int columns, bool right)
{
    s->t.failed |= t->failed;
    text_canvas_cell(s, t->at ? t->at : "", (size_t)t->used, columns, right);
    view_text_free(t);
}
static void put_number(struct text_canvas *s, double x, int digits, int columns)
{
    struct view_text t = { 0 };
    view_signed(&t, x, digits);
    put_text(s, &t, columns, true);
}
static void put_share(struct text_canvas *s, double w, int columns)
{
    struct view_text t = { 0 };
    view_weight(&t, w, 3);
    put_text(s, &t, columns, true);
}
static void put_root(struct text_canvas *s, const struct score *k, const char *before, int columns,
                     bool right)
{
    struct view_text t = { 0 };
    view_say(&t, "%s", before);
    if (s->utf8 || fabs(k->own - sqrt((double)k->E)) >= 1e-3 * k->own)
        score_root(&t, k);
    else
        view_say(&t, "sqrt%" PRId64, k->E);
    put_text(s, &t, columns, right);
}
// Writes a text in lines as wide as the terminal. Quoted tokens in the text are already printable.
static void fold(struct text_canvas *s, struct view_text *t)
{
    s->t.failed |= t->failed;
    if (t->at) text_canvas_fold(s, t->at, (size_t)t->used, 0);
    view_text_free(t);
}
// Chooses the query and the key that are shown, and writes the header and the question.
static qkv_status begin(struct text_canvas *s, struct score *k, int64_t *key, const char *before,
                        const char *between, qkv_error *err)
{
    struct view_text t = { 0 };
    const int64_t head = terminal_strongest(s, key);
    const qkv_status status = score_of(k, s->v, s->st.layer, head, s->st.token, err);
    if (status) return status;
    terminal_header(s);
    view_say(&t, "%s", before);
    view_quote(&t, &k->v->shape.token[k->row]);
    view_say(&t, "%s", between);
    view_quote(&t, &k->v->shape.key[*key]);
    view_say(&t, "?");
    text_canvas_sgr(s, "1");
    fold(s, &t);
    text_canvas_plain(s);
    return QKV_OK;
}
// Draws a bar for a signed number. The sign determines its colour and its first character.
static void put_signed_bar(struct text_canvas *s, double part, int columns)
{
    text_canvas_color(s, part < 0 ? PALETTE_NEG : PALETTE_POS);
    view_say(&s->t, part < 0 ? s->utf8 ? "−" : "-" : "+");
    text_canvas_bar(s, fabs(part), columns - 1);
    text_canvas_plain(s);
}

// ---- neuron -------------------------------------------------------------------------------------
static void put_dimension(struct text_canvas *s, const struct score *k, int64_t key, int64_t e,
                          double most, double sum)
{
    const double q = (double)k->q[e], x = score_k(k, key, e);
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, e);
    const int n = number_columns(s), capacity = s->columns - 5 * n - 2;
    text_canvas_text(s, name, n, true);
    if (is_wide(s)) {
        put_number(s, q, 2, n);
        put_number(s, x, 2, n);
    }
    put_number(s, q * x, 2, n);
    put_number(s, sum, 2, n);
    if (capacity > 4) {
        text_canvas_pad(s, 2);
        put_signed_bar(s, q * x / most, capacity);
    }
    text_canvas_line(s);
}

// Writes the products of query and key: the largest ones in descending order and the sum of the
// others; with --all, every product in the order of the dimensions.
static void put_dimensions(struct text_canvas *s, const struct score *k, int64_t key)
{
    double above = INFINITY, most = 1e-12, sum = 0;
    for (int64_t e = 0; e < k->E; e++)
        most = fmax(most, fabs((double)k->q[e] * score_k(k, key, e)));
    if (s->all) {
        for (int64_t e = 0; e < k->E; e++) {
            sum += (double)k->q[e] * score_k(k, key, e);
            put_dimension(s, k, key, e, most, sum);
        }
        return;
    }
    int64_t told = 0;
    for (; told < qkv_min64(TOLD, k->E); told++) {
        int64_t best = -1;
        double size = -1;
        for (int64_t e = 0; e < k->E; e++) {
            const double a = fabs((double)k->q[e] * score_k(k, key, e));
            if (a < above && a > size) size = a, best = e;
        }
        if (best < 0) break; // all remaining products are equal to one that was written
        above = size;
        sum += (double)k->q[best] * score_k(k, key, best);
        put_dimension(s, k, key, best, most, sum);
    }
    if (told == k->E) return;
    char name[40];
    snprintf(name, sizeof name, "%" PRId64 " others", k->E - told);
    text_canvas_dim(s);
    const int n = number_columns(s);
    text_canvas_text(s, name, is_wide(s) ? 3 * n : n, true);
    put_number(s, k->dot[key] - sum, 2, n);
    put_number(s, k->dot[key], 2, n);
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_row(struct text_canvas *s, const char *name, double x, int digits)
{
    text_canvas_text(s, name, name_columns(s), false);
    put_number(s, x, digits, number_columns(s));
    text_canvas_line(s);
}

static void put_chain(struct text_canvas *s, const struct score *k, int64_t key)
{
    put_row(s, "q · k", k->dot[key], 3);
    put_root(s, k, s->utf8 ? "÷ " : "/ ", name_columns(s), false);
    put_number(s, k->dot[key] / k->own, 3, number_columns(s));
    text_canvas_line(s);
    const double score = score_at(k, key, k->own);
    if (k->softcap > 0) put_row(s, "capped", score - k->bias[key], 3);
    if (k->biased) put_row(s, "plus its bias", score, 3);
    if (score_masked(k, key)) {
        text_canvas_words(s, "masked: its weight is 0");
        return;
    }
    char keys[48];
    snprintf(keys, sizeof keys, "softmax of %" PRId64 " keys", k->span.to - k->span.from);
    text_canvas_text(s, keys, name_columns(s), false);
    text_canvas_sgr(s, "1");
    put_share(s, k->w[key], number_columns(s));
    text_canvas_plain(s);
    text_canvas_line(s);
}

qkv_status terminal_neuron(struct text_canvas *s, qkv_error *err)
{
    static const char *const heads[] = { "dimension", "q", "k", "q × k", "sum" };
    struct score k;
    int64_t key;
    const qkv_status status = begin(s, &k, &key, "Which dimensions make ", " attend to ", err);
    if (status) return status;
    struct view_text t = { 0 };
    view_say(&t, "In layer %" PRId64 ", head %" PRId64 ", the %" PRId64 " products sum to ",
             k.layer, k.head, k.E);
    view_signed(&t, k.dot[key], 2);
    if (!score_masked(&k, key)) {
        view_say(&t, ", and the softmax weight is ");
        view_weight(&t, k.w[key], 3);
    }
    view_say(&t, ".");
    fold(s, &t);
    text_canvas_line(s);
    text_canvas_dim(s);
    for (int i = 0; i < 5; i++)
        if (is_wide(s) || (i != 1 && i != 2))
            text_canvas_text(s, heads[i], number_columns(s), true);
    text_canvas_plain(s);
    text_canvas_line(s);
    put_dimensions(s, &k, key);
    text_canvas_line(s);
    put_chain(s, &k, key);
    score_free(&k);
    return QKV_OK;
}

// ---- steps --------------------------------------------------------------------------------------
static void put_key(struct text_canvas *s, const struct score *k, const struct score_line *l,
                    int64_t chosen)
{
    const int n = number_columns(s), before = is_wide(s) ? 2 * n : n;
    const int capacity = is_wide(s) ? s->columns - s->label - 1 - 3 * n - 2 : 0;
    if (l->key < 0) {
        struct view_text t = { 0 };
        view_count(&t, l->n);
        view_say(&t, l->masked ? " masked" : " others");
        text_canvas_dim(s);
        put_text(s, &t, s->label + 1 + before, true);
        if (!l->masked) put_share(s, l->w, n);
        text_canvas_plain(s);
        text_canvas_line(s);
        return;
    }
    if (l->key == chosen) text_canvas_sgr(s, "1");
    text_canvas_key(s, l->key, s->label, false);
    text_canvas_pad(s, 1);
    if (is_wide(s)) put_number(s, k->dot[l->key], 2, n);
    if (l->masked) {
        text_canvas_dim(s);
        text_canvas_text(s, "masked", n, true);
        text_canvas_plain(s);
        text_canvas_line(s);
        return;
    }
    put_number(s, score_at(k, l->key, k->own), 2, n);
    put_share(s, k->w[l->key], n);
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
    const int lines = score_lines(line, k, key), n = number_columns(s);
    text_canvas_dim(s);
    text_canvas_text(s, "key", s->label + 1, false);
    if (is_wide(s)) text_canvas_text(s, "3 q · k", n, true);
    put_root(s, k, s->utf8 ? "4 ÷ " : "4 / ", n, true);
    text_canvas_text(s, is_wide(s) ? "5 weight" : "weight", n, true);
    text_canvas_plain(s);
    text_canvas_line(s);
    double all = 0;
    for (int64_t j = 0; j < k->S; j++) all += k->w[j];
    if (s->all) {
        for (int64_t j = 0; j < k->S; j++)
            put_key(s, k, &(struct score_line){ j, j, 1, k->w[j], score_masked(k, j) }, key);
    } else {
        for (int i = 0; i < lines; i++) put_key(s, k, &line[i], key);
    }
    text_canvas_dim(s);
    text_canvas_text(s, "sum", s->label + 1 + (is_wide(s) ? 2 * n : n), true);
    text_canvas_plain(s);
    put_share(s, all, n);
    text_canvas_line(s);
}

// Writes step 6: the norm of the output vector, and the norm of the term that each key adds to it.
static void put_output(struct text_canvas *s, const struct score *k, int64_t key)
{
    struct view_text t = { 0 };
    double z = 0, part = 0;
    if (!k->F) return;
    for (int64_t e = 0; e < k->F; e++) {
        double sum = 0;
        for (int64_t j = 0; j < k->S; j++) sum += k->w[j] * (double)k->value[j * k->F + e];
        const double own = k->w[key] * (double)k->value[key * k->F + e];
        z += sum * sum;
        part += own * own;
    }
    view_say(&t, "6 The output, the weighted sum of the values, has the norm ");
    view_number(&t, sqrt(z), 2);
    view_say(&t, "; the part of ");
    view_quote(&t, &k->v->shape.key[key]);
    view_say(&t, " has the norm ");
    view_number(&t, sqrt(part), 2);
    view_say(&t, ".");
    fold(s, &t);
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
    const int n = is_wide(s) ? number_columns(s) : s->columns / 5;
    const int name = s->columns - 3 * n < 26 ? s->columns - 3 * n : 26;
    text_canvas_line(s);
    text_canvas_dim(s);
    text_canvas_text(s, "What the scale is for", name, false);
    put_number(s, by[0], 0, n);
    put_root(s, k, "", n, true);
    put_number(s, by[2], 0, n);
    text_canvas_plain(s);
    text_canvas_line(s);
    for (int r = 0; r < 3; r++) {
        text_canvas_text(s, names[r], name, false);
        for (int i = 0; i < 3; i++)
            if (r == 1)
                put_number(s, keys[i], 1, n);
            else
                put_share(s, r ? gradient[i] : weight[i], n);
        text_canvas_line(s);
    }
}

qkv_status terminal_steps(struct text_canvas *s, qkv_error *err)
{
    struct score k;
    int64_t key;
    const qkv_status status = begin(s, &k, &key, "How does ", " attend to ", err);
    if (status) return status;
    struct view_text t = { 0 };
    view_say(&t,
             "1 Layer %" PRId64 ", head %" PRId64
             " projects each token to a query, a key and a value of %" PRId64
             " dimensions. 2 The query is multiplied with each key, elementwise. 3 The sum of "
             "these products is the score. 4 The score is divided by a scale%s. 5 The softmax "
             "turns the scores of all keys into weights.",
             k.layer, k.head, k.E,
             k.span.to - k.span.from < k.S ? "; masked keys are left out" : "");
    fold(s, &t);
    text_canvas_line(s);
    put_keys(s, &k, key);
    text_canvas_line(s);
    put_output(s, &k, key);
    put_scale(s, &k, key);
    score_free(&k);
    return QKV_OK;
}
