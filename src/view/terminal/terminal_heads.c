// SPDX-License-Identifier: MIT
// terminal_heads.c: draws the view "heads" as lines of text: an overview of the heads, the matrix of
// weights in hundredths, the marked row as bars, and the sentence.
#include "view/data/stories.h"
#include "view/terminal/terminal_views.h"
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { MATRIX_TOKENS = 40, STRONGEST = 12, SIDE_BY_SIDE = 150 };

// Chooses the colour of a selected head: that of its kind, as in the model view of the page; heads
// of no kind are dim.
static void head_color(struct text_canvas *s, int64_t selected)
{
    const struct view_stats *x = view_stats(s->v, s->st.layer, s->st.head[selected]);
    text_canvas_color(s, palette_kind(x->kind));
}

// ---- matrix -------------------------------------------------------------------------------------
// Returns the number of padding tokens that are shown: after the rows or, with `keys`, the columns.
static int64_t padding_of(const struct text_canvas *s, bool keys)
{
    const struct view_shape *k = &s->v->shape;
    return view_padding_shown(&s->st, keys ? k->key_padding : k->row_padding);
}

// Writes the cells of n masked keys.
static void masked_cells(struct text_canvas *s, int64_t n, int columns)
{
    text_canvas_dim(s);
    for (int64_t k = 0; k < n; k++) text_canvas_text(s, s->utf8 ? "×" : "x", columns, true);
    text_canvas_plain(s);
}

// Writes a weight in hundredths, `columns` wide: 100, or "1." where this does not fit, for a weight
// that rounds to 1.00. A weight below .05 is not written, only the
// background shows it.
static void matrix_cell(struct text_canvas *s, double w, int columns)
{
    char number[16] = "";
    if (w != w)
        snprintf(number, sizeof number, "!");
    else if (w >= .05)
        snprintf(number, sizeof number, "%d", (int)(100 * fmin(w, 1) + .5));
    if (strlen(number) > 2 && columns < (s->color ? 3 : 4)) // 100 in a narrow column
        snprintf(number, sizeof number, "1.");
    if (s->color) {
        text_canvas_ground(s, pow(w, .7));
        text_canvas_text(s, number, columns, true);
        text_canvas_plain(s);
        return;
    }
    const int wide = (int)qkv_max64(2, (int64_t)strlen(number));
    text_canvas_pad(s, columns - 1 - wide);
    view_say(&s->t, "%s", text_canvas_block(s, w));
    text_canvas_text(s, number, wide, true);
}

static void draw_matrix_head(struct text_canvas *s, int64_t head, int wide, bool special)
{
    view_say(&s->t, "layer %" PRId64 ", head %" PRId64, s->st.layer, head);
    text_canvas_dim(s);
    if (s->columns > 70)
        view_say(&s->t, strcmp(s->v->shape.name, "cross") == 0
                            ? "   rows: tokens written, columns: source, in hundredths"
                            : "   rows: queries, columns: keys, in hundredths");
    if (s->columns > 110 && special) view_say(&s->t, "; first column: special tokens");
    text_canvas_plain(s);
    text_canvas_line(s);
    text_canvas_dim(s);
    text_canvas_pad(s, s->label + 6);
    if (special) view_say(&s->t, "spec ");
    for (int64_t k = 0; k < s->key_count + padding_of(s, true); k++) {
        const int64_t key = k < s->key_count ? s->keys[k] : s->v->shape.keys + k - s->key_count;
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, key % (wide > 2 ? 1000 : 100));
        text_canvas_text(s, number, wide, true);
    }
    text_canvas_plain(s);
    text_canvas_line(s);
}

static void draw_matrix(struct text_canvas *s, int64_t head)
{
    const bool special = s->key_count < s->v->shape.keys;
    const int before = s->label + 6 + (special ? 5 : 0);
    const int best = s->color ? 3 : 4;
    const int64_t masked = padding_of(s, true), keys = s->key_count + masked,
                  rows = s->shown_count + padding_of(s, false);
    int wide = best;
    while (!s->all && wide > best - 1 && before + keys * wide + 2 > s->columns) wide--;
    if (!s->all &&
        (keys > MATRIX_TOKENS || rows > MATRIX_TOKENS || before + keys * wide + 2 > s->columns))
        return; // the matrix does not fit: only the marked row is written
    draw_matrix_head(s, head, wide, special);
    for (int64_t k = 0; k < rows; k++) {
        const bool padding = k >= s->shown_count;
        const int64_t i = padding ? s->v->shape.tokens + k - s->shown_count : s->shown[k];
        const bool marked = i == s->st.token;
        if (!padding) view_row(s->row, s->v, s->st.layer, head, i);
        text_canvas_dim(s);
        view_say(&s->t, "%4" PRId64 " ", i);
        text_canvas_plain(s);
        if (marked) text_canvas_sgr(s, "1");
        text_canvas_token(s, i, s->label, false);
        text_canvas_plain(s);
        text_canvas_pad(s, 1);
        if (padding) {
            masked_cells(s, keys, wide);
            text_canvas_line(s);
            continue;
        }
        double rest = 1;
        for (int64_t c = 0; c < s->key_count; c++) rest -= s->row[s->keys[c]];
        if (special) {
            matrix_cell(s, rest, 4);
            text_canvas_pad(s, 1);
        }
        for (int64_t c = 0; c < s->key_count; c++) matrix_cell(s, s->row[s->keys[c]], wide);
        masked_cells(s, masked, wide);
        if (marked) view_say(&s->t, s->utf8 ? " ◂" : " <");
        text_canvas_line(s);
    }
    if (masked) {
        text_canvas_dim(s);
        text_canvas_words(s, s->utf8 ? "×: masked, because the row or the column is padding"
                                     : "x: masked, because the row or the column is padding");
        text_canvas_plain(s);
    }
    text_canvas_line(s);
}

// ---- the marked row ----------------------------------------------------------------------------
// Draws the marked row of the selected heads number `from` .. end - 1, side by side. Each key has a
// line; the last line has the weight of all keys that are not listed.
static void draw_bars(struct text_canvas *s, const int64_t *keys, int64_t n, int64_t from,
                      int64_t end, const float *rows)
{
    const int64_t S = s->v->shape.keys;
    const int each = (int)((s->columns - s->label - 1) / (end - from)), long_ = each - 7;
    text_canvas_pad(s, s->label + 1);
    for (int64_t h = from; h < end; h++) {
        char name[40];
        snprintf(name, sizeof name, "head %" PRId64, s->st.head[h]);
        head_color(s, h);
        text_canvas_text(s, name, each, false);
        text_canvas_plain(s);
    }
    text_canvas_line(s);
    for (int64_t k = 0; k <= n; k++) {
        double rest[VIEW_SELECTED_MOST] = { 0 };
        if (k == n) { // the line "rest": the weight of all keys that are not listed
            double all = 0;
            for (int64_t h = from; h < end; h++) {
                for (int64_t j = 0; j < S; j++) rest[h] += rows[h * S + j];
                for (int64_t j = 0; j < n; j++) rest[h] -= rows[h * S + keys[j]];
                all += fabs(rest[h]);
            }
            if (all < 1e-3) break;
            text_canvas_dim(s);
            text_canvas_text(s, s->key_count == n ? "special" : "the rest", s->label + 1, false);
        } else {
            text_canvas_key(s, keys[k], s->label, false);
            text_canvas_pad(s, 1);
        }
        text_canvas_plain(s);
        for (int64_t h = from; h < end; h++) {
            const double w = k == n ? fmax(rest[h], 0) : rows[h * S + keys[k]];
            if (w < .05) text_canvas_dim(s);
            text_canvas_weight(s, w);
            text_canvas_plain(s);
            text_canvas_pad(s, 1);
            if (k < n)
                head_color(s, h);
            else
                text_canvas_dim(s);
            text_canvas_bar(s, w, long_);
            text_canvas_plain(s);
            text_canvas_pad(s, each - 5 - (long_ > 0 ? long_ : 0));
        }
        text_canvas_line(s);
    }
}

static void draw_row(struct text_canvas *s)
{
    const int64_t S = s->v->shape.keys, selected = s->st.selected;
    float *rows = qkv_alloc((size_t)(selected * S), sizeof *rows),
          *top = qkv_alloc_zero((size_t)S, sizeof *top);
    int64_t *keys = qkv_alloc((size_t)s->key_count + 1, sizeof *keys), n = 0;
    if (!rows || !top || !keys) {
        s->t.failed = true;
        goto done;
    }
    for (int64_t h = 0; h < selected; h++) {
        view_row(rows + h * S, s->v, s->st.layer, s->st.head[h], s->st.token);
        for (int64_t j = 0; j < S; j++)
            if (rows[h * S + j] > top[j]) top[j] = rows[h * S + j];
    }
    const int64_t most = s->key_count > MATRIX_TOKENS && !s->all ? STRONGEST : s->key_count;
    float least = 0; // smallest weight of a key that is listed
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
    text_canvas_sgr(s, "1");
    struct view_text title = { 0 };
    view_quote_row(&title, s->v, s->st.token);
    view_say(&title, " in layer %" PRId64 " attends to", s->st.layer);
    text_canvas_put_folded(s, &title, 0);
    text_canvas_plain(s);
    const int64_t band = qkv_max64(1, (s->columns - s->label - 1) / 14);
    for (int64_t from = 0; from < selected; from += band)
        draw_bars(s, keys, n, from, qkv_min64(selected, from + band), rows);
    text_canvas_line(s);
done:
    qkv_free(rows);
    qkv_free(top);
    qkv_free(keys);
}

// ---- sentences ---------------------------------------------------------------------------------
// Writes in which other heads the marked token attends to the same key.
static void describe_elsewhere(struct text_canvas *s, struct view_text *t)
{
    const struct view_shape *p = &s->v->shape;
    int64_t key = -1;
    float most = 0;
    for (int64_t h = 0; h < s->st.selected; h++) {
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
            if (l == s->st.layer && terminal_is_selected(s, h)) continue;
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
    view_say(t, " Other heads that attend from ");
    view_quote_row(t, s->v, s->st.token);
    view_say(t, " to ");
    view_quote_key(t, s->v, key);
    view_say(t, ":");
    for (int i = 0; i < 4 && best[i].w >= .1f; i++) {
        view_say(t, "%s L%" PRId64 ".H%" PRId64 " ", i ? "," : "", best[i].layer, best[i].head);
        view_weight(t, best[i].w, 2);
    }
    view_say(t, ".");
}

// Offers other links that are worth a look.
static void draw_stories(struct text_canvas *s)
{
    struct view_text t = { 0 };
    struct view_story first, story[3];
    view_story_shown(&first, s->v, &s->st);
    const int64_t n = view_stories(story, 3, s->v, &first);
    for (int64_t i = 0; i < n; i++) {
        view_say(&t, i ? ", " : "also: ");
        view_quote_row(&t, s->v, story[i].row);
        view_say(&t, s->utf8 ? " → " : " -> ");
        view_quote_key(&t, s->v, story[i].key);
        view_say(&t, " ");
        view_weight(&t, (double)story[i].weight, 2);
        view_say(&t, " (");
        view_say_head(&t, s->v, story[i].layer, story[i].head);
        view_say(&t, ")");
    }
    text_canvas_put_folded(s, &t, 0);
}

// If the options name heads and no token, writes a sentence about the whole layer.
static void draw_finding(struct text_canvas *s)
{
    struct view_text t = { 0 };
    struct view_selection st = s->st;
    st.token = -1;
    view_sentence(&t, s->v, &st);
    text_canvas_put_folded(s, &t, 0);
    text_canvas_line(s);
}

static void draw_words(struct text_canvas *s)
{
    struct view_text t = { 0 };
    view_sentence(&t, s->v, &s->st);
    if (s->v->shape.keys > 1 && s->st.token >= 0 && s->st.selected) describe_elsewhere(s, &t);
    text_canvas_put_folded(s, &t, 0);
    if (s->st.offered) draw_stories(s);
}

// Writes two blocks of lines side by side, the second from `column` on.
static void zip(struct text_canvas *s, struct view_text *out, const char *a, const char *b,
                int column)
{
    while (*a || *b) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        const int w = text_canvas_width(s, a, na);
        view_put(out, a, na);
        for (int i = w; nb && i < column; i++) view_put(out, " ", 1);
        view_put(out, b, nb);
        view_put(out, "\n", 1);
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
}

// Writes which heads the alignment is the mean of: the selected ones, or all of the layer.
static void name_alignment(const struct text_canvas *s, struct view_text *t, bool all)
{
    if (all) {
        view_say(t, "Alignment, layer %" PRId64 ", mean of %" PRId64 " heads: ", s->st.layer,
                 s->v->shape.heads);
        return;
    }
    view_say(t, "Alignment by head%s ", s->st.selected > 1 ? "s" : "");
    for (int64_t h = 0; h < s->st.selected; h++)
        view_say(t, "%s%" PRId64, h ? ", " : "", s->st.head[h]);
    view_say(t, ": ");
}

// Writes the alignment of two texts: for each row, the key with the largest weight in the mean of
// the selected heads, or of all. Rows whose largest weight is below twice the uniform weight are
// left out.
static void put_alignment(struct text_canvas *s, bool all)
{
    const int64_t S = s->v->shape.keys, heads = all ? s->v->shape.heads : s->st.selected;
    struct view_text t = { 0 };
    double *mean = qkv_alloc((size_t)S, sizeof *mean);
    if (!mean || !heads) {
        s->t.failed |= !mean;
        qkv_free(mean);
        return;
    }
    for (int64_t k = 0; k < s->shown_count; k++) {
        int64_t best = -1;
        for (int64_t j = 0; j < S; j++) mean[j] = 0;
        for (int64_t h = 0; h < heads; h++) {
            view_row(s->row, s->v, s->st.layer, all ? h : s->st.head[h], s->shown[k]);
            for (int64_t j = 0; j < S; j++) mean[j] += (double)s->row[j] / (double)heads;
        }
        for (int64_t c = 0; c < s->key_count; c++)
            if (best < 0 || mean[s->keys[c]] > mean[best]) best = s->keys[c];
        if (best < 0 || !(mean[best] >= 2.0 / (double)S)) continue;
        if (t.used)
            view_say(&t, ", ");
        else
            name_alignment(s, &t, all);
        view_name_row(&t, s->v, s->shown[k]);
        view_say(&t, s->utf8 ? " → " : " -> ");
        view_name_key(&t, s->v, best);
        view_say(&t, " ");
        view_weight(&t, mean[best], 2);
    }
    if (t.used) view_say(&t, ".");
    text_canvas_put_folded(s, &t, 0);
    qkv_free(mean);
}

// Writes the alignment of the selected heads and that of all heads, which `qkv translate` prints.
static void draw_alignment(struct text_canvas *s)
{
    put_alignment(s, false);
    if (s->st.selected < s->v->shape.heads) put_alignment(s, true);
}

static void draw_heads(struct text_canvas *s)
{
    const int all = s->columns;
    int64_t head;
    (void)view_pair_shown(&head, s->v, &s->st, -1, s->row);
    if (all < SIDE_BY_SIDE) {
        terminal_header(s);
        if (!s->asked) draw_finding(s);
        terminal_head_overview(s);
        draw_matrix(s, head);
        if (s->st.selected) draw_row(s);
        terminal_effects(s);
        draw_words(s);
        if (view_across(s->v)) draw_alignment(s);
        return;
    }
    struct view_text left, both = { 0 };
    s->columns = (all - 4) / 2;
    terminal_header(s);
    if (!s->asked) draw_finding(s);
    terminal_head_overview(s);
    draw_matrix(s, head);
    terminal_effects(s);
    left = s->t;
    s->t = (struct view_text){ .failed = left.failed };
    if (s->st.selected) draw_row(s);
    draw_words(s);
    if (view_across(s->v)) draw_alignment(s);
    if (!left.failed && !s->t.failed)
        zip(s, &both, left.at ? left.at : "", s->t.at ? s->t.at : "", s->columns + 4);
    both.failed |= left.failed | s->t.failed;
    view_text_free(&left);
    view_text_free(&s->t);
    s->t = both;
}

qkv_status terminal_heads(struct text_canvas *s, qkv_error *err)
{
    (void)err;
    draw_heads(s);
    return QKV_OK;
}
