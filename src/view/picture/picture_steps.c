// SPDX-License-Identifier: MIT
// picture_steps.c: draws "How does this word attend to that one?": the six steps of attention for
// one query and every key, with the numbers of the model, and the purpose of the scale. Positions
// and sizes are as in web/views/steps.js at a width of 1,040 pixels.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    FULL = 1040,
    SIDE = 324, // width of the panel that explains the scale
    GAP = 28,
    ASK = 52,
    CURVES = 40
};
// x coordinates of the columns: right ends of numbers, left ends of bars; *_wide: widths of bars
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
void picture_number(struct canvas *s, double x, double y, int size, unsigned how, int color,
                    double value, int digits)
{
    struct view_text t = { 0 };
    view_signed(&t, value, digits);
    s->failed |= t.failed;
    if (t.at) canvas_text(s, x, y, size, how, color, t.at, (size_t)t.used);
    view_text_free(&t);
}

void picture_bars(struct canvas *s, const double *x, int64_t n, double left, double mid,
                  double wide, double tall, double most, double opacity)
{
    // A bar is at least one pixel wide.
    const int64_t each = qkv_max64(1, (int64_t)ceil((double)n / wide));
    const int64_t bars = qkv_ceil_div(n, each);
    const double step = wide / (double)bars, gap = step >= 3 ? 1 : 0;
    for (int sign = 0; sign < 2; sign++) {
        canvas_path(s, sign ? PALETTE_NEG : PALETTE_POS, PALETTE_NONE, 0, opacity);
        for (int64_t b = 0; b < bars; b++) {
            double sum = 0;
            const int64_t end = qkv_min64(n, (b + 1) * each);
            for (int64_t e = b * each; e < end; e++) sum += x[e] / (double)(end - b * each);
            const double high = most > 0 ? fmin(1, fabs(sum) / most) * tall / 2 : 0;
            if ((sum < 0) != (sign == 1) || high < .15) continue;
            const double x0 = left + (double)b * step, x1 = x0 + step - gap;
            const double y1 = sign ? mid + high : mid - high;
            canvas_move_to(s, x0, mid);
            canvas_line_to(s, x1, mid);
            canvas_line_to(s, x1, y1);
            canvas_line_to(s, x0, y1);
            canvas_close(s);
        }
    }
    canvas_line(s, left, mid, left + wide, mid, PALETTE_RULE, .6);
}

static double largest(double most, const double *x, int64_t n)
{
    for (int64_t i = 0; i < n; i++)
        if (fabs(x[i]) > most) most = fabs(x[i]);
    return most;
}

// Copies a vector for a key to `to`. what: 'k' the key, 'p' its products with the query, 'v' its
// value, 'q' the query.
static void take(double *to, const struct score *s, char what, int64_t key)
{
    if (what == 'v')
        for (int64_t e = 0; e < s->F; e++) to[e] = (double)s->value[key * s->F + e];
    else
        for (int64_t e = 0; e < s->E; e++)
            to[e] = what == 'q' ? (double)s->q[e]
                                : score_k(s, key, e) * (what == 'p' ? (double)s->q[e] : 1);
}

// ---- the columns of the six steps --------------------------------------------------------------
static void draw_heads(struct steps *g, double y)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    struct view_text by = { 0 };
    const bool masked = s->span.to - s->span.from < s->S;
    view_say(&by, "÷ ");
    score_root(&by, s);
    view_say(&by, " = ");
    view_number(&by, s->own, 2);
    const char *const names[6] = { "Project", "Multiply",
                                   "Score",   masked ? "Scale, mask" : "Scale",
                                   "Softmax", "Weighted sum" };
    const char *const under[6] = { "xW_Q, xW_K, xW_V", "q ∘ k, elementwise", "q · k",
                                   by.at ? by.at : "", "weights sum to 1",   "w v" };
    const double x[6] = { at.key,         at.product,     at.score - 58,
                          at.scaled - 58, at.weight - 50, at.value };
    for (int i = 0; i < 6; i++) {
        canvas_format(canvas, g->left + x[i], y + 4, 22, CANVAS_SERIF, PALETTE_TEXT2, "%d", i + 1);
        canvas_format(canvas, g->left + x[i] + 17, y, 13, CANVAS_BOLD, PALETTE_TEXT, "%s",
                      names[i]);
        canvas_format(canvas, g->left + x[i] + 17, y + 17, 12, CANVAS_SERIF | CANVAS_ITALIC,
                      PALETTE_TEXT2, "%s", under[i]);
    }
    canvas->failed |= by.failed;
    view_text_free(&by);
}

static void draw_query(struct steps *g, double y, double *x)
{
    const struct view_shape *k = &g->p->v->shape;
    struct canvas *canvas = &g->p->canvas;
    struct view_text t = { 0 };
    canvas_box(canvas, g->left, y, FULL, ASK, PALETTE_MARK);
    picture_token(canvas, &k->token[g->s.row], g->left + at.name, y + ASK / 2 + 5, 15,
                  CANVAS_END | CANVAS_BOLD, PALETTE_TEXT, at.name - 4);
    take(x, &g->s, 'q', 0);
    picture_bars(canvas, x, g->s.E, g->left + at.key, y + ASK / 2, at.bars, ASK - 10, g->most_k, 1);
    view_say(&t, "the query q of ");
    view_quote(&t, &k->token[g->s.row]);
    view_say(&t, ", multiplied elementwise with each key below");
    canvas->failed |= t.failed;
    if (t.at)
        canvas_cut(canvas, g->left + at.product - 4, y + ASK / 2 + 4, 12, 0, PALETTE_TEXT2, t.at,
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
    g->p->canvas.failed |= t.failed;
    if (t.at)
        canvas_text(&g->p->canvas, g->left + at.key, mid + 4, 12, 0, PALETTE_TEXT2, t.at,
                    (size_t)t.used);
    if (l->masked)
        canvas_hatch(&g->p->canvas, g->left + at.score + 54, mid - tall / 2 + 3,
                     at.weight - at.score - 54, tall - 6);
    view_text_free(&t);
}

static void draw_key(struct steps *g, const struct score_line *l, double y, double tall, double *x)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    const int64_t j = l->key;
    const bool on = j == g->key;
    const unsigned how = CANVAS_END | (on ? CANVAS_BOLD : 0);
    const double mid = y + tall / 2, high = fmin(tall * 1.15, 40);
    if (j < 0) {
        draw_folded(g, l, mid, tall);
        return;
    }
    if (on) canvas_box(canvas, g->left, y + 1, FULL, tall - 2, PALETTE_MARK);
    picture_token(canvas, &g->p->v->shape.key[j], g->left + at.name, mid + 5, 14, how,
                  on ? PALETTE_TEXT : PALETTE_TEXT2, at.name - 4);
    take(x, s, 'k', j);
    picture_bars(canvas, x, s->E, g->left + at.key, mid, at.bars, high, g->most_k, .75);
    take(x, s, 'p', j);
    picture_bars(canvas, x, s->E, g->left + at.product, mid, at.bars, high, g->most_p, 1);
    picture_number(canvas, g->left + at.score, mid + 4.5, 13, how, PALETTE_TEXT, s->dot[j], 2);
    if (l->masked) {
        const double from = g->left + at.scaled - 52, wide = at.weight - at.scaled + 52;
        canvas_hatch(canvas, from, y + 3, wide, tall - 6);
        canvas_format(canvas, from + wide / 2, mid + 4, 12, CANVAS_MIDDLE, PALETTE_TEXT2, "masked");
        return;
    }
    picture_number(canvas, g->left + at.scaled, mid + 4.5, 13, how, PALETTE_TEXT,
                   score_at(s, j, s->own), 2);
    picture_weight(canvas, g->left + at.weight, mid + 4.5, 13, how, PALETTE_TEXT, s->w[j], 3);
    canvas_box(canvas, g->left + at.w, mid - fmin(6, tall * .2), fmax(.8, s->w[j] * at.w_wide),
               fmin(12, tall * .4), palette_weight(fmax(.12, s->w[j])));
    if (s->bare[j] * at.w_wide > .6)
        canvas_box(canvas, g->left + at.w, mid + fmin(8, tall * .26), s->bare[j] * at.w_wide, 2,
                   PALETTE_HOT);
    if (!s->F) return;
    take(x, s, 'v', j);
    picture_bars(canvas, x, s->F, g->left + at.value, mid, at.value_wide, high, g->most_v,
                 .12 + .88 * sqrt(fmin(1, s->w[j])));
}

static void draw_sum(struct steps *g, double y)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    const int64_t hidden = s->S - (s->span.to - s->span.from);
    double all = 0;
    for (int64_t j = 0; j < s->S; j++) all += s->w[j];
    canvas_line(canvas, g->left, y + 4, g->left + FULL, y + 4, PALETTE_TEXT, 1.2);
    if (hidden)
        canvas_format(canvas, g->left + at.product, y + 28, 12, 0, PALETTE_TEXT2,
                      "%" PRId64 " of %" PRId64 " keys are masked", hidden, s->S);
    else
        canvas_format(canvas, g->left + at.product, y + 28, 12, 0, PALETTE_TEXT2,
                      "no mask: all keys are used");
    picture_weight(canvas, g->left + at.weight, y + 28.5, 13, CANVAS_END | CANVAS_BOLD,
                   PALETTE_TEXT, all, 3);
    if (!s->F) {
        canvas_format(canvas, g->left + FULL, y + 28, 11, CANVAS_END, PALETTE_TEXT3,
                      "the view does not contain the values of this layer");
        return;
    }
    for (int64_t e = 0; e < s->F; e++) {
        g->z[e] = 0;
        for (int64_t j = 0; j < s->S; j++) g->z[e] += s->w[j] * (double)s->value[j * s->F + e];
    }
    canvas_format(canvas, g->left + at.value - 12, y + 28.5, 13, CANVAS_END | CANVAS_BOLD,
                  PALETTE_TEXT, "output z = Σ w v");
    picture_bars(canvas, g->z, s->F, g->left + at.value, y + 24, at.value_wide, 40,
                 largest(g->most_v / 2, g->z, s->F), 1);
}

// ---- the purpose of the scale -------------------------------------------------------------------
struct curve {
    double left, top, wide, tall;
    int high; // the axis of divisors ends at 2^high
};
static double curve_x(const struct curve *c, double by)
{
    return c->left + (log2(by) + 1) / (c->high + 1) * c->wide;
}

static void draw_curves(struct steps *g, const struct curve *c)
{
    enum { POINTS = 56 };
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    double *w = qkv_alloc((size_t)s->S * (POINTS + 1), sizeof *w);
    int drawn = 0;
    if (!w) {
        canvas->failed = true;
        return;
    }
    for (int i = 0; i <= POINTS; i++)
        score_softmax(w + i * s->S, s, exp2((double)i / POINTS * (c->high + 1) - 1), NULL);
    for (int own = 0; own < 2; own++) // draw the chosen key last, so that it is on top
        for (int k = 0; k < g->lines; k++) {
            const int64_t j = g->line[k].key;
            if (j < 0 || (j == g->key) != (own == 1) || score_masked(s, j) || drawn++ > CURVES)
                continue;
            canvas_path(canvas, PALETTE_NONE, own ? PALETTE_TEXT : PALETTE_POS, own ? 2 : 1,
                        own ? 1 : .55);
            for (int i = 0; i <= POINTS; i++) {
                const double x = c->left + c->wide * i / POINTS;
                const double y = c->top + (1 - w[i * s->S + j]) * c->tall;
                if (i)
                    canvas_line_to(canvas, x, y);
                else
                    canvas_move_to(canvas, x, y);
            }
        }
    qkv_free(w);
}

static double draw_divisors(struct steps *g, double left, double y)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    static const char *const names[3] = { "weight of the key", "effective keys",
                                          "softmax gradient" };
    const double by[3] = { 1, s->own, (double)s->E }, column[3] = { 216, 268, 320 };
    double *w = qkv_alloc((size_t)s->S, sizeof *w);
    if (!w) {
        canvas->failed = true;
        return y;
    }
    canvas_format(canvas, left, y, 12, 0, PALETTE_TEXT3, "divide by");
    for (int i = 0; i < 3; i++)
        canvas_format(canvas, left, y + 24 + 21 * i, 13, 0, PALETTE_TEXT, "%s", names[i]);
    canvas_line(canvas, left, y + 7, left + SIDE, y + 7, PALETTE_RULE, 1);
    for (int i = 0; i < 3; i++) {
        double gradient;
        const double keys = score_softmax(w, s, by[i], &gradient), x = left + column[i];
        struct view_text t = { 0 };
        if (i == 1)
            score_root(&t, s);
        else
            view_number(&t, by[i], 0);
        canvas->failed |= t.failed;
        if (t.at)
            canvas_text(canvas, x, y, 12, CANVAS_END, i == 1 ? PALETTE_HOT : PALETTE_TEXT3, t.at,
                        (size_t)t.used);
        view_text_free(&t);
        picture_weight(canvas, x, y + 24, 13, CANVAS_END, PALETTE_TEXT, w[g->key], 3);
        picture_number(canvas, x, y + 45, 13, CANVAS_END, PALETTE_TEXT, keys, 1);
        picture_weight(canvas, x, y + 66, 13, CANVAS_END, PALETTE_TEXT, gradient, 3);
    }
    qkv_free(w);
    return y + 80;
}

static double draw_scale(struct steps *g, double left, double y)
{
    static const char why[] =
        "With a smaller divisor one key gets all the weight: the softmax saturates and its "
        "gradient vanishes. With a larger one the weights become uniform.";
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    canvas_format(canvas, left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, "What the scale is for");
    y = canvas_fold(canvas, left, y + 22, SIDE - 44, 15, CANVAS_SERIF, PALETTE_TEXT2, why, 21);
    struct curve c = { left, y + 2, SIDE - 30, 200,
                       (int)fmax(6, ceil(log2(fmax((double)s->E, s->own)))) };
    for (int i = 0; i <= 2; i++) {
        const double level = c.top + c.tall * (2 - i) / 2;
        canvas_line(canvas, left, level, left + c.wide, level, PALETTE_RULE, 1);
        canvas_format(canvas, left + SIDE, level + 4, 11, CANVAS_END, PALETTE_TEXT3, "%s",
                      i == 2 ? "1"
                      : i    ? ".5"
                             : "0");
    }
    for (int e = -1; e <= c.high; e++) {
        if (e < 0)
            canvas_format(canvas, curve_x(&c, .5), c.top + c.tall + 16, 11, 0, PALETTE_TEXT3, "½");
        else
            canvas_format(canvas, curve_x(&c, exp2(e)), c.top + c.tall + 16, 11, CANVAS_MIDDLE,
                          PALETTE_TEXT3, "%.0f", exp2(e));
    }
    draw_curves(g, &c);
    const double x = curve_x(&c, fmin(exp2(c.high), fmax(.5, s->own)));
    canvas_line(canvas, x, c.top - 6, x, c.top + c.tall, PALETTE_HOT, 1);
    if (!score_masked(s, g->key)) {
        const double dot = c.top + (1 - s->w[g->key]) * c.tall;
        struct view_text t = { 0 };
        canvas_dot(canvas, x, dot, 4, PALETTE_HOT, PALETTE_PAPER, 1);
        view_token_text(&t, &g->p->v->shape.key[g->key], g->p->v->shape.key[g->key].special);
        view_say(&t, " ");
        view_weight(&t, s->w[g->key], 2);
        canvas->failed |= t.failed;
        if (t.at)
            canvas_cut(canvas, x + 8, fmax(c.top + 10, dot - 8), 13, CANVAS_BOLD, PALETTE_TEXT,
                       t.at, (size_t)t.used, left + SIDE - x - 8);
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
    *head = p->st.selected ? p->st.head[0] : 0;
    // find the selected head with the largest weight on the key
    for (int64_t i = 0; i < p->st.selected; i++) {
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
    view_say(&title, " attend to ");
    view_quote(&title, &p->v->shape.key[g->key]);
    view_say(&title, "?");
    view_say(&t, "Layer %" PRId64 ", head %" PRId64 ", %" PRId64 " dimensions per vector. ",
             s->layer, s->head, s->E);
    view_quote(&t, &p->v->shape.key[g->key]);
    if (score_masked(s, g->key)) {
        view_say(&t, " is masked: its weight is 0.");
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
    canvas_new(&g->p->canvas, FULL + GAP + SIDE + 2 * PICTURE_MARGIN, title.at, t.at);
    g->p->canvas.failed |= title.failed || t.failed;
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
    const double head = canvas_head(&g->p->canvas, g->left) + 14;
    const double tall = fmax(20, fmin(34, 660 / (double)qkv_max64(1, g->lines)));
    draw_heads(g, head);
    draw_query(g, head + 32, x);
    double y = head + 32 + ASK + 26;
    static const struct {
        double x;
        const char *text;
    } names[] = { { 92, "key k" },
                  { 258, "product of q and k" },
                  { 712, "thin line: without the scale" },
                  { 880, "value v, shaded by its weight" } };
    for (int i = 0; i < (s->F ? 4 : 3); i++)
        canvas_format(&g->p->canvas, g->left + names[i].x, y - 8, 11, 0, PALETTE_TEXT2, "%s",
                      names[i].text);
    for (int i = 0; i < g->lines; i++, y += tall) draw_key(g, &g->line[i], y, tall, x);
    draw_sum(g, y);
    g->p->canvas.height = fmax(y + 60, draw_scale(g, g->left + FULL + GAP, head - 6) + 20);
}

qkv_status picture_steps(struct picture *p, qkv_error *err)
{
    struct steps g = { .p = p, .left = PICTURE_MARGIN };
    int64_t head;
    g.key = picture_pair(p, &head);
    const qkv_status status = score_of(&g.s, p->v, p->st.layer, head, p->st.token, err);
    if (status) return status;
    double *x = qkv_alloc((size_t)qkv_max64(g.s.E, g.s.F) + 1, sizeof *x);
    g.z = qkv_alloc((size_t)g.s.F + 1, sizeof *g.z);
    g.lines = score_lines(g.line, &g.s, g.key);
    begin(&g);
    if (x && g.z)
        draw_all(&g, x);
    else
        p->canvas.failed = true;
    qkv_free(x);
    qkv_free(g.z);
    score_free(&g.s);
    return QKV_OK;
}
