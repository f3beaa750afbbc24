// SPDX-License-Identifier: MIT
// picture_steps.c: draws "How does this word attend to that one?": the six steps of attention for
// one query and every key, with the numbers of the model.  Positions and sizes are as in
// web/views/steps.js at a width of 1,040 pixels.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    FULL = 1040,
    GAP = 28,
    PROJECT = 36, // height of a row of the projections
};
// x coordinates of the columns: right ends of names and numbers, left ends of bars
struct picture_columns {
    double name, key, equals, x, x_wide, times, matrix, matrix_wide, note;
    double product, bars, score, scaled, exp, weight, w, w_wide, value, sum, value_wide;
};
static const struct picture_columns free_columns = { 84,  96,  221, 240, 190, 446, 464,
                                                     132, 610, 222, 110, 394, 476, 574,
                                                     636, 646, 96,  762, 908, 126 },
                                    page_columns = { 66,  74,  170, 185, 148, 346, 360,
                                                     116, 484, 172, 86,  306, 370, 446,
                                                     494, 502, 74,  592, 706, 98 },
                                    // without keys, exp and sums of each row, and without notes
    column_columns = { 66, 72,  122, 130, 84,  224, 234, 146, 0,   72,
                       40, 174, 237, 0,   282, 287, 25,  318, 318, 62 };

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

// A vector of the picture.
enum vector { QUERY, KEY, PRODUCT, VALUE, WEIGHED };
// Copies a vector for a key to `to`: the query; the key, its products with the query; its value,
// and that value times its weight.
static void copy_vector(double *to, const struct score *s, enum vector what, int64_t key)
{
    const double w = what == WEIGHED ? s->w[key] : 1;
    if (what >= VALUE)
        for (int64_t e = 0; e < s->F; e++) to[e] = w * (double)s->value[key * s->F + e];
    else
        for (int64_t e = 0; e < s->E; e++)
            to[e] = what == QUERY ? (double)s->q[e]
                                  : score_k(s, key, e) * (what == PRODUCT ? (double)s->q[e] : 1);
}

static void put_text(struct picture_score *g, double x, double y, int size, unsigned how, int color,
                     struct view_text *t, double width)
{
    g->p->canvas.failed |= t->failed;
    if (t->at) canvas_cut(&g->p->canvas, x, y, size, how, color, t->at, (size_t)t->used, width);
    view_text_free(t);
}

// ---- the headings of the six steps --------------------------------------------------------------
// Draws the headings of steps `from` to `to`.
static void draw_heads(struct picture_score *g, double y, int from, int to)
{
    const bool column = g->p->column, narrow = g->p->wide > 0;
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    struct view_text by = { 0 };
    const bool masked = s->span.to - s->span.from < s->S;
    view_say(&by, "÷ ");
    score_root(&by, s);
    const char *const names[6] = { "Project", "Score", masked && !narrow ? "Scale, mask" : "Scale",
                                   "Softmax", "Weigh", "Sum" };
    const char *const under[6] = {
        "W_Q, W_K, W_V", "q · k = Σ q ∘ k", by.at ? by.at : "", "exp(s − max) / sum",
        "w v",           "z = Σ w v"
    };
    const double x[7] = { column ? 0 : g->at->key,
                          g->at->product,
                          g->at->scaled - (column   ? 74
                                           : narrow ? 60
                                                    : 72),
                          column ? g->at->scaled - 7 : g->at->exp - 52,
                          g->at->value,
                          column ? 0 : g->at->sum,
                          g->full };
    for (int i = from - 1; i < to; i++) {
        canvas_format(canvas, g->left + x[i], y + 4, 22, CANVAS_SERIF, PALETTE_TEXT2, "%d", i + 1);
        canvas_cut(canvas, g->left + x[i] + 17, y, 13, CANVAS_BOLD, PALETTE_TEXT, names[i],
                   strlen(names[i]), column && (i == 0 || i >= 4) ? 60 : x[i + 1] - x[i] - 19);
        if (g->p->wide > 0) continue;
        canvas_format(canvas, g->left + x[i] + 17, y + 17, 12, CANVAS_SERIF | CANVAS_ITALIC,
                      PALETTE_TEXT2, "%s", under[i]);
    }
    canvas->failed |= by.failed;
    view_text_free(&by);
}

// ---- step 1: three projections ------------------------------------------------------------------
// Draws one row: a vector of a token = the input row of the token, times one of the three matrices.
static void draw_projection(struct picture_score *g, double y, enum vector what, double *x)
{
    static const char *const names[] = { [QUERY] = "Q", [KEY] = "K", [VALUE] = "V" };
    const struct score *s = &g->s;
    const struct view_shape *shape = &g->p->v->shape;
    struct canvas *canvas = &g->p->canvas;
    const bool query = what == QUERY;
    const int64_t wide = what == VALUE ? s->F : s->E, D = shape->width;
    const double mid = y + PROJECT / 2.0;
    const float *rows = g->p->v->layer[s->layer].x;
    struct view_text t = { 0 };
    picture_name(canvas, g->p->v, query ? s->row : g->key, !query, g->left + g->at->name, mid + 5,
                 14, CANVAS_END | CANVAS_BOLD, PALETTE_TEXT, g->at->name - 4);
    copy_vector(x, s, what, g->key);
    picture_bars(canvas, x, wide, g->left + g->at->key, mid, g->at->bars, PROJECT - 6,
                 what == VALUE ? g->most_v : g->most_k, 1);
    canvas_format(canvas, g->left + g->at->equals, mid + 4, 13, CANVAS_MIDDLE, PALETTE_TEXT2, "=");
    if (rows && (query || !view_across(g->p->v))) {
        const float *row = rows + (query ? s->row : g->key) * D;
        for (int64_t d = 0; d < D; d++) x[d] = (double)row[d];
        picture_bars(canvas, x, D, g->left + g->at->x, mid, g->at->x_wide, PROJECT - 6,
                     largest(0, x, D), .75);
    } else {
        canvas_format(canvas, g->left + g->at->x, mid + 4, 12, CANVAS_SERIF | CANVAS_ITALIC,
                      PALETTE_TEXT2, "x");
    }
    canvas_format(canvas, g->left + g->at->times, mid + 4, 13, CANVAS_MIDDLE, PALETTE_TEXT2, "×");
    canvas_frame(canvas, g->left + g->at->matrix, mid - 12, g->at->matrix_wide, 24, PALETTE_TEXT2,
                 1);
    view_say(&t, "W_%s", names[what]);
    if (D) view_say(&t, "  %" PRId64 " × %" PRId64, D, wide);
    put_text(g, g->left + g->at->matrix + g->at->matrix_wide / 2, mid + 4, 12, CANVAS_MIDDLE,
             PALETTE_TEXT, &t, g->at->matrix_wide - 8);
    const bool cross = strcmp(shape->name, "cross") == 0;
    if (!(g->at->note > 0)) return;
    view_say(&t, what == QUERY
                     ? cross ? "q = x W_Q, the query that writes " : "q = x W_Q, the query of "
                 : what == KEY ? "k = x W_K, the key of "
                               : "v = x W_V, the value of ");
    if (query)
        view_quote_row(&t, g->p->v, s->row);
    else
        view_quote_key(&t, g->p->v, g->key);
    view_say(&t, query ? ": it is multiplied with every key" : ": every token has one");
    put_text(g, g->left + g->at->note, mid + 4, 12, 0, PALETTE_TEXT2, &t,
             g->full - g->at->note - 4);
}

// ---- steps 2 to 6: a row for each key -----------------------------------------------------------
// Adds the weighed values of a line of keys to the sum so far.
static void add_values(struct picture_score *g, const struct score_line *l)
{
    const struct score *s = &g->s;
    for (int64_t j = l->key < 0 ? l->from : l->key, n = 0; n < l->n; n++, j++)
        for (int64_t e = 0; e < s->F; e++) g->z[e] += s->w[j] * (double)s->value[j * s->F + e];
}

static void draw_folded(struct picture_score *g, const struct score_line *l, double mid,
                        double tall)
{
    struct view_text t = { 0 };
    view_say(&t, "… ");
    view_count(&t, l->n);
    view_say(&t, l->masked ? " keys masked" : " keys: ");
    if (!l->masked) view_weight(&t, l->w, 3);
    put_text(g, g->left + g->at->key, mid + 4, 12, 0, PALETTE_TEXT2, &t,
             g->at->scaled - 60 - g->at->key);
    if (l->masked)
        canvas_hatch(&g->p->canvas, g->left + g->at->scaled - 52, mid - tall / 2 + 3,
                     g->at->weight - g->at->scaled + 52, tall - 6);
}

static void draw_values(struct picture_score *g, const struct score_line *l, double mid,
                        double high, double *x)
{
    struct canvas *canvas = &g->p->canvas;
    if (!g->s.F) return;
    copy_vector(x, &g->s, VALUE, l->key);
    picture_bars(canvas, x, g->s.F, g->left + g->at->value, mid, g->at->value_wide, high, g->most_v,
                 .25);
    copy_vector(x, &g->s, WEIGHED, l->key);
    picture_bars(canvas, x, g->s.F, g->left + g->at->value, mid, g->at->value_wide, high, g->most_v,
                 1);
    if (!g->p->column)
        picture_bars(canvas, g->z, g->s.F, g->left + g->at->sum, mid, g->at->value_wide, high,
                     g->most_v, .6);
}

static void draw_key(struct picture_score *g, const struct score_line *l, double y, double tall,
                     double *x)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    const int64_t j = l->key;
    const bool on = j == g->key;
    const unsigned how = CANVAS_END | (on ? CANVAS_BOLD : 0);
    const double mid = y + tall / 2, high = fmin(tall * 1.15, 40), text = mid + 4.5;
    add_values(g, l);
    if (j < 0) {
        draw_folded(g, l, mid, tall);
        return;
    }
    if (on) canvas_box(canvas, g->left, y + 1, g->full, tall - 2, PALETTE_MARK);
    picture_name(canvas, g->p->v, j, true, g->left + g->at->name, mid + 5, 14, how,
                 on ? PALETTE_TEXT : PALETTE_TEXT2, g->at->name - 4);
    copy_vector(x, s, KEY, j);
    if (!g->p->column)
        picture_bars(canvas, x, s->E, g->left + g->at->key, mid, g->at->bars, high, g->most_k, .75);
    copy_vector(x, s, PRODUCT, j);
    picture_bars(canvas, x, s->E, g->left + g->at->product, mid, g->at->bars, high, g->most_p, 1);
    picture_number(canvas, g->left + g->at->score, text, 13, how, PALETTE_TEXT, s->dot[j], 2);
    if (l->masked) {
        const double from = g->left + g->at->scaled - 52, wide = g->at->weight - g->at->scaled + 52;
        canvas_hatch(canvas, from, y + 3, wide, tall - 6);
        canvas_format(canvas, from + wide / 2, mid + 4, 12, CANVAS_MIDDLE, PALETTE_TEXT2, "masked");
        return;
    }
    const double score = score_at(s, j, s->own);
    picture_number(canvas, g->left + g->at->scaled, text, 13, how, PALETTE_TEXT, score, 2);
    if (g->at->exp > 0)
        picture_weight(canvas, g->left + g->at->exp, text, 13, how, PALETTE_TEXT2,
                       exp(score - g->top), 3);
    picture_weight(canvas, g->left + g->at->weight, text, 13, how, PALETTE_TEXT, s->w[j], 3);
    canvas_box(canvas, g->left + g->at->w, mid - fmin(6, tall * .2),
               fmax(.8, s->w[j] * g->at->w_wide), fmin(12, tall * .4),
               palette_weight(fmax(.12, s->w[j])));
    if (s->bare[j] * g->at->w_wide > .6 && !g->p->column)
        canvas_box(canvas, g->left + g->at->w, mid + fmin(8, tall * .26),
                   s->bare[j] * g->at->w_wide, 2, PALETTE_HOT);
    draw_values(g, l, mid, high, x);
}

static void draw_sum(struct picture_score *g, double y)
{
    const struct score *s = &g->s;
    struct canvas *canvas = &g->p->canvas;
    const int64_t hidden = s->S - (s->span.to - s->span.from);
    const double text = y + 28.5,
                 lower = g->p->column ? 38 : 0; // a column has z on a line of its own
    double all = 0;
    for (int64_t j = 0; j < s->S; j++) all += s->w[j];
    canvas_line(canvas, g->left, y + 4, g->left + g->full, y + 4, PALETTE_TEXT, 1.2);
    struct view_text t = { 0 };
    if (hidden)
        view_say(&t, "%" PRId64 " of %" PRId64 " keys are masked", hidden, s->S);
    else
        view_say(&t, "no mask: all keys are used");
    const double from = g->p->column ? 0 : g->at->key;
    put_text(g, g->left + from, text, 12, 0, PALETTE_TEXT2, &t, g->at->scaled - 4 - from);
    if (g->at->exp > 0) {
        canvas_format(canvas, g->left + g->at->scaled, text, 12, CANVAS_END, PALETTE_TEXT2, "sum");
        picture_number(canvas, g->left + g->at->exp, text, 13, CANVAS_END | CANVAS_BOLD,
                       PALETTE_TEXT, g->exp_sum, 3);
    }
    picture_weight(canvas, g->left + g->at->weight, text, 13, CANVAS_END | CANVAS_BOLD,
                   PALETTE_TEXT, all, 3);
    if (!s->F) {
        canvas_format(canvas, g->left + g->full, text + lower, 11, CANVAS_END, PALETTE_TEXT3,
                      "the view does not contain the values of this layer");
        return;
    }
    if (lower > 0) draw_heads(g, text + lower - 4, 6, 6);
    canvas_format(canvas, g->left + g->at->sum - 12, text + lower, 13, CANVAS_END | CANVAS_BOLD,
                  PALETTE_TEXT, lower > 0 ? "z" : "output z");
    picture_bars(canvas, g->z, s->F, g->left + g->at->sum, y + 24 + lower, g->at->value_wide, 40,
                 g->most_v, 1);
}

// ---- the picture --------------------------------------------------------------------------------
static void begin(struct picture_score *g)
{
    const struct picture *p = g->p;
    const struct score *s = &g->s;
    struct view_text title = { 0 }, t = { 0 };
    score_say_question(&title, s, g->key, "How does ");
    view_say(&t, "Layer %" PRId64 ", head %" PRId64 ", %" PRId64 " dimensions per vector. ",
             s->layer, s->head, s->E);
    view_quote_key(&t, p->v, g->key);
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
        double sum;
        const double top = score_top(&sum, s);
        score_say_softmax(&t, s, g->key, top, sum);
        view_say(&t, ".");
    }
    canvas_new(&g->p->canvas, picture_wide(p, FULL + GAP + PICTURE_SIDE) + 2 * p->margin, title.at,
               t.at);
    g->p->canvas.failed |= title.failed || t.failed;
    view_text_free(&title);
    view_text_free(&t);
}

// Finds the largest numbers of the vectors that are drawn, to which their bars are scaled.
static void measure(struct picture_score *g, double *x)
{
    const struct score *s = &g->s;
    copy_vector(x, s, QUERY, 0);
    g->most_k = largest(0, x, s->E);
    for (int i = 0; i < g->lines; i++) {
        const int64_t j = g->line[i].key;
        if (j < 0) continue;
        copy_vector(x, s, KEY, j);
        g->most_k = largest(g->most_k, x, s->E);
        copy_vector(x, s, PRODUCT, j);
        g->most_p = largest(g->most_p, x, s->E);
        if (s->F) copy_vector(x, s, VALUE, j);
        if (s->F) g->most_v = largest(g->most_v, x, s->F);
    }
    g->top = score_top(&g->exp_sum, s);
}

static void draw_all(struct picture_score *g, double *x)
{
    measure(g, x);
    const double head = canvas_head(&g->p->canvas, g->left) + 14;
    const double tall = fmax(20, fmin(34, 660 / (double)qkv_max64(1, g->lines)));
    const bool column = g->p->column;
    double y = head + (g->p->wide > 0 ? 18 : 32);
    draw_heads(g, head, 1, column ? 1 : 6);
    canvas_box(&g->p->canvas, g->left, y, g->full, PROJECT, PALETTE_MARK);
    draw_projection(g, y, QUERY, x);
    draw_projection(g, y += PROJECT, KEY, x);
    if (g->s.F) draw_projection(g, y += PROJECT, VALUE, x);
    y += PROJECT + 26;
    if (column) {
        draw_heads(g, y + 2, 2, g->s.F ? 5 : 4);
        y += 34;
    }
    const struct {
        double x;
        const char *text;
        bool column; // also in a column
    } names[] = { { g->at->key, "key k", false },
                  { g->at->product, "q ∘ k", true },
                  { g->at->w, "thin: no scale", false },
                  { g->at->value, "pale: v", true },
                  { g->at->sum, "sum so far", false } };
    for (int i = 0; i < (g->s.F ? 5 : 3); i++)
        if (!column || names[i].column)
            canvas_format(&g->p->canvas, g->left + names[i].x, y - 8, 11, 0, PALETTE_TEXT2, "%s",
                          names[i].text);
    for (int i = 0; i < g->lines; i++, y += tall) draw_key(g, &g->line[i], y, tall, x);
    draw_sum(g, y);
    const double below = y + (column && g->s.F ? 96 : 60);
    y += picture_padding(g->p, g->left, below) - below;
    if (g->p->wide > 0)
        g->p->canvas.height =
            picture_scale_panel(g, g->left, y + (column && g->s.F ? 120 : 84)) + 10;
    else
        g->p->canvas.height =
            fmax(y + 60, picture_scale_panel(g, g->left + g->full + GAP, head - 6) + 20);
}

qkv_status picture_steps(struct picture *p, qkv_error *err)
{
    struct picture_score g = { .p = p, .left = p->margin, .full = picture_wide(p, FULL) };
    int64_t head;
    g.at = p->column ? &column_columns : p->wide > 0 ? &page_columns : &free_columns;
    g.key = view_pair_shown(&head, p->v, &p->st, p->key, p->row);
    const qkv_status status = score_of(&g.s, p->v, p->st.layer, head, p->st.token, err);
    if (status) return status;
    const int64_t most = qkv_max64(qkv_max64(g.s.E, g.s.F), p->v->shape.width);
    double *x = qkv_alloc((size_t)most + 1, sizeof *x);
    g.z = qkv_alloc_zero((size_t)g.s.F + 1, sizeof *g.z);
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
