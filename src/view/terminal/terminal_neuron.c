// SPDX-License-Identifier: MIT
// terminal_neuron.c: draws the view "neuron" as lines of text: the score of one query and one key,
// one line per dimension.
#include "view/terminal/terminal_score.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

enum { TOLD = 12 };

static int name_columns(const struct text_canvas *s) // width of the name of a row of numbers
{
    return terminal_is_wide(s) ? 26 : s->columns - 2 * terminal_number_columns(s);
}

// Draws a bar for a signed number. The sign determines its colour and its first character.
static void put_signed_bar(struct text_canvas *s, double part, int columns)
{
    text_canvas_color(s, part < 0 ? PALETTE_NEG : PALETTE_POS);
    view_say(&s->t, part < 0 ? s->utf8 ? "−" : "-" : "+");
    text_canvas_bar(s, fabs(part), columns - 1);
    text_canvas_plain(s);
}

static void put_dimension(struct text_canvas *s, const struct score *k, int64_t key, int64_t e,
                          double most, double sum)
{
    const double q = (double)k->q[e], x = score_k(k, key, e);
    char name[24];
    snprintf(name, sizeof name, "%" PRId64, e);
    const int n = terminal_number_columns(s), capacity = s->columns - 5 * n - 2;
    text_canvas_text(s, name, n, true);
    if (terminal_is_wide(s)) {
        terminal_number(s, q, 2, n);
        terminal_number(s, x, 2, n);
    }
    terminal_number(s, q * x, 2, n);
    terminal_number(s, sum, 2, n);
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
    const int n = terminal_number_columns(s);
    text_canvas_text(s, name, terminal_is_wide(s) ? 3 * n : n, true);
    terminal_number(s, k->dot[key] - sum, 2, n);
    terminal_number(s, k->dot[key], 2, n);
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void put_row(struct text_canvas *s, const char *name, double x, int digits)
{
    text_canvas_text(s, name, name_columns(s), false);
    terminal_number(s, x, digits, terminal_number_columns(s));
    text_canvas_line(s);
}

static void put_chain(struct text_canvas *s, const struct score *k, int64_t key)
{
    put_row(s, "q · k", k->dot[key], 3);
    terminal_root(s, k, s->utf8 ? "÷ " : "/ ", name_columns(s), false);
    terminal_number(s, k->dot[key] / k->own, 3, terminal_number_columns(s));
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
    terminal_share(s, k->w[key], terminal_number_columns(s));
    text_canvas_plain(s);
    text_canvas_line(s);
}

qkv_status terminal_neuron(struct text_canvas *s, qkv_error *err)
{
    static const char *const heads[] = { "dimension", "q", "k", "q × k", "sum" };
    struct score k;
    int64_t key;
    const qkv_status status = terminal_pair(s, &k, &key, "Which dimensions make ", err);
    if (status) return status;
    struct view_text t = { 0 };
    score_say_sum(&t, &k, key, false);
    text_canvas_put_folded(s, &t, 0);
    text_canvas_line(s);
    text_canvas_dim(s);
    for (int i = 0; i < 5; i++)
        if (terminal_is_wide(s) || (i != 1 && i != 2))
            text_canvas_text(s, heads[i], terminal_number_columns(s), true);
    text_canvas_plain(s);
    text_canvas_line(s);
    put_dimensions(s, &k, key);
    text_canvas_line(s);
    put_chain(s, &k, key);
    score_free(&k);
    return QKV_OK;
}
