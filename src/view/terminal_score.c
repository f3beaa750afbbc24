// SPDX-License-Identifier: MIT
// terminal_score.c: one query taken apart as lines of text: neuron, a line a number; steps, a line
// a key.
#include "view/terminal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { WIDE = 48, TOLD = 12 };

// A narrow terminal gets fewer and narrower columns.
static bool is_wide(const struct screen *s)
{
    return s->columns >= WIDE;
}
static int number_columns(const struct screen *s)
{
    return is_wide(s) ? 9 : s->columns >= 30 ? 8 : 5;
}
static int name_columns(const struct screen *s) // of a row of figures
{
    return is_wide(s) ? 26 : s->columns - 2 * number_columns(s);
}

// ---- small parts --------------------------------------------------------------------------------
static void put_text(struct screen *s, struct view_text *t, int columns, bool right)
{
    s->t.failed |= t->failed;
    screen_cell(s, t->at ? t->at : "", (size_t)t->used, columns, right);
    view_text_free(t);
}
static void put_number(struct screen *s, double x, int digits, int columns)
{
    struct view_text t = { 0 };
    view_signed(&t, x, digits);
    put_text(s, &t, columns, true);
}
static void put_share(struct screen *s, double w, int columns)
{
    struct view_text t = { 0 };
    view_weight(&t, w, 3);
    put_text(s, &t, columns, true);
}
static void put_root(struct screen *s, const struct score *k, const char *before, int columns,
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
// Text before the fold is ours; what is quoted in it has been made plain.
static void fold(struct screen *s, struct view_text *t)
{
    s->t.failed |= t->failed;
    if (t->at) screen_fold(s, t->at, (size_t)t->used, 0);
    view_text_free(t);
}
// The pair that is taken apart, the header and the question.
static qkv_status begin(struct screen *s, struct score *k, int64_t *key, const char *before,
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
    screen_sgr(s, "1");
    fold(s, &t);
    screen_plain(s);
    return QKV_OK;
}
// A bar to the right of a middle for +, in its colour; '-' stands before one that takes away.
static void put_signed_bar(struct screen *s, double part, int columns)
{
    screen_ink(s, part < 0 ? SHEET_NEG : SHEET_POS);
    view_say(&s->t, part < 0 ? s->utf8 ? "−" : "-" : "+");
    screen_bar(s, fabs(part), columns - 1);
    screen_plain(s);
}

// ---- neuron -------------------------------------------------------------------------------------
static void put_dimension(struct screen *s, const struct score *k, int64_t key, int64_t e,
                          double most, double sum)
{
    const double q = (double)k->q[e], x = score_k(k, key, e);
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, e);
    const int n = number_columns(s), room = s->columns - 5 * n - 2;
    screen_text(s, name, n, true);
    if (is_wide(s)) {
        put_number(s, q, 2, n);
        put_number(s, x, 2, n);
    }
    put_number(s, q * x, 2, n);
    put_number(s, sum, 2, n);
    if (room > 4) {
        screen_pad(s, 2);
        put_signed_bar(s, q * x / most, room);
    }
    screen_line(s);
}

// The largest products, the largest first, and what all others come to; --all: every one, in order.
static void put_dimensions(struct screen *s, const struct score *k, int64_t key)
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
        if (best < 0) break; // the rest are as large as one that was told
        above = size;
        sum += (double)k->q[best] * score_k(k, key, best);
        put_dimension(s, k, key, best, most, sum);
    }
    if (told == k->E) return;
    char name[40];
    snprintf(name, sizeof name, "%" PRId64 " others", k->E - told);
    screen_quiet(s);
    const int n = number_columns(s);
    screen_text(s, name, is_wide(s) ? 3 * n : n, true);
    put_number(s, k->dot[key] - sum, 2, n);
    put_number(s, k->dot[key], 2, n);
    screen_plain(s);
    screen_line(s);
}

static void put_row(struct screen *s, const char *name, double x, int digits)
{
    screen_text(s, name, name_columns(s), false);
    put_number(s, x, digits, number_columns(s));
    screen_line(s);
}

static void put_chain(struct screen *s, const struct score *k, int64_t key)
{
    put_row(s, "q · k", k->dot[key], 3);
    put_root(s, k, s->utf8 ? "÷ " : "/ ", name_columns(s), false);
    put_number(s, k->dot[key] / k->own, 3, number_columns(s));
    screen_line(s);
    const double score = score_at(k, key, k->own);
    if (k->softcap > 0) put_row(s, "capped", score - k->bias[key], 3);
    if (k->biased) put_row(s, "with its bias", score, 3);
    if (score_masked(k, key)) {
        screen_words(s, "masked: it gets nothing");
        return;
    }
    char keys[48];
    snprintf(keys, sizeof keys, "softmax of %" PRId64 " keys", k->seen.to - k->seen.from);
    screen_text(s, keys, name_columns(s), false);
    screen_sgr(s, "1");
    put_share(s, k->w[key], number_columns(s));
    screen_plain(s);
    screen_line(s);
}

qkv_status terminal_neuron(struct screen *s, qkv_error *err)
{
    static const char *const heads[] = { "dimension", "q", "k", "q × k", "sum" };
    struct score k;
    int64_t key;
    const qkv_status status = begin(s, &k, &key, "Which numbers made ", " read ", err);
    if (status) return status;
    struct view_text t = { 0 };
    view_say(&t, "In layer %" PRId64 ", head %" PRId64 ", the %" PRId64 " products sum to ",
             k.layer, k.head, k.E);
    view_signed(&t, k.dot[key], 2);
    if (!score_masked(&k, key)) {
        view_say(&t, ", and softmax makes of it ");
        view_weight(&t, k.w[key], 3);
    }
    view_say(&t, ".");
    fold(s, &t);
    screen_line(s);
    screen_quiet(s);
    for (int i = 0; i < 5; i++)
        if (is_wide(s) || (i != 1 && i != 2)) screen_text(s, heads[i], number_columns(s), true);
    screen_plain(s);
    screen_line(s);
    put_dimensions(s, &k, key);
    screen_line(s);
    put_chain(s, &k, key);
    score_free(&k);
    return QKV_OK;
}

// ---- steps --------------------------------------------------------------------------------------
static void put_key(struct screen *s, const struct score *k, const struct score_line *l,
                    int64_t chosen)
{
    const int n = number_columns(s), before = is_wide(s) ? 2 * n : n;
    const int room = is_wide(s) ? s->columns - s->label - 1 - 3 * n - 2 : 0;
    if (l->key < 0) {
        struct view_text t = { 0 };
        view_count(&t, l->n);
        view_say(&t, l->masked ? " masked" : " others");
        screen_quiet(s);
        put_text(s, &t, s->label + 1 + before, true);
        if (!l->masked) put_share(s, l->w, n);
        screen_plain(s);
        screen_line(s);
        return;
    }
    if (l->key == chosen) screen_sgr(s, "1");
    screen_key(s, l->key, s->label, false);
    screen_pad(s, 1);
    if (is_wide(s)) put_number(s, k->dot[l->key], 2, n);
    if (l->masked) {
        screen_quiet(s);
        screen_text(s, "masked", n, true);
        screen_plain(s);
        screen_line(s);
        return;
    }
    put_number(s, score_at(k, l->key, k->own), 2, n);
    put_share(s, k->w[l->key], n);
    screen_plain(s);
    if (room > 2) {
        screen_pad(s, 2);
        screen_ink(s, l->key == chosen ? SHEET_HEAD : SHEET_POS);
        screen_bar(s, k->w[l->key], room);
        screen_plain(s);
    }
    screen_line(s);
}

static void put_keys(struct screen *s, const struct score *k, int64_t key)
{
    struct score_line line[SCORE_LINES];
    const int lines = score_lines(line, k, key), n = number_columns(s);
    screen_quiet(s);
    screen_text(s, "key", s->label + 1, false);
    if (is_wide(s)) screen_text(s, "3 q · k", n, true);
    put_root(s, k, s->utf8 ? "4 ÷ " : "4 / ", n, true);
    screen_text(s, is_wide(s) ? "5 weight" : "weight", n, true);
    screen_plain(s);
    screen_line(s);
    double all = 0;
    for (int64_t j = 0; j < k->S; j++) all += k->w[j];
    if (s->all) {
        for (int64_t j = 0; j < k->S; j++)
            put_key(s, k, &(struct score_line){ j, j, 1, k->w[j], score_masked(k, j) }, key);
    } else {
        for (int i = 0; i < lines; i++) put_key(s, k, &line[i], key);
    }
    screen_quiet(s);
    screen_text(s, "sum", s->label + 1 + (is_wide(s) ? 2 * n : n), true);
    screen_plain(s);
    put_share(s, all, n);
    screen_line(s);
}

// Step 6: how long each key's part of the output is, and the output itself.
static void put_output(struct screen *s, const struct score *k, int64_t key)
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
    view_say(&t, "6 The values, weighed, sum to an output of length ");
    view_number(&t, sqrt(z), 2);
    view_say(&t, "; the part of ");
    view_quote(&t, &k->v->shape.key[key]);
    view_say(&t, " has length ");
    view_number(&t, sqrt(part), 2);
    view_say(&t, ".");
    fold(s, &t);
}

static void put_scale(struct screen *s, const struct score *k, int64_t key)
{
    static const char *const names[3] = { "weight", "keys read", "slope left, sum w(1-w)" };
    const double by[3] = { 1, k->own, (double)k->E };
    double slope[3], keys[3], weight[3], *w = qkv_alloc((size_t)k->S, sizeof *w);
    if (!w) {
        s->t.failed = true;
        return;
    }
    for (int i = 0; i < 3; i++) {
        keys[i] = score_softmax(w, k, by[i], &slope[i]);
        weight[i] = w[key];
    }
    qkv_free(w);
    const int n = is_wide(s) ? number_columns(s) : s->columns / 5;
    const int name = s->columns - 3 * n < 26 ? s->columns - 3 * n : 26;
    screen_line(s);
    screen_quiet(s);
    screen_text(s, "What the scale is for", name, false);
    put_number(s, by[0], 0, n);
    put_root(s, k, "", n, true);
    put_number(s, by[2], 0, n);
    screen_plain(s);
    screen_line(s);
    for (int r = 0; r < 3; r++) {
        screen_text(s, names[r], name, false);
        for (int i = 0; i < 3; i++)
            if (r == 1)
                put_number(s, keys[i], 1, n);
            else
                put_share(s, r ? slope[i] : weight[i], n);
        screen_line(s);
    }
}

qkv_status terminal_steps(struct screen *s, qkv_error *err)
{
    struct score k;
    int64_t key;
    const qkv_status status = begin(s, &k, &key, "How does ", " arrive at ", err);
    if (status) return status;
    struct view_text t = { 0 };
    view_say(
        &t,
        "1 Layer %" PRId64 ", head %" PRId64
        " makes of each token a query, a key and a value of %" PRId64
        " numbers. 2 Query times key, number by number. 3 Their sum is the score. 4 It is divided"
        "%s. 5 Softmax makes weights of the scores.",
        k.layer, k.head, k.E, k.seen.to - k.seen.from < k.S ? "; masked keys are out" : "");
    fold(s, &t);
    screen_line(s);
    put_keys(s, &k, key);
    screen_line(s);
    put_output(s, &k, key);
    put_scale(s, &k, key);
    score_free(&k);
    return QKV_OK;
}
