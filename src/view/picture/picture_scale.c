// SPDX-License-Identifier: MIT
// picture_scale.c: draws the panel next to the six steps that shows what the scale of the scores is
// for: the weight of each key as a curve over the divisor, and a table of three divisors.
#include "view/picture/picture_internal.h"
#include <math.h>

enum { CURVES = 40 };

struct curve {
    double left, top, wide, tall;
    int high; // the axis of divisors ends at 2^high
};
static double curve_x(const struct curve *c, double by)
{
    return c->left + (log2(by) + 1) / (c->high + 1) * c->wide;
}

static void draw_curves(struct picture_score *g, const struct curve *c)
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
            if (j < 0 || (j == g->key) != (own == 1) || score_masked(s, j)) continue;
            if (!own && drawn++ >= CURVES) continue;
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

// Writes the name of the curve next to its dot at (x, y): above it on the right, because the curve
// falls; below it on the left if the dot is at the top, where the curve is flat.
static void draw_curve_name(struct canvas *s, const struct curve *c, const struct view_text *t,
                            double x, double y)
{
    const bool top = y < c->top + 22, turn = top || x > c->left + .6 * c->wide;
    y += top ? 20 : -8;
    canvas_cut(s, x + (turn ? -8 : 8), y, 13, CANVAS_BOLD | (turn ? CANVAS_END : 0), PALETTE_TEXT,
               t->at, (size_t)t->used, turn ? x - 8 - c->left : c->left + c->wide - x - 8);
}

static double draw_divisors(struct picture_score *g, double left, double y)
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
    canvas_line(canvas, left, y + 7, left + PICTURE_SIDE, y + 7, PALETTE_RULE, 1);
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

double picture_scale_panel(struct picture_score *g, double left, double y)
{
    static const char why[] =
        "With a smaller divisor one key gets all the weight: the softmax saturates and its "
        "gradient vanishes. With a larger one the weights become uniform.";
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    canvas_format(canvas, left, y, 11, CANVAS_BOLD, PALETTE_TEXT2, "What the scale is for");
    y = canvas_fold(canvas, left, y + 22, PICTURE_SIDE - 44, 15, CANVAS_SERIF, PALETTE_TEXT2, why,
                    21);
    struct curve c = { left, y + 2, PICTURE_SIDE - 30, 200,
                       (int)fmax(6, ceil(log2(fmax((double)s->E, s->own)))) };
    for (int i = 0; i <= 2; i++) {
        const double level = c.top + c.tall * (2 - i) / 2;
        canvas_line(canvas, left, level, left + c.wide, level, PALETTE_RULE, 1);
        canvas_format(canvas, left + PICTURE_SIDE, level + 4, 11, CANVAS_END, PALETTE_TEXT3, "%s",
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
    canvas_format(canvas, left + PICTURE_SIDE, c.top - 9, 11, CANVAS_END, PALETTE_TEXT3, "weight");
    canvas_format(canvas, left + c.wide, c.top + c.tall + 31, 11, CANVAS_END, PALETTE_TEXT3,
                  "divide by");
    draw_curves(g, &c);
    const double x = curve_x(&c, fmin(exp2(c.high), fmax(.5, s->own)));
    canvas_line(canvas, x, c.top - 6, x, c.top + c.tall, PALETTE_HOT, 1);
    if (!score_masked(s, g->key)) {
        const double dot = c.top + (1 - s->w[g->key]) * c.tall;
        struct view_text t = { 0 };
        canvas_dot(canvas, x, dot, 4, PALETTE_HOT, PALETTE_PAPER, 1);
        view_name_key(&t, g->p->v, g->key);
        view_say(&t, " ");
        view_weight(&t, s->w[g->key], 2);
        canvas->failed |= t.failed;
        if (t.at) draw_curve_name(canvas, &c, &t, x, dot);
        view_text_free(&t);
        return draw_divisors(g, left, c.top + c.tall + 58);
    }
    return c.top + c.tall + 40;
}
