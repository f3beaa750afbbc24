// SPDX-License-Identifier: MIT
// terminal.c: the picture as lines of text: atlas, matrix in
// hundredths, the marked row as bars, words.
//
// With colour a cell's darkness (on dark paper: brightness) is its weight; without, a block
// character is.  Without UTF-8 everything is ASCII.
#include "view/terminal.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum {
    LABEL_MOST = 12,
    MATRIX_TOKENS = 40,
    STRONGEST = 12,
    COLUMNS_LEAST = 20,
    SIDE_BY_SIDE = 150
};

const char *terminal_glyph(const struct screen *s, enum view_kind kind)
{
    if (kind >= VIEW_KINDS) return " ";
    return s->utf8 ? view_kinds[kind].glyph : view_kinds[kind].ascii;
}

// Past 16 heads the colours go by the order of the lit ones.
static int64_t head_hue(const struct screen *s, int64_t lit)
{
    return s->v->shape.heads <= 16 ? s->st.head[lit] : lit;
}
// ---- header and atlas --------------------------------------------------------------------------
void terminal_header(struct screen *s)
{
    const struct view_shape *p = &s->v->shape;
    struct view_text t = { 0 };
    const char *times = s->utf8 ? "×" : "x";
    if (p->model) view_plain_text(&t, p->model, strlen(p->model), 200);
    if (strcmp(p->name, "attention") != 0) view_say(&t, "  %s", p->name);
    view_say(&t, "  %" PRId64 " layers %s %" PRId64 " heads", p->layers, times, p->heads);
    if (p->head_width) view_say(&t, " %s %" PRId64, times, p->head_width);
    view_say(&t, "  %" PRId64 " token%s", s->shown_count, s->shown_count == 1 ? "" : "s");
    if (view_across(s->v)) view_say(&t, " reading %" PRId64, s->key_count);
    if (s->shown_count < p->tokens)
        view_say(&t, ", %" PRId64 " special hidden", p->tokens - s->shown_count);
    s->t.failed |= t.failed;
    screen_sgr(s, "1");
    view_say(&s->t, "qkv  ");
    screen_plain(s);
    screen_quiet(s);
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 5);
    screen_plain(s);
    screen_line(s);
    view_text_free(&t);
}

// ---- matrix ------------------------------------------------------------------------------------
// A weight in hundredths, `columns` wide, from .05 on as a number too.
static void matrix_cell(struct screen *s, double w, int columns)
{
    char number[16] = "";
    if (w != w)
        snprintf(number, sizeof number, "!");
    else if (w >= .05)
        snprintf(number, sizeof number, "%d", w >= .995 ? 99 : (int)(100 * w + .5));
    if (s->color) {
        screen_ground(s, pow(w, .7));
        screen_text(s, number, columns, true);
        screen_plain(s);
        return;
    }
    screen_pad(s, columns - 3);
    view_say(&s->t, "%s", screen_block(s, w));
    screen_text(s, number, 2, true);
}

static void draw_matrix_head(struct screen *s, int64_t head, int wide, bool sink)
{
    view_say(&s->t, "layer %" PRId64 ", head %" PRId64, s->st.layer, head);
    screen_quiet(s);
    if (s->columns > 70) view_say(&s->t, "   row asks, column is read, hundredths");
    screen_plain(s);
    screen_line(s);
    screen_quiet(s);
    screen_pad(s, s->label + 6);
    if (sink) view_say(&s->t, "sink ");
    for (int64_t k = 0; k < s->key_count; k++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, s->keys[k] % (wide > 2 ? 1000 : 100));
        screen_text(s, number, wide, true);
    }
    screen_plain(s);
    screen_line(s);
}

static void draw_matrix(struct screen *s, int64_t head)
{
    const bool sink = s->key_count < s->v->shape.keys;
    const int before = s->label + 6 + (sink ? 5 : 0);
    const int best = s->color ? 3 : 4;
    int wide = best;
    while (!s->all && wide > best - 1 && before + s->key_count * wide + 2 > s->columns) wide--;
    if (!s->all && (s->key_count > MATRIX_TOKENS || s->shown_count > MATRIX_TOKENS ||
                    before + s->key_count * wide + 2 > s->columns))
        return; // the marked row says more than half a matrix
    draw_matrix_head(s, head, wide, sink);
    for (int64_t k = 0; k < s->shown_count; k++) {
        const int64_t i = s->shown[k];
        const bool marked = i == s->st.token;
        view_row(s->row, s->v, s->st.layer, head, i);
        screen_quiet(s);
        view_say(&s->t, "%4" PRId64 " ", i);
        screen_plain(s);
        if (marked) screen_sgr(s, "1");
        screen_token(s, i, s->label, false);
        screen_plain(s);
        screen_pad(s, 1);
        double rest = 1;
        for (int64_t c = 0; c < s->key_count; c++) rest -= s->row[s->keys[c]];
        if (sink) {
            matrix_cell(s, rest, 4);
            screen_pad(s, 1);
        }
        for (int64_t c = 0; c < s->key_count; c++) matrix_cell(s, s->row[s->keys[c]], wide);
        if (marked) view_say(&s->t, s->utf8 ? " ◂" : " <");
        screen_line(s);
    }
    screen_line(s);
}

// ---- the marked row ----------------------------------------------------------------------------
// Lit heads from..end side by side: a line a key, then what is hidden.
static void draw_bars(struct screen *s, const int64_t *keys, int64_t n, int64_t from, int64_t end,
                      const float *rows)
{
    const int64_t S = s->v->shape.keys;
    const int each = (int)((s->columns - s->label - 1) / (end - from)), long_ = each - 6;
    screen_pad(s, s->label + 1);
    for (int64_t h = from; h < end; h++) {
        char name[40];
        snprintf(name, sizeof name, "head %" PRId64, s->st.head[h]);
        screen_head(s, head_hue(s, h));
        screen_text(s, name, each, false);
        screen_plain(s);
    }
    screen_line(s);
    for (int64_t k = 0; k <= n; k++) {
        double rest[VIEW_LIT] = { 0 };
        if (k == n) { // "rest": what no line above shows
            double all = 0;
            for (int64_t h = from; h < end; h++) {
                for (int64_t j = 0; j < S; j++) rest[h] += rows[h * S + j];
                for (int64_t j = 0; j < n; j++) rest[h] -= rows[h * S + keys[j]];
                all += fabs(rest[h]);
            }
            if (all < 1e-3) break;
            screen_quiet(s);
            screen_text(s, s->key_count == n ? "special" : "the rest", s->label + 1, false);
        } else {
            screen_key(s, keys[k], s->label, false);
            screen_pad(s, 1);
        }
        screen_plain(s);
        for (int64_t h = from; h < end; h++) {
            const double w = k == n ? fmax(rest[h], 0) : rows[h * S + keys[k]];
            if (w < .05) screen_quiet(s);
            screen_weight(s, w);
            screen_plain(s);
            screen_pad(s, 1);
            if (k < n)
                screen_head(s, head_hue(s, h));
            else
                screen_quiet(s);
            screen_bar(s, w, long_);
            screen_plain(s);
            screen_pad(s, each - 4 - (long_ > 0 ? long_ : 0));
        }
        screen_line(s);
    }
}

static void draw_row(struct screen *s)
{
    const int64_t S = s->v->shape.keys, lit = s->st.lit;
    float *rows = qkv_alloc((size_t)(lit * S), sizeof *rows),
          *top = qkv_alloc_zero((size_t)S, sizeof *top);
    int64_t *keys = qkv_alloc((size_t)s->key_count + 1, sizeof *keys), n = 0;
    if (!rows || !top || !keys) {
        s->t.failed = true;
        goto done;
    }
    for (int64_t h = 0; h < lit; h++) {
        view_row(rows + h * S, s->v, s->st.layer, s->st.head[h], s->st.token);
        for (int64_t j = 0; j < S; j++)
            if (rows[h * S + j] > top[j]) top[j] = rows[h * S + j];
    }
    const int64_t most = s->key_count > MATRIX_TOKENS && !s->all ? STRONGEST : s->key_count;
    float least = 0; // the weight of the last key that is listed
    if (most < s->key_count)
        for (int64_t round = 0; round < most; round++) {
            float next = -1;
            for (int64_t k = 0; k < s->key_count; k++)
                if ((!round || top[s->keys[k]] < least) && top[s->keys[k]] > next)
                    next = top[s->keys[k]];
            if (next >= 0) least = next;
        }
    for (int64_t k = 0; k < s->key_count && n < most; k++)
        if (top[s->keys[k]] >= least) keys[n++] = s->keys[k];
    screen_sgr(s, "1");
    struct view_text title = { 0 };
    view_quote(&title, &s->v->shape.token[s->st.token]);
    view_say(&title, " in layer %" PRId64 " reads", s->st.layer);
    s->t.failed |= title.failed;
    if (title.at) screen_fold(s, title.at, (size_t)title.used, 0);
    view_text_free(&title);
    screen_plain(s);
    const int64_t band = qkv_max64(1, (s->columns - s->label - 1) / 14);
    for (int64_t from = 0; from < lit; from += band)
        draw_bars(s, keys, n, from, qkv_min64(lit, from + band), rows);
    screen_line(s);
done:
    qkv_free(rows);
    qkv_free(top);
    qkv_free(keys);
}

// ---- words -------------------------------------------------------------------------------------
// Where else the marked token reads what it reads most here.
static void say_elsewhere(struct screen *s, struct view_text *t)
{
    const struct view_shape *p = &s->v->shape;
    int64_t key = -1;
    float most = 0;
    for (int64_t h = 0; h < s->st.lit; h++) {
        view_row(s->row, s->v, s->st.layer, s->st.head[h], s->st.token);
        for (int64_t k = 0; k < s->key_count; k++)
            if (s->row[s->keys[k]] > most) most = s->row[s->keys[k]], key = s->keys[k];
    }
    if (key < 0 || p->layers * p->heads < 2) return;
    struct {
        int64_t layer, head;
        float w;
    } best[4] = { { 0, 0, 0 } };
    for (int64_t l = 0; l < p->layers; l++)
        for (int64_t h = 0; h < p->heads; h++) {
            if (l == s->st.layer && terminal_is_lit(s, h)) continue;
            view_row(s->row, s->v, l, h, s->st.token);
            const float w = s->row[key];
            for (int i = 0; i < 4; i++)
                if (w > best[i].w) {
                    memmove(best + i + 1, best + i, (size_t)(3 - i) * sizeof *best);
                    best[i].layer = l, best[i].head = h, best[i].w = w;
                    break;
                }
        }
    if (best[0].w < .1f) return;
    view_say(t, " Elsewhere ");
    view_quote(t, &p->token[s->st.token]);
    view_say(t, " reads ");
    view_quote(t, &p->key[key]);
    view_say(t, " most in");
    for (int i = 0; i < 4 && best[i].w >= .1f; i++) {
        view_say(t, "%s L%" PRId64 ".H%" PRId64 " ", i ? "," : "", best[i].layer, best[i].head);
        view_weight(t, best[i].w, 2);
    }
    view_say(t, ".");
}

// The sentence of the whole layer, where the reader has named no token.
static void draw_finding(struct screen *s)
{
    struct view_text t = { 0 };
    struct view_state st = s->st;
    st.token = -1;
    view_sentence(&t, s->v, &st);
    s->t.failed |= t.failed;
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
    screen_line(s);
}

static void draw_words(struct screen *s)
{
    struct view_text t = { 0 };
    view_sentence(&t, s->v, &s->st);
    if (s->v->shape.keys > 1 && s->st.token >= 0 && s->st.lit) say_elsewhere(s, &t);
    s->t.failed |= t.failed;
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
}

// Two blocks of lines side by side.
static void zip(struct screen *s, struct view_text *out, const char *a, const char *b, int column)
{
    while (*a || *b) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        const int w = screen_width(s, a, na);
        view_put(out, a, na);
        for (int i = w; nb && i < column; i++) view_put(out, " ", 1);
        view_put(out, b, nb);
        view_put(out, "\n", 1);
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
}

int64_t terminal_strongest(struct screen *s, int64_t *key)
{
    int64_t head = s->st.lit ? s->st.head[0] : 0;
    float most = -1;
    *key = s->key_count ? s->keys[0] : 0;
    for (int64_t i = 0; i < s->st.lit; i++) {
        view_row(s->row, s->v, s->st.layer, s->st.head[i], s->st.token);
        for (int64_t k = 0; k < s->key_count; k++)
            if (s->row[s->keys[k]] > most) {
                most = s->row[s->keys[k]];
                *key = s->keys[k];
                head = s->st.head[i];
            }
    }
    return head;
}

// The strongest key of each row in the mean of the lit heads, where it is above twice an even
// share: what stands beside what.
static void draw_alignment(struct screen *s)
{
    const int64_t S = s->v->shape.keys;
    struct view_text t = { 0 };
    double *mean = qkv_alloc((size_t)S, sizeof *mean);
    if (!mean || !s->st.lit) {
        s->t.failed |= !mean;
        qkv_free(mean);
        return;
    }
    for (int64_t k = 0; k < s->shown_count; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < S; j++) mean[j] = 0;
        for (int64_t h = 0; h < s->st.lit; h++) {
            view_row(s->row, s->v, s->st.layer, s->st.head[h], s->shown[k]);
            for (int64_t j = 0; j < S; j++) mean[j] += (double)s->row[j] / (double)s->st.lit;
        }
        for (int64_t c = 0; c < s->key_count; c++)
            if (best < 0 || mean[s->keys[c]] > mean[best]) best = s->keys[c];
        if (best < 0 || !(mean[best] >= 2.0 / (double)S)) continue;
        view_say(&t, "%s", t.used ? ", " : "Alignment: ");
        view_token_text(&t, &s->v->shape.token[s->shown[k]], false);
        view_say(&t, s->utf8 ? " → " : " -> ");
        view_token_text(&t, &s->v->shape.key[best], false);
        view_say(&t, " ");
        view_weight(&t, mean[best], 2);
    }
    if (t.used) view_say(&t, ".");
    s->t.failed |= t.failed;
    if (t.at) screen_fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
    qkv_free(mean);
}

static void draw(struct screen *s)
{
    const int all = s->columns;
    int64_t key;
    const int64_t head = terminal_strongest(s, &key);
    if (all < SIDE_BY_SIDE) {
        terminal_header(s);
        if (!s->asked) draw_finding(s);
        terminal_atlas(s);
        draw_matrix(s, head);
        if (s->st.lit) draw_row(s);
        terminal_effects(s);
        draw_words(s);
        if (view_across(s->v)) draw_alignment(s);
        return;
    }
    struct view_text left, both = { 0 };
    s->columns = (all - 4) / 2;
    terminal_header(s);
    if (!s->asked) draw_finding(s);
    terminal_atlas(s);
    draw_matrix(s, head);
    terminal_effects(s);
    left = s->t;
    s->t = (struct view_text){ .failed = left.failed };
    if (s->st.lit) draw_row(s);
    draw_words(s);
    if (view_across(s->v)) draw_alignment(s);
    if (!left.failed && !s->t.failed)
        zip(s, &both, left.at ? left.at : "", s->t.at ? s->t.at : "", s->columns + 4);
    both.failed |= left.failed | s->t.failed;
    view_text_free(&left);
    view_text_free(&s->t);
    s->t = both;
}

static qkv_status draw_view(struct screen *s, const char *view, qkv_error *err)
{
    if (view && !strcmp(view, "neuron")) return terminal_neuron(s, err);
    if (view && !strcmp(view, "steps")) return terminal_steps(s, err);
    if (view && !strcmp(view, "model"))
        terminal_model(s);
    else
        draw(s); // the matrix is part of it; two pictures and a run are for the page
    return QKV_OK;
}

// The label column is as wide as the widest name.
static void measure_label(struct screen *s, const struct qkv_view_token *token)
{
    struct view_text t = { 0 };
    view_token_text(&t, token, token->special);
    const int w = t.at ? screen_width(s, t.at, (size_t)t.used) : 0;
    s->t.failed |= t.failed;
    if (w > s->label) s->label = w;
    view_text_free(&t);
}

// Rows that are no distributions, where there are any.
static void say_odd(struct screen *s)
{
    int64_t not_numbers = 0, not_one = 0;
    view_count_odd(s->v, &not_numbers, &not_one);
    if (not_numbers)
        view_say(&s->t, "\n%lld row%s: the weights hold NaN or Inf\n", (long long)not_numbers,
                 not_numbers == 1 ? " is not a number" : "s are not numbers");
    if (not_one)
        view_say(&s->t, "\n%lld row%s not sum to 1: drawn as %s\n", (long long)not_one,
                 not_one == 1 ? " does" : "s do", not_one == 1 ? "it is" : "they are");
}

qkv_status qkv_view_terminal(const qkv_view *v, char **out, const struct qkv_view_options *o,
                             qkv_error *err)
{
    if (out) *out = NULL;
    if (!v || !out)
        return qkv_fail(err, QKV_ERR_USAGE, NULL,
                        "qkv_view_terminal, expected a view and a place, found NULL");
    static const struct qkv_view_options none;
    *out = NULL;
    if (!o) o = &none;
    const struct view_stack *k = NULL;
    qkv_status status = view_choose_stack(&k, v, o, err);
    if (status) return status;
    struct screen s = { .v = k,
                        .color = o->color,
                        .truecolor = o->truecolor,
                        .utf8 = o->utf8,
                        .dark = o->theme != QKV_THEME_LIGHT,
                        .all = o->all,
                        .asked = o->token != NULL,
                        .columns = o->columns ? o->columns : 80 };
    if (s.columns < COLUMNS_LEAST) s.columns = COLUMNS_LEAST;
    status = view_choose(&s.st, k, o, true, err);
    if (status) return status;
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
        measure_label(&s, &k->shape.token[i]);
    }
    for (int64_t j = 0; j < k->shape.keys; j++) {
        if (!view_key_shown(k, &s.st, j)) continue;
        s.keys[s.key_count++] = j;
        if (view_across(k)) measure_label(&s, &k->shape.key[j]);
    }
    if (s.label > LABEL_MOST) s.label = LABEL_MOST;
    if (s.label < 8) s.label = 8; // "the rest"
    if (s.label > s.columns / 2 - 2) s.label = s.columns / 2 - 2;
    status = draw_view(&s, o->view, err);
    if (!status) say_odd(&s);
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
