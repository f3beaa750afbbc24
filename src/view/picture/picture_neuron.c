// SPDX-License-Identifier: MIT
// picture_neuron.c: draws "Which dimensions make this weight?" in the same way as
// web/views/neuron.js: a query and a key, their products and the running sum of the products, all
// by dimension; the products for every other key; and the steps from score to weight.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>

enum {
    FULL = 900,
    NAMES = 100,
    NAMES_NARROW = 92,
    NUMBERS = 112,
    SIDE = 300,
    GAP = 36,
    // Up to MOST_BARS products each have a bar; if there are more, only the KEPT_BARS largest have
    // one, and the sum of the others has one more bar.
    MOST_BARS = 128,
    KEPT_BARS = 64,
    STRIP = 20,
    SHADES = 8,
    TOLD = 8
};

struct neuron {
    struct picture *p;
    struct score s;
    struct score_line line[SCORE_LINES];
    int lines;
    int64_t key;
    // left: of the names; full: width of all columns; wide: of the bars; side: left ends of the
    // chain and of the largest products
    double left, full, names, wide, side[2];
    // bars: dimensions with a bar of their own; rest: dimensions that share one more bar
    int64_t bars, rest;
    int64_t *order;  // [E] dimensions in the order of their bars, those with their own bar first
    double *product; // [E] product of query and key in each dimension
    double *x;       // [max(E, F) + 1]
};

static double product_of(const struct neuron *g, int64_t key, int64_t e)
{
    return (double)g->s.q[e] * score_k(&g->s, key, e);
}

// Orders the dimensions for drawing. If E <= MOST_BARS, they stay in their order. If there are
// more, the KEPT_BARS dimensions with the largest products come first, in their order, then the
// others.
static void order_dimensions(struct neuron *g)
{
    const int64_t E = g->s.E;
    for (int64_t e = 0; e < E; e++) {
        g->product[e] = product_of(g, g->key, e);
        g->order[e] = e;
    }
    g->bars = E;
    if (E <= MOST_BARS) return;
    // step k moves the dimension with the k-th largest product to index k
    for (int64_t k = 0; k < KEPT_BARS; k++) {
        int64_t best = k;
        for (int64_t i = k + 1; i < E; i++)
            if (fabs(g->product[g->order[i]]) > fabs(g->product[g->order[best]])) best = i;
        const int64_t swap = g->order[k];
        g->order[k] = g->order[best];
        g->order[best] = swap;
    }
    for (int64_t i = 1; i < KEPT_BARS; i++)
        for (int64_t j = i; j > 0 && g->order[j] < g->order[j - 1]; j--) {
            const int64_t swap = g->order[j];
            g->order[j] = g->order[j - 1];
            g->order[j - 1] = swap;
        }
    g->bars = KEPT_BARS;
    g->rest = E - KEPT_BARS;
}

// Computes the products of the query with a key, in the order of the bars: g->x[bars]. If some
// dimensions have no bar of their own, the sum of their products follows. Returns the number of
// bars.
static int64_t take_products(struct neuron *g, int64_t key)
{
    for (int64_t i = 0; i < g->bars; i++) g->x[i] = product_of(g, key, g->order[i]);
    if (!g->rest) return g->bars;
    g->x[g->bars] = 0;
    for (int64_t i = g->bars; i < g->s.E; i++) g->x[g->bars] += product_of(g, key, g->order[i]);
    return g->bars + 1;
}

static double largest(const double *x, int64_t n)
{
    double most = 1e-12;
    for (int64_t i = 0; i < n; i++) most = fmax(most, fabs(x[i]));
    return most;
}

// ---- bands --------------------------------------------------------------------------------------
struct band {
    const char *name;
    int64_t row, key; // the row or the key whose name is written; -1: none
    double tall, most, opacity;
};

// Draws the values g->x[n] as a band of bars at y. Returns the y coordinate below the band.
static double draw_band(struct neuron *g, const struct band *b, int64_t n, double wide, double y)
{
    struct canvas *s = &g->p->canvas;
    const double mid = y + b->tall / 2;
    const bool named = b->row >= 0 || b->key >= 0;
    canvas_format(s, g->left + g->names - 14, mid - (named ? 3 : -4), 12, CANVAS_END, PALETTE_TEXT2,
                  "%s", b->name);
    if (named)
        picture_name(s, g->p->v, b->key >= 0 ? b->key : b->row, b->key >= 0,
                     g->left + g->names - 14, mid + 13, 13, CANVAS_END | CANVAS_BOLD, PALETTE_TEXT,
                     g->names - 16);
    picture_bars(s, g->x, n, g->left + g->names, mid, wide, b->tall - 8, b->most, b->opacity);
    return y + b->tall;
}

static double draw_vector(struct neuron *g, bool query, double most, double y)
{
    const struct band b = {
        query ? "q of" : "k of", query ? g->s.row : -1, query ? -1 : g->key, 64, most, .75
    };
    for (int64_t i = 0; i < g->bars; i++)
        g->x[i] = query ? (double)g->s.q[g->order[i]] : score_k(&g->s, g->key, g->order[i]);
    const double part = (double)g->bars / (double)(g->bars + (g->rest > 0));
    return draw_band(g, &b, g->bars, g->wide * part, y);
}

// Draws the running sum of the products as a step line, from 0 to the score.
static double draw_running(struct neuron *g, double y)
{
    enum { TALL = 72 };
    struct canvas *s = &g->p->canvas;
    const int64_t n = take_products(g, g->key);
    double low = 0, high = 0, sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += g->x[i];
        low = fmin(low, sum);
        high = fmax(high, sum);
    }
    const double top = y + 12, range = fmax(1e-12, high - low), capacity = TALL - 16;
    const double zero = top + high / range * capacity, left = g->left + g->names;
    canvas_format(s, left - 14, zero + 4, 12, CANVAS_END, PALETTE_TEXT2, "running sum");
    canvas_line(s, left, zero, left + g->wide, zero, PALETTE_RULE, 1);
    canvas_path(s, PALETTE_NONE, PALETTE_TEXT, 1.5, 1);
    canvas_move_to(s, left, zero);
    sum = 0;
    for (int64_t i = 0; i < n; i++) {
        sum += g->x[i];
        const double level = top + (high - sum) / range * capacity;
        canvas_line_to(s, left + g->wide * (double)i / (double)n, level);
        canvas_line_to(s, left + g->wide * (double)(i + 1) / (double)n, level);
    }
    picture_number(s, left + g->wide + 10, top + (high - sum) / range * capacity + 4.5, 13,
                   CANVAS_BOLD, PALETTE_TEXT, g->s.dot[g->key], 2);
    return y + TALL + 8;
}

static double draw_values(struct neuron *g, double y)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    canvas_line(canvas, g->left, y + 6, g->left + g->full, y + 6, PALETTE_TEXT, 1);
    if (!s->F) {
        static const char none[] = "the view does not contain the values of this layer";
        canvas_cut(canvas, g->left + g->names, y + 24, 12, 0, PALETTE_TEXT2, none, sizeof none - 1,
                   g->full - g->names);
        return y + 34;
    }
    y += 14;
    double *v = qkv_alloc((size_t)s->F, sizeof *v);
    if (!v) {
        canvas->failed = true;
        return y;
    }
    for (int64_t e = 0; e < s->F; e++) v[e] = (double)s->value[g->key * s->F + e];
    const double most = largest(v, s->F), w = s->w[g->key];
    double *const own = g->x;
    g->x = v;
    y = draw_band(g, &(struct band){ "v of", -1, g->key, 56, most, .75 }, s->F, g->wide, y);
    for (int64_t e = 0; e < s->F; e++) v[e] *= w;
    struct view_text t = { 0 };
    view_say(&t, "× ");
    view_weight(&t, w, 3);
    canvas->failed |= t.failed;
    if (t.at)
        canvas_text(canvas, g->left + g->names + g->wide + 10, y + 32, 13, CANVAS_BOLD,
                    PALETTE_TEXT, t.at, (size_t)t.used);
    view_text_free(&t);
    y = draw_band(g, &(struct band){ "w v", -1, -1, 56, most, 1 }, s->F, g->wide, y);
    g->x = own;
    qkv_free(v);
    return y;
}

// ---- the products for every key ----------------------------------------------------------------
static void draw_strip(struct neuron *g, int64_t key, double y, double most)
{
    struct canvas *s = &g->p->canvas;
    const int64_t n = take_products(g, key);
    const double step = g->wide / (double)n, gap = step > 4 ? 1 : 0;
    for (int64_t i = 0; i < n; i++) {
        const double part = ceil(SHADES * sqrt(fmin(1, fabs(g->x[i]) / most))) / SHADES;
        if (part > 0)
            canvas_box(s, g->left + g->names + (double)i * step, y + 2, step - gap, STRIP - 4,
                       palette_signed(g->x[i] < 0 ? -part : part));
    }
}

static double draw_keys(struct neuron *g, double y)
{
    const struct score *k = &g->s;
    struct canvas *s = &g->p->canvas;
    double most = 1e-12;
    for (int i = 0; i < g->lines; i++)
        if (g->line[i].key >= 0) {
            const int64_t n = take_products(g, g->line[i].key);
            most = fmax(most, largest(g->x, n));
        }
    static const char note[] =
        "one column per dimension; blue raises the score, orange lowers it; then score and weight";
    canvas_format(s, g->left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, "The same products for every key");
    if (g->p->column)
        y = canvas_fold(s, g->left, y + 15, g->full, 11, 0, PALETTE_TEXT3, note, 15) - 15;
    else
        canvas_format(s, 0, 0, 11, CANVAS_AFTER, PALETTE_TEXT3, "%s", note);
    y += 12;
    for (int i = 0; i < g->lines; i++, y += STRIP) {
        const struct score_line *l = &g->line[i];
        const double mid = y + STRIP / 2.0;
        const bool on = l->key == g->key;
        const unsigned how = CANVAS_END | (on ? CANVAS_BOLD : 0);
        if (l->key < 0) {
            struct view_text t = { 0 };
            view_say(&t, "… ");
            view_count(&t, l->n);
            view_say(&t, l->masked ? " keys masked" : " keys: ");
            if (!l->masked) view_weight(&t, l->w, 3);
            s->failed |= t.failed;
            if (t.at)
                canvas_text(s, g->left + g->names, mid + 4, 12, 0, PALETTE_TEXT2, t.at,
                            (size_t)t.used);
            view_text_free(&t);
            continue;
        }
        if (on) canvas_box(s, g->left, y, g->full, STRIP, PALETTE_MARK);
        if (on) canvas_box(s, g->left + g->names, y + 1, g->wide, STRIP - 2, PALETTE_PAPER);
        picture_name(s, g->p->v, l->key, true, g->left + g->names - 8, mid + 4.5, 13, how,
                     PALETTE_TEXT, g->names - 10);
        draw_strip(g, l->key, y, most);
        const double end = g->left + g->full;
        picture_number(s, end - 52, mid + 4.5, 12, how, PALETTE_TEXT, k->dot[l->key], 2);
        if (l->masked) {
            canvas_hatch(s, g->left + g->names, y + 2, g->wide, STRIP - 4);
            canvas_format(s, end, mid + 4.5, 11, CANVAS_END, PALETTE_TEXT2, "masked");
        } else {
            picture_weight(s, end, mid + 4.5, 12, how, PALETTE_TEXT, k->w[l->key], 3);
        }
    }
    return y;
}

// ---- from score to weight -----------------------------------------------------------------------
static void put_pair(struct neuron *g, double *y, const char *name, double value, int digits,
                     bool bold)
{
    struct canvas *s = &g->p->canvas;
    const double left = g->side[0];
    canvas_format(s, left, *y, 13, bold ? CANVAS_BOLD : 0, PALETTE_TEXT, "%s", name);
    if (digits < 0)
        picture_weight(s, left + SIDE, *y, 13, CANVAS_END | (bold ? CANVAS_BOLD : 0), PALETTE_TEXT,
                       value, -digits);
    else
        picture_number(s, left + SIDE, *y, 13, CANVAS_END | (bold ? CANVAS_BOLD : 0), PALETTE_TEXT,
                       value, digits);
    *y += 22;
}

static double draw_chain(struct neuron *g, double y)
{
    const struct score *k = &g->s;
    struct canvas *s = &g->p->canvas;
    struct view_text t = { 0 };
    const double left = g->side[0];
    canvas_format(s, left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, "From score to weight");
    y += 24;
    put_pair(g, &y, "q · k", k->dot[g->key], 3, false);
    view_say(&t, "÷ ");
    score_root(&t, k);
    s->failed |= t.failed;
    put_pair(g, &y, t.at ? t.at : "", k->dot[g->key] / k->own, 3, false);
    view_text_free(&t);
    const double score = score_at(k, g->key, k->own);
    if (k->softcap > 0) put_pair(g, &y, "capped", score - k->bias[g->key], 3, false);
    if (k->biased) put_pair(g, &y, "+ bias", score, 3, false);
    if (score_masked(k, g->key)) {
        canvas_format(s, left, y, 13, CANVAS_BOLD, PALETTE_TEXT, "masked: its weight is 0");
        return y + 30;
    }
    double top = -INFINITY, sum = 0;
    for (int64_t j = k->span.from; j < k->span.to; j++) top = fmax(top, score_at(k, j, k->own));
    for (int64_t j = k->span.from; j < k->span.to; j++) sum += exp(score_at(k, j, k->own) - top);
    put_pair(g, &y, "exp(score − maximum)", exp(score - top), 4, false);
    view_say(&t, "sum over %" PRId64 " keys", k->span.to - k->span.from);
    s->failed |= t.failed;
    put_pair(g, &y, t.at ? t.at : "", sum, 3, false);
    view_text_free(&t);
    put_pair(g, &y, "weight", k->w[g->key], -4, true);
    return y + 14;
}

// Returns the y coordinate below the list.
static double draw_largest(struct neuron *g, double y)
{
    struct canvas *s = &g->p->canvas;
    const double left = g->side[1], column[4] = { 60, 140, 210, 300 };
    static const char *const names[4] = { "dimension", "q", "k", "q × k" };
    canvas_format(s, left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, "Largest products");
    for (int i = 0; i < 4; i++)
        canvas_format(s, left + column[i], y + 22, 11, CANVAS_END, PALETTE_TEXT3, "%s", names[i]);
    y += 42;
    double above = INFINITY;
    for (int k = 0; k < TOLD; k++) {
        int64_t best = -1;
        for (int64_t e = 0; e < g->s.E; e++)
            if (fabs(g->product[e]) < above &&
                (best < 0 || fabs(g->product[e]) > fabs(g->product[best])))
                best = e;
        if (best < 0) return y;
        above = fabs(g->product[best]);
        canvas_format(s, left + column[0], y, 13, CANVAS_END, PALETTE_TEXT, "%" PRId64, best);
        picture_number(s, left + column[1], y, 13, CANVAS_END, PALETTE_TEXT, (double)g->s.q[best],
                       2);
        picture_number(s, left + column[2], y, 13, CANVAS_END, PALETTE_TEXT,
                       score_k(&g->s, g->key, best), 2);
        picture_number(s, left + column[3], y, 13, CANVAS_END, PALETTE_TEXT, g->product[best], 2);
        y += 21;
    }
    return y;
}

// Sets the positions of the columns.
static void set_columns(struct neuron *g)
{
    const struct picture *p = g->p;
    g->left = p->margin;
    g->full = picture_wide(p, FULL);
    g->names = p->column ? NAMES_NARROW : NAMES;
    g->wide = g->full - g->names - NUMBERS - 8;
    g->side[0] = g->side[1] = p->wide > 0 ? g->left : g->left + g->full + GAP;
    if (p->wide > 0 && !p->column) g->side[1] += SIDE + 2 * GAP;
}

// ---- the picture --------------------------------------------------------------------------------
static void begin(struct neuron *g)
{
    const struct picture *p = g->p;
    const struct score *s = &g->s;
    struct view_text title = { 0 }, t = { 0 };
    int64_t most = 0;
    for (int64_t e = 1; e < s->E; e++)
        if (fabs(g->product[e]) > fabs(g->product[most])) most = e;
    score_say_question(&title, s, g->key, "Which dimensions make ");
    score_say_sum(&t, s, g->key, true);
    view_say(&t, " The largest product is in dimension %" PRId64 ": ", most);
    view_signed(&t, g->product[most], 2);
    view_say(&t, ".");
    canvas_new(&g->p->canvas, picture_wide(p, FULL + GAP + SIDE) + 2 * p->margin, title.at, t.at);
    g->p->canvas.failed |= title.failed || t.failed;
    view_text_free(&title);
    view_text_free(&t);
}

static void draw_all(struct neuron *g)
{
    struct canvas *s = &g->p->canvas;
    double most = 1e-12;
    const double head = canvas_head(s, g->left) + 4;
    for (int64_t e = 0; e < g->s.E; e++)
        most = fmax(most, fmax(fabs((double)g->s.q[e]), fabs(score_k(&g->s, g->key, e))));
    double y = draw_vector(g, true, most, head);
    y = draw_vector(g, false, most, y);
    const int64_t n = take_products(g, g->key);
    y = draw_band(g, &(struct band){ "q ∘ k", -1, -1, 84, largest(g->x, n), 1 }, n, g->wide, y);
    if (g->rest)
        canvas_format(s, g->left + g->names + g->wide + 4, y - 38, 11, 0, PALETTE_TEXT3,
                      "%" PRId64 " others", g->rest);
    y = draw_running(g, y);
    y = draw_values(g, y);
    y = draw_keys(g, y + 28);
    y = picture_padding(g->p, g->left, y + 14) - 14;
    const bool printed = g->p->wide > 0; // then the chain is below, not at the side
    const double from = printed ? y + 36 : head + 8, end = draw_chain(g, from);
    const double last = draw_largest(g, g->side[1] > g->side[0] ? from : end);
    s->height = printed ? fmax(end, last) + 10 : fmax(y + 20, head + 480);
}

qkv_status picture_neuron(struct picture *p, qkv_error *err)
{
    struct neuron g = { .p = p };
    int64_t head;
    set_columns(&g);
    g.key = view_pair_shown(&head, p->v, &p->st, p->key, p->row);
    const qkv_status status = score_of(&g.s, p->v, p->st.layer, head, p->st.token, err);
    if (status) return status;
    g.order = qkv_alloc((size_t)g.s.E, sizeof *g.order);
    g.product = qkv_alloc((size_t)g.s.E, sizeof *g.product);
    g.x = qkv_alloc((size_t)qkv_max64(g.s.E, g.s.F) + 1, sizeof *g.x);
    g.lines = score_lines(g.line, &g.s, g.key);
    if (g.order && g.product && g.x) {
        order_dimensions(&g);
        begin(&g);
        draw_all(&g);
    } else {
        p->canvas.failed = true;
    }
    qkv_free(g.order);
    qkv_free(g.product);
    qkv_free(g.x);
    score_free(&g.s);
    return QKV_OK;
}
