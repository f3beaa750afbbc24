// SPDX-License-Identifier: MIT
// picture_model.c: draws "What kinds of head does this model have?": every head as a small matrix
// (rows: queries, columns: keys). A strip left of each matrix shows the weight on special tokens; a
// bar shows the ablation effect: red and to the right of 0 or, if it is negative, blue and to the
// left.
#include "view/picture/picture_internal.h"
#include <inttypes.h>
#include <math.h>
#include <string.h>

enum {
    THUMB = 64,
    SIDE_NAMES = 58,
    STRIP = 5,
    FIXED_SCALE = 128,
    WIDE = 1028,
    SMALL = 48,
    SMALL_PRINTED = 20, // of a picture with a printed width, whose heads must fit
    TEXT_LEAST = 40,    // the kind of a head is only written below a matrix of this width
    NAME_LEAST = 66,    // and the name of the kind only below one of this width
    BIG = 72
};

// The small matrix of one head. If up to 64 tokens are shown, a point is one weight. If there are
// more, the matrix has 64 x 64 points, and a point is the largest of its weights.
struct thumb {
    float *cell;   // [n][m] weight of each point; NaN: all weights of the point are masked
    float *strip;  // [n]
    float *sorted; // [n][m] scratch
    int64_t n, m;
    bool pooled, specials;
    double scale; // the weight that is drawn darkest; 0: weights are drawn as they are
};
struct wall {
    struct picture *p;
    struct thumb t;
    double side, pitch, left, top, low_effect, high_effect; // low_effect <= 0 < high_effect
};

// ---- points -------------------------------------------------------------------------------------
static bool make_thumb(struct thumb *t, const struct picture *p)
{
    const int64_t T = p->v->shape.tokens, S = p->v->shape.keys;
    t->pooled = qkv_max64(T, S) > THUMB;
    t->n = t->pooled ? qkv_min64(THUMB, T) : p->row_count;
    t->m = t->pooled ? qkv_min64(THUMB, S) : p->key_count;
    t->specials = p->key_count < S || t->pooled;
    const size_t cells = (size_t)(t->n * t->m) + 1;
    t->cell = qkv_alloc(cells, sizeof *t->cell);
    t->sorted = qkv_alloc(cells, sizeof *t->sorted);
    t->strip = qkv_alloc((size_t)t->n + 1, sizeof *t->strip);
    return t->cell && t->sorted && t->strip;
}

static double to_specials(const struct picture *p)
{
    double sum = 0;
    for (int64_t j = 0; j < p->v->shape.keys; j++)
        if (p->v->shape.key[j].special && p->row[j] > 0) sum += (double)p->row[j];
    return sum;
}

static void fill_plain(struct thumb *t, struct picture *p, int64_t layer, int64_t head)
{
    for (int64_t r = 0; r < t->n; r++) {
        const struct view_span seen = view_span(p->v, layer, p->rows[r]);
        view_row(p->row, p->v, layer, head, p->rows[r]);
        for (int64_t c = 0; c < t->m; c++) {
            const int64_t j = p->keys[c];
            t->cell[r * t->m + c] = j < seen.from || j >= seen.to ? NAN : p->row[j];
        }
        t->strip[r] = (float)to_specials(p);
    }
}

static void fill_pooled(struct thumb *t, struct picture *p, int64_t layer, int64_t head)
{
    const int64_t T = p->v->shape.tokens, S = p->v->shape.keys;
    for (int64_t i = 0; i < t->n * t->m; i++) t->cell[i] = NAN;
    for (int64_t r = 0; r < t->n; r++) t->strip[r] = 0;
    const int64_t each = qkv_max64(1, qkv_ceil_div(T, t->n));
    for (int64_t i = 0; i < T; i++) {
        const struct view_span seen = view_span(p->v, layer, i);
        const int64_t r = picture_point(i, t->n, T);
        view_row(p->row, p->v, layer, head, i);
        for (int64_t j = seen.from; j < seen.to; j++) {
            float *at = &t->cell[r * t->m + picture_point(j, t->m, S)];
            if (!(*at >= p->row[j])) *at = p->row[j];
        }
        t->strip[r] += (float)(to_specials(p) / (double)each);
    }
}

static void fill_thumb(struct thumb *t, struct picture *p, int64_t layer, int64_t head)
{
    const int64_t T = p->v->shape.tokens, S = p->v->shape.keys;
    const struct view_probe *k = &p->v->layer[layer].probe;
    t->scale = 0;
    if (!t->pooled) {
        fill_plain(t, p, layer, head);
        return;
    }
    fill_pooled(t, p, layer, head);
    // the blocks of the probe include weights that are not among the stored largest ones
    if (!view_whole(p->v, layer) && k->side && k->max)
        for (int64_t r = 0; r < k->side; r++)
            for (int64_t c = 0; c < k->side; c++) {
                const float w = k->max[(head * k->side + r) * k->side + c];
                float *at = &t->cell[picture_point(r, t->n, k->side) * t->m +
                                     picture_point(c, t->m, k->side)];
                if (w > *at) *at = w;
            }
    memcpy(t->sorted, t->cell, (size_t)(t->n * t->m) * sizeof *t->sorted);
    if (qkv_max64(T, S) > FIXED_SCALE) t->scale = picture_scale(t->sorted, t->n * t->m);
}

// ---- a thumbnail --------------------------------------------------------------------------------
static void draw_thumb(struct wall *w, double x, double y, int kind)
{
    const struct thumb *t = &w->t;
    struct canvas *s = &w->p->canvas;
    uint8_t color[THUMB * THUMB];
    bool masked = false;
    const double side = w->side;
    for (int64_t i = 0; i < t->n * t->m; i++) {
        const double v = (double)t->cell[i];
        masked |= v != v;
        const double dark = sqrt(fmax(0, fmin(1, v / (t->scale > 0 ? t->scale : 1))));
        color[i] = v != v ? CANVAS_BLANK : (uint8_t)floor(dark * PALETTE_SHADES + .5);
    }
    if (masked) canvas_hatch(s, x, y, side, side);
    canvas_kind_cells(s, x, y, side / (double)t->m, side / (double)t->n, kind, color, t->n, t->m);
    canvas_frame(s, x, y, side, side, PALETTE_RULE, 1);
    if (!t->specials) return;
    for (int64_t r = 0; r < t->n; r++)
        color[r] = (uint8_t)(palette_weight((double)t->strip[r]) - PALETTE_RAMP);
    canvas_cells(s, x - STRIP, y, 3.4, side / (double)t->n, 0, color, t->n, 1);
}

// Writes the sign, the name and the strength of a kind. brief: without the name; the legend has it.
static void describe_kind(struct view_text *t, const struct view_stack *v,
                          const struct view_stats *x, bool brief)
{
    if (x->kind >= VIEW_KINDS) return;
    view_say(t, "%s ", view_kind_table[x->kind].glyph);
    if (x->kind == VIEW_VERTICAL)
        view_name_key(t, v, x->word);
    else if (!brief)
        view_say(t, "%s", x->kind == VIEW_SAME ? "same" : view_kind_table[x->kind].name);
    if (x->kind == VIEW_OTHER) return;
    if (!brief || x->kind == VIEW_VERTICAL) view_say(t, " ");
    view_weight(t, (double)x->strength, x->strength >= .995f ? 1 : 2);
}

static void draw_head(struct wall *w, int64_t layer, int64_t head)
{
    struct picture *p = w->p;
    const double x = w->left + SIDE_NAMES + (double)head * w->pitch + STRIP;
    const double y = w->top + (double)layer * (w->side + 34);
    struct view_text t = { 0 };
    fill_thumb(&w->t, p, layer, head);
    draw_thumb(w, x, y, (int)view_stats(p->v, layer, head)->kind);
    describe_kind(&t, p->v, view_stats(p->v, layer, head), w->pitch < NAME_LEAST);
    p->canvas.failed |= t.failed;
    if (t.at && w->pitch >= TEXT_LEAST)
        canvas_cut(&p->canvas, x - STRIP, y + w->side + 12,
                   canvas_small(&p->canvas, w->side >= 56 ? 10 : 9), 0, PALETTE_TEXT2, t.at,
                   (size_t)t.used, w->pitch - 3);
    view_text_free(&t);
    if (!p->v->effects.value) return;
    const double e = (double)p->v->effects.value[layer * p->v->shape.heads + head];
    const double scale = w->side / (w->high_effect - w->low_effect);
    canvas_box(&p->canvas, x, y + w->side + 17, w->side, 3, PALETTE_RULE);
    canvas_box(&p->canvas, x + scale * (fmin(0, e) - w->low_effect), y + w->side + 17,
               scale * fabs(e), 3, e < 0 ? PALETTE_POS : PALETTE_HOT);
}

static void draw_names(struct wall *w)
{
    const struct view_shape *k = &w->p->v->shape;
    struct canvas *s = &w->p->canvas;
    canvas_format(s, w->left, w->top - 10, 11, 0, PALETTE_TEXT2, "layer");
    for (int64_t h = 0; h < k->heads; h++)
        canvas_format(s, w->left + SIDE_NAMES + STRIP + (double)h * w->pitch + w->side / 2,
                      w->top - 10, 11, CANVAS_MIDDLE, PALETTE_TEXT2,
                      w->pitch > 40 && !h ? "head %" PRId64 : "%" PRId64, h);
    for (int64_t l = 0; l < k->layers; l++) {
        const double y = w->top + (double)l * (w->side + 34) + fmax(w->side / 2, 16);
        double keys = 0;
        for (int64_t h = 0; h < k->heads; h++)
            keys += (double)view_stats(w->p->v, l, h)->keys / (double)k->heads;
        struct view_text t = { 0 };
        canvas_format(s, w->left, y, 22, CANVAS_SERIF, PALETTE_TEXT, "%" PRId64, l);
        view_number(&t, keys, 1);
        view_say(&t, " keys");
        s->failed |= t.failed;
        if (t.at)
            canvas_text(s, w->left, y + 16, canvas_small(s, 10), 0, PALETTE_TEXT3, t.at,
                        (size_t)t.used);
        view_text_free(&t);
    }
}

// ---- words --------------------------------------------------------------------------------------
static void describe_counts(struct view_text *t, const struct view_stack *v)
{
    const int64_t all = v->shape.layers * v->shape.heads;
    int64_t n[VIEW_KINDS + 1] = { 0 };
    for (int64_t i = 0; i < all; i++) n[v->stats[i].kind]++;
    const struct {
        int64_t n;
        const char *what;
    } rows[] = { { n[VIEW_PREVIOUS] + n[VIEW_NEXT], "a neighbour" },
                 { n[VIEW_ITSELF], "the token itself" },
                 { n[VIEW_SAME], "the same word" },
                 { n[VIEW_VERTICAL], "one token" },
                 { n[VIEW_INDUCTION], "the token after an earlier copy" },
                 { n[VIEW_DIFFUSE], "all tokens about equally" },
                 { n[VIEW_SINK], "almost only special tokens" } };
    enum { ROWS = sizeof rows / sizeof *rows };
    int told = 0, said = 0;
    for (int i = 0; i < ROWS; i++) told += rows[i].n > 0;
    if (!told && n[VIEW_OTHER]) {
        view_say(t, "No measure of a kind of head is above its threshold on this text.");
        return;
    }
    if (!told) {
        view_count(t, all);
        view_say(t, " heads; the kinds of head are only measured for texts of at least 8 tokens.");
        return;
    }
    view_say(t, "Of ");
    view_count(t, all);
    view_say(t, all == 1 ? " head, " : " heads, ");
    for (int i = 0; i < ROWS; i++) {
        if (!rows[i].n) continue;
        view_say(t, !said ? "" : said == told - 1 ? " and " : ", ");
        view_count(t, rows[i].n);
        view_say(t,
                 said             ? " to %s"
                 : rows[i].n == 1 ? " attends to %s"
                                  : " attend to %s",
                 rows[i].what);
        said++;
    }
    if (n[VIEW_OTHER]) {
        view_say(t, "; ");
        view_count(t, n[VIEW_OTHER]);
        view_say(t, n[VIEW_OTHER] == 1 ? " is of no kind" : " are of no kind");
    }
    view_say(t, ".");
}

static void describe_ablation(struct view_text *t, const struct view_stack *v, double *low,
                              double *high)
{
    const int64_t all = v->shape.layers * v->shape.heads;
    int64_t best = 0;
    *low = 0;
    *high = 1e-12;
    if (!v->effects.value) return;
    for (int64_t i = 0; i < all; i++) {
        *low = fmin(*low, (double)v->effects.value[i]);
        *high = fmax(*high, (double)v->effects.value[i]);
        if (v->effects.value[i] > v->effects.value[best]) best = i;
    }
    view_say(t, " Ablating layer %" PRId64 ", head %" PRId64 " has the largest effect: ",
             best / v->shape.heads, best % v->shape.heads);
    const double effect = (double)v->effects.value[best];
    view_say(t, "%s", effect < 0 ? "−" : "");
    view_weight(t, fabs(effect), fabs(effect) < .01 ? 4 : 3);
    if (v->effects.unit) view_say(t, " (%s)", v->effects.unit);
    view_say(t, ".");
}

// Names the colours of the kinds that the model has. Returns the y coordinate below them.
static double draw_kinds(struct wall *w, double y)
{
    const struct view_stack *v = w->p->v;
    struct canvas *s = &w->p->canvas;
    enum { EACH = 116 };
    const double from = w->left + SIDE_NAMES;
    double x = from;
    bool any = false;
    for (int k = 0; k < VIEW_KINDS; k++) {
        int64_t n = 0;
        for (int64_t i = 0; i < v->shape.layers * v->shape.heads; i++)
            n += v->stats[i].kind == (enum view_kind)k;
        if (!n) continue;
        if (any && x + EACH > s->width - w->left) x = from, y += 18;
        canvas_box(s, x, y, 10, 10, palette_kind(k));
        canvas_format(s, x + 15, y + 9, 11, 0, PALETTE_TEXT2, "%s %s %" PRId64,
                      view_kind_table[k].glyph, view_kind_table[k].name, n);
        x += EACH;
        any = true;
    }
    return any ? y + 20 : y;
}

static void draw_legend_text(struct wall *w, double y)
{
    struct canvas *s = &w->p->canvas;
    uint8_t color[33];
    double x = w->left + SIDE_NAMES;
    for (int i = 0; i < 33; i++)
        color[i] = (uint8_t)floor(sqrt((double)i / 32) * PALETTE_SHADES + .5);
    y = draw_kinds(w, y);
    canvas_format(s, x, y + 9, 11, 0, PALETTE_TEXT3, "0");
    canvas_kind_cells(s, x + 12, y, 4, 10, VIEW_OTHER, color, 1, 33);
    y = canvas_fold(s, x + 150, y + 9, s->width - w->left - x - 150, 11, 0, PALETTE_TEXT3,
                    w->t.scale > 0
                        ? "each head on its own scale; a point is the largest weight of its block"
                        : "1   rows: queries, columns: keys",
                    15) -
        8;
    if (w->t.specials)
        y = canvas_fold(s, x, y + 9, s->width - w->left - x, 11, 0, PALETTE_TEXT3,
                        "strip at the left of a head: weight of each row on special tokens", 15) -
            8;
    y = picture_padding(w->p, x, y + 9) - 9;
    s->height = y + 14;
}

qkv_status picture_model(struct picture *p, qkv_error *err)
{
    const struct view_shape *k = &p->v->shape;
    struct wall w = { .p = p, .left = p->margin };
    struct view_text sentence = { 0 };
    describe_counts(&sentence, p->v);
    describe_ablation(&sentence, p->v, &w.low_effect, &w.high_effect);
    w.pitch = fmin(BIG + 12, fmax(p->wide > 0 ? SMALL_PRINTED : SMALL,
                                  (picture_wide(p, WIDE) - SIDE_NAMES) / (double)k->heads));
    w.side = w.pitch - STRIP - 6;
    canvas_new(&p->canvas,
               fmax(picture_wide(p, WIDE * .6), SIDE_NAMES + w.pitch * (double)k->heads) +
                   2 * p->margin,
               p->question, sentence.at);
    p->canvas.failed |= sentence.failed;
    view_text_free(&sentence);
    w.top = canvas_head(&p->canvas, w.left) + 22;
    if (!make_thumb(&w.t, p)) {
        p->canvas.failed = true;
    } else {
        draw_names(&w);
        for (int64_t l = 0; l < k->layers; l++)
            for (int64_t h = 0; h < k->heads && !p->canvas.failed; h++) draw_head(&w, l, h);
        draw_legend_text(&w, w.top + (double)k->layers * (w.side + 34));
    }
    qkv_free(w.t.cell);
    qkv_free(w.t.strip);
    qkv_free(w.t.sorted);
    (void)err;
    return QKV_OK;
}
