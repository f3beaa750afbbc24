// SPDX-License-Identifier: MIT
// picture_heads.c: draws "Which words attend to which?" in the same way as web/parts/diagram.js:
// queries left, keys right, links between them, and sums in the margins.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include <stdlib.h>

enum {
    HIGH = 620, // maximum height of the drawing, unless its lines would be too close
    PART_GAP = 26,
    MOST_LINKS = 4000,
    FEW = 64,    // a text of at most 64 tokens shows every link above the threshold
    LONG = 512,  // a longer text than this shows only the rows around the marked one
    AROUND = 30, // number of rows shown before and after the marked row
    LONG_KEYS = 90,
    NOTE = 300
};

// Positions of the columns: the right end of numbers and queries, the left end of keys and bars.
// effective_keys: 0: that column is not drawn.
struct columns {
    double stage, effective_keys, query_end, link_from, link_to, key, bars, bar_long;
};
static const struct columns wide_columns = { 808, 57, 190, 202, 534, 546, 670, 102 },
                            narrow_columns = { 380, 0, 102, 110, 206, 214, 296, 52 };

// A line of the left or right column: a token, or a gap that represents n tokens.
struct line {
    int64_t token; // -1: a gap
    int64_t n;
    double y;
};
struct link {
    int32_t selected, row, key;
    float w;
};
struct stage {
    struct picture *p;
    struct columns at;
    double row, top, left;
    int size; // font size of tokens
    struct line *query, *key;
    int64_t queries, keys;
    double *y; // [S + key_padding] y coordinate of each key; NaN: the key is not shown
    struct link *link;
    int64_t links, capacity;
    // over the shown rows: the total weight, the weight on hidden keys, the weight of the drawn
    // links, and the smallest weight that is drawn
    double all, hidden, shown, weakest;
};

static double threshold(const struct stage *g, int64_t row)
{
    return picture_threshold(g->p->v, g->p->st.layer, row);
}
static void load_row(struct stage *g, int64_t selected, int64_t row)
{
    const struct picture *p = g->p;
    if (row < p->v->shape.tokens)
        view_row(p->row, p->v, p->st.layer, p->st.head[selected], row);
    else // a padding token attends to no key
        memset(p->row, 0, (size_t)p->v->shape.keys * sizeof *p->row);
}

// ---- positions ----------------------------------------------------------------------------------
static bool part_begins(const struct stage *g, const struct qkv_view_token *token,
                        const struct line *l, int64_t at)
{
    return g->p->v->pair && at && l[at].token >= 0 && l[at - 1].token >= 0 &&
           token[l[at].token].part != token[l[at - 1].token].part;
}
// Computes the y coordinates of the lines of a column. pitch: distance between two lines.
static double place_lines(struct stage *g, struct line *l, int64_t n,
                          const struct qkv_view_token *token, double pitch)
{
    double y = g->top;
    for (int64_t i = 0; i < n; i++) {
        if (part_begins(g, token, l, i)) y += PART_GAP;
        l[i].y = y + pitch / 2;
        y += pitch;
    }
    return y;
}

// Chooses the keys with the largest weights in the shown rows, and lists them in the order of the
// text. The keys between them become gaps.
static void strong_keys(struct stage *g)
{
    struct picture *p = g->p;
    const int64_t S = p->v->shape.keys;
    float *most = qkv_alloc_zero((size_t)S, sizeof *most),
          *sorted = qkv_alloc((size_t)S, sizeof *sorted);
    if (!most || !sorted) {
        p->canvas.failed = true;
        goto done;
    }
    for (int64_t h = 0; h < p->st.selected; h++)
        for (int64_t i = 0; i < g->queries; i++) {
            load_row(g, h, g->query[i].token);
            for (int64_t j = 0; j < S; j++)
                if (p->row[j] > most[j] && view_key_shown(p->v, &p->st, j)) most[j] = p->row[j];
        }
    for (int64_t j = 0; j < S; j++) sorted[j] = -most[j];
    float least = 0;
    // partial selection sort: after step k, sorted[k] is the k-th largest weight (negated)
    for (int64_t k = 0; k < LONG_KEYS && k < S; k++) {
        int64_t at = k;
        for (int64_t j = k + 1; j < S; j++)
            if (sorted[j] < sorted[at]) at = j;
        const float swap = sorted[k];
        sorted[k] = sorted[at];
        sorted[at] = swap;
        least = -sorted[k];
    }
    int64_t gap = 0;
    for (int64_t j = 0, own = 0; j < S; j++) {
        if (most[j] > 0 && most[j] >= least && own < LONG_KEYS) {
            if (gap) g->key[g->keys++] = (struct line){ -1, gap, 0 };
            g->key[g->keys++] = (struct line){ j, 0, 0 };
            gap = 0;
            own++;
        } else {
            gap++;
        }
    }
    if (gap) g->key[g->keys++] = (struct line){ -1, gap, 0 };
done:
    qkv_free(most);
    qkv_free(sorted);
}

static bool take_lines(struct stage *g)
{
    struct picture *p = g->p;
    const int64_t T = p->v->shape.tokens, S = p->v->shape.keys;
    const bool is_long = T > LONG || S > LONG;
    const int64_t queries = p->row_count + p->row_padding, keys = p->key_count + p->key_padding;
    g->query = qkv_alloc((size_t)queries + 1, sizeof *g->query);
    g->key = qkv_alloc((size_t)qkv_max64(keys, 2 * LONG_KEYS) + 2, sizeof *g->key);
    g->y = qkv_alloc((size_t)(S + p->v->shape.key_padding), sizeof *g->y);
    if (!g->query || !g->key || !g->y) return false;
    for (int64_t i = 0; i < queries; i++)
        if (!is_long ||
            (i < p->row_count && llabs((long long)(p->rows[i] - p->st.token)) <= AROUND))
            g->query[g->queries++] = (struct line){ p->rows[i], 0, 0 };
    if (is_long) {
        strong_keys(g);
    } else {
        for (int64_t j = 0; j < keys; j++) g->key[g->keys++] = (struct line){ p->keys[j], 0, 0 };
    }
    const int64_t most = qkv_max64(1, qkv_max64(g->queries, g->keys));
    g->row = fmax(18, fmin(57, (HIGH - 34 - (p->v->pair ? PART_GAP : 0)) / (double)most));
    g->size = g->row >= 24 ? 16 : 13;
    return true;
}

// ---- links --------------------------------------------------------------------------------------
static void add_link(struct stage *g, int64_t selected, int64_t row, int64_t key, float w)
{
    if (g->p->canvas.failed ||
        !qkv_reserve((void **)&g->link, &g->capacity, g->links + 1, sizeof *g->link)) {
        g->p->canvas.failed = true;
        return;
    }
    g->link[g->links++] = (struct link){ (int32_t)selected, (int32_t)row, (int32_t)key, w };
}

static int stronger(const void *a, const void *b)
{
    const struct link *x = a, *y = b;
    if (x->w != y->w) return (x->w < y->w) - (x->w > y->w);
    if (x->selected != y->selected) return x->selected - y->selected;
    return x->row != y->row ? x->row - y->row : x->key - y->key;
}

static void take_links(struct stage *g)
{
    struct picture *p = g->p;
    for (int64_t h = 0; h < p->st.selected; h++)
        for (int64_t i = 0; i < g->queries; i++) {
            const double tau = threshold(g, g->query[i].token);
            load_row(g, h, g->query[i].token);
            for (int64_t j = 0; j < p->v->shape.keys; j++) {
                const float w = p->row[j];
                if (!(w > 0)) continue;
                g->all += (double)w;
                if (!view_key_shown(p->v, &p->st, j)) g->hidden += (double)w;
                if (g->y[j] == g->y[j] && (double)w > tau) add_link(g, h, i, j, w);
            }
        }
    if (g->links > 1) qsort(g->link, (size_t)g->links, sizeof *g->link, stronger);
    if (p->row_count > FEW || p->key_count > FEW) g->links = qkv_min64(g->links, MOST_LINKS);
    for (int64_t i = 0; i < g->links; i++) g->shown += (double)g->link[i].w;
    g->weakest = g->links ? (double)g->link[g->links - 1].w : 0;
}

static void draw_links(struct stage *g)
{
    const struct picture *p = g->p;
    const double m = (double)p->st.selected;
    const double apart = p->st.selected > 1 ? fmin(3.4, .58 * g->row / (m - 1)) : 0;
    for (int64_t i = g->links; i-- > 0;) { // draw the strongest links last, so that they are on top
        const struct link *l = &g->link[i];
        const struct line *from = &g->query[l->row];
        const double tau = threshold(g, from->token),
                     lane = ((double)l->selected - (m - 1) / 2) * apart;
        const bool off =
            (p->marked && from->token != p->st.token) || (p->key >= 0 && l->key != p->key);
        canvas_link(&g->p->canvas, g->left + g->at.link_from, from->y + lane,
                    g->left + g->at.link_to, g->y[l->key] + lane,
                    picture_link_color(p, l->selected), ((double)l->w - tau) / (1 - tau), off);
    }
}

// ---- columns and margins ------------------------------------------------------------------------
static void draw_mark(struct stage *g, int64_t index, double x, double y, double high, bool query)
{
    struct view_text t = { 0 };
    (query ? view_name_row : view_name_key)(&t, g->p->v, index);
    g->p->canvas.failed |= t.failed;
    const double most =
        query ? g->at.query_end - g->at.effective_keys - 10 : g->at.bars - g->at.key - 8;
    const double w =
        t.at ? fmin(most, canvas_width(&g->p->canvas, t.at, (size_t)t.used, g->size, CANVAS_BOLD))
             : 0;
    canvas_box(&g->p->canvas, query ? x - w - 6 : x - 6, y - high / 2, w + 12, high, PALETTE_MARK);
    view_text_free(&t);
}

// Writes next to a gap, which begins at key `first`, how many keys it replaces, and how much weight
// the marked row has on them (the mean of the selected heads).
static void draw_gap(struct stage *g, const struct line *l, int64_t first)
{
    struct view_text t = { 0 };
    double sum = 0;
    for (int64_t h = 0; h < g->p->st.selected; h++) {
        load_row(g, h, g->p->st.token);
        for (int64_t j = first; j < first + l->n; j++)
            if (g->p->row[j] > 0) sum += (double)g->p->row[j] / (double)g->p->st.selected;
    }
    view_say(&t, "… ");
    view_count(&t, l->n);
    view_say(&t, l->n == 1 ? " token, " : " tokens, ");
    view_weight(&t, sum, 3);
    g->p->canvas.failed |= t.failed;
    if (t.at)
        canvas_text(&g->p->canvas, g->left + g->at.key, l->y + 4, 11, 0, PALETTE_TEXT3, t.at,
                    (size_t)t.used);
    view_text_free(&t);
}

static void draw_tokens(struct stage *g)
{
    struct picture *p = g->p;
    struct canvas *s = &p->canvas;
    const double high = g->row > 30 ? g->row - 6 : g->row, base = g->size * .35;
    for (int64_t i = 0; i < g->queries; i++) {
        const int64_t row = g->query[i].token;
        const bool mark = p->marked && row == p->st.token;
        const double y = g->query[i].y;
        if (mark) draw_mark(g, row, g->left + g->at.query_end, y, fmin(high, 30), true);
        if (part_begins(g, p->v->shape.token, g->query, i))
            canvas_line(s, g->left, y - (g->row + PART_GAP) / 2, g->left + g->at.stage,
                        y - (g->row + PART_GAP) / 2, PALETTE_RULE, 1);
        picture_name(s, p->v, row, false, g->left + g->at.query_end, y + base, g->size,
                     CANVAS_END | (mark ? CANVAS_BOLD : 0),
                     row < p->v->shape.tokens ? PALETTE_TEXT : PALETTE_TEXT3,
                     g->at.query_end - g->at.effective_keys - 10);
    }
    for (int64_t j = 0; j < g->keys; j++) {
        const struct line *l = &g->key[j];
        if (l->token < 0) {
            draw_gap(g, l, j ? g->key[j - 1].token + 1 : 0);
            continue;
        }
        if (l->token == p->key)
            draw_mark(g, l->token, g->left + g->at.key, l->y, fmin(high, 30), false);
        picture_name(s, p->v, l->token, true, g->left + g->at.key, l->y + base, g->size, 0,
                     l->token < p->v->shape.keys ? PALETTE_TEXT : PALETTE_TEXT3,
                     g->at.bars - g->at.key - 8);
    }
}

static void draw_number(struct stage *g, double x, double y, unsigned how, int color, double value,
                        bool weight)
{
    struct view_text t = { 0 };
    if (weight)
        view_weight(&t, value, 2);
    else
        view_number(&t, value, 1);
    g->p->canvas.failed |= t.failed;
    if (t.at)
        canvas_text(&g->p->canvas, x, y + 4, g->row < 24 ? 11 : 12, how, color, t.at,
                    (size_t)t.used);
    view_text_free(&t);
}

// Draws the left margin: the effective keys of each row, 2^(entropy in bits), as the mean of the
// selected heads.
static void draw_effective_keys(struct stage *g)
{
    struct picture *p = g->p;
    const int64_t S = p->v->shape.keys;
    if (!(g->at.effective_keys > 0)) return;
    for (int64_t i = 0; i < g->queries && view_whole(p->v, p->st.layer); i++) {
        double keys = 0;
        if (g->query[i].token >= p->v->shape.tokens) break; // only padding follows
        for (int64_t h = 0; h < p->st.selected; h++) {
            double entropy = 0;
            load_row(g, h, g->query[i].token);
            for (int64_t j = 0; j < S; j++)
                if (p->row[j] > 0) entropy -= (double)p->row[j] * log((double)p->row[j]);
            keys += exp(entropy);
        }
        draw_number(g, g->left + g->at.effective_keys, g->query[i].y, CANVAS_END, PALETTE_TEXT3,
                    keys / (double)qkv_max64(1, p->st.selected), false);
    }
}

// Draws the right margin. If a row is marked: the weights of that row, one bar per head. If no row
// is marked: the weight that each key receives from the shown rows.
static void draw_received(struct stage *g)
{
    struct picture *p = g->p;
    const size_t S = (size_t)(p->v->shape.keys + p->v->shape.key_padding);
    double *got = qkv_alloc_zero(S, sizeof *got), most = .01; // .00 is no bar
    if (!got) {
        p->canvas.failed = true;
        return;
    }
    for (int64_t h = 0; h < p->st.selected; h++)
        for (int64_t i = 0; i < g->queries; i++) {
            load_row(g, h, g->query[i].token);
            for (int64_t j = 0; j < p->v->shape.keys; j++)
                if (p->row[j] > 0) got[j] += (double)p->row[j] / (double)p->st.selected;
        }
    for (int64_t j = 0; j < g->keys; j++)
        if (g->key[j].token >= 0) most = fmax(most, got[g->key[j].token]);
    const double thick = g->row < 24 ? 3 : 6;
    for (int64_t j = 0; j < g->keys; j++) {
        if (g->key[j].token < 0) continue;
        const double w = got[g->key[j].token], wide = fmax(1, w / most * g->at.bar_long);
        canvas_box(&p->canvas, g->left + g->at.bars, g->key[j].y - thick / 2, wide, thick,
                   PALETTE_TEXT3);
        draw_number(g, g->left + g->at.bars + wide + 6, g->key[j].y, 0, PALETTE_TEXT2, w, true);
    }
    qkv_free(got);
}

static void draw_bars(struct stage *g)
{
    struct picture *p = g->p;
    const double m = (double)qkv_max64(1, p->st.selected),
                 thick = fmax(1, fmin(6, (g->row - 5) / m));
    const size_t S = (size_t)(p->v->shape.keys + p->v->shape.key_padding);
    float *most = qkv_alloc_zero(S, sizeof *most);
    if (!most) {
        p->canvas.failed = true;
        return;
    }
    for (int64_t h = 0; h < p->st.selected; h++) {
        load_row(g, h, p->st.token);
        for (int64_t j = 0; j < g->keys; j++) {
            const int64_t at = g->key[j].token;
            if (at < 0 || !(p->row[at] > 0)) continue;
            const double w = (double)p->row[at];
            if (p->row[at] > most[at]) most[at] = p->row[at];
            if (w >= .002)
                canvas_box(&p->canvas, g->left + g->at.bars,
                           g->key[j].y + ((double)h - m / 2) * thick, fmax(1, w * g->at.bar_long),
                           thick - (thick > 3 ? 1 : 0), picture_link_color(p, h));
        }
    }
    for (int64_t j = 0; j < g->keys; j++) {
        const int64_t at = g->key[j].token;
        if (at < 0 || (most[at] < .005f && g->keys > FEW)) continue;
        const double w = (double)most[at];
        draw_number(g, g->left + g->at.bars + fmax(1, w * g->at.bar_long) + 6, g->key[j].y, 0,
                    w >= .05 ? PALETTE_TEXT : PALETTE_TEXT3, w, true);
    }
    qkv_free(most);
}

// ---- captions ----------------------------------------------------------------------------------
// Draws the names of the selected heads, with their colours and kinds. Returns the y coordinate
// below them.
static double draw_chips(struct stage *g, double y)
{
    struct picture *p = g->p;
    struct canvas *s = &p->canvas;
    enum { EACH = 88, TALL = 34 };
    const int64_t each = (int64_t)((g->at.stage + 6) / EACH);
    for (int64_t i = 0; i < p->st.selected; i++) {
        const struct view_stats *x = view_stats(p->v, p->st.layer, p->st.head[i]);
        const double left = g->left + (double)(i % each) * EACH,
                     top = y + (double)(i / each) * (TALL + 8);
        canvas_box(s, left, top, 3, TALL, picture_link_color(p, i));
        canvas_format(s, left + 10, top + 13, 13, CANVAS_BOLD, PALETTE_TEXT, "head %" PRId64,
                      p->st.head[i]);
        const char *kind = x->kind < VIEW_KINDS ? view_kind_table[x->kind].name : "";
        canvas_format(s, left + 10, top + 28, 11, 0, PALETTE_TEXT2, "%s", kind);
    }
    return y + (double)qkv_ceil_div(qkv_max64(1, p->st.selected), each) * (TALL + 8);
}

static void draw_headings(struct stage *g, double y)
{
    const bool cross = strcmp(g->p->v->shape.name, "cross") == 0;
    const struct {
        double x;
        unsigned how;
        const char *text;
    } heads[] = { { 0, 0, g->at.effective_keys > 0 ? "effective keys" : "" },
                  { g->at.query_end, CANVAS_END, cross ? "written token" : "query token" },
                  { g->at.key, 0, cross ? "source token" : "key token" } };
    for (size_t i = 0; i < sizeof heads / sizeof *heads; i++)
        canvas_format(&g->p->canvas, g->left + heads[i].x, y, 11, heads[i].how, PALETTE_TEXT2, "%s",
                      heads[i].text);
    canvas_format(&g->p->canvas, g->left + g->at.bars, y, 11, 0, PALETTE_TEXT2, "%s",
                  g->p->marked               ? "weight"
                  : g->at.effective_keys > 0 ? "attention received"
                                             : "received");
}

// Writes how many links are not drawn, and their share of the weight of the shown rows.
static void describe_rest(struct stage *g, double y)
{
    const struct picture *p = g->p;
    struct view_text t = { 0 };
    const double all = g->all > 0 ? g->all : 1,
                 rest = fmax(0, (g->all - g->hidden - g->shown) / all);
    const int64_t special = p->v->shape.keys - p->key_count;
    if (p->key_padding)
        view_say(&t, "%" PRId64 " padding token%s masked. ", p->key_padding,
                 p->key_padding == 1 ? " is" : "s are");
    if (special) {
        view_say(&t, "%" PRId64 " special token%s hidden: ", special, special == 1 ? "" : "s");
        view_weight(&t, g->hidden / all, 2);
        view_say(&t, " of the weight is on them. ");
    }
    view_count(&t, g->links);
    view_say(&t, " link%s drawn, each above half the uniform weight", g->links == 1 ? "" : "s");
    if (g->links == MOST_LINKS) {
        view_say(&t, ", only the strongest, down to ");
        view_weight(&t, g->weakest, 3);
    }
    view_say(&t, "; ");
    view_weight(&t, rest, 2);
    view_say(&t, " of the weight is not drawn.");
    if (!view_whole(p->v, p->st.layer))
        view_say(&t, " Of each row, only the largest weights are stored.");
    if (g->queries < p->row_count) {
        view_say(&t, " ");
        view_count(&t, g->queries);
        view_say(&t, " of ");
        view_count(&t, p->row_count);
        view_say(&t, " rows are shown: those around the marked row.");
    }
    g->p->canvas.failed |= t.failed;
    if (t.at)
        g->p->canvas.height =
            canvas_fold(&g->p->canvas, g->left, y, g->at.stage, 11, 0, PALETTE_TEXT3, t.at, 15) + 4;
    view_text_free(&t);
}

static void draw_parts(struct stage *g)
{
    if (!g->p->v->pair || !g->queries) return;
    for (int64_t i = 0; i < g->queries; i++)
        if (!i || part_begins(g, g->p->v->shape.token, g->query, i))
            canvas_format(&g->p->canvas, g->left, g->query[i].y + 5, 16,
                          CANVAS_SERIF | CANVAS_ITALIC, PALETTE_TEXT2,
                          g->p->v->shape.token[g->query[i].token].part ? "B" : "A");
}

static void begin(struct picture *p, double wide)
{
    struct view_text sentence = { 0 };
    view_sentence(&sentence, p->v, &p->st);
    canvas_new(&p->canvas, wide + 2 * p->margin, p->question, sentence.at);
    p->canvas.failed |= sentence.failed;
    view_text_free(&sentence);
}

qkv_status picture_heads(struct picture *p, qkv_error *err)
{
    struct stage g = { .p = p, .left = p->margin };
    g.at = p->column ? narrow_columns : wide_columns;
    begin(p, g.at.stage);
    if (p->v->shape.tokens > LONG || p->v->shape.keys > LONG) p->marked = true;
    if (!take_lines(&g)) {
        p->canvas.failed = true;
        goto done;
    }
    double y = draw_chips(&g, canvas_head(&p->canvas, g.left) - 4) + 16;
    draw_headings(&g, y);
    g.top = y + 8;
    // if only some rows are shown, they are spread over the height of the column of keys
    const bool spread = g.queries < p->row_count && g.keys > g.queries;
    double end = place_lines(&g, g.query, g.queries, p->v->shape.token,
                             spread ? g.row * (double)g.keys / (double)g.queries : g.row);
    end = fmax(end, place_lines(&g, g.key, g.keys, p->v->shape.key, g.row));
    for (int64_t j = 0; j < p->v->shape.keys + p->v->shape.key_padding; j++) g.y[j] = NAN;
    for (int64_t j = 0; j < g.keys; j++)
        if (g.key[j].token >= 0) g.y[g.key[j].token] = g.key[j].y;
    take_links(&g);
    draw_links(&g);
    draw_tokens(&g);
    draw_parts(&g);
    draw_effective_keys(&g);
    if (p->marked)
        draw_bars(&g);
    else
        draw_received(&g);
    describe_rest(&g, end + 22);
done:
    qkv_free(g.query);
    qkv_free(g.key);
    qkv_free(g.y);
    qkv_free(g.link);
    (void)err;
    return QKV_OK;
}
