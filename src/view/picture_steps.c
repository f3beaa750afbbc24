// SPDX-License-Identifier: MIT
// picture_steps.c: "How does this word arrive at that one?": six steps on one query and every key,
// with the model's own numbers; and what the scale is for.  The geometry of web/steps.js at 1,040
// pixels.
#include "view/picture.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    FULL = 1040,
    SIDE = 324, // what the scale is for
    GAP = 28,
    ASK = 52,
    CURVES = 40
};
// Columns: right ends of numbers, left ends and widths of bars.
static const struct {
    double name, key, product, bars, score, scaled, weight, w, w_wide, value, value_wide;
} at = { 78, 92, 258, 146, 470, 576, 700, 712, 148, 880, 152 };

struct steps {
    struct picture *p;
    struct score s;
    struct score_line line[SCORE_LINES];
    int lines;
    int64_t key;
    double left, most_k, most_v, most_p;
    double *z; // [F]
};

// ---- small parts --------------------------------------------------------------------------------
void picture_number(struct sheet *s, double x, double y, int size, unsigned how, int ink,
                    double value, int digits)
{
    struct view_text t = { 0 };
    view_signed(&t, value, digits);
    s->failed |= t.failed;
    if (t.at) sheet_text(s, x, y, size, how, ink, t.at, (size_t)t.used);
    view_text_free(&t);
}

void picture_bars(struct sheet *s, const double *x, int64_t n, double left, double mid, double wide,
                  double tall, double most, double opacity)
{
    const int64_t each = qkv_max64(1, (int64_t)ceil((double)n / wide)); // a bar is a pixel at least
    const int64_t bars = qkv_ceil_div(n, each);
    const double step = wide / (double)bars, gap = step >= 3 ? 1 : 0;
    for (int sign = 0; sign < 2; sign++) {
        sheet_path(s, sign ? SHEET_NEG : SHEET_POS, SHEET_NONE, 0, opacity);
        for (int64_t b = 0; b < bars; b++) {
            double sum = 0;
            const int64_t end = qkv_min64(n, (b + 1) * each);
            for (int64_t e = b * each; e < end; e++) sum += x[e] / (double)(end - b * each);
            const double high = most > 0 ? fmin(1, fabs(sum) / most) * tall / 2 : 0;
            if ((sum < 0) != (sign == 1) || high < .15) continue;
            const double x0 = left + (double)b * step, x1 = x0 + step - gap;
            const double y1 = sign ? mid + high : mid - high;
            sheet_move(s, x0, mid);
            sheet_to(s, x1, mid);
            sheet_to(s, x1, y1);
            sheet_to(s, x0, y1);
            sheet_close(s);
        }
    }
    sheet_line(s, left, mid, left + wide, mid, SHEET_RULE, .6);
}

static double largest(double most, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most) most = fabs(x[i]);
    return most;
}

// of[E] (or [F]): 'k' the key, 'p' its products with the query, 'v' the value, 'q' the query.
static void take(double *to, const struct score *s, char what, int64_t key)
{
    if (what == 'v')
        for (int64_t e = 0; e < s->F; e++) to[e] = (double)s->value[key * s->F + e];
    else
        for (int64_t e = 0; e < s->E; e++)
            to[e] = what == 'q' ? (double)s->q[e]
                                : score_k(s, key, e) * (what == 'p' ? (double)s->q[e] : 1);
}

// ---- the six columns ----------------------------------------------------------------------------
static void draw_heads(struct steps *g, double y)
{
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    struct view_text by = { 0 };
    const bool masked = s->seen.to - s->seen.from < s->S;
    view_say(&by, "÷ ");
    score_root(&by, s);
    view_say(&by, " = ");
    view_number(&by, s->own, 2);
    const char *const names[6] = { "Project", "Multiply",
                                   "Score",   masked ? "Scale, mask" : "Scale",
                                   "Softmax", "Weigh the values" };
    const char *const under[6] = { "q = xW, k = xW, v = xW", "q ∘ k, one by one", "q · k",
                                   by.at ? by.at : "",       "weights sum to 1",  "w v" };
    const double x[6] = { at.key,         at.product,     at.score - 58,
                          at.scaled - 58, at.weight - 50, at.value };
    for (int i = 0; i < 6; i++) {
        sheet_say(sheet, g->left + x[i], y + 4, 22, SHEET_SERIF, SHEET_INK2, "%d", i + 1);
        sheet_say(sheet, g->left + x[i] + 17, y, 13, SHEET_BOLD, SHEET_INK, "%s", names[i]);
        sheet_say(sheet, g->left + x[i] + 17, y + 17, 12, SHEET_SERIF | SHEET_ITALIC, SHEET_INK2,
                  "%s", under[i]);
    }
    sheet->failed |= by.failed;
    view_text_free(&by);
}

static void draw_query(struct steps *g, double y, double *x)
{
    const struct view_shape *k = &g->p->v->shape;
    struct sheet *sheet = &g->p->sheet;
    struct view_text t = { 0 };
    sheet_box(sheet, g->left, y, FULL, ASK, SHEET_MARK);
    picture_token(sheet, &k->token[g->s.row], g->left + at.name, y + ASK / 2 + 5, 15,
                  SHEET_END | SHEET_BOLD, SHEET_INK, at.name - 4);
    take(x, &g->s, 'q', 0);
    picture_bars(sheet, x, g->s.E, g->left + at.key, y + ASK / 2, at.bars, ASK - 10, g->most_k, 1);
    view_say(&t, "the query q of ");
    view_quote(&t, &k->token[g->s.row]);
    view_say(&t, "; each key below is multiplied with it, number by number");
    sheet->failed |= t.failed;
    if (t.at)
        sheet_cut(sheet, g->left + at.product - 4, y + ASK / 2 + 4, 12, 0, SHEET_INK2, t.at,
                  (size_t)t.used, FULL - at.product);
    view_text_free(&t);
}

static void draw_folded(struct steps *g, const struct score_line *l, double mid, double tall)
{
    struct view_text t = { 0 };
    view_say(&t, "… ");
    view_count(&t, l->n);
    view_say(&t, l->masked ? " keys masked" : " keys: ");
    if (!l->masked) view_weight(&t, l->w, 3);
    g->p->sheet.failed |= t.failed;
    if (t.at)
        sheet_text(&g->p->sheet, g->left + at.key, mid + 4, 12, 0, SHEET_INK2, t.at,
                   (size_t)t.used);
    if (l->masked)
        sheet_hatch(&g->p->sheet, g->left + at.score + 54, mid - tall / 2 + 3,
                    at.weight - at.score - 54, tall - 6);
    view_text_free(&t);
}

static void draw_key(struct steps *g, const struct score_line *l, double y, double tall, double *x)
{
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    const int64_t j = l->key;
    const bool on = j == g->key;
    const unsigned how = SHEET_END | (on ? SHEET_BOLD : 0);
    const double mid = y + tall / 2, high = fmin(tall * 1.15, 40);
    if (j < 0) {
        draw_folded(g, l, mid, tall);
        return;
    }
    if (on) sheet_box(sheet, g->left, y + 1, FULL, tall - 2, SHEET_MARK);
    picture_token(sheet, &g->p->v->shape.key[j], g->left + at.name, mid + 5, 14, how,
                  on ? SHEET_INK : SHEET_INK2, at.name - 4);
    take(x, s, 'k', j);
    picture_bars(sheet, x, s->E, g->left + at.key, mid, at.bars, high, g->most_k, .75);
    take(x, s, 'p', j);
    picture_bars(sheet, x, s->E, g->left + at.product, mid, at.bars, high, g->most_p, 1);
    picture_number(sheet, g->left + at.score, mid + 4.5, 13, how, SHEET_INK, s->dot[j], 2);
    if (l->masked) {
        const double from = g->left + at.scaled - 52, wide = at.weight - at.scaled + 52;
        sheet_hatch(sheet, from, y + 3, wide, tall - 6);
        sheet_say(sheet, from + wide / 2, mid + 4, 12, SHEET_MIDDLE, SHEET_INK2, "masked");
        return;
    }
    picture_number(sheet, g->left + at.scaled, mid + 4.5, 13, how, SHEET_INK,
                   score_at(s, j, s->own), 2);
    picture_weight(sheet, g->left + at.weight, mid + 4.5, 13, how, SHEET_INK, s->w[j], 3);
    sheet_box(sheet, g->left + at.w, mid - fmin(6, tall * .2), fmax(.8, s->w[j] * at.w_wide),
              fmin(12, tall * .4), sheet_weight(fmax(.12, s->w[j])));
    if (s->bare[j] * at.w_wide > .6)
        sheet_box(sheet, g->left + at.w, mid + fmin(8, tall * .26), s->bare[j] * at.w_wide, 2,
                  SHEET_HOT);
    if (!s->F) return;
    take(x, s, 'v', j);
    picture_bars(sheet, x, s->F, g->left + at.value, mid, at.value_wide, high, g->most_v,
                 .12 + .88 * sqrt(fmin(1, s->w[j])));
}

static void draw_sum(struct steps *g, double y)
{
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    const int64_t hidden = s->S - (s->seen.to - s->seen.from);
    double all = 0;
    for (int64_t j = 0; j < s->S; j++) all += s->w[j];
    sheet_line(sheet, g->left, y + 4, g->left + FULL, y + 4, SHEET_INK, 1.2);
    if (hidden)
        sheet_say(sheet, g->left + at.product, y + 28, 12, 0, SHEET_INK2,
                  "masked: %" PRId64 " of %" PRId64 " keys, never read", hidden, s->S);
    else
        sheet_say(sheet, g->left + at.product, y + 28, 12, 0, SHEET_INK2,
                  "no mask: every key is read");
    picture_weight(sheet, g->left + at.weight, y + 28.5, 13, SHEET_END | SHEET_BOLD, SHEET_INK, all,
                   3);
    if (!s->F) {
        sheet_say(sheet, g->left + FULL, y + 28, 11, SHEET_END, SHEET_INK3,
                  "values of this layer were not given");
        return;
    }
    for (int64_t e = 0; e < s->F; e++) {
        g->z[e] = 0;
        for (int64_t j = 0; j < s->S; j++) g->z[e] += s->w[j] * (double)s->value[j * s->F + e];
    }
    sheet_say(sheet, g->left + at.value - 12, y + 28.5, 13, SHEET_END | SHEET_BOLD, SHEET_INK,
              "output z = Σ w v");
    picture_bars(sheet, g->z, s->F, g->left + at.value, y + 24, at.value_wide, 40,
                 largest(g->most_v / 2, g->z, s->F), 1);
}

// ---- what the scale is for ----------------------------------------------------------------------
struct curve {
    double left, top, wide, tall;
    int high; // the axis ends at 2 to it
};
static double curve_x(const struct curve *c, double by)
{
    return c->left + (log2(by) + 1) / (c->high + 1) * c->wide;
}

static void draw_curves(struct steps *g, const struct curve *c)
{
    enum { POINTS = 56 };
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    double *w = qkv_alloc((size_t)s->S * (POINTS + 1), sizeof *w);
    int drawn = 0;
    if (!w) {
        sheet->failed = true;
        return;
    }
    for (int i = 0; i <= POINTS; i++)
        score_softmax(w + i * s->S, s, exp2((double)i / POINTS * (c->high + 1) - 1), NULL);
    for (int own = 0; own < 2; own++) // the chosen key lies on top
        for (int k = 0; k < g->lines; k++) {
            const int64_t j = g->line[k].key;
            if (j < 0 || (j == g->key) != (own == 1) || score_masked(s, j) || drawn++ > CURVES)
                continue;
            sheet_path(sheet, SHEET_NONE, own ? SHEET_INK : SHEET_POS, own ? 2 : 1, own ? 1 : .55);
            for (int i = 0; i <= POINTS; i++) {
                const double x = c->left + c->wide * i / POINTS;
                const double y = c->top + (1 - w[i * s->S + j]) * c->tall;
                if (i)
                    sheet_to(sheet, x, y);
                else
                    sheet_move(sheet, x, y);
            }
        }
    qkv_free(w);
}

static double draw_divisors(struct steps *g, double left, double y)
{
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    static const char *const names[3] = { "weight of the key", "keys read",
                                          "slope left, Σ w(1−w)" };
    const double by[3] = { 1, s->own, (double)s->E }, column[3] = { 216, 268, 320 };
    double *w = qkv_alloc((size_t)s->S, sizeof *w);
    if (!w) {
        sheet->failed = true;
        return y;
    }
    sheet_say(sheet, left, y, 12, 0, SHEET_INK3, "divide by");
    for (int i = 0; i < 3; i++)
        sheet_say(sheet, left, y + 24 + 21 * i, 13, 0, SHEET_INK, "%s", names[i]);
    sheet_line(sheet, left, y + 7, left + SIDE, y + 7, SHEET_RULE, 1);
    for (int i = 0; i < 3; i++) {
        double slope;
        const double keys = score_softmax(w, s, by[i], &slope), x = left + column[i];
        struct view_text t = { 0 };
        if (i == 1)
            score_root(&t, s);
        else
            view_number(&t, by[i], 0);
        sheet->failed |= t.failed;
        if (t.at)
            sheet_text(sheet, x, y, 12, SHEET_END, i == 1 ? SHEET_HOT : SHEET_INK3, t.at,
                       (size_t)t.used);
        view_text_free(&t);
        picture_weight(sheet, x, y + 24, 13, SHEET_END, SHEET_INK, w[g->key], 3);
        picture_number(sheet, x, y + 45, 13, SHEET_END, SHEET_INK, keys, 1);
        picture_weight(sheet, x, y + 66, 13, SHEET_END, SHEET_INK, slope, 3);
    }
    qkv_free(w);
    return y + 80;
}

static double draw_scale(struct steps *g, double left, double y)
{
    static const char why[] =
        "Divide by less and one key takes all: softmax saturates and learning "
        "stops. Divide by more and every key gets the same.";
    const struct score *s = &g->s;
    struct sheet *sheet = &g->p->sheet;
    sheet_say(sheet, left, y, 11, SHEET_BOLD, SHEET_INK2, "What the scale is for");
    y = sheet_fold(sheet, left, y + 22, SIDE, 15, SHEET_SERIF, SHEET_INK2, why, 21);
    struct curve c = { left, y + 2, SIDE - 30, 200,
                       (int)fmax(6, ceil(log2(fmax((double)s->E, s->own)))) };
    for (int i = 0; i <= 2; i++) {
        const double level = c.top + c.tall * (2 - i) / 2;
        sheet_line(sheet, left, level, left + c.wide, level, SHEET_RULE, 1);
        sheet_say(sheet, left + SIDE, level + 4, 11, SHEET_END, SHEET_INK3, "%s",
                  i == 2 ? "1"
                  : i    ? ".5"
                         : "0");
    }
    for (int e = -1; e <= c.high; e++) {
        if (e < 0)
            sheet_say(sheet, curve_x(&c, .5), c.top + c.tall + 16, 11, 0, SHEET_INK3, "½");
        else
            sheet_say(sheet, curve_x(&c, exp2(e)), c.top + c.tall + 16, 11, SHEET_MIDDLE,
                      SHEET_INK3, "%.0f", exp2(e));
    }
    draw_curves(g, &c);
    const double x = curve_x(&c, fmin(exp2(c.high), fmax(.5, s->own)));
    sheet_line(sheet, x, c.top - 6, x, c.top + c.tall, SHEET_HOT, 1);
    if (!score_masked(s, g->key)) {
        const double dot = c.top + (1 - s->w[g->key]) * c.tall;
        struct view_text t = { 0 };
        sheet_dot(sheet, x, dot, 4, SHEET_HOT, SHEET_PAPER, 1);
        view_token_text(&t, &g->p->v->shape.key[g->key], g->p->v->shape.key[g->key].special);
        view_say(&t, " ");
        view_weight(&t, s->w[g->key], 2);
        sheet->failed |= t.failed;
        if (t.at)
            sheet_cut(sheet, x + 8, fmax(c.top + 10, dot - 8), 13, SHEET_BOLD, SHEET_INK, t.at,
                      (size_t)t.used, left + SIDE - x - 8);
        view_text_free(&t);
        return draw_divisors(g, left, c.top + c.tall + 52);
    }
    return c.top + c.tall + 30;
}

// ---- the picture --------------------------------------------------------------------------------
int64_t picture_pair(struct picture *p, int64_t *head)
{
    int64_t key = p->key;
    float most = -1;
    *head = p->st.lit ? p->st.head[0] : 0;
    for (int64_t i = 0; i < p->st.lit; i++) { // of the lit heads the one that reads it most
        view_row(p->row, p->v, p->st.layer, p->st.head[i], p->st.token);
        for (int64_t j = 0; j < p->v->shape.keys; j++)
            if ((p->key < 0 ? view_key_shown(p->v, &p->st, j) : j == p->key) && p->row[j] > most) {
                most = p->row[j];
                key = j;
                *head = p->st.head[i];
            }
    }
    return key < 0 ? 0 : key;
}

static void begin(struct steps *g)
{
    const struct picture *p = g->p;
    const struct score *s = &g->s;
    struct view_text title = { 0 }, t = { 0 };
    view_say(&title, "How does ");
    view_quote(&title, &p->v->shape.token[s->row]);
    view_say(&title, " arrive at ");
    view_quote(&title, &p->v->shape.key[g->key]);
    view_say(&title, "?");
    view_say(&t, "Layer %" PRId64 ", head %" PRId64 ", all %" PRId64 " numbers of every vector. ",
             s->layer, s->head, s->E);
    view_quote(&t, &p->v->shape.key[g->key]);
    if (score_masked(s, g->key)) {
        view_say(&t, " is masked: it gets nothing.");
    } else {
        view_say(&t, ": score ");
        view_signed(&t, s->dot[g->key], 2);
        view_say(&t, ", ÷ ");
        score_root(&t, s);
        view_say(&t, " = ");
        view_signed(&t, score_at(s, g->key, s->own), 2);
        view_say(&t, ", softmax ");
        view_weight(&t, s->w[g->key], 3);
        view_say(&t, ".");
    }
    sheet_new(&g->p->sheet, FULL + GAP + SIDE + 2 * PICTURE_MARGIN, title.at, t.at);
    g->p->sheet.failed |= title.failed || t.failed;
    view_text_free(&title);
    view_text_free(&t);
}

static void draw_all(struct steps *g, double *x)
{
    const struct score *s = &g->s;
    take(x, s, 'q', 0);
    g->most_k = largest(0, x, s->E);
    for (int i = 0; i < g->lines; i++) {
        const int64_t j = g->line[i].key;
        if (j < 0) continue;
        take(x, s, 'k', j);
        g->most_k = largest(g->most_k, x, s->E);
        take(x, s, 'p', j);
        g->most_p = largest(g->most_p, x, s->E);
        if (s->F) take(x, s, 'v', j);
        if (s->F) g->most_v = largest(g->most_v, x, s->F);
    }
    const double head = sheet_head(&g->p->sheet, g->left) + 14;
    const double tall = fmax(20, fmin(34, 660 / (double)qkv_max64(1, g->lines)));
    draw_heads(g, head);
    draw_query(g, head + 32, x);
    double y = head + 32 + ASK + 26;
    static const struct {
        double x;
        const char *text;
    } names[] = { { 92, "key k" },
                  { 258, "product; sum it up" },
                  { 712, "thin line: without the scale" },
                  { 880, "value v, shaded by weight" } };
    for (int i = 0; i < (s->F ? 4 : 3); i++)
        sheet_say(&g->p->sheet, g->left + names[i].x, y - 8, 11, 0, SHEET_INK2, "%s",
                  names[i].text);
    for (int i = 0; i < g->lines; i++, y += tall) draw_key(g, &g->line[i], y, tall, x);
    draw_sum(g, y);
    g->p->sheet.height = fmax(y + 60, draw_scale(g, g->left + FULL + GAP, head - 6) + 20);
}

qkv_status picture_steps(struct picture *p, qkv_error *err)
{
    struct steps g = { .p = p, .left = PICTURE_MARGIN };
    int64_t head;
    g.key = picture_pair(p, &head);
    const qkv_status s = score_of(&g.s, p->v, p->st.layer, head, p->st.token, err);
    if (s) return s;
    double *x = qkv_alloc((size_t)qkv_max64(g.s.E, g.s.F) + 1, sizeof *x);
    g.z = qkv_alloc((size_t)g.s.F + 1, sizeof *g.z);
    g.lines = score_lines(g.line, &g.s, g.key);
    begin(&g);
    if (x && g.z)
        draw_all(&g, x);
    else
        p->sheet.failed = true;
    qkv_free(x);
    qkv_free(g.z);
    score_free(&g.s);
    return QKV_OK;
}
