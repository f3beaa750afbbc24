// SPDX-License-Identifier: MIT
// picture_matrix.c: draws "Where does this text attend to itself?" as a matrix: one row per query,
// one column per key. If several heads are selected, their mean is drawn. Up to 40 tokens, the
// matrix has names, and weights in hundredths; up to 256 tokens, one point per weight; for longer
// texts, one point for several weights.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    AREA = 776,
    NAMED = 40,
    POINTS = 256,
    CELL_MOST = 34,
    NAME = 110,
    NAME_NARROW = 84,
    NAMED_CELL = 14, // the names of the tokens need cells of this size
    TILTED = 60,     // the space that the name of the last key has to the right of its column
    TILT = 96,
    FIXED_SCALE = 128,
    WIDTH_LEAST = 680
};

struct field {
    struct picture *p;
    float *w; // [n][m] weight of each point; NaN: all weights of the point are masked
    int64_t n, m;
    bool pooled;
    double cell_w, cell_h, left, top, scale, name;
};

static void raise_to(float *at, float w)
{
    if (!(*at >= w)) *at = w;
}

// Computes the points of one head. A point is the largest of the weights that it represents; NaN:
// all of them are masked.
static void fill_head(float *to, const struct field *f, int64_t head)
{
    struct picture *p = f->p;
    const int64_t T = p->v->shape.tokens, S = p->v->shape.keys, layer = p->st.layer;
    const struct view_probe *k = &p->v->layer[layer].probe;
    for (int64_t i = 0; i < f->n * f->m; i++) to[i] = NAN;
    for (int64_t r = 0; r < (f->pooled ? T : p->row_count); r++) {
        const int64_t i = f->pooled ? r : p->rows[r];
        const struct view_span seen = view_span(p->v, layer, i);
        float *row = to + (f->pooled ? picture_point(r, f->n, T) : r) * f->m;
        view_row(p->row, p->v, layer, head, i);
        for (int64_t c = 0; c < (f->pooled ? S : p->key_count); c++) {
            const int64_t j = f->pooled ? c : p->keys[c];
            if (j >= seen.from && j < seen.to)
                raise_to(&row[f->pooled ? picture_point(c, f->m, S) : c], p->row[j]);
        }
    }
    if (view_whole(p->v, layer) || !f->pooled || !k->side || !k->max) return;
    // The blocks of the probe include weights that are not among the stored largest ones.
    for (int64_t r = 0; r < k->side; r++)
        for (int64_t c = 0; c < k->side; c++) {
            float *at =
                &to[picture_point(r, f->n, k->side) * f->m + picture_point(c, f->m, k->side)];
            const float w = k->max[(head * k->side + r) * k->side + c];
            if (*at == *at) raise_to(at, w);
        }
}

// Computes the mean over the selected heads, point by point, as the page does. The mean of rows
// that sum to 1 also sums to 1.
static void fill(struct field *f)
{
    struct picture *p = f->p;
    const int64_t n = f->n * f->m;
    float *one = p->st.selected > 1 ? qkv_alloc((size_t)n + 1, sizeof *one) : NULL;
    if (p->st.selected > 1 && !one) {
        p->canvas.failed = true;
        return;
    }
    for (int64_t i = 0; !p->st.selected && i < n; i++) f->w[i] = NAN;
    for (int64_t h = 0; h < p->st.selected; h++) {
        fill_head(h ? one : f->w, f, p->st.head[h]);
        for (int64_t i = 0; h && i < n; i++) f->w[i] += one[i];
    }
    for (int64_t i = 0; i < n; i++) f->w[i] /= (float)qkv_max64(1, p->st.selected);
    qkv_free(one);
}

static int color_of(const struct field *f, double w)
{
    return f->scale > 0 ? palette_ramp(sqrt(fmin(1, w / f->scale))) : palette_weight(w);
}

static void draw_cells(struct field *f)
{
    struct canvas *s = &f->p->canvas;
    const int64_t n = f->n * f->m;
    const double wide = f->cell_w * (double)f->m, tall = f->cell_h * (double)f->n;
    uint8_t *color = qkv_alloc((size_t)n + 1, 1);
    bool masked = false;
    if (!color) {
        s->failed = true;
        return;
    }
    for (int64_t i = 0; i < n; i++) {
        const double w = (double)f->w[i];
        masked |= w != w;
        color[i] = w != w ? CANVAS_BLANK : (uint8_t)(color_of(f, w) - PALETTE_RAMP);
    }
    if (masked) canvas_hatch(s, f->left, f->top, wide, tall);
    canvas_cells(s, f->left, f->top, f->cell_w, f->cell_h, f->cell_w >= 10 ? 1 : 0, color, f->n,
                 f->m);
    canvas_frame(s, f->left, f->top, wide, tall, PALETTE_RULE, 1);
    qkv_free(color);
}

// Writes the names of the tokens and, if the cells are large enough, the weights in hundredths;
// dense weights of the caller may be any numbers, of which large ones have no space.
static void draw_names(struct field *f)
{
    struct picture *p = f->p;
    for (int64_t r = 0; r < f->n; r++)
        picture_name(&p->canvas, p->v, p->rows[r], false, f->left - 8,
                     f->top + f->cell_h * ((double)r + .5) + 4.5, 13,
                     CANVAS_END | (p->marked && p->rows[r] == p->st.token ? CANVAS_BOLD : 0),
                     PALETTE_TEXT, f->name - 10);
    for (int64_t c = 0; c < f->m; c++)
        picture_name(&p->canvas, p->v, p->keys[c], true, f->left + f->cell_w * ((double)c + .5) + 4,
                     f->top - 7, 13, CANVAS_TILT, PALETTE_TEXT, TILT);
    for (int64_t i = 0; i < f->n * f->m && f->cell_w >= 18; i++) {
        const double w = (double)f->w[i];
        if (!(w >= .095 && w < 10)) continue;
        canvas_format(&p->canvas, f->left + f->cell_w * ((double)(i % f->m) + .5),
                      f->top + f->cell_h * ((double)(i / f->m) + .5) + 4, 11, CANVAS_MIDDLE,
                      palette_over(color_of(f, w)), "%d", (int)(100 * w + .5));
    }
}

// Writes the indices of tokens along the left and the upper side.
static void draw_numbers(struct field *f)
{
    struct picture *p = f->p;
    const int64_t T = f->pooled ? p->v->shape.tokens : f->n,
                  S = f->pooled ? p->v->shape.keys : f->m;
    int64_t step = 1;
    for (int k = 0; step * 8 < qkv_max64(T, S); k++) step = k % 3 == 1 ? step / 2 * 5 : step * 2;
    for (int side = 0; side < 2; side++)
        for (int64_t i = 0; i < (side ? S : T); i += step) {
            const double part = (double)i / (double)(side ? S : T);
            const int64_t token = f->pooled ? i : side ? p->keys[i] : p->rows[i];
            struct view_text t = { 0 };
            view_count(&t, token);
            p->canvas.failed |= t.failed;
            if (t.at)
                canvas_text(&p->canvas,
                            side ? f->left + part * f->cell_w * (double)f->m : f->left - 6,
                            side ? f->top - 6 : f->top + part * f->cell_h * (double)f->n + 9, 11,
                            side ? 0 : CANVAS_END, PALETTE_TEXT3, t.at, (size_t)t.used);
            view_text_free(&t);
        }
}

// Writes the largest cell of the marked row, the mean of the selected heads.
static void describe_marked(struct view_text *t, const struct picture *p)
{
    int64_t best = -1;
    double most = 0;
    for (int64_t j = 0; j < p->v->shape.keys; j++) {
        double sum = 0;
        if (!view_key_shown(p->v, &p->st, j)) continue;
        for (int64_t h = 0; h < p->st.selected; h++) {
            view_row(p->row, p->v, p->st.layer, p->st.head[h], p->st.token);
            sum += (double)p->row[j] / (double)p->st.selected;
        }
        if (best < 0 || sum > most) best = j, most = sum;
    }
    if (best < 0) return;
    view_say(t, " On this mean ");
    view_quote_row(t, p->v, p->st.token);
    view_say(t, " attends most to ");
    view_quote_key(t, p->v, best);
    view_say(t, ": ");
    view_weight(t, most, 2);
    view_say(t, ".");
}

static void describe_finding(struct view_text *t, const struct picture *p)
{
    const struct view_stats *x = view_stats(p->v, p->st.layer, p->st.selected ? p->st.head[0] : 0);
    if (p->marked && p->st.selected == 1) {
        view_sentence(t, p->v, &p->st);
        return;
    }
    view_say(t, "In layer %" PRId64 ", head%s", p->st.layer, p->st.selected == 1 ? "" : "s");
    for (int64_t i = 0; i < p->st.selected; i++)
        view_say(t, "%s %" PRId64, i ? "," : "", p->st.head[i]);
    if (p->st.selected > 1) {
        view_say(t, ": each cell is the mean of these heads.");
        if (p->marked) describe_marked(t, p);
        return;
    }
    view_say(t, view_across(p->v) ? " attends to " : " attends ");
    if (!view_across(p->v)) {
        view_number(t, (double)x->distance, 1);
        view_say(t, " tokens away on average, to ");
    }
    view_number(t, (double)x->keys, 1);
    view_say(t, " effective keys per row.");
}

static void draw_legend_text(struct field *f, double y)
{
    struct picture *p = f->p;
    struct view_text t = { 0 };
    uint8_t color[33];
    const double indent = p->column ? 0 : 150;
    for (int i = 0; i < 33; i++) {
        const double x = (double)i / 32;
        color[i] = (uint8_t)((f->scale > 0 ? palette_ramp(x) : palette_weight(x)) - PALETTE_RAMP);
    }
    canvas_format(&p->canvas, f->left, y + 9, 11, 0, PALETTE_TEXT3, "0");
    canvas_cells(&p->canvas, f->left + 12, y, 4, 10, 0, color, 1, 33);
    view_weight(&t, f->scale > 0 ? f->scale : 1, f->scale > 0 ? 3 : 0);
    if (f->scale > 0) view_say(&t, " and more; darkness is the square root of the weight");
    if (p->column) {
        // the words have a line of their own
        y = canvas_fold(&p->canvas, f->left + 150, y + 9,
                        p->canvas.width - f->left - 150 - p->margin, 11, 0, PALETTE_TEXT3,
                        t.at ? t.at : "", 15) -
            7;
        p->canvas.failed |= t.failed;
        view_text_free(&t);
        t = (struct view_text){ 0 };
    }
    view_say(&t, "%srows: queries, columns: keys", p->column ? "" : "   ");
    for (int64_t i = 0; p->st.selected > 1 && i < p->st.selected; i++)
        view_say(&t, "%s %" PRId64, i ? "," : "; mean of the heads", p->st.head[i]);
    if (f->pooled) {
        view_say(&t, "; each point is the largest of ");
        view_number(&t, (double)p->v->shape.tokens / (double)f->n, 1);
        view_say(&t, " × ");
        view_number(&t, (double)p->v->shape.keys / (double)f->m, 1);
        view_say(&t, " weights");
    }
    if (!f->pooled && p->key_count < p->v->shape.keys)
        view_say(&t, "; special tokens are not shown");
    if (!f->pooled && p->key_padding)
        view_say(&t, "; hatched: masked, also the rows and columns of %" PRId64 " padding tokens",
                 p->key_padding);
    if (!view_whole(p->v, p->st.layer))
        view_say(&t, "; of each row, only the largest weights are stored");
    p->canvas.failed |= t.failed;
    if (t.at)
        p->canvas.height =
            canvas_fold(&p->canvas, f->left + indent, y + 9,
                        p->canvas.width - f->left - indent - (p->wide > 0 ? p->margin : 20), 11, 0,
                        PALETTE_TEXT3, t.at, 15) +
            8;
    view_text_free(&t);
}

qkv_status picture_matrix(struct picture *p, qkv_error *err)
{
    struct field f = { .p = p,
                       .n = p->row_count + p->row_padding,
                       .m = p->key_count + p->key_padding };
    struct view_text sentence = { 0 };
    describe_finding(&sentence, p);
    f.pooled = qkv_max64(f.n, f.m) > POINTS;
    if (f.pooled) {
        f.n = qkv_min64(POINTS, p->v->shape.tokens);
        f.m = qkv_min64(POINTS, p->v->shape.keys);
    }
    bool named = qkv_max64(f.n, f.m) <= NAMED;
    f.name = p->column ? NAME_NARROW : NAME;
    const double most = (double)qkv_max64(1, qkv_max64(f.n, f.m));
    if (p->wide > 0 && (p->wide - f.name - TILTED) / most < NAMED_CELL) named = false;
    const double area = p->wide > 0 ? p->wide - (named ? f.name + TILTED : 44) : AREA;
    f.cell_w = fmin(CELL_MOST, area / most);
    if (f.cell_w >= 3) f.cell_w = floor(f.cell_w);
    f.cell_h = f.cell_w;
    const double wide = fmax(WIDTH_LEAST, f.cell_w * (double)f.m + 2 * NAME);
    canvas_new(&p->canvas, p->wide > 0 ? p->wide + 2 * p->margin : wide,
               view_across(p->v) ? "Where does the output attend to the input?" : p->question,
               sentence.at);
    p->canvas.failed |= sentence.failed;
    view_text_free(&sentence);
    const double y = canvas_head(&p->canvas, p->margin);
    f.left = p->margin + (named ? f.name : 44);
    f.top = y + (named ? TILT * .8 : 12);
    f.w = qkv_alloc((size_t)(f.n * f.m) * 2 + 1, sizeof *f.w);
    if (!f.w) {
        p->canvas.failed = true;
        return QKV_OK;
    }
    fill(&f);
    if (p->v->shape.keys > FIXED_SCALE) {
        memcpy(f.w + f.n * f.m, f.w, (size_t)(f.n * f.m) * sizeof *f.w);
        f.scale = picture_scale(f.w + f.n * f.m, f.n * f.m);
    }
    draw_cells(&f);
    if (named)
        draw_names(&f);
    else
        draw_numbers(&f);
    draw_legend_text(&f, f.top + f.cell_h * (double)f.n + 12);
    qkv_free(f.w);
    (void)err;
    return QKV_OK;
}
