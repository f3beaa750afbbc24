// SPDX-License-Identifier: MIT
// terminal.c: the picture as lines of text: atlas, matrix in hundredths, the marked row as bars, words.
//
// With colour a cell's darkness (on dark paper: brightness) is its weight; without, a block character
// is.  Without UTF-8 everything is ASCII.  Widths of characters are utf8proc's.
#include "view/view.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <stdio.h>
#include <utf8proc.h>

enum { LABEL_MOST = 12, MATRIX_TOKENS = 40, STRONGEST = 12, COLUMNS_LEAST = 20, SIDE_BY_SIDE = 150 };

// The palette of view.css, and the nearest of the 256 terminal colours; [0] light, [1] dark.
static const uint32_t ramp_rgb[2][9] = {
    { 0xfbfaf6, 0xc8ddef, 0x99c0e5, 0x6da1da, 0x4a82c8, 0x3563aa, 0x2a4781, 0x222f4f, 0x0f1733 },
    { 0x101319, 0x16294d, 0x204278, 0x2e5e9e, 0x457dbd, 0x649dd6, 0x8bbce9, 0xb9dbf7, 0xeff8ff },
};
static const uint32_t heads_rgb[2][16] = {
    { 0x1b64d0, 0xaa730a, 0x7f0411, 0x034670, 0x5f309f, 0x05643d, 0x0c8c97, 0x853f04,
      0xa23e99, 0x0fa47e, 0xdb5f6a, 0x90960d, 0xc961ac, 0x577106, 0x3c1494, 0x73105f },
    { 0x5a96f4, 0xfed195, 0xfe8b83, 0x8fcbfe, 0x8d6bca, 0x0e9c61, 0x83f2fe, 0xc36317,
      0xdd86d3, 0x58e9bc, 0xd87076, 0xe2eb68, 0xb963a0, 0xaece6f, 0xaba5fe, 0xfca4e3 },
};
static const uint8_t ramp_256[2][9] = { { 231, 254, 153, 110, 67, 60, 239, 236, 234 },
                                        { 234, 236, 238, 24, 67, 110, 153, 195, 231 } };
static const uint8_t heads_256[2][16] = {
    { 26, 130, 88, 24, 55, 22, 30, 94, 126, 36, 167, 100, 169, 58, 54, 89 },
    { 69, 222, 210, 117, 98, 35, 123, 166, 176, 79, 167, 192, 133, 150, 147, 218 },
};
static const uint8_t quiet_256[2] = { 242, 245 };

struct screen {
    const qkv_view *v;
    struct view_state st;
    struct view_text t;
    bool color, truecolor, utf8, dark, all;
    bool asked;          // the token was named
    int columns;
    float *row;          // [T]
    int64_t *shown;      // [shown_count] tokens on view
    int64_t shown_count;
    int label;           // columns of a token's name
};

// ---- colours -----------------------------------------------------------------------------------
static void sgr(struct screen *s, const char *code)
{
    if (s->color) view_say(&s->t, "\033[%sm", code);
}
static void plain(struct screen *s)
{
    sgr(s, "0");
}
static void colour(struct screen *s, int layer, uint8_t index, uint32_t rgb) // layer 38: text, 48: ground
{
    if (!s->color) return;
    if (s->truecolor)
        view_say(&s->t, "\033[%d;2;%u;%u;%um", layer, rgb >> 16, rgb >> 8 & 255, rgb & 255);
    else
        view_say(&s->t, "\033[%d;5;%um", layer, index);
}
static void quiet(struct screen *s)
{
    colour(s, 38, quiet_256[s->dark], s->dark ? 0x858993 : 0x6b6d75);
}
static void head_colour(struct screen *s, int64_t i) // i: the head; past 16 the order of the lit ones
{
    colour(s, 38, heads_256[s->dark][i % 16], heads_rgb[s->dark][i % 16]);
}
static int64_t head_hue(const struct screen *s, int64_t lit)
{
    return s->v->shape.heads <= 16 ? s->st.head[lit] : lit;
}
// Ground of darkness x in 0..1 with text that can be read on it.
static void ground(struct screen *s, double x)
{
    const int k = x != x ? 0 : (int)floor(fmin(fmax(x, 0), 1) * 8 + 0.5);
    colour(s, 48, ramp_256[s->dark][k], ramp_rgb[s->dark][k]);
    const bool black = s->dark ? k >= 5 : k <= 3; // whichever contrasts more
    colour(s, 38, black ? 16 : 231, black ? 0x000000 : 0xffffff);
}

// ---- cells -------------------------------------------------------------------------------------
static const char *glyph(const struct screen *s, enum view_kind kind)
{
    if (kind >= VIEW_KINDS) return " ";
    return s->utf8 ? view_kinds[kind].glyph : view_kinds[kind].ascii;
}

// One character of text[n] for this terminal: its bytes (ASCII: '?'), its columns.
static size_t next_cell(const struct screen *s, const char *text, size_t n, const char **out,
                        size_t *bytes, int *columns)
{
    utf8proc_int32_t c;
    utf8proc_ssize_t len = utf8proc_iterate((const utf8proc_uint8_t *)text, (utf8proc_ssize_t)n, &c);
    if (len <= 0) len = 1, c = '?';
    *columns = utf8proc_charwidth(c);
    *out = text;
    *bytes = (size_t)len;
    if (!s->utf8 && c >= 0x80) {
        const bool opens = c == 0x201c || c == 0x201d; // quotes have a twin
        *out = opens ? "\"" : c == 0x2026 ? "." : "?";
        *bytes = *columns > 0 ? 1 : 0;
        *columns = *columns > 0 ? 1 : 0;
    }
    return (size_t)len;
}

static int width_of(const struct screen *s, const char *text, size_t n)
{
    int all = 0;
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int columns;
        if (text[i] == '\033') { // colours take no room
            while (i < n && text[i] != 'm') i++;
            i++;
            continue;
        }
        i += next_cell(s, text + i, n - i, &out, &bytes, &columns);
        all += columns;
    }
    return all;
}

static void pad(struct screen *s, int n)
{
    for (int i = 0; i < n; i++) view_put(&s->t, " ", 1);
}

// text in exactly `columns` columns, cut with an ellipsis.
static void cell(struct screen *s, const char *text, size_t n, int columns, bool right)
{
    const int whole = width_of(s, text, n), room = whole > columns ? columns - 1 : columns;
    int used = 0;
    if (right && whole < columns) pad(s, columns - whole);
    for (size_t i = 0; i < n;) {
        const char *out;
        size_t bytes;
        int w;
        const size_t step = next_cell(s, text + i, n - i, &out, &bytes, &w);
        if (used + w > room) break;
        view_put(&s->t, out, bytes);
        used += w;
        i += step;
    }
    if (whole > columns && columns > 0) {
        view_say(&s->t, s->utf8 ? "…" : ".");
        used++;
    }
    if (!right || whole > columns) pad(s, columns - used);
}
static void cell_text(struct screen *s, const char *text, int columns, bool right)
{
    cell(s, text, strlen(text), columns, right);
}
static void token_cell(struct screen *s, int64_t token, int columns, bool right)
{
    struct view_text t = { 0 };
    const struct qkv_view_token *k = &s->v->shape.token[token];
    view_token_text(&t, k, k->special);
    s->t.failed |= t.failed;
    cell(s, t.at ? t.at : "", (size_t)t.used, columns, right);
    view_text_free(&t);
}
static void weight_cell(struct screen *s, double w)
{
    if (w >= .9995 || w != w)
        cell_text(s, w != w ? "  !" : "1.0", 3, true);
    else
        view_weight(&s->t, fmin(w, .99), 2);
}
static void line(struct screen *s)
{
    view_put(&s->t, "\n", 1);
}

// Text folded at the width of the terminal, the first line from column `at` on.
static void fold(struct screen *s, const char *text, size_t n, int at)
{
    bool first = true; // a blank stands between words only
    for (size_t i = 0; i < n;) {
        size_t end = i;
        while (end < n && text[end] != ' ') end++;
        const int w = width_of(s, text + i, end - i);
        if (at && at + !first + w > s->columns) {
            line(s);
            at = 0;
        }
        if (at && !first) view_put(&s->t, " ", 1), at++;
        first = false;
        for (size_t k = i; k < end;) { // a word longer than a line is broken
            const char *out;
            size_t bytes;
            int columns;
            k += next_cell(s, text + k, end - k, &out, &bytes, &columns);
            if (at + columns > s->columns) line(s), at = 0;
            view_put(&s->t, out, bytes);
            at += columns;
        }
        i = end + 1;
    }
    line(s);
}

// ---- header and atlas --------------------------------------------------------------------------
static void draw_header(struct screen *s)
{
    const struct qkv_view_shape *p = &s->v->shape;
    struct view_text t = { 0 };
    const char *times = s->utf8 ? "×" : "x";
    view_say(&t, "%s  %" PRId64 " layers %s %" PRId64 " heads %s %" PRId64 "  %" PRId64 " tokens",
             p->model ? p->model : "", p->layers, times, p->heads, times, p->head_width, s->shown_count);
    if (s->shown_count < p->tokens) view_say(&t, ", %" PRId64 " special hidden", p->tokens - s->shown_count);
    s->t.failed |= t.failed;
    sgr(s, "1");
    view_say(&s->t, "qkv  ");
    plain(s);
    quiet(s);
    if (t.at) fold(s, t.at, (size_t)t.used, 5);
    plain(s);
    line(s);
    view_text_free(&t);
}

static bool is_lit(const struct screen *s, int64_t head)
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
    return s->columns >= 28 ? (n + 1) / 2 : n;
}
static void draw_legend(struct screen *s, const enum view_kind *kinds, int n, int i)
{
    const int rows = legend_lines(s, n);
    if (i < rows) {
        for (int k = i; k < n; k += rows) {
            view_say(&s->t, "%s ", glyph(s, kinds[k]));
            cell_text(s, view_kinds[kinds[k]].name, 12, false);
        }
    } else if (i == rows + 1 && s->color) {
        view_say(&s->t, s->dark ? "brighter = more focused" : "darker = more focused");
    }
}

static void draw_atlas(struct screen *s)
{
    const struct qkv_view_shape *p = &s->v->shape;
    enum view_kind kinds[VIEW_KINDS];
    const int n = legend_kinds(s, kinds);
    const int wide = 10 + (int)qkv_min64(p->heads, 1000) * 3 <= s->columns ? 3 : 2;
    int64_t fit = p->heads;
    if (10 + fit * wide > s->columns) fit = (s->columns - 10 - 5) / wide; // " +999": what is left out
    const bool beside = 10 + fit * wide + 4 + 26 <= s->columns;
    quiet(s);
    cell_text(s, "   layer ", 10, false);
    for (int64_t h = 0; h < fit; h++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, h);
        if (is_lit(s, h)) plain(s), sgr(s, "1");
        cell_text(s, wide > 2 || h < 10 ? number : h % 2 ? "" : number, wide, true);
        plain(s);
        quiet(s);
    }
    plain(s);
    if (fit < p->heads) view_say(&s->t, " +%" PRId64, p->heads - fit);
    line(s);
    for (int64_t l = 0; l < p->layers; l++) {
        const bool here = l == s->st.layer;
        sgr(s, here ? "1" : "2");
        view_say(&s->t, here ? " >%6" PRId64 "  " : "%8" PRId64 "  ", l);
        plain(s);
        for (int64_t h = 0; h < fit; h++) {
            const struct view_stats *x = view_stats(s->v, l, h);
            const bool lit = here && is_lit(s, h);
            view_say(&s->t, wide > 2 ? lit && !s->color ? "[" : " " : "");
            ground(s, .7 * x->focus);
            if (lit) sgr(s, "1;4");
            view_say(&s->t, "%s", glyph(s, x->kind));
            if (lit && !s->color)
                view_say(&s->t, "]");
            else
                view_say(&s->t, " ");
            plain(s);
        }
        if (beside && l < legend_lines(s, n) + 2) {
            pad(s, 4);
            quiet(s);
            draw_legend(s, kinds, n, (int)l);
            plain(s);
        }
        line(s);
    }
    for (int i = beside ? (int)p->layers : 0; i < legend_lines(s, n); i++) {
        quiet(s);
        pad(s, beside ? 14 + (int)fit * wide : 0);
        draw_legend(s, kinds, n, i);
        plain(s);
        line(s);
    }
    line(s);
}

// ---- matrix ------------------------------------------------------------------------------------
static const char *block(const struct screen *s, double w)
{
    static const char *const blocks[2][5] = { { ".", "-", "+", "*", "#" }, { "·", "░", "▒", "▓", "█" } };
    const int k = w >= .5 ? 4 : w >= .3 ? 3 : w >= .15 ? 2 : w >= .05 ? 1 : 0;
    return blocks[s->utf8][k];
}

// A weight in hundredths, `columns` wide, from .05 on as a number too.
static void matrix_cell(struct screen *s, double w, int columns)
{
    char number[16] = "";
    if (w != w)
        snprintf(number, sizeof number, "!");
    else if (w >= .05)
        snprintf(number, sizeof number, "%d", w >= .995 ? 99 : (int)(100 * w + .5));
    if (s->color) {
        ground(s, pow(w, .7));
        cell_text(s, number, columns, true);
        plain(s);
        return;
    }
    pad(s, columns - 3);
    view_say(&s->t, "%s", block(s, w));
    cell_text(s, number, 2, true);
}

static void draw_matrix_head(struct screen *s, int64_t head, int wide, bool sink)
{
    view_say(&s->t, "layer %" PRId64 ", head %" PRId64, s->st.layer, head);
    quiet(s);
    if (s->columns > 70) view_say(&s->t, "   row asks, column is read, hundredths");
    plain(s);
    line(s);
    quiet(s);
    pad(s, s->label + 6);
    if (sink) view_say(&s->t, "sink ");
    for (int64_t k = 0; k < s->shown_count; k++) {
        char number[24];
        snprintf(number, sizeof number, "%" PRId64, s->shown[k] % (wide > 2 ? 1000 : 100));
        cell_text(s, number, wide, true);
    }
    plain(s);
    line(s);
}

static void draw_matrix(struct screen *s, int64_t head)
{
    const bool sink = s->shown_count < s->v->shape.tokens;
    const int before = s->label + 6 + (sink ? 5 : 0);
    const int best = s->color ? 3 : 4;
    int wide = best;
    while (!s->all && wide > best - 1 && before + s->shown_count * wide + 2 > s->columns) wide--;
    if (!s->all && (s->shown_count > MATRIX_TOKENS || before + s->shown_count * wide + 2 > s->columns))
        return; // the marked row says more than half a matrix
    draw_matrix_head(s, head, wide, sink);
    for (int64_t k = 0; k < s->shown_count; k++) {
        const int64_t i = s->shown[k];
        const bool marked = i == s->st.token;
        qkv_view_row(s->v, s->row, s->st.layer, head, i);
        quiet(s);
        view_say(&s->t, "%4" PRId64 " ", i);
        plain(s);
        if (marked) sgr(s, "1");
        token_cell(s, i, s->label, false);
        plain(s);
        pad(s, 1);
        double rest = 1;
        for (int64_t c = 0; c < s->shown_count; c++) rest -= s->row[s->shown[c]];
        if (sink) {
            matrix_cell(s, rest, 4);
            pad(s, 1);
        }
        for (int64_t c = 0; c < s->shown_count; c++) matrix_cell(s, s->row[s->shown[c]], wide);
        if (marked) view_say(&s->t, s->utf8 ? " ◂" : " <");
        line(s);
    }
    line(s);
}

// ---- the marked row ----------------------------------------------------------------------------
static void bar(struct screen *s, double w, int columns)
{
    static const char *const eighths[] = { "", "▏", "▎", "▍", "▌", "▋", "▊", "▉" };
    const int n = w != w ? 0 : (int)floor(fmin(fmax(w, 0), 1) * columns * 8 + .5);
    for (int i = 0; i < n / 8; i++) view_say(&s->t, s->utf8 ? "█" : "#");
    const bool part = s->utf8 && n % 8;
    if (part) view_say(&s->t, "%s", eighths[n % 8]);
    pad(s, columns - n / 8 - part);
}

// Lit heads from..end side by side: a line a key, then what is hidden.
static void draw_bars(struct screen *s, const int64_t *keys, int64_t n, int64_t from, int64_t end,
                      const float *rows)
{
    const int64_t T = s->v->shape.tokens;
    const int each = (int)((s->columns - s->label - 1) / (end - from)), long_ = each - 6;
    pad(s, s->label + 1);
    for (int64_t h = from; h < end; h++) {
        char name[40];
        snprintf(name, sizeof name, "head %" PRId64, s->st.head[h]);
        head_colour(s, head_hue(s, h));
        cell_text(s, name, each, false);
        plain(s);
    }
    line(s);
    for (int64_t k = 0; k <= n; k++) {
        double rest[VIEW_LIT] = { 0 };
        if (k == n) { // "rest": what no line above shows
            double all = 0;
            for (int64_t h = from; h < end; h++) {
                for (int64_t j = 0; j < T; j++) rest[h] += rows[h * T + j];
                for (int64_t j = 0; j < n; j++) rest[h] -= rows[h * T + keys[j]];
                all += fabs(rest[h]);
            }
            if (all < 1e-3) break;
            quiet(s);
            cell_text(s, s->shown_count == n ? "special" : "the rest", s->label + 1, false);
        } else {
            token_cell(s, keys[k], s->label, false);
            pad(s, 1);
        }
        plain(s);
        for (int64_t h = from; h < end; h++) {
            const double w = k == n ? fmax(rest[h], 0) : rows[h * T + keys[k]];
            if (w < .05) quiet(s);
            weight_cell(s, w);
            plain(s);
            pad(s, 1);
            if (k < n)
                head_colour(s, head_hue(s, h));
            else
                quiet(s);
            bar(s, w, long_ > 0 ? long_ : 0);
            plain(s);
            pad(s, each - 4 - (long_ > 0 ? long_ : 0));
        }
        line(s);
    }
}

static void draw_row(struct screen *s)
{
    const int64_t T = s->v->shape.tokens, lit = s->st.lit;
    float *rows = qkv_alloc((size_t)(lit * T), sizeof *rows), *top = qkv_alloc_zero((size_t)T, sizeof *top);
    int64_t *keys = qkv_alloc((size_t)s->shown_count + 1, sizeof *keys), n = 0;
    if (!rows || !top || !keys) {
        s->t.failed = true;
        goto done;
    }
    for (int64_t h = 0; h < lit; h++) {
        qkv_view_row(s->v, rows + h * T, s->st.layer, s->st.head[h], s->st.token);
        for (int64_t j = 0; j < T; j++)
            if (rows[h * T + j] > top[j]) top[j] = rows[h * T + j];
    }
    const int64_t most = s->shown_count > MATRIX_TOKENS && !s->all ? STRONGEST : s->shown_count;
    float least = 0; // the weight of the last key that is listed
    if (most < s->shown_count)
        for (int64_t round = 0; round < most; round++) {
            float next = -1;
            for (int64_t k = 0; k < s->shown_count; k++)
                if ((!round || top[s->shown[k]] < least) && top[s->shown[k]] > next) next = top[s->shown[k]];
            if (next >= 0) least = next;
        }
    for (int64_t k = 0; k < s->shown_count && n < most; k++)
        if (top[s->shown[k]] >= least) keys[n++] = s->shown[k];
    sgr(s, "1");
    struct view_text title = { 0 };
    view_quote(&title, &s->v->shape.token[s->st.token]);
    view_say(&title, " in layer %" PRId64 " reads", s->st.layer);
    s->t.failed |= title.failed;
    if (title.at) fold(s, title.at, (size_t)title.used, 0);
    view_text_free(&title);
    plain(s);
    const int64_t band = qkv_max64(1, (s->columns - s->label - 1) / 14);
    for (int64_t from = 0; from < lit; from += band)
        draw_bars(s, keys, n, from, qkv_min64(lit, from + band), rows);
    line(s);
done:
    qkv_free(rows);
    qkv_free(top);
    qkv_free(keys);
}

// ---- words -------------------------------------------------------------------------------------
// Where else the marked token reads what it reads most here.
static void say_elsewhere(struct screen *s, struct view_text *t)
{
    const struct qkv_view_shape *p = &s->v->shape;
    int64_t key = -1;
    float most = 0;
    for (int64_t h = 0; h < s->st.lit; h++) {
        qkv_view_row(s->v, s->row, s->st.layer, s->st.head[h], s->st.token);
        for (int64_t k = 0; k < s->shown_count; k++)
            if (s->row[s->shown[k]] > most) most = s->row[s->shown[k]], key = s->shown[k];
    }
    if (key < 0 || p->layers * p->heads < 2) return;
    struct {
        int64_t layer, head;
        float w;
    } best[4] = { { 0, 0, 0 } };
    for (int64_t l = 0; l < p->layers; l++)
        for (int64_t h = 0; h < p->heads; h++) {
            if (l == s->st.layer && is_lit(s, h)) continue;
            qkv_view_row(s->v, s->row, l, h, s->st.token);
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
    view_quote(t, &p->token[key]);
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
    if (t.at) fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
    line(s);
}

static void draw_words(struct screen *s)
{
    struct view_text t = { 0 };
    view_sentence(&t, s->v, &s->st);
    if (s->v->shape.tokens > 1 && s->st.token >= 0 && s->st.lit) say_elsewhere(s, &t);
    s->t.failed |= t.failed;
    if (t.at) fold(s, t.at, (size_t)t.used, 0);
    view_text_free(&t);
}

// Two blocks of lines side by side.
static void zip(struct screen *s, struct view_text *out, const char *a, const char *b, int column)
{
    while (*a || *b) {
        const size_t na = strcspn(a, "\n"), nb = strcspn(b, "\n");
        const int w = width_of(s, a, na);
        view_put(out, a, na);
        for (int i = w; nb && i < column; i++) view_put(out, " ", 1);
        view_put(out, b, nb);
        view_put(out, "\n", 1);
        a += na + (a[na] == '\n');
        b += nb + (b[nb] == '\n');
    }
}

static void draw(struct screen *s)
{
    const int all = s->columns;
    int64_t head = s->st.lit ? s->st.head[0] : 0; // of the lit, the one that reads most
    float most = -1;
    for (int64_t i = 0; i < s->st.lit; i++) {
        qkv_view_row(s->v, s->row, s->st.layer, s->st.head[i], s->st.token);
        for (int64_t k = 0; k < s->shown_count; k++)
            if (s->row[s->shown[k]] > most) most = s->row[s->shown[k]], head = s->st.head[i];
    }
    if (all < SIDE_BY_SIDE) {
        draw_header(s);
        if (!s->asked) draw_finding(s);
        draw_atlas(s);
        draw_matrix(s, head);
        if (s->st.lit) draw_row(s);
        draw_words(s);
        return;
    }
    struct view_text left, both = { 0 };
    s->columns = (all - 4) / 2;
    draw_header(s);
    if (!s->asked) draw_finding(s);
    draw_atlas(s);
    draw_matrix(s, head);
    left = s->t;
    s->t = (struct view_text){ .failed = left.failed };
    if (s->st.lit) draw_row(s);
    draw_words(s);
    if (!left.failed && !s->t.failed)
        zip(s, &both, left.at ? left.at : "", s->t.at ? s->t.at : "", s->columns + 4);
    both.failed |= left.failed | s->t.failed;
    view_text_free(&left);
    view_text_free(&s->t);
    s->t = both;
}

qkv_status qkv_view_terminal(const qkv_view *v, char **out, const struct qkv_view_options *o,
                             qkv_error *err)
{
    static const struct qkv_view_options none;
    *out = NULL;
    if (!o) o = &none;
    const int64_t T = v->shape.tokens;
    struct screen s = { .v = v, .color = o->color, .truecolor = o->truecolor, .utf8 = o->utf8,
                        .dark = o->theme != QKV_THEME_LIGHT, .all = o->all, .asked = o->token != NULL,
                        .columns = o->columns ? o->columns : 80 };
    if (s.columns < COLUMNS_LEAST) s.columns = COLUMNS_LEAST;
    qkv_status status = view_choose(&s.st, v, o, true, err);
    if (status) return status;
    s.row = qkv_alloc((size_t)T, sizeof *s.row);
    s.shown = qkv_alloc((size_t)T, sizeof *s.shown);
    if (!s.row || !s.shown) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    for (int64_t i = 0; i < T; i++) {
        if (!view_shown(v, &s.st, i)) continue;
        s.shown[s.shown_count++] = i;
        struct view_text t = { 0 };
        view_token_text(&t, &v->shape.token[i], v->shape.token[i].special);
        const int w = t.at ? width_of(&s, t.at, (size_t)t.used) : 0;
        if (w > s.label) s.label = w;
        view_text_free(&t);
    }
    if (s.label > LABEL_MOST) s.label = LABEL_MOST;
    if (s.label < 8) s.label = 8; // "the rest"
    if (s.label > s.columns / 2 - 2) s.label = s.columns / 2 - 2;
    draw(&s);
    if (s.t.failed || !s.t.at) {
        status = qkv_fail_memory(err, NULL);
        goto done;
    }
    *out = s.t.at;
    s.t = (struct view_text){ 0 };
done:
    view_text_free(&s.t);
    qkv_free(s.row);
    qkv_free(s.shown);
    return status;
}

void qkv_view_text_free(char *text)
{
    qkv_free(text);
}
